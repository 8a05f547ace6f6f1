"""The data of the derivation: shares of gradients, and the resulting statements.

In: pieces of a program. Out: dataclasses. A `Share` is the contribution of one read of a forward step to the gradient
of the array that it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...language import expr
from ...language.expr import Binary, Expr, Number, Read, Unary
from ...language.schema import Located
from ...language.source import Mark
from ...language.spelling import spell
from ..algebra.inside import never_negative
from ..program import Axis, Program
from ..rewrites.accumulating import loose_axes
from .terms import Sum

# What the names of gradients begin with: the first of these that leaves all names of the gradient's spec distinct.
PREFIXES = ("diff_", "grad_", "adjoint_")


class Underivable(Exception):  # noqa: N818  # named for what it says
    """Why an operation has no derived gradient."""


def origin(name: str) -> str:
    """The array that a gradient is of, by the gradient's name."""
    return name.partition("_")[2]


@dataclass(frozen=True)
class Need:
    """An element that must be in bounds for a term to count: its indices, and the axes on which they may not be."""

    indices: tuple[Expr, ...]
    axes: tuple[Axis, ...]

    @property
    def names(self) -> frozenset[str]:
        return frozenset[str]().union(*map(expr.names, self.indices))


@dataclass(frozen=True)
class Share:
    """A term of the gradient of `target`, for all values of `letters`; one per word if an attribute selects."""

    target: Read
    cases: Mapping[str, Sum]
    by: str | None
    letters: frozenset[str]
    where: tuple[Expr, ...] = ()
    needs: frozenset[Need] = frozenset()

    @property
    def value(self) -> Sum:
        """The value of a share without an attribute."""
        (only,) = self.cases.values()
        return only

    @property
    def guarded(self) -> bool:
        return bool(self.where or self.needs)

    @property
    def guard_names(self) -> frozenset[str]:
        found = frozenset[str]().union(*map(expr.names, self.where))
        return found.union(*(need.names for need in self.needs))


@dataclass(frozen=True)
class Statement:
    """A step of the gradient."""

    target: Read
    op: str
    cases: Mapping[str, Expr]
    by: str | None = None
    where: tuple[Expr, ...] = ()

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(read.tensor for value in self.cases.values() for read in expr.reads(value))

    @property
    def names(self) -> frozenset[str]:
        trees = (self.target, *self.cases.values(), *self.where)
        return frozenset[str]().union(*map(expr.names, trees))


@dataclass
class Gradient:
    """The program of a gradient: recomputed forward steps, its statements, and the inputs with the gradient 0."""

    of: tuple[str, ...]
    outputs: tuple[str, ...]  # outputs of the forward operation, whose gradients it takes
    prefix: str  # of the names of gradients
    parts: tuple[int, ...]
    statements: tuple[Statement, ...]
    reused: frozenset[str]  # outputs of the forward operation that it takes
    without: tuple[str, ...] = field(default=())

    def diff(self, name: str) -> str:
        """The name of the gradient of an array."""
        return self.prefix + name


def plain(found: Program, read: Read) -> tuple[str, ...] | None:
    """The distinct letters that walk all of an array, one per axis; None if an index is anything else."""
    letters = []
    for number, (axis, index) in enumerate(zip(found.arrays[read.tensor].axes, read.indices, strict=True)):
        if axis.kind == "ones" or (index == Number(0) and axis.extent == Number(1)):
            continue
        letter = found.walks(read.tensor, number, index)
        if letter is None:
            return None
        letters.append(letter)
    return tuple(letters) if len(set(letters)) == len(letters) else None


def located(tree: Expr) -> Located:
    """A tree as an expression of a spec that no file has."""
    return Located(tree, spell(tree), Mark())


def letters_of(tree: Expr, found: Program) -> frozenset[str]:
    return expr.names(tree) & found.letters.keys()


def extent_of(found: Program, letter: str) -> Expr:
    """The number of values of a letter, as an expression."""
    axis = found.letters[letter]
    return expr.Call("prod", (axis.extent,)) if axis.kind != "one" else axis.extent


def needs_of(found: Program, reads: Iterable[Read]) -> list[Need]:
    """The elements among those that steps read or write that may be out of bounds."""
    needs = []
    for read in reads:
        axes = found.arrays[read.tensor].axes
        for number in loose_axes(found, read):
            if read.indices[number] != Number(0) or axes[number].extent != Number(1):
                needs.append(Need((read.indices[number],), (axes[number],)))
    return needs


def inside(found: Program, need: Need) -> list[Expr]:
    """The conditions under which an element exists."""
    (index,), (axis,) = need.indices, need.axes
    extent = expr.Call("prod", (axis.extent,)) if axis.kind == "run" else axis.extent
    below = Binary("<", index, extent)
    extents = {letter.name: letter.extent for letter in found.letters.values()}
    less = any(isinstance(node, (Unary, Binary)) and node.op == "-" for node in expr.walk(index))
    negative = less or not never_negative(index, found.sizes, extents)
    return [Binary(">=", index, Number(0)), below] if negative else [below]
