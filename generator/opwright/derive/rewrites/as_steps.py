"""Rewrites a `reduce` as steps: the sums, the number of their terms if the store asks for it, then the store.

In: an operation. Out: the operation with steps instead of its `reduce` and `finish`, if steps can say the same; else
the operation itself. Calls, errors and names of kernels are the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ...language import expr
from ...language.expr import Binary, Call, Expr, Name, Number, Read, substitute
from ...language.model import Op, Step
from ...language.schema import Located
from ...language.spelling import spell
from ...memo import memoised
from ..program import INITIAL, kind_of_extent, program
from ..rules.missing_axes import of_steps

_FINISHES = frozenset({"min", "max", "prod"})  # the functions that both `finish` and steps have


@memoised
def as_steps(op: Op) -> Op:
    """The operation as kernels are made from it."""
    stated = any(tensor.shape_of for tensor in op.inputs) or any(one.shape_of for one in op.attributes)
    if op.stepped or stated:
        return op
    if {tensor.name for tensor in op.data_inputs} - _read(op):  # steps read each input
        return op
    made = in_steps(op, f"{op.output.name}_cells_", f"{op.output.name}_terms_")
    if made is None or any(of_steps(made)):
        return op
    target = (
        op.semantics.assignment.target
    )  # cells that terms are spread over are gathered: 4x40x30x31 f32 by 2 x 2 0.76
    walked = (program(made).covers(target.tensor, *place) for place in enumerate(target.indices))
    return made if _by_letters(op) or all(walked) else op


def in_steps(op: Op, cells: str, terms: str | None = None) -> Op | None:
    """An operation with `reduce` as one of steps; None if steps cannot say it.

    `cells` is the name of what is accumulated, if `finish` changes it; `terms`, that of the number of terms.
    """
    semantics = op.semantics
    reduce = semantics.assignment
    if op.classes or op.normal_form or any(tensor.arrangements for tensor in op.tensors):
        return None
    begins = float(semantics.init) == INITIAL[reduce.op]
    named = expr.names(reduce.target) | expr.names(reduce.value)
    if not named.union(*(expr.names(guard.tree) for guard in semantics.where)) >= semantics.ranges.keys():
        return None
    first = Step(do=reduce, where=semantics.where, at=reduce.at)
    steps: tuple[Step, ...] = (first,)
    if semantics.finish is not None or not begins:
        sums = Read(cells, reduce.target.indices)
        begun: Expr = sums
        if not begins:
            if reduce.op != "max" or terms is None:
                return None
            begun = Call("max", (sums, Number(float(semantics.init))))
        tree = semantics.finish.tree if semantics.finish is not None else reduce.target
        value = _finished(op, sums, begun, tree)
        if value is None or not _by_letters(op):
            return None
        steps = (dataclasses.replace(first, do=dataclasses.replace(reduce, target=sums)),)
        if "count" in expr.names(value):
            counted = _counted(op, terms) if terms is not None else None
            if counted is None:
                return None
            counting, count = counted
            steps, value = (*steps, *counting), expr.replaced(value, Name("count"), count)
        at = semantics.finish.at if semantics.finish is not None else reduce.at
        steps = (*steps, Step(do=dataclasses.replace(reduce, op="set", value=value, value_at=at), at=at))
    stepped = dataclasses.replace(semantics, steps=steps, reduce=None, finish=None, where=(), init="0")
    return dataclasses.replace(op, semantics=stepped)


def _counted(op: Op, terms: str) -> tuple[tuple[Step, ...], Expr]:
    """The steps that count terms, and the number of a cell's: counted along letters that conditions name."""
    semantics, reduce = op.semantics, op.semantics.assignment
    guards = [*semantics.where, *_bounds(op)]
    named = frozenset[str]().union(*(expr.names(guard.tree) for guard in guards))
    target = [index for index in reduce.target.indices if isinstance(index, Name)]
    rest = [letter for letter in semantics.ranges if letter not in named and Name(letter) not in target]
    number: Expr = Number(1)
    for extent in (semantics.ranges[letter].tree for letter in rest):
        cells = extent if kind_of_extent(op, extent) == "one" else Call("prod", (extent,))
        number = cells if number == Number(1) else Binary("*", number, cells)
    if not guards:
        return (), number
    cell = Read(terms, tuple(index for index in target if index.id in named))
    counted = dataclasses.replace(reduce, op="sum", target=cell, value=Number(1))
    return (Step(do=counted, where=tuple(dict.fromkeys(guards)), at=reduce.at),), cell if number == Number(
        1
    ) else Binary("*", cell, number)


def _bounds(op: Op) -> Iterator[Located]:
    """That each index which is no letter of its whole axis lies inside."""
    ranges, reduce = op.semantics.ranges, op.semantics.assignment
    for read in dict.fromkeys((reduce.target, *expr.reads(reduce.value))):
        for index, extent in zip(read.indices, op.tensor(read.tensor).dims.values(), strict=True):
            if not isinstance(index, Name) or index.id not in ranges or ranges[index.id].tree != extent.tree:
                for guard in (Binary(">=", index, Number(0)), Binary("<", index, extent.tree)):
                    yield Located(guard, spell(guard), reduce.at)


def _read(op: Op) -> frozenset[str]:
    """The tensors that `reduce` and `finish` read."""
    trees = [op.semantics.assignment.value, *([op.semantics.finish.tree] if op.semantics.finish is not None else [])]
    return frozenset(read.tensor for tree in trees for read in expr.reads(tree))


def _by_letters(op: Op) -> bool:
    """Whether each index of the accumulated cells is a letter."""
    semantics = op.semantics
    return all(
        isinstance(index, Name) and index.id in semantics.ranges for index in semantics.assignment.target.indices
    )


def _finished(op: Op, sums: Read, begun: Expr, tree: Expr) -> Expr | None:
    """`finish` by the letters of the target, with `begun` for each cell; None if steps cannot express it."""
    from .accumulating import renamed

    calls = [node for node in expr.walk(tree) if isinstance(node, Call)]
    if any(call.function not in _FINISHES for call in calls):
        return None
    cell = next(read for read in expr.reads(tree) if read.tensor == op.output.name)
    letters = {
        own.id: letter
        for own, letter in zip(cell.indices, sums.indices, strict=True)
        if isinstance(own, Name) and isinstance(letter, Name)
    }
    if len(letters) != len(cell.indices):
        return None
    return expr.replaced(renamed(substitute(tree, letters), op.output.name, sums.tensor), sums, begun)
