"""Values of steps as sums of products, with cancellation.

In: trees of values. Out: a `Sum`, a tuple of `Term`s: a coefficient, and factors with their powers. A factor is not a
product itself: an element, a symbol, a function, a sum in parentheses. Coefficients are exact fractions of the
spec's literals. Nothing here knows about differentiation.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from ...language import expr
from ...language.expr import Binary, Call, Expr, Number, Unary

MAX_POWER = 4  # powers of a factor up to this one are not written as pow()


@dataclass(frozen=True)
class Term:
    """A product: its coefficient, and each factor with its power, in order of occurrence."""

    coefficient: Fraction
    factors: tuple[tuple[Expr, int], ...] = ()

    @property
    def key(self) -> frozenset[tuple[Expr, int]]:
        return frozenset(self.factors)

    @property
    def names(self) -> frozenset[str]:
        return frozenset[str]().union(*(expr.names(factor) for factor, _ in self.factors))


Sum = tuple[Term, ...]
ZERO: Sum = ()
ONE: Sum = (Term(Fraction(1)),)


def constant(value: int | float | Fraction) -> Sum:
    fraction = value if isinstance(value, Fraction) else Fraction(repr(value))
    return (Term(fraction),) if fraction else ZERO


def factor(tree: Expr, power: int = 1) -> Sum:
    return (Term(Fraction(1), ((tree, power),)),)


def is_constant(found: Sum) -> bool:
    return all(not term.factors for term in found)


def add(*sums: Iterable[Term]) -> Sum:
    """The sum of sums: like terms are merged, cancelled ones removed, choices by the same condition merged."""
    found: dict[frozenset[tuple[Expr, int]], Term] = {}
    for term in (term for one in sums for term in one):
        before = found.get(term.key)
        coefficient = term.coefficient + (before.coefficient if before else 0)
        found[term.key] = Term(coefficient, (before or term).factors)
    return _chosen([term for term in found.values() if term.coefficient])


def _chosen(terms: list[Term]) -> Sum:
    """Terms with choices by the same condition merged."""
    for at, term in enumerate(terms):
        choice = _choice(term)
        for number in range(at + 1, len(terms)) if choice else ():
            other = _choice(terms[number])
            if choice and other and other[0] == choice[0] and other[3] == choice[3]:
                merged = select(choice[0], add(choice[1], other[1]), add(choice[2], other[2]))
                return add(terms[:at], product(merged, choice[3]), terms[at + 1 : number], terms[number + 1 :])
    return tuple(terms)


def _choice(term: Term) -> tuple[Expr, Sum, Sum, Sum] | None:
    """Condition, both values, and the other factors of a term with a `select`."""
    for at, (tree, power) in enumerate(term.factors):
        if isinstance(tree, Call) and tree.function == "select" and power == 1:
            rest = (Term(Fraction(1), (*term.factors[:at], *term.factors[at + 1 :])),)
            scale = (Term(term.coefficient),)
            condition, a, b = tree.arguments
            return condition, product(scale, terms_of(a)), product(scale, terms_of(b)), rest
    return None


def negative(found: Sum) -> Sum:
    return tuple(Term(-term.coefficient, term.factors) for term in found)


def times(a: Term, b: Term) -> Term:
    powers = dict(a.factors)
    for tree, power in b.factors:
        powers[tree] = powers.get(tree, 0) + power
    roots = [tree for tree, power in powers.items() if _is_root(tree) and abs(power) > 1]
    for tree in roots:
        inner = _single(terms_of(tree.arguments[0])) if isinstance(tree, Call) else Term(Fraction(1))
        whole, powers[tree] = int(powers[tree] / 2), int(math.fmod(powers[tree], 2))
        squared = Term(inner.coefficient**whole, tuple((part, own * whole) for part, own in inner.factors))
        rest = Term(a.coefficient * b.coefficient, tuple((part, own) for part, own in powers.items() if own))
        return times(rest, squared)
    return Term(a.coefficient * b.coefficient, tuple((tree, power) for tree, power in powers.items() if power))


def _is_root(tree: Expr) -> bool:
    return isinstance(tree, Call) and tree.function == "sqrt"


def product(a: Sum, b: Sum) -> Sum:
    """The product; a sum of several terms stays one factor."""
    if not a or not b:
        return ZERO
    for one, other in ((a, b), (b, a)):
        if is_constant(one) and abs(one[0].coefficient) == 1:
            return other if one[0].coefficient == 1 else negative(other)
    return _inside(times(_single(a), _single(b)))


def _inside(term: Term) -> Sum:
    """A product with one choice between a value and 0, as a choice between a product and 0."""
    choice = _choice(term)
    if choice is None or choice[2] or not (term.factors[1:] or term.coefficient != 1):
        return (term,)
    condition, value, _, rest = choice
    return select(condition, product(value, rest), ())


def quotient(a: Sum, b: Sum) -> Sum:
    """a / b, for a b that is not known to be 0."""
    if not b:
        return product(a, factor(Number(0), -1))
    below = _single(b)
    inverse = Term(1 / below.coefficient, tuple((tree, -power) for tree, power in below.factors))
    return product(a, (inverse,))


def _single(found: Sum) -> Term:
    return found[0] if len(found) == 1 else Term(Fraction(1), ((tree_of(found), 1),))


def select(condition: Expr, a: Sum, b: Sum) -> Sum:
    """A choice; inner choices by the same condition are resolved."""
    a, b = _decided(a, condition, 1), _decided(b, condition, 2)
    inner = _choice(a[0]) if len(a) == 1 and not b else None
    if inner is not None and not inner[2] and inner[3] == ONE:
        return select(Binary("and", condition, inner[0]), inner[1], ())
    return a if a == b else factor(Call("select", (condition, tree_of(a), tree_of(b))))


def _decided(found: Sum, condition: Expr, branch: int) -> Sum:
    def visit(tree: Expr) -> Expr | None:
        chooses = isinstance(tree, Call) and tree.function == "select" and tree.arguments[0] == condition
        return expr.changed(tree.arguments[branch], visit) if chooses and isinstance(tree, Call) else None

    inside = any(isinstance(node, Call) and node.function == "select" for t in found for node in _nodes(t))
    return terms_of(expr.changed(tree_of(found), visit)) if inside else found


def _nodes(term: Term) -> Iterator[Expr]:
    for tree, _ in term.factors:
        yield from expr.walk(tree)


def terms_of(tree: Expr) -> Sum:
    """A value as a sum of products. Arguments of functions, conditions and integer operators do not change."""
    if isinstance(tree, Number):
        return constant(tree.value) if math.isfinite(tree.value) else factor(tree)
    if isinstance(tree, Unary) and tree.op == "-":
        return negative(terms_of(tree.operand))
    if isinstance(tree, Binary) and tree.op in "+-*/":
        left, right = terms_of(tree.left), terms_of(tree.right)
        if tree.op in "+-":
            return add(left, right if tree.op == "+" else negative(right))
        return product(left, right) if tree.op == "*" else quotient(left, right)
    if isinstance(tree, Call) and tree.function == "pow":
        base, power = terms_of(tree.arguments[0]), literal(tree.arguments[1])
        if isinstance(power, int) and 0 < abs(power) <= MAX_POWER and base:
            single = _single(base)
            powers = tuple((part, own * power) for part, own in single.factors)
            return (Term(Fraction(single.coefficient) ** power, powers),)
    if isinstance(tree, Call) and tree.function == "select":
        condition, a, b = tree.arguments
        return select(condition, terms_of(a), terms_of(b))
    return factor(tree)


def literal(tree: Expr) -> int | float | None:
    """The number that a literal stands for, with its sign."""
    if isinstance(tree, Unary) and tree.op == "-" and isinstance(tree.operand, Number):
        return -tree.operand.value
    return tree.value if isinstance(tree, Number) else None


def distributed(term: Term) -> Sum:
    """A product with a sum as its factor, term by term."""
    for at, (tree, power) in enumerate(term.factors):
        if power == 1 and isinstance(tree, Binary) and tree.op in "+-":
            rest = Term(term.coefficient, (*term.factors[:at], *term.factors[at + 1 :]))
            return add(*(distributed(times(rest, part)) for part in terms_of(tree)))
    return (term,)


# Sums as trees.


def grouped(found: Sum) -> Expr:
    """The value of a sum, with common factors moved in front."""
    shared = dict(found[0].factors) if len(found) > 1 else {}
    for term in found[1:]:
        own = dict(term.factors)
        shared = {tree: power for tree, power in shared.items() if own.get(tree) == power}
    above = [part for tree, power in shared.items() if power > 0 for part in _powers(tree, power)]
    if not above:
        return tree_of(found)
    rest = tuple(Term(t.coefficient, tuple(entry for entry in t.factors if entry[0] not in shared)) for t in found)
    below = [part for tree, power in shared.items() if power < 0 for part in _powers(tree, -power)]
    result = _chain([*above, tree_of(rest)])
    return _over(result, below) if below else result


def tree_of(found: Sum) -> Expr:
    """The value of a sum, with a positive term first if there is one."""
    if not found:
        return Number(0)
    ordered = sorted(found, key=lambda term: term.coefficient < 0)
    result = _term_tree(ordered[0])
    for term in ordered[1:]:
        lower = term.coefficient < 0
        part = _term_tree(Term(abs(term.coefficient), term.factors))
        result = Binary("-" if lower else "+", result, part)
    return result


def _term_tree(term: Term) -> Expr:
    above: list[Expr] = []
    below: list[Expr] = []
    coefficient = abs(term.coefficient)
    top, bottom = _literals(coefficient)
    above += [top] if top is not None else []
    below += [bottom] if bottom is not None else []
    for tree, power in term.factors:
        (above if power > 0 else below).extend(_powers(tree, abs(power)))
    result = _chain(above) if above else Number(1)
    if below:
        result = _over(result, below)
    if term.coefficient > 0:
        return result
    return _negated(result)


def _over(above: Expr, below: list[Expr]) -> Expr:
    """A quotient: factors that occur again divide again, as their square may be 0 or infinite where they are not."""
    distinct = list(dict.fromkeys(below))
    result = Binary("/", above, _chain(distinct))
    for tree in distinct:
        for _ in range(below.count(tree) - 1):
            result = Binary("/", result, tree)
    return result


def _negated(tree: Expr) -> Expr:
    """A minus in front of the first factor."""
    if isinstance(tree, Binary) and tree.op in "*/":
        return dataclasses.replace(tree, left=_negated(tree.left))
    return Unary("-", tree)


def _literals(coefficient: Fraction) -> tuple[Number | None, Number | None]:
    """A coefficient as literals of numerator and denominator; None for 1."""
    if coefficient == 1:
        return None, None
    if coefficient.denominator == 1:
        return Number(int(coefficient)), None
    near = float(f"{float(coefficient):.15g}")
    if Fraction(repr(near)) == coefficient or len(repr(near)) < 8:  # a literal of 16 digits, squared, may be near 0.5
        return Number(int(near) if near.is_integer() else near), None
    if max(coefficient.numerator, coefficient.denominator) < 1000:
        above = None if coefficient.numerator == 1 else Number(coefficient.numerator)
        return above, Number(coefficient.denominator)
    return Number(float(coefficient)), None


def _powers(tree: Expr, power: int) -> list[Expr]:
    return [tree] * power if power <= 2 else [Call("pow", (tree, Number(power)))]


def _chain(trees: list[Expr]) -> Expr:
    result = trees[0]
    for tree in trees[1:]:
        result = Binary("*", result, tree)
    return result


# Parts of trees.


def mapped(found: Sum, visit: Callable[[Expr], Expr | None]) -> Sum:
    """A sum with trees replaced by `visit`."""
    return terms_of(expr.changed(tree_of(found), visit))
