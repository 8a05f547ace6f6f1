"""A reduction with independent lanes: a tile of lanes is accumulated in registers over the reduced letters.

In: a step whose target has the letter of the lanes, and its loops. Out: statements for all lanes: tiles of WIDTHS
lanes, the widest first, then the rest. A wide tile reads memory in long rows. The last tile of sums that nothing else
has begun is made of as many lanes, some of them again: with 9 lanes more than whole tiles have, 777 x 999 rows of f32
take 0.9 of the time (AMD Zen 4, gcc 12.2).
After every round of terms (rounds.py) a tile is added to its target. Each lane adds in the same order whatever its
tile. Steps that read nothing but these sums of it follow while the tile is in registers.
Rows whose neighbours lie apart are read in tiles of their own, which hold sums in memory: where the same tiles read
both, max pool 3x3 of 4x35x35x96 f32 takes 1.6 times as long, its gradient 1.4 times (AMD Zen 5, gcc 12.2). These tiles
have 64 lanes: with up to 256, max pool 7x7 of 16x512x7x7 f32, channels first, takes 1.17 of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from ...derive.algebra import slopes
from ...derive.program import INITIAL, Formula, Part
from ...language import expr
from ...language.dtypes import DTYPES
from ...language.expr import Read
from .. import nodes
from ..nodes import (
    ONE,
    ZERO,
    Assign,
    Binary,
    Call,
    Declare,
    DeclareArray,
    Do,
    Expr,
    For,
    If,
    Index,
    Name,
    Stmt,
)
from . import cache_lines, choices, folded, places, rounds, row_sums
from .bounds import Bounds
from .elements import product
from .loops import Loop
from .rounds import BEGUN, COUNT, LAST, ROUND, UNTIL
from .row_reads import N
from .rows import Row
from .tasks import Tasks
from .values import updated

# Compilers scalarise loops of 16 iterations. Tiles of 512 lanes before those of 64 take 1.17 of the time for 4096x4096
# f32 summed over the first axis, 1.8 for 64x128x256 over the second (AMD Zen 4, gcc 12.2): registers hold 256 lanes.
WIDTHS = (256, 64, 32)
TILE, LANE = Name("tile_"), Name("i_")
NONE = Name("none_")  # what sums begin with

Ending = Callable[[], Sequence[Stmt]]  # makes the steps that follow a tile


def _widest(loops: Tasks, part: Part, formula: Formula, steps: int) -> int:
    """The lanes of the widest tiles: registers hold those of all steps.

    With 256 for each of two, gradients of layer norm of 4096x768 f32 take 1.09 of the time (AMD Zen 5, gcc 12.2). With
    32, which 16 registers of 32 bytes hold, they take 1.06 to 1.2 (AMD EPYC Zen 3, gcc 12.2): reads are too short.
    A cache holds the cells of sums of windows: with 256 lanes means of 3x3 of 8x57x61x24 f32 take 1.5 times as long, of
    300 rows of 901 by 9 1.6, bf16 1.2 and 0.95; maxima of 7x7 of 700x901 0.8, bf16 0.7 (AMD EPYC, Zen 4, gcc 12.2).
    """
    widest = WIDTHS[1] if part.operator == "sum" and _slides(loops, part, formula) else WIDTHS[0]
    return max(widest // steps // WIDTHS[1], 1) * WIDTHS[1]


def _slides(loops: Tasks, part: Part, formula: Formula) -> bool:
    """Whether all rows are of windows that lie along the lanes, of which a cache holds what they share."""
    assert loops.lanes is not None
    lane, summed = loops.lanes.name, {*part.letters} - expr.names(part.target)
    rows = [[index for index in read.indices if lane in expr.names(index)] for read in formula.reads]
    moved = [index for indices in rows for index in indices]
    steady = all(slopes.slope(index, lane) == slopes.ONE and summed & expr.names(index) for index in moved)
    return bool(moved) and steady and loops.lanes.kind == "one"


def possible(loops: Tasks, part: Part, formula: Formula, reduced: Sequence[Loop], bounds: Bounds) -> bool:
    """Whether a step's lanes can be processed in tiles: the same lanes for every value of reduced letters."""
    lane = loops.lane_name()
    narrowed = bounds.low.get(lane) or bounds.high.get(lane)
    updates = part.operator != "set" and part.target not in formula.reads
    fixed = not {loop.letter for loop in reduced} & expr.names(part.target)
    return updates and fixed and bool(reduced) and not narrowed and loops.step(part.target) == ONE


def kept_type(loops: Tasks, part: Part, formula: Formula, following: Sequence[Part]) -> str:
    """The type of bytes in which tiles may have extremes of such, where the steps that follow store these as they are.

    A vector has four times as many of them as of f32: maxima of 64x100x256 u8 over the middle axis take 0.37 of their
    time, of 16x28x28x256 over two axes 0.45 (one thread of an Intel Xeon with AVX-512, gcc 12.2).
    """
    dtype = loops.dtype(formula.value.tensor) if isinstance(formula.value, Read) else ""
    stored = [(one.value, loops.dtype(step.target.tensor)) for step in following for one in step.formulas]
    extreme = row_sums.is_extreme(part.operator, dtype) and DTYPES[dtype].size == 1
    return dtype if extreme and {*stored} == {(part.target, dtype)} else ""


def tiled(
    loops: Tasks,
    part: Part,
    formula: Formula,
    reduced: Sequence[Loop],
    bounds: Bounds,
    ending: Ending | None = None,
    begins: bool = False,
    outer: Sequence[Loop] = (),
    more: Sequence[Part] = (),
    kept: str = "",
) -> tuple[Stmt, ...]:
    """The loops over tiles of lanes, each around those of the reduced letters; `more` steps have tiles beside it.

    With an ending, the target of the step has nothing in it yet, and nobody else reads it. A tile that `begins` its
    cells is stored. Whole tiles of extremes may be `kept` in the type of what is read.
    """
    low, high = loops.lane_span(bounds)
    lane, lanes = Name(loops.lane_name()), high if low == ZERO else Binary("-", high, low)

    def whole(width: int) -> Expr:
        cells: Expr = Binary("*", Binary("/", lanes, nodes.integer(width)), nodes.integer(width))
        if width == WIDTHS[0]:
            cells = Call("opwright_in_wide_tiles", (lanes, nodes.integer(width)))
        return cells if low == ZERO else Binary("+", low, cells)

    beside: dict[Expr, Expr] = {}
    rest = Binary("-", high, lane)
    span = rounds.span(loops, part, reduced, bounds)
    follow = _follow(loops, part, formula, reduced, bounds, more)
    around = partial(rounds.around, loops, part, span, lanes, follow, ending is not None)

    def tile(begin: Expr, end: Expr, count: Expr, width: int, near: bool, *back: Stmt) -> tuple[For, Row]:
        found, again = beside if near else None, bool(back)
        body, row = _tile(
            loops, part, formula, reduced, bounds, count, width, ending, begins, outer, more, found, kept, span, again
        )
        return For(lane.name, begin, end, (*back, *body), step=nodes.integer(width), source=part.source), row

    def apart(begin: Expr) -> list[For]:
        width, past = nodes.integer(WIDTHS[1]), whole(WIDTHS[1])
        return [tile(begin, past, width, WIDTHS[1], False)[0], tile(past, high, rest, WIDTHS[1], False)[0]]

    both: list[Stmt] = []
    made: list[Stmt] = []
    begin = low
    widest = _widest(loops, part, formula, 1 + len(more))
    for width in dict.fromkeys((widest, *WIDTHS[1:])):
        end, back = whole(width), list[Stmt]()
        if width == WIDTHS[-1] and ending is not None:
            each = nodes.integer(width)
            any_ = Binary("*", lanes, Binary(">=", lanes, each))
            end = any_ if low == ZERO else Binary("+", low, any_)
            back = [Assign(lane, Call("opwright_min", (lane, Binary("-", high, each))), source=part.source)]
            back = [*([rounds.carried(loops, part, Binary("-", lane, begin))] if span else []), *back]
        # Of a loop that has nothing in it but maxima, compilers take two rows at once, and hold a wide tile in memory:
        # the first axis of 4096x4096 takes 1.4 of the time that it takes with a call in it (AMD Zen 5, gcc 12.2).
        near = width != widest or bool(more) or rounds.several(loops, part, reduced)
        loop, row = tile(begin, end, nodes.integer(width), width, near, *back)
        if row.gathers:  # into memory, where the tile may be as long as the row
            return around([tile(low, high, Call("opwright_min", (nodes.integer(width), rest)), width, False)[0]])
        (made if near else both).append(loop)
        begin = end
    made.append(tile(begin, high, rest, WIDTHS[-1], True)[0])
    if not beside:
        return around([*both, *made])
    together = nodes.both([Binary("==", step, one) for step, one in beside.items()])
    others = If(nodes.Unary("!", together), tuple(apart(whole(widest) if both else low)), source=part.source)
    return around([*both, If(together, tuple(made), source=part.source), others])


def _tile(
    loops: Tasks,
    part: Part,
    formula: Formula,
    reduced: Sequence[Loop],
    bounds: Bounds,
    count: Expr,
    room: int,
    ending: Ending | None,
    begun: bool,
    outer: Sequence[Loop],
    more: Sequence[Part],
    beside: dict[Expr, Expr] | None,
    kept: str,
    span: rounds.Span | None,
    again: bool,
) -> tuple[tuple[Stmt, ...], Row]:
    """One tile, of so many lanes, some of them maybe `again`, and the rows that it reads; if `span`, a round of it."""
    values, source = loops.values_of(part.target.tensor), part.source
    kept = kept if count in map(nodes.integer, WIDTHS) else ""
    assert loops.lanes is not None
    given, (tests, formula) = formula, choices.only_where(part, formula, loops.lanes.name)
    formula = choices.without_test(loops, formula)
    row = Row(loops, values, part, formula, beside)
    steps = {TILE.name: (part, formula)}
    steps |= {f"tile_{number}_": (other, other.formulas[0]) for number, other in enumerate(more, 1)}
    many = rounds.several(loops, part, reduced)
    sums = values.accumulate != "s64" and any(one.operator == "sum" for one, _ in steps.values())
    first = {
        name: NONE if sums and one.operator == "sum" else values.number(INITIAL[one.operator])
        for name, (one, _) in steps.items()
    }
    if kept:
        _, _, least, greatest = DTYPES[kept].exact or (0, 0, 0, 0)
        first[TILE.name] = nodes.integer(int(least if part.operator == "max" else greatest))
    zero = Declare(NONE.name, Call(f"opwright_zero_{values.accumulate}", ()), values.c_type)
    clear = [_each(Assign(Index(Name(name), LANE), value, source=source), source) for name, value in first.items()]
    before: list[Stmt] = []
    full: tuple[Stmt, ...] = ()
    after: Sequence[Stmt] = ending() if ending is not None else ()
    begins: Stmt | None = None
    if span and ending is not None:
        target = Index(rounds.CARRIED if again else Name(row.target_row(True, part)), LANE)
        before, row.before = row.before, []
        added = _each(updated(values, part.operator, Index(TILE, LANE), target, source), source)
        stays = _each(Assign(target, Index(TILE, LANE), source=source), source)
        ends = (If(nodes.Unary("!", LAST), (stays,), source=source), If(LAST, tuple(after), source=source))
        after = (If(BEGUN, (added,), source=source), *ends)
    elif many or ending is None:
        alone = places.follow(loops.staged.program, part, tuple(more))
        stored = {name: one for name, (one, _) in steps.items() if not (alone and one is part)}
        targets = {name: Index(Name(row.target_row(True, one)), LANE) for name, one in stored.items()}
        before, row.before = row.before, []
        flush: list[Stmt] = []
        for name, (one, _) in steps.items():
            cell = Index(Name(name), LANE)
            if one is not part and places.number(part, one) is not None:
                flush.append(_each(places.ended(values, one, (Index(TILE, LANE), cell)), source))
            if name not in stored:
                continue
            grown = updated(values, one.operator, targets[name], cell, source)
            flush.append(_each(Assign(targets[name], cell, source=source) if begun else grown, source))
        if ending is None:
            after = flush
        else:
            target, none = targets[TILE.name], first[TILE.name]
            begins = If(nodes.Unary("!", BEGUN), (_each(Assign(target, none, source=source), source),), source=source)
            added = _each(updated(values, part.operator, Index(TILE, LANE), target, source), source)
            after = (If(BEGUN, (added,), source=source), *after)
        full = (*([begins, Assign(BEGUN, ONE)] if begins else []), *flush, *clear, Assign(COUNT, ZERO))
    terms = choices.where(loops, part, tests, row.added(steps, kept))
    if beside is not None or room == _widest(loops, part, given, len(steps)):
        tasks = [letter for letter in loops.letters_of_tasks() if letter != loops.lanes.name]
        walked = [*tasks, *(loop.letter for loop in outer)]
        terms = [*terms, *(_soon(loops, row, walked[-1]) if walked else ())]
    if room == _widest(loops, part, given, len(steps)) and many:
        terms = [*_ahead(loops, row, reduced[-1]), *terms]
    short = beside is not None and count not in map(nodes.integer, WIDTHS)
    follow = _follow(loops, part, given, reduced, bounds, more) if short else None
    several: rounds.Walked = partial(folded.folded, loops, steps) if follow is not None else lambda walk: (walk,)
    if many and not span:
        inner = rounds.within(loops, reduced, bounds, terms, full, source, follow, several)
    elif span:
        (walk,) = loops.looped(reduced, bounds, terms, source)
        assert isinstance(walk, For)
        inner = several(replace(walk, begin=ROUND, end=UNTIL))
    else:
        (walk,) = loops.looped(reduced[-1:], bounds, terms, source)
        assert isinstance(walk, For)
        inner = loops.looped(reduced[:-1], bounds, several(walk), source)
    if any(DTYPES[loops.dtype(tensor)].size == 1 for tensor in loops.program.arrays):
        # The last tile has no whole line of bytes, which compilers do not see: gcc warns of reads behind the tile.
        room = max(room, cache_lines.LINE)
    made = (
        Declare("n_", count),
        *([Declare(folded.FOLLOW.name, follow, "int")] if follow is not None and not span else []),
        *before,
        *([zero] if sums else []),
        *(DeclareArray(name, DTYPES[kept].c_type if kept else values.c_type, room) for name in steps),
        *clear,
        *([Declare(COUNT.name, ZERO, changes=True)] if many and not span else []),
        *([Declare(BEGUN.name, ZERO, changes=True)] if many and not span and ending is not None else []),
        *inner,
        *after,
    )
    return made, row


def _follow(
    loops: Tasks, part: Part, formula: Formula, reduced: Sequence[Loop], bounds: Bounds, more: Sequence[Part]
) -> Expr | None:
    """Whether rows of `n_` lanes follow one another in all that a tile reads; None if they never do."""
    assert loops.lanes is not None
    tests, chosen = choices.only_where(part, formula, loops.lanes.name)
    if tests or bounds.tests.get(reduced[-1].name) or any(places.number(part, one) is not None for one in more):
        return None
    steps = [(part, choices.without_test(loops, chosen)), *((other, other.formulas[0]) for other in more)]
    return folded.follow(loops, reduced[-1], steps)


def _ahead(loops: Tasks, row: Row, loop: Loop) -> list[Stmt]:
    """Fetches rows that the innermost loop reads later, where these are so many that no cache has them all."""
    made: list[Stmt] = []
    for read in (one for one in row.rows if one != row.part.target and expr.Name(loop.letter) in one.indices):
        pitch = [term.stride for term in loops.terms(read) if term.index == Name(loop.name)]
        if pitch and loops.step(read) is not None:
            size = nodes.integer(DTYPES[loops.dtype(read.tensor)].size)
            apart, first = product(nodes.chain("+", pitch, ZERO), size), loops.element(read)
            assert isinstance(first, Index)
            here = Binary("+", first.array, first.at)
            made.append(Do(Call("opwright_ahead", (here, apart, loop.extent, product(N, size)))))
    return made


def _soon(loops: Tasks, row: Row, letter: str) -> list[Stmt]:
    """Fetches the rows that a later window reads, which the hardware does not foresee.

    It foresees those along which windows lie, too, which are long: sums of windows of 15 rows of 1901 f32 take 0.8 of
    the time without (AMD EPYC, Zen 4, gcc 12.2).
    """
    made: list[Stmt] = []
    assert loops.lanes is not None
    before = loops.phase.parts[: loops.phase.parts.index(row.part)]
    fetched = {read for part in before for read in part.reads}
    for read in (one for one in row.rows if one != row.part.target and one not in fetched):
        if expr.Name(loops.lanes.name) not in read.indices:
            continue
        pitch, first = _of_windows(loops, row.part, read, letter), loops.element(read)
        if pitch is not None and isinstance(first, Index):
            size = nodes.integer(DTYPES[loops.dtype(read.tensor)].size)
            here = Binary("+", first.array, first.at)
            made.append(Do(Call("opwright_soon", (here, product(pitch, size), product(N, size)))))
    return made


def _of_windows(loops: Tasks, part: Part, read: Read, letter: str) -> Expr | None:
    """How far apart in an input neighbours along a letter read the same cell of windows; None if they read none."""
    array = loops.program.arrays[read.tensor]
    reduced = {*part.letters} - expr.names(part.target)
    pitch: list[Expr] = []
    for number, (axis, index) in enumerate(zip(array.axes, read.indices, strict=True)):
        if letter not in expr.names(index):
            continue
        slope, inner = slopes.slope(index, letter), sorted(reduced & expr.names(index))
        apart = any(loops.program.letters[name].extent == slope for name in inner)  # no cell is in two windows
        if slope is None or not inner or apart or array.role != "input" or axis.kind not in ("one", "spatial"):
            return None
        copy = len(loops.axes) - 1 if axis.kind == "spatial" else 0
        pitch.append(product(loops.integer(slope, copy), loops.stride(array.name, number, copy)))
    return nodes.chain("+", pitch, ZERO) if pitch else None


def _each(statement: Stmt, source: str) -> For:
    """A statement for each lane of a tile."""
    return For("i_", ZERO, N, (statement,), source=source)
