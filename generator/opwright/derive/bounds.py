"""Bounds of the index arithmetic of an operation, as expressions of a call's sizes.

In: an operation. Out: one tree per index of its semantics, made of `+` and `*` (a division stays a division), whose
value bounds everything that a kernel computes on the way to that index. The interpreter evaluates these trees and
the generated validators print them. Symbols stand for magnitudes: evaluate the trees over absolute values.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..language import expr
from ..language.expr import Binary, Call, Expr, Name, Number, Read, Unary, substitute
from ..language.model import Op, Tensor
from ..language.source import Problem, SpecInvalid
from .algebra.poly import NotPolynomial

# The maximum legal value of such a tree: the sum of two indices then fits in int64.
LIMIT = 2**62


def index_of(tensor: Tensor, read: Read, arrangement: str) -> dict[str, Expr]:
    """The index on each axis of a tensor, in the letters of the read."""
    if not tensor.arrangements:
        return dict(zip(tensor.dims, read.indices, strict=True))
    letters = dict(zip(tensor.view, read.indices, strict=True))
    return {axis: substitute(index.tree, letters) for axis, index in tensor.arrangements[arrangement].index.items()}


def magnitude(tree: Expr, extents: Mapping[str, Expr]) -> Expr:
    """A bound of `|tree|`: letters at their extents, every minus a plus."""
    if isinstance(tree, Number) and isinstance(tree.value, int):
        return tree
    if isinstance(tree, Name):
        return extents.get(tree.id, tree)
    if isinstance(tree, Unary) and tree.op == "-":
        return magnitude(tree.operand, extents)
    if isinstance(tree, Binary) and tree.op in "+-*":
        left, right = magnitude(tree.left, extents), magnitude(tree.right, extents)
        return Binary("+" if tree.op == "-" else tree.op, left, right)
    if isinstance(tree, Binary) and tree.op == "/":
        above = magnitude(tree.left, extents)
        quotient = Binary("/", above, tree.right)
        return quotient if above == tree.left else Call("ceil", (quotient,))
    raise NotPolynomial("an index or extent may only use + - * and exact /")


def index_magnitudes(op: Op) -> tuple[tuple[str, Expr], ...]:
    """The name of each index (`dst.X`), and the tree that must stay within LIMIT, per spatial axis."""
    semantics = op.semantics
    reduced = (semantics.assignment.target, *expr.reads(semantics.assignment.value))
    finished = expr.reads(semantics.finish.tree) if semantics.finish else ()
    ranges = {letter: extent.tree for letter, extent in semantics.ranges.items()}
    others = tuple(read for read in finished if read.tensor != op.output.name)
    cells = {letter: extent for read in finished for letter, extent in formals(op, read).items()}
    found: dict[Expr, str] = {}
    try:
        for reads, letters in ((reduced, ranges), (others, cells)):
            extents = {letter: magnitude(extent, {}) for letter, extent in letters.items()}
            for read in reads:
                for name, tree in _reaches(op.tensor(read.tensor), read, extents):
                    found.setdefault(tree, name)
    except NotPolynomial as error:
        raise SpecInvalid([Problem(semantics.assignment.at, "semantics-index", str(error))]) from None
    return tuple((name, tree) for tree, name in found.items())


def formals(op: Op, read: Read) -> dict[str, Expr]:
    """The letters with which `finish` indexes the output, each with its extent."""
    if read.tensor != op.output.name:
        return {}
    extents = [extent.tree for extent in op.output.dims.values()]
    pairs = zip(read.indices, extents, strict=True)
    return {index.id: extent for index, extent in pairs if isinstance(index, Name)}


def _reaches(tensor: Tensor, read: Read, extents: Mapping[str, Expr]) -> list[tuple[str, Expr]]:
    return [
        (f"{tensor.name}.{axis}", Binary("+", magnitude(index, extents), magnitude(dims[axis].tree, {})))
        for arrangement, dims in tensor.dims_by_arrangement.items()
        for axis, index in index_of(tensor, read, arrangement).items()
    ]
