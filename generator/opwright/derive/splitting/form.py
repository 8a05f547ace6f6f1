"""An operation's semantics as plain statements over arrays, whether it says `steps` or `reduce`.

In: an operation, an arrangement for each tensor that has several, and symbols that are known to be 1. Out: a `Form`,
in which every index is that of an axis, and extents are polynomials, so that equal ones compare equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from ...language import expr
from ...language.expr import Expr, Name, Number, Read, substitute
from ...language.model import Op, Tensor
from ..algebra.poly import NotPolynomial, Poly, polynomial
from ..program import program

Extent = Poly | Expr  # a polynomial where it is one


@dataclass(frozen=True)
class Statement:
    """One assignment; `text` is how the spec writes it."""

    operator: str
    target: Read
    value: Expr
    where: tuple[Expr, ...]
    text: str
    walked: frozenset[str] = frozenset()  # letters that it walks without a mention: each value is a term

    @property
    def accesses(self) -> tuple[Read, ...]:
        return (self.target, *self.reads)

    @property
    def reads(self) -> tuple[Read, ...]:
        return tuple(dict.fromkeys(expr.reads(self.value)))

    @property
    def names(self) -> frozenset[str]:
        trees = (self.target, self.value, *self.where)
        return self.walked.union(*map(expr.names, trees))


@dataclass(frozen=True)
class Form:
    """Letters with their extents, arrays with the names and extents of their axes, and statements in order."""

    letters: Mapping[str, Extent]
    arrays: Mapping[str, tuple[tuple[str, Extent], ...]]
    statements: tuple[Statement, ...]
    arrangements: Mapping[str, str]
    ones: frozenset[str]

    def axes(self, read: Read) -> Iterator[tuple[str, Extent, Expr]]:
        """The axes of an element with their extents and indices."""
        for (axis, extent), index in zip(self.arrays[read.tensor], read.indices, strict=True):
            yield axis, extent, index


def extent_of(tree: Expr) -> Extent:
    try:
        return polynomial(tree)
    except NotPolynomial:
        return tree


def forms(op: Op, ones: frozenset[str] = frozenset()) -> Iterator[Form]:
    """The operation in each combination of its tensors' arrangements."""
    several = [tensor for tensor in op.tensors if len(tensor.arrangements) > 1]
    for names in product(*(tensor.arrangements for tensor in several)):
        yield form(op, dict(zip((tensor.name for tensor in several), names)), ones)


def form(op: Op, arrangements: Mapping[str, str], ones: frozenset[str]) -> Form:
    """The operation in one arrangement of each tensor."""
    known: dict[str, Expr] = {symbol: Number(1) for symbol in ones}
    single = {
        letter
        for letter, extent in op.semantics.ranges.items()
        if isinstance(extent.tree, Name) and extent.tree.id in ones
    }
    known |= {letter: Number(0) for letter in single}
    letters = {
        letter: extent_of(substitute(extent.tree, known))
        for letter, extent in op.semantics.ranges.items()
        if letter not in single
    }
    arrays = {}
    for tensor in op.tensors:
        dims = tensor.dims_by_arrangement[arrangements.get(tensor.name, next(iter(tensor.dims_by_arrangement)))]
        arrays[tensor.name] = tuple((axis, extent_of(substitute(e.tree, known))) for axis, e in dims.items())
    if op.stepped:
        for name, array in program(op).arrays.items():
            if array.role not in ("input", "output"):
                arrays[name] = tuple((axis.name, extent_of(substitute(axis.extent, known))) for axis in array.axes)
        statements = list(_steps(op))
    else:
        statements, finishing = _reduce(op)
        letters |= {letter: extent for letter, (_, extent) in zip(finishing, arrays[op.output.name])}
        arrays[CELLS] = arrays[op.output.name]
    made = [_placed(op, arrangements, known, statement) for statement in statements]
    return Form(letters, arrays, tuple(made), arrangements, ones)


CELLS = "cells of the output"


def _steps(op: Op) -> Iterator[Statement]:
    for part in program(op).parts:
        for formula in part.formulas:
            assignment, guards = formula.assignment, tuple(guard.tree for guard in part.where)
            yield Statement(assignment.op, assignment.target, assignment.value, guards, assignment.text)


def _reduce(op: Op) -> tuple[list[Statement], tuple[str, ...]]:
    """The sums and what is stored of them, and the letters of the latter, which are names of its own."""
    semantics, assignment = op.semantics, op.semantics.assignment
    guards = tuple(guard.tree for guard in semantics.where)
    walked = frozenset(semantics.ranges)
    cells = Read(CELLS, assignment.target.indices)
    sums = Statement(assignment.op, cells, assignment.value, guards, assignment.text, walked)
    axes = next(iter(op.output.dims_by_arrangement.values()))
    letters = tuple(f"cell's {axis}" for axis in axes)
    cell = Read(op.output.name, tuple(map(Name, letters)))
    value: Expr = Read(CELLS, cell.indices)
    text = assignment.text
    if semantics.finish is not None:
        own = next(read for read in expr.reads(semantics.finish.tree) if read.tensor == op.output.name)
        renamed = {index.id: Name(letter) for index, letter in zip(own.indices, letters) if isinstance(index, Name)}
        value = expr.replaced(substitute(semantics.finish.tree, renamed), substitute(own, renamed), value)
        text = semantics.finish.text
    return [sums, Statement("set", cell, value, (), text)], letters


def _placed(op: Op, arrangements: Mapping[str, str], known: Mapping[str, Expr], statement: Statement) -> Statement:
    """A statement with symbols that are 1 put in, and the index of every axis in place of view letters."""
    viewed = {tensor.name: tensor for tensor in op.data_inputs if tensor.arrangements}

    def at(tensor: Tensor, read: Read, name: str) -> Read:
        view = dict(zip(tensor.view, read.indices))
        index = tensor.arrangements[arrangements.get(tensor.name, next(iter(tensor.arrangements)))].index
        return Read(name, tuple(substitute(located.tree, view) for located in index.values()))

    def every(tree: Expr) -> Expr:
        found = substitute(tree, known)
        for read in expr.reads(found):
            if read.tensor in viewed:
                found = expr.replaced(found, read, at(viewed[read.tensor], read, read.tensor))
        return found

    target = substitute(statement.target, known)
    assert isinstance(target, Read)
    if target.tensor == CELLS and op.output.arrangements:
        target = at(op.output, target, CELLS)
    value = every(statement.value)
    guards, walked = tuple(map(every, statement.where)), statement.walked - known.keys()
    return Statement(statement.operator, target, value, guards, statement.text, walked)
