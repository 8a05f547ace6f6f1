"""Formulas that differ only in the order of operands: every operation takes the same values, and rounds as before.

In: two formulas or assignments whose names mean the same. Out: whether they are alike. Sums and products keep their
grouping. Operands of `and` and `or` keep their order if one of them may be undefined, as a quotient is. So do those of
`min` and `max` that are values of tensors: of 0 and -0 the kernels give the second.
"""

from __future__ import annotations

from collections.abc import Hashable

from ..language.expr import Binary, Call, Expr, Name, Number, Read, children, walk
from ..language.schema import Assignment, Located

SYMMETRIC = ("+", "*", "==", "!=", "and", "or", "min", "max", "bit_and", "bit_or", "bit_xor")
TURNED = {">": "<", ">=": "<="}
PARTIAL = ("/", "%")


def alike(was: object, now: object) -> bool:
    """Whether two formulas or assignments are the same but for the order of operands."""
    if isinstance(was, Located) and isinstance(now, Located):
        return _form(was.tree) == _form(now.tree)
    if isinstance(was, Assignment) and isinstance(now, Assignment):
        return was.op == now.op and _form(was.target) == _form(now.target) and _form(was.value) == _form(now.value)
    return False


def _form(tree: Expr) -> Hashable:
    """A formula with symmetric operands in one order."""
    if isinstance(tree, Number):
        return "number", repr(tree.value)
    if isinstance(tree, Name):
        return "name", tree.id
    operands = [_form(operand) for operand in children(tree)]
    if isinstance(tree, Read):
        return "read", tree.tensor, *operands
    operation = tree.function if isinstance(tree, Call) else tree.op
    if operation in TURNED:
        operation, operands = TURNED[operation], operands[::-1]
    if operation in SYMMETRIC and len(operands) == 2 and not _ordered(operation, tree):
        operands.sort(key=repr)
    return type(tree).__name__, operation, *operands


def _ordered(operation: str, tree: Expr) -> bool:
    """Whether the order of a symmetric operation matters for some values of its operands."""
    if operation in ("and", "or"):
        return any(isinstance(node, Binary) and node.op in PARTIAL for node in walk(tree))
    return operation in ("min", "max") and any(isinstance(node, Read) for node in walk(tree))
