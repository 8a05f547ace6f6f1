"""One phase of an operation of steps as C statements: tasks, and for each the loops of its steps.

In: a phase, the letter of its lanes, and a row of data types. Out: the statements of a function's body. The
loop over lanes is the innermost. If the letter of the lanes belongs to tasks, each has a block of it with independent
cells; otherwise a task has whole rows, along which lanes are reduced.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...derive.lanes import many, moved
from ...derive.phases import Phase, Staged, block_of_tasks
from ...derive.picking import scatters
from ...derive.program import INITIAL, Formula, Part
from ...derive.rewrites.accumulating import plain
from ...derive.rewrites.row_blocks import ROWS, block_letter
from ...language import expr
from ...language.expr import Read
from ...language.model import Op
from .. import nodes
from ..nodes import ONE, ZERO, Assign, Binary, Call, Expr, For, If, Member, Name, Stmt
from . import (
    bends,
    choices,
    close,
    endings,
    fusion,
    in_registers,
    joined,
    needs,
    places,
    planes,
    quotients,
    rearranged,
    repeats,
    rounds,
    row_sums,
    running,
    wholes,
)
from .bounds import Bounds, Guards
from .integers import SIZES, expr_name
from .loops import Walk
from .roomy import halved
from .rows import Row
from .tasks import Tasks
from .tiles import TILE, kept_type, possible, tiled
from .values import updated


class Lowering(Tasks):
    """The loops of a phase around its elements."""

    def __init__(self, op: Op, row: dict[str, str], found: Staged, phase: Phase, lanes: str | None) -> None:
        super().__init__(op, row, found, endings.cases(found, phase) if lanes in phase.own else phase, lanes)
        self.sums = 0  # names of accumulators of reductions over lanes

    def body(self) -> tuple[Stmt, ...]:
        repeats.begun(self)
        joined.begun(self)
        steps = [wholes.named(step, self.known(), self.wholes) for step in self.statements()]
        if self.lanes is not None and not self.blocked:
            steps = quotients.tabled(self, steps)
        steps = quotients.hoisted(steps, self.known())
        inner = tuple(statement for step in steps for statement in step)
        if self.lanes is not None and self.blocked:
            inner = wholes.tabled(inner, self.known(), self.lane_name(), self.tables, self.taps().keys())
            self.steps |= {ZERO: ONE} if self.tables else {}
            singles = {name for name in self.used if self.dtype(name) == "f32"}
            inner = wholes.picked(inner, {*self.tables.values()}, singles)
        alone = close.close(self) if all(map(self.unguarded, self.phase.parts)) else None
        if alone is not None:
            self.close, loop_of_lanes = self.constant("close_", alone[0], "int"), alone[1]
            inner = (If(self.close, tuple(loop_of_lanes)), If(nodes.Unary("!", self.close), inner))
        letters = [loop.name for name in self.letters_of_tasks() for loop in self.own_loops(name)]
        if letters and all(map(self.unguarded, self.phase.parts)):
            self.row_copies = planes.short_rows(self, letters[-1])
        digits, task, total = self.decoded()
        rows = self.grouped(digits, steps)
        if rows is not None:
            loop = self.groups(total, digits, steps, rows)
        else:
            begins = self.of_task()
            if not (self.stretches or self.run_letter(digits)):
                begins, inner = wholes.inlined(begins, inner)
            shared: list[Stmt] = [*self.filled(digits), *begins]
            along = self.lanes is not None and not self.blocked
            inner = (*self.numbers(), *(in_registers.chosen(inner) if along else inner))
            wanted = nodes.names_of((*shared, *inner))
            loop = self.tasks(total, digits, [*(one for one in task if one.name in wanted), *shared], inner)
        plain = self.lanes is not None and all(map(self.unguarded, self.phase.parts))
        once = rearranged.rearranged(self) if plain else None
        after = [one for one in self.declared.values() if "block_" in nodes.names(one.value)]
        made = (*after, *self.room_of_tables(), *loop)
        before = [x for n, x in self.declared.items() if x not in after and n not in {"block_"} - nodes.names_of(made)]
        if once is not None:
            axes, copied = once
            return (*before, *axes, If(nodes.Unary("!", copied), made))
        tiles, made = self.moved(), (*before, *made)
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

    # Steps.

    def statements(self) -> list[list[Stmt]]:
        """All steps, in loops that they share where they may; lanes and rows of runs are loops of their own."""
        own, lane = self.phase.own, self.lane_name() if self.lanes is not None else ""
        free = [letter for name, letter in self.program.letters.items() if name not in own and letter.kind != "run"]
        loops = {name: letter.name for letter in free for name, _ in self.copies(letter) if name != lane}
        made: list[fusion.Made] = []
        ended: tuple[Part, ...] = ()
        for part in self.phase.parts:
            if part not in ended:
                following = self.following(part)
                ended += following
                made.append(self.part(part, following))
        return fusion.fused(self.program, running.begun(self, made, self.unguarded), loops)

    def following(self, part: Part) -> tuple[Part, ...]:
        """The steps that are made with a step: those that follow it within its tiles, or sum up the same lanes."""
        if self.lanes is None or not self.blocked or self.numbering(part):
            return self.numbering(part) or self.beside(part)
        found = endings.following(self.phase, part, self.staged.private, self.lanes.name)
        if not found:
            return self.beside(part)
        formula = endings.adding(part)[0][0]
        own, others = self.walk(part, formula), [self.walk(step, one) for step in found for one in step.formulas]
        tiled = own.laned and possible(self, part, formula, own.reduced, own.bounds)
        certain = not own.outer and "" not in own.bounds.tests  # each cell begins in a tile
        return found if tiled and certain and all(walk.plain for walk in others) else ()

    def numbering(self, part: Part) -> tuple[Part, ...]:
        """The step that numbers terms of an extreme, if tiles may have both."""
        after = self.phase.parts[self.phase.parts.index(part) + 1 :][:1]
        if self.lanes is None or not after or not places.number(part, after[0]):
            return ()
        chosen = choices.only_where(part, part.formulas[0], self.lanes.name)[0]
        wide = self.dtype(part.target.tensor) == self.row["accumulate"]
        alike = all(map(self.in_tiles, (part, *after))) and self._walked(part) == self._walked(after[0])
        return after if wide and alike and not chosen else ()

    def part(self, part: Part, following: Sequence[Part]) -> fusion.Made:
        together = (part, *(one for one in following if one.operator != "set"))
        first: list[Stmt] = []
        for one in together:
            begins = self.staged.program.first_writer(one.target.tensor) is one and len(together) > len(following)
            first += self.first(one) if begins and not self.in_tiles(one) else ()
        result: list[Stmt] = []
        for formulas in endings.adding(part):
            self.leave_rows()
            found = self.formula(part, formulas[0], following)
            if part.by is not None:
                test = needs.is_word(self, part.by, [formula.word for formula in formulas])
                found = (If(test, found, source=part.source),)
            result += found
        needed = [*self.needed(part), *([self.begins_anew()] if part in self.kept else [])]
        if len(together) > 1:  # which cost little more than one
            conditions = [nodes.both(self.needed(one)) for one in together if self.needed(one)]
            needed = [nodes.chain("||", conditions, ZERO)] if len(conditions) == len(together) else []
        if not needed:
            return fusion.Made((part, *following), tuple(first), tuple(result))
        return fusion.Made((part, *following), (), (If(nodes.both(needed), (*first, *result), source=part.source),))

    def in_tiles(self, part: Part) -> bool:
        """Whether every cell of a step's array is in a tile that has all of its terms, and nothing else begins it."""
        program, target = self.staged.program, part.target
        axes = program.arrays[target.tensor].axes
        walked = [program.walks(target.tensor, *pair) is not None for pair in enumerate(target.indices)]
        alone = program.first_writer(target.tensor) is part and part.by is None and part.operator != "set"
        if not alone or program.arrays[target.tensor].role != "between" or self.is_number(target.tensor):
            return False
        if not all(walks or axis.kind == "ones" for walks, axis in zip(walked, axes, strict=True)):
            return False
        formula = part.formulas[0]
        walk = self.walk(part, formula)
        if not walk.laned or not possible(self, part, formula, walk.reduced, walk.bounds):
            return False
        bounds, outer = walk.bounds, ["", *(loop.name for loop in walk.outer), self.lane_name()]
        narrowed = any(name in found for found in (bounds.tests, bounds.low, bounds.high) for name in outer)
        return not narrowed and not rounds.several(self, part, walk.reduced)

    def unguarded(self, part: Part) -> bool:
        """Whether every call needs a step, for all values of its letters."""
        found = [self.walk(part, formula).bounds for formula in part.formulas]
        return not self.needed(part) and not any(one.low or one.high or one.tests for one in found)

    def needed(self, part: Part) -> list[Expr]:
        """The conditions under which a call needs a step."""
        return needs.needed(self, part, lambda after: self.walk(after, after.formulas[0]).bounds)

    def walk(self, part: Part, formula: Formula) -> Walk:
        """The loops of a formula, and whether it takes lanes together."""
        used = part.letters_of(formula)
        lane = self.lanes is not None and self.lanes.name in used
        target = expr.names(part.target)
        letters = [name for name in used if name not in self.phase.own]
        outer = self.loops_along(planes.in_order(self, part, formula, [name for name in letters if name in target]))
        reduced = self.as_merged(self.loops_along([name for name in letters if name not in target]))
        lanes = [self.lane_name()] if lane else []
        summed = self.lanes is not None and lane and self.lanes.name not in target  # and put where they belong as one
        if scatters(part) and not summed:  # a term is put where it belongs before the next one
            outer, reduced = [], [*reduced, *outer]
        if not lane and reduced and outer and self.lies_along(part, formula, outer[-1].letter):
            outer, reduced = outer[:-1], [*reduced, outer[-1]]
        bounds = Guards(self, part, formula).bounds([*(loop.name for loop in (*outer, *reduced)), *lanes])
        laned = lane and not bounds.tests.get(self.lane_name()) and Row.possible(self, part, formula)
        if reduced and lane and not (laned or summed) and bounds.tests.get(self.lane_name()):
            alone = Guards(self, part, formula).bounds([*lanes, *(loop.name for loop in (*outer, *reduced))])
            if sum(map(len, alone.tests.values())) < sum(map(len, bounds.tests.values())):
                return Walk(outer, reduced, alone, lane, laned, apart=True)
        return Walk(outer, reduced, bounds, lane, laned)

    def lies_along(self, part: Part, formula: Formula, letter: str) -> bool:
        """Whether a step without lanes adds whole rows to those of a task's own array, which compilers vectorise.

        Sums of cubes over windows of 3 x 3 by 2 over 4x32x57x59 f32, NCX, take 0.5 of the time of cell by cell (Intel
        Xeon, Sapphire Rapids, gcc 12.2).
        """
        target, reads = part.target, [read for read in formula.reads if letter in expr.names(read)]
        own = target.tensor in self.staged.private and target.tensor not in self.program.integers
        rows = all(read.indices[-1] == expr.Name(letter) for read in (target, *reads))
        return self.lanes is not None and own and rows and bool(reads) and many(self.program.letters[letter])

    def formula(self, part: Part, formula: Formula, following: Sequence[Part], whole: bool = False) -> tuple[Stmt, ...]:
        """The loops of a step around its cells; if not `whole`, maybe in two ways."""
        if not (following or whole):
            free = lambda: self.untested(part, formula)  # noqa: E731
            if halves := halved(self, part, formula, free, lambda: self.formula(part, formula, (), whole=True)):
                return halves
        conditions, chosen = choices.of_tasks(self, part, formula)
        if conditions and not following:
            return tuple(choices.where(self, part, conditions, self.formula(part, chosen, following)))
        walk = self.walk(part, formula)
        target_loops, reduced, bounds, lane = walk.outer, walk.reduced, walk.bounds, walk.lane
        if (walk.laned or (target_loops and not lane)) and not reduced and planes.possible(self, part, formula):
            made = planes.moved(self, part, formula, target_loops, bounds, lane)
        elif walk.laned:
            assert self.lanes is not None
            if self.lanes.name not in expr.names(part.target):
                made = self.lane_reduction(part, formula, following, walk)
            elif possible(self, part, formula, reduced, bounds):
                ends = bool(following) and following[0].operator == "set"
                ending = (lambda: self.ending(part, following)) if ends else None
                begins = all(map(self.in_tiles, (part, *following)))
                more = () if ends else following
                kept = kept_type(self, part, formula, following)
                tiles = tiled(self, part, formula, reduced, bounds, ending, begins, target_loops, more, kept)
                made = self.looped(target_loops, bounds, tiles, part.source)
            else:
                lanes = self.laned(bounds, choices.written(self, part, formula), part.source)
                made = self.looped([*target_loops, *reduced], bounds, lanes, part.source)
        else:
            made = self.update(part, formula.value)
            if lane and not walk.apart:
                made = self.each_lane(bounds, made, part.source)
            made = self.looped([*target_loops, *reduced], bounds, made, part.source)
            made = bends.added(self, part, formula, made)
            made = (
                self.each_lane(bounds, made, part.source) if walk.apart else running.carried(self, part, formula, made)
            )
        tests = bounds.tests.get("")
        return (If(nodes.both(tests), made, source=part.source),) if tests else made

    def untested(self, part: Part, formula: Formula) -> bool:
        """Whether lanes are taken together, or sums have no test of each cell."""
        walk = self.walk(part, formula)
        return walk.laned or (part.operator == "sum" and not walk.bounds.tests)

    def ending(self, part: Part, following: Sequence[Part]) -> list[Stmt]:
        """The steps that follow a tile of a step, each under its conditions."""
        made: list[Stmt] = []
        for step in following:
            loops: list[Stmt] = []
            for formulas in endings.alike(step):
                row = Row(self, self.values_of(step.target.tensor), step, formulas[0])
                row.rows[part.target] = TILE.name
                stored = row.written()
                words = [formula.word for formula in formulas]
                made_for = [formula.word for formula in endings.adding(part)[0]] if part.by == step.by else []
                test = step.by is not None and {*words} != {*made_for} and needs.is_word(self, step.by, words)
                loops += [If(test, stored, source=step.source)] if test else stored
            needed = self.needed(step)
            if needed:
                loops = [If(nodes.both(needed), tuple(loops), source=step.source)]
            made += [nodes.Scope(tuple(loops))] if len(following) > 1 and not needed else loops  # with rows of its own
        return made

    def lane_reduction(self, part: Part, formula: Formula, others: Sequence[Part], walk: Walk) -> tuple[Stmt, ...]:
        """Reductions along lanes: a fixed number of sums for each, which are combined at the end."""
        values = self.values_of(part.target.tensor)
        assert self.lanes is not None
        tests, formula = choices.only_where(part, formula, self.lanes.name)
        row = Row(self, values, part, formula)
        steps = {f"sums_{self.sums}_": (part, formula)}
        steps |= {f"sums_{n}_": (other, other.formulas[0]) for n, other in enumerate(others, self.sums + 1)}
        self.sums += len(steps)
        rows = self.laned(walk.bounds, row.reduced(steps), part.source)
        rows = choices.where(self, part, tests, rows)
        inner = self.looped(walk.reduced, walk.bounds, rows, part.source)
        begun = [stmt for name, (one, _) in steps.items() for stmt in row.begun(one, name)]
        totals = [
            updated(values, one.operator, self.element(one.target), row.total(one, name), one.source)
            for name, (one, _) in steps.items()
        ]
        made = self.looped(walk.outer, walk.bounds, [*begun, *inner, *totals], part.source)
        alone = row.stands() and not (tests or walk.outer) and self.lane_span(walk.bounds) == (ZERO, self.along())
        whole = row_sums.whole(self, part, walk.reduced, walk.bounds) if alone else None
        return (whole, If(nodes.Unary("!", whole.condition), made, source=part.source)) if whole else made

    def beside(self, part: Part) -> tuple[Part, ...]:
        """The steps that follow a reduction and walk the same cells in the same loops: rows are read once for all.

        Sums of one step wait for each other, those of two do not. Gradients of layer norm of 4096x768 f32 take 0.82 of
        the time of one step after the other (AMD Zen 5, gcc 12.2).
        """
        found: list[Part] = []
        for other in self.phase.parts[self.phase.parts.index(part) :]:
            made = {one.target.tensor for one in found} & {read.tensor for read in (other.target, *other.reads)}
            if made or not self.sums_up(other) or (found and self._walked(other) != self._walked(part)):
                break
            if found and not {*part.reads} & {*other.reads}:
                break
            found.append(other)
        return tuple(found[1:])

    def sums_up(self, part: Part) -> bool:
        """Whether a step reduces whole rows of lanes, or in tiles of lanes that nothing follows."""
        alone = part.by or part.where or part in self.kept or len(part.formulas) != 1 or part.operator == "set"
        if self.lanes is None or alone:
            return False
        (formula,), lane = part.formulas, self.lanes.name
        walk, chosen = self.walk(part, formula), choices.only_where(part, formula, lane)[0]
        if not walk.laned or walk.bounds.low or walk.bounds.high or walk.bounds.tests or chosen:
            return False
        if self.blocked:
            follows = endings.following(self.phase, part, self.staged.private, lane)
            tiles = lane in expr.names(part.target) and possible(self, part, formula, walk.reduced, walk.bounds)
            return tiles and not follows and not self.in_tiles(part)
        row = Row(self, self.values_of(part.target.tensor), part, formula)
        return self.is_number(part.target.tensor) and not self.needed(part) and not row.stands()

    def _walked(self, part: Part) -> tuple[object, ...]:
        walk = self.walk(part, part.formulas[0])
        many = rounds.several(self, part, walk.reduced)
        return walk.outer, walk.reduced, walk.bounds, self.values_of(part.target.tensor).accumulate, many

    def first(self, part: Part) -> tuple[Stmt, ...]:
        """The initial values of an intermediate."""
        array = self.program.arrays[part.target.tensor]
        if array.role != "between" or self.is_number(array.name):
            return ()
        guarded = any(Guards(self, part, formula).conditions() for formula in part.formulas)
        if part.operator == "set" and not guarded and plain(self.program, part):
            return ()
        block = block_of_tasks(self.program, self.phase)
        kept = {number: index for number, index in enumerate(part.target.indices) if self.of_tasks(part, number)}
        indices: list[expr.Expr] = []
        for number, index in enumerate(part.target.indices):
            axis, walker = array.axes[number], self.program.walks(array.name, number, index)
            others = [*indices, *(one for at, one in kept.items() if at != number)]  # one letter may walk two axes
            alone = walker is not None and not any(walker in expr.names(one) for one in others)
            whole = expr.Name(walker if walker and alone else axis.name)
            indices.append(expr.Number(0) if axis.kind == "ones" else kept.get(number, whole))
        known = {*self.phase.own, *self.block_number()}
        cell = Read(array.name, tuple(indices))
        body: tuple[Stmt, ...] = (
            Assign(self.element(cell), self.values_of(array.name).number(INITIAL[part.operator]), source=part.source),
        )
        names = [name for index in indices for name in self.program.letters if name in expr.names(index)]
        loops = [loop for n in names if n not in known for loop in self.loops_of(self.program.letters[n])]
        if self.lanes is not None and self.lanes.name in names:
            body = (For(self.lane_name(), *self.lane_span(Bounds()), body, source=part.source),)
        made = self.looped(loops, Bounds(), body, part.source)
        if block is None or self.block_number() or block not in (block_letter(self.program, one) for one in indices):
            return made
        first = Binary("%", self.scalar(expr.Name(block)), self.scalar(ROWS))
        return (If(Binary("==", first, ZERO), made, source=part.source),)

    def update(self, part: Part, value: expr.Expr) -> tuple[Stmt, ...]:
        """One cell of a step."""
        target, values = self.element(part.target), self.values_of(part.target.tensor)
        if part.operator == "set":
            copied = values.copied(value, self.dtype(part.target.tensor))
            return (Assign(target, copied, source=part.source),)
        return (running.combined(self, part, value),)
