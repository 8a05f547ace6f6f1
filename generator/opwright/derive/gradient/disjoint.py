"""Whether two steps write different cells of one array, whatever the sizes of a call.

In: the program, two steps with the same array as target. Out: True if no call makes both write one cell: by numbers
(`c[r, 0]`, `c[r, 1]`), by remainders (`2 * i`, `2 * i + 1`), by ranges (`h` of H cells, `H + h`), or by opposite
conditions. False where none of these tells.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...language import expr
from ...language.expr import Expr, Name, Number
from ..algebra.conditions import conjuncts, opposite
from ..algebra.inside import never_negative
from ..algebra.poly import NotPolynomial, affine
from ..algebra.slopes import minus
from ..program import Part, Program


def disjoint(found: Program, one: Part, other: Part) -> bool:
    """Whether no cell is written by both of two steps."""
    pairs = zip(one.target.indices, other.target.indices, strict=True)
    return _opposed(one, other) or any(_apart(found, ours, theirs) for ours, theirs in pairs)


def _opposed(one: Part, other: Part) -> bool:
    """Whether the same cells are written under conditions that exclude each other."""
    same = one.target == other.target
    return same and (_excludes(one, other) or _excludes(other, one))


def _excludes(one: Part, other: Part) -> bool:
    """Whether the conditions of a step hold the opposite of those of another one."""
    theirs = set(_conditions(other))
    guards = (tree for tree in _conditions(one) if expr.names(tree) & set(one.letters) <= expr.names(one.target))
    return any(theirs >= set(conjuncts(opposite(tree))) for tree in guards)


def _conditions(part: Part) -> Iterator[Expr]:
    for guard in part.where:
        yield from conjuncts(guard.tree)


def _apart(found: Program, ours: Expr, theirs: Expr) -> bool:
    """Whether two indices, each with letters of its own, are never equal."""
    return _unlike(found, ours, theirs) or _below(found, ours, theirs) or _below(found, theirs, ours)


def _unlike(found: Program, ours: Expr, theirs: Expr) -> bool:
    """Whether two indices have different remainders by one number, or are two numbers."""
    try:
        one, other = affine(ours, found.letters), affine(theirs, found.letters)
    except NotPolynomial:
        return False
    steps = [coefficient.constant for index in (one, other) for _, coefficient in index.coefficients]
    between = (one.offset - other.offset).constant
    if between is None or any(step is None for step in steps):
        return False
    divisor = math.gcd(*(step for step in steps if step is not None))
    return between % divisor != 0 if divisor else between != 0


def _below(found: Program, ours: Expr, theirs: Expr) -> bool:
    """Whether all values of an index are below all those of another."""
    others: dict[str, Expr] = {name: Name(f"other {name}") for name in found.letters}
    extents = {letter.name: letter.extent for letter in found.letters.values()}
    extents |= {f"other {name}": extent for name, extent in extents.items()}
    return never_negative(minus(minus(expr.substitute(theirs, others), ours), Number(1)), found.sizes, extents)
