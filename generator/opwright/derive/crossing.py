"""Rows that lie across lanes: their cells lie together along a letter of tasks, several of which turn them at once.

In: a phase, and the letter of its lanes. Out: the letter of tasks, and what is read along it.
"""

from __future__ import annotations

from ..language import expr
from ..language.expr import Name, Read
from ..language.model import Op
from .contraction import walked
from .lanes import stands_alone
from .phases import Phase
from .program import Program


def crossing(op: Op, found: Program, phase: Phase, lane: str) -> tuple[str, tuple[Read, ...]]:
    """The letter of tasks along which cells lie together in reads that lanes go through in strides, and those reads:

    rows of them are turned, for several tasks at once. '' if there is none.
    """
    part, own = phase.parts[0], phase.own
    if not stands_alone(found, phase.parts) or phase.finishes or phase.copies or lane not in own:
        return "", ()
    reads = [read for read in dict.fromkeys(part.reads) if read.indices and lane in expr.names(read)]
    across: dict[str, list[Read]] = {}
    for read in reads:
        last = read.indices[-1]
        whole = any(one.name == read.tensor and not (one.broadcast or one.optional) for one in op.inputs)
        if whole and walked(found, read) and isinstance(last, Name) and last.id in own and last.id != lane:
            across.setdefault(last.id, []).append(read)
    fitting = {  # all others are the same for those tasks, or lie as lanes do
        name: turned
        for name, turned in across.items()
        if all(read in turned or name not in expr.names(read) or read.indices[-1] == Name(lane) for read in reads)
    }
    most = max(fitting, key=lambda name: max(len(read.indices) for read in fitting[name]), default="")
    return most, tuple(fitting.get(most, ()))
