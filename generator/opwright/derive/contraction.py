"""Contractions: steps that sum products of two reads, found by the roles of letters.

In: a program and a step. Out: the contraction of the step. Nothing here knows how a contraction is computed, or an
operation.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..language import expr
from ..language.expr import Binary, Call, Expr, Name, Number, Read
from .algebra.inside import never_negative
from .algebra.slopes import ONE, minus, negated, plus, slope, times, without
from .program import Part, Program
from .roles import COLUMNS, REDUCED, ROWS, WINDOW, roles

ENOUGH = 16  # terms of which vectors are made
PRODUCTS, SQUARES, DISTANCES = "", "squares", "distances"  # of a pair of elements; of both last, of their difference


@dataclass(frozen=True)
class Slide:
    """An index that is a sum of multiples of letters."""

    access: str  # target, left, right
    axis: int  # its number there
    factors: tuple[tuple[str, Expr], ...]
    offset: Expr  # the index if all letters are 0


@dataclass(frozen=True)
class Contraction:
    """A step as a sum of products: each access with the letter that walks each of its axes, and the letters' roles.

    An axis that no letter walks by itself has a slide. Zeros are subtracted from the elements of each read, which are
    then bytes. `term` is what is summed of each pair of elements.
    """

    target: Read
    left: Read
    right: Read
    roles: Mapping[str, str]
    slides: tuple[Slide, ...] = ()
    zeros: tuple[Expr, Expr] = (Number(0), Number(0))
    term: str = PRODUCTS

    @property
    def has_zeros(self) -> bool:
        return self.zeros != (Number(0), Number(0))

    @property
    def dense(self) -> bool:
        """Whether each element of both reads is used several times; other products are bound by memory."""
        return bool(self.slides) or {ROWS, COLUMNS} <= {*self.roles.values()}

    @property
    def reduced(self) -> tuple[str, ...]:
        """The summed letters."""
        return tuple(letter for letter, role in self.roles.items() if role == REDUCED)


def contraction(found: Program, part: Part) -> Contraction | None:
    """The contraction of a step; None if it is not one.

    It initialises an intermediate; letters walk whole axes, alone or as windows; some letter is reduced, and another
    one occurs in the target and in exactly one of the two reads. A window of the target reduces its letters.
    """
    assignment, value = part.formulas[0].assignment, part.formulas[0].value
    first = found.first_writer(part.target.tensor)
    if part.by is not None or part.where or assignment.op != "sum" or first is not part:
        return None
    if not isinstance(value, Binary) or value.op != "*" or found.arrays[part.target.tensor].role != "between":
        return None
    target, one, other = assignment.target, element(found, value.left), element(found, value.right)
    if one is None or other is None:
        return None
    (left, x), (right, y) = one, other
    if {left.tensor, right.tensor} & found.integers:
        return None
    roles_found = roles(target, (left, right), part.letters)
    if all(walked(found, read) for read in (target, left, right)):
        return Contraction(target, left, right, roles_found, (), (x, y)) if contracts(roles_found) else None
    slides = _slides(found, {"target": target, "left": left, "right": right})
    if not slides:
        return _of_views(found, Contraction(target, left, right, roles_found, (), (x, y)))
    if _is_short(found, slides, (target, left, right), roles_found):
        return None
    summed = any(role.endswith(REDUCED) for role in roles_found.values()) or any(s.access == "target" for s in slides)
    return Contraction(target, left, right, roles_found, slides, (x, y)) if summed else None


def _of_views(found: Program, made: Contraction) -> Contraction | None:
    """A contraction of elements that lie in an array by strides of their own, `x[t, h * 64 + d]` or `x[2 * t, 0]`.

    Each element of both is used often, else loops read them as well. A call in which some lie outside takes loops.
    """
    views = {name: view(found, read) for name, read in (("left", made.left), ("right", made.right))}
    by_letter = {letter: role.removeprefix(f"{WINDOW} ") for letter, role in made.roles.items()}
    if (
        None in views.values()
        or not walked(found, made.target)
        or not {ROWS, COLUMNS, REDUCED} <= {*by_letter.values()}
    ):
        return None
    slides = (Slide(name, *one) for name, some in views.items() for one in some or ())
    return dataclasses.replace(made, roles=by_letter, slides=tuple(slides))


def view(found: Program, read: Read) -> tuple[tuple[int, tuple[tuple[str, Expr], ...], Expr], ...] | None:
    """The axes that no letter walks as a whole: their numbers, by how much letters move there, and the rest.

    None if letters do not move by multiples, if one moves several axes, or if some element is outside in every call.
    """
    used: list[str] = []
    axes = list[tuple[int, tuple[tuple[str, Expr], ...], Expr]]()
    for number, index in enumerate(read.indices):
        along, letter = found.arrays[read.tensor].axes[number], found.walks(read.tensor, number, index)
        if along.kind == "ones":
            continue
        moved = {one: slope(index, one) for one in found.letters if one in expr.names(index)}
        used += moved
        if letter is not None:
            continue
        rest = index
        for one in moved:
            rest = without(rest, one)
        factors = tuple((one, factor) for one, factor in moved.items() if factor is not None)
        trees = [*(factor for _, factor in factors), rest]
        alike = along.kind == "one" and all(found.letters[one].kind == "one" for one in moved)
        loose = any(expr.reads(tree) or expr.names(tree) & {*found.letters} for tree in trees)
        if not alike or loose or len(factors) < len(moved) or leaves(found, along.extent, factors, rest):
            return None
        axes.append((number, factors, rest))
    return tuple(axes) if len({*used}) == len(used) else None


def spread(found: Program, read: Read) -> bool:
    """Whether letters reach each element of a view once, as far as its sizes tell."""
    axes = view(found, read)
    orders = (itertools.permutations(factors) for _, factors, _ in axes or ())
    return axes is not None and all(any(_counts(found, order) for order in some) for some in orders)


def _counts(found: Program, factors: Sequence[tuple[str, Expr]]) -> bool:
    """Whether each letter moves by at least as many elements as those before it reach."""
    reached: Expr = ONE
    for number, (letter, factor) in enumerate(factors):
        if number and not never_negative(minus(factor, reached), found.sizes, {}):
            return False
        reached = plus(reached, times(factor, minus(found.letters[letter].extent, ONE)))
    return True


def leaves(found: Program, extent: Expr, factors: Sequence[tuple[str, Expr]], rest: Expr) -> bool:
    """Whether an index is outside for some values of its letters in every call that has them."""
    low, high = rest, minus(rest, extent)
    for letter, factor in factors:
        if isinstance(factor, Number):
            end = times(factor, minus(found.letters[letter].extent, ONE))
            low, high = (low, plus(high, end)) if factor.value > 0 else (plus(low, end), high)
    return any(never_negative(tree, found.sizes, {}) for tree in (minus(negated(low), ONE), high))


def over_pairs(found: Program, part: Part) -> Contraction | None:
    """The contraction of a step, or its sum of squares or absolute values of differences, which the same engines make.

    These sums are worth a phase if each row meets many others, and if all that read them do so cell by cell, or several
    do: a least distance alone needs no array of all pairs.
    """
    product = contraction(found, part)
    assignment, target = part.formulas[0].assignment, part.target
    if product is not None or part.by is not None or part.where or assignment.op != "sum":
        return product
    if found.first_writer(target.tensor) is not part or found.arrays[target.tensor].role != "between":
        return None
    difference, term = _difference(part.formulas[0].value)
    if difference is None or not all(walked(found, read) for read in (target, *expr.reads(difference))):
        return None
    left, right = difference.left, difference.right
    if not isinstance(left, Read) or not isinstance(right, Read) or {left.tensor, right.tensor} & found.integers:
        return None
    roles_found = roles(target, (left, right), part.letters)
    readers = [other for other in found.parts if target.tensor in {read.tensor for read in other.reads}]
    cells = all(other.operator == "set" and {*other.letters} == expr.names(target) for other in readers)
    made = Contraction(target, left, right, roles_found, term=term)
    return made if (cells or len(readers) > 1) and made.dense and made.reduced else None


def _difference(value: Expr) -> tuple[Binary | None, str]:
    """The difference of which a value is the square or the absolute value, and which of both."""
    inner, term = value, SQUARES
    if isinstance(value, Binary) and value.op == "*" and value.left == value.right:
        inner = value.left
    elif isinstance(value, Call) and value.function == "pow" and value.arguments[1] == Number(2):
        inner = value.arguments[0]
    elif isinstance(value, Call) and value.function == "abs":
        inner, term = value.arguments[0], DISTANCES
    found = inner if inner is not value and isinstance(inner, Binary) and inner.op == "-" else None
    return found, term


def element(found: Program, tree: Expr) -> tuple[Read, Expr] | None:
    """A read, and the zero point subtracted from it: only from bytes, and the same for all elements."""
    if isinstance(tree, Read):
        return tree, Number(0)
    if not isinstance(tree, Binary) or tree.op not in ("+", "-") or not isinstance(tree.left, Read):
        return None
    alike = not expr.reads(tree.right) and not expr.names(tree.right) & {*found.letters}
    zero = tree.right if tree.op == "-" else negated(tree.right)
    return (tree.left, zero) if alike and tree.left.tensor in found.bytes else None


def _slides(found: Program, accesses: Mapping[str, Read]) -> tuple[Slide, ...]:
    """The windows of a product, each of two letters that walk axes of other accesses; none if an index is neither."""
    alone = {name: _alone(found, read) for name, read in accesses.items()}
    slides: list[Slide] = []
    for name, read in accesses.items():
        letters = [letter for letter in alone[name] if letter]
        for axis, letter in enumerate(alone[name]):
            if letter != "":
                continue
            slide = _slide(found, name, axis, read)
            others = [letter for other in alone if other != name for letter in alone[other]]
            if slide is None or not all(letter in others for letter, _ in slide.factors):
                return ()
            letters += [letter for letter, _ in slide.factors]
            slides.append(slide)
        if len({*letters}) != len(letters):
            return ()
    return tuple(slides)


def _is_short(found: Program, slides: Sequence[Slide], reads: Sequence[Read], by_letter: Mapping[str, str]) -> bool:
    """Whether windows that share no cells have a single sum of a few terms each, as pairs of cells do: loops need no

    copy of them. 2 x 2 cells by 2 of 4x17x130x98 f32 take 0.12 of the time (EPYC Zen 5, gcc 12.2).
    """
    accesses = dict(zip(("target", "left", "right"), reads, strict=True))
    apart = all(
        found.digits(accesses[slide.access].tensor, slide.axis, accesses[slide.access].indices[slide.axis])
        for slide in slides
    )
    terms = [found.letters[letter].extent for letter, role in by_letter.items() if role.endswith(REDUCED)]
    few = all(isinstance(extent, Number) for extent in terms)
    cells = math.prod(extent.value for extent in terms if isinstance(extent, Number))
    return bool(slides) and apart and few and cells < ENOUGH and not any(map(_is_column, by_letter.values()))


def _is_column(role: str) -> bool:
    return role.endswith(COLUMNS)


def _alone(found: Program, read: Read) -> list[str | None]:
    """For each axis the letter that walks it alone; None for an axis of extent 1, '' if there is none."""
    axes = found.arrays[read.tensor].axes
    return [
        None if axes[number].kind == "ones" else found.walks(read.tensor, number, index) or ""
        for number, index in enumerate(read.indices)
    ]


def _slide(found: Program, name: str, axis: int, read: Read) -> Slide | None:
    """An index of two letters; None if it is not one, or if the letters do not match the kind of the axis."""
    index, along = read.indices[axis], found.arrays[read.tensor].axes[axis]
    letters = [letter for letter in found.letters if letter in expr.names(index)]
    factors = [slope(index, letter) for letter in letters]
    offset = index
    for letter in letters:
        offset = without(offset, letter)
    alike = all(found.letters[letter].kind == along.kind for letter in letters) and along.kind in ("one", "spatial")
    rest = [*(factor for factor in factors if factor is not None), offset]
    if len(letters) != 2 or not alike or None in factors or any(expr.names(tree) & {*letters} for tree in rest):
        return None
    moved = tuple((letter, factor) for letter, factor in zip(letters, factors, strict=True) if factor is not None)
    return Slide(name, axis, moved, offset)


def walked(found: Program, read: Read) -> bool:
    """Whether distinct letters walk the whole of each axis."""
    axes = found.arrays[read.tensor].axes
    pairs = [(number, index) for number, index in enumerate(read.indices) if axes[number].kind != "ones"]
    letters = [found.walks(read.tensor, number, index) for number, index in pairs]
    return None not in letters and len({*letters}) == len(letters)


def contracts(by_letter: Mapping[str, str]) -> bool:
    """Whether letters of these roles are those of a contraction."""
    return REDUCED in by_letter.values() and bool({ROWS, COLUMNS} & {*by_letter.values()})


def letters_of(read: Read) -> Sequence[str]:
    """The letter of each axis; '' for an axis of extent 1."""
    return tuple("" if index == Number(0) or not isinstance(index, Name) else index.id for index in read.indices)
