"""Rules of outputs with the shape of a broadcasting input: their declarations, and how steps index them.

In: an operation of steps. Out: problems, where the spec says them. parted.py rewrites such outputs for kernels.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...language import expr
from ...language.expr import Call, Name
from ...language.model import Op, Tensor
from ...language.schema import Assignment, place
from ...language.source import Mark, Problem, unknown
from ..program import program
from ..rewrites.parted import letters_of_all, summed_sizes, symbol_of

RULE = "broadcast-as"
MAX_INPUTS = 3  # inputs along one size: each doubles its parts


def declared(op: Op) -> Iterator[Problem]:
    """An output names a broadcasting input with the same axes."""
    inputs = {tensor.name: tensor for tensor in op.data_inputs}
    found = False
    for tensor in (*op.inputs, *op.outputs):
        if tensor.broadcast_as is None:
            continue
        at = place(tensor.broadcast_as, tensor.at)
        if tensor in op.inputs:
            yield Problem(at, RULE, f"'{tensor.name}' is an input; use `broadcast`; `broadcast_as` is for outputs")
            return
        found = True
        yield from unknown(tensor.broadcast_as, inputs, at, RULE, "input")
        if tensor.broadcast_as in inputs:
            yield from _alike(op, tensor, inputs[tensor.broadcast_as])
    named = all(tensor.broadcast_as in (None, *inputs) for tensor in op.outputs)
    for symbol, given in summed_sizes(op).items() if found and named else ():
        if len(given) > MAX_INPUTS:
            message = (
                f"outputs may have the shapes of {MAX_INPUTS} inputs along one size, and {len(given)} are named along"
            )
            yield Problem(given[MAX_INPUTS].at, RULE, f"{message} {symbol}; make them operations of their own")


def _alike(op: Op, tensor: Tensor, given: Tensor) -> Iterator[Problem]:
    at = place(tensor.broadcast_as, tensor.at)
    if not given.broadcast or given.joined:
        message = f"'{given.name}' never broadcasts; leave out `broadcast_as`, because the axes state the shape"
        yield Problem(at, RULE, message)
    elif any((getattr(tensor, key) != getattr(given, key)) for key in ("dims", "layout", "may_lack")):
        message = f"'{tensor.name}' has the shape of '{given.name}', so it has the same dims, layout and may_lack"
        yield Problem(at, RULE, message)
    elif any(tensor.name in (attribute.shape_of, attribute.order_of) for attribute in op.attributes):
        yield Problem(at, RULE, f"a list states or orders the axes of '{tensor.name}', so no input can")
    sizes = {dim.symbol for dim in op.dims.values()}
    for axis in given.broadcast:
        if axis in tensor.dims and symbol_of(tensor.dims[axis]) not in sizes:
            message = f"along axis {axis} an output can be summed if its extent is a size of dims"
            yield Problem(at, RULE, f"{message}; it is {tensor.dims[axis].text}")


def used(op: Op) -> Iterator[Problem]:
    """Steps add to such outputs, and index the summed axes by plain letters."""
    sizes = summed_sizes(op)
    outputs = {tensor.name for tensor in op.outputs if tensor.broadcast_as is not None}
    letters = {letter for letter, extent in op.semantics.ranges.items() if symbol_of(extent) in sizes}
    for step in op.semantics.steps:
        for guard in step.where:
            if found := sorted(expr.names(guard.tree) & letters):
                yield _loose(found[0], op, guard.at)
        for assignment in step.assignments:
            if assignment.target.tensor in outputs and assignment.op == "set":
                message = f"'=' would write a cell of '{assignment.target.tensor}' once for each that it stands for"
                yield Problem(assignment.at, RULE, f"{message}; sum them with +=")
            yield from _reached(op, assignment, letters)
            for read in (read for read in expr.reads(assignment.value) if read.tensor in outputs):
                if found := sorted(expr.names(read) & letters - letters_of_all(step)):
                    message = f"'{read.tensor}' is summed along {symbol_of(op.semantics.ranges[found[0]])}"
                    message += f", so all cases name '{found[0]}', or read an intermediate that holds '{read.tensor}'"
                    yield Problem(assignment.value_at.moved(read.column), RULE, message)
    for tensor in op.inputs:
        if tensor.joined in tensor.dims and symbol_of(tensor.dims[tensor.joined or ""]) in sizes:
            message = (
                f"outputs are summed along axis {tensor.joined} of '{tensor.name}', so no arrays are joined along it"
            )
            yield Problem(place(tensor.joined, tensor.at), RULE, message)
    for attribute in op.attributes:
        if attribute.per in sizes:
            message = f"outputs are summed along {attribute.per}, so '{attribute.name}' cannot have entries for it"
            yield Problem(attribute.at, RULE, f"{message}; make it an input")
    for tensor in op.tensors if sizes else ():
        for extent in tensor.dims.values():
            if isinstance(extent.tree, Call) and expr.names(extent.tree) & sizes.keys():
                message = f"{extent.text} stands for axes along which outputs are summed; use other extents"
                yield Problem(extent.at, RULE, message)


def _loose(letter: str, op: Op, at: Mark) -> Problem:
    symbol = symbol_of(op.semantics.ranges[letter])
    message = f"outputs are summed along {symbol}, so '{letter}' can only be an index by itself"
    return Problem(at, RULE, message)


def _reached(op: Op, assignment: Assignment, letters: set[str]) -> Iterator[Problem]:
    """Letters that occur elsewhere than alone in an index, and indices of their axes that are not letters."""
    sizes, arrays = summed_sizes(op), program(op).arrays
    reads = [assignment.target, *expr.reads(assignment.value)]
    for read in reads:
        at = assignment.value_at if read is not assignment.target else assignment.at
        for axis, index in zip(arrays[read.tensor].axes, read.indices, strict=True):
            along = isinstance(axis.extent, Name) and axis.extent.id in sizes
            if along and not (isinstance(index, Name) and index.id in letters):
                message = f"outputs are summed along axis {axis.name} of '{read.tensor}', so its index is a letter"
                yield Problem(at.moved(read.column), RULE, message)
            elif not isinstance(index, Name) and (found := sorted(expr.names(index) & letters)):
                yield _loose(found[0], op, at.moved(read.column))
    inside = expr.names_outside_indices(assignment.value)
    if found := sorted(inside & letters):
        yield _loose(found[0], op, assignment.value_at)
