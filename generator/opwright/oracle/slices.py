"""A slice of a large call with the results of the whole: some values of letters, independent of the others.

In: an operation of steps and a call. Out: smaller inputs, and how to take the same slice of the outputs. A size can be
cut if a single letter walks its axes, no step sums over that letter, and nothing computes with the size or the letter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..language import expr
from ..language.expr import Expr, Name
from ..language.model import Op, Step
from .statements import arrays_of, axes_of, letters_of, reads_of, target_of
from .step_call import Places, StepValidation
from .validate_steps import validate_steps


@dataclass(frozen=True)
class Cut:
    """The values of one axis that remain: the axis of a scalar size, or one of a run, counted from the last."""

    symbol: str
    back: int
    cells: tuple[int, ...]
    extent: int

    def spots(self, op: Op, name: str, places: Places) -> Iterator[int]:
        """Where an array has this axis."""
        for axis, extent in op.tensor(name).dims.items():
            found = places.get(axis, ())
            if extent.tree == Name(self.symbol) and len(found) >= self.back:
                yield found[-self.back]

    def of(self, op: Op, name: str, array: Any, places: Places) -> Any:
        """That slice of an array; an axis along which it is broadcast stays."""
        for spot in self.spots(op, name, places):
            array = array if array.shape[spot] != self.extent else np.take(array, self.cells, spot)
        return array


@dataclass(frozen=True)
class Slice:
    """The inputs and attributes of the smaller call, and the cuts that produced it."""

    inputs: tuple[Any, ...]
    attributes: Mapping[str, object]
    cuts: tuple[Cut, ...]
    places: Mapping[str, Places]

    def of(self, op: Op, outputs: Mapping[str, Any]) -> dict[str, Any]:
        """The same slice of the outputs."""
        found = dict(outputs)
        for cut in self.cuts:
            found = {name: cut.of(op, name, array, self.places[name]) for name, array in found.items()}
        return found

    def __str__(self) -> str:
        return " and ".join(f"{len(cut.cells)} of {cut.extent} values along {cut.symbol}" for cut in self.cuts)


def sliced(op: Op, inputs: Sequence[Any], attributes: Mapping[str, object], terms: int, maximum: int) -> Slice | None:
    """A slice of a call with about `maximum` of its terms; None if nothing can be cut."""
    call = validate_steps(op, inputs, attributes)
    cuts: list[Cut] = []
    for symbol, back, extent in sorted(_axes(op, call), key=lambda found: -found[2]):
        if terms <= maximum:
            break
        number = max(1, min(extent, extent * maximum // terms))
        cells = tuple(int(at) for at in np.unique(np.linspace(0, extent - 1, number).round()))
        cuts.append(Cut(symbol, back, cells, extent))
        terms = terms * len(cells) // extent
    if not cuts or terms > maximum:
        return None
    smaller = tuple(_cut(op, cuts, tensor.name, given, call.places) for tensor, given in zip(op.inputs, inputs))
    stated = {**attributes, **dict(_stated(op, cuts, attributes, call.places))}
    return Slice(smaller, stated, tuple(cuts), call.places) if validate_steps(op, smaller, stated).accepted else None


def _stated(
    op: Op, cuts: Sequence[Cut], attributes: Mapping[str, object], places: Mapping[str, Places]
) -> Iterator[tuple[str, list[int]]]:
    """The attributes that state the shape of an output, with the extents that remain."""
    for attribute in op.attributes:
        name = attribute.name or ""
        if attribute.shape_of and name in attributes:
            shape: list[int] = [*attributes[name]]  # type: ignore[misc]
            for cut in cuts:
                for spot in cut.spots(op, attribute.shape_of, places[attribute.shape_of]):
                    shape[spot] = len(cut.cells)
            yield name, shape


def _cut(op: Op, cuts: Sequence[Cut], name: str, given: Any, places: Mapping[str, Places]) -> Any:
    if isinstance(given, (list, tuple)):
        return [_cut(op, cuts, name, array, places) for array in given]
    for cut in cuts if given is not None else ():
        given = cut.of(op, name, given, places[name])
    return given


def _axes(op: Op, call: StepValidation) -> Iterator[tuple[str, int, int]]:
    """The axes that can be cut: their symbol, their position from the last of its axes, and their extent."""
    for dim in op.dims.values():
        value = call.values.get(dim.symbol)
        if value is not None and not dim.per_axis and _is_separable(op, dim.symbol):
            extents = value if isinstance(value, tuple) else (value,)
            yield from ((dim.symbol, len(extents) - at, int(extent)) for at, extent in enumerate(extents) if extent > 1)


def _is_separable(op: Op, symbol: str) -> bool:
    """Whether the values along a size are independent of each other."""
    ranges = {letter: extent.tree for letter, extent in op.semantics.ranges.items()}
    letters = {letter for letter, extent in ranges.items() if extent == Name(symbol)}
    extents = [extent for array in arrays_of(op) for extent in axes_of(op, array).values()]
    extents += ranges.values()
    extents += [e.tree for let in op.lets.values() for e in (*let.cases.values(), *([let.value] if let.value else []))]
    extents += [rule.expr.tree for rule in op.constraints if rule.expr]
    if any(symbol in expr.names(tree) for tree in extents if tree != Name(symbol)):
        return False
    listed = any(attribute.per == symbol for attribute in op.attributes)
    stated = any(symbol == op.dims[role].symbol for a in op.attributes for role in (a.extents_of, a.fills) if role)
    concatenated = any(t.joined and t.dims[t.joined].tree == Name(symbol) for t in op.inputs)
    return not (listed or stated or concatenated) and all(
        _alone(op, step, symbol, letters) for step in op.semantics.steps
    )


def _alone(op: Op, step: Step, symbol: str, letters: set[str]) -> bool:
    """Whether a step has a single letter over a size, writes with it, and reads along the size with it alone."""
    target = target_of(step)
    own = letters & {letter for made in step.assignments for letter in letters_of(op, step, made)}
    if len(own) > 1 or not own <= expr.names(target):
        return False
    for read in (target, *reads_of(step)):
        for extent, index in zip(axes_of(op, read.tensor).values(), read.indices, strict=True):
            along = extent == Name(symbol)
            if along != (isinstance(index, Name) and index.id in own) or (not along and expr.names(index) & own):
                return False
    outside = [guard.tree for guard in step.where] + [made.value for made in step.assignments]
    return not any((own | {symbol}) & names for tree in outside for names in _loose(tree))


def _loose(tree: Expr) -> Iterator[frozenset[str]]:
    """The names of a value outside of indices."""
    if isinstance(tree, Name):
        yield frozenset({tree.id})
    for child in () if isinstance(tree, expr.Read) else expr.children(tree):
        yield from _loose(child)
