"""Exact values of formulas along one spatial axis: whole numbers, and fractions where a quotient is none.

In: a formula, sizes and letters. Out: its value, or `Unknown` where it is more than arithmetic.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from ...language import expr
from ...language.evaluate import COMPARED
from ...language.expr import Binary, Call, Expr, Name, Number, Unary
from ...memo import memoised


class Unknown(Exception):  # noqa: N818  # an answer, no failure
    """A formula has something else than plain arithmetic."""


class Facts(dict[str, Any]):
    """Sizes and letters along an axis, the named values that follow from them, and those of an axis beside it."""

    def __init__(self, lets: Mapping[str, Expr], stated: Mapping[str, Any], beside: Facts | None = None) -> None:
        super().__init__(stated)
        self.lets, self.beside = lets, beside

    def __missing__(self, name: str) -> Any:
        self[name] = found = value(self.lets[name], self)
        return found


FUNCTIONS = ("min", "max", "floor", "ceil", "prod")


def _quotient(a: Any, b: Any) -> Any:
    """A whole number where the quotient is one, which is faster to compute with than a fraction."""
    return Fraction(a, b) if a % b else a // b


_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _quotient,
    "%": lambda a, b: a % abs(b),
    **COMPARED,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
}


def value(tree: Expr, facts: Facts) -> Any:
    """The exact value of a formula along an axis; a product over axes has a factor of the one beside it."""
    return _evaluator(tree)(facts)


@memoised
def _evaluator(tree: Expr) -> Callable[[Facts], Any]:
    """A function of the facts: a formula is evaluated for many."""
    if isinstance(tree, Number):
        number = tree.value if isinstance(tree.value, int) else Fraction(tree.value)
        return lambda facts: number
    if isinstance(tree, Name):
        name = tree.id
        return lambda facts: _exact(facts[name])
    if isinstance(tree, Unary):
        operand = _evaluator(tree.operand)
        return (lambda facts: not operand(facts)) if tree.op == "not" else lambda facts: -operand(facts)
    if isinstance(tree, Binary):
        operate, left, right = _OPERATIONS[tree.op], _evaluator(tree.left), _evaluator(tree.right)
        return lambda facts: operate(left(facts), right(facts))
    if isinstance(tree, Call):
        return _of_call(tree, [*map(_evaluator, tree.arguments)])
    return _unknown


def _exact(number: Any) -> Any:
    return number if isinstance(number, int) else Fraction(number)


def _unknown(facts: Facts) -> Any:
    raise Unknown


def _of_call(tree: Call, arguments: Sequence[Callable[[Facts], Any]]) -> Callable[[Facts], Any]:
    function, first = tree.function, arguments[0]
    if function in expr.SCALE_FUNCTIONS:
        return lambda facts: 0 if not arguments[1](facts) else _unknown(facts)
    if function not in FUNCTIONS:
        return _unknown
    if function == "prod":
        return lambda facts: first(facts) * (first(facts.beside) if facts.beside is not None else 1)
    if function in ("floor", "ceil"):
        whole = math.floor if function == "floor" else math.ceil
        return lambda facts: whole(first(facts))
    chosen = min if function == "min" else max
    return lambda facts: chosen([argument(facts) for argument in arguments])
