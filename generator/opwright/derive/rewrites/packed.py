"""Rewrites packed four-bit numbers, two per byte, as operations on bytes.

In: an operation whose tensors may be `packed`. Out: the same operation on bytes, s8 for s4 and u8 for u4: half as many
along that axis, even positions in the low bits. All later stages see bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from ...language import expr
from ...language.expr import Binary, Call, Expr, Name, Number, Read
from ...language.model import Op, Step, Tensor
from ...language.schema import Assignment, Located, Problems, place
from ...language.source import Problem, unknown

RULE = "packed"
BYTES = {"s4": "s8", "u4": "u8"}
LIMITS = {"s4": (-8, 7), "u4": (0, 15)}


def bytewise(op: Op, problems: Problems) -> Op:
    """The operation on bytes; records problems of tensors that cannot be packed."""
    packed = [tensor for tensor in op.tensors if tensor.packed is not None]
    found = [problem for tensor in packed for problem in _problems(op, tensor)]
    problems.extend(found)
    if found:
        return op
    for tensor in packed:
        extent = _halved(op, tensor)
        steps = _written(op, tensor, extent) if tensor in op.outputs else _read(op, tensor)
        op = _typed(steps, tensor, extent)
    return op


def _problems(op: Op, tensor: Tensor) -> Iterator[Problem]:
    at = place(tensor.packed, tensor.at)
    plain = {dim.symbol for dim in op.dims.values() if not dim.per_axis and not dim.run}
    yield from unknown(tensor.packed or "", tensor.dims, at, RULE, f"axis of '{tensor.name}'")
    if tensor.packed not in tensor.dims:
        return
    tree = tensor.dims[tensor.packed].tree
    if not op.stepped or not isinstance(tree, Name) or tree.id not in plain:
        yield Problem(at, RULE, "two numbers share a byte along an axis whose extent is a size of dims, in steps")
    touched = [r for a in _assignments(op) for r in (a.target, *expr.reads(a.value)) if r.tensor == tensor.name]
    if any(len(read.indices) != len(tensor.dims) for read in touched):
        yield Problem(at, RULE, f"every element of '{tensor.name}' has {len(tensor.dims)} indices")
    if tensor in op.outputs and all(a.target.tensor != tensor.name for a in _assignments(op)):
        yield Problem(at, RULE, f"no step assigns to '{tensor.name}'")
    elsewhere = {tensor.joined, *tensor.broadcast, *tensor.may_lack}
    roles = [a.name for a in op.attributes if tensor.name in (a.shape_of, a.order_of, a.dtype_of)]
    if tensor.packed in elsewhere or tensor.broadcast_as or roles or float(tensor.absent or 0) != 0:
        message = f"axis {tensor.packed} of '{tensor.name}' must be fixed: it is not joined, broadcast or"
        yield Problem(at, RULE, f"{message} omitted, no attribute gives shape, order or type, and `absent` is 0")
    words = sorted({row.get(tensor.name, "") for row in op.dtypes})
    if len(words) != 1 or words[0] not in BYTES:
        message = f"'{tensor.name}' is packed, so it is s4 in all rows of dtypes or u4 in all, not {', '.join(words)}"
        yield Problem(at, RULE, f"{message}; write one operation for each")
    if any(row.get("accumulate") == "s64" for row in op.dtypes):
        yield Problem(at, RULE, "packed numbers need rows that accumulate in f32 or f64")


def _halved(op: Op, tensor: Tensor) -> Located:
    """How many bytes the axis has: half its extent; rounded up if an earlier input determines the extent."""
    extent = tensor.dims[tensor.packed or ""]
    axis, size = list(tensor.dims).index(tensor.packed or ""), extent.tree
    before = op.inputs[: op.inputs.index(tensor)] if tensor in op.inputs else op.inputs
    known = any(e.tree == size for other in before if not other.packed for e in other.dims.values())
    ranges = {letter: located.tree for letter, located in op.semantics.ranges.items()}
    reads = [read for a in _assignments(op) for read in (a.target, *expr.reads(a.value)) if read.tensor == tensor.name]
    whole = all(isinstance(i, Name) and ranges.get(i.id) == size for i in (read.indices[axis] for read in reads))
    half = Binary("/", size, Number(2))
    if known and whole:
        return Located(Call("ceil", (half,)), f"ceil({extent.text} / 2)", extent.at)
    return Located(half, f"{extent.text} / 2", extent.at)


def _read(op: Op, tensor: Tensor) -> Op:
    """An input of bytes; every read of it extracts half of a byte."""
    axis = list(tensor.dims).index(tensor.packed or "")
    dtype = str(op.dtypes[0][tensor.name])

    def half(tree: Read) -> Expr:
        if tree.tensor != tensor.name:
            return tree
        place = tree.indices[axis]
        at = Call("floor", (Binary("/", place, Number(2)),), tree.column)
        byte = dataclasses.replace(tree, indices=(*tree.indices[:axis], at, *tree.indices[axis + 1 :]))
        even = Binary("==", Binary("%", place, Number(2)), Number(0))
        return Call("select", (even, _low(byte, dtype == "s4"), _sixteenth(byte)), tree.column)

    def changed(made: Assignment) -> Assignment:
        return dataclasses.replace(made, value=_reread(made.value, half))

    return _with_steps(op, [_changed(step, changed) for step in op.semantics.steps])


def _low(byte: Expr, signed: bool) -> Expr:
    """The number in the low bits of a byte."""
    shifted = Binary("+", byte, Number(8)) if signed else byte
    return Binary("-", byte, Binary("*", Number(16), _sixteenth(shifted)))


def _sixteenth(value: Expr) -> Expr:
    return Call("floor", (Binary("/", value, Number(16)),))


def _written(op: Op, tensor: Tensor, extent: Located) -> Op:
    """An output of bytes; the numbers are an intermediate that two steps pack."""
    axis = list(tensor.dims).index(tensor.packed or "")
    dtype = str(op.dtypes[0][tensor.name])
    numbers = _free(op, f"{tensor.name}_numbers")

    def renamed(tree: Read) -> Read:
        return dataclasses.replace(tree, tensor=numbers) if tree.tensor == tensor.name else tree

    def changed(made: Assignment) -> Assignment:
        return dataclasses.replace(made, target=renamed(made.target), value=_reread(made.value, renamed))

    first = next(a for a in _assignments(op) if a.target.tensor == tensor.name)
    letter = _free(op, "pair")
    here = dataclasses.replace(first.target, indices=_put(first.target.indices, axis, Name(letter)))
    low, high = LIMITS[dtype]
    made = []
    for odd in (0, 1):
        at: Expr = Binary("+", Binary("*", Number(2), Name(letter)), Number(odd))
        cell = Read(numbers, _put(first.target.indices, axis, at))
        near = Call("min", (Call("max", (Call("round", (cell,)), Number(low))), Number(high)))
        number: Expr = Call("select", (Binary("==", cell, cell), near, Number(0)))
        unsigned = Binary("-", number, Binary("*", Number(16), _sixteenth(number)))
        number = Binary("*", Number(16), number) if odd else unsigned
        assignment = dataclasses.replace(first, target=here, op="sum", value=number)
        made.append(Step(do=assignment, at=first.at))
    ranges = {**op.semantics.ranges, letter: extent}
    steps = [*(_changed(step, changed) for step in op.semantics.steps), *made]
    whole = dataclasses.replace(op, semantics=dataclasses.replace(op.semantics, ranges=ranges))
    return _with_steps(whole, steps)


def _put(indices: tuple[Expr, ...], axis: int, index: Expr) -> tuple[Expr, ...]:
    return (*indices[:axis], index, *indices[axis + 1 :])


def _typed(op: Op, tensor: Tensor, extent: Located) -> Op:
    """The tensor and the rows of an operation, in bytes."""
    dtype = str(op.dtypes[0][tensor.name])
    sentence = f"{tensor.summary or 'Packed.'} Two numbers of {dtype} share a byte along {tensor.packed},"
    dims = {axis: extent if axis == tensor.packed else e for axis, e in tensor.dims.items()}
    summary = f"{sentence} the one at an even position in its low bits."
    made = dataclasses.replace(tensor, dims=dims, packed=None, summary=summary)

    def put(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(made if other is tensor else other for other in tensors)

    rows = tuple({name: BYTES[word] if name == tensor.name else word for name, word in r.items()} for r in op.dtypes)
    return dataclasses.replace(op, inputs=put(op.inputs), outputs=put(op.outputs), dtypes=rows)


def _assignments(op: Op) -> Iterator[Assignment]:
    return (assignment for step in op.semantics.steps for assignment in step.assignments)


def _with_steps(op: Op, steps: list[Step]) -> Op:
    return dataclasses.replace(op, semantics=dataclasses.replace(op.semantics, steps=tuple(steps)))


def _changed(step: Step, change: Callable[[Assignment], Assignment]) -> Step:
    cases = {word: made if made is None else change(made) for word, made in step.cases.items()}
    return dataclasses.replace(step, do=None if step.do is None else change(step.do), cases=cases)


def _reread(tree: Expr, change: Callable[[Read], Expr]) -> Expr:
    """A value with its reads replaced by other expressions."""
    return expr.changed(tree, lambda node: change(node) if isinstance(node, Read) else None)


def _free(op: Op, wanted: str) -> str:
    """A name that is unused in the operation."""
    taken = {tensor.name for tensor in op.tensors} | {a.target.tensor for a in _assignments(op)}
    taken |= {a.name or "" for a in op.attributes} | {a.symbol or "" for a in op.attributes}
    taken |= {*op.semantics.ranges, *op.lets, *(dim.symbol for dim in op.dims.values())}
    folded = {name.lower() for name in taken}
    return next(name for name in (wanted, *(f"{wanted}{n}" for n in range(len(taken) + 1))) if name not in folded)
