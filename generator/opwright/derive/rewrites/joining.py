"""Merges two letters that walk an axis together, in the steps of a phase, into one that walks it alone.

In: a program and the steps of one of its phases, some of which read or write `x[..., g * E + k, ...]`. Out: the same
steps with a letter `c` for the whole axis: sums for each `g` are computed for each `c` first, and then for each `g`;
values for each `g` are broadcast over `c` before. If the axis is contiguous, lanes can then use all of it, however few
values `k` has, as with the channels of a group normalisation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ...language import expr
from ...language.expr import Expr, Name, Read
from ..program import Array, Axis, Formula, Part, Program


class _Separate(Exception):  # noqa: N818  # named for what it says
    """The letters occur separately, where no letter of the whole axis can replace them."""


def merged(found: Program, parts: Sequence[Part]) -> tuple[Program, str] | None:
    """The program of these steps and the letter of the axis; None if no two letters walk one and nothing else."""
    for part in parts:
        for read in (part.target, *part.reads):
            for number, index in enumerate(read.indices):
                pair = found.digits(read.tensor, number, index) or ()
                if len(pair) == 2:
                    axis = found.arrays[read.tensor].axes[number]
                    try:
                        return _Merging(found, (pair[0], pair[1]), index, axis).program(parts)
                    except _Separate:
                        return None
    return None


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
        formulas = tuple(
            dataclasses.replace(
                formula,
                assignment=dataclasses.replace(
                    formula.assignment, target=target, value=self.value(part, formula.value)
                ),
            )
            for formula in part.formulas
        )
        names = expr.names(target).union(*(expr.names(formula.value) for formula in formulas))
        letters = self.named(names)
        self.made.append(dataclasses.replace(part, formulas=formulas, letters=letters))
        if sums is not None:
            self.step(part, sums, part.operator, self.whole(target))

    def named(self, names: frozenset[str]) -> tuple[str, ...]:
        return tuple(letter for letter in self.letters if letter in names)

    def step(self, part: Part, target: Read, operator: str, value: Expr) -> None:
        first = part.formulas[0].assignment
        made = dataclasses.replace(first, target=target, op=operator, value=value)
        letters = self.named(expr.names(target) | expr.names(value))
        self.made.append(Part(part.number, (Formula("", made),), None, (), letters, part.at))

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
        indices = tuple(Name(self.letter) if index == self.index else index for index in read.indices)
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
                    self.step(part, self.whole(made), "set", cell)
                    self.spread[cell] = made
                cell = self.spread[cell]
            tree = expr.replaced(tree, read, cell)
        if expr.names(tree) & {self.outer, self.inner}:
            raise _Separate
        return tree
