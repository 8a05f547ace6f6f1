"""Guards of steps as bounds of loops.

In: the guards of a step, and the order of its loops. Out: for each loop its
narrowed bounds, and the remaining conditions as tests, each with the innermost loop that it depends on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...derive.algebra import slopes
from ...derive.program import Formula, Part, is_clamped
from ...derive.rewrites.accumulating import loose_axes
from ...language import expr
from ...language.expr import Number
from ...language.types import symbol_kinds
from .. import nodes
from ..nodes import ONE, ZERO, Binary, Call, Expr
from .elements import Elements


@dataclass
class Bounds:
    """By the name of a loop ('' for conditions without loops of the step): its narrowed bounds."""

    low: dict[str, list[Expr]] = field(default_factory=dict)
    high: dict[str, list[Expr]] = field(default_factory=dict)
    tests: dict[str, list[Expr]] = field(default_factory=dict)

    def span(self, loop: str, begin: Expr, end: Expr) -> tuple[Expr, Expr]:
        """The bounds of a loop that would go from `begin` to `end`."""
        lows, highs = [begin, *self.low.get(loop, ())], [end, *self.high.get(loop, ())]
        return nodes.nested("opwright_max", lows), nodes.nested("opwright_min", highs)


@dataclass(frozen=True)
class _Condition:
    """The expression of a condition `>= 0` on a spatial axis, if there is one, and the equivalent test."""

    tree: expr.Expr | None
    axis: int
    test: Expr
    names: frozenset[str]
    whole: frozenset[str]  # the letters that it takes on every spatial axis


class Guards:
    """The guards of one formula of a step."""

    def __init__(self, elements: Elements, part: Part, formula: Formula) -> None:
        self.elements, self.part, self.formula = elements, part, formula

    def bounds(self, loops: Sequence[str]) -> Bounds:
        """The narrowed bounds of `loops`, the innermost last."""
        found = Bounds()
        for condition in self.conditions():
            decided = [name for name in loops if name in self._copies(condition)]
            loop = decided[-1] if decided else ""
            if not loop or not self._solved(condition, loop, found):
                tests = found.tests.setdefault(loop, [])
                tests += [condition.test] if condition.test not in tests else []
        return found

    def conditions(self) -> list[_Condition]:
        elements, found = self.elements, []
        for read in (self.part.target, *self.formula.reads):
            array = elements.program.arrays[read.tensor]
            for number in loose_axes(elements.program, read):
                axis, index = array.axes[number], read.indices[number]
                last = slopes.minus(axis.extent, Number(1))
                least = elements.program.inside_from(read.tensor, number, index)
                if least > 1 and elements.roomy:
                    continue
                for copy in range(len(elements.axes)) if axis.kind == "spatial" else (0,):
                    if least == 1 or is_clamped(index, last):  # in bounds if there is any cell
                        some = Binary(">=", elements.integer(last, copy), ZERO)
                        found.append(_Condition(last, copy, some, expr.names(last), expr.gathered_names(last)))
                        continue
                    at, end = elements.integer(index, copy), elements.extent(axis, copy)
                    below = slopes.minus(last, index)
                    letters = (expr.names(index), expr.gathered_names(index))
                    found.append(_Condition(slopes.folded(index), copy, Binary(">=", at, ZERO), *letters))
                    found.append(_Condition(slopes.folded(below), copy, Binary("<", at, end), *letters))
        for letter in self.part.unless_empty:
            has_values = elements.scalar(elements.program.has_values(letter))
            found.append(_Condition(None, 0, has_values, frozenset(), frozenset()))
        for guard in self.part.where:
            trees = slopes.comparisons(guard.tree)
            for copy in self._axes(guard.tree):
                if trees is None:
                    test, tree = elements.integer(guard.tree, copy), guard.tree
                    found.append(_Condition(None, copy, test, expr.names(tree), expr.gathered_names(tree)))
                for tree in trees or ():
                    test = Binary(">=", elements.integer(tree, copy), ZERO)
                    found.append(_Condition(tree, copy, test, expr.names(tree), expr.gathered_names(tree)))
        return found

    def _axes(self, tree: expr.Expr) -> Sequence[int]:
        elements = self.elements
        spatial = {letter.name for letter in elements.program.letters.values() if letter.kind == "spatial"}
        spatial |= {symbol for symbol, kind in symbol_kinds(elements.op).items() if kind.vector}
        return range(len(elements.axes)) if expr.loose_names(tree) & spatial else (0,)

    def _copies(self, condition: _Condition) -> set[str]:
        letters, found = self.elements.program.letters, set[str]()
        for name in condition.names & letters.keys():
            copies = [copy for copy, _ in self.elements.copies(letters[name])]
            whole = name in condition.whole or letters[name].kind != "spatial"
            found |= {*(copies if whole else copies[condition.axis : condition.axis + 1])}
        return found

    def _solved(self, condition: _Condition, loop: str, found: Bounds) -> bool:
        """Turn a condition into a bound of a loop, if it is linear in the loop's letter."""
        letters = self.elements.program.letters
        letter = next(n for n in condition.names & letters.keys() if loop in dict(self.elements.copies(letters[n])))
        if condition.tree is None or (slope := slopes.slope(condition.tree, letter)) is None:
            return False
        sign = slopes.sign(slope, self.elements.minimum)
        rest = slopes.without(condition.tree, letter)
        if sign == 0 or letter in expr.names(rest):
            return False
        axis = condition.axis
        if sign > 0:
            found.low.setdefault(loop, []).append(self._quotient("ceil", slopes.negated(rest), slope, axis))
        elif expr.reads(rest) and slope == Number(-1):  # sums of what is read wrap around
            found.high.setdefault(loop, []).append(self.elements.integer(expr.Binary("+", rest, Number(1)), axis))
        else:
            past = self._quotient("floor", rest, slopes.negated(slope), axis)
            found.high.setdefault(loop, []).append(nodes.plus(past, ONE))
        return True

    def _quotient(self, rounded: str, value: expr.Expr, divisor: expr.Expr, axis: int) -> Expr:
        dividend = self.elements.integer(value, axis)
        if divisor == Number(1):
            return dividend
        return Call(f"opwright_{rounded}_by", (dividend, self.elements.integer(divisor, axis)))
