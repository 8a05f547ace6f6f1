"""Evaluates integer and truth expressions in exact integers.

In: a tree and the values of its symbols. Out: a value, or one per spatial axis. Raises Inexact if a division leaves a
remainder.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..memo import memoised
from .expr import (
    REDUCTIONS,
    SCALE_FUNCTIONS,
    VECTOR_FUNCTIONS,
    Binary,
    Call,
    Expr,
    Inexact,
    Name,
    Number,
    Unary,
    Value,
    loose_names,
)

COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def _exact(a: int, b: int) -> int:
    if b == 0 or a % b:
        raise Inexact(f"{a} / {b} leaves a remainder" if b else f"{a} / 0")
    return a // b


def _modulo(a: int, b: int) -> int:
    if b == 0:
        raise Inexact(f"{a} % 0")
    return a % abs(b)


def _floor(a: int, b: int) -> int:
    if b == 0:
        raise Inexact(f"{a} / 0")
    return a // b


def _scaled(whole: int, factor: float) -> int:
    """A product in f32, rounded down. Raises Inexact if it is not finite."""
    with np.errstate(all="ignore"):
        product = float(np.float32(whole) * np.float32(factor))
    if not math.isfinite(product):
        raise Inexact(f"{whole} * {factor} is no finite number of f32")
    return math.floor(product)


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _exact,
    "%": _modulo,
    **COMPARED,
    "floor": _floor,
    "ceil": lambda a, b: -_floor(-a, b),
}


_COLLECTIONS: dict[str, Callable[..., int]] = {"min": min, "max": max, "any": any, "all": all, "prod": math.prod}


Evaluator = Callable[[Mapping[str, Value], int], int]


def evaluate(tree: Expr, symbols: Mapping[str, Value]) -> Value:
    """The value of an integer or boolean expression, in exact integers: a tuple if it has one per spatial axis.

    `and` and `or` short-circuit. Raises Inexact if `/` leaves a
    remainder or a divisor is zero.
    """
    visit, names = _compiled(tree)
    for name in names:
        value = symbols[name]
        if isinstance(value, tuple):
            return tuple([visit(symbols, axis) for axis in range(len(value))])
    return visit(symbols, 0)


@memoised
def _compiled(tree: Expr) -> tuple[Evaluator, tuple[str, ...]]:
    """A tree as a function, and its names that may have a value per axis."""
    return _evaluator(tree), tuple(sorted(loose_names(tree)))


def _axes(tree: Expr, symbols: Mapping[str, Value]) -> range | None:
    """The spatial axes that a tree has values for; None if it has one value."""
    for name in _compiled(tree)[1]:
        value = symbols[name]
        if isinstance(value, tuple):
            return range(len(value))
    return None


@memoised
def _evaluator(node: Expr) -> Evaluator:
    """A node compiled to a function of the symbols and the axis: trees are walked once and evaluated often."""
    if isinstance(node, Number):
        number = node.value
        assert isinstance(number, int)
        return lambda symbols, axis: number
    if isinstance(node, Name):
        name = node.id

        def symbol(symbols: Mapping[str, Value], axis: int) -> int:
            value = symbols[name]
            return value[axis] if isinstance(value, tuple) else value

        return symbol
    if isinstance(node, Unary):
        operand = _evaluator(node.operand)
        if node.op == "not":
            return lambda symbols, axis: not operand(symbols, axis)
        return lambda symbols, axis: -operand(symbols, axis)
    if isinstance(node, Binary):
        left, right = _evaluator(node.left), _evaluator(node.right)
        if node.op == "and":
            return lambda symbols, axis: left(symbols, axis) and right(symbols, axis)
        if node.op == "or":
            return lambda symbols, axis: left(symbols, axis) or right(symbols, axis)
        binary = _OPERATIONS[node.op]
        return lambda symbols, axis: binary(left(symbols, axis), right(symbols, axis))
    assert isinstance(node, Call)
    return _call(node)


def _call(node: Call) -> Evaluator:
    first = node.arguments[0]
    if node.function in ("floor", "ceil"):
        assert isinstance(first, Binary)
        left, right, rounded = _evaluator(first.left), _evaluator(first.right), _OPERATIONS[node.function]
        return lambda symbols, axis: rounded(left(symbols, axis), right(symbols, axis))
    if node.function in VECTOR_FUNCTIONS:
        return lambda symbols, axis: 1
    if node.function in SCALE_FUNCTIONS:
        whole, factor = map(_evaluator, node.arguments)
        return lambda symbols, axis: _scaled(whole(symbols, axis), factor(symbols, axis))
    collect, arguments = _COLLECTIONS[node.function], [_evaluator(argument) for argument in node.arguments]
    if node.function in REDUCTIONS:
        return lambda symbols, axis: collect(arguments[0](symbols, each) for each in _axes(first, symbols) or ())
    return lambda symbols, axis: collect(argument(symbols, axis) for argument in arguments)
