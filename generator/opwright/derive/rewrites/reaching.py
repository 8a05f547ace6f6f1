"""Sums of products of cells that may lie outside their array become products of copies, in which such cells are 0.

In: a program. Out: the program in which `y[t, e] += x[t - 1, d] * w[d, e]` is a copy of the rows of x, a product of it,
and 0 for the cells of y that have no such row: 0 times infinity is NaN. Where a summed letter moves the index, other
factors are 0, too. The neighbours of 8x128 rows of 96 by 96x100 f32 take 0.29 of the time of loops, bf16 0.1 (Xeon with
AMX, gcc 12.2, one thread).
Windows whose weights each cell has of its own, as `x[c, h + p - 1] * f[o, c, p, h]`, are products of a copy of x with
zeros around it, and of one of f: 8 images of 8x16x16 with 3x3 weights of 8 to 8 channels f32 take 0.54 of the time of
loops, bf16 0.35, 16 rows of 65x32 with 5 weights of 32 to 32 channels 0.29 and 0.25, but one image of 28x28 1.3 and 1.4
(AMD Zen 4, gcc 12.2, one thread).
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Iterable
from fractions import Fraction

from ...language import expr
from ...language.expr import Binary, Call, Expr, Name, Number, Read
from ..algebra.poly import ONE, NotPolynomial, Poly, affine, rational
from ..algebra.slopes import minus, plus, spelled
from ..contraction import contraction, letters_of, walked
from ..program import Array, Axis, Part, Program
from ..roles import BATCH, WINDOW
from .accumulating import loose_axes
from .lone_sums import as_they_lie, factors_of, product_of
from .pairing import is_product


def reaching(found: Program) -> Program:
    """The program with such copies."""
    for part in found.parts:
        plain = part.operator == "sum" and not (part.by or part.where or part.unless_empty)
        loose = plain and any(loose_axes(found, read) for read in part.reads)
        if (
            loose
            and part.target.tensor not in found.integers
            and walked(found, part.target)
            and not (is_product(found, part) and not _own_weights(found, part))
        ):
            found = _Reaching(found, part).program() or found
    return found


class _Reaching:
    """A sum of products of which some factors may lie outside."""

    def __init__(self, found: Program, part: Part) -> None:
        self.found, self.part = found, part
        self.inside = dict[str, list[Expr]]()  # by letter, the conditions on it
        self.windows = dict[frozenset[str], list[Expr]]()  # by the letters of a window
        self.arrays = dict(found.arrays)
        self.letters = dict(found.letters)
        self.copies: list[Part] = []

    def program(self) -> Program | None:
        """The program; None if weights lack letters of a window, or its sum is no product that uses cells often."""
        factors = list(factors_of(self.part.formulas[0].value))
        if len(factors) < 2 or not all(map(self.conditions, self.part.reads)):
            return None
        cells = {letter for letter in letters_of(self.part.target) if letter}
        summed = [letter for letter in self.inside if letter not in cells]
        if any(sum(letter in expr.names(factor) for factor in factors) < 2 for letter in summed):
            return None
        if any(sum(some <= expr.names(factor) for factor in factors) < 2 for some in self.windows):
            return None
        copies = [copy for factor in factors if (copy := self.copied(factor, summed)) is not None]
        if len(copies) < len(factors):
            return None
        product = self.part.of(self.part.target, "sum", product_of(copies))
        outer = [one for letter in self.inside if letter in cells for one in self.inside[letter]]
        outer += [self.some(one) for one in summed if any(one not in expr.names(factor) for factor in factors)]
        steps = self.chosen(product, outer) if outer else [*self.copies, product]
        made = dataclasses.replace(
            self.found, letters=self.letters, arrays=self.arrays, parts=tuple(self.placed(steps))
        )
        return made if is_product(made, steps[len(self.copies)]) else None

    def conditions(self, read: Read) -> bool:
        """Whether letters alone move each index that may lie outside, whose conditions are noted."""
        for number in loose_axes(self.found, read):
            index, along = read.indices[number], self.found.arrays[read.tensor].axes[number]
            letters = [letter for letter in self.found.letters if letter in expr.names(index)]
            kinds = {along.kind, *(self.found.letters[letter].kind for letter in letters)}
            if not letters or expr.reads(index) or kinds != {"one"}:
                return False
            inside = Binary("and", Binary(">=", index, Number(0)), Binary("<", index, along.extent))
            if len(letters) == 1:
                self.inside.setdefault(letters[0], []).append(inside)
            else:
                self.windows.setdefault(frozenset(letters), []).append(inside)
        return True

    def copied(self, factor: Expr, summed: Iterable[str]) -> Expr | None:
        """A factor, or a copy of what it is at all values of its letters; None of windows that lie otherwise."""
        outside = any(loose_axes(self.found, read) for read in expr.reads(factor))
        guards = [one for letter in summed if letter in expr.names(factor) for one in self.inside[letter]]
        if any(_several(self.found, index) for read in expr.reads(factor) for index in read.indices):
            return self.framed(factor) if isinstance(factor, Read) and not guards else None
        guards += [one for some, tests in self.windows.items() if some <= expr.names(factor) for one in tests]
        if not (outside or guards):
            return factor
        name = f"reached_{self.part.number}_{len(self.copies)}_"
        letters = [letter for letter in self.part.letters if letter in expr.names(factor)]
        cells = self.cells(name, as_they_lie(letters, factor))
        self.copies.append(self.part.of(cells, "set", _chosen(guards, factor)))
        return cells

    def framed(self, read: Read) -> Expr | None:
        """A copy of an array with zeros around it, where windows leave it."""
        letters, loose = dict(self.found.letters), loose_axes(self.found, read)
        axes, cells, tests, places = list[Axis](), list[Expr](), list[Expr](), list[Expr]()
        for number, (axis, index) in enumerate(zip(self.found.arrays[read.tensor].axes, read.indices, strict=True)):
            name, first, extent = f"frame_{self.part.number}_{len(self.copies)}_{number}_", Poly.number(0), axis.extent
            if number in loose:
                try:
                    found = affine(index, letters, rational)
                    first, steps = found.offset, found.coefficients
                    reach = [factor * (rational(letters[one].extent) - ONE) for one, factor in steps]
                    extent = spelled(functools.reduce(operator.add, reach, ONE))
                except NotPolynomial:
                    return None
                if not all(isinstance(factor.constant, int | Fraction) and factor.constant > 0 for _, factor in steps):
                    return None
            axes.append(Axis(name, extent, axis.kind))
            place = plus(Name(name), spelled(first))
            tests += [Binary(">=", place, Number(0)), Binary("<", place, axis.extent)] if number in loose else []
            places.append(place)
            cells.append(minus(index, spelled(first)))
        self.letters |= {axis.name: axis for axis in axes}
        name = f"frame_{self.part.number}_{len(self.copies)}_"
        self.arrays[name] = Array(name, "between", tuple(axes))
        target = Read(name, tuple(Name(axis.name) for axis in axes))
        value = _chosen(tests, Read(read.tensor, tuple(places)))
        self.copies.append(self.part.of(target, "set", value, [axis.name for axis in axes]))
        return Read(name, tuple(cells))

    def cells(self, name: str, letters: Iterable[str]) -> Read:
        axes = tuple(dataclasses.replace(self.found.letters[letter], name=letter) for letter in letters)
        self.arrays[name] = Array(name, "between", axes)
        return Read(name, tuple(Name(axis.name) for axis in axes))

    def some(self, letter: str) -> Expr:
        """Whether a summed letter has any terms: other factors than its own multiply its sum, also if it has none."""
        there = self.cells(f"some_{self.part.number}_{len(self.copies)}_", ())
        self.copies.append(self.part.of(there, "max", _chosen(self.inside[letter], Number(1)), (letter,)))
        return Binary(">", there, Number(0))

    def chosen(self, product: Part, outer: list[Expr]) -> list[Part]:
        """The steps with a product of all cells, of which some are taken."""
        target, letters = self.part.target, [letter for letter in letters_of(self.part.target) if letter]
        whole = self.cells(f"reached_{self.part.number}_", letters)
        first = self.found.first_writer(target.tensor) is self.part
        last = self.part.of(target, "set" if first else "sum", _chosen(outer, whole))
        return [*self.copies, product.of(whole, "sum", product.formulas[0].value), last]

    def placed(self, steps: list[Part]) -> Iterable[Part]:
        """All steps; those in place of the sum, but the last, go before others that write its target, if they may."""
        parts, at = [*self.found.parts], self.found.parts.index(self.part)
        before = parts.index(self.found.first_writer(self.part.target.tensor))
        written = {part.target.tensor for part in parts[before:at]}
        if written & {read.tensor for read in self.part.reads}:
            before = at
        return (*parts[:before], *steps[:-1], *parts[before:at], steps[-1], *parts[at + 1 :])


def _own_weights(found: Program, part: Part) -> bool:
    """Whether both factors have the letter of cells that windows move along, which no engine of windows computes.

    Bytes stay as they are: 8 images of 8x16x16 with 3x3 weights of 8 to 8 channels of each cell take 1.4 of their time.
    """
    product = contraction(found, part)
    several = product is not None and f"{WINDOW} {BATCH}" in product.roles.values()
    return several and not {read.tensor for read in part.reads} <= found.bytes


def _several(found: Program, index: Expr) -> bool:
    """Whether several letters move an index."""
    return len(expr.names(index) & found.letters.keys()) > 1


def _chosen(guards: list[Expr], value: Expr) -> Expr:
    """A value where some conditions hold, else 0."""
    if not guards:
        return value
    whole = functools.reduce(lambda one, other: Binary("and", one, other), dict.fromkeys(guards))
    return Call("select", (whole, value, Number(0)))
