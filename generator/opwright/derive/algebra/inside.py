"""Integers that are never negative in any call, such as those that tell whether an index stays inside its axis.

In: an expression of sizes and letters, what is known of sizes, and the extents of letters. Out: whether it is at least
0 for all values of its letters. It may have min, max and remainders, and one rounded quotient around them: a minimum
of maxima of polynomials is at least 0 if each maximum has a polynomial that is, or two whose sum is. A polynomial is
least where each of its letters is first or last, and there it must be a sum of what is never negative. Of other
rounded quotients it is known that they are at least 0 if what they divide is, and at most what they are where all of
their letters are last if what they divide is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...language import expr
from ...language.expr import Binary, Call, Expr, Name, Number, Unary
from ...language.model import Op
from ...language.spelling import spell
from ...language.types import symbol_kinds
from .conditions import conjuncts, divisible
from .poly import ONE, ZERO, NotPolynomial, Poly, polynomial, rational
from .slopes import comparisons, minus, times

MAX_CLAUSES = 16

Clauses = tuple[tuple[Poly, ...], ...]  # the minimum of the maximum of each


@dataclass(frozen=True)
class Sizes:
    """What every call knows of its sizes: values in terms of others, minima, and sums that are at least 0.

    `either`: conditions of which each call satisfies one, as such sums.
    """

    values: Mapping[str, Poly] = field(default_factory=dict)
    least: Mapping[str, int] = field(default_factory=dict)
    known: tuple[Poly, ...] = ()
    either: tuple[tuple[tuple[Poly, ...], ...], ...] = ()
    divides: frozenset[tuple[Expr, Expr]] = frozenset()  # pairs of which the second divides the first

    @property
    def positive(self) -> frozenset[str]:
        """The sizes that are never 0."""
        return frozenset(name for name, least in self.least.items() if least > 0)

    def equal(self, left: Poly, right: Poly) -> bool:
        """Whether two extents are the same in every call, as they read or because a constraint says so."""
        return left == right or {left - right, right - left} <= {*self.known}


def neutral(op: Op, symbol: str) -> int:
    """The value of a size on spatial axes that a call does not have."""
    attribute = next((a for a in op.attributes if symbol in (a.symbol, a.name)), None)
    if attribute is not None:
        return attribute.neutral or 0
    let = op.lets.get(symbol)
    return let.neutral or 0 if let is not None and symbol not in {dim.symbol for dim in op.dims.values()} else 1


def sizes_of(op: Op) -> Sizes:
    """The sizes of an operation. What does not hold on spatial axes that a call lacks is not known."""
    least = {dim.symbol: dim.min or 0 for dim in op.dims.values()}
    numbers = [(a.symbol or a.name or "", a) for a in op.attributes if a.type in ("s64", "s64[]")]
    least |= {name: attribute.min for name, attribute in numbers if attribute.min is not None}
    least |= {d.id: max(least.get(d.id, 0), 1) for _, d in divisible(op) if isinstance(d, Name)}
    most = [Binary("-", Number(a.max), Name(name)) for name, a in numbers if a.max is not None]
    conditions = [tree for one in op.constraints if one.expr for tree in conjuncts(one.expr.tree)]
    values = {name: made for name, let in op.lets.items() if let.value and (made := _polynomial(let.value.tree))}
    absent = {symbol: Poly.number(neutral(op, symbol)) for symbol, kind in symbol_kinds(op).items() if kind.vector}
    values = {
        name: made for name, made in values.items() if _holds(made - absent.get(name, made), absent, exactly=True)
    }
    for _ in values:  # values of values
        values = {name: own for name, made in values.items() if (own := _substituted(made, values)) is not None}

    def sums(trees: Iterable[Expr]) -> tuple[Poly, ...]:
        known = (made for tree in trees if (made := _polynomial(tree)) and _holds(made, absent))
        return tuple(own for made in known if (own := _substituted(made, values)) is not None)

    rounded = [side for name, let in op.lets.items() if let.value for side in _rounded(name, let.value.tree)]
    both = [side for condition in conditions for side in comparisons(condition) or ()]
    either = [tuple(sums(comparisons(one) or ()) for one in _alternatives(condition)) for condition in conditions]
    known = sums([*most, *rounded, *both])
    either = [one for one in either if len(one) > 1 and all(one)]
    return Sizes(values, least, known, tuple(either), frozenset(divisible(op)))


def _rounded(name: str, tree: Expr) -> Iterator[Expr]:
    """What is at least 0 of a quotient a / b under a name: it times b is a, or if rounded, less than b away from a.

    A number may be added to it, as in `floor((H - K) / S) + 1`.
    """
    whole: Expr = Name(name)
    if isinstance(tree, Binary) and tree.op in ("+", "-") and isinstance(tree.right, Number):
        whole = Binary("-" if tree.op == "+" else "+", whole, tree.right)
        tree = tree.left
    rounding = tree.function if isinstance(tree, Call) else ""
    quotient = tree.arguments[0] if isinstance(tree, Call) else tree
    if rounding not in ("floor", "ceil", "") or not isinstance(quotient, Binary) or quotient.op != "/":
        return
    product = Binary("*", whole, quotient.right)
    more, less = (product, quotient.left) if rounding == "ceil" else (quotient.left, product)
    yield (rest := Binary("-", more, less))
    yield Binary("-", Binary("-", quotient.right, Number(1)), rest) if rounding else Binary("-", less, more)


def _alternatives(tree: Expr) -> tuple[Expr, ...]:
    """The conditions of which one holds."""
    if isinstance(tree, Binary) and tree.op == "or":
        return (*_alternatives(tree.left), *_alternatives(tree.right))
    return (tree,)


def _polynomial(tree: Expr) -> Poly | None:
    try:
        return polynomial(tree)
    except NotPolynomial:
        return None


def _substituted(found: Poly, values: Mapping[str, Poly]) -> Poly | None:
    """A sum in terms of other sizes; None if it is none, such as a sixth of a size."""
    try:
        return found.substitute(values)
    except NotPolynomial:
        return None


def _holds(found: Poly, absent: Mapping[str, Poly], exactly: bool = False) -> bool:
    """Whether a sum is at least 0, or exactly 0, on axes that a call lacks; one of other sizes is not of such axes."""
    try:
        value = found.substitute(absent).constant if found.symbols & absent.keys() else 0
    except NotPolynomial:
        return False
    return value == 0 if exactly else value is not None and value >= 0


def never_negative(tree: Expr, sizes: Sizes, extents: Mapping[str, Expr]) -> bool:
    """Whether an integer is at least 0 in every call, for all values of its letters."""
    if isinstance(tree, Call) and tree.function == "floor" and isinstance(quotient := tree.arguments[0], Binary):
        return quotient.op == "/" and never_negative(quotient.left, sizes, extents)
    # A letter has a value where it stands: of those that do not, a call may have none.
    proof = _Proof(sizes, {letter: extents[letter] for letter in extents if letter in expr.names(tree)})
    try:
        return all(map(proof.some, proof.clauses(tree)))
    except NotPolynomial:
        return False


def inside(index: Expr, extent: Expr, sizes: Sizes, extents: Mapping[str, Expr]) -> bool:
    """Whether an index lies inside an axis in every call, for all values of its letters, which have `extents`."""
    below = minus(minus(extent, Number(1)), index)
    quotient = index.arguments[0] if isinstance(index, Call) and index.function == "floor" else None
    if isinstance(quotient, Binary) and quotient.op == "/":  # a / b < E if a < E * b, for b is at least 1
        whole = times(extent, quotient.right)
        if isinstance(extent, Binary) and extent.op == "/" and extent.right == quotient.right:
            whole = extent.left  # no extent leaves a remainder
        below = minus(minus(whole, Number(1)), quotient.left)
    return never_negative(index, sizes, extents) and never_negative(below, sizes, extents)


class _Proof:
    """The bounds of the letters of one expression."""

    def __init__(self, sizes: Sizes, extents: Mapping[str, Expr]) -> None:
        self.sizes = sizes
        self.least = dict(sizes.least)  # also of quotients, by what they read as
        self.extents = extents
        self.past = {letter: self.extent(tree) for letter, tree in extents.items()}

    def extent(self, tree: Expr) -> Poly:
        """The extent of a letter, which is at least 1 where the letter has a value."""
        if isinstance(tree, Call) and tree.function == "max" and tree.arguments[1] == Number(0):
            tree = tree.arguments[0]
        try:
            return self.polynomial(tree)
        except NotPolynomial:
            return Poly.symbol(spell(tree))

    def polynomial(self, tree: Expr) -> Poly:
        return rational(tree).substitute(self.sizes.values)

    def clauses(self, tree: Expr) -> Clauses:
        """An expression as a minimum of maxima; what is neither sum nor bound nor polynomial is a symbol."""
        if not any(isinstance(node, Call) or (isinstance(node, Binary) and node.op == "%") for node in expr.walk(tree)):
            return ((self.polynomial(tree),),)
        if isinstance(tree, Call) and tree.function in ("min", "max"):
            parts = [self.clauses(argument) for argument in tree.arguments]
            if tree.function == "min":
                return _limited(itertools.chain(*parts))
            return _limited(tuple(itertools.chain(*chosen)) for chosen in itertools.product(*parts))
        if isinstance(tree, Unary) and tree.op == "-":
            return self.negative(tree.operand)
        if isinstance(tree, Binary) and tree.op in "+-":
            return _added(self.clauses(tree.left), (self.clauses if tree.op == "+" else self.negative)(tree.right))
        if isinstance(tree, Binary) and tree.op == "*" and (scaled := self.scaled(tree.left, tree.right)) is not None:
            return scaled
        if isinstance(tree, Binary) and tree.op == "%":
            name = f"rest {len(self.past)}"  # which no letter is called
            self.past[name] = self.polynomial(tree.right)
            return ((Poly.symbol(name),),)
        if isinstance(tree, Call) and tree.function in ("floor", "ceil") and self.divides(tree.arguments[0]):
            self.least[spell(tree)] = 0
            self.limit(tree)
        return ((Poly.symbol(spell(tree)),),)  # of which no more is known

    def divides(self, tree: Expr) -> bool:
        """Whether a tree is a quotient that is never negative; a divisor is at least 1."""
        return isinstance(tree, Binary) and tree.op == "/" and all(map(self.some, self.clauses(tree.left)))

    def limit(self, rounded: Call) -> None:
        """A rounded quotient of letters counts up to what it is where they are last, if what it divides does."""
        (quotient,) = rounded.arguments
        ends = {name: minus(self.extents[name], Number(1)) for name in self.extents if name in expr.names(quotient)}
        if not ends or not isinstance(quotient, Binary) or not ends.keys().isdisjoint(expr.names(quotient.right)):
            return
        last = expr.substitute(quotient.left, ends)
        if all(map(self.some, self.clauses(minus(last, quotient.left)))):
            end = spell(Call(rounded.function, (Binary("/", last, quotient.right),)))
            self.least[end] = 0
            self.past[spell(rounded)] = Poly.symbol(end) + ONE

    def negative(self, tree: Expr) -> Clauses:
        """The clauses of -tree; of a sum, those of its parts, as they are fewer."""
        if isinstance(tree, Binary) and tree.op in "+-":
            right = (self.negative if tree.op == "+" else self.clauses)(tree.right)
            return _added(self.negative(tree.left), right)
        return _negated(self.clauses(tree))

    def scaled(self, left: Expr, right: Expr) -> Clauses | None:
        """A product with a factor of sizes alone that is never below 0, or never above it; None of other products."""
        for factor, other in ((left, right), (right, left)):
            made = _polynomial(factor)
            if made is None or not (made := made.substitute(self.sizes.values)).symbols.isdisjoint(self.past):
                continue
            for sign in (made, -made):
                if self.of_sizes(sign):
                    found = tuple(tuple(sign * one for one in clause) for clause in self.clauses(other))
                    return found if sign == made else _negated(found)
        return None

    def some(self, clause: Sequence[Poly]) -> bool:
        """Whether the maximum of some polynomials is at least 0: one is, or the sum of two."""
        return any(map(self.holds, clause)) or any(self.holds(a + b) for a, b in itertools.combinations(clause, 2))

    def holds(self, found: Poly) -> bool:
        """Whether a polynomial is at least 0 where each of its letters is first, and where it is last."""
        letter = next((name for name in self.past if name in found.symbols), None)
        if letter is None:
            return self.of_sizes(found)
        if any(abs(power) != 1 for monomial, _ in found.terms for name, power in monomial if name == letter):
            return False
        growth = Poly.of({_without(m, letter): f for m, f in found.terms if dict(m).get(letter) == 1})
        rest = Poly.of({monomial: factor for monomial, factor in found.terms if letter not in dict(monomial)})
        if rest + growth * Poly.symbol(letter) != found:
            return False
        last = rest + growth * (self.past[letter] - ONE)
        if growth.symbols.isdisjoint(self.past) and self.of_sizes(-growth):
            return self.holds(last)
        return self.holds(rest) and (self.holds(growth) or self.holds(last))

    def of_sizes(self, found: Poly) -> bool:
        """Whether a polynomial of sizes is at least 0 in every call."""
        return self.given(found, ()) or any(all(self.given(found, one) for one in some) for some in self.sizes.either)

    def given(self, found: Poly, more: Sequence[Poly]) -> bool:
        """Whether it is, less what is known to be, at most twice."""
        known = [ZERO, *self.sizes.known, *more, *(past - ONE for past in self.past.values())]
        pairs = itertools.combinations_with_replacement(known, 2)
        return any(self.plainly(found - first - second) for first, second in pairs)

    def plainly(self, found: Poly) -> bool:
        """Whether a polynomial has no product that may be below 0, once sizes are counted from their minima."""
        least = self.least
        divisors = {name for monomial, _ in found.terms for name, power in monomial if power < 0}
        some = {name: least[name] for name in found.symbols - divisors if least.get(name, 0) > 0}
        shifted = found.substitute({name: Poly.symbol(name) + Poly.number(one) for name, one in some.items()})
        signs = all(least.get(name, -1) >= 0 for name in shifted.symbols)
        return signs and all(factor > 0 for _, factor in shifted.terms)


def _without(monomial: tuple[tuple[str, int], ...], name: str) -> tuple[tuple[str, int], ...]:
    return tuple(one for one in monomial if one[0] != name)


def _added(left: Clauses, right: Clauses) -> Clauses:
    return _limited(tuple(a + b for a in one for b in other) for one in left for other in right)


def _negated(clauses: Clauses) -> Clauses:
    """The same with the opposite sign: a maximum of minima, as a minimum of maxima."""
    return _limited(tuple(-one for one in chosen) for chosen in itertools.product(*clauses))


def _limited(clauses: Iterable[tuple[Poly, ...]]) -> Clauses:
    made = tuple(itertools.islice(clauses, MAX_CLAUSES + 1))
    if len(made) > MAX_CLAUSES:
        raise NotPolynomial(f"more than {MAX_CLAUSES} maxima")
    return made
