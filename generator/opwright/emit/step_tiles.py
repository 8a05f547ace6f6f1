"""A reduction with independent lanes: a tile of lanes is accumulated in registers over the reduced letters.

In: a step whose target has the letter of the lanes, and its loops. Out: statements for all lanes: tiles of WIDTHS
lanes, the widest first, then the rest. A wide tile reads memory in long rows; the others fit into registers.
After every TERMS terms a tile is added to its target: errors grow with TERMS and with the number of such sums, not with
their product. Each lane adds in the same order whatever its tile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..derive.program import INITIAL, Formula, Part
from . import nodes
from .nodes import ONE, ZERO, Assign, Binary, Call, Declare, DeclareArray, Expr, For, If, Index, Name, Stmt
from .step_bounds import Bounds
from .step_loops import Loop, Loops
from .step_rows import N, Row, updated

WIDTHS = (512, 64, 32)  # compilers scalarise loops of 16 iterations
TERMS = 128
TILE, COUNT, LANE = Name("tile_"), Name("terms_"), Name("i_")


def possible(loops: Loops, part: Part, formula: Formula, reduced: Sequence[Loop], bounds: Bounds) -> bool:
    """Whether a step's lanes can be processed in tiles: the same lanes for every value of reduced letters."""
    lane = loops.lane_name()
    narrowed = bounds.low.get(lane) or bounds.high.get(lane)
    updates = part.operator != "set" and part.target not in formula.reads
    return updates and bool(reduced) and not narrowed and loops.step(part.target) == ONE


def tiled(loops: Loops, part: Part, formula: Formula, reduced: Sequence[Loop], bounds: Bounds) -> tuple[Stmt, ...]:
    """The loops over tiles of lanes, each around those of the reduced letters."""
    low, high = loops.lane_span(bounds)
    lane, lanes = Name(loops.lane_name()), high if low == ZERO else Binary("-", high, low)

    def whole(width: int) -> Expr:
        cells = Binary("*", Binary("/", lanes, nodes.integer(width)), nodes.integer(width))
        return cells if low == ZERO else Binary("+", low, cells)

    def tile(begin: Expr, end: Expr, count: Expr, width: int) -> tuple[For, Row]:
        body, row = _tile(loops, part, formula, reduced, bounds, count, width)
        return For(lane.name, begin, end, body, step=nodes.integer(width), source=part.source), row

    made: list[Stmt] = []
    begin, rest = low, Binary("-", high, lane)
    for width in WIDTHS:
        loop, row = tile(begin, whole(width), nodes.integer(width), width)
        if row.gathers:  # into memory, where the tile may be as long as the row
            return (tile(low, high, Call("opwright_min", (nodes.integer(width), rest)), width)[0],)
        made.append(loop)
        begin = whole(width)
    return (*made, tile(begin, high, rest, WIDTHS[-1])[0])


def _tile(
    loops: Loops,
    part: Part,
    formula: Formula,
    reduced: Sequence[Loop],
    bounds: Bounds,
    count: Expr,
    room: int,
) -> tuple[tuple[Stmt, ...], Row]:
    """One tile, of so many lanes, and the rows that it reads."""
    values, source = loops.values_of(part.target.tensor), part.source
    row = Row(loops, values, part, formula)
    target = row.target_row(True)
    pointer, row.before = row.before, []
    first = values.number(INITIAL[part.operator])
    clear = For("i_", ZERO, N, (Assign(Index(TILE, LANE), first, source=source),), source=source)
    put = updated(values, part.operator, Index(Name(target), LANE), Index(TILE, LANE), source)
    flush = For("i_", ZERO, N, (put,), source=source)
    many = math.prod(map(loops.at_most, reduced)) > TERMS
    rounds = many and part.operator in ("sum", "product") and values.accumulate != "s64"
    counted: list[Stmt] = [
        Assign(COUNT, ONE, "+="),
        If(Binary("==", COUNT, nodes.integer(TERMS)), (flush, clear, Assign(COUNT, ZERO)), source=source),
    ]
    inner = loops.looped(reduced, bounds, [*row.added(TILE), *(counted if rounds else [])], source)
    made = (
        Declare("n_", count),
        *pointer,
        DeclareArray(TILE.name, values.c_type, room),
        clear,
        *([Declare(COUNT.name, ZERO, changes=True)] if rounds else []),
        *inner,
        flush,
    )
    return made, row
