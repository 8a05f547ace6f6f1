"""Rewrites a `reduce` that is a contraction as steps: the sums, then the store.

In: an operation. Out: the operation with steps instead of its `reduce` and `finish` if these sum a product of
elements by letters that walk whole axes; else the operation itself. Calls, errors and names of kernels are the same.
"""

from __future__ import annotations

import dataclasses

from ...language import expr
from ...language.expr import Call, Expr, Name, Read
from ...language.model import Op, Step
from ...memo import memoised
from ..access import substitute
from ..program import INITIAL

_FINISHES = frozenset({"min", "max"})  # the functions that both `finish` and steps have


@memoised
def as_steps(op: Op) -> Op:
    """The operation as kernels are made from it."""
    if op.stepped or op.normal_form is not None or not _plain(op):
        return op
    made = in_steps(op, f"{op.output.name}_cells_")
    if made is None:
        return op
    from ..phases import staged  # many modules, not imported for a library without sums of products

    return made if any(phase.contraction for phase in staged(made).phases) else op


def in_steps(op: Op, cells: str) -> Op | None:
    """An operation with `reduce` as one of steps, whether or not it is a contraction; None if steps cannot say it.

    `cells` is the name of what is accumulated, if `finish` changes it.
    """
    semantics = op.semantics
    reduce = semantics.assignment
    if op.classes or op.normal_form or any(tensor.arrangements for tensor in op.tensors):
        return None
    if float(semantics.init) != INITIAL[reduce.op]:
        return None
    first = Step(do=reduce, where=semantics.where, at=reduce.at)
    steps: tuple[Step, ...] = (first,)
    if semantics.finish is not None:
        sums = Read(cells, reduce.target.indices)
        value = _finished(op, sums, semantics.finish.tree)
        if value is None or not _by_letters(op):
            return None
        last = dataclasses.replace(reduce, op="set", value=value, value_at=semantics.finish.at)
        first = dataclasses.replace(first, do=dataclasses.replace(reduce, target=sums))
        steps = (first, Step(do=last, at=semantics.finish.at))
    stepped = dataclasses.replace(semantics, steps=steps, reduce=None, finish=None, where=(), init="0")
    return dataclasses.replace(op, semantics=stepped)


def _plain(op: Op) -> bool:
    """Whether steps can express everything in a `reduce`."""
    semantics = op.semantics
    if semantics.reduce is None or semantics.reduce.op != "sum" or semantics.where or float(semantics.init) != 0:
        return False
    if op.classes or op.layout_attributes or any(tensor.shape_of or tensor.arrangements for tensor in op.tensors):
        return False
    return _by_letters(op)


def _by_letters(op: Op) -> bool:
    """Whether each index of the accumulated cells is a letter."""
    semantics = op.semantics
    return all(
        isinstance(index, Name) and index.id in semantics.ranges for index in semantics.assignment.target.indices
    )


def _finished(op: Op, sums: Read, tree: Expr) -> Expr | None:
    """`finish` by the letters of the target; None if steps cannot express it."""
    from .accumulating import renamed

    calls = [node for node in expr.walk(tree) if isinstance(node, Call)]
    if "count" in expr.names(tree) or any(call.function not in _FINISHES for call in calls):
        return None
    cell = next(read for read in expr.reads(tree) if read.tensor == op.output.name)
    letters = {
        own.id: letter
        for own, letter in zip(cell.indices, sums.indices, strict=True)
        if isinstance(own, Name) and isinstance(letter, Name)
    }
    return (
        renamed(substitute(tree, letters), op.output.name, sums.tensor) if len(letters) == len(cell.indices) else None
    )
