"""One phase of an operation of steps as C statements: tasks, and for each the loops of its steps.

In: a phase, the letter of its lanes, and a row of data types. Out: the statements of a function's body. The
loop over lanes is the innermost. If the letter of the lanes belongs to tasks, each has a block of it with independent
cells; otherwise a task has whole rows, along which lanes are reduced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..derive.lanes import moved
from ..derive.phases import Phase, Staged
from ..derive.program import INITIAL, Axis, Formula, Part, only_for
from ..language import expr
from ..language.expr import Read
from ..language.kinds import Kind
from ..language.model import Op
from ..language.types import symbol_kinds
from . import nodes, step_tiles, step_wholes
from .nodes import (
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
    Member,
    Name,
    Stmt,
)
from .step_bounds import Bounds, Guards
from .step_elements import BEGIN, ROOM, SIZES, Elements, expr_name
from .step_rows import Row, begun, together, updated
from .step_values import Values

LONG = 2**30  # lanes per block along a row
FEW = 2  # letters of a task that are computed from its number instead of being incremented


def words_of(op: Op, name: str) -> list[str]:
    """The words of a string or boolean attribute, in the order of their numbers."""
    attribute = op.attribute(name)
    return ["false", "true"] if attribute.type == "bool" else [value.value for value in attribute.values or ()]


def optional_outputs(op: Op) -> frozenset[str]:
    """The outputs that some calls lack."""
    return frozenset(tensor.name for tensor in op.outputs if tensor.when is not None)


def absence(output: str) -> str:
    """The member of sizes that says whether a call lacks an output."""
    return f"{output}_absent_"


@dataclass(frozen=True)
class Loop:
    """A loop of a step: of a letter, or of one of its axes or rows."""

    letter: str
    name: str
    extent: Expr


class Lowering(Elements):
    """The loops of a phase around its elements."""

    def __init__(self, op: Op, row: dict[str, str], found: Staged, phase: Phase, lanes: str | None) -> None:
        super().__init__(op, row, found, phase, lanes)
        kinds = dict(symbol_kinds(op)) | {letter: Kind("int") for letter in self.program.letters}
        self.values = Values(row["accumulate"], kinds, self.scalar, self.element, self.dtype)
        self.sums = 0  # names of accumulators of reductions over lanes
        self.tables: dict[Expr, str] = {}  # names of tables of integers by lane
        self.wholes: dict[Expr, str] = {}  # names of integers that are constant in a task
        self.laned_rows = False  # whether any step reduces lanes

    def body(self) -> tuple[Stmt, ...]:
        inner = tuple(statement for part in self.phase.parts for statement in self.part(part))
        inner = step_wholes.named(inner, self.known(), self.wholes)
        if self.lanes is not None and self.blocked:
            inner = step_wholes.tabled(inner, self.known(), self.lane_name(), self.tables)
            self.steps += [ZERO] if self.tables else []
        digits, task, total = self.decoded()
        loop = self.tasks(total, digits, [*task, *self.filled(digits), *self.of_task(), *self.numbers(), *inner])
        tables = (DeclareArray(name, "int64_t", ROOM) for name in self.tables.values())
        made = (*self.declared.values(), *tables, *loop)
        tiles = self.moved()
        return (If(nodes.Unary("!", tiles), made),) if tiles else made

    def moved(self) -> Expr | None:
        """Whether the phase only copies one run to another, so that tiles can transpose it."""
        source = moved(self.program, self.phase.parts, self.lanes.name) if self.lanes is not None else None
        names = [self.phase.parts[0].target.tensor, source.tensor] if source is not None else []
        kinds = {self.dtype(name) for name in names}
        if len(kinds) != 1:
            return None
        axes = [self.program.arrays[name].axes[0] for name in names]
        symbol = expr_name(axes[0].extent)
        extents = [Member(SIZES, f"{symbol}_rank"), Member(SIZES, f"{symbol}_extents")]
        strides = [Member(SIZES, f"{name}_{axis.name}") for name, axis in zip(names, axes, strict=True)]
        arguments: tuple[Expr, ...] = (*map(Name, names), *extents, *strides, Name("part_"), Name("parts_"))
        return Call(f"opwright_moved_{kinds.pop()}", arguments)

    # Tasks.

    def filled(self, digits: Sequence[tuple[str, Expr]]) -> list[Stmt]:
        """The tables of a task's lanes, reused from the previous task if all tasks have the same lanes."""
        if not self.tables:
            return []
        lane = Name(self.lane_name())
        entries = [Assign(Index(Name(n), Binary("-", lane, BEGIN)), value) for value, n in self.tables.items()]
        fill = For(lane.name, BEGIN, Name("end_"), tuple(entries))
        if len(digits) <= FEW:
            return [fill]
        others = Binary("!=", Name("blocks_"), ONE)
        return [If(Binary("||", Binary("==", Name("task_"), Name("first_task_")), others), (fill,))]

    def of_task(self) -> list[Stmt]:
        """The offsets of runs' letters that belong to tasks; those of loops are computed in their loops."""
        return [found for found in self.task.values() if self._letter_of(found) in self.phase.own]

    def numbers(self) -> list[Stmt]:
        """The arrays of a task that are one number each, initialised."""
        made = dict.fromkeys(part.target.tensor for part in self.phase.parts if self.is_number(part.target.tensor))
        return [
            Declare(name, self.values.number(INITIAL[first.operator]), self.values.c_type, changes=True)
            for name in made
            for first in [self.staged.first_writer(name)]
        ]

    def _letter_of(self, found: Declare) -> str:
        assert isinstance(found.value, Call)
        row = found.value.arguments[0]
        assert isinstance(row, Name)
        return row.name.removesuffix("_row_")

    def tasks(self, total: Expr, digits: Sequence[tuple[str, Expr]], body: Sequence[Stmt]) -> list[Stmt]:
        """The loop over the tasks of a part: the first task's letters follow from its number, later ones count up."""
        part, parts, first, end = Name("part_"), Name("parts_"), Name("first_task_"), Name("end_task_")
        numbered = self.digits_of_task(digits, first if len(digits) > FEW else Name("task_"))
        begin = Call("opwright_share", (Name("total_"), part, parts))
        past = Declare("end_task_", Call("opwright_share", (Name("total_"), Binary("+", part, ONE), parts)))
        wholes = step_wholes.by_letter(self.wholes, [name for name, _ in digits])
        always, changing = wholes.pop("", []), [one for found in wholes.values() for one in found]
        if len(digits) <= FEW:
            changing = [replace(one, changes=False) for one in changing]
            loop = For("task_", begin, end, (*numbered, *changing, *body))
            return [Declare("total_", total), past, *always, loop]
        loop = For("task_", first, end, (*body, *self.next_task(digits, wholes)))
        made = [Declare("total_", total), Declare("first_task_", begin), past, *always]
        # which must not divide by an extent of 0
        return [*made, If(Binary("<", first, end), (*numbered, *changing, loop))]

    def next_task(
        self, digits: Sequence[tuple[str, Expr]], wholes: Mapping[str, Sequence[Declare]]
    ) -> tuple[Stmt, ...]:
        """Increments the letters of a task to those of the next one, and updates values computed from them."""
        made: tuple[Stmt, ...] = ()
        for name, extent in digits:
            wrap = If(Binary("==", Name(name), extent), (Assign(Name(name), ZERO), *made))
            more = step_wholes.again(wholes.get(name, ()))
            made = (Assign(Name(name), ONE, "+="), *((wrap,) if made else ()), *more)
        return made

    def known(self) -> set[str]:
        """The names known at the start of a task: constants, and its letters."""
        return {*self.declared, *(loop.name for name in self.phase.own for loop in self.own_loops(name))}

    def decoded(self) -> tuple[list[tuple[str, Expr]], list[Stmt], Expr]:
        """The letters of a task with their extents, the last one fastest; derived values; the number of tasks."""
        digits = [(loop.name, loop.extent) for name in self.phase.own for loop in self.own_loops(name)]
        after: list[Stmt] = []
        if self.lanes is not None:
            most = self.most_lanes()
            if self.blocked:
                along, others = self.along(), nodes.chain("*", [extent for _, extent in digits], ONE)
                block = self.constant("block_", Call("opwright_block", (along, others, Name("parts_"), most)))
                digits.append(("at_", self.constant("blocks_", Call("opwright_ceil_div", (along, block)))))
                end = Call("opwright_min", (Binary("+", BEGIN, block), along))
                after = [Declare("begin_", Binary("*", Name("at_"), block)), Declare("end_", end)]
            elif self.laned_rows:
                self.constant("block_", most)
        return digits, after, nodes.chain("*", [extent for _, extent in digits], ONE)

    def own_loops(self, letter: str) -> list[Loop]:
        return self.loops_of(self.program.letters[letter])

    def digits_of_task(self, digits: Sequence[tuple[str, Expr]], rest: Expr) -> list[Stmt]:
        """Names with their values as functions of the task's number; slowest first."""
        statements: list[Stmt] = []
        counted = rest == Name("first_task_")
        if len(digits) < 2:
            return [Declare(name, rest, changes=counted) for name, _ in digits]
        for number, (name, extent) in enumerate(reversed(digits[1:]), start=1):
            last = number + 1 == len(digits)
            left = digits[0][0] if last else f"rest_{number}_"
            statements.append(Declare(name, Binary("%", rest, extent), changes=counted))
            statements.append(Declare(left, Binary("/", rest, extent), changes=counted and last))
            rest = Name(left)
        return statements

    def most_lanes(self) -> Expr:
        """The number of lanes per block: fewer if a row needs a buffer."""
        room, steps = nodes.integer(ROOM), [step for step in dict.fromkeys(self.steps) if step != ONE]
        long = nodes.integer(self.cells_of_lanes() if self.blocked else LONG)
        if ZERO in steps or not steps:
            return room if steps else long
        return Conditional(nodes.both([Binary("==", step, ONE) for step in steps]), long, room)

    def along(self) -> Expr:
        """The number of cells along the letter of the lanes, in a row."""
        assert self.lanes is not None
        if self.lanes.kind == "run":
            return self.run(expr_name(self.lanes.extent), "inner")
        return self.extent(self.lanes, len(self.axes) - 1)

    # Loops.

    def loops_of(self, letter: Axis) -> list[Loop]:
        """The loops of a letter, outermost first, without the one over lanes."""
        if letter.kind == "run":
            symbol = expr_name(letter.extent)
            loops = [
                Loop(letter.name, f"{letter.name}_row_", self.run(symbol, "rows")),
                Loop(letter.name, letter.name, self.run(symbol, "inner")),
            ]
        else:
            loops = [Loop(letter.name, copy, self.extent(letter, number)) for copy, number in self.copies(letter)]
        return loops[:-1] if self.lanes is not None and letter.name == self.lanes.name else loops

    def looped(self, loops: Sequence[Loop], bounds: Bounds, body: Sequence[Stmt], source: str) -> tuple[Stmt, ...]:
        """Loops around a body, outermost first, each with the offsets of the row that it walks."""
        made = tuple(body)
        for loop in reversed(loops):
            begins = [
                found
                for found in self.task.values()
                if loop.name == f"{self._letter_of(found)}_row_" and loop.letter not in self.phase.own
            ]
            tests = bounds.tests.get(loop.name)
            if tests:
                made = (If(nodes.both(tests), made, source=source),)
            low, high = (self.of_task_if(loop, end) for end in bounds.span(loop.name, ZERO, loop.extent))
            made = (For(loop.name, low, high, (*begins, *made), source=source),)
        return made

    def of_task_if(self, loop: Loop, end: Expr) -> Expr:
        """The end of a loop, computed once per task if it depends on no other loop."""
        if not isinstance(end, Call) or not self.known().issuperset(nodes.names(end)):
            return end
        if end not in self.wholes:
            stem = f"{loop.name.rstrip('_')}_end_"
            self.wholes[end] = f"{stem}{sum(name.startswith(stem) for name in self.wholes.values())}_"
        return Name(self.wholes[end])

    def laned(self, bounds: Bounds, body: Sequence[Stmt], source: str) -> For:
        """The loop over rows of lanes: a block at a time, of which there are `n_`."""
        lane = self.lane_name()
        low, high = self.lane_span(bounds)
        block = Name("block_")
        self.laned_rows = True
        count = Declare("n_", Call("opwright_min", (block, Binary("-", high, Name(lane)))))
        return For(lane, low, high, (count, *body), step=block, source=source)

    def lane_span(self, bounds: Bounds) -> tuple[Expr, Expr]:
        begin, end = (BEGIN, Name("end_")) if self.blocked else (ZERO, self.along())
        return bounds.span(self.lane_name(), begin, end)

    # Steps.

    def part(self, part: Part) -> list[Stmt]:
        result = list(self.first(part)) if self.staged.first_writer(part.target.tensor) is part else []
        for formula in part.formulas:
            self.task = {k: v for k, v in self.task.items() if self._letter_of(v) in self.phase.own}
            found = self.formula(part, formula)
            if part.by is not None:
                word = self.constant(f"{part.by}_word_", Member(SIZES, f"word_{part.by}"))
                number = words_of(self.op, part.by).index(formula.word)
                found = (If(Binary("==", word, nodes.integer(number)), found, source=part.source),)
            result += found
        outputs = only_for(self.program, optional_outputs(self.op)).get(part.target.tensor, frozenset())
        if not outputs:
            return result
        lacked = nodes.both([self.member(absence(name)) for name in sorted(outputs)])
        return [If(nodes.Unary("!", lacked), tuple(result), source=part.source)]

    def formula(self, part: Part, formula: Formula) -> tuple[Stmt, ...]:
        """The loops of a step around its cells."""
        used = part.letters_of(formula)
        lane = self.lanes.name if self.lanes is not None and self.lanes.name in used else ""
        target = expr.names(part.target)
        letters = [name for name in used if name not in self.phase.own]
        kept = [loop for n in letters if n in target for loop in self.loops_of(self.program.letters[n])]
        reduced = [loop for n in letters if n not in target for loop in self.loops_of(self.program.letters[n])]
        order = [loop.name for loop in (*kept, *reduced)] + ([self.lane_name()] if lane else [])
        bounds = Guards(self, part, formula).bounds(order)
        if lane and not bounds.tests.get(self.lane_name()) and Row.possible(self, part, formula):
            row = Row(self, self.values, part, formula)
            if lane in target and step_tiles.possible(self, part, formula, reduced, bounds):
                made = self.looped(kept, bounds, step_tiles.tiled(self, part, formula, reduced, bounds), part.source)
            elif lane in target:
                made = self.looped(
                    [*kept, *reduced], bounds, [self.laned(bounds, row.written(), part.source)], part.source
                )
            else:
                made = self.put_together(part, row, kept, reduced, bounds)
        else:
            cell = self.update(part, formula.value)
            if lane:
                tests = bounds.tests.get(self.lane_name())
                cell = (If(nodes.both(tests), cell, source=part.source),) if tests else cell
                cell = (For(self.lane_name(), *self.lane_span(bounds), cell, source=part.source),)
            made = self.looped([*kept, *reduced], bounds, cell, part.source)
        tests = bounds.tests.get("")
        return (If(nodes.both(tests), made, source=part.source),) if tests else made

    def put_together(
        self, part: Part, row: Row, kept: Sequence[Loop], reduced: Sequence[Loop], bounds: Bounds
    ) -> tuple[Stmt, ...]:
        """A reduction over lanes: a fixed number of sums, which are combined at the end."""
        name = f"sums_{self.sums}_"
        self.sums += 1
        inner = self.looped(reduced, bounds, [self.laned(bounds, row.reduced(name), part.source)], part.source)
        total = updated(
            self.values,
            part.operator,
            self.element(part.target),
            together(self.values, name, part.operator),
            part.source,
        )
        return self.looped(kept, bounds, [*begun(self.values, name, part.operator), *inner, total], part.source)

    def first(self, part: Part) -> tuple[Stmt, ...]:
        """The initial values of an intermediate."""
        array = self.program.arrays[part.target.tensor]
        if array.role != "between" or self.is_number(array.name):
            return ()
        guarded = any(Guards(self, part, formula).conditions() for formula in part.formulas)
        if part.operator == "set" and not guarded:
            return ()
        indices: list[expr.Expr] = []
        for number, index in enumerate(part.target.indices):
            walker = self.program.walks(array.name, number, index)
            axis = array.axes[number]
            indices.append(expr.Number(0) if axis.kind == "ones" else expr.Name(walker or axis.name))
        cell = Read(array.name, tuple(indices))
        body: tuple[Stmt, ...] = (
            Assign(self.element(cell), self.values.number(INITIAL[part.operator]), source=part.source),
        )
        names = [index.id for index in indices if isinstance(index, expr.Name)]
        loops = [loop for n in names if n not in self.phase.own for loop in self.loops_of(self.program.letters[n])]
        if self.lanes is not None and self.lanes.name in names:
            body = (For(self.lane_name(), *self.lane_span(Bounds()), body, source=part.source),)
        return self.looped(loops, Bounds(), body, part.source)

    def update(self, part: Part, value: expr.Expr) -> tuple[Stmt, ...]:
        """One cell of a step."""
        target = self.element(part.target)
        if part.operator == "set":
            copied = self.values.copied(value, self.dtype(part.target.tensor))
            return (Assign(target, copied, source=part.source),)
        return (updated(self.values, part.operator, target, self.values.cell(value), part.source),)
