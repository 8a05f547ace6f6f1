"""What conditions say: their consequences, their opposites, and which sizes constraints let divide which.

In: conditions, or an operation. Out: the conditions that follow from one; the one that says what several do, or holds
where another does not; pairs of integers, of which the second divides the first in every call.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence

from ...language.expr import Binary, Call, Expr, Number, Unary
from ...language.model import Op

OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


def conjuncts(tree: Expr) -> Iterator[Expr]:
    """The consequences of a condition: the operands of `and`, and the argument of `all` on every axis."""
    if isinstance(tree, Binary) and tree.op == "and":
        yield from conjuncts(tree.left)
        yield from conjuncts(tree.right)
    elif isinstance(tree, Call) and tree.function == "all":
        yield from conjuncts(tree.arguments[0])
    else:
        yield tree


def conjunction(conditions: Sequence[Expr]) -> Expr:
    """The condition that all of some hold."""
    return functools.reduce(lambda one, other: Binary("and", one, other), conditions)


def plus_zero(value: Expr) -> Expr:
    """A value with 0 added, so that it is not -0: to what its outer conditions choose instead of 0."""
    if isinstance(value, Call) and value.function == "select" and is_number(value.arguments[2], 0):
        condition, chosen, zero = value.arguments
        return dataclasses.replace(value, arguments=(condition, plus_zero(chosen), zero))
    return Binary("+", value, Number(0))


def opposite(tree: Expr) -> Expr:
    """The condition that holds where another does not, if no number in it is NaN."""
    if isinstance(tree, Unary) and tree.op == "not":
        return tree.operand
    if isinstance(tree, Binary) and tree.op in OPPOSITE:
        return Binary(OPPOSITE[tree.op], tree.left, tree.right)
    return Unary("not", tree)


def divisible(op: Op) -> set[tuple[Expr, Expr]]:
    """The pairs for which constraints state that the second divides the first, alone or among other conditions."""
    pairs = set()
    for constraint in op.constraints:
        for node in conjuncts(constraint.expr.tree) if constraint.expr else ():
            if isinstance(node, Binary) and node.op == "==":
                for rest, zero in ((node.left, node.right), (node.right, node.left)):
                    if isinstance(rest, Binary) and rest.op == "%" and zero == Number(0):
                        pairs.add((rest.left, rest.right))
    return pairs


def is_number(tree: Expr, value: float) -> bool:
    """Whether a tree is a number as it stands."""
    if isinstance(tree, Unary) and tree.op == "-":
        return is_number(tree.operand, -value)
    return isinstance(tree, Number) and tree.value == value
