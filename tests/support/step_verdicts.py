"""Whether the package of an operation of steps and the interpreter say the same of a call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from opwright.language import expr
from opwright.language.model import Op
from opwright.oracle.run_steps import compute_steps
from opwright.oracle.validate import NUMPY

from .draws import rng
from .spec_packages import instruction_set, serving_one_of_many
from .step_calls import Rng, StepCall, StepCaller

SENTINEL = 77
# What computes a number other than the exact one; of small whole numbers and halves all else is exact.
ROUNDED = ("exp", "exp2", "log", "log1p", "tanh", "erf", "sqrt", "rsqrt", "pow")
# How far a result may be from the interpreter's: of the greatest, which sums that cancel are made of.
PRECISION = {1: 0.0, 2: 1e-2, 4: 1e-4, 8: 1e-4}


def outputs(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def rounds(op: Op) -> bool:
    """Whether some step computes numbers that no sum of a few bits holds."""
    for step in op.semantics.steps:
        for assignment in step.assignments:
            if assignment.op == "product":
                return True
            for node in expr.walk(assignment.value):
                if isinstance(node, expr.Call) and node.function in ROUNDED:
                    return True
                if isinstance(node, expr.Binary) and node.op == "/":
                    return True
                if isinstance(node, expr.Number) and node.value * 1024 % 1:
                    return True
    return False


def disagreement(module: ModuleType, op: Op, call: StepCall, threads: int | None, out: Any = None) -> str | None:
    """How the package and the interpreter differ on a call; None where they do not. A refused call leaves `out` alone."""
    validation = call.validation
    try:
        found = outputs(getattr(module, op.function)(*call.inputs, **call.attributes, threads=threads, out=out))
    except module.SpecError as error:
        if out is not None and any((array != np.array(SENTINEL, array.dtype)).any() for array in outputs(out)):
            return f"refused by {error.rule}, with something written to out"
        if not validation.accepted and _tells(error.rule, validation.violations):
            return None
        return f"refused by {error.rule}: {error}"
    except TypeError as error:
        missing = any(rule.endswith("-missing") for rule in validation.violations)
        return None if missing else f"TypeError: {error}"
    if not validation.accepted:
        return f"accepted, with the shapes {[array.shape for array in found]}"
    expected = compute_steps(op, call.inputs, call.attributes)
    if len(found) != len(expected):
        return f"{len(found)} outputs for {len(expected)}"
    for array, (name, wanted) in zip(found, expected.items(), strict=True):
        if array.dtype != wanted.dtype or array.shape != wanted.shape:
            return f"{name}: {array.dtype}{list(array.shape)} for {wanted.dtype}{list(wanted.shape)}"
        problem = difference(array, wanted, PRECISION[array.dtype.itemsize] if rounds(op) else 0.0)
        if problem is not None:
            return f"{name}{problem}"
    return None


def disagreement_in_place(module: ModuleType, op: Op, call: StepCall, seen: Counter[str]) -> str | None:
    """How a call whose first output is written to an input differs, if it is not refused, as it may be."""
    (name, shape), *others = call.validation.shapes.items()
    row = call.validation.row or {}
    for at, given in enumerate(call.inputs):
        if not isinstance(given, np.ndarray) or given.shape != tuple(shape) or row[name] != row[op.inputs[at].name]:
            continue
        array = given.copy()
        inputs = [array if number == at else one for number, one in enumerate(call.inputs)]
        rest = [np.zeros(extents, NUMPY[row[other]]) for other, extents in others]
        try:
            getattr(module, op.function)(*inputs, **call.attributes, out=(array, *rest) if rest else array)
        except module.SpecError:
            if array.tobytes() != given.copy().tobytes():
                return f"refused to write to {op.inputs[at].name}, but wrote to it"
            continue
        seen["in place"] += 1
        wanted = compute_steps(op, call.inputs, call.attributes)[name]
        problem = difference(array, wanted, PRECISION[array.dtype.itemsize] if rounds(op) else 0.0)
        if problem is not None:
            return f"{name}{problem}, written to {op.inputs[at].name}"
    return None


def difference(found: Any, wanted: Any, precision: float) -> str | None:
    """The first cell that is too far from the wanted one."""
    ours, theirs = np.asarray(found).astype(np.float64), np.asarray(wanted).astype(np.float64)
    finite = np.abs(theirs[np.isfinite(theirs)])
    near = {"rtol": precision, "atol": precision * float(min(finite.max(initial=1.0), 100.0))}
    if np.asarray(found).dtype.kind in "iu" and precision:
        near["atol"] = 1.0
    wrong = np.argwhere(~np.isclose(ours, theirs, **near, equal_nan=True))
    if not len(wrong):
        return None
    cell = tuple(map(int, wrong[0]))
    return f"{list(cell)} = {ours[cell]}, not {theirs[cell]} ({len(wrong)} of {ours.size})"


def _tells(rule: str, violations: tuple[str, ...]) -> bool:
    """Whether a refusal names what is wrong; of what contradicts another thing any may be believed."""
    loose = ("-shape", "-rank", "-kind", "inexact-division", "dtypes")
    return rule in violations or any(violation.endswith(loose) for violation in violations)


def first_disagreement(
    module: ModuleType, op: Op, rng: Rng, count: int, seen: Counter[str], rows: int | None = None
) -> str | None:
    """Legal calls, some into arrays of the caller, and calls a step from legal; the first that is judged otherwise."""
    caller = StepCaller(op, rng)
    if rows is not None:
        caller.draw_rows(rows)
    for number, call in enumerate(caller.legal(count)):
        shapes = call.validation.shapes
        row = call.validation.row or {}
        out = tuple(caller.target(row[name], shape) for name, shape in shapes.items())
        into = (out[0] if len(out) == 1 else out) if number % 2 else None
        near = caller.nearly(call)
        for drawn in (call, near):
            legal = drawn.validation.accepted
            seen[f"{op.op} {'legal' if legal else 'refused'}"] += 1
            target = into if drawn is call or not legal else None
            for array in outputs(target) if target is not None else ():
                array[...] = SENTINEL
            problem = disagreement(module, op, drawn, [None, 1, 3][number % 3], target)
            if problem is None and drawn is call and number % 3 == 2:
                problem = disagreement_in_place(module, op, call, seen)
            if problem is not None:
                return f"{op.op}: {problem}\n{drawn}"
    return None


def agree(module: ModuleType, ops: Iterable[Op], calls: int, *seed: object) -> Counter[str]:
    """Package and interpreter say the same of random calls of operations, each on one of the sets that serve it.

    How many calls of each were legal, and how many refused.
    """
    seen = Counter[str]()
    for op in ops:
        for isa in serving_one_of_many(module, op):
            with instruction_set(module, isa):
                problem = first_disagreement(module, op, rng(*seed, isa, op.op), calls, seen)
            assert problem is None, f"{isa}: {problem}\n{_spec(module, op)}"
    return seen


def _spec(module: ModuleType, op: Op) -> str:
    """The text that the package of a test was generated from."""
    project = Path(str(module.__file__)).parent.with_name(f"{module.__name__}-project")
    return (project / op.at.file).read_text(encoding="utf-8")
