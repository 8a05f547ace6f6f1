"""Calls that break the rules of a spec, of every operation: C refuses what Python refuses, in the same words."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from opwright.language.library import Library
from opwright.language.model import Op
from opwright.oracle.validate import NUMPY
from opwright_kernels._errors import Refusal
from support.bad_calls import bad_calls, bad_outputs
from support.c_library import CLibrary, Refused, Run, compiled
from support.draws import FULL, rng
from support.spec_calls import Caller
from support.step_calls import StepCaller

from .test_rules import in_c, in_python, operation_of

WORKSPACE = Run(64, 2**40, None, 1)
LEGAL = 20 if FULL else 1  # calls of each operation that are changed


def legal_calls(op: Op, of: str) -> Iterator[Any]:
    caller: Any = (StepCaller if op.stepped else Caller)(op, rng(of, op.function))
    yield from caller.legal(LEGAL)


@pytest.mark.sweep
def test_any_changed_argument_is_understood_as_in_python(rules: CLibrary, library: Library) -> None:
    refused = legal = 0
    for op in library.ops:
        for drawn in legal_calls(op, "bad calls"):
            for call in bad_calls(op, drawn.inputs, drawn.attributes):
                wanted = in_python(op, call.inputs, call.attributes)
                assert in_c(rules, op, call.inputs, call.attributes) == wanted, f"{op.op}: {call}"
                refused += isinstance(wanted, str)
                legal += not isinstance(wanted, str)
    assert refused > 7000
    assert legal > 1500


def refusal_in_python(op: Op, drawn: Any, targets: Sequence[Any]) -> str | None:
    """The message with which Python refuses the arrays to write into; None if it would write."""
    operation = operation_of(op)
    given = operation.arrays([*drawn.inputs, *[None] * (len(op.inputs) - len(drawn.inputs))])
    values = [drawn.attributes.get(name, operation.defaults.get(name)) for name in operation.attributes]
    try:
        stated = operation.completed(values, targets) if op.stepped else values
        resolution = operation.resolve(*given, *stated)
        row = op.dtypes[resolution.row]
        for tensor, target in zip(op.outputs, targets, strict=True):
            dtype = NUMPY[row[tensor.name]]
            if target is not None and op.stepped:
                operation.checked(tensor.name, target, resolution, dtype, given, targets)
            elif target is not None:
                operation.checked_out(SimpleNamespace(shape=resolution.shape, dtype=dtype), given, target)
    except Refusal as refusal:
        return str(operation.refused(refusal))
    return None


@pytest.mark.sweep
def test_any_changed_output_is_refused_as_in_python(rules: CLibrary, library: Library) -> None:
    refused = 0
    for op in library.ops:
        for drawn in legal_calls(op, "bad outputs"):
            outputs = rules.outputs(op.function, drawn.inputs, drawn.attributes)
            for change, targets in bad_outputs(drawn.inputs, outputs):
                wanted = refusal_in_python(op, drawn, targets)
                with pytest.raises(Refused) as found:  # of a legal call, that there is no kernel
                    rules.run(op.function, rules.call(op.function, drawn.inputs, drawn.attributes, targets), WORKSPACE)
                if wanted or found.value.rule.startswith("out-"):
                    assert found.value.message == wanted, f"{op.op}: {change} of {drawn}"
                refused += wanted is not None
    assert refused > 2000


# What is no number of 64 bits, and what lies beyond an object, is found by these.
SANITIZERS = ("-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")


@pytest.mark.sweep
def test_members_that_no_call_has_are_refused_and_nothing_crashes(rules: CLibrary, exported: Path) -> None:
    library, environment = Path(rules.lib._name), dict(os.environ)
    if FULL:
        library = compiled(exported, exported.parent / "sanitized", flags=SANITIZERS)
        found = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
        environment |= {"LD_PRELOAD": found.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0"}
    command = [sys.executable, "-m", "support.c_hostile", str(library), str(LEGAL)]
    tests = Path(__file__).parents[1]
    done = subprocess.run(command, cwd=tests, env=environment, capture_output=True, text=True, check=False)
    *wrong, counts = done.stdout.splitlines() or [""]
    assert done.returncode == 0, f"{done.returncode} in {done.stderr[-2000:]}"
    assert not wrong
    total, refused = map(int, counts.split())
    assert total > 10000
    assert refused > 5000
