"""Expressions and polynomials as Python, C and LaTeX text.

In: trees of expr.py and polynomials of poly.py. Out: strings. Operators keep their meaning: exact division and the
floor of a quotient become calls of helpers that the generated code carries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from ..derive.poly import ONE, REMEMBERED, ZERO, Affine, Monomial, NotPolynomial, Poly
from ..language import expr
from ..language.expr import ARITHMETIC, COMPARISONS, Binary, Call, Expr, Name, Number, Read, Unary

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
    """An expression as Python; over vectors a comprehension that walks the spatial axes.

    Entries of a vector `S` are called `s_` inside. Divisions are calls of the package's module `rules`.
    """

    def comprehension(node: Expr, function: str) -> str:
        used = [name for name in dict.fromkeys(n.id for n in expr.walk(node) if isinstance(n, Name)) if name in vectors]
        entries = ", ".join(f"{name.lower()}_" for name in used)
        over = used[0] if len(used) == 1 else f"zip({', '.join(used)})"
        called = "rules.prod" if function == "prod" else function
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
        if node.function in ("floor", "ceil"):
            division = node.arguments[0]
            assert isinstance(division, Binary)
            return f"rules.{node.function}_div({visit(division.left, 0, entry)}, {visit(division.right, 0, entry)})"
        return f"{node.function}({', '.join(visit(argument, 0, entry) for argument in node.arguments)})"

    free = expr.loose_names(tree)
    return comprehension(tree, wrap) if free & vectors else visit(tree, 0, False)


def c_real(tree: Expr, number_type: str, read: Callable[[Read], str], integer: Callable[[Expr], str]) -> str:
    """A value expression as C in real arithmetic; reads and integer leaves are printed by the caller."""

    def visit(node: Expr, level: int) -> str:
        if isinstance(node, Number):
            return c_number(float(node.value), number_type)
        if isinstance(node, Read):
            return read(node)
        if isinstance(node, Name) or (isinstance(node, Call) and node.function == "prod"):
            return f"({number_type})({integer(node)})"
        if isinstance(node, Unary):
            text = f"-{visit(node.operand, _LEVEL['neg'])}"
            return f"({text})" if level > _LEVEL["neg"] else text
        if isinstance(node, Binary) and node.op in ARITHMETIC:
            own = _LEVEL[node.op]
            return _infix(node.op, visit(node.left, own), visit(node.right, own + 1), level)
        assert isinstance(node, Call)
        suffix = "f" if number_type == "float" else ""
        first, *rest = (visit(argument, 0) for argument in node.arguments)
        for other in rest:
            first = f"opwright_{node.function}imum{suffix}({first}, {other})"
        return first

    return visit(tree, 0)


def c_number(value: float, number_type: str) -> str:
    """A literal of a real C type."""
    if value in (float("inf"), float("-inf")):
        return "INFINITY" if value > 0 else "-INFINITY"
    return f"{value!r}{'f' if number_type == 'float' else ''}"


def c_condition(tree: Expr, name: Callable[[str], str]) -> str:
    """A truth or integer expression over letters and symbols as C, with Euclidean `%` and exact `/`."""

    def visit(node: Expr, level: int) -> str:
        if isinstance(node, Number):
            return str(node.value)
        if isinstance(node, Name):
            return name(node.id)
        if isinstance(node, Unary):
            return f"{'!' if node.op == 'not' else '-'}({visit(node.operand, 0)})"
        if isinstance(node, Binary):
            if node.op in "/%":
                function = "opwright_floor_div" if node.op == "/" else "opwright_modulo"
                return f"{function}({visit(node.left, 0)}, {visit(node.right, 0)})"
            own = _LEVEL[node.op]
            op = {"and": "&&", "or": "||"}.get(node.op, node.op)
            text = f"{visit(node.left, own)} {op} {visit(node.right, own + 1)}"
            return f"({text})" if level > own or node.op in ("and", "or") else text
        assert isinstance(node, Call)
        if node.function in ("floor", "ceil"):
            division = node.arguments[0]
            assert isinstance(division, Binary)
            return f"opwright_{node.function}_div({visit(division.left, 0)}, {visit(division.right, 0)})"
        first, *rest = (visit(argument, 0) for argument in node.arguments)
        for other in rest:
            first = f"opwright_{node.function}({first}, {other})"
        return first

    return visit(tree, 0)


Quotient = tuple[str, str]


def quotient_name(quotient: Quotient) -> str:
    """The C name of a quotient: `IC / G` is IC_per_G."""
    return f"{quotient[0]}_per_{quotient[1]}"


@lru_cache(REMEMBERED)
def split_monomial(monomial: Monomial) -> tuple[tuple[str, ...], tuple[Quotient, ...]]:
    """A product as plain symbols and quotients; each divisor goes below the last symbol that is still free."""
    above = [name for name, power in monomial for _ in range(power) if power > 0]
    below = [name for name, power in monomial for _ in range(-power) if power < 0]
    quotients = []
    for divisor in below:
        if not above:
            raise NotPolynomial(f"nothing stands above the divisor {divisor}")
        candidates = [name for name in above if "_" not in name] or above
        above.remove(candidates[-1])
        quotients.append((candidates[-1], divisor))
    return tuple(above), tuple(quotients)


@lru_cache(REMEMBERED)
def c_monomial(monomial: Monomial, factor: int) -> str:
    """One product; quotients go by their names."""
    above, quotients = split_monomial(monomial)
    parts = [*above, *map(quotient_name, quotients)]
    if factor != 1 or not parts:
        parts.insert(0, str(factor))
    return " * ".join(parts)


def _sum(parts: list[tuple[int, str]]) -> str:
    """Join signed parts, a positive one first where there is one."""
    parts = sorted(parts, key=lambda part: part[0] < 0)
    if not parts:
        return "0"
    sign, text = parts[0]
    return ("-" if sign < 0 else "") + text + "".join(f" {'-' if s < 0 else '+'} {t}" for s, t in parts[1:])


@lru_cache(REMEMBERED)
def c_poly(poly: Poly) -> str:
    return _sum([(1 if factor > 0 else -1, c_monomial(monomial, abs(factor))) for monomial, factor in poly.terms])


@lru_cache(REMEMBERED)
def c_affine(value: Affine) -> str:
    """`i * S - PB`, letters in their order, then the offset."""
    parts = []
    for letter, coefficient in value.coefficients:
        if len(coefficient.terms) == 1:
            (monomial, factor) = coefficient.terms[0]
            scale = "" if coefficient in (ONE, -ONE) else f" * {c_monomial(monomial, abs(factor))}"
            parts.append((1 if factor > 0 else -1, f"{letter}{scale}"))
        else:
            parts.append((1, f"{letter} * ({c_poly(coefficient)})"))
    if value.offset != ZERO:
        parts += [
            (1 if factor > 0 else -1, c_monomial(monomial, abs(factor))) for monomial, factor in value.offset.terms
        ]
    return _sum(parts)


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
