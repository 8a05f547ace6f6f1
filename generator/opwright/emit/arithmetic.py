"""Expressions and polynomials as C nodes.

In: trees of expr.py and polynomials of poly.py. Out: nodes. Operators keep their meaning: exact division, the floor of
a quotient and the Euclidean remainder become calls of helpers in the generated code. Raises NotPolynomial
if a quotient has no dividend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from ..derive.algebra.poly import ONE, REMEMBERED, ZERO, Affine, Monomial, NotPolynomial, Poly
from ..language import expr
from ..language.expr import ARITHMETIC, Read
from . import nodes
from .nodes import Binary, Call, Cast, Expr, Name, Unary

Quotient = tuple[str, str]


def quotient_name(quotient: Quotient) -> str:
    """The C name of a quotient: `IC / G` is IC_per_G."""
    return f"{quotient[0]}_per_{quotient[1]}"


@lru_cache(REMEMBERED)
def split_monomial(monomial: Monomial, known: frozenset[Quotient]) -> tuple[tuple[str, ...], tuple[Quotient, ...]]:
    """A product as plain symbols and quotients.

    Each divisor is assigned to the last free symbol that it is known to divide.
    """
    above = [name for name, power in monomial for _ in range(power) if power > 0]
    below = [name for name, power in monomial for _ in range(-power) if power < 0]
    quotients = []
    for divisor in below:
        if not above:
            raise NotPolynomial(f"no symbol is divisible by {divisor}")
        whole = [name for name in above if (name, divisor) in known]
        candidates = whole or [name for name in above if "_" not in name] or above
        above.remove(candidates[-1])
        quotients.append((candidates[-1], divisor))
    return tuple(above), tuple(quotients)


def _monomial(monomial: Monomial, factor: int, known: frozenset[Quotient]) -> list[Expr]:
    """The factors of one product; quotients are named constants."""
    above, quotients = split_monomial(monomial, known)
    parts: list[Expr] = [Name(name) for name in (*above, *map(quotient_name, quotients))]
    return parts if factor == 1 and parts else [nodes.integer(factor), *parts]


@lru_cache(REMEMBERED)
def c_poly(poly: Poly, known: frozenset[Quotient]) -> Expr:
    terms = ((factor < 0, _monomial(powers, abs(factor), known)) for powers, factor in poly.terms)
    return nodes.added((negative, nodes.product(factors)) for negative, factors in terms)


@lru_cache(REMEMBERED)
def c_affine(value: Affine, known: frozenset[Quotient]) -> Expr:
    """`i * S - PB`, letters in their order, then the offset."""
    parts: list[tuple[bool, Expr]] = []
    for letter, coefficient in value.coefficients:
        if len(coefficient.terms) == 1:
            (monomial, factor) = coefficient.terms[0]
            scale = [] if coefficient in (ONE, -ONE) else _monomial(monomial, abs(factor), known)
            parts.append((factor < 0, nodes.product([Name(letter), *scale])))
        else:
            parts.append((False, nodes.product([Name(letter), c_poly(coefficient, known)])))
    if value.offset != ZERO:
        offset = value.offset.terms
        parts += [(factor < 0, nodes.product(_monomial(monomial, abs(factor), known))) for monomial, factor in offset]
    return nodes.added(parts)


def c_real(
    tree: expr.Expr, number_type: str, suffix: str, read: Callable[[Read], Expr], integer: Callable[[expr.Expr], Expr]
) -> Expr:
    """A value expression in the arithmetic of a real C type, whose literals and functions end in `suffix`.

    Reads and integer leaves are the caller's.
    """

    def visit(node: expr.Expr) -> Expr:
        if isinstance(node, expr.Number):
            return nodes.real(float(node.value), suffix)
        if isinstance(node, Read):
            return read(node)
        if is_integer_leaf(node):
            return Cast(number_type, integer(node))
        if isinstance(node, expr.Unary):
            return Unary("-", visit(node.operand))
        if isinstance(node, expr.Binary) and node.op in ARITHMETIC:
            return Binary(node.op, visit(node.left), visit(node.right))
        assert isinstance(node, expr.Call)
        return _folded(f"opwright_{node.function}imum{suffix}", list(map(visit, node.arguments)))

    return visit(tree)


def is_integer_leaf(node: expr.Expr) -> bool:
    """Whether a part of a value is computed in integers."""
    return isinstance(node, expr.Name) or (isinstance(node, expr.Call) and node.function == "prod")


def _folded(function: str, arguments: Sequence[Expr]) -> Expr:
    """`f(f(a, b), c)`."""
    first, *rest = arguments
    for other in rest:
        first = Call(function, (first, other))
    return first


def c_condition(tree: expr.Expr, name: Callable[[str], Expr]) -> Expr:
    """A boolean or integer expression over letters and symbols, with Euclidean `%` and exact `/`."""

    def visit(node: expr.Expr) -> Expr:
        if isinstance(node, expr.Number):
            return nodes.integer(int(node.value))
        if isinstance(node, expr.Name):
            return name(node.id)
        if isinstance(node, expr.Unary):
            return Unary("!" if node.op == "not" else "-", visit(node.operand))
        if isinstance(node, expr.Binary):
            left, right = visit(node.left), visit(node.right)
            if node.op in "/%":
                return nodes.call("opwright_floor_div" if node.op == "/" else "opwright_modulo", left, right)
            return Binary({"and": "&&", "or": "||"}.get(node.op, node.op), left, right)
        assert isinstance(node, expr.Call)
        if node.function in ("floor", "ceil"):
            division = node.arguments[0]
            assert isinstance(division, expr.Binary)
            return nodes.call(f"opwright_{node.function}_div", visit(division.left), visit(division.right))
        return _folded(f"opwright_{node.function}", list(map(visit, node.arguments)))

    return visit(tree)
