"""Quotients and products of exponentials in a form that stays finite where the operation itself does.

In: a sum, and which elements hold an exponential. Out: an equal sum. `t / (t + r)` becomes `1 / (1 + r / t)` if `t` has
an exponential as a factor: where `t` is infinite, the first is NaN and the second 1. `exp(a) * t` becomes one
exponential if `t` occurs in `a`: where `t` is infinite, the product is 0 times infinity. So it is beside the slope of
`tanh`, which a select tells from 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from ...language import expr
from ...language.expr import Binary, Call, Expr, Number
from .terms import (
    ONE,
    Sum,
    Term,
    add,
    distributed,
    literal,
    negative,
    product,
    quotient,
    select,
    terms_of,
    times,
    tree_of,
)

EXPONENTIALS = ("exp", "exp2")
ROOTS = {"sqrt": Fraction(1, 2), "rsqrt": Fraction(-1, 2), "pow": Fraction(0)}  # exponents; that of `pow` is its own
Grows = Callable[[Expr], bool]


def bounded(found: Sum, grows: Grows) -> Sum:
    """An equal sum, with its quotients and products of exponentials rewritten."""
    if not any(_grown(tree, grows) for term in found for tree, _ in term.factors):
        return found
    return add(*(_flat(_bounded(one, grows), grows) for term in found for one in _spread(term, grows)))


def _bounded(term: Term, grows: Grows) -> Term:
    term = _merged(_inner(term, grows))
    while (step := _shared(_rooted(term, grows), grows)) is not None:
        term = step
    return term


def _flat(term: Term, grows: Grows) -> Sum:
    """A term that is 0 where the slope of a `tanh` of exponentials is 0, even if others are infinite there."""
    slopes = [tree for tree, power in term.factors if power > 0 and _is_sum(tree) and _saturates(tree, grows)]
    steep = any(power > 0 and tree not in slopes and _steep(tree, grows) for tree, power in term.factors)
    return select(Binary("==", slopes[0], Number(0)), (), (term,)) if slopes and steep else (term,)


def _saturates(tree: Expr, grows: Grows) -> bool:
    calls = (node for node in expr.walk(tree) if isinstance(node, Call) and node.function == "tanh")
    return any(_grown(node.arguments[0], grows) for node in calls)


def _steep(tree: Expr, grows: Grows) -> bool:
    """Whether a factor is an exponential, or a sum with one as a factor of a term."""
    parts = terms_of(tree) if _is_sum(tree) else ()
    return grows(tree) or any(power > 0 and _steep(own, grows) for part in parts for own, power in part.factors)


def _grown(tree: Expr, grows: Grows) -> bool:
    return any(map(grows, expr.walk(tree)))


def _spread(term: Term, grows: Grows) -> Sum:
    """A product of an exponential and a sum with quotients by sums of it, term by term."""
    if not any(grows(tree) and power > 0 for tree, power in term.factors):
        return (term,)
    sums = [tree for tree, power in term.factors if power == 1 and _is_sum(tree)]
    below = [own for tree in sums for part in terms_of(tree) for own, power in part.factors if power < 0]
    quotients = any(_divides(part, term, grows) for tree in below if _is_sum(tree) for part in terms_of(tree))
    return distributed(term) if quotients else (term,)


def _inner(term: Term, grows: Grows) -> Term:
    """A term whose factors are sums: each of them rewritten."""
    result = Term(term.coefficient)
    for tree, power in term.factors:
        made = tree_of(bounded(terms_of(tree), grows)) if power > 0 and _is_sum(tree) else tree
        result = times(result, Term(Fraction(1), ((made, power),)))
    return result


def _merged(term: Term) -> Term:
    """Exponentials times those of which they are functions, as one exponential each."""
    found = [
        (tree, power)
        for tree, power in term.factors
        if isinstance(tree, Call) and tree.function in EXPONENTIALS and power > 0
    ]
    for tree, power in found:
        for other, own in found:
            if other != tree and other.function == tree.function and any(node == other for node in expr.walk(tree)):
                whole = add(_scaled(tree, power), _scaled(other, own))
                rest = tuple(entry for entry in term.factors if entry[0] not in (tree, other))
                return _merged(Term(term.coefficient, (*rest, (Call(tree.function, (tree_of(whole),)), 1))))
    return term


def _scaled(tree: Call, power: int) -> Sum:
    return product((Term(Fraction(power)),), terms_of(tree.arguments[0]))


def _rooted(term: Term, grows: Grows) -> Term:
    """A term with a quotient by a sum of exponentials in place of its roots and its negative powers."""
    for base in (tree.arguments[0] for tree, _ in term.factors if isinstance(tree, Call) and tree.function in ROOTS):
        powers = {tree: _exponent(tree, base) * power for tree, power in term.factors}
        total = sum(powers.values(), Fraction(0))
        if _is_sum(base) and total <= -1 and any(_divides(part, term, grows) for part in terms_of(base)):
            rest = tuple((tree, power) for tree, power in term.factors if not powers[tree])
            return times(Term(term.coefficient, (*rest, (base, -1))), _power(base, total + 1))
    return term


def _exponent(tree: Expr, base: Expr) -> Fraction:
    """The exponent of a factor that is a power of a base; 0 for others."""
    if tree == base:
        return Fraction(1)
    if not isinstance(tree, Call) or tree.function not in ROOTS or tree.arguments[0] != base:
        return Fraction(0)
    return ROOTS[tree.function] or Fraction(repr(literal(tree.arguments[1]) or 0))


def _power(base: Expr, exponent: Fraction) -> Term:
    if exponent.denominator == 1:
        return Term(Fraction(1), ((base, int(exponent)),) if exponent else ())
    if exponent.denominator == 2:
        whole, root = (math.ceil(exponent), "rsqrt") if exponent < 0 else (math.floor(exponent), "sqrt")
        return Term(Fraction(1), ((Call(root, (base,)), 1), *(((base, whole),) if whole else ())))
    return Term(Fraction(1), ((Call("pow", (base, Number(float(exponent)))), 1),))


def _shared(term: Term, grows: Grows) -> Term | None:
    """A term with one quotient of an exponential by a sum that has it rewritten; None if there is none."""
    for tree, power in term.factors:
        for part in terms_of(tree) if power < 0 and _is_sum(tree) else ():
            if _divides(part, term, grows):
                rest = add(terms_of(tree), negative((part,)))
                below = add(ONE, quotient(rest, (part,)))
                inverse = Term(1 / part.coefficient, tuple((own, -count) for own, count in part.factors))
                return times(times(term, inverse), Term(Fraction(1), ((tree, 1), (tree_of(below), -1))))
    return None


def _divides(part: Term, term: Term, grows: Grows) -> bool:
    """Whether a term has all factors of a part of a sum, one of them an exponential."""
    powers = dict(term.factors)
    whole = all(powers.get(tree, 0) * power >= power * power for tree, power in part.factors)
    return whole and any(grows(tree) and power > 0 for tree, power in part.factors)


def _is_sum(tree: Expr) -> bool:
    return isinstance(tree, Binary) and tree.op in "+-"
