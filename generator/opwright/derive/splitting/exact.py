"""Exact values of formulas along one spatial axis: whole numbers, and fractions where a quotient is none.

In: a formula, sizes and letters. Out: its value, or `Unknown` where it is more than arithmetic.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from ...language import expr
from ...language.evaluate import COMPARED
from ...language.expr import Binary, Call, Expr, Name, Number, Unary


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
    if isinstance(tree, (Number, Name)):
        found = tree.value if isinstance(tree, Number) else facts[tree.id]
        return found if isinstance(found, int) else Fraction(found)
    if isinstance(tree, Unary):
        inner = value(tree.operand, facts)
        return not inner if tree.op == "not" else -inner
    if isinstance(tree, Call) and tree.function in expr.SCALE_FUNCTIONS and not value(tree.arguments[1], facts):
        return 0
    if isinstance(tree, Call) and tree.function in FUNCTIONS:
        arguments = [value(argument, facts) for argument in tree.arguments]
        if tree.function in ("floor", "ceil"):
            return math.floor(arguments[0]) if tree.function == "floor" else math.ceil(arguments[0])
        if tree.function == "prod":
            return arguments[0] * (value(tree.arguments[0], facts.beside) if facts.beside is not None else 1)
        return min(arguments) if tree.function == "min" else max(arguments)
    if not isinstance(tree, Binary):
        raise Unknown
    return _OPERATIONS[tree.op](value(tree.left, facts), value(tree.right, facts))
