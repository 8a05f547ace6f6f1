"""Sums of many terms, some at a time: so many are added up before they are added to the sum.

In: a step that sums in tiles of lanes, and its reduced letters. Out: the loops that take TERMS terms at once. Errors
grow with TERMS and with the number of such sums, not with their product. All tiles add those of one reduced letter
before any has more, so that the pages of few rows are read at a time: sums of 4001 x 4096 f32 over the first axis take
0.7 of the time of one tile after another (Intel Xeon, Sapphire Rapids, gcc 12.2). Of several letters, each tile adds
all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...derive.program import Part
from .. import nodes
from ..nodes import (
    ONE,
    ZERO,
    Assign,
    Binary,
    Call,
    Conditional,
    Declare,
    DeclareArray,
    Expr,
    For,
    If,
    Name,
    Scope,
    Stmt,
)
from . import folded
from .bounds import Bounds
from .groups import placed
from .loops import Loop
from .row_reads import N
from .tasks import Tasks

TERMS = 128
FEW = nodes.integer(32)  # lanes that fill no tile
COUNT, SOME = Name("terms_"), Name("some_")  # of a round of several letters: how many terms it has, and gets
ROUND, UNTIL, MOST = Name("round_"), Name("until_"), Name("most_")  # the terms of a round, and their number
BEGUN = Name("begun_")  # whether the target has sums of earlier terms
LAST = Name("last_")  # whether these are the last
BEHIND, CARRIED = Name("behind_"), Name("carried_")  # sums of lanes of two tiles, and those of the second

Walked = Callable[[For], tuple[Stmt, ...]]  # the loop over rows, and others in its place
Span = tuple[Expr, Expr]


def several(loops: Tasks, part: Part, reduced: Sequence[Loop]) -> bool:
    """Whether a tile may have so many terms that it is added to its target now and then."""
    many = math.prod(map(loops.at_most, reduced)) > TERMS
    return many and part.operator in ("sum", "product") and loops.values_of(part.target.tensor).accumulate != "s64"


def span(loops: Tasks, part: Part, reduced: Sequence[Loop], bounds: Bounds) -> Span | None:
    """Between which numbers the one reduced letter is, whose terms all tiles add in rounds; None of other sums."""
    *others, loop = reduced
    if others or bounds.tests.get(loop.name) or not several(loops, part, reduced):
        return None
    low, high = (loops.of_task_if(loop, end) for end in bounds.span(loop.name, ZERO, loop.extent))
    return None if loops.lane_name() in nodes.names_of((low, high)) else (low, high)


def _most(follow: Expr | None) -> Expr:
    """How many terms a tile has at once."""
    many = Conditional(folded.FOLLOW, nodes.integer(folded.FEWEST * TERMS), nodes.integer(TERMS))
    return nodes.integer(TERMS) if follow is None else many


def carried(loops: Tasks, part: Part, lane: Expr) -> Declare:
    """Where lanes that are in several tiles have the sums of one of these from round to round."""
    c_type = f"{loops.values_of(part.target.tensor).c_type} *restrict"
    return Declare(CARRIED.name, Binary("+", BEHIND, lane), c_type, changes=True)


def around(
    loops: Tasks,
    part: Part,
    span: Span | None,
    lanes: Expr,
    follow: Expr | None,
    ends: bool,
    tiles: Sequence[Stmt],
) -> tuple[Stmt, ...]:
    """The loops over tiles, for each round of terms; once for no terms, which steps that follow wait for."""
    if span is None:
        return tuple(tiles)
    begin, end = span
    before: list[Stmt] = []
    if follow is not None:
        few = nodes.both([Binary("<", lanes, FEW), placed(follow, {N.name: lanes})])
        before = [Declare(folded.FOLLOW.name, few, "int"), Declare(MOST.name, _most(follow))]
    most = MOST if before else _most(None)
    if CARRIED.name in nodes.names_of(tiles):
        before.append(DeclareArray(BEHIND.name, loops.values_of(part.target.tensor).c_type, 64))
    known = [Declare(UNTIL.name, Call("opwright_min", (Binary("+", ROUND, most), end)))]
    if ends:
        known.append(Declare(BEGUN.name, Binary(">", ROUND, begin), "int"))
        known.append(Declare(LAST.name, Binary("==", UNTIL, end), "int"))
    past = Call("opwright_max", (end, ONE if begin == ZERO else Binary("+", begin, ONE)))
    loop = For(ROUND.name, begin, past, (*known, *tiles), step=most, source=part.source)
    return (Scope((*before, loop)),) if before else (loop,)


def within(
    loops: Tasks,
    reduced: Sequence[Loop],
    bounds: Bounds,
    body: Sequence[Stmt],
    full: Sequence[Stmt],
    source: str,
    follow: Expr | None,
    walked: Walked,
) -> tuple[Stmt, ...]:
    """Loops of reduced letters that add a tile to its target after so many terms.

    The innermost one goes from one such time to the next, so that nothing but terms is in it: compilers hold the tile
    in registers there. Group norm of 16x56x56x64 f32 takes 0.77 of its time (AMD Zen 5, gcc 12.2).
    """
    (*others, loop), most = reduced, _most(follow)
    added = If(Binary("==", COUNT, most), tuple(full), source=source)
    if bounds.tests.get(loop.name):
        return loops.looped(reduced, bounds, [*body, Assign(COUNT, ONE, "+="), added], source)
    (walk,) = loops.looped([loop], bounds, body, source)
    assert isinstance(walk, For)
    length = Call("opwright_min", (Binary("-", walk.end, ROUND), Binary("-", most, COUNT)))
    rounds = (
        Assign(SOME, length, source=source),
        *walked(replace(walk, begin=ROUND, end=Binary("+", ROUND, SOME))),
        Assign(COUNT, SOME, "+="),
        added,
    )
    split = For(ROUND.name, walk.begin, walk.end, rounds, step=SOME, source=source)
    return (Declare(SOME.name, ZERO, changes=True), *loops.looped(others, bounds, [split], source))
