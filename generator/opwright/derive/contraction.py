"""Contractions: steps that sum products of two reads, found by the roles of letters.

In: a program. Out: the same program with products split into pairs, and the contraction of a step. Nothing here
knows how a contraction is computed, or an operation.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..language import expr
from ..language.expr import Binary, Expr, Name, Number, Read
from .program import Array, Formula, Part, Program
from .roles import COLUMNS, REDUCED, ROWS, roles
from .slopes import slope, without

MOST_FACTORS = 5  # maximum factors of a product that is split into pairs: all orders are tried


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

    An axis that no letter walks by itself has a slide.
    """

    target: Read
    left: Read
    right: Read
    roles: Mapping[str, str]
    slides: tuple[Slide, ...] = ()

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
    one occurs in the target and in exactly one of the two reads.
    """
    assignment, value = part.formulas[0].assignment, part.formulas[0].value
    first = next(other for other in found.parts if other.target.tensor == part.target.tensor)
    if part.by is not None or part.where or assignment.op != "sum" or first is not part:
        return None
    if not isinstance(value, Binary) or value.op != "*" or found.arrays[part.target.tensor].role != "between":
        return None
    left, right, target = value.left, value.right, assignment.target
    if not isinstance(left, Read) or not isinstance(right, Read) or {left.tensor, right.tensor} & found.integers:
        return None
    told = roles(target, (left, right), part.letters)
    if all(_walked(found, read) for read in (target, left, right)):
        return Contraction(target, left, right, told) if _contracts(told) else None
    slides = _slides(found, {"target": target, "left": left, "right": right})
    summed = any(role.endswith(REDUCED) for role in told.values())
    return Contraction(target, left, right, told, slides) if slides and summed else None


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


def _walked(found: Program, read: Read) -> bool:
    """Whether distinct letters walk the whole of each axis."""
    axes = found.arrays[read.tensor].axes
    pairs = [(number, index) for number, index in enumerate(read.indices) if axes[number].kind != "ones"]
    letters = [found.walks(read.tensor, number, index) for number, index in pairs]
    return None not in letters and len({*letters}) == len(letters)


def paired(found: Program) -> Program:
    """The program with sums of longer products as contractions of pairs, with an intermediate for each pair.

    A factor that is not a read but depends on letters becomes an intermediate, too; other factors are applied at the
    end.
    """
    arrays, parts = dict(found.arrays), list[Part]()
    for part in found.parts:
        parts += _Split(found, part).steps(arrays) or [part]
    return Program(found.letters, arrays, tuple(parts)) if len(parts) > len(found.parts) else found


class _Split:
    """A step that is split into several."""

    def __init__(self, found: Program, part: Part) -> None:
        self.found, self.part = found, part
        self.made: list[Part] = []
        self.arrays: dict[str, Array] = {}

    def steps(self, arrays: dict[str, Array]) -> list[Part]:
        """The resulting steps, whose arrays are added to `arrays`; none if it is not split."""
        part = self.part
        if part.by is not None or part.where or part.operator != "sum" or part.target.tensor in self.found.integers:
            return []
        if not all(_walked(self.found, read) for read in (part.target, *part.reads)):
            return []
        factors = list(_factors(part.formulas[0].value))
        scales = [factor for factor in factors if not self.letters(factor)]
        operands = [self.operand(factor) for factor in factors if self.letters(factor)]
        if not 2 <= len(operands) <= MOST_FACTORS or len(operands) + len(scales) + len(self.made) == 2:
            return []
        orders = [order for order in itertools.permutations(operands) if self.contracts(order)]
        if not orders:
            return []
        self.take_pairs(min(orders, key=self.cost), scales)
        arrays |= self.arrays
        return self.made

    def letters(self, tree: Expr) -> tuple[str, ...]:
        """The letters of an expression in the order of the step's."""
        names = expr.names(tree)
        return tuple(letter for letter in self.part.letters if letter in names)

    def operand(self, factor: Expr) -> Read:
        """A factor as a read, of a new array if it is not one."""
        if isinstance(factor, Read):
            return factor
        cells = self.cells(f"factor_{self.part.number}_{len(self.made)}_", self.letters(factor))
        self.add(cells, "set", factor)
        return cells

    def cells(self, name: str, letters: Sequence[str]) -> Read:
        """An element of a new array whose axes letters walk."""
        axes = (dataclasses.replace(self.found.letters[letter], name=letter) for letter in letters)
        self.arrays[name] = Array(name, "between", tuple(axes))
        return Read(name, tuple(map(Name, letters)))

    def pairs(self, order: Sequence[Read]) -> Iterator[tuple[Expr, Expr, tuple[str, ...]]]:
        """Both sides of each pair, and the letters that are left after it."""
        left: Expr = order[0]
        for number, right in enumerate(order[1:], 1):
            later = frozenset(self.letters(self.part.target)).union(*map(self.letters, order[number + 1 :]))
            both = Binary("*", left, right)
            kept = tuple(letter for letter in self.letters(both) if letter in later)
            yield left, right, kept
            left = Read("", tuple(map(Name, kept)))

    def contracts(self, order: Sequence[Read]) -> bool:
        """Whether each pair is a contraction."""
        for left, right, kept in self.pairs(order):
            assert isinstance(left, Read)
            assert isinstance(right, Read)
            letters = self.letters(Binary("*", left, right))
            if not _contracts(roles(Read("", tuple(map(Name, kept))), (left, right), letters)):
                return False
        return True

    def cost(self, order: Sequence[Read]) -> tuple[int, ...]:
        """The numbers of letters that the pairs run over, in descending order."""
        return tuple(
            sorted((len(self.letters(Binary("*", left, right))) for left, right, _ in self.pairs(order)), reverse=True)
        )

    def take_pairs(self, order: Sequence[Read], scales: Sequence[Expr]) -> None:
        left: Expr = order[0]
        kept = [letters for _, _, letters in self.pairs(order)]
        for number, right in enumerate(order[1:]):
            product = Binary("*", left, right)
            if number == len(order) - 2 and not scales:
                self.add(self.part.target, "sum", product)
                return
            left = self.cells(f"pair_{self.part.number}_{number}_", kept[number])
            self.add(left, "sum", product)
        for scale in scales:
            left = Binary("*", left, scale)
        self.add(self.part.target, "sum", left)

    def add(self, target: Read, operator: str, value: Expr) -> None:
        part = self.part
        assignment = dataclasses.replace(part.formulas[0].assignment, target=target, op=operator, value=value)
        names = expr.names(target) | expr.names(value)
        own = tuple(letter for letter in part.letters if letter in names)
        self.made.append(Part(part.number, (Formula("", assignment),), None, (), own, part.at))


def _factors(value: Expr) -> Iterator[Expr]:
    if isinstance(value, Binary) and value.op == "*":
        yield from _factors(value.left)
        yield from _factors(value.right)
    else:
        yield value


def _contracts(told: Mapping[str, str]) -> bool:
    return REDUCED in told.values() and bool({ROWS, COLUMNS} & {*told.values()})


def letters_of(read: Read) -> Sequence[str]:
    """The letter of each axis; '' for an axis of extent 1."""
    return tuple("" if index == Number(0) or not isinstance(index, Name) else index.id for index in read.indices)
