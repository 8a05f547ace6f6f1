"""Merges two letters that walk an axis together, in the steps of a phase, into one that walks it alone.

In: a program and the steps of one of its phases, some of which read or write `x[..., g * E + k, ...]`. Out: the same
steps with a letter `c` for the whole axis: sums for each `g` are computed for each `c` first, and then for each `g`;
values for each `g` are broadcast over `c` before. If the axis is contiguous, lanes can then use all of it, however few
values `k` has, as with the channels of a group normalisation. Of `beside`: the same for `x[..., g, k]`, where calls
decide whether rows of `k` follow one another, so that the two axes are one; and for windows, `x[..., g + q, k]`, of
which cell `c + q * K` is then read.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from ...language import expr
from ...language.expr import Binary, Expr, Name, Number, Read
from ..algebra.slopes import plus, slope, times, without
from ..program import Array, Axis, Part, Program

FEW = 256  # cells of rows in every call that are too short, or not whole vectors


class _Separate(Exception):  # noqa: N818  # named for what it says
    """The letters occur separately, where no letter of the whole axis can replace them."""


def merged(found: Program, parts: Sequence[Part]) -> tuple[Program, str] | None:
    """The program of these steps and the letter of the axis; None if no two letters walk one and nothing else."""
    for part in parts:
        for read in (part.target, *part.reads):
            for number, index in enumerate(read.indices):
                pair = found.digits(read.tensor, number, index) or ()
                if len(pair) == 2:
                    return _with_one(found, parts, pair, index, found.arrays[read.tensor].axes[number])
    return None


def _with_one(
    found: Program, parts: Sequence[Part], pair: Sequence[str], index: Expr, axis: Axis
) -> tuple[Program, str] | None:
    try:
        return _Merging(found, (pair[0], pair[1]), index, axis).program(parts)
    except _Separate:
        return None


def beside(found: Program, parts: Sequence[Part]) -> tuple[Program, str] | None:
    """The program of these steps with one letter for the last axes of arrays; None if that saves them nothing.

    It does where each sum along the last axis goes along others, too, such as pixels: what is left to add up for each
    value of the last but one is little. Group normalisation of 8x400 pixels of 8 groups of 12 f32 takes 0.35 of its
    time, bf16 0.15. And where cells are set one by one that are few along the last axis in every call, or that another
    array has along one axis: 16x256 maps of 7 x 7 f32 take 0.12 of their time, bf16 0.07 (Intel Xeon, gcc 12.2).
    """
    for read in dict.fromkeys(read for part in parts for read in part.reads):
        pair = read.indices[-2:]
        names = [index.id for index in pair if isinstance(index, Name)]
        if len(names) < 2 or not (_summed(parts, *names) or _set_alone(found, parts, names)):
            continue
        if (one := _of_one_axis(found, parts, pair, names)) is not None:
            made = _with_one(*one)
            return made and (beside(made[0], made[0].parts) or made)
    return _slid(found, parts)


def _slid(found: Program, parts: Sequence[Part]) -> tuple[Program, str] | None:
    """The same of windows whose cells have a last axis of their own, as pixels have channels.

    Means of windows of 3x3 of 8x57x61x24 f32 take 0.25 of their time, bf16 0.25, with padding 0.29 and 0.23, of 33
    channels 0.63 and 0.59, of 3 0.18 and 0.14 (AMD EPYC, Zen 4, gcc 12.2).
    """
    pair = max((part.target.indices for part in parts), key=len)[-2:]
    names = [index.id for index in pair if isinstance(index, Name)]
    reads = [read for part in parts for read in (part.target, *part.reads)]
    walked = [read for read in reads if {*names} & expr.names(read)]
    if len(names) < 2 or any(not {*names} <= expr.names(read) for read in walked):
        return None
    one = _of_one_axis(found, parts, pair, names) if any(read.indices[-2:] != pair for read in walked) else None
    return one and _with_one(*one)


def _summed(parts: Sequence[Part], outer: str, inner: str) -> bool:
    """Whether steps of most letters sum along the inner one for each value of the outer one, and along others then."""
    most = max(len(part.letters) for part in parts)
    sums = [part for part in parts if len(part.letters) == most and inner not in expr.names(part.target)]
    each = [part for part in sums if inner in part.letters and outer in expr.names(part.target)]
    return bool(each) and all({*part.letters} - expr.names(part.target) - {inner} for part in each)


def _set_alone(found: Program, parts: Sequence[Part], names: Sequence[str]) -> bool:
    """Whether steps set cells by themselves, of what has both letters or neither, and there are few along the inner

    one, or some array has both along one axis, or one step sets them of what cells share: 6336 x 5 x 6 f32 times 5 x 6
    take 0.24 of their time, bf16 0.16 (AMD EPYC, Zen 4, gcc 12.2).
    """
    reads = [read for part in parts for read in (part.target, *part.reads)]
    alike = all(len({*names} & expr.names(read)) != 1 for read in reads)
    alone = all(part.operator == "set" and {*part.letters} <= expr.names(part.target) for part in parts)
    few = _cells(found.letters[names[1]].extent) < FEW if names[1] in found.letters else False
    shared = len(parts) == 1 and any(not {*parts[0].letters} <= expr.names(read) for read in parts[0].reads)
    return alike and alone and (few or shared or any(_counted(found, read, names) for read in reads))


def _cells(extent: Expr) -> float:
    """How many cells an extent is in every call; infinitely many if that is not known."""
    if isinstance(extent, Binary) and extent.op == "*":
        return _cells(extent.left) * _cells(extent.right)
    return extent.value if isinstance(extent, Number) else math.inf


def _counted(found: Program, read: Read, names: Sequence[str]) -> bool:
    """Whether two letters walk the last axis of an array together."""
    last = len(read.indices) - 1
    return last >= 0 and found.digits(read.tensor, last, read.indices[last]) == (*names,)


def _of_one_axis(
    found: Program, parts: Sequence[Part], pair: Sequence[Expr], names: Sequence[str]
) -> tuple[Program, list[Part], Sequence[str], Expr, Axis] | None:
    """The program and the steps with one axis in place of two, the letters, and the index and extent of that axis; None

    if the letters do not walk whole axes, or if cells are made of others of their row, as of running products.
    """
    outer, inner = (found.letters.get(name) for name in names)
    if outer is None or inner is None or {outer.kind, inner.kind} != {"one"}:
        return None
    index = Binary("+", Binary("*", pair[0], inner.extent), pair[1])
    whole = Axis("", Binary("*", outer.extent, inner.extent), "one")
    arrays, made, written = dict(found.arrays), list(parts), {part.target.tensor for part in parts}
    for read in dict.fromkeys(read for part in parts for read in (part.target, *part.reads)):
        counted = _counted(found, read, names)
        shift = Number(0) if counted else _shift(found, read, names)
        if shift is None:
            if read.indices[-2:] == pair:
                return None
            continue
        if shift != Number(0) and read.tensor in written:
            return None
        axes, last = found.arrays[read.tensor].axes, len(read.indices) - 1
        kept = last if counted else last - 1
        extent = whole.extent if counted else Binary("*", axes[kept].extent, inner.extent)
        axis = dataclasses.replace(whole, name=axes[-1].name, extent=extent)
        arrays[read.tensor] = dataclasses.replace(found.arrays[read.tensor], axes=(*axes[:kept], axis))
        cell = Read(read.tensor, (*read.indices[:kept], plus(index, times(shift, inner.extent))), read.column)
        made = [part.replaced(read, cell).to(cell if part.target == read else part.target) for part in made]
    cells = [read for part in made for read in (part.target, *part.reads)]
    alike = all(len(read.indices) == len(arrays[read.tensor].axes) for read in cells)
    return (dataclasses.replace(found, arrays=arrays), made, names, index, whole) if alike else None


def _shift(found: Program, read: Read, names: Sequence[str]) -> Expr | None:
    """What is added to the outer letter along the last axis but one, if the inner one walks the last; None if that is

    not all that they do.
    """
    (outer, inner), last = names, len(read.indices) - 1
    if last < 1 or found.walks(read.tensor, last, read.indices[-1]) != inner:
        return None
    index, kind = read.indices[-2], found.arrays[read.tensor].axes[-2].kind
    others = {name for one in read.indices[:-2] for name in expr.names(one)} | {*expr.names(index)} - {outer}
    plain = kind == "one" and slope(index, outer) == Number(1) and others.isdisjoint(names)
    return without(index, outer) if plain else None


class _Merging:
    def __init__(self, found: Program, pair: tuple[str, str], index: Expr, axis: Axis) -> None:
        self.outer, self.inner = pair
        self.index, self.letter = index, f"{self.outer}_{self.inner}_"
        self.letters = {**found.letters, self.letter: Axis(self.letter, axis.extent, "one")}
        self.arrays = dict(found.arrays)
        self.found, self.made = found, list[Part]()
        self.spread: dict[Read, Read] = {}  # values for the outer letter, by the letter of the axis

    def program(self, parts: Sequence[Part]) -> tuple[Program, str]:
        for part in parts:
            self.spread = {a: b for a, b in self.spread.items() if a.tensor != part.target.tensor}
            if self.inner in part.letters:
                self.part(part)
            else:
                self.made.append(part)
        found = dataclasses.replace(
            self.found, letters=self.letters, arrays=self.arrays, parts=tuple(self.made), whole=self.found.integers
        )
        return found, self.letter

    def part(self, part: Part) -> None:
        """A step that walks the axis."""
        if part.where or (part.operator == "set" and self.inner not in expr.names(part.target)):
            raise _Separate
        target = self.cell(part.target)
        sums = None
        if self.outer in expr.names(target):  # for each value of the outer letter: first for each value of the axis
            sums, target = target, self.array(target, "of")
        formulas = tuple(formula.of(self.value(part, formula.value), target) for formula in part.formulas)
        names = expr.names(target).union(*(expr.names(formula.value) for formula in formulas))
        letters = tuple(letter for letter in self.letters if letter in names)
        self.made.append(dataclasses.replace(part, formulas=formulas, letters=letters))
        if sums is not None:
            self.made.append(part.of(sums, part.operator, self.whole(target), self.letters))

    def array(self, read: Read, word: str) -> Read:
        """A new array with the axes of another, with the letter of the axis instead of the outer one."""
        indices = [index.id for index in read.indices if isinstance(index, Name)]
        if len(indices) != len(read.indices) or indices.count(self.outer) != 1:
            raise _Separate
        names = [self.letter if name == self.outer else name for name in indices]
        same = [name for name in self.arrays if name.startswith(f"{read.tensor}_{word}_{self.letter}")]
        name = f"{read.tensor}_{word}_{self.letter}{f'{len(same)}_' if same else ''}"
        self.arrays[name] = Array(name, "between", tuple(self.letters[letter] for letter in names))
        return Read(name, tuple(map(Name, names)))

    def whole(self, read: Read) -> Read:
        """An element of a new array, by the two letters."""
        return Read(read.tensor, tuple(self.index if i == Name(self.letter) else i for i in read.indices))

    def cell(self, read: Read) -> Read:
        """An element indexed by the letter of the axis instead of the two."""
        indices = tuple(expr.replaced(index, self.index, Name(self.letter)) for index in read.indices)
        cell = Read(read.tensor, indices, read.column)
        if self.inner in expr.names(cell) or (len({*indices}) < len(indices) and self.letter in expr.names(cell)):
            raise _Separate
        return cell

    def value(self, part: Part, tree: Expr) -> Expr:
        """A value by the letter of the axis."""
        for read in dict.fromkeys(expr.reads(tree)):
            cell = self.cell(read)
            if self.outer in expr.names(cell):
                if cell not in self.spread:
                    made = self.array(cell, "for")
                    self.made.append(part.of(self.whole(made), "set", cell, self.letters))
                    self.spread[cell] = made
                cell = self.spread[cell]
            tree = expr.replaced(tree, read, cell)
        if expr.names(tree) & {self.outer, self.inner}:
            raise _Separate
        return tree
