"""Whether two steps write different cells of one array, whatever the sizes of a call.

In: the program, two steps with the same array as target. Out: True if no call makes both write one cell: by numbers
(`c[r, 0]`, `c[r, 1]`), by remainders (`2 * i`, `2 * i + 1`), by ranges (`h` of H cells, `H + h`), or by opposite
conditions. False where none of these tells.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...language import expr
from ...language.expr import Binary, Expr, Name, Unary
from ..exactness import conjuncts
from ..poly import Affine, NotPolynomial, Poly, affine, polynomial
from ..program import Part, Program

OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


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
    return any(theirs >= set(conjuncts(_negated(tree))) for tree in guards)


def _conditions(part: Part) -> Iterator[Expr]:
    for guard in part.where:
        yield from conjuncts(guard.tree)


def _negated(tree: Expr) -> Expr:
    if isinstance(tree, Unary) and tree.op == "not":
        return tree.operand
    if isinstance(tree, Binary) and tree.op in OPPOSITE:
        return Binary(OPPOSITE[tree.op], tree.left, tree.right)
    return Unary("not", tree)


def _apart(found: Program, ours: Expr, theirs: Expr) -> bool:
    """Whether two indices, each with letters of its own, are never equal."""
    try:
        one, other = affine(ours, found.letters), affine(theirs, found.letters)
        return _unlike(one, other) or _below(found, one, other) or _below(found, other, one)
    except NotPolynomial:
        return False


def _unlike(one: Affine, other: Affine) -> bool:
    """Whether two indices have different remainders by one number, or are two numbers."""
    steps = [coefficient.constant for index in (one, other) for _, coefficient in index.coefficients]
    between = (one.offset - other.offset).constant
    if between is None or any(step is None for step in steps):
        return False
    divisor = math.gcd(*(step for step in steps if step is not None))
    return between % divisor != 0 if divisor else between != 0


def _below(found: Program, one: Affine, other: Affine) -> bool:
    """Whether all values of an index are below all those of another."""
    sizes = {extent.id for extent in _extents(found) if isinstance(extent, Name)}
    ends = _end(found, one, sizes, 1), _end(found, other, sizes, -1)
    return None not in ends and _never_negative(ends[1] - ends[0] - Poly.number(1), sizes)  # type: ignore[operator]


def _end(found: Program, index: Affine, sizes: set[str], sign: int) -> Poly | None:
    """The last value of an index (sign 1) or the first (-1); None if a coefficient has no known sign."""
    end = index.offset
    for letter, coefficient in index.coefficients:
        upward = _never_negative(coefficient, sizes)
        if not upward and not _never_negative(-coefficient, sizes):
            return None
        if upward == (sign > 0):
            end += coefficient * (polynomial(found.letters[letter].extent) - Poly.number(1))
    return end


def _extents(found: Program) -> Iterator[Expr]:
    yield from (letter.extent for letter in found.letters.values())
    yield from (axis.extent for array in found.arrays.values() for axis in array.axes)


def _never_negative(value: Poly, sizes: set[str]) -> bool:
    """Whether a polynomial has no negative terms; sizes have no negative values."""
    return all(factor > 0 and {name for name, _ in monomial} <= sizes for monomial, factor in value.terms)
