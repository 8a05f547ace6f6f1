"""The quotients that kernels compute: one size by another, known to leave no remainder.

In: an operation. Out: the problems of those that are not.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...language import expr
from ...language.expr import Binary, Call, Expr, Name
from ...language.model import Op
from ...language.source import Mark, Problem
from ..algebra.conditions import divisible


def quotients(op: Op) -> Iterator[Problem]:
    """Kernels divide one size by another, which must be known to divide it; otherwise they would drop the remainder."""
    exact = divisible(op)
    for tree, at in _unchecked(op):
        for node in _exact(tree):
            if (node.left, node.right) not in exact:
                message = "a constraint must state that this quotient leaves no remainder, as in IC % G == 0 for IC / G"
                yield Problem(at.moved(node.column), "range-quotient", message)
    for tree, at in _sizes(op):
        for node in _exact(tree):
            if not isinstance(node.left, Name) or not isinstance(node.right, Name):
                message = "kernels divide one size by one other: write A * (B / G) for A * B / G, or name it in let"
                yield Problem(at.moved(node.column), "size-quotient", message)


Placed = tuple[Expr, Mark]


def divided(op: Op) -> Iterator[tuple[str, str]]:
    """The divisions in extents and indices: quotients that are exact in every legal call."""
    for tree, _ in _sizes(op):
        for node in _exact(tree):
            if isinstance(node.left, Name) and isinstance(node.right, Name):
                yield node.left.id, node.right.id


def _exact(tree: Expr) -> Iterator[Binary]:
    """The quotients of a tree that are not rounded."""
    if isinstance(tree, Binary) and tree.op == "/":
        yield tree
    rounded = isinstance(tree, Call) and tree.function in ("floor", "ceil")
    for child in expr.children(tree):
        for inner in expr.children(child) if rounded else (child,):
            yield from _exact(inner)


def _values(op: Op) -> list[Placed]:
    """What reduce and finish compute."""
    semantics = op.semantics
    finish = [(semantics.finish.tree, semantics.finish.at)] if semantics.finish else []
    return [(semantics.assignment.value, semantics.assignment.value_at), *finish]


def _ranges(op: Op) -> list[Placed]:
    return [(extent.tree, extent.at) for extent in op.semantics.ranges.values()]


def _unchecked(op: Op) -> Iterator[Placed]:
    """The integers of the semantics that validators do not compute, so that no call is refused for their remainder."""
    yield from _ranges(op)
    for guard in op.semantics.where:
        yield guard.tree, guard.at
    for tree, at in _values(op):
        yield from ((n, at) for n in expr.walk(tree) if isinstance(n, Call) and n.function == "prod")


def _sizes(op: Op) -> Iterator[Placed]:
    """The integers that kernels compute as polynomials: extents and indices."""
    yield from _ranges(op)
    target, at = op.semantics.assignment.target, op.semantics.assignment.at
    yield from ((index, at) for index in target.indices)
    for tree, at in _values(op):
        yield from ((index, at) for read in expr.reads(tree) for index in read.indices)
    for tensor in op.tensors:
        yield from ((extent.tree, extent.at) for extent in tensor.dims.values())
        for arrangement in tensor.arrangements.values():
            yield from (
                (located.tree, located.at) for located in (*arrangement.dims.values(), *arrangement.index.values())
            )
