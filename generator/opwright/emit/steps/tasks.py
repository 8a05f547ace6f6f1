"""The tasks of a phase: their letters, what each begins with, and the loop over those of a part.

In: a phase, the letter of its lanes, a row of data types; the statements of a task. Out: loops around them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import zip_longest

from ...derive.phases import Phase, Staged, block_of_tasks
from ...derive.program import INITIAL, Part
from ...derive.rewrites.row_blocks import ROWS, SUFFIX, block_letter
from ...derive.rewrites.turning import kept
from ...language import expr
from ...language.expr import Read
from ...language.model import Op
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
    Index,
    Name,
    Stmt,
)
from . import joined, moving, repeats
from .elements import BEGIN, END, ROOM, TURNED
from .groups import Grouped, in_groups, rows_of_tasks, runs
from .loops import Loop, Loops, letter_of
from .wholes import again, by_letter, inlined, row_of_table, sunk

LONG = 2**30  # lanes per block along a row
FEW = 2  # letters of a block of lanes that are computed from its number instead of being incremented
NONE = nodes.Unary("-", ONE)  # no lane
# Rows that one of several calls copies: those that write parts of the same lines find them in a cache.
TOGETHER = nodes.integer(64)
TAPS = 4  # rows of a table of lanes, which lies on the stack: 4 KB each


class Tasks(Loops):
    """The loop over a phase's tasks, and what it needs to know."""

    def __init__(self, op: Op, row: dict[str, str], found: Staged, phase: Phase, lanes: str | None) -> None:
        super().__init__(op, row, found, phase, lanes)
        self.tables: dict[Expr, str] = {}  # names of tables of integers by lane
        self.ones: set[Expr] = set()  # extents that are 1 in most calls: a division takes longer than to ask
        self.row_copies: tuple[list[Expr], list[Stmt]] = [], []  # when tasks copy rows, and what is called for several
        self.close: Expr | None = None  # whether all steps of a lane stand in one loop, which needs no rows

    def filled(self, digits: Sequence[tuple[str, Expr]]) -> list[Stmt]:
        """The tables of a task's lanes.

        Those of the previous task are reused if all tasks have the same lanes and no table depends on another letter.
        """
        if not self.tables or not self.blocked:
            return []
        loops = self.entries()
        changing = {name for name, _ in digits} & nodes.names_of(self.tables)
        if not self.counts_on(digits) or changing:
            return loops
        others = Binary("!=", Name("blocks_"), ONE)
        return [If(Binary("||", Binary("==", Name("task_"), Name("first_task_")), others), tuple(loops))]

    def entries(self) -> list[Stmt]:
        """The loops that fill the tables of the lanes between `begin_` and `end_`."""
        taps, fill = self.taps(), dict[tuple[str, ...], list[Stmt]]()
        for value, name in self.tables.items():
            rows = tuple(row for row in taps if row in nodes.names(value))
            at = Binary("-", Name(self.lane_name()), BEGIN)
            place = nodes.chain("+", [*map(row_of_table, rows), at], ZERO)
            fill.setdefault(rows, []).append(Assign(Index(Name(name), place), value))
        return [self.over([taps[row] for row in rows], entries) for rows, entries in fill.items()]

    def over(self, taps: Sequence[Loop], entries: Sequence[Stmt]) -> Stmt:
        """Loops over some taps and the lanes of a task."""
        made: Stmt = For(self.lane_name(), BEGIN, Name("end_"), tuple(entries))
        for loop in reversed(taps):
            made = For(loop.name, ZERO, loop.extent, (made,))
        return made

    def rows_of(self, value: Expr) -> int:
        """The rows of a table."""
        return math.prod(int(self.at_most(loop)) for name, loop in self.taps().items() if name in nodes.names(value))

    def room_of_tables(self) -> list[Stmt]:
        """Rows that tasks keep, the tables, and the first lane of those that each loop over lanes fills."""
        rows: list[Stmt] = [*self.rooms, *self.repeated]
        rows += [DeclareArray(name, "int64_t", self.rows_of(value) * ROOM) for value, name in self.tables.items()]
        return [*rows, *([Declare("filled_", NONE, changes=True)] if self.tables and not self.blocked else [])]

    def taps(self) -> dict[str, Loop]:
        """The loops of letters with few values, by name."""
        walked = {name for part in self.phase.parts for name in part.letters} - {*self.phase.own}
        others = [letter for name, letter in self.program.letters.items() if name in walked]
        loops = [loop for letter in others if letter.kind != "run" for loop in self.loops_of(letter)]
        return {loop.name: loop for loop in loops if self.at_most(loop) <= TAPS}

    def of_task(self) -> list[Declare]:
        """The offsets of runs' letters that belong to tasks; those of loops are computed in their loops."""
        return [found for found in self.task.values() if letter_of(found) in self.phase.own]

    def numbers(self) -> list[Declare]:
        """The arrays of a task that are one number each, initialised."""
        made = dict.fromkeys(part.target.tensor for part in self.phase.parts if self.is_number(part.target.tensor))
        return [
            Declare(name, values.number(INITIAL[first.operator]), values.c_type, changes=True)
            for name in made
            for first, values in [(self.staged.program.first_writer(name), self.values_of(name))]
        ]

    def tasks(
        self, total: Expr, digits: Sequence[tuple[str, Expr]], begins: Sequence[Stmt], body: Sequence[Stmt]
    ) -> list[Stmt]:
        """The loop over the tasks of a part: the first task's letters follow from its number, later ones count up."""
        first, end = Name("first_task_"), Name("end_task_")
        number, begin, past = span = self.span_of_tasks(total)
        numbered = self.digits_of_task(digits, first if self.counts_on(digits) else Name("task_"))
        wholes = by_letter(self.wholes, [name for name, _ in digits])
        always, changing = wholes.pop("", []), [one for found in wholes.values() for one in found]
        if not self.counts_on(digits):
            block = [one for one in numbered if one.name == "at_"]
            kept, body = inlined(block, (*begins, *body))
            numbered = [one for one in numbered if one not in block or one in kept]
            changing = [replace(one, changes=False) for one in changing]
            loop = For("task_", begin.value, end, (*numbered, *sunk(changing, body)))
            return [number, past, *always, loop]
        if self.run_letter(digits):
            return [*span, *always, *self.in_runs(digits, numbered, wholes, begins, body)]
        loop = For("task_", first, end, (*begins, *body, *self.next_task(digits, wholes)))
        # which must not divide by an extent of 0
        return [*span, *always, If(Binary("<", first, end), (*numbered, *changing, loop))]

    def run_letter(self, digits: Sequence[tuple[str, Expr]]) -> str:
        """The letter of tasks that follow one another with the same block of lanes; '' if each is taken alone."""
        alike = self.counts_on(digits) and digits[-1][0] != "at_" and bool(self.blocked or self.row_copies[1])
        return digits[-1][0] if alike and not self.kept else ""

    def in_runs(
        self,
        digits: Sequence[tuple[str, Expr]],
        numbered: Sequence[Declare],
        wholes: Mapping[str, Sequence[Declare]],
        begins: Sequence[Stmt],
        body: Sequence[Stmt],
    ) -> list[Stmt]:
        """The loop over runs of tasks, which differ in one letter: what they share stands before their loop.

        Batch normalisation of 16x56x56x64 f32 takes 0.83 of the time of one task at a time (AMD Zen 4, gcc 12.2).
        """
        (*others, (letter, extent)), task = digits, Name("task_")
        begin, past = Name("from_"), Name("to_")
        own = [replace(one, changes=False) for one in wholes.get(letter, ())]
        shared = [one for name, found in wholes.items() if name != letter for one in found]
        changing = [one for one in begins if letter in nodes.names(one)]
        tests, copies = self.row_copies
        each = For(letter, begin, past, sunk(own, (*changing, *body)))
        near = Name("near_")
        known = [Declare(near.name, nodes.both(tests), "int")] if tests else []
        most = TOGETHER if len(copies) > 1 else Binary("-", past, begin)
        some = Declare("rows_", Call("opwright_min", (Binary("-", past, Name(letter)), most)))
        rows = For(letter, begin, past, (some, *copies), step=most)
        loops: list[Stmt] = [If(near, (rows,)), If(nodes.Unary("!", near), (each,))] if tests else [rows]
        run = (
            Declare(
                past.name, Call("opwright_min", (extent, Binary("-", Binary("+", begin, Name("end_task_")), task)))
            ),
            *(one for one in begins if one not in changing),
            *(loops if copies else [each]),
            Assign(task, Binary("-", Binary("-", past, begin), ONE), "+="),
            Assign(begin, ZERO),
            *self.next_task(others, wholes),
        )
        named = [replace(one, name=begin.name) if one.name == letter else one for one in numbered]
        loop = For(task.name, Name("first_task_"), Name("end_task_"), run)
        # which must not divide by an extent of 0
        return [If(Binary("<", Name("first_task_"), Name("end_task_")), (*named, *shared, *known, loop))]

    def grouped(self, digits: Sequence[tuple[str, Expr]], steps: Sequence[Sequence[Stmt]]) -> dict[str, str] | None:
        """The rows that tasks have between steps, by name with their type, if a group of tasks makes each step at once.

        So do tasks of several steps along lanes that need no more than their numbers and such rows.
        """
        if self.blocked or not self.laned_rows or (len(steps) < 2 and not any(map(runs, steps))):
            return None
        if not digits or by_letter(self.wholes, [name for name, _ in digits]).keys() - {""}:
            return None
        return rows_of_tasks(self, self.phase)

    def groups(
        self,
        total: Expr,
        digits: Sequence[tuple[str, Expr]],
        steps: Sequence[Sequence[Stmt]],
        rows: Mapping[str, str],
    ) -> list[Stmt]:
        """The loop over the tasks of a part, a group of them at a time."""
        assert self.lanes is not None
        first, end, task, counts = *map(Name, ("first_task_", "end_task_", "task_")), self.counts_on(digits)
        numbered, letters = self.digits_of_task(digits, first if counts else task), self.moving()
        length = nodes.chain("*", [self.extent(self.lanes, number) for _, number in self.copies(self.lanes)], ONE)
        rest = Binary("-", end, task)
        left = Call("opwright_min", (moving.left(letters), rest)) if counts else rest
        advance = self.next_task(digits, {}, moving.steps(letters)) if counts else ()
        shared = [*(() if counts else numbered), *self.of_task()]
        places, joins = moving.places(letters), partial(self.one_row, length)
        group = Grouped(shared, left, places, self.numbers(), advance, steps, rows, length, joins)
        loop = in_groups(group, first, end)
        always = by_letter(self.wholes, ()).get("", [])
        known = [*numbered, *moving.whether(letters)] if counts else []
        # which must not divide by an extent of 0
        return [*self.span_of_tasks(total), *always, If(Binary("<", first, end), (*known, *loop))]

    def moving(self) -> list[moving.Moving]:
        """The letters along which the tasks of a group may follow one another, the fastest first."""
        return moving.moving([loop for name in self.letters_of_tasks() for loop in self.own_loops(name)])

    def pitch_of_tasks(self, read: Read) -> Expr:
        """How far apart the cells of the tasks of a group are; 0 if they lie in no stride."""
        return moving.pitch(self, read, self.moving())

    def one_row(self, length: Expr, names: Set[str]) -> Expr | None:
        """Whether the rows of arrays follow one another from task to task; None if cells know where they lie."""
        assert self.lanes is not None
        walked = {*self.phase.own, self.lanes.name}
        tests = list[Expr]()
        for part in self.phase.parts:
            values = [formula.value for formula in part.formulas]
            if part.target.tensor in names and (
                part.where or any(walked & expr.names_outside_indices(value) for value in values)
            ):
                return None
        reads = [read for part in self.phase.parts for read in (part.target, *part.reads) if read.tensor in names]
        for read in dict.fromkeys(reads):
            if read.tensor not in self.staged.private:
                step, pitch = self.step(read), self.pitch_of_tasks(read)
                if step in (None, ZERO) or pitch == ZERO:
                    return None
                tests += [Binary("==", step, ONE), Binary("==", pitch, length)]
        return nodes.both(dict.fromkeys(tests)) if tests else None

    def span_of_tasks(self, total: Expr) -> list[Declare]:
        """The number of tasks, and the first of a part and the one past its last."""
        part, parts, number = Name("part_"), Name("parts_"), Name("total_")
        whole = None if self.block_number() else self.rows_of_block()
        shared: Expr = number if whole is None else Call("opwright_ceil_div", (number, whole))
        begin, past = (Call("opwright_share", (shared, at, parts)) for at in (part, Binary("+", part, ONE)))
        if whole is not None:
            begin, past = (Call("opwright_min", (Binary("*", at, whole), number)) for at in (begin, past))
        return [Declare("total_", total), Declare("first_task_", begin), Declare("end_task_", past)]

    def rows_of_block(self) -> Expr | None:
        """How many tasks have sums by blocks together; None if they have no such sums."""
        return self.scalar(ROWS) if block_of_tasks(self.program, self.phase) else None

    def block_number(self) -> tuple[str, ...]:
        """The letter that is the number of a task, where its lanes are the rows of such a block."""
        row = block_of_tasks(self.program, self.phase)
        return (f"{row}{SUFFIX}",) if row and self.lanes is not None and self.lanes.name == row else ()

    def of_tasks(self, part: Part, number: int) -> bool:
        """Whether an index of a target tells which cells of an axis a task has: by several letters, or by blocks."""
        index, block = part.target.indices[number], block_of_tasks(self.program, self.phase)
        digits = {*(self.program.digits(part.target.tensor, number, index) or ())} & {*self.phase.own}
        return bool(digits) or (block is not None and block_letter(self.program, index) == block)

    def counts_on(self, digits: Sequence[tuple[str, Expr]]) -> bool:
        """Whether the letters of a task follow from those of the one before, not from its number.

        Blocks of lanes are long: there a division costs little, and counting takes more code.
        """
        return len(digits) > (FEW if self.blocked else 1) or bool(self.kept or self.crossing or self.row_copies[1])

    def next_task(
        self,
        digits: Sequence[tuple[str, Expr]],
        wholes: Mapping[str, Sequence[Declare]],
        by: Mapping[str, Expr] | None = None,
    ) -> tuple[Stmt, ...]:
        """Increments the letters of a task to those of the next one, and updates values computed from them."""
        made: tuple[Stmt, ...] = ()
        for name, extent in digits:
            wrap = If(Binary("==", Name(name), extent), (Assign(Name(name), ZERO), *made))
            more = again(wholes.get(name, ()))
            made = (Assign(Name(name), (by or {}).get(name, ONE), "+="), *((wrap,) if made else ()), *more)
        return made

    def letters_of_tasks(self) -> list[str]:
        """The letters of a task, the last one fastest: in the order of the largest array that has them all, of what is

        written among several. 4 x 197 x 3 x 12 rows of 64 bf16 whose axes change places take 0.25 of the time of the
        order of what is read (AMD EPYC Zen 3, gcc 12.2). Where lanes lie apart in memory, that of neighbours there is
        the last: tasks in a row use the same lines.
        """
        own, lane, crossed = self.phase.own, self.lanes.name if self.lanes is not None else "", set[str]()
        reads = [read for part in self.phase.parts for read in (part.target, *part.reads)]
        orders = [[name for index in read.indices for name in own if name in expr.names(index)] for read in reads]
        letters = self.program.letters.keys()
        sizes = [(len({*order}), len(expr.names(read) & letters)) for order, read in zip(orders, reads, strict=True)]
        largest = orders[sizes.index(max(sizes))]
        for read in reads:
            walkers = [self.program.walks(read.tensor, *pair) for pair in enumerate(read.indices)]
            crossed |= {walkers[-1] or ""} if lane in walkers[:-1] else set()
        place = {name: number for number, name in enumerate(largest)}
        across, serving = self.crossing, self.serving()
        return sorted(own, key=lambda name: (name in serving, name == across, name in crossed, place.get(name, -1)))

    @property
    def kept(self) -> tuple[Part, ...]:
        """The steps whose results are kept from one task to the next."""
        return kept(self.phase.parts, self.phase.own)

    def serving(self) -> list[str]:
        """The letters of tasks that what is kept serves, which are the fastest."""
        walked = {letter for part in self.kept for letter in part.letters}
        return [letter for letter in self.phase.own if letter not in walked] if self.kept else []

    def begins_anew(self) -> Expr:
        """Whether a task is the first that what is kept serves."""
        names = [loop.name for letter in self.serving() for loop in self.own_loops(letter)]
        first = Binary("==", Name("task_"), Name("first_task_"))
        return Binary("||", first, nodes.both([Binary("==", Name(name), ZERO) for name in names]))

    def decoded(self) -> tuple[list[tuple[str, Expr]], list[Declare], Expr]:
        """The letters of a task with their extents, the last one fastest; derived values; the number of tasks."""
        digits = [(loop.name, loop.extent) for name in self.letters_of_tasks() for loop in self.own_loops(name)]
        after: list[Declare] = []
        if self.lanes is not None:
            maximum = self.max_lanes()
            if self.blocked:
                along, others = self.along(), nodes.chain("*", [extent for _, extent in digits], ONE)
                plain = Call("opwright_block", (along, others, Name("parts_"), maximum))
                rows_of_block = self.rows_of_block() or joined.block(self, along, repeats.block(self, maximum, plain))
                block = self.constant("block_", rows_of_block)
                # Tasks that follow one another have the same block where letters are counted. Rows of the letter of
                # lanes are few: most often one.
                rows = bool(digits) and digits[-1][0] == f"{self.lanes.name}_row_"
                serving = sum(len(self.own_loops(letter)) for letter in self.serving())
                last = self.crossing or self.row_copies[1] or (len(digits) >= FEW and not rows)
                place = len(digits) - (serving or bool(last))
                digits.insert(place, ("at_", self.constant("blocks_", Call("opwright_ceil_div", (along, block)))))
                end = Call("opwright_min", (Binary("+", BEGIN, block), along))
                after = [Declare(BEGIN.name, Binary("*", Name("at_"), block)), Declare(END.name, end)]
                after += [Declare(name, Name("at_")) for name in self.block_number()]
                digits, after = joined.grouped(self, digits, after)
            elif self.laned_rows:
                self.constant("block_", maximum)
        return digits, after, nodes.chain("*", [extent for _, extent in digits], ONE)

    def digits_of_task(self, digits: Sequence[tuple[str, Expr]], rest: Expr) -> list[Declare]:
        """Names with their values as functions of the task's number; slowest first."""
        statements: list[Declare] = []
        counted = rest == Name("first_task_")
        if len(digits) < 2:
            return [Declare(name, rest, changes=counted) for name, _ in digits]
        for number, (name, extent) in enumerate(reversed(digits[1:]), start=1):
            last = number + 1 == len(digits)
            left = digits[0][0] if last else f"rest_{number}_"
            remainder: Expr = Binary("%", rest, extent)
            quotient: Expr = Binary("/", rest, extent)
            if name == "at_" or extent in self.ones:  # most rows are one block
                remainder, quotient = (Call(f"opwright_{of}_by", (rest, extent)) for of in ("rest", "floor"))
            statements.append(Declare(name, remainder, changes=counted))
            statements.append(Declare(left, quotient, changes=counted and last))
            rest = Name(left)
        return statements

    def max_lanes(self) -> Expr:
        """The number of lanes per block: fewer if a row needs a buffer.

        CPUs overlap passes over short blocks of long rows: one waits for memory while the one before it is computed.
        With 256 lanes in place of 512, elu of 1M f32 takes 0.81 of the time, gelu 0.9, of 300,000 f64 elu 0.81; of
        bf16, whose conversions are further passes, 0.93 and 1.07, rows of 700 f32 1.06 (Sapphire Rapids, gcc 12.2).
        """
        room: Expr = nodes.integer(TURNED if self.turned else ROOM)
        if self.passes and not self.turned:
            room = Conditional(Binary("<", nodes.integer(4 * ROOM), self.along()), nodes.integer(ROOM // 2), room)
        steps = {step: one for step, one in self.steps.items() if step != ONE}
        # Copies of 16 KB of a row, then of the next one, take 1.4 of the time: 300 x 30000 f32 (AMD EPYC Zen 4).
        long = nodes.integer(self.cells_of_lanes() if self.blocked and not self.row_copies[1] else LONG)
        if ZERO in steps or not steps or self.kept:
            return room if steps or self.kept else long
        beside = nodes.both([Binary("==", step, one) for step, one in steps.items()])
        beside = beside if self.close is None else Binary("||", self.close, beside)
        pairs = zip_longest(*[iter(steps)] * 2, fillvalue=ONE)
        few, *fewer = (Call("opwright_apart", pair) for pair in pairs)
        for other in fewer:
            few = Call("opwright_min", (few, other))
        return Conditional(beside, long, room if self.turned else few)
