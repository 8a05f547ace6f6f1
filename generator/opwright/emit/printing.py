"""Expressions as Python and LaTeX text.

In: trees of expr.py. Out: strings. Operators keep their meaning: exact division and the floor of a quotient become
calls of helpers in the generated package.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..language import expr
from ..language.expr import COMPARISONS, Binary, Call, Expr, Name, Number, Read, Unary

_LEVEL = {
    "or": 1,
    "and": 2,
    "not": 3,
    **dict.fromkeys(COMPARISONS, 4),
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "%": 6,
    "neg": 7,
}


def _infix(op: str, left: str, right: str, level: int) -> str:
    text = f"{left} {op} {right}"
    return f"({text})" if level > _LEVEL[op] else text


def python(tree: Expr, vectors: frozenset[str] | set[str], wrap: str = "tuple") -> str:
    """An expression as Python; for vectors a comprehension over the spatial axes.

    Entries of a vector `S` are called `s_` inside. Divisions are calls of the package's module `rules`.
    """

    def comprehension(node: Expr, function: str) -> str:
        used = [name for name in dict.fromkeys(n.id for n in expr.walk(node) if isinstance(n, Name)) if name in vectors]
        entries = ", ".join(f"{name.lower()}_" for name in used)
        over = used[0] if len(used) == 1 else f"zip({', '.join(used)})"
        called = (
            f"rules.{function}_" if function in ("all", "any") else "rules.prod" if function == "prod" else function
        )
        return f"{called}({visit(node, 0, True)} for {entries} in {over})"

    def visit(node: Expr, level: int, entry: bool) -> str:
        if isinstance(node, Number):
            return repr(node.value)
        if isinstance(node, Name):
            return f"{node.id.lower()}_" if entry and node.id in vectors else node.id
        if isinstance(node, Unary):
            own = _LEVEL["not" if node.op == "not" else "neg"]
            text = f"{'not ' if node.op == 'not' else '-'}{visit(node.operand, own, entry)}"
            return f"({text})" if level > own else text
        if isinstance(node, Binary):
            if node.op == "/":
                return f"rules.exact({visit(node.left, 0, entry)}, {visit(node.right, 0, entry)})"
            if node.op == "%":
                return f"rules.modulo({visit(node.left, 0, entry)}, {visit(node.right, 0, entry)})"
            own = _LEVEL[node.op]
            return _infix(node.op, visit(node.left, own, entry), visit(node.right, own + 1, entry), level)
        assert isinstance(node, Call)
        if node.function in expr.REDUCTIONS:
            return comprehension(node.arguments[0], node.function)
        if node.function in expr.VECTOR_FUNCTIONS:
            return "1"
        if node.function in expr.SCALE_FUNCTIONS:
            return f"rules.{node.function}({', '.join(visit(argument, 0, entry) for argument in node.arguments)})"
        if node.function in ("floor", "ceil"):
            division = node.arguments[0]
            assert isinstance(division, Binary)
            return f"rules.{node.function}_div({visit(division.left, 0, entry)}, {visit(division.right, 0, entry)})"
        return f"{node.function}({', '.join(visit(argument, 0, entry) for argument in node.arguments)})"

    free = expr.loose_names(tree)
    return comprehension(tree, wrap) if free & vectors else visit(tree, 0, False)


def latex(tree: Expr, symbols: Mapping[str, str] | None = None) -> str:
    """An expression as LaTeX mathematics."""
    names = symbols or {}

    def visit(node: Expr, level: int) -> str:
        if isinstance(node, Number):
            return r"\infty" if node.value == float("inf") else str(node.value)
        if isinstance(node, Name):
            text = names.get(node.id, node.id).replace("_", r"\_")
            return text if len(text) == 1 else rf"\mathit{{{text}}}"
        if isinstance(node, Unary):
            return rf"\lnot {visit(node.operand, 7)}" if node.op == "not" else f"-{visit(node.operand, 7)}"
        if isinstance(node, Read):
            tensor = node.tensor.replace("_", r"\_")
            return rf"\mathrm{{{tensor}}}_{{{', '.join(visit(index, 0) for index in node.indices)}}}"
        if isinstance(node, Binary):
            if node.op == "/":
                return rf"\frac{{{visit(node.left, 0)}}}{{{visit(node.right, 0)}}}"
            own = _LEVEL[node.op]
            op = {
                "*": r"\cdot", "%": r"\bmod", "<=": r"\le", ">=": r"\ge", "!=": r"\ne", "==": "=",
                "and": r"\land", "or": r"\lor",
            }.get(node.op, node.op)  # fmt: skip
            text = f"{visit(node.left, own)} {op} {visit(node.right, own + 1)}"
            return rf"\left({text}\right)" if level > own else text
        assert isinstance(node, Call)
        if node.function in ("floor", "ceil"):
            return rf"\left\l{node.function} {visit(node.arguments[0], 0)} \right\r{node.function}"
        arguments = ", ".join(visit(argument, 0) for argument in node.arguments)
        return rf"\operatorname{{{node.function}}}\left({arguments}\right)"

    return visit(tree, 0)
