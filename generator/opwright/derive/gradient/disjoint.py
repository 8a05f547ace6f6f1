"""Whether two steps, or one for two values of its letters, write different cells of one array, whatever the sizes.

In: the program, two steps with the same array as target. Out: True if no call makes both write one cell: by numbers
(`c[r, 0]`, `c[r, 1]`), by remainders (`2 * i`, `2 * i + 1`), by ranges (`h` of H cells, `H + h`), or by opposite
conditions. False where none of these tells.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from ...language import expr
from ...language.expr import Call, Expr, Name, Number
from ..algebra.conditions import conjuncts, opposite
from ..algebra.inside import never_negative
from ..algebra.poly import NotPolynomial, affine
from ..algebra.slopes import minus, sign, slope
from ..program import Part, Program

_ONE = Name("the one that is left")


def disjoint(found: Program, one: Part, other: Part) -> bool:
    """Whether no cell is written by both of two steps."""
    pairs = zip(one.target.indices, other.target.indices, strict=True)
    return _opposed(one, other) or any(_apart(found, ours, theirs) for ours, theirs in pairs)


def repeats(found: Program, part: Part) -> bool:
    """Whether a step may write a cell for several values of its target's letters: `dst[floor(i / 2)]`, `dst[i + k]`.

    Indices tell letters apart one after the other: those that walk an axis, and one that is left in a linear index.
    """
    told = set[str]()
    indices = [*enumerate(part.target.indices)]
    while unlike := [pair for pair in indices if _left(found, pair[1], told) and _tells(found, part, *pair, told)]:
        told |= _left(found, unlike[0][1], told)
    return any(_left(found, index, told) for _, index in indices)


def _left(found: Program, index: Expr, told: Collection[str]) -> frozenset[str]:
    """The letters of an index that are not told apart yet."""
    return (expr.names(index) & found.letters.keys()).difference(told)


def _tells(found: Program, part: Part, number: int, index: Expr, told: Collection[str]) -> bool:
    """Whether an index differs for different values of the letters that are left in it."""
    left = _left(found, index, told)
    if found.covers(part.target.tensor, number, index):
        return True
    counted = [node for node in expr.walk(index) if isinstance(node, Call) and node.function == "number"]
    letters = [Name(letter) for letter in left]
    one = counted[0] if counted and left == expr.names(counted[0]) else letters[0] if len(left) == 1 else None
    growth = slope(expr.replaced(index, one, _ONE), _ONE.id) if one is not None else None
    return growth is not None and sign(growth, found.sizes.least) != 0


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
