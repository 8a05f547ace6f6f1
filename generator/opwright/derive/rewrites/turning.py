"""Another form of a reduction over pairs of rows, as of distances: one of both sides is turned first.

In: a program and the steps of a phase, such as `d[i, j] += (a[i, k] - b[j, k]) * (a[i, k] - b[j, k])`. Out: the same
steps after `turned[k, j] = b[j, k]`, and the letter `j`, along which lanes then go. A block of the copy serves tasks of
all `i` that follow each other: it is kept from one to the next.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ...language import expr
from ...language.expr import Name, Read
from ..contraction import walked
from ..program import Array, Part, Program


def turned(found: Program, parts: Sequence[Part], own: Sequence[str]) -> tuple[Program, str] | None:
    """The program of these steps and the letter; None if no step reads a side of which tasks have other letters."""
    written = {part.target.tensor for part in parts}
    for number, part in enumerate(parts):
        lane = part.target.indices[-1] if part.target.indices else None
        if part.operator == "set" or part.by or part.where or not isinstance(lane, Name) or lane.id not in own:
            continue
        if found.letters[lane.id].kind != "one" or not all(walked(found, read) for read in (part.target, *part.reads)):
            continue
        sides = [read for read in part.reads if read.tensor not in written and _lies_across(found, part, read, lane.id)]
        if len({frozenset(own) - expr.names(read) for read in sides}) == 1 and set(own) - expr.names(sides[0]):
            return _made(found, parts, number, sides, lane), lane.id
    return None


def kept(parts: Sequence[Part], own: Sequence[str]) -> tuple[Part, ...]:
    """The steps that lack a letter of tasks: what they make serves all tasks that follow each other along it."""
    return tuple(part for part in parts if not {*own} <= {*part.letters})


def _lies_across(found: Program, part: Part, read: Read, lane: str) -> bool:
    """Whether a side has the letter, and another one is the last, along which the step reduces."""
    last = read.indices[-1] if read.indices else None
    simple = isinstance(last, Name) and last.id in found.letters and found.letters[last.id].kind == "one"
    return simple and lane in expr.names(read) and not {last} & {Name(lane), *part.target.indices}


def _made(found: Program, parts: Sequence[Part], number: int, sides: Sequence[Read], lane: Name) -> Program:
    arrays, made, part = dict(found.arrays), list[Part](), parts[number]
    for side in sides:
        indices = (*(index for index in side.indices if isinstance(index, Name) and index != lane), lane)
        name = f"turned_{part.number}_{len(made)}_"
        arrays[name] = Array(
            name, "between", tuple(dataclasses.replace(found.letters[i.id], name=i.id) for i in indices)
        )
        made.append(part.of(Read(name, indices), "set", side))
        part = part.replaced(side, Read(name, indices))
    return dataclasses.replace(
        found, arrays=arrays, parts=(*made, *(part if one is parts[number] else one for one in parts))
    )
