"""The finishing function of a contraction, as C statements over sums that have just been computed.

In: a phase that processes the sums of the previous phase, the letter of its lanes, and a row of data types. Out:
the statements of a function that an engine calls with contiguous cells of these sums. Cells are numbered by the letters
of the phase's tasks, the letter of the lanes last, with all its axes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ...derive.phases import Phase, Staged
from ...derive.program import Array, Axis
from ...language import expr
from ...language.expr import Read
from ...language.model import Op
from .. import nodes
from ..nodes import ONE, ZERO, Assign, Binary, Call, Conditional, Declare, Expr, For, If, Name, Scope, Stmt
from . import together
from .elements import BEGIN, END, ROOM, Term
from .loops import Loop
from .lowering import Lowering

AT, CELLS, CELL = Name("at_"), Name("cells_"), Name("cell_")
TASK, ROW = Name("task_"), Name("row_")  # the row of a cell, and its first cell, counted from that of the call


class Finish(Lowering):
    """The loops of a phase over a range of cells with contiguous sums."""

    def __init__(self, op: Op, row: dict[str, str], found: Staged, phase: Phase, lanes: str) -> None:
        assert phase.finishes is not None
        self.sums_of = phase.finishes
        self.rows = ""  # the letter whose rows may be one
        super().__init__(op, row, dataclasses.replace(found, private=found.private | {self.sums_of}), phase, lanes)

    def body(self) -> tuple[Stmt, ...]:
        """One pass per piece of a row, with as many cells as a block of the phase's tasks.

        Rows are counted: three divisions for each took as long as the arithmetic of 64 bytes.
        """
        self.begun()
        inner = [statement for step in self.statements() for statement in step]
        along, block = self.along(), self.constant("block_", self.longest())
        rest, column = Binary("-", CELLS, AT), Binary("-", AT, ROW)
        end = Call("opwright_min", (Binary("+", BEGIN, Call("opwright_min", (block, rest))), along))
        first = (
            Declare("task_", Binary("/", CELL, along), changes=True),
            Declare("row_", Binary("-", Binary("*", TASK, along), CELL), changes=True),
        )
        body = (
            If(Binary("==", column, along), (Assign(TASK, ONE, "+="), Assign(ROW, AT))),
            Declare("begin_", column),
            Declare("end_", end),
            *self.digits_of_task(
                [(loop.name, loop.extent) for name in self.order() for loop in self.own_loops(name)], TASK
            ),
            *self.of_task(),
            *(Declare(name, value) for value, name in self.wholes.items()),
            *self.numbers(),
            *inner,
        )
        step = Call("opwright_min", (block, Binary("-", along, column)))
        loop = For("at_", ZERO, CELLS, body, step=step)
        made = (*self.repeated, *first, loop)
        return (*nodes.used(self.declared.values(), Scope(made)), *made)

    def begun(self) -> None:
        """Whether a call has short rows that are one long row."""
        rows = together.letter(self, self.sums_of, self.order())
        spatial = bool(rows) and self.program.letters[rows].kind == "spatial"
        if rows and (not spatial or self.plain(rows)):
            run = [self.run_of(self.program.letters[rows])] if spatial else []
            test = nodes.both([*together.tests(self, self.sums_of, rows), *run])
            self.constant(together.TOGETHER.name, test, "int")
            self.rows = rows

    def longest(self) -> Expr:
        """The lanes of a block."""
        longest, room = self.max_lanes(), nodes.integer(ROOM)
        return Conditional(together.TOGETHER, room, longest) if self.rows and longest != room else longest

    def order(self) -> list[str]:
        """The letters of the cells, all axes of that of the lanes last: the sums lie in this order."""
        return sorted(self.phase.own, key=lambda name: self.lanes is not None and name == self.lanes.name)

    def own_loops(self, letter: str) -> list[Loop]:
        """The loops of a letter: one over all its cells, and the others with one round, where its axes are one run."""
        axis, loops = self.program.letters[letter], super().own_loops(letter)
        if axis.kind == "spatial" and self.plain(letter):
            last = self.copies(axis)[-1][0]
            loops = [
                dataclasses.replace(
                    loop, extent=self.merged(axis, self.cells(axis) if loop.name == last else ONE, loop)
                )
                for loop in loops
            ]
            self.ones |= {loop.extent for loop in loops if loop.name != last}
        if letter == self.rows:
            *outer, inner = loops
            extent = self.constant(f"{letter}_rows_", Conditional(together.TOGETHER, ONE, inner.extent))
            self.ones.add(extent)
            loops = [*outer, dataclasses.replace(inner, extent=extent)]
        return loops

    def along(self) -> Expr:
        """The cells of a row: of all axes of the letter of the lanes where they are one run, else of the last."""
        assert self.lanes is not None
        if self.rows:
            rows = self.cells(self.program.letters[self.rows])
            whole = Conditional(together.TOGETHER, Binary("*", rows, super().along()), super().along())
            return self.constant("along_", whole)
        if self.lanes.kind != "spatial" or not self.plain(self.lanes.name):
            return super().along()
        last = Loop(self.lanes.name, self.lane_name(), super().along())
        return self.merged(self.lanes, self.cells(self.lanes), last)

    def plain(self, letter: str) -> bool:
        """Whether a letter of spatial axes stands in indices only, alone on its axis."""
        for part in self.phase.parts:
            for read in (part.target, *part.reads):
                axes = self.program.arrays[read.tensor].axes
                for axis, index in zip(axes, read.indices, strict=True):
                    if letter in expr.names(index) and (axis.kind != "spatial" or index != expr.Name(letter)):
                        return False
            outside = [formula.value for formula in part.formulas]
            for read in part.reads:
                outside = [expr.replaced(value, read, expr.Number(0)) for value in outside]
            if any(letter in expr.names(tree) for tree in (*outside, *(guard.tree for guard in part.where))):
                return False
        return True

    def cells(self, letter: Axis) -> Expr:
        return nodes.chain("*", [self.extent(letter, number) for _, number in self.copies(letter)], ONE)

    def merged(self, letter: Axis, cells: Expr, loop: Loop) -> Expr:
        """The extent of a loop if the axes of its letter lie in every array as one run, and if not."""
        return self.constant(f"{loop.name}whole_", Conditional(self.run_of(letter), cells, loop.extent))

    def run_of(self, letter: Axis) -> Expr:
        """Whether the axes of a letter lie in every array as one run."""
        return self.constant(f"{letter.name}_run_", nodes.both(self.run_tests(letter)), "int")

    def run_tests(self, letter: Axis) -> list[Expr]:
        """That cells along each axis but the last follow those of the next ones, in all arrays of the call."""
        tests: list[Expr] = []
        *outer, (_, last) = self.copies(letter)
        for read in dict.fromkeys(read for part in self.phase.parts for read in (part.target, *part.reads)):
            array = self.program.arrays[read.tensor]
            for number, index in enumerate(read.indices):
                if index != expr.Name(letter.name) or array.role == "between":
                    continue
                size = self.extent(letter, last)
                for _, copy in reversed(outer):
                    here, step = self.stride(array.name, number, copy), self.stride(array.name, number, last)
                    follows = Binary("==", here, Binary("*", size, step))
                    tests.append(Binary("||", Binary("==", self.extent(letter, copy), ONE), follows))
                    size = Binary("*", self.extent(letter, copy), size)
        return list(dict.fromkeys(tests))

    def whole_block(self) -> list[Stmt]:
        return [Declare(self.lane_name(), BEGIN), Declare("n_", Binary("-", END, BEGIN))]

    @property
    def long_rows(self) -> bool:
        return False  # those of images are short

    def streams(self, target: Read) -> bool:
        return False  # its stretches are those of the engine's tiles

    def _between(self, array: Array, read: Read) -> Iterator[Term]:
        """The sums from the first cell of the range on."""
        if array.name != self.sums_of:
            yield from super()._between(array, read)
            return
        lane: Expr = self.name(self.lanes.name if self.lanes else "", len(self.axes) - 1)
        yield Term(Binary("+", AT, Binary("-", lane, BEGIN)), ONE, ONE)
