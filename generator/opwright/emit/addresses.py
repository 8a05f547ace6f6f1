"""Addresses of elements: strides, bases and elements of tensors as C.

In: accesses of a nest, and the scopes of a kernel. Out: nodes; strides and bases are declared in the outermost scope
that knows them.
"""

from __future__ import annotations

from collections.abc import Callable

from ..derive.access import Access, Axis, mixed_radix
from ..derive.algebra.poly import ONE, ZERO, Poly
from ..derive.nest import Nest
from . import nodes
from .nodes import Binary, Expr, Index, Name
from .scopes import FUNCTION, Scopes


class Addresses:
    """The addresses of one kernel."""

    def __init__(self, scopes: Scopes, nest: Nest) -> None:
        self.scopes = scopes
        self.strides: dict[tuple[str, str], str] = {}
        self.extents = {**dict(nest.outputs), **scopes.expansion.extents}
        if nest.lanes is not None:
            self.extents[nest.lanes.position] = nest.lanes.extent

    def base(self, accessed: Access, inner: str | None) -> tuple[Expr, set[str]]:
        """The element offset without the inner letter's part, and the letters it depends on."""
        parts: list[Expr] = []
        wrapped: list[tuple[Expr, Expr]] = []
        letters: set[str] = set()
        split = self._split(accessed, inner)
        if len(accessed.arrangements) == 1:
            for axis in accessed.arrangements[0]:
                index = axis.index.without(inner) if inner else axis.index
                if not index.letters and index.offset == ZERO:
                    continue
                value, stride = self.scopes.affine(index), self._stride(accessed, axis)
                if axis is split and stride is not None:
                    wrapped.append((value, stride))
                else:
                    parts.append(_scaled(value, stride))
                letters |= set(index.letters)
        else:
            walked = (name for axes in accessed.arrangements for axis in axes for name in axis.index.letters)
            for letter in dict.fromkeys(walked):
                if letter != inner:
                    parts.append(_scaled(Name(letter), self._letter_stride(accessed, letter)))
                    letters.add(letter)
            parts += self._first(accessed)
        base = nodes.total(parts)
        for value, stride in wrapped:
            base = _offset(base, value, stride)
        return base, letters

    def element(self, accessed: Access, name: str, inner: str | None) -> Index:
        """`tensor[at + inner * step]`, its base declared in the outermost scope that knows it."""
        base, letters = self.base(accessed, inner)
        at = self.declared(accessed, f"{name}_at", self.scopes.level_of(letters), base)
        place = at if inner is None else self.moved(at, accessed, inner, f"{name}_step")
        return Index(Name(accessed.tensor), place)

    def declared(self, accessed: Access, name: str, level: int, base: Expr) -> Expr:
        """A base by its name, declared in a scope; 0 needs none."""
        if base == nodes.ZERO:
            return base
        return Name(self.scopes.define(level, name, base, self.scopes.field_of(accessed.tensor)))

    def moved(self, at: Expr, accessed: Access, letter: str, name: str) -> Expr:
        """An address moved by a letter, times its step if that is not 1: a constant of that name."""
        distances = set(accessed.coefficient(letter))
        if distances == {ZERO}:
            return at
        step = None if distances == {ONE} else self._step(accessed, letter, name, next(iter(distances)))
        if step is not None and self._split(accessed, letter) is not None:
            return _offset(at, Name(letter), step)
        walked = _scaled(Name(letter), step)
        return walked if at == nodes.ZERO else nodes.plus(at, walked)

    def _split(self, accessed: Access, inner: str | None) -> Axis | None:
        """The axis of which the inner loop computes only a part of the index, if that part may lie far out of bounds.

        Multiplied by the stride it may overflow int64, and so may the step: with a pad of 2**61, or a huge stride.
        """
        if inner is None or len(accessed.arrangements) > 1:
            return None
        axes = (axis for axis in accessed.arrangements[0] if inner in axis.index.letters and axis.stride != ONE)
        return next((axis for axis in axes if mixed_radix(axis.index, axis.extent, self.extents) is None), None)

    def _step(self, accessed: Access, letter: str, name: str, distance: Poly) -> Expr | None:
        """The constant by which a letter moves an address."""
        if len(accessed.arrangements) > 1:
            return self._letter_stride(accessed, letter)
        if name not in self.scopes.taken:
            split = self._split(accessed, letter)
            value = self.scopes.poly(distance)
            if split is not None and (factor := split.index.coefficient(letter)) != ONE:
                stride = self._stride(accessed, split)
                assert stride is not None
                others = self.scopes.poly(distance - factor * split.stride)
                value = _offset(others, self.scopes.poly(factor), stride)
            self.scopes.define(FUNCTION, name, value, self.scopes.field_of(accessed.tensor))
        return Name(name)

    def _stride(self, accessed: Access, axis: Axis) -> Expr | None:
        """The stride of an axis; None if it is 1."""
        if axis.stride == ONE:
            return None
        suffix = axis.name.removeprefix("X_").lower()
        return self._declared(accessed.tensor, axis.name, suffix, lambda: self.scopes.poly(axis.stride))

    def _letter_stride(self, accessed: Access, letter: str) -> Expr | None:
        """The stride of a letter if arrangements differ: chosen at run time."""
        distances = accessed.coefficient(letter)
        if set(distances) == {ONE}:
            return None

        def value() -> Expr:
            return self.scopes.chosen(accessed.tensor, [*map(self.scopes.poly, distances)])

        return self._declared(accessed.tensor, letter, letter, value)

    def _first(self, accessed: Access) -> list[Expr]:
        """The offset for letters at 0, if arrangements differ and some axis is walked from its end."""
        starts = [sum((axis.index.offset * axis.stride for axis in axes), start=ZERO) for axes in accessed.arrangements]
        if all(start == ZERO for start in starts):
            return []
        name = f"{accessed.tensor}_first"
        if name not in self.scopes.taken:
            value = self.scopes.chosen(accessed.tensor, [*map(self.scopes.poly, starts)])
            self.scopes.define(FUNCTION, name, value, self.scopes.field_of(accessed.tensor))
        return [Name(name)]

    def _declared(self, tensor: str, along: str, suffix: str, value: Callable[[], Expr]) -> Expr:
        """A stride by its name, declared at its first use."""
        name = f"{tensor}_stride_{suffix}"
        if (tensor, along) not in self.strides:
            self.strides[(tensor, along)] = name
            self.scopes.define(FUNCTION, name, value(), self.scopes.field_of(tensor))
        return Name(name)


def _scaled(value: Expr, stride: Expr | None) -> Expr:
    return value if stride is None else Binary("*", value, stride)


def _offset(base: Expr, index: Expr, stride: Expr) -> Expr:
    """`base + index * stride`, for an index that may lie far outside."""
    return nodes.call("opwright_offset", base, index, stride)
