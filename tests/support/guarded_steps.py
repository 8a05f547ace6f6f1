"""Kernels of steps between pages that nobody may touch, with undefined behaviour ending the process.

In: a seed, how many specs, how many calls of each, an instruction set. Half of the specs are those of tests/data, the
others are random ones, of steps, of products and of convolutions, of bytes among them. Out: the calls that were right;
the last one printed to stderr is the one that crashed.
"""

from __future__ import annotations

import importlib
import stat
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from opwright.oracle.run_steps import compute_steps
from opwright.oracle.validate_steps import validate_steps

from . import random_byte_windows, random_contractions, random_convolutions
from .draws import rng
from .guarded import Guarded, guarded
from .package import package
from .random_specs import accepted, texts_of
from .random_steps import steps
from .spec_packages import environment, instruction_set
from .step_calls import StepCall, StepCaller
from .step_verdicts import PRECISION, difference, outputs, rounds

BYTES = "ByteWindow"  # the operation of a convolution of bytes
DATA = Path(__file__).parents[1] / "data"
SANITIZED = """#!/bin/sh
exec cc "$@" -Og -g1 -fsanitize=undefined,float-cast-overflow -fno-sanitize-recover=all
"""


def bordering(array: Any, random: np.random.Generator) -> Any:
    """A copy that borders on a guard page, read forwards or backwards; each of a list of arrays."""
    if array is None or isinstance(array, list):
        return array and [bordering(part, random) for part in array]
    high = bool(random.integers(2))
    if not array.ndim or not array.size or random.integers(2):
        return guarded(np.ascontiguousarray(array).reshape(array.shape), high)
    back = tuple(slice(None, None, -1) for _ in array.shape)
    return guarded(np.ascontiguousarray(array[back]).reshape(array.shape), high)[back]


def drawn(random: np.random.Generator, count: int) -> dict[str, str]:
    """Texts of specs: of tests/data, of random steps, of sums of products, and of convolutions solved for any side."""
    paths = sorted([*(DATA / "formulas").glob("*.yaml"), *(DATA / "steps").glob("*.yaml")])
    texts = {
        paths[at].name: paths[at].read_text(encoding="utf-8") for at in random.permutation(len(paths))[: count // 2]
    }
    drafts = {}
    while len(drafts) < count // 4:
        draft, library = accepted(random, family=steps)
        drafts.setdefault(library.ops[0].function, draft)
    products = count - count // 2 - count // 4
    windows = products // 2
    for n in range(windows):
        solved = random_convolutions.SOLVED[int(random.integers(len(random_convolutions.SOLVED)))]
        texts[f"window_{n}.yaml"] = random_convolutions.draw(random, f"Window{n}", solved).text
    texts["byte_window.yaml"] = random_byte_windows.draw(random, BYTES)
    products -= windows + 1
    texts |= {f"product_{n}.yaml": random_contractions.draw(random, f"Product{n}").text for n in range(products)}
    return texts | texts_of(drafts.values())


def campaign(seed: int, specs: int, count: int, isa: str) -> int:
    """Calls on guarded inputs, outputs and scratch memory; how many were right."""
    random = rng("guarded steps", seed, isa)
    texts, folder, right = drawn(random, specs), Path(tempfile.mkdtemp()), 0
    compiler = folder / "sanitized-cc"
    compiler.write_text(SANITIZED)
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    with environment(CC=str(compiler), OPWRIGHT_FFI="abi", OPWRIGHT_CACHE_DIR=str(folder / "cache")):
        library, module = package(texts, folder, "guarded_package")
        scratch = importlib.import_module("guarded_package._scratch")
        with instruction_set(module, isa):
            scratch.KEPT = -1  # every call gets memory of its own, no byte more than it asked for
            scratch._aligned = lambda size: scratch._ffi.from_buffer(
                np.asarray(Guarded(max(size, 1), bool(random.integers(2)), scratch.ALIGNMENT))
            )
            for op in library.ops:
                for call in calls(op, random, count):
                    print(op.op, call, file=sys.stderr, flush=True)
                    check(getattr(module, op.function), op, call, random)
                    right += 1
    return right


def calls(op: Any, random: np.random.Generator, count: int) -> list[StepCall]:
    if op.op != BYTES:
        return [*StepCaller(op, random).legal(count)]
    rows = random_byte_windows.ROWS
    made = [random_byte_windows.call(random, op.inputs, rows[n % len(rows)]) for n in range(count)]
    return [StepCall(tuple(inputs), given, validate_steps(op, inputs, given)) for inputs, given in made]


def check(function: Any, op: Any, call: StepCall, random: np.random.Generator) -> None:
    """A call on guarded arrays agrees with the interpreter, and gives the same bits on any number of threads."""
    expected = compute_steps(op, call.inputs, call.attributes)
    inputs, bits = [bordering(array, random) for array in call.inputs], set()
    for threads in (1, int(random.integers(2, 9))):
        out = tuple(guarded(np.full(x.shape, 77).astype(x.dtype), bool(random.integers(2))) for x in expected.values())
        found = outputs(function(*inputs, **call.attributes, threads=threads, out=out[0] if len(out) == 1 else out))
        for array, wanted in zip(found, expected.values(), strict=True):
            problem = difference(
                array, wanted, PRECISION[array.dtype.itemsize] if rounds(op) or op.op == BYTES else 0.0
            )
            assert problem is None, (problem, threads)
        bits.add(b"".join(array.tobytes() for array in found))
    assert len(bits) == 1


if __name__ == "__main__":
    print(campaign(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]), "right")
