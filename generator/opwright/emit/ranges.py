"""Bounds of loops, and the tests before them, as C.

In: loops and conditions of a nest, and the scopes of a kernel. Out: nodes. An index that may leave its axis narrows a
loop: the bounds follow from `0 <= index < extent` by division, rounded down or up; conditions without letters are
tested.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..derive.algebra.poly import ONE, Affine, Poly
from ..derive.nest import Loop, Solved, Within
from . import nodes
from .nodes import Binary, Expr, Name, Unary
from .scopes import FUNCTION, LANE, TASK, Scopes

_ONE = Affine.of({}, ONE)


def range_of(letter: str) -> str:
    """The field of the spec that a letter comes from; its copy per spatial axis has a suffix."""
    return f"semantics.ranges.{letter.partition('_')[0]}"


class Ranges:
    """The bounds of one kernel's loops."""

    def __init__(self, scopes: Scopes) -> None:
        self.scopes = scopes

    def of_loop(self, loop: Loop, extra: Sequence[Within], block: tuple[Expr, Expr] | None) -> tuple[Expr, Expr, int]:
        """The first and past-the-end value of a loop's letter, and the scope in which they are known."""
        low, high = block or (nodes.ZERO, self.scopes.poly(loop.extent))
        lows, highs = [low], [high]
        conditions = [*loop.within, *extra]
        if loop.solved is not None:
            reach = Affine.of({}, loop.solved.scale * (loop.solved.extent - ONE) + ONE)
            conditions.append(Within(loop.solved.right, reach))
        letters: set[str] = set()
        for condition in conditions:
            low, high = self._bounds(loop.letter, condition)
            lows.append(low)
            highs.append(high)
            letters |= {*condition.index.letters, *condition.extent.letters} - {loop.letter}
        level = max(self.scopes.level_of(letters), LANE if block else FUNCTION)
        return nodes.nested("opwright_max", lows), nodes.nested("opwright_min", highs), level

    def _bounds(self, letter: str, condition: Within) -> tuple[Expr, Expr]:
        """The first and past-the-end value of a letter for which `0 <= index < extent`."""
        coefficient = condition.index.coefficient(letter)
        rest = condition.index.without(letter)
        if self.scopes.expansion.positive(coefficient):
            past = condition.extent - rest if coefficient == ONE else condition.extent - _ONE - rest
            high = self._divided("floor", past, coefficient)
            return self._divided("ceil", rest.scaled(Poly.number(-1)), coefficient), high
        divisor = -coefficient
        high = self._divided("floor", rest + _ONE if divisor == ONE else rest, divisor)
        return self._divided("ceil", rest - condition.extent + _ONE, divisor), high

    def _divided(self, rounded: str, value: Affine, divisor: Poly) -> Expr:
        """The quotient rounded up, or rounded down plus 1; for a divisor of 1 the value itself."""
        dividend = self.scopes.affine(value)
        if divisor == ONE:
            return dividend
        quotient = nodes.call(f"opwright_{rounded}_div", dividend, self.scopes.poly(divisor))
        return Binary("+", quotient, nodes.ONE) if rounded == "floor" else quotient

    def first_that_divides(self, loop: Loop, solved: Solved, level: int, low: Expr, end: Expr) -> Expr:
        """The first value of a letter for which the solved equation has an integer solution."""
        begin = Name(self.scopes.define(level, f"{loop.letter}_low", low, range_of(loop.letter)))
        slope = self.scopes.poly(solved.right.coefficient(loop.letter))
        rest = self.scopes.affine(solved.right.without(loop.letter))
        return nodes.call("opwright_first_multiple", begin, end, slope, rest, self.scopes.poly(solved.scale))

    def steps(self, loop: Loop, solved: Solved) -> tuple[str, str]:
        """Names of the step constants of a stepped loop: of its letter, and of the letter solved for."""
        coefficient = solved.right.coefficient(loop.letter)
        positive = self.scopes.expansion.positive(coefficient)
        size, scale = self.scopes.poly(coefficient if positive else -coefficient), self.scopes.poly(solved.scale)
        divisor = nodes.call("opwright_gcd", scale, size)
        source = range_of(loop.letter)
        step = self.scopes.define(FUNCTION, f"{loop.letter}_step", Binary("/", scale, divisor), source)
        # Not size * step / scale, which is equal: that product may overflow int64.
        moved = Binary("/", size, divisor)
        value = moved if positive else Unary("-", moved)
        return step, self.scopes.define(FUNCTION, f"{solved.letter}_step", value, source)

    def inside(self, condition: Within) -> list[Expr]:
        """`0 <= index` and `index < extent`."""
        index, extent = self.scopes.affine(condition.index), self.scopes.affine(condition.extent)
        above = [] if index == nodes.ZERO else [Binary("<=", nodes.ZERO, index)]
        return [*above, Binary("<", index, extent)]

    def solution(self, condition: Solved) -> list[Expr]:
        """Declares the letter that an equation is solved for; returns the tests that a solution exists."""
        scopes = self.scopes
        right, scale = scopes.affine(condition.right), scopes.poly(condition.scale)
        level = max(scopes.level_of(condition.right.letters), TASK)
        exact = condition.scale != ONE
        value = nodes.call("opwright_floor_div", right, scale) if exact else right
        letter = Name(scopes.define(level, condition.letter, value, range_of(condition.letter)))
        scopes.level[condition.letter] = level
        tests = [Binary("==", Binary("*", letter, scale), right)] if exact else []
        extent = scopes.poly(condition.extent)
        return [*tests, Binary("<=", nodes.ZERO, letter), Binary("<", letter, extent)]
