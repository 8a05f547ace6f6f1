"""Checks a result against a witness that shares no code with the kernels.

In: an operation, the arrays and attributes of a call, and what the kernel returned. Out: a Verdict. The witness is the
spec's interpreter, or PyTorch in float64 where the interpreter would take too long.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from ..language.evaluate import evaluate
from ..language.model import Op
from .statements import summed_over
from .validate_steps import validate_steps

if TYPE_CHECKING:
    from .some_cells import Some

Array = np.ndarray[Any, Any]
# Index tuples; the interpreter visits ten million a second (AMD Zen 5).
INTERPRETED = 2**24
SLICED = 2**22  # terms of the slice that is checked of a larger call of steps
PATIENT = 2**27  # terms of calls of steps that cannot be sliced; a cell of more terms is not checked, and that is said


@dataclass(frozen=True)
class Verdict:
    """The verdict of a witness. `ulp` is the largest difference in units in the last place, None without a witness.

    `right`: every cell is within the rounding error of a sum of the witness's.
    """

    witness: str
    ulp: int | None
    right: bool

    def __str__(self) -> str:
        if self.ulp is None:
            return f"not checked: {self.witness}"
        if self.ulp == 0 and self.right:
            return f"{self.witness}: equal"
        verdict = (
            "all within the rounding error of their sums"
            if self.right
            else "WRONG: more than the rounding error of their sums"
        )
        return f"{self.witness}: largest difference {self.ulp} ulp, {verdict}"


def check(op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any], terms: int, result: Any) -> Verdict:
    """Compare a result, or all results of steps, with a witness. `terms` is the number of index tuples of the call."""
    if op.stepped:
        return _check_steps(op, inputs, attributes, terms, result)
    from . import interpret, torch_witness

    if terms <= INTERPRETED:
        name, compute = "the spec's interpreter", interpret.compute
    else:
        refused = "PyTorch is not installed" if find_spec("torch") is None else torch_witness.inexpressible(op, inputs)
        if refused:
            return Verdict(f"{terms} terms are too many for the interpreter, and {refused}", None, True)
        name, compute = "PyTorch in float64", torch_witness.compute
    expected = compute(op, inputs, attributes)
    if np.array_equal(result, expected):
        return Verdict(name, 0, True)
    sizes = [array if array is None or array.dtype.kind == "i" else abs(array) for array in inputs]
    slack = _slack(compute(op, sizes, attributes), terms, result)
    return Verdict(name, ulps(result, expected), _within(result, expected, slack))


def _check_steps(
    op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any], terms: int, results: Sequence[Array]
) -> Verdict:
    """For operations of steps, whose values may cancel: the tolerance is the rounding error of their largest values."""
    from .run_steps import compute_steps
    from .slices import sliced

    name = "the spec's interpreter"
    wanted: Mapping[str, Any] | None = None
    if terms > INTERPRETED:
        present = [tensor.name for tensor in op.outputs if tensor.name in validate_steps(op, inputs, attributes).shapes]
        part = sliced(op, inputs, attributes, terms, SLICED)
        if part is not None:
            name = f"{name}, for {part}"
            inputs, attributes = part.inputs, part.attributes
            results = [*part.of(op, dict(zip(present, results, strict=True))).values()]
        elif (some := _some_cells(op, inputs, attributes, terms)) is not None:
            name = f"{name}, for {some}"
            results, wanted = [*some.of(dict(zip(present, results, strict=True))).values()], some.expected
        elif terms > PATIENT:
            return Verdict(f"{terms} terms are too many for the interpreter, more than {PATIENT} of a cell", None, True)
    wanted = compute_steps(op, inputs, attributes) if wanted is None else wanted
    depth = _depth(op, inputs, attributes)
    furthest, right = 0, True
    for found, expected in zip(results, wanted.values(), strict=True):
        if np.array_equal(found, expected):
            continue
        if found.dtype.kind in "iub":  # a value between two integers may be rounded to either
            furthest = max(furthest, int(np.abs(found.astype(np.int64) - expected.astype(np.int64)).max()))
            right = right and found.dtype.kind != "b" and furthest <= 1
            continue
        exact = expected.astype(np.float64)
        greatest = np.maximum(np.abs(exact), np.abs(exact[np.isfinite(exact)]).max(initial=1))
        furthest = max(furthest, ulps(found, expected))
        right = right and _within(found, expected, _slack(8 * greatest, depth * found.size, found))
    return Verdict(name, furthest, right)


def _some_cells(op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any], terms: int) -> Some | None:
    """Some cells of each output: many of few terms, or else a few of many, where all together are too many."""
    from .some_cells import some_cells

    found = some_cells(op, inputs, attributes, SLICED)
    return some_cells(op, inputs, attributes, PATIENT) if found is None and terms > PATIENT else found


def _depth(op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> int:
    """The maximum number of terms of a cell, through all steps."""
    values = validate_steps(op, inputs, attributes).values
    extents = {letter: evaluate(extent.tree, values) for letter, extent in op.semantics.ranges.items()}
    counts = {letter: math.prod(each) if isinstance(each, tuple) else each for letter, each in extents.items()}
    return sum(math.prod(counts[letter] for letter in summed_over(op, step)) for step in op.semantics.steps)


def _slack(sizes: Array, terms: int, result: Array) -> Array:
    """The error bound of a sum in f32: one rounding per term, and one to the output's type."""
    each = math.ceil(terms / max(result.size, 1)) + 2
    last = float(np.spacing(np.array(1, result.dtype)))
    return np.asarray(sizes.astype(np.float64) * (each * 2.0**-23 + last))


def _within(result: Array, expected: Array, slack: Array) -> bool:
    a, b = result.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return bool(np.all((a == b) | (np.isnan(a) & np.isnan(b)) | (abs(a - b) <= slack)))


def ulps(a: Array, b: Array) -> int:
    """The largest distance between two arrays of the same type, in representable numbers; two NaNs are equal."""
    differ = ~(np.isnan(a) & np.isnan(b))
    return int(np.max(abs(_ordered(a) - _ordered(b)), where=differ, initial=0))


def _ordered(array: Array) -> Array:
    """The floats of a type counted from zero."""
    bits = np.ascontiguousarray(array).view(f"i{array.dtype.itemsize}")
    magnitude = (bits & np.iinfo(bits.dtype).max).astype(np.float64)
    return np.asarray(np.where(bits < 0, -magnitude, magnitude))
