"""An integer expression as a linear function of a letter: the factor, and the rest at 0.

In: index expressions and guards of steps. Out: simplified trees, which print as written by hand. An
expression that uses a letter in any other way than as a multiple (under floor, %, min, ...) has no slope.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ...language import expr
from ...language.expr import Binary, Expr, Name, Number, Unary, substitute
from .poly import NotPolynomial, Poly, polynomial

ZERO, ONE = Number(0), Number(1)


def negated(tree: Expr) -> Expr:
    if isinstance(tree, Number):
        return Number(-tree.value)
    if isinstance(tree, Unary) and tree.op == "-":
        return tree.operand
    if isinstance(tree, Binary) and tree.op == "-":
        return minus(tree.right, tree.left)
    if isinstance(tree, Binary) and tree.op == "*":
        return times(negated(tree.left), tree.right)
    return Unary("-", tree)


def plus(left: Expr, right: Expr) -> Expr:
    if left == ZERO or right == ZERO:
        return right if left == ZERO else left
    if isinstance(left, Number) and isinstance(right, Number):
        return Number(left.value + right.value)
    if isinstance(left, Unary) and left.op == "-":
        return minus(right, left.operand)
    return minus(left, negated(right)) if _negative(right) else Binary("+", left, right)


def minus(left: Expr, right: Expr) -> Expr:
    if right == ZERO:
        return left
    if isinstance(left, Number) and isinstance(right, Number):
        return Number(left.value - right.value)
    if left == ZERO:
        return negated(right)
    return plus(left, negated(right)) if _negative(right) else Binary("-", left, right)


def times(left: Expr, right: Expr) -> Expr:
    if ZERO in (left, right):
        return ZERO
    if ONE in (left, right):
        return right if left == ONE else left
    if isinstance(left, Number) and isinstance(right, Number):
        return Number(left.value * right.value)
    if Number(-1) in (left, right):
        return negated(right if left == Number(-1) else left)
    return Binary("*", left, right)


def product(factors: Iterable[Expr]) -> Expr:
    found: Expr = ONE
    for factor in factors:
        found = times(found, factor)
    return found


def _negative(tree: Expr) -> bool:
    if isinstance(tree, Number):
        return tree.value < 0
    return isinstance(tree, Unary) and tree.op == "-"


def spelled(found: Poly) -> Expr:
    """A polynomial as an expression, numbers last. Raises NotPolynomial if it divides."""
    tree: Expr = ZERO
    for monomial, factor in reversed(found.terms):
        if any(power < 0 for _, power in monomial):
            raise NotPolynomial("a quotient")
        names = product(Name(name) for name, power in monomial for _ in range(power))
        term = times(Number(factor.numerator), names)
        tree = plus(tree, Binary("/", term, Number(factor.denominator)) if factor.denominator > 1 else term)
    return tree


_FOLDED: Mapping[str, Callable[[Expr, Expr], Expr]] = {"+": plus, "-": minus, "*": times}


def folded(tree: Expr) -> Expr:
    """The same tree with additions of 0, products with 0 or 1, and constants folded."""
    if isinstance(tree, Unary) and tree.op == "-":
        return negated(folded(tree.operand))
    if isinstance(tree, Binary) and tree.op in _FOLDED:
        return _FOLDED[tree.op](folded(tree.left), folded(tree.right))
    return tree


def without(tree: Expr, letter: str) -> Expr:
    """The tree with the letter at 0."""
    return folded(substitute(tree, {letter: ZERO}))


def slope(tree: Expr, letter: str) -> Expr | None:
    """The growth of the tree per step of the letter; None if it varies."""
    if letter not in expr.names(tree):
        return ZERO
    if tree == Name(letter):
        return ONE
    if isinstance(tree, Unary) and tree.op == "-":
        inner = slope(tree.operand, letter)
        return None if inner is None else negated(inner)
    if isinstance(tree, Binary) and tree.op in _FOLDED:
        left, right = slope(tree.left, letter), slope(tree.right, letter)
        if left is None or right is None:
            return None
        if tree.op != "*":
            return _FOLDED[tree.op](left, right)
        if right == ZERO:
            return times(left, tree.right)
        return times(tree.left, right) if left == ZERO else None
    return None


def sign(tree: Expr, minimum: Mapping[str, int]) -> int:
    """1 or -1 for a value that is surely at least 1 or at most -1, else 0. `minimum` has that of each symbol."""
    try:
        terms = polynomial(tree).terms
    except NotPolynomial:
        return 0
    if len(terms) != 1:
        return 0
    (monomial, factor) = terms[0]
    if any(minimum.get(name, 0) < 1 or power < 0 for name, power in monomial):
        return 0
    return 1 if factor > 0 else -1


def comparisons(tree: Expr) -> list[Expr] | None:
    """Trees that are all at least 0 exactly if a condition holds; None if there are none."""
    if not isinstance(tree, Binary):
        return None
    left, right = tree.left, tree.right
    if tree.op == "and":
        sides = comparisons(left), comparisons(right)
        return None if sides[0] is None or sides[1] is None else [*sides[0], *sides[1]]
    below = {"<=": (right, left), ">=": (left, right), "<": (minus(right, ONE), left), ">": (minus(left, ONE), right)}
    if tree.op in below:
        greater, less = below[tree.op]
        return [folded(Binary("-", greater, less))]
    return [minus(left, right), minus(right, left)] if tree.op == "==" else None
