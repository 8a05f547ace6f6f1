"""Sums of products of differences as sums of plain products, which an engine computes: exact in integers.

In: an operation whose sums are integers. Out: its program, with `(a[m, k] - x) * (b[k, n] - y)`, summed over k, as
the sum of `a * b`, less `x` times the sum of `b` and `y` times the sum of `a`, plus `x * y` for each k: zero points of
quantised products are taken off cell by cell.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import cast

from ...language import expr
from ...language.expr import Binary, Call, Expr, Name, Number, Read
from ...language.model import Op
from ..algebra import slopes
from ..contraction import contracts, element, walked
from ..program import Array, Part, Program, program
from ..roles import roles


def separated(op: Op) -> Program:
    """The program of an operation, with each such step as several: plain sums first, then the cells that they make."""
    found = program(op)
    if any(row["accumulate"] != "s64" for row in op.dtypes):
        return found
    arrays, parts = dict(found.arrays), list[Part]()
    for part in found.parts:
        parts += _Differences(found, part).steps(arrays) or [part]
    return dataclasses.replace(found, arrays=arrays, parts=tuple(parts)) if len(parts) > len(found.parts) else found


class _Differences:
    """A step that may sum a product of differences."""

    def __init__(self, found: Program, part: Part) -> None:
        self.found, self.part = found, part
        target = expr.names(part.target)
        self.reduced = [letter for letter in part.letters if letter not in target]
        self.kept = [letter for letter in part.letters if letter in target]

    def steps(self, arrays: dict[str, Array]) -> list[Part]:
        """The resulting steps, whose arrays are added to `arrays`; none if it stays as it is."""
        part, value = self.part, self.part.formulas[0].value
        if part.by is not None or part.where or part.operator != "sum" or not isinstance(value, Binary):
            return []
        if element(self.found, value.left) and element(self.found, value.right):
            return []  # the engine of bytes subtracts zero points
        left, right = self.difference(value.left), self.difference(value.right)
        if value.op != "*" or left is None or right is None or (left[1], right[1]) == (Number(0), Number(0)):
            return []
        (a, x), (b, y) = left, right
        if not all(walked(self.found, read) for read in (part.target, a, b)):
            return []
        if not contracts(roles(part.target, (a, b), part.letters)):
            return []
        made: list[Part] = []
        total: Expr = self.summed(made, arrays, "products", a, b)
        for zero, read, name in ((x, b, "right"), (y, a, "left")):
            if zero != Number(0):
                total = slopes.minus(total, slopes.times(zero, self.summed(made, arrays, name, read)))
        extents = [self.extent(letter) for letter in self.reduced]
        total = slopes.plus(total, functools.reduce(slopes.times, extents, slopes.times(x, y)))
        writers = [other for other in self.found.parts if other.target.tensor == part.target.tensor]
        return [*made, part.of(part.target, "set" if len(writers) == 1 else "sum", total)]

    def difference(self, tree: Expr) -> tuple[Read, Expr] | None:
        """An element that every summed letter walks, and what is taken off it, the same for all of them."""
        taken: Expr = Number(0)
        if isinstance(tree, Binary) and tree.op in ("+", "-") and isinstance(tree.left, Read):
            taken = tree.right if tree.op == "-" else slopes.negated(tree.right)
            tree = tree.left
        same = not expr.names(taken) & {*self.reduced}
        return (tree, taken) if isinstance(tree, Read) and same and expr.names(tree) >= {*self.reduced} else None

    def extent(self, letter: str) -> Expr:
        axis = self.found.letters[letter]
        return axis.extent if axis.kind == "one" else Call("prod", (axis.extent,))

    def summed(self, made: list[Part], arrays: dict[str, Array], name: str, *factors: Read) -> Read:
        """An element of a new array: the sums of a product over the summed letters."""
        value = functools.reduce(slopes.times, factors, cast(Expr, Number(1)))
        letters = [letter for letter in self.kept if letter in expr.names(value)]
        axes = (dataclasses.replace(self.found.letters[letter], name=letter) for letter in letters)
        array = Array(f"{name}_{self.part.number}_", "between", tuple(axes))
        arrays[array.name] = array
        cells = Read(array.name, tuple(map(Name, letters)))
        made.append(self.part.of(cells, "sum", value))
        return cells
