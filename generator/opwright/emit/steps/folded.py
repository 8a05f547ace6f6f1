"""Few lanes whose rows follow one another in memory: a reduction takes many rows as one, and folds what they make.

In: the loop over the rows of a tile that is filled in part, and the steps that sum them up. Out: the same loop, and
beside it one over long pieces of all rows together, whose sums, one for each cell of a piece, are added to each other
by halves until one is left for each lane. Calls decide by the strides of their arrays.

Means of 8x112x113x3 f32 over the middle axes take 0.19 of the time of rows one by one, bf16 0.13, maxima of 100x1000x6
f32 0.13, sums of 1000x37x3 0.73 (one thread of an Intel Xeon with AVX-512, gcc 12.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...derive.program import INITIAL, Formula, Part
from ...language import expr
from ...language.expr import Read
from .. import nodes
from ..nodes import ONE, ZERO, Assign, Binary, Call, Declare, DeclareArray, Do, Expr, For, If, Index, Name, Stmt, Unary
from .groups import placed
from .loops import Loop
from .row_reads import N
from .tasks import Tasks

MOST = 128  # cells of a piece
FEWEST = 4  # rows of a piece at the least, of lanes that fill a tile in part
TWICE = 2  # pieces of a row, at the least
LEAST = nodes.integer(16)  # rows for which it pays to fold
FOLLOW = Name("follow_")
WIDTH, FROM, SOME, LANE = Name("width_"), Name("from_"), Name("piece_"), Name("i_")


def follow(loops: Tasks, loop: Loop, steps: Sequence[tuple[Part, Formula]]) -> Expr | None:
    """Whether rows of few lanes follow one another along a loop, in all that steps read; None if they never do."""
    tests = _tests(loops, loop, steps)
    return nodes.both(tests) if tests else None


def folded(loops: Tasks, steps: Mapping[str, tuple[Part, Formula]], walk: For) -> tuple[Stmt, ...]:
    """The loop over the rows of a tile in two ways, if they follow one another and if not."""
    end, begin = walk.end, walk.begin
    rows = end.right if isinstance(end, Binary) and end.left == begin else Binary("-", end, begin)
    rows = end if begin == ZERO else rows
    test = nodes.both([FOLLOW, Binary(">=", rows, LEAST)])
    return (If(test, _pieces(loops, walk, rows, steps)), If(Unary("!", test), (walk,)))


def _tests(loops: Tasks, loop: Loop, steps: Sequence[tuple[Part, Formula]]) -> list[Expr]:
    """What holds where rows follow one another in all that steps read; nothing if a cell is of no row of all lanes."""
    assert loops.lanes is not None
    walked, found = {loop.letter, loops.lanes.name}, dict[Expr, None]()
    for part, formula in steps:
        if walked & expr.names_outside_indices(formula.value) or part.operator == "set":
            return []
        for read in formula.reads:
            if not walked & expr.names(read):
                continue
            pitch, step = _pitch(loops, read, loop), loops.step(read)
            if pitch is None or step is None:
                return []
            found[Binary("==", pitch, N)] = None
            if step != ONE:  # a row of one lane may lie behind the next one in any order
                found[Binary("==", step, ONE)] = None
    return [*found]


def _pitch(loops: Tasks, read: Read, loop: Loop) -> Expr | None:
    """How far apart a read's cells are along the loop, if that and the lanes walk one axis each, and nothing else."""
    assert loops.lanes is not None
    walked = {loop.letter, loops.lanes.name}
    indices = [index for index in read.indices if walked & expr.names(index)]
    if {*indices} != {*map(expr.Name, walked)} or len(indices) != len(walked):
        return None
    pitch = [term.stride for term in loops.terms(read) if term.index == Name(loop.name)]
    return pitch[0] if len(pitch) == 1 else None


def _pieces(loops: Tasks, walk: For, rows: Expr, steps: Mapping[str, tuple[Part, Formula]]) -> tuple[Stmt, ...]:
    lane, names = Name(loops.lane_name()), {name: Name(f"folded_{n}_") for n, name in enumerate(steps)}
    places = {walk.letter: walk.begin, lane.name: Binary("+", lane, FROM), N.name: SOME, **names}
    cells = Binary("*", rows, N)
    most = Call("opwright_min", (nodes.integer(MOST), Binary("/", cells, nodes.integer(TWICE))))
    made: list[Stmt] = [Declare(WIDTH.name, Call("opwright_doubled", (N, most)))]
    folds: list[Stmt] = []
    for name, (part, _) in steps.items():
        values = loops.values_of(part.target.tensor)
        first = Assign(Index(names[name], LANE), values.number(INITIAL[part.operator]), source=part.source)
        made.append(DeclareArray(names[name].name, values.c_type, MOST))
        made.append(For(LANE.name, ZERO, nodes.integer(MOST), (first,), source=part.source))
        fold = f"opwright_fold_{part.operator}_{values.accumulate}"
        folds.append(Do(Call(fold, (names[name], WIDTH, N, Name(name)))))
    count = Declare(SOME.name, Call("opwright_min", (WIDTH, Binary("-", cells, FROM))))
    body = (count, *(placed(statement, places) for statement in walk.body))
    return (*made, replace(walk, letter=FROM.name, begin=ZERO, end=cells, step=WIDTH, body=body), *folds)
