"""Rewrites a `reduce` that is a contraction as steps: the sums, then the store.

In: an operation. Out: the operation with steps instead of its `reduce` and `finish` if these sum a product of
elements by letters that walk whole axes; else the operation itself. Calls, errors and names of kernels are the same.
"""

from __future__ import annotations

import dataclasses

from ..language import expr
from ..language.expr import Call, Expr, Name, Read
from ..language.model import Op, Step
from ..memo import memoised
from .access import substitute

_FINISHES = frozenset({"min", "max"})  # the functions that both `finish` and steps have


@memoised
def as_steps(op: Op) -> Op:
    """The operation as kernels are made from it."""
    if op.stepped or op.normal_form is not None or not _plain(op):
        return op
    from .phases import staged  # many modules, not imported for a library without sums of products

    semantics = op.semantics
    reduce = semantics.assignment
    steps: tuple[Step, ...] = (Step(do=reduce, at=reduce.at),)
    if semantics.finish is not None:
        sums = Read(f"{op.output.name}_cells_", reduce.target.indices)
        first = dataclasses.replace(reduce, target=sums)
        value = _finished(op, sums, semantics.finish.tree)
        if value is None:
            return op
        last = dataclasses.replace(reduce, op="set", value=value, value_at=semantics.finish.at)
        steps = (Step(do=first, at=reduce.at), Step(do=last, at=semantics.finish.at))
    made = dataclasses.replace(op, semantics=dataclasses.replace(semantics, steps=steps, reduce=None, finish=None))
    return made if any(phase.contraction for phase in staged(made).phases) else op


def _plain(op: Op) -> bool:
    """Whether steps can express everything in a `reduce`."""
    semantics = op.semantics
    if semantics.reduce is None or semantics.reduce.op != "sum" or semantics.where or float(semantics.init) != 0:
        return False
    if op.classes or op.layout_attributes or any(tensor.shape_of or tensor.arrangements for tensor in op.tensors):
        return False
    return all(isinstance(index, Name) and index.id in semantics.ranges for index in semantics.reduce.target.indices)


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
