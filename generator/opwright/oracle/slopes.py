"""Checks that one operation is the gradient of another, against finite differences in f64.

In: two operations of steps, and how their tensors correspond. Out: None, or a sentence with
the first call on which they differ. If a gradient does not depend on its own input, the operation is linear in it,
and the two sides are compared exactly on integers; otherwise by central differences.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..language import expr
from ..language.expr import Call, Expr
from ..language.model import Op, Semantics
from ..language.schema import Assignment
from ..memo import memoised
from .interpret import compute
from .run_steps import compute_steps
from .statements import reads_of, target_of
from .step_sample import EXTENTS, SEED, Sample, samples
from .validate_steps import validate_steps

REAL = ("f32", "bf16", "f16", "f64")
NARROW = (*REAL, "f8_e4m3", "f8_e5m2")
STEPS = (1e-5, 1e-6, 1e-4)  # step sizes of the differences; a kink within one of them lies outside another
HUGE = 1e9  # values beyond it have no meaningful differences
NEAR = 1e-5  # tolerance, relative to the sum of magnitudes


@dataclass(frozen=True)
class Tie:
    """The correspondence by the gradient's names: inputs that are tensors of the operation, and gradients of them."""

    values: Mapping[str, str]
    seeds: Mapping[str, str]
    results: Mapping[str, str]


def tied(forward: Op, backward: Op) -> Tie:
    """The correspondence by names: diff_x is the gradient of x; another prefix stands where diff_x is taken."""
    ours = {tensor.name for tensor in (*forward.inputs, *forward.outputs)}
    outputs = {tensor.name for tensor in forward.outputs}
    inputs = [tensor.name for tensor in backward.inputs]
    seeds = {name: name.partition("_")[2] for name in inputs if name not in ours}
    return Tie(
        {name: name for name in inputs if name in ours},
        {name: of for name, of in seeds.items() if of in outputs},
        {tensor.name: tensor.name.partition("_")[2] for tensor in backward.outputs},
    )


@memoised
def doubled(op: Op) -> Op:
    """The operation with f64 in place of every real type, without conversions to one."""
    attributes = tuple(attribute for attribute in op.attributes if not attribute.dtype_of)
    gone = {attribute.name for attribute in op.attributes if attribute.dtype_of}
    rows = [{name: "f64" if dtype in REAL else dtype for name, dtype in row.items()} for row in op.dtypes]
    rows = [row for number, row in enumerate(rows) if row not in rows[:number] and row["accumulate"] == "f64"]
    rows.sort(key=lambda row: sum(dtype != "f64" for dtype in row.values()))  # a call takes the first row that fits
    return dataclasses.replace(op, dtypes=tuple(rows), attributes=attributes, semantics=_unrounded(op.semantics, gone))


def _unrounded(semantics: Semantics, gone: Collection[str | None]) -> Semantics:
    """The same steps without conversions to real types, and without choices by attributes that are gone.

    These state data types: what they choose among differs in conversions.
    """

    def plain(tree: Expr) -> Expr:
        for node in expr.walk(tree):
            if isinstance(node, Call) and expr.CONVERSIONS.get(node.function) in NARROW:
                return plain(expr.replaced(tree, node, node.arguments[0]))
        return tree

    def made(one: Assignment | None) -> Assignment | None:
        return one and dataclasses.replace(one, value=plain(one.value))

    known = [
        dataclasses.replace(s, do=next(iter(s.cases.values())), by=None, cases={}) if s.by in gone else s
        for s in semantics.steps
    ]
    steps = [dataclasses.replace(s, do=made(s.do), cases={w: made(c) for w, c in s.cases.items()}) for s in known]
    return dataclasses.replace(semantics, steps=tuple(steps))


def disagreement(
    forward: Op, backward: Op, tie: Tie, count: int = 4, seed: int = SEED, extents: Sequence[int] = EXTENTS
) -> str | None:
    """The first call on which an operation's gradient differs from finite differences; None if there is none."""
    ours, theirs = doubled(forward), doubled(backward)
    judge = _Judge(ours, theirs, tie, np.random.default_rng(seed))
    for number, sample in enumerate(samples(ours, 10 * count, seed, extents)):
        row = sample.call.row or {}
        if judge.compared >= count * len(tie.results):
            break
        if not all(row[name] == "f64" for name in (*tie.results.values(), *tie.seeds.values())):
            continue
        with np.errstate(all="ignore"):
            difference = judge.compare(sample, number)
        if difference is not None:
            return f"{backward.op} is not the gradient of {forward.op}: {difference}"
    return None if judge.compared else f"no legal call of {forward.op} was found on which to compare its gradient"


class _Judge:
    def __init__(self, forward: Op, backward: Op, tie: Tie, rng: np.random.Generator) -> None:
        self.forward, self.backward, self.tie, self.rng = forward, backward, tie, rng
        self.compared = 0

    def compare(self, sample: Sample, number: int) -> str | None:
        """Compare both sides on one call, for each gradient separately."""
        whole = number % 2 == 1
        arrays = {t.name: a for t, a in zip(self.forward.inputs, sample.arrays) if a is not None}
        if number % 3 == 2:  # on both sides of 0
            arrays = {n: np.asarray(a - 1) if a.dtype == np.float64 else a for n, a in arrays.items()}
        if whole:
            arrays = {n: self.counted(a) if a.dtype == np.float64 else a for n, a in arrays.items()}
        outputs = self.run(arrays, sample)
        seeds = {of: self.cotangent(outputs[of], whole) for of in self.tie.seeds.values() if of in outputs}
        results = self.gradients(arrays, outputs, seeds, sample)
        if results is None:
            return None
        if isinstance(results, str):
            return f"{results}, of {self.described(arrays, sample)}"
        for name, of in self.tie.results.items():
            if name not in results or of not in arrays or not arrays[of].size:
                continue
            exact = whole and self.linear(name, of)
            if whole and not exact:
                continue
            along = self.counted(arrays[of]) if whole else self.rng.normal(size=arrays[of].shape)
            if results[name].shape != along.shape:
                return f"{name} has the shape {list(results[name].shape)} for {self.described(arrays, sample)}"
            found = float(np.sum(results[name] * along))
            wanted = self.differences(arrays, of, along, seeds, sample, (1.0,) if exact else STEPS)
            size = float(np.sum(np.abs(results[name]))) + 1
            if not np.isfinite([found, *wanted]).all() or size > HUGE:
                continue
            self.compared += 1
            near = 1e-9 if exact else NEAR
            noise = 1e-15 * sum(float(np.sum(np.abs(seed * outputs[of_seed]))) for of_seed, seed in seeds.items())
            steps = (1.0,) if exact else STEPS
            if not any(abs(found - d) <= near * size + noise / step for d, step in zip(wanted, steps, strict=True)):
                return f"{name} gives {found:.9g}, differences {wanted[0]:.9g}, for {self.described(arrays, sample)}"
        return None

    def counted(self, array: Any) -> Any:
        return np.asarray(self.rng.integers(-3, 4, array.shape), np.float64)

    def cotangent(self, array: Any, whole: bool) -> Any:
        return self.counted(array) if whole else np.asarray(self.rng.normal(size=array.shape))

    def given(self, op: Op, arrays: Mapping[str, Any]) -> list[Any]:
        found = [(tensor, arrays.get(tensor.name)) for tensor in op.inputs]
        return [[array] if tensor.joined and array is not None else array for tensor, array in found]

    def run(self, arrays: Mapping[str, Any], sample: Sample) -> dict[str, Any]:
        given = self.given(self.forward, arrays)
        if not self.forward.stepped:
            return {self.forward.output.name: compute(self.forward, given, sample.attributes)}
        return compute_steps(self.forward, given, sample.attributes)

    def gradients(
        self, arrays: Mapping[str, Any], outputs: Mapping[str, Any], seeds: Mapping[str, Any], sample: Sample
    ) -> dict[str, Any] | str | None:
        """The results of the gradient's operation, or why it refuses the call; None if it lacks an input."""
        all_arrays = {**arrays, **outputs}
        given = {name: all_arrays[of] for name, of in self.tie.values.items() if of in all_arrays}
        given |= {name: seeds[of] for name, of in self.tie.seeds.items() if of in seeds}
        if any(t.name not in given and not t.optional and t.when is None for t in self.backward.inputs):
            return None
        names = {attribute.name for attribute in self.backward.attributes}
        attributes = {name: value for name, value in sample.attributes.items() if name in names}
        for stating in (attribute for attribute in self.backward.attributes if attribute.shape_of):
            attributes[stating.name or ""] = list(arrays[self.tie.results[stating.shape_of or ""]].shape)
        inputs = self.given(self.backward, given)
        call = validate_steps(self.backward, inputs, attributes)
        if not call.accepted:
            return f"it refuses a call ({', '.join(call.violations)})"
        return compute_steps(self.backward, inputs, attributes)

    def differences(
        self,
        arrays: Mapping[str, Any],
        of: str,
        along: Any,
        seeds: Mapping[str, Any],
        sample: Sample,
        steps: Sequence[float],
    ) -> list[float]:
        def total(step: float) -> float:
            outputs = self.run({**arrays, of: np.asarray(arrays[of] + step * along)}, sample)
            return float(sum(np.sum(seed * outputs[name]) for name, seed in seeds.items()))

        return [(total(step) - total(-step)) / (2 * step) for step in steps]

    def linear(self, name: str, of: str) -> bool:
        """Whether a gradient depends neither on its own input nor on values computed from it."""
        outputs = {tensor.name for tensor in self.forward.outputs}
        wrong = {theirs for theirs, ours in self.tie.values.items() if ours == of or ours in outputs}
        return not wrong & sources(self.backward, name) and not jumps(self.forward, of)

    def described(self, arrays: Mapping[str, Any], sample: Sample) -> str:
        shapes = [f"{name} {list(array.shape)}" for name, array in arrays.items()]
        return ", ".join([*shapes, *(f"{name}={value}" for name, value in sample.attributes.items())])


def jumps(op: Op, name: str) -> bool:
    """Whether functions or choices lie between an input and the outputs: perhaps piecewise constant, but not linear."""
    moving = {name}
    for step in op.semantics.steps:
        trees = [made.value for made in step.assignments if any(r.tensor in moving for r in expr.reads(made.value))]
        if trees:
            moving.add(target_of(step).tensor)
        if any(isinstance(n, Call) and n.function not in ("prod", "number") for t in trees for n in expr.walk(t)):
            return True
    return False


def sources(op: Op, name: str) -> set[str]:
    """Everything that the elements of an array depend on."""
    found = {name}
    for step in reversed(op.semantics.steps):
        if target_of(step).tensor in found:
            found |= {read.tensor for read in reads_of(step)}
    return found
