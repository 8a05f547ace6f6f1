"""Computes some cells of the outputs of a call of steps from only the values that they depend on.

In: an operation of steps, a call, and how many terms may be computed. Out: positions in outputs, and their values;
None if the letters of a target do not follow from its cells, or if one cell depends on too many terms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..language import expr
from ..language.evaluate import evaluate
from ..language.expr import Name, Number
from ..language.model import Op, Step, Tensor
from ..language.schema import Assignment
from .dtypes import stored
from .extents import each
from .indices import integers
from .interpret import CHUNK
from .named import named_alone
from .run_steps import COMBINE, MIN_S64, Run, only
from .statements import BEGINNING, axis_kind, chosen, letters_of
from .step_call import StepValidation
from .validate_steps import validate_steps

COUNTS = (4096, 512, 64, 8, 1)


class TooMuchError(Exception):
    """The cells depend on too many terms, or the letters of a target do not follow from its cells."""


@dataclass
class _Cells:
    """Cells of an array by their sorted positions."""

    places: Any
    values: Any

    def __getitem__(self, flat: Any) -> Any:
        return self.values[np.searchsorted(self.places, flat)]


class _Given:
    """An array of the call in canonical order, converted only where it is read."""

    def __init__(self, view: Any, dtype: Any) -> None:
        self.view, self.dtype = view, dtype

    def __getitem__(self, flat: Any) -> Any:
        shape = self.view.shape
        return (self.view[np.unravel_index(flat, shape)] if shape else np.full(len(flat), self.view)).astype(self.dtype)


@dataclass(frozen=True)
class Some:
    """Cells of each output: their positions in canonical order, their values, and the size of the output."""

    places: Mapping[str, Any]
    expected: Mapping[str, Any]
    orders: Mapping[str, Sequence[int]]
    total: int

    def of(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
        """The same cells of outputs."""
        moved = {name: np.transpose(outputs[name], self.orders[name]) for name in self.places}
        return {name: _Given(array, array.dtype)[self.places[name]] for name, array in moved.items()}

    def __or__(self, other: Some) -> Some:
        """Cells of more outputs."""
        return Some(
            {**self.places, **other.places},
            {**self.expected, **other.expected},
            {**self.orders, **other.orders},
            self.total + other.total,
        )

    def __str__(self) -> str:
        return f"{sum(map(len, self.places.values()))} of {self.total} cells"


def some_cells(op: Op, inputs: Sequence[Any], attributes: Mapping[str, object], maximum: int) -> Some | None:
    """Of each output, as many cells as need its share of at most `maximum` terms."""
    call = validate_steps(op, inputs, attributes)
    if not call.accepted or any(tensor.broadcast_as for tensor in op.outputs):
        return None
    found: Some | None = None
    for tensor in (present := [tensor for tensor in op.outputs if tensor.name in call.shapes]):
        own = _of_output(op, call, tensor, maximum // len(present))
        if own is None:
            return None
        found = own if found is None else found | own
    return found


def _of_output(op: Op, call: StepValidation, tensor: Tensor, maximum: int) -> Some | None:
    for count in COUNTS:
        try:
            with np.errstate(all="ignore"):
                return _Some(op, call, tensor, count, maximum).found()
        except TooMuchError:
            continue
    return None


class _Some(Run):
    """Walks the steps backwards to find what cells need, then forwards to compute only that."""

    def __init__(self, op: Op, call: StepValidation, output: Tensor, count: int, maximum: int) -> None:
        super().__init__(op, call)
        self.left = maximum
        self.output = output
        size = math.prod(self.shapes[output.name])
        spread = np.linspace(0, max(size - 1, 0), min(count, size)).round().astype(np.int64)
        self.wanted = {output.name: np.unique(spread)}

    def given(self, tensor: Tensor) -> Any:
        if tensor.name not in self.call.arrays:
            filled = np.broadcast_to(np.asarray(float(tensor.absent or 0)), self.shapes[tensor.name])
            return _Given(filled, self.dtype)
        cells = self.canonical(tensor.name, self.call.arrays[tensor.name])
        return _Given(cells, cells.dtype if self.exact(cells) else self.dtype)

    def found(self) -> Some:
        name = self.output.name
        asked = self.wanted[name]
        needed = [self.need(step) for step in reversed(self.op.semantics.steps)][::-1]
        for step, cells in zip(self.op.semantics.steps, needed, strict=True):
            self.compute(step, cells)
        spots = self.call.places[name]
        order = [spot for axis in self.axes[name] for spot in spots.get(axis, ())]
        expected = stored(self.data[name][asked], self.row[name])
        return Some({name: asked}, {name: expected}, {name: order}, math.prod(self.shapes[name]))

    def need(self, step: Step) -> Any:
        """The cells that a step writes; the cells of other steps that it reads are requested, too."""
        assignment = named_alone(self.op, chosen(step, self.call.words.get(step.by or "", "")))
        cells = self.wanted.get(assignment.target.tensor, np.zeros(0, np.int64))
        made = {a.target.tensor for own in self.op.semantics.steps for a in own.assignments}
        reads = [read for read in dict.fromkeys(expr.reads(assignment.value)) if read.tensor in made]
        for letters, _ in self.over(step, assignment, cells):
            _, taken = self.taken(step, assignment, letters)
            for read in reads:
                at, _ = self.position(read, letters)
                before = self.wanted.get(read.tensor, np.zeros(0, np.int64))
                self.wanted[read.tensor] = np.union1d(before, at[taken])
        return cells

    def compute(self, step: Step, cells: Any) -> None:
        assignment = named_alone(self.op, chosen(step, self.call.words.get(step.by or "", "")))
        name = assignment.target.tensor
        if name not in self.wanted:
            return
        self.among(name)
        if name not in self.data:
            first = BEGINNING[assignment.op]
            if self.whole and math.isinf(first):
                first = MIN_S64 if first < 0 else -(MIN_S64 + 1)
            self.data[name] = _Cells(self.wanted[name], np.full(len(self.wanted[name]), first, self.dtype))
        values = self.data[name].values
        for letters, number in self.over(step, assignment, cells, counted=False):
            spots, taken = self.taken(step, assignment, letters)
            at = np.searchsorted(self.wanted[name], cells[number[taken]])
            own = {letter: only(value, taken) for letter, value in letters.items()}
            value = self.value(assignment.value, own, {read: spot[taken] for read, spot in spots.items()})
            value = np.broadcast_to(np.asarray(value).astype(self.dtype), at.shape)
            if assignment.op == "set":
                values[at] = value
            else:
                COMBINE[assignment.op].at(values, at, value)

    def taken(self, step: Step, assignment: Assignment, letters: Mapping[str, Any]) -> tuple[dict[Any, Any], Any]:
        """The position of each read, and which combinations of letters take part."""
        _, taken = self.position(assignment.target, letters)
        spots = {}
        for read in dict.fromkeys(expr.reads(assignment.value)):
            spots[read], inside = self.position(read, letters)
            taken = taken & inside
        for guard in step.where:
            for axis in range(max(self.rank(), 1)):
                taken = taken & integers(guard.tree, letters, axis)
        return spots, taken

    def over(
        self, step: Step, assignment: Assignment, cells: Any, *, counted: bool = True
    ) -> Iterator[tuple[dict[str, Any], Any]]:
        """All combinations of letters that write some cells, a chunk at a time, each with the index of its cell."""
        names = letters_of(self.op, step, assignment)
        extents = {name: evaluate(self.op.semantics.ranges[name].tree, self.symbols) for name in names}
        own = self.letters_at(assignment, cells, extents)
        others = {name: extent for name, extent in extents.items() if name not in own}
        shape = [entry for extent in others.values() for entry in each(extent)]
        count = math.prod(shape)
        if counted:
            self.left -= len(cells) * count
            if self.left < 0:
                raise TooMuchError
        for start in range(0, len(cells) * count, CHUNK):
            flat = np.arange(start, min(start + CHUNK, len(cells) * count))
            number, rest = np.divmod(flat, max(count, 1))
            columns = iter(np.unravel_index(rest, shape) if shape else ())
            chunk: dict[str, Any] = dict(self.symbols)
            for name, extent in extents.items():
                digits = [at[number] for at in own[name]] if name in own else [next(columns) for _ in each(extent)]
                chunk[name] = tuple(digits) if isinstance(extent, tuple) else digits[0]
                total: Any = np.zeros(len(flat), np.int64)
                for digit, size in zip(digits, each(extent), strict=True):
                    total = total * size + digit
                chunk[f"#{name}"] = (total, math.prod(each(extent)))
            yield {**chunk, "": np.zeros(len(flat), np.int64)}, number

    def letters_at(self, assignment: Assignment, cells: Any, extents: Mapping[str, Any]) -> dict[str, list[Any]]:
        """The letters of the target at some cells; its indices are letters that walk whole axes, or 0."""
        target = assignment.target
        shape = self.shapes[target.tensor]
        columns = iter(np.unravel_index(cells, shape) if shape else ())
        found: dict[str, list[Any]] = {}
        for tree, index in zip(self.axes[target.tensor].values(), target.indices, strict=True):
            whole = evaluate(tree, self.symbols)
            own = [next(columns) for _ in each(whole)]
            if isinstance(index, Name) and index.id not in found and extents.get(index.id) == whole:
                found[index.id] = own
            elif not (isinstance(index, Number) and index.value == 0) or axis_kind(self.op, tree) != "ones":
                raise TooMuchError
        return found
