"""Rows that lie across lanes: their cells lie together along a letter of tasks, several of which turn them at once.

In: a phase, and the letter of its lanes. Out: the letter of tasks, and what is read along it, forwards or backwards.
Where a spec puts all cells in one order, arrays of a call may still lie in others.
"""

from __future__ import annotations

from ..language import expr
from ..language.expr import Name, Number, Read
from ..language.model import Op
from .algebra.slopes import slope
from .lanes import stands_alone
from .phases import Phase
from .program import Program
from .rewrites.accumulating import loose_axes

TOGETHER = (Number(1), Number(-1))  # how far cells of neighbours lie apart


def crossing(op: Op, found: Program, phase: Phase, lane: str) -> tuple[str, tuple[Read, ...]]:
    """The letter of tasks along which cells lie together in reads that lanes go through in strides, and those reads:

    rows of them are turned, for several tasks at once. '' if there is none.
    """
    part, own = phase.parts[0], phase.own
    if not stands_alone(found, phase.parts) or phase.finishes or phase.copies or lane not in own:
        return "", ()
    if Name(lane) not in part.target.indices:
        return "", ()
    reads = [read for read in dict.fromkeys(part.reads) if read.indices and lane in expr.names(read)]
    across: dict[str, list[Read]] = {}
    for read in reads:
        whole = any(one.name == read.tensor and not (one.broadcast or one.optional) for one in op.inputs)
        if whole and (letter := _across(found, read, own, lane)):
            across.setdefault(letter, []).append(read)
    fitting = {  # all others are the same for those tasks, or lie as lanes do
        name: turned
        for name, turned in across.items()
        if all(read in turned or name not in expr.names(read) or _beside(read, lane) for read in reads)
    }
    if not fitting:
        return _of_views(op, found, phase, lane)
    most = max(fitting, key=lambda name: max(len(read.indices) for read in fitting[name]))
    return most, tuple(fitting[most])


def place(read: Read, letter: str) -> int:
    """Which index of a read has a letter; the last where none has it."""
    return next((number for number, index in enumerate(read.indices) if letter in expr.names(index)), -1)


def _of_views(op: Op, found: Program, phase: Phase, lane: str) -> tuple[str, tuple[Read, ...]]:
    """The letter and the reads where all arrays have the same axes, of which calls may pass some in another order.

    '' where one has other axes, and for one array, whose order that of the output follows. Sums of 784 x 768 cells, one
    side stored by columns, take 0.25 of the time of rows that are copied one by one, bf16 0.32; of 8x64x28x28, one side
    with channels last, 0.44 and 0.42 (Intel Xeon, Emerald Rapids, gcc 12.2).
    """
    part = phase.parts[0]
    target, reads = part.target, tuple(dict.fromkeys(part.reads))
    names = [index.id for index in target.indices if isinstance(index, Name)]
    plain = len(names) == len(target.indices) == len({*names}) > 1 and names[-1] == lane
    walked = {*names} == {*part.letters} == {*phase.own} and found.arrays[target.tensor].role == "output"
    inputs = {one.name for one in op.inputs if not (one.broadcast or one.optional or one.joined)}
    alike = all(read.indices == target.indices and read.tensor in inputs for read in reads)
    return (names[-2], reads) if plain and walked and alike and len(reads) > 1 else ("", ())


def _across(found: Program, read: Read, own: tuple[str, ...], lane: str) -> str:
    """The letter of tasks along which the cells of a read lie together, all of them inside their array; '' if none."""
    (*others, last), axis = read.indices, found.arrays[read.tensor].axes[-1]
    if axis.kind != "one" or loose_axes(found, read) or None in [slope(index, lane) for index in others]:
        return ""
    names = [name for name in found.letters if name in expr.names(last)]
    elsewhere = {name for index in others for name in expr.names(index)}
    plain = len(names) == 1 and names[0] in own and names[0] not in {lane, *elsewhere}
    return names[0] if plain and slope(last, names[0]) in TOGETHER else ""


def _beside(read: Read, lane: str) -> bool:
    return slope(read.indices[-1], lane) in TOGETHER
