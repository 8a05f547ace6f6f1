"""The address of an element of a tensor: its axes in a layout, the index on each, and the strides.

In: an operation, an element as its semantics read it, the layout words of a variant. Out: an `Access`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..language import expr
from ..language.expr import Read
from ..language.model import Op, Tensor
from ..memo import memoised
from .algebra.poly import ONE, ZERO, Affine, Poly
from .expansion import Expansion


@dataclass(frozen=True)
class Axis:
    """One axis of one access: the extent of the tensor, the index, and the stride."""

    name: str
    extent: Poly
    index: Affine
    stride: Poly


@dataclass(frozen=True)
class Access:
    """An element of a tensor as the nest reads it; `arrangements` has one entry per distinct arrangement in memory."""

    tensor: str
    arrangements: tuple[tuple[Axis, ...], ...]

    def coefficient(self, letter: str) -> tuple[Poly, ...]:
        """The change of the address per step of a letter, per way."""
        return tuple(
            sum((axis.index.coefficient(letter) * axis.stride for axis in axes), start=ZERO)
            for axes in self.arrangements
        )

    def substitute(self, letters: Mapping[str, Affine]) -> Access:
        if not any(axis.index.mentions(letters) for axes in self.arrangements for axis in axes):
            return self
        arrangements = tuple(
            tuple(dataclasses.replace(axis, index=axis.index.substitute(letters)) for axis in axes)
            for axes in self.arrangements
        )
        return Access(self.tensor, arrangements)


@memoised
def _unordered(
    op: Op, expansion: Expansion, read: Read, letters: tuple[str, ...], vectors: frozenset[str]
) -> tuple[dict[str, list[Axis]], ...]:
    """By axis of the tensor, for each arrangement: its axes of the access, whose distances a layout tells."""
    tensor = op.tensor(read.tensor)
    found = []
    for dims, index in _arrangements(tensor, read):
        axes: dict[str, list[Axis]] = {}
        for name, extent in dims.items():
            vector = bool(expr.loose_names(extent) & expansion.vectors)
            axes[name] = [
                Axis(
                    copy,
                    expansion.poly(extent, suffix),
                    expansion.affine(index[name], suffix, letters, vectors),
                    ONE,
                )
                for copy, suffix in expansion.copies(name, vector)
            ]
        found.append(axes)
    return tuple(found)


def _arrangements(tensor: Tensor, read: Read) -> Iterator[tuple[dict[str, expr.Expr], dict[str, expr.Expr]]]:
    """The extents and the indices of a tensor by its axes, for each arrangement."""
    if not tensor.arrangements:
        yield {axis: extent.tree for axis, extent in tensor.dims.items()}, dict(zip(tensor.dims, read.indices))
    for arrangement in tensor.arrangements.values():
        view = dict(zip(tensor.view, read.indices))
        index = {axis: expr.substitute(entry.tree, view) for axis, entry in arrangement.index.items()}
        yield {axis: extent.tree for axis, extent in arrangement.dims.items()}, index


def access(
    op: Op,
    read: Read,
    layouts: Mapping[str, str],
    expansion: Expansion,
    letters: Sequence[str],
    vectors: Collection[str],
) -> Access:
    """The address of an element in the layout of the variant."""
    tensor = op.tensor(read.tensor)
    arrangements = []
    for axes in _unordered(op, expansion, read, tuple(letters), frozenset(vectors)):
        order = op.layouts[tensor.layout][layouts[tensor.layout]] if tensor.layout else tuple(axes)
        arrangements.append(_strided([axis for name in order for axis in axes[name]]))
    return Access(read.tensor, tuple(arrangements))


def _strided(axes: Sequence[Axis]) -> tuple[Axis, ...]:
    """Axes with their distances: the product of the extents of those further in."""
    made: list[Axis] = []
    stride = ONE
    for axis in reversed(axes):
        made.append(dataclasses.replace(axis, stride=stride))
        stride = axis.extent * stride
    return tuple(reversed(made))


def merged(accessed: Access, ones: Mapping[str, Affine]) -> Access:
    """The access without letters of one value, and only with arrangements that differ in memory."""
    accessed = accessed.substitute(ones)
    letters = {letter for axes in accessed.arrangements for axis in axes for letter in axis.index.letters}
    distances = {letter: accessed.coefficient(letter) for letter in letters}
    if all(len(set(strides)) == 1 for strides in distances.values()):
        return Access(accessed.tensor, accessed.arrangements[:1])
    return accessed


def mixed_radix(index: Affine, extent: Poly, extents: Mapping[str, Poly]) -> tuple[str, ...] | None:
    """The letters, outermost first, by which `index` walks exactly [0, extent); None if it does not."""
    if index.offset != ZERO:
        return None
    rest = dict(index.coefficients)
    order: list[str] = []
    reach = ONE
    while rest:
        letter = next((name for name, coefficient in rest.items() if coefficient == reach), None)
        if letter is None or letter not in extents:
            return None
        order.insert(0, letter)
        reach = reach * extents[letter]
        del rest[letter]
    return tuple(order) if reach == extent else None
