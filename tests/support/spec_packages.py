"""Packages made of specs for a test's sake: compiled fast, called on one instruction set, held against the interpreter."""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import os
import stat
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
from opwright.language import expr
from opwright.language.model import Op
from opwright.oracle import interpret

from .draws import best_and_another, one_of
from .spec_calls import Caller, Drawn, Rng

# A compiler that takes the least time: what is tested here is whether values are right. It says of itself that it is
# another one, so that its kernels never serve where speed counts. gcc 12 compiles a kernel of steps with -Og in 0.6 of
# the time of -O1, an engine in half of it, contractions in a third if it leaves loops as they are, which it then would
# unroll without simplifying them; a third of a small kernel's time is the header, which is read once. Matrix registers
# that this CPU lacks are emulated.
QUICK = """#!/bin/sh
[ "$1" = --version ] && echo "but hardly optimising" ${EMULATED_AMX:+"and emulating $(cksum < "$EMULATED_AMX")"}
cc=${CC_OF_TESTS:-cc}
for word do
  shift
  case $word in
    -O[123]) word=-Og ; [ -n "$HEADERS" ] && set -- "$@" -fdisable-rtl-loop2_unroll ;;
    -ftree-vectorize) continue ;;
    -mamx-tile) set -- "$@" ${EMULATED_AMX:+-include "$EMULATED_AMX"} ;;
  esac
  set -- "$@" "$word"
  case $word in -[DOfm]*|-std=*) flags="$flags $word" ;; esac
  case $last in -I) folder=${folder:-$word} ;; -c) file=$word ;; esac
  last=$word
done
if [ -n "$HEADERS" ] && [ -n "$file" ] && [ -n "$folder" ] && grep -q '^#include "opwright_rows.h"' "$file"; then
  header=$HEADERS/$({ echo "$flags"; cat "$folder"/*.h; } | cksum | tr ' ' -).h
  if [ ! -e "$header.gch" ]; then
    echo '#include "opwright_rows.h"' > "$header"
    $cc $flags -I "$folder" -x c-header "$header" -o "$header.$$" && mv "$header.$$" "$header.gch"
  fi
  set -- -include "$header" "$@"
fi
exec $cc "$@"
"""


@contextlib.contextmanager
def quick_compiler(folder: Path) -> Iterator[None]:
    """CC is a compiler that hardly optimises and emulates matrix registers that this CPU lacks; cffi needs no glue."""
    from opwright_kernels import _isa  # which is not there where an installed package is held against its specs

    script = folder / "quick-cc"
    script.write_text(QUICK)
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    registers = "" if "amx_tile" in _isa.cpu_flags() else str(Path(__file__).with_name("emulated_amx.h"))
    with environment(CC=str(script), OPWRIGHT_FFI="abi", HEADERS=_headers(), EMULATED_AMX=registers):
        yield


@functools.cache
def _headers() -> str:
    """The folder of headers that gcc has compiled in this process; empty where cc is another compiler."""
    if b"Free Software" not in subprocess.run(["cc", "--version"], capture_output=True, check=False).stdout:
        return ""
    folder = tempfile.TemporaryDirectory(prefix="quick-headers-")
    atexit.register(folder.cleanup)
    return folder.name


@contextlib.contextmanager
def environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@contextlib.contextmanager
def instruction_set(module: ModuleType, name: str) -> Iterator[None]:
    """Calls of the package take kernels of one instruction set, where they have such; scratch memory holds NaN."""
    operation, scratch = (importlib.import_module(f"{module.__name__}.{part}") for part in ("_operation", "_scratch"))
    with environment(OPWRIGHT_ISA=name):
        operation.forget()
        scratch.POISON = 0xFF
        try:
            yield
        finally:
            scratch.POISON = None
    operation.forget()


def serving(module: ModuleType, op: Op) -> list[str]:
    """The usable instruction sets that have kernels of an operation, the best one first.

    A short run has that one and another, drawn for each operation.
    """
    return best_and_another(op.op, _serving(module, op))


def serving_one_of_many(module: ModuleType, op: Op) -> list[str]:
    """The same where several operations are drawn: a short run has one for each, mostly the best."""
    return one_of(op.op, _serving(module, op))


def _serving(module: ModuleType, op: Op) -> list[str]:
    served = {variant.isa for variant in module.variants(op.op)}
    return [isa for isa in usable(module) if isa in served]


def usable(module: ModuleType) -> list[str]:
    """The instruction sets that this CPU has, the best one first."""
    isa = importlib.import_module(f"{module.__name__}._isa")
    flags = isa.cpu_flags()
    return [found.name for found in reversed(isa.ISAS) if found.needs <= flags]


def disagreement(module: ModuleType, op: Op, drawn: Drawn, threads: int | None = None) -> str | None:
    """How the package and the interpreter differ on a call; None where they do not."""
    try:
        found = getattr(module, op.function)(*drawn.inputs, **drawn.attributes, threads=threads)
    except module.SpecError as error:
        if drawn.validation.accepted:
            return f"refused by {error.rule}: {error}"
        return None if _tells(error.rule, drawn.validation.violations) else f"refused by {error.rule}: {error}"
    except TypeError as error:
        missing = any(rule.endswith("-missing") for rule in drawn.validation.violations)
        return None if missing else f"TypeError: {error}"
    if not drawn.validation.accepted:
        return f"accepted, with the shape {found.shape}"
    expected = interpret.compute(op, drawn.inputs, drawn.attributes)
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype}{list(found.shape)} for {expected.dtype}{list(expected.shape)}"
    ours, theirs = found.astype(np.float64), expected.astype(np.float64)
    wrong = np.argwhere(~np.isclose(ours, theirs, **_tolerance(op, found), equal_nan=True))
    if not len(wrong):
        return None
    cell = tuple(map(int, wrong[0]))
    return f"{op.output.name}{list(cell)} = {ours[cell]}, the interpreter {theirs[cell]} ({len(wrong)} of {ours.size})"


def _tells(rule: str, violations: tuple[str, ...]) -> bool:
    """Whether a refusal names what is wrong; of tensors that contradict one another any may be believed."""
    return rule in violations or any(violation.endswith("-shape") for violation in violations)


def _tolerance(op: Op, found: np.ndarray) -> dict[str, float]:
    """None, as data are small integers; but quotients and real numbers are rounded at every step."""
    trees = [op.semantics.assignment.value, *([op.semantics.finish.tree] if op.semantics.finish else [])]
    rounds = any(isinstance(n, expr.Binary) and n.op == "/" for tree in trees for n in expr.walk(tree))
    if not rounds and not any(a.type == "f32" for a in op.attributes):
        return {"rtol": 0, "atol": 0}
    return {"rtol": {2: 1e-2, 4: 1e-4, 8: 1e-4}[found.itemsize], "atol": 1e-4}


def first_disagreement(
    module: ModuleType, op: Op, rng: Rng, count: int, seen: Counter[str] | None = None
) -> str | None:
    """Legal calls and calls a step away from legal; the first on which package and interpreter differ."""
    caller = Caller(op, rng)
    for number, drawn in enumerate(caller.legal(count)):
        for call in (drawn, caller.nearly(drawn)):
            if seen is not None:
                seen[f"{op.op} {'legal' if call.validation.accepted else 'refused'}"] += 1
            problem = disagreement(module, op, call, [None, 1, 3][number % 3])
            if problem is not None:
                return f"{op.op}: {problem}\n{call}"
    return None
