"""Products of complex numbers are one product of all components, from which those of the result are put together.

In: a program. Out: the program in which `y[m, n, 0] += a[m, k, 0] * c[k, n, 0] - a[m, k, 1] * c[k, n, 1]`, and `y[m, n,
1] += a[m, k, 0] * c[k, n, 1] + a[m, k, 1] * c[k, n, 0]`, are `pairs[h, m, n, g] += a[m, k, h] * c[k, n, g]` and a step
for each component that adds up two of its four cells. Columns and their components lie side by side there, and each
operand is read once or twice, where four products of every second cell read it twice each. 1000 products of 8x8 by 8x8
take 0.22 of their time in f32, 0.32 in f64, 100 of 33x35 by 35x37 0.6, 257 of 1x8 by 8x200 0.46, one of 257x300 by
300x333 0.97; with terms side by side in both, 100 of 17x33 by 33x19 0.64.

Without columns, `y[m, 0] += a[m, k, 0] * x[k, 0] - a[m, k, 1] * x[k, 1]`, they are `sums[m, g] += a[m, k, h] *
turned[g, k, h]`: rows of left are read once, as they lie, and `turned` has both components of right in the order of
those that they meet, with their signs. 513 rows of 333 take 0.24 of their time in f32, 0.25 in f64, 257 times 200 of
8 0.53 and 0.38 (AMD Zen 4, gcc 12.2, one thread).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...language import expr
from ...language.expr import Binary, Call, Expr, Name, Number, Read, Unary
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
        if one in found.parts and other in found.parts and (product := _product(found, one, other)) is not None:
            left, right = product.sides
            sides = ((left, right), (right, left))
            made = (make(*both) for make in (product.by_columns, product.by_rows) for both in sides)
            found = next((program for program in made if program is not None), found)
    return found


def _product(found: Program, one: Part, other: Part) -> _Product | None:
    """The product of complex numbers whose components two steps sum up."""
    own = [letter for letter in letters_of(one.target) if letter in found.letters]
    if not all(_plain(found, part, own) for part in (one, other)) or {*one.letters} != {*other.letters}:
        return None
    sums = [list(_terms(found, part.formulas[0].value)) for part in (one, other)]
    sides = tuple(dict.fromkeys(side for terms in sums for _, factors in terms for side, _ in factors))
    written = {part.target.tensor for part in found.parts[found.parts.index(one) :]}
    if len(sides) != 2 or any(len(terms) != 2 for terms in sums) or written & {side.read.tensor for side in sides}:
        return None
    terms = [[(sign, dict(factors)) for sign, factors in some] for some in sums]
    cells = [tuple(spot.get(side) for side in sides) for some in terms for _, spot in some]
    both = {*cells} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    return _Product(found, (one, other), own, (sides[0], sides[1]), terms) if both else None


@dataclass(frozen=True)
class _Product:
    """Two steps that sum up the components of a product: the letters of its cells, its sides, and the terms of each."""

    found: Program
    parts: tuple[Part, Part]
    own: Sequence[str]
    sides: tuple[_Side, _Side]
    terms: Sequence[Sequence[tuple[str, Mapping[_Side, int]]]]

    def by_columns(self, left: _Side, right: _Side) -> Program | None:
        """The program with the sums of all components, if right has columns to which they are added."""
        own = self.own
        if own[-1] in expr.names(left.read) or not self.fills(left, right):
            return None
        name = self.name("pairs")
        outer, inner = Axis(f"{name}h_", PAIR, "one"), Axis(f"{name}g_", PAIR, "one")
        value = Binary("*", _component(left, Name(outer.name)), _component(right, Name(inner.name)))
        axes = (outer, *self.axes(own), inner)
        made, product = self.summed(Read(name, tuple(Name(axis.name) for axis in axes)), axes, (), value)
        if not is_product(made, product):
            return None
        cells = [
            [Read(name, (Number(spot[left]), *map(Name, own), Number(spot[right]))) for _, spot in terms]
            for terms in self.terms
        ]
        totals = [Binary(terms[1][0], one, two) for terms, (one, two) in zip(self.terms, cells, strict=True)]
        return self.put(made, product, totals)

    def fills(self, left: _Side, right: _Side) -> bool:
        """Whether components lie side by side along the columns, or columns serve rows, which pay for a copy."""
        indices, last = right.read.indices, self.own[-1]
        innermost = right.axis == len(indices) - 1 and last in expr.names(right.read)
        rows = {*self.own} & expr.names(left.read) - expr.names(right.read)
        return innermost and (bool(rows) or (len(indices) > 1 and indices[-2] == Name(last)))

    def by_rows(self, left: _Side, right: _Side) -> Program | None:
        """The program with a product of rows, whose terms are the components of left as they lie, by few numbers."""
        found, own, (one, _) = self.found, self.own, self.parts
        indices, target = left.read.indices, {*self.own}
        last = indices[-2] if left.axis == len(indices) - 1 and len(indices) > 1 else None
        letters = expr.names(right.read) & found.letters.keys()
        rows = target & expr.names(left.read) - letters
        if (
            not isinstance(last, Name)
            or last.id not in letters - target
            or not rows
            or letters & target - expr.names(left.read)
        ):
            return None
        name, sums = self.name("turned"), self.name("sums")
        outer, inner = Axis(f"{name}g_", PAIR, "one"), Axis(f"{name}h_", PAIR, "one")
        order = sorted(letters, key=lambda letter: (letter not in target, letter == last.id, one.letters.index(letter)))
        axes = (outer, *self.axes(order), inner)
        cell = Read(name, tuple(Name(axis.name) for axis in axes))
        values = [self.factor(terms, left, right, Name(inner.name)) for terms in self.terms]
        set_ = one.of(
            cell, "set", _either(Name(outer.name), *values), {**found.letters, outer.name: outer, inner.name: inner}
        )
        value = Binary("*", _component(left, Name(inner.name)), cell)
        whole = (*self.axes(own), outer)
        made, product = self.summed(Read(sums, (*map(Name, own), Name(outer.name))), whole, (inner,), value)
        made = dataclasses.replace(made, arrays={**made.arrays, name: Array(name, "between", axes)})
        made = dataclasses.replace(made, parts=made.instead(product, (set_, product)))
        if not is_product(made, product):
            return None
        return self.put(made, product, [Read(sums, (*map(Name, own), Number(at))) for at in range(2)])

    def factor(self, terms: Sequence[tuple[str, Mapping[_Side, int]]], left: _Side, right: _Side, number: Name) -> Expr:
        """What a component of left is multiplied by in a sum."""
        found: dict[int, Expr] = {}
        for sign, spot in terms:
            read = _component(right, Number(spot[right]))
            found[spot[left]] = read if sign == "+" else Unary("-", read)
        return _either(number, found[0], found[1])

    def name(self, word: str) -> str:
        return f"{word}_{self.parts[0].number}_{self.parts[1].number}_"

    def axes(self, letters: Iterable[str]) -> tuple[Axis, ...]:
        return tuple(dataclasses.replace(self.found.letters[letter], name=letter) for letter in letters)

    def summed(self, target: Read, axes: Sequence[Axis], more: Sequence[Axis], value: Expr) -> tuple[Program, Part]:
        """The program with a sum before both steps, and the sum."""
        found, (one, _) = self.found, self.parts
        letters = {**found.letters, **{x.name: x for x in (*axes, *more) if x.name not in found.letters}}
        product = one.of(target, "sum", value, letters)
        arrays = {**found.arrays, target.tensor: Array(target.tensor, "between", tuple(axes))}
        parts = found.instead(one, (product, one))
        return dataclasses.replace(found, letters=letters, arrays=arrays, parts=parts), product

    def put(self, made: Program, product: Part, totals: Sequence[Expr]) -> Program:
        """The program in which both steps put components together."""
        both = [*zip(self.parts, totals, strict=True)]
        targets = {part.target for part in self.parts}
        pieces = [part.of(part.target, "set", total) for part, total in both]
        alone = {part.target for part in made.parts if part.target.tensor == self.parts[0].target.tensor} == targets
        if not (alone and written_in_pieces(made, pieces)):
            pieces = [added_up(made, part, total) for part, total in both]
        for part, piece in zip(self.parts, pieces, strict=True):
            made = dataclasses.replace(made, parts=made.instead(part, [piece]))
        return made


def _either(number: Name, first: Expr, second: Expr) -> Expr:
    """One of two values, by a number."""
    return Call("select", (Binary("==", number, Number(0)), first, second))


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
