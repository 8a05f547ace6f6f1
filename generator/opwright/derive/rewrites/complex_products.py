"""Products of complex numbers are one product of all components, from which those of the result are put together.

In: a program. Out: the program in which `y[m, n, 0] += a[m, k, 0] * c[k, n, 0] - a[m, k, 1] * c[k, n, 1]`, and `y[m, n,
1] += a[m, k, 0] * c[k, n, 1] + a[m, k, 1] * c[k, n, 0]`, are `pairs[h, m, n, g] += a[m, k, h] * c[k, n, g]` and a step
for each component that adds up two of its four cells. Columns and their components lie side by side there, and each
operand is read once or twice, where four products of every second cell read it twice each. 1000 products of 8x8 by 8x8
take 0.22 of their time in f32, 0.32 in f64, 100 of 33x35 by 35x37 0.6, 257 of 1x8 by 8x200 0.46, one of 257x300 by
300x333 0.97; with terms side by side in both, 100 of 17x33 by 33x19 0.64 (AMD Zen 4, gcc 12.2, one thread).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...language import expr
from ...language.expr import Binary, Expr, Name, Number, Read
from ..contraction import letters_of
from ..program import Array, Axis, Part, Program
from .accumulating import written_in_pieces
from .lone_sums import added_up, factors_of
from .pairing import is_product

PAIR = Number(2)


@dataclass(frozen=True)
class _Side:
    """An element of pairs: what reads both of its components, and the axis of these."""

    read: Read  # its first component
    axis: int


def of_pairs(found: Program) -> Program:
    """The program with such products."""
    for one, other in itertools.combinations(found.parts, 2):
        if one in found.parts and other in found.parts:
            found = _together(found, one, other) or found
    return found


def _together(found: Program, one: Part, other: Part) -> Program | None:
    own = [letter for letter in letters_of(one.target) if letter in found.letters]
    if not all(_plain(found, part, own) for part in (one, other)) or {*one.letters} != {*other.letters}:
        return None
    sums = [list(_terms(found, part.formulas[0].value)) for part in (one, other)]
    sides = dict.fromkeys(side for terms in sums for _, factors in terms for side, _ in factors)
    written = {part.target.tensor for part in found.parts[found.parts.index(one) :]}
    if len(sides) != 2 or any(len(terms) != 2 for terms in sums) or written & {side.read.tensor for side in sides}:
        return None
    left, right = sides
    if own[-1] not in expr.names(right.read):
        left, right = right, left
    if own[-1] in expr.names(left.read) or not _fills(found, left, right, own):
        return None
    spots = [[dict(factors) for _, factors in terms] for terms in sums]
    cells = [(spot.get(left), spot.get(right)) for some in spots for spot in some]
    if {*cells} != {(0, 0), (0, 1), (1, 0), (1, 1)}:
        return None
    name = f"pairs_{one.number}_{other.number}_"
    outer, inner = Axis(f"{name}h_", PAIR, "one"), Axis(f"{name}g_", PAIR, "one")
    axes = (outer, *(dataclasses.replace(found.letters[letter], name=letter) for letter in own), inner)
    letters = {**found.letters, outer.name: outer, inner.name: inner}
    value = Binary("*", _component(left, Name(outer.name)), _component(right, Name(inner.name)))
    product = one.of(Read(name, tuple(Name(axis.name) for axis in axes)), "sum", value, letters)
    made = dataclasses.replace(found, letters=letters, arrays={**found.arrays, name: Array(name, "between", axes)})
    made = dataclasses.replace(made, parts=found.instead(one, (product, one)))
    if not is_product(made, product):
        return None
    cell = [Read(name, (Number(x[left]), *map(Name, own), Number(x[right]))) for some in spots for x in some]
    totals = [Binary(sums[at][1][0], cell[2 * at], cell[2 * at + 1]) for at in range(2)]
    pieces = [part.of(part.target, "set", total) for part, total in zip((one, other), totals, strict=True)]
    alone = {part.target for part in made.parts if part.target.tensor == one.target.tensor} == {
        one.target,
        other.target,
    }
    if not (alone and written_in_pieces(made, pieces)):
        pieces = [added_up(made, part, total) for part, total in zip((one, other), totals, strict=True)]
    for part, piece in zip((one, other), pieces, strict=True):
        made = dataclasses.replace(made, parts=made.instead(part, [piece]))
    return made


def _plain(found: Program, part: Part, own: Sequence[str]) -> bool:
    """Whether a step is a sum without conditions to a cell for each value of some letters."""
    target, kinds = part.target, {found.letters[letter].kind for letter in part.letters}
    alone = part.operator == "sum" and not (part.by or part.where or part.unless_empty) and kinds == {"one"}
    letters = [letter for letter in letters_of(target) if letter in found.letters]
    walked = sorted(letters) == sorted(own) and {*own} == expr.names(target) & found.letters.keys()
    return alone and walked and bool(own) and len({*own}) == len(own) and target.tensor not in found.integers


def _terms(found: Program, value: Expr) -> Iterator[tuple[str, list[tuple[_Side, int]]]]:
    """The terms of a sum, each with its sign: two components, or none."""
    sign = "+"
    if isinstance(value, Binary) and value.op in ("+", "-"):
        yield from _terms(found, value.left)
        sign, value = value.op, value.right
    factors = [_side(found, factor) for factor in factors_of(value)]
    yield sign, [side for side in factors if side is not None] if None not in factors and len(factors) == 2 else []


def _side(found: Program, factor: Expr) -> tuple[_Side, int] | None:
    """The pair of which a factor reads one component, and which."""
    if not isinstance(factor, Read):
        return None
    axes = found.arrays[factor.tensor].axes
    spots = [
        at for at, index in enumerate(factor.indices) if index in (Number(0), Number(1)) and axes[at].extent == PAIR
    ]
    if len(spots) != 1:
        return None
    (at,) = spots
    index = factor.indices[at]
    return _Side(_component(_Side(factor, at), Number(0)), at), int(index.value) if isinstance(index, Number) else 0


def _component(side: _Side, index: Expr) -> Read:
    indices = side.read.indices
    return dataclasses.replace(side.read, indices=(*indices[: side.axis], index, *indices[side.axis + 1 :]))


def _fills(found: Program, left: _Side, right: _Side, own: Sequence[str]) -> bool:
    """Whether components lie side by side along the columns, or columns serve several rows, which pay for a copy."""
    indices, last = right.read.indices, own[-1]
    innermost = right.axis == len(indices) - 1 and last in expr.names(right.read)
    rows = {*own} & expr.names(left.read) - expr.names(right.read)
    return innermost and (bool(rows) or (len(indices) > 1 and indices[-2] == Name(last)))
