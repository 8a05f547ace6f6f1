"""Exact algebra over the symbols of a spec: polynomials, and index expressions that are affine in range letters.

A polynomial here may have negative powers, because a spec's `/` is exact: `IC / G` is one monomial, so that
`g * (OC / G) + o` is recognised as a mixed radix by plain comparison. Nothing here knows a tensor or a language.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import cast

from ...language.expr import INT64_MAX, Binary, Expr, Name, Number, Unary
from ...memo import memoised

MAX_TERMS = 100
REMEMBERED = 2**14  # memoised results: variants and both sides of a review share nearly all arithmetic

Monomial = tuple[tuple[str, int], ...]
Terms = tuple[tuple[Monomial, int], ...]


class NotPolynomial(ValueError):  # noqa: N818  # named for what it says
    """The expression has a part (a function, a comparison, a quotient of sums) that is not a polynomial."""


@dataclass(frozen=True)
class Poly:
    """A sum of multiples of monomials, in canonical order; equal polynomials compare equal.

    Factors are integers, but fractions in what `rational` makes, which behave alike.
    """

    terms: Terms = ()

    @staticmethod
    def of(terms: Mapping[Monomial, int]) -> Poly:
        left = [term for term in terms.items() if term[1]]
        if len(left) > MAX_TERMS or any(not -INT64_MAX <= factor <= INT64_MAX for _, factor in left):
            raise NotPolynomial(f"its expansion has more than {MAX_TERMS} terms, or a factor beyond 64 bits")
        return Poly(tuple(sorted(left) if len(left) > 1 else left))

    @staticmethod
    @lru_cache(REMEMBERED)
    def number(value: int) -> Poly:
        return Poly.of({(): value})

    @staticmethod
    @lru_cache(REMEMBERED)
    def symbol(name: str) -> Poly:
        return Poly(((((name, 1),), 1),))

    def __add__(self, other: Poly) -> Poly:
        if not self.terms or not other.terms:
            return self if self.terms else other
        terms = dict(self.terms)
        for monomial, factor in other.terms:
            terms[monomial] = terms.get(monomial, 0) + factor
        return Poly.of(terms)

    def __neg__(self) -> Poly:
        return Poly.of({monomial: -factor for monomial, factor in self.terms})

    def __sub__(self, other: Poly) -> Poly:
        return self + -other

    def __mul__(self, other: Poly) -> Poly:
        return _times(self.terms, other.terms)

    def __truediv__(self, other: Poly) -> Poly:
        if len(other.terms) != 1:
            raise NotPolynomial("the divisor must be a single product")
        (monomial, factor) = other.terms[0]
        if any(own % factor for _, own in self.terms):
            raise NotPolynomial("the division leaves a remainder")
        inverse = tuple((name, -power) for name, power in monomial)
        return Poly.of({_multiply(own, inverse): f // factor for own, f in self.terms})

    @property
    def constant(self) -> int | None:
        """The value, if it depends on no symbol."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @property
    def symbols(self) -> frozenset[str]:
        return frozenset(name for monomial, _ in self.terms for name, _ in monomial)

    def substitute(self, values: Mapping[str, Poly]) -> Poly:
        if not values or self.symbols.isdisjoint(values):
            return self
        total = Poly()
        for monomial, factor in self.terms:
            product = Poly.number(factor)
            for name, power in monomial:
                base = values.get(name, Poly.symbol(name))
                for _ in range(abs(power)):
                    product = product * base if power > 0 else product / base
            total = total + product
        return total


ZERO = Poly()
ONE = Poly.number(1)


@lru_cache(REMEMBERED)
def _times(ours: Terms, theirs: Terms) -> Poly:
    terms: dict[Monomial, int] = {}
    for left, a in ours:
        for right, b in theirs:
            product = _multiply(left, right)
            terms[product] = terms.get(product, 0) + a * b
    return Poly.of(terms)


@lru_cache(REMEMBERED)
def _multiply(left: Monomial, right: Monomial) -> Monomial:
    powers = dict(left)
    for name, power in right:
        powers[name] = powers.get(name, 0) + power
    return tuple(sorted((name, power) for name, power in powers.items() if power))


@memoised
def polynomial(tree: Expr) -> Poly:
    """An expression as a polynomial. Raises NotPolynomial if it is not one."""
    made = rational(tree)
    if any(factor.denominator > 1 for _, factor in made.terms):
        raise NotPolynomial("the division leaves a remainder")
    return made


@memoised
def rational(tree: Expr) -> Poly:
    """The same, where numbers divide, too: `C / 4` is a quarter of C, of which each call has four."""
    if isinstance(tree, Number) and isinstance(tree.value, int):
        return Poly.number(tree.value)
    if isinstance(tree, Name):
        return Poly.symbol(tree.id)
    if isinstance(tree, Unary) and tree.op == "-":
        return -rational(tree.operand)
    if isinstance(tree, Binary) and tree.op in "+-*/":
        left, right = rational(tree.left), rational(tree.right)
        if tree.op == "+":
            return left + right
        if tree.op == "-":
            return left - right
        if tree.op == "/" and right.constant:
            return left * Poly.number(cast(int, Fraction(1, right.constant)))
        return left * right if tree.op == "*" else left / right
    raise NotPolynomial("an index or extent may only use + - * and exact /")


@dataclass(frozen=True)
class Affine:
    """`sum(coefficient * letter) + offset`, coefficients and offset polynomials in the symbols."""

    coefficients: tuple[tuple[str, Poly], ...]
    offset: Poly

    @staticmethod
    def of(coefficients: Mapping[str, Poly], offset: Poly = ZERO) -> Affine:
        return Affine(tuple([(letter, c) for letter, c in coefficients.items() if c.terms]), offset)

    @staticmethod
    def letter(name: str) -> Affine:
        return Affine.of({name: ONE})

    @property
    def letters(self) -> tuple[str, ...]:
        return tuple(letter for letter, _ in self.coefficients)

    def mentions(self, letters: Container[str]) -> bool:
        """Whether any of these letters is among its own."""
        return any(letter in letters for letter, _ in self.coefficients)

    def coefficient(self, letter: str) -> Poly:
        return dict(self.coefficients).get(letter, ZERO)

    def __add__(self, other: Affine) -> Affine:
        merged = dict(self.coefficients)
        for letter, coefficient in other.coefficients:
            merged[letter] = merged.get(letter, ZERO) + coefficient
        return Affine.of(merged, self.offset + other.offset)

    def scaled(self, factor: Poly) -> Affine:
        return Affine.of({letter: c * factor for letter, c in self.coefficients}, self.offset * factor)

    def __sub__(self, other: Affine) -> Affine:
        return self + other.scaled(Poly.number(-1))

    def without(self, *letters: str) -> Affine:
        """The same with these letters at 0."""
        return Affine.of({letter: c for letter, c in self.coefficients if letter not in letters}, self.offset)

    def substitute(self, letters: Mapping[str, Affine]) -> Affine:
        """The same with letters replaced as in `letters`."""
        if not self.mentions(letters):
            return self
        total = Affine.of({}, self.offset)
        for letter, coefficient in self.coefficients:
            total = total + letters.get(letter, Affine.letter(letter)).scaled(coefficient)
        return total

    def with_symbols(self, values: Mapping[str, Poly]) -> Affine:
        if not values:
            return self
        return Affine.of(
            {letter: c.substitute(values) for letter, c in self.coefficients}, self.offset.substitute(values)
        )


def affine(tree: Expr, letters: Iterable[str], made: Callable[[Expr], Poly] = polynomial) -> Affine:
    """An index expression as an Affine. Raises NotPolynomial if letters are multiplied or divided."""
    return _affine(made(tree), tuple(dict.fromkeys(letters)))


@memoised
def _affine(found: Poly, known: tuple[str, ...]) -> Affine:
    coefficients: dict[str, Poly] = {}
    offset = ZERO
    order = []
    for monomial, factor in found.terms:
        inside = [(name, power) for name, power in monomial if name in known]
        if not inside:
            offset = offset + Poly.of({monomial: factor})
            continue
        if len(inside) > 1 or inside[0][1] != 1:
            raise NotPolynomial("an index must be a sum of multiples of range letters")
        letter = inside[0][0]
        rest = tuple((name, power) for name, power in monomial if name != letter)
        coefficients[letter] = coefficients.get(letter, ZERO) + Poly.of({rest: factor})
        order.append(letter)
    ranked = sorted(coefficients, key=known.index)
    return Affine.of({letter: coefficients[letter] for letter in ranked}, offset)
