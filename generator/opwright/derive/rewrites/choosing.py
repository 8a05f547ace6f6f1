"""Steps that choose between values by where a cell lies, of which steps of their own are made for some cells.

In: a program and such a step. Out: whether what it reads and writes leaves room for that; indices without bounds that
they do not meet there; the program with steps in its place. A step that reads an array where it writes stays as it is:
a call may overwrite that array.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ...language import expr
from ...language.expr import Binary, Call, Expr, Number, Read
from ...language.kinds import Kind
from ...language.model import Op
from ...language.types import symbol_kinds
from ..algebra import conditions
from ..algebra.inside import never_negative
from ..algebra.poly import NotPolynomial, rational
from ..algebra.slopes import minus, spelled
from ..program import Part, Program
from .accumulating import loose_axes


class Choice:
    """A step that chooses between values by where a cell lies."""

    def __init__(self, found: Program, part: Part, integers: frozenset[str]) -> None:
        self.found, self.part, self.integers = found, part, integers
        self.letters = dict(found.letters)

    def alone(self) -> bool:
        """Whether it sets an output from inputs, which no other step reads or writes."""
        part, arrays = self.part, self.found.arrays
        others = [other for other in self.found.parts if other is not part]
        used = {read.tensor for other in others for read in (other.target, *other.reads)}
        plain = part.operator == "set" and not (part.by or part.where or part.unless_empty)
        given = all(arrays[read.tensor].role in ("input", "list") for read in part.reads)
        given = given and all(read.indices != part.target.indices for read in part.reads)  # which it may overwrite
        target = part.target
        walked = all(self.found.walks(target.tensor, *pair) for pair in enumerate(target.indices))
        alone = plain and given and walked and arrays[target.tensor].role == "output"
        return alone and target.tensor not in used and len({*target.indices}) == len(target.indices)

    def least(self, tree: Expr) -> bool:
        """Whether an integer is never negative."""
        extents = {letter.name: letter.extent for letter in self.letters.values()}
        return never_negative(tree, self.found.sizes, extents)

    def where_there(self, reads: Iterable[Read], value: Expr) -> Expr | None:
        """A value, or 0 in calls in which some reads are not inside their arrays; None if these are not known."""
        for read in reads:
            for number in loose_axes(self.found, read):
                least = self.found.inside_from(read.tensor, number, read.indices[number])
                if not least:
                    return None
                extent = self.found.arrays[read.tensor].axes[number].extent
                value = Call("select", (Binary(">=", extent, Number(least)), value, Number(0)))
        return value

    def settled_read(self, node: Expr) -> Expr | None:
        if not isinstance(node, Read):
            return None
        return dataclasses.replace(node, indices=tuple(map(self.settled, node.indices)))

    def settled(self, index: Expr) -> Expr:
        """An index without bounds that it never meets."""
        if isinstance(index, Call) and index.function in ("min", "max"):
            kept = list(dict.fromkeys(map(self.settled, index.arguments)))
            for one in tuple(kept):
                least = (minus(one, other) if index.function == "min" else minus(other, one) for other in kept)
                if len(kept) > 1 and any(self.least(tree) for other, tree in zip(kept, least) if other != one):
                    kept.remove(one)
            return kept[0] if len(kept) == 1 else Call(index.function, tuple(kept))
        try:
            return spelled(rational(index))
        except NotPolynomial:
            parts = [self.settled(child) for child in expr.children(index)]
            return expr.with_children(index, parts) if parts else index

    def step(self, target: Read, value: Expr) -> Part:
        return self.part.of(target, self.part.operator, value, self.letters)

    def replaced(self, steps: Iterable[Part]) -> Program:
        """The program with other steps in place of this one."""
        parts = (new for one in self.found.parts for new in (steps if one is self.part else (one,)))
        return dataclasses.replace(self.found, letters=self.letters, parts=tuple(parts))


def opposite(tree: Expr) -> Expr:
    """The condition that holds where another does not, each comparison in it by itself."""
    if isinstance(tree, Binary) and tree.op in ("and", "or"):
        return Binary("or" if tree.op == "and" else "and", opposite(tree.left), opposite(tree.right))
    return conditions.opposite(tree)


def whole_numbers(op: Op) -> frozenset[str]:
    """The names of integers in the expressions of an operation."""
    return frozenset(name for name, kind in symbol_kinds(op).items() if kind == Kind("int"))
