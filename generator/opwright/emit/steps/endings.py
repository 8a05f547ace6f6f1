"""Steps that follow a reduction while its tile of lanes is in registers: what they read of it needs no memory.

In: a reduction of a phase whose tasks have blocks of lanes. Out: the steps that follow it so. They stand directly after
it, assign, read the sums at their own cell, and nobody else reads these. Where an attribute chooses whether there are
sums, it chooses these steps, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ...derive.phases import Phase, Staged
from ...derive.program import Formula, Part
from ...language import expr


def cases(found: Staged, phase: Phase) -> Phase:
    """A phase whose steps that assign outputs have one value each: that of other words is a step of its own."""
    return dataclasses.replace(phase, parts=tuple(case for part in phase.parts for case in _cases(found, part)))


def _cases(found: Staged, part: Part) -> Iterator[Part]:
    several = part.operator == "set" and found.program.arrays[part.target.tensor].role == "output"
    groups = alike(part) if several else [[*part.formulas]]
    for formulas in groups:
        yield part if len(groups) == 1 else dataclasses.replace(part, formulas=tuple(formulas))


def alike(part: Part) -> list[list[Formula]]:
    """The formulas of a step, those of the same value together."""
    values = dict.fromkeys(formula.value for formula in part.formulas)
    return [[formula for formula in part.formulas if formula.value == value] for value in values]


def adding(part: Part) -> list[list[Formula]]:
    """The same without those that change nothing: cells of a sum begin with 0."""
    groups = alike(part)
    return [group for group in groups if part.operator != "sum" or group[0].value != expr.Number(0)]


def following(phase: Phase, part: Part, private: frozenset[str], lane: str) -> tuple[Part, ...]:
    """The steps that may follow a reduction within its tiles; none if any step that reads its sums may not."""
    sums, parts = part.target.tensor, phase.parts
    if part.operator == "set" or len(adding(part)) != 1 or sums not in private or lane not in expr.names(part.target):
        return ()
    if [other for other in parts if other.target.tensor == sums] != [part]:
        return ()
    readers = tuple(other for other in parts if any(read.tensor == sums for read in other.reads))
    if not readers:
        return ()
    at = [number for number, other in enumerate(parts) if other in (part, *readers)]
    # what stands between them and reads no sums is another case of a step that does
    others = [other for other in parts[at[0] : at[-1]] if other not in (part, *readers)]
    known = {(other.number, other.by, other.target.tensor) for other in readers}
    if {(other.number, other.by, other.target.tensor) for other in others} - known:
        return ()
    return readers if all(_follows(phase, part, reader) for reader in readers) else ()


def _follows(phase: Phase, part: Part, reader: Part) -> bool:
    cells = {read for read in reader.reads if read.tensor == part.target.tensor}
    alone = reader.operator == "set" and not reader.where and {*reader.letters} <= {*phase.own}
    words, chosen = ({formula.word for formula in one} for one in (adding(part)[0], reader.formulas))
    alone = alone and (part.by is None or (reader.by == part.by and chosen <= words))
    return alone and cells == {part.target} and reader.target.tensor not in {read.tensor for read in reader.reads}
