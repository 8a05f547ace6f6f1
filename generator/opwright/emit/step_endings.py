"""Steps that follow a reduction while its tile of lanes is in registers: what they read of it needs no memory.

In: a reduction of a phase whose tasks have blocks of lanes. Out: the steps that follow it so. They stand directly after
it, assign, read the sums at their own cell, and nobody else reads these.
"""

from __future__ import annotations

from ..derive.phases import Phase
from ..derive.program import Part
from ..language import expr


def following(phase: Phase, part: Part, private: frozenset[str], lane: str) -> tuple[Part, ...]:
    """The steps that may follow a reduction within its tiles; none if any step that reads its sums may not."""
    sums, parts = part.target.tensor, phase.parts
    if part.operator == "set" or part.by is not None or sums not in private or lane not in expr.names(part.target):
        return ()
    if [other for other in parts if other.target.tensor == sums] != [part]:
        return ()
    readers = tuple(other for other in parts if any(read.tensor == sums for read in other.reads))
    begin = parts.index(part) + 1
    if parts[begin : begin + len(readers)] != readers:
        return ()
    return readers if all(_follows(phase, part, reader) for reader in readers) else ()


def _follows(phase: Phase, part: Part, reader: Part) -> bool:
    cells = {read for read in reader.reads if read.tensor == part.target.tensor}
    alone = reader.operator == "set" and not reader.where and {*reader.letters} <= {*phase.own}
    return alone and cells == {part.target} and reader.target.tensor not in {read.tensor for read in reader.reads}
