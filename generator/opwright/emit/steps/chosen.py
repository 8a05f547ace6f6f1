"""Choices between two values as expressions: what both sides compute is computed once.

In: the condition and the two values of a `select`. Out: the same choice, of which the costly part stands once.
"""

from __future__ import annotations

import dataclasses

from ...derive.rewrites.sharing import COSTLY
from ...language import expr


def called_once(condition: expr.Expr, yes: expr.Expr, no: expr.Expr) -> tuple[expr.Expr, expr.Expr, expr.Expr]:
    """A choice whose two values call the same costly function: it is called once, with the selected argument."""
    for call in _costly(yes):
        other = next((found for found in _costly(no) if found.function == call.function and found != call), None)
        if other is not None:
            chosen = expr.Call("select", (condition, call.arguments[0], other.arguments[0]))
            once = dataclasses.replace(call, arguments=(chosen,))
            return condition, expr.replaced(yes, call, once), expr.replaced(no, other, once)
    return condition, yes, no


def _costly(tree: expr.Expr) -> list[expr.Call]:
    return [
        node
        for node in expr.walk(tree)
        if isinstance(node, expr.Call) and node.function in COSTLY and len(node.arguments) == 1
    ]
