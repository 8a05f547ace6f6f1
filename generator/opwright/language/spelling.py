"""Prints expressions in the spec language, as `expr.parse` reads them, with minimal parentheses.

In: a tree. Out: text that parses to the same tree.
"""

from __future__ import annotations

import math
import re

from .expr import COMPARISONS, Call, Expr, Name, Number, Read, Unary

_LEVEL = {"or": 1, "and": 2, **dict.fromkeys(COMPARISONS, 4), "+": 5, "-": 5, "*": 6, "/": 6, "%": 6}
_NOT, _NEGATION, _ATOM = 3, 7, 8


def spell(tree: Expr) -> str:
    """The text of a tree."""
    return _spell(tree, 0)


def _spell(node: Expr, level: int) -> str:
    if isinstance(node, Number):
        text = number(node.value)
        return f"({text})" if text.startswith("-") and level > _NEGATION else text
    if isinstance(node, Name):
        return node.id
    if isinstance(node, Read):
        return f"{node.tensor}[{_list(node.indices)}]"
    if isinstance(node, Call):
        return f"{node.function}({_list(node.arguments)})"
    if isinstance(node, Unary):
        own = _NOT if node.op == "not" else _NEGATION
        text = f"{'not ' if node.op == 'not' else '-'}{_spell(node.operand, own)}"
    else:
        own = _LEVEL[node.op]
        # Comparisons do not chain, so each side of one is a sum.
        left = own + 1 if node.op in COMPARISONS else own
        text = f"{_spell(node.left, left)} {node.op} {_spell(node.right, own + 1)}"
    return f"({text})" if level > own else text


def _list(items: tuple[Expr, ...]) -> str:
    return ", ".join(_spell(item, 0) for item in items)


def number(value: float) -> str:
    """A literal; the grammar requires digits on both sides of a point."""
    if isinstance(value, int):
        return str(value)
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return re.sub(r"^(-?[0-9]+)(e|$)", r"\1.0\2", repr(value))
