"""Where elements stand in memory: strides, bases and elements of tensors as C.

In: accesses of a nest, and the scopes of a kernel. Out: nodes; strides and bases are declared where they are known.
"""

from __future__ import annotations

from collections.abc import Callable

from ..derive.nest import Access
from ..derive.poly import ONE, ZERO, Poly
from . import nodes
from .nodes import Binary, Expr, Index, Name
from .scopes import FUNCTION, Scopes


class Addresses:
    """The addresses of one kernel."""

    def __init__(self, scopes: Scopes) -> None:
        self.scopes = scopes
        self.strides: dict[tuple[str, str], str] = {}

    def base(self, accessed: Access, inner: str | None) -> tuple[Expr, set[str]]:
        """The element offset without the inner letter's part, and the letters it depends on."""
        parts: list[Expr] = []
        letters: set[str] = set()
        if len(accessed.ways) == 1:
            for axis in accessed.ways[0]:
                index = axis.index.without(inner) if inner else axis.index
                if index.letters or index.offset != ZERO:
                    value = self.scopes.affine(index)
                    parts.append(_scaled(value, self._stride(accessed, axis.name, axis.stride)))
                    letters |= set(index.letters)
        else:
            walked = (name for axes in accessed.ways for axis in axes for name in axis.index.letters)
            for letter in dict.fromkeys(walked):
                if letter != inner:
                    parts.append(_scaled(Name(letter), self._letter_stride(accessed, letter)))
                    letters.add(letter)
        return nodes.total(parts), letters

    def element(self, accessed: Access, name: str, inner: str | None) -> Index:
        """`tensor[at + inner * step]`, its base declared in the outermost scope that knows it."""
        base, letters = self.base(accessed, inner)
        place: list[Expr] = []
        if base != nodes.ZERO:
            source = self.scopes.field_of(accessed.tensor)
            place.append(Name(self.scopes.define(self.scopes.level_of(letters), f"{name}_at", base, source)))
        if inner is not None:
            place += self.step(accessed, inner, f"{name}_step")
        return Index(Name(accessed.tensor), nodes.total(place))

    def step(self, accessed: Access, letter: str, name: str) -> list[Expr]:
        """How far a letter moves an address: nothing, the letter, or its product with a constant of that name."""
        distances = set(accessed.coefficient(letter))
        if distances == {ZERO}:
            return []
        if distances == {ONE}:
            return [Name(letter)]
        if len(accessed.ways) > 1:
            return [_scaled(Name(letter), self._letter_stride(accessed, letter))]
        if name not in self.scopes.taken:
            self.scopes.define(
                FUNCTION, name, self.scopes.poly(next(iter(distances))), self.scopes.field_of(accessed.tensor)
            )
        return [Binary("*", Name(letter), Name(name))]

    def _stride(self, accessed: Access, axis: str, value: Poly) -> str | None:
        """The name of the distance between neighbours on an axis; None where it is 1."""
        if value == ONE:
            return None
        suffix = axis.removeprefix("X_").lower()
        return self._declared(accessed.tensor, axis, suffix, lambda: self.scopes.poly(value))

    def _letter_stride(self, accessed: Access, letter: str) -> str | None:
        """The distance of a letter where arrangements differ: chosen at run time."""
        distances = accessed.coefficient(letter)
        if set(distances) == {ONE}:
            return None

        def value() -> Expr:
            return self.scopes.chosen(accessed.tensor, [*map(self.scopes.poly, distances)])

        return self._declared(accessed.tensor, letter, letter, value)

    def _declared(self, tensor: str, along: str, suffix: str, value: Callable[[], Expr]) -> str:
        """The name of a stride, declared where it is asked for first."""
        name = f"{tensor}_stride_{suffix}"
        if (tensor, along) not in self.strides:
            self.strides[(tensor, along)] = name
            self.scopes.define(FUNCTION, name, value(), self.scopes.field_of(tensor))
        return name


def _scaled(value: Expr, stride: str | None) -> Expr:
    return value if stride is None else Binary("*", value, Name(stride))
