"""Exact algebra over integer formulas: it proves equality in every case that a formula splits into.

In: formulas, bounds of their symbols, and conditions that hold. Out: whether a condition can hold, or Unproven. A
formula is split into pieces at min, max and divisors of unknown sign; a piece is a polynomial whose quotients are
symbols of their own, each with the facts that define it. Contradictions are found by Fourier-Motzkin elimination of
products of symbols, which is sound over the integers but not complete.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ..derive.algebra.poly import ONE, ZERO, Monomial, NotPolynomial, Poly
from ..language.expr import COMPARISONS, REDUCTIONS, Binary, Call, Expr, Name, Number, Unary, names, walk
from ..language.kinds import Kind

MAX_PIECES = 64
MAX_ROWS = 1500

T = TypeVar("T")
Conditions = tuple[Poly, ...]  # all of them at least 0
Pieces = list[tuple[Conditions, Poly]]
Site = tuple[str, Poly, Poly]  # what must hold for a formula to have a value: `exact` or `nonzero`, and of what


class Unproven(Exception):  # noqa: N818  # an outcome, not a fault
    """The algebra cannot decide this formula."""


class Algebra:
    """Symbols shared by both sides: their bounds, and the quotients that became symbols."""

    def __init__(self, kinds: Mapping[str, Kind], lower: Mapping[str, int], upper: Mapping[str, int]) -> None:
        self.kinds, self.lower, self.upper = dict(kinds), dict(lower), dict(upper)
        self.known: dict[Hashable, str] = {}
        self.quotients: dict[str, tuple[Poly, Poly]] = {}
        self.exact: frozenset[str] = frozenset()
        self.limits: dict[Hashable, dict[tuple[float, bool], Poly]] = {}
        self.somewhere: dict[Poly, tuple[list[Conditions], list[Conditions]]] = {}
        self.follow: list[Poly] = []
        self._impossible: dict[Hashable, bool] = {}

    def atom(self, key: Hashable) -> Poly:
        """A symbol for a term that polynomials cannot express; the same key gives the same symbol."""
        return Poly.symbol(self.known.setdefault(key, f"#{len(self.known)}"))

    def flag(self, key: Hashable) -> Poly:
        """A symbol for a condition: 1 if true, 0 if false."""
        found = self.atom(key)
        (name,) = found.symbols
        self.lower[name], self.upper[name] = 0, 1
        return found

    def limit(self, of: Hashable, value: float, reached: bool, flag: Poly) -> None:
        """A flag for being below a limit; being below a limit implies being below every greater one."""
        limits = self.limits.setdefault(of, {})
        if (value, reached) not in limits:
            for other, above in limits.items():
                wider, closer = (flag, above) if (value, reached) > other else (above, flag)
                self.follow.append(wider - closer)
            limits[value, reached] = flag

    def quotient(self, top: Poly, bottom: Poly, exact: bool = False) -> Poly:
        """floor(top / bottom) of a positive bottom, or the exact quotient, less what divides without remainder."""
        whole, rest = _divided(top, bottom)
        if not rest.terms or bottom == ONE:
            return whole + rest
        found = self.atom((rest, bottom))
        (name,) = found.symbols
        self.quotients[name] = (rest, bottom)
        minimum, positive = self._minimum(rest), bottom.constant
        if minimum is not None and (minimum >= 0 or positive):
            self.lower[name] = minimum // positive if positive else 0
        if exact:
            self.exact |= {name}
        return whole + found

    def _minimum(self, poly: Poly) -> int | None:
        """A lower bound of a polynomial; None if none is known."""
        total = 0
        for monomial, factor in poly.terms:
            bounds = self.lower if factor > 0 else self.upper
            if any(self.lower.get(name, -1) < 0 or name not in bounds for name, _ in monomial):
                return None
            total += factor * math.prod(bounds[name] ** power for name, power in monomial)
        return total

    def impossible(self, conditions: Iterable[Poly], given: Iterable[Poly] = ()) -> bool:
        """Whether no integers satisfy all conditions together with the given ones."""
        wanted = frozenset(conditions)
        rows = wanted.union(_touching(wanted, (*given, *self.follow)))
        key = rows, self.exact
        if key not in self._impossible:
            try:
                known = sorted(rows, key=lambda poly: poly.terms)
                self._impossible[key] = _eliminated([*known, *self._facts(known)])
            except NotPolynomial:
                self._impossible[key] = False
        return self._impossible[key]

    def _facts(self, rows: Sequence[Poly]) -> Iterator[Poly]:
        """Facts about some polynomials: definitions of quotients, bounds of symbols, and bounds of their products."""
        found = list(rows)
        known = set[str]()
        while missing := {name for row in found for name in row.symbols} - known:
            known |= missing
            for name in sorted(missing & self.quotients.keys()):
                top, bottom = self.quotients[name]
                product = bottom * Poly.symbol(name)
                found += [top - product, product - top + (ZERO if name in self.exact else bottom - ONE)]
                if bottom.constant is None:
                    found += [bottom * row for row in rows]
        yield from found[len(rows) :]
        for name in sorted(known):
            if name in self.lower:
                yield Poly.symbol(name) - Poly.number(self.lower[name])
            if name in self.upper:
                yield Poly.number(self.upper[name]) - Poly.symbol(name)
        for monomial in sorted({m for row in found for m, _ in row.terms if sum(power for _, power in m) > 1}):
            factors = [name for name, power in monomial for _ in range(power)]
            for count in range(2, len(factors) + 1):
                for some in set(itertools.combinations(factors, count)):
                    if all(name in self.lower for name in some):
                        parts = [Poly.symbol(name) - Poly.number(self.lower[name]) for name in some]
                        yield math.prod(parts, start=ONE)


def _divided(top: Poly, bottom: Poly) -> tuple[Poly, Poly]:
    """The part of a sum that a single product divides without remainder, divided, and the rest."""
    if len(bottom.terms) != 1:
        return (ONE, ZERO) if top == bottom else (ZERO, top)
    ((divisor, number),) = bottom.terms
    whole, rest = ZERO, ZERO
    for monomial, factor in top.terms:
        part = Poly.of({monomial: factor})
        powers = dict(monomial)
        if all(powers.get(name, 0) >= power for name, power in divisor):
            remainder = factor % number
            whole += Poly.of({monomial: factor - remainder}) / bottom
            part = Poly.of({monomial: remainder})
        rest += part
    return whole, rest


def _touching(wanted: Collection[Poly], given: Iterable[Poly]) -> list[Poly]:
    """The given conditions on some symbols, and on all symbols that those conditions mention."""
    symbols = frozenset[str]().union(*(poly.symbols for poly in wanted))
    left, found = list(given), list[Poly]()
    while near := [poly for poly in left if poly.symbols & symbols]:
        found += near
        symbols = symbols.union(*(poly.symbols for poly in near))
        left = [poly for poly in left if poly not in near]
    return found


Row = tuple[tuple[Monomial, int], ...]


def _eliminated(polys: Iterable[Poly]) -> bool:
    """Whether sums of products that are all at least 0 contradict each other."""
    rows: dict[Row, int] = {}

    def add(terms: Mapping[Monomial, int], constant: int) -> bool:
        """Add a row, keeping the tightest of its kind; whether it contradicts itself or another one."""
        if not terms:
            return constant < 0
        common = math.gcd(*terms.values())
        row = tuple(sorted((monomial, factor // common) for monomial, factor in terms.items()))
        rows[row] = min(constant // common, rows.get(row, constant // common))
        opposite = rows.get(tuple((monomial, -factor) for monomial, factor in row))
        return opposite is not None and rows[row] + opposite < 0

    for poly in polys:
        terms = dict(poly.terms)
        constant = terms.pop((), 0)
        if add(terms, constant):
            return True
    while monomials := sorted({monomial for row in rows for monomial, _ in row}):
        ups, downs = _split(rows, monomials)
        if len(ups) * len(downs) + len(rows) > MAX_ROWS:
            return False
        for row, _, _ in (*ups, *downs):
            del rows[row]
        for (up, high, more), (down, low, less) in itertools.product(ups, downs):
            terms = {monomial: factor * -low for monomial, factor in up}
            for monomial, factor in down:
                terms[monomial] = terms.get(monomial, 0) + factor * high
            if add({monomial: factor for monomial, factor in terms.items() if factor}, more * -low + less * high):
                return True
    return False


Sided = list[tuple[Row, int, int]]


def _split(rows: Mapping[Row, int], monomials: Sequence[Monomial]) -> tuple[Sided, Sided]:
    """The rows that bound one product from below and from above; the product is chosen to add the fewest rows."""
    counts: dict[Monomial, list[int]] = {monomial: [0, 0] for monomial in monomials}
    for row in rows:
        for monomial, factor in row:
            counts[monomial][factor < 0] += 1
    chosen = min(monomials, key=lambda m: (counts[m][0] * counts[m][1] - sum(counts[m]), m))
    sided = [(row, dict(row)[chosen], constant) for row, constant in rows.items() if chosen in dict(row)]
    return [side for side in sided if side[1] > 0], [side for side in sided if side[1] < 0]


class Reader:
    """Formulas of one side, with the names that it defines replaced by their definitions."""

    def __init__(self, algebra: Algebra, definitions: Mapping[str, Expr]) -> None:
        self.algebra, self.definitions = algebra, definitions
        self.sites: set[Site] = set()
        self._memoised: dict[str, tuple[Pieces, set[Site]]] = {}
        self._open: set[str] = set()

    def recorded(self, read: Callable[..., T], *arguments: Any) -> tuple[T, set[Site]]:
        """The result of a reading, and the conditions under which it has a value."""
        outer, self.sites = self.sites, set()
        try:
            return read(*arguments), self.sites
        finally:
            self.sites = outer

    def pieces(self, tree: Expr) -> Pieces:
        """The polynomials that a formula can equal, each with its conditions."""
        if isinstance(tree, Number) and isinstance(tree.value, int):
            return [((), Poly.number(tree.value))]
        if isinstance(tree, Name):
            return self._name(tree.id)
        if isinstance(tree, Unary) and tree.op == "-":
            return [(conditions, -poly) for conditions, poly in self.pieces(tree.operand)]
        if isinstance(tree, Binary) and tree.op in "+-*":
            makes: dict[str, Callable[[Poly, Poly], Poly]] = {
                "+": Poly.__add__, "-": Poly.__sub__, "*": Poly.__mul__,
            }  # fmt: skip
            return [(c, makes[tree.op](a, b)) for c, a, b in self._pairs(tree.left, tree.right)]
        if isinstance(tree, Binary) and tree.op in "/%":
            return self._divided(tree.left, tree.right, tree.op)
        if isinstance(tree, Call) and tree.function in ("floor", "ceil"):
            (inner,) = tree.arguments
            assert isinstance(inner, Binary)
            return self._divided(inner.left, inner.right, tree.function)
        if isinstance(tree, Call) and tree.function in ("min", "max"):
            return self._extreme(tree)
        if isinstance(tree, Call) and tree.function == "prod":
            return [((), self.algebra.atom(("prod", tuple(self.pieces(tree.arguments[0])))))]
        raise Unproven

    def _name(self, name: str) -> Pieces:
        if name not in self.definitions:
            if self.algebra.kinds.get(name, Kind("int")).base != "int":
                raise Unproven
            return [((), Poly.symbol(name))]
        if name in self._open:
            raise Unproven
        if name not in self._memoised:
            self._open.add(name)
            self._memoised[name] = self.recorded(self.pieces, self.definitions[name])
            self._open.remove(name)
        pieces, sites = self._memoised[name]
        self.sites |= sites
        return pieces

    def _pairs(self, left: Expr, right: Expr) -> Iterator[tuple[Conditions, Poly, Poly]]:
        ours, theirs = self.pieces(left), self.pieces(right)
        if len(ours) * len(theirs) > MAX_PIECES:
            raise Unproven
        for (some, a), (more, b) in itertools.product(ours, theirs):
            if not (some and more and some != more and self.algebra.impossible((*some, *more))):
                yield tuple(dict.fromkeys((*some, *more))), a, b

    def _divided(self, left: Expr, right: Expr, how: str) -> Pieces:
        """A quotient by a divisor of known sign; two pieces if the sign is unknown."""
        found: Pieces = []
        algebra = self.algebra
        for conditions, top, bottom in self._pairs(left, right):
            positive = algebra.impossible([-bottom])
            negative = not positive and algebra.impossible([bottom])
            if not positive and not negative:
                self.sites.add(("nonzero", bottom, ONE))
            for sign, holds in ((1, not negative), (-1, not positive)):
                if not holds:
                    continue
                a, b = (top, bottom) if sign > 0 else (-top, -bottom)
                rest = _divided(a, b)[1]
                if how == "/" and rest.terms and b != ONE:
                    self.sites.add(("exact", rest, b))
                here = conditions if positive or negative else (*conditions, b - ONE)
                value = algebra.quotient(a + b - ONE if how == "ceil" else a, b, exact=how == "/")
                found.append((here, top - b * algebra.quotient(top, b) if how == "%" else value))
        return found

    def _extreme(self, tree: Call) -> Pieces:
        found = self.pieces(tree.arguments[0])
        sign = 1 if tree.function == "max" else -1
        for argument in tree.arguments[1:]:
            others = self.pieces(argument)
            if 2 * len(found) * len(others) > MAX_PIECES:
                raise Unproven
            pairs = list(itertools.product(found, others))
            found = []
            for (some, a), (more, b) in pairs:
                ahead = a - b if sign > 0 else b - a
                found += [((*some, *more, ahead), a), ((*some, *more, -ahead - ONE), b)]
            found = [piece for piece in found if not self.algebra.impossible(piece[0])]
        return found

    def holds(self, tree: Expr, wanted: bool = True) -> list[Conditions]:
        """The cases in which a condition has the wanted truth value."""
        if isinstance(tree, Unary) and tree.op == "not":
            return self.holds(tree.operand, not wanted)
        if isinstance(tree, Binary) and tree.op in ("and", "or"):
            return self._combined(tree, wanted)
        if isinstance(tree, Call) and tree.function in ("any", "all"):
            # all(c) is not any(not c), so one flag serves both.
            flag = self._somewhere(tree.arguments[0], tree.function == "any")
            return [(flag - ONE,) if wanted == (tree.function == "any") else (-flag,)]
        if isinstance(tree, Binary) and tree.op in COMPARISONS:
            try:
                return self._compared(tree, wanted)
            except Unproven:
                return self._real(tree, wanted)
        raise Unproven

    def _somewhere(self, tree: Expr, wanted: bool) -> Poly:
        """A flag for a condition having the wanted truth value on some axis, and the flags that imply it."""
        algebra = self.algebra
        cases = [case for case in self.holds(tree, wanted) if not algebra.impossible(case)]
        flag = algebra.flag(("any", frozenset(map(frozenset, cases))))
        if flag not in algebra.somewhere:
            against = self.holds(tree, not wanted)
            for other, (some, none) in algebra.somewhere.items():
                if all(algebra.impossible((*one, *two)) for one in cases for two in none):
                    algebra.follow.append(other - flag)
                if all(algebra.impossible((*one, *two)) for one in some for two in against):
                    algebra.follow.append(flag - other)
            algebra.somewhere[flag] = cases, against
        return flag

    def _combined(self, tree: Binary, wanted: bool) -> list[Conditions]:
        left = self.holds(tree.left, wanted)
        before = set(self.sites)
        right = self.holds(tree.right, wanted)
        # The right side is evaluated only if the left one leaves the result open.
        self.sites = before | {(f"{kind} at times", a, b) for kind, a, b in self.sites - before}
        both = [(*some, *more) for some, more in itertools.product(left, right)]
        found = [*left, *right] if (tree.op == "or") == wanted else both
        if len(found) > MAX_PIECES:
            raise Unproven
        return found

    def _compared(self, tree: Binary, wanted: bool) -> list[Conditions]:
        op = tree.op if wanted else {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}[tree.op]
        found: list[Conditions] = []
        for conditions, a, b in self._pairs(tree.left, tree.right):
            less, more = b - a - ONE, a - b - ONE
            cases: dict[str, list[Conditions]] = {
                "==": [(a - b, b - a)], "!=": [(less,), (more,)],
                "<": [(less,)], ">": [(more,)], "<=": [(b - a,)], ">=": [(a - b,)],
            }  # fmt: skip
            found += [(*conditions, *case) for case in cases[op]]
        return found

    def _real(self, tree: Binary, wanted: bool) -> list[Conditions]:
        """A comparison of reals as a flag; limits of one name imply each other in order."""
        op, left, right = tree.op, tree.left, tree.right
        if op in (">", ">="):
            op, left, right = {">": "<", ">=": "<="}[op], right, left
        computed = any(isinstance(node, Call) and node.function in REDUCTIONS for node in walk(tree))
        if computed or names(tree) & self.definitions.keys():
            raise Unproven
        wanted = wanted == (op != "!=")
        flag = self.algebra.flag(("==" if op == "!=" else op, left, right))
        if op in ("<", "<="):
            for name, limit, key in ((left, _constant(right), "below"), (right, _constant(left), "above")):
                if isinstance(name, Name) and limit is not None:
                    self.algebra.limit((key, name.id), limit if key == "below" else -limit, op == "<=", flag)
        return [(flag - ONE,) if wanted else (-flag,)]


def _constant(tree: Expr) -> float | None:
    if isinstance(tree, Unary) and tree.op == "-" and isinstance(tree.operand, Number):
        return -tree.operand.value
    return tree.value if isinstance(tree, Number) else None
