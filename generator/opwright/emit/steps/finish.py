"""The finishing function of a contraction, as C statements over sums that have just been computed.

In: a phase that processes the sums of the previous phase, the letter of its lanes, and a row of data types. Out:
the statements of a function that an engine calls with contiguous cells of these sums. Cells are numbered by the letters
of the phase's tasks, the letter of the lanes last, with all its axes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ...derive.phases import Phase, Staged
from ...derive.program import Array
from ...language.expr import Read
from ...language.model import Op
from .. import nodes
from ..nodes import ONE, ZERO, Assign, Binary, Call, Declare, Expr, For, If, Name, Scope, Stmt
from .elements import BEGIN, END, Term
from .lowering import Lowering

AT, CELLS, CELL = Name("at_"), Name("cells_"), Name("cell_")
TASK, ROW = Name("task_"), Name("row_")  # the row of a cell, and its first cell, counted from that of the call


class Finish(Lowering):
    """The loops of a phase over a range of cells with contiguous sums."""

    def __init__(self, op: Op, row: dict[str, str], found: Staged, phase: Phase, lanes: str) -> None:
        assert phase.finishes is not None
        self.sums_of = phase.finishes
        super().__init__(op, row, dataclasses.replace(found, private=found.private | {self.sums_of}), phase, lanes)

    def body(self) -> tuple[Stmt, ...]:
        """One pass per piece of a row, with as many cells as a block of the phase's tasks.

        Rows are counted: three divisions for each took as long as the arithmetic of 64 bytes.
        """
        inner = [statement for step in self.statements() for statement in step]
        along, block = self.along(), self.constant("block_", self.max_lanes())
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
        return (*nodes.used(self.declared.values(), Scope((*first, loop))), *first, loop)

    def order(self) -> list[str]:
        """The letters of the cells, all axes of that of the lanes last: the sums lie in this order."""
        return sorted(self.phase.own, key=lambda name: self.lanes is not None and name == self.lanes.name)

    def whole_block(self) -> list[Stmt]:
        return [Declare(self.lane_name(), BEGIN), Declare("n_", Binary("-", END, BEGIN))]

    def streams(self, target: Read) -> bool:
        return False  # its stretches are those of the engine's tiles

    def _between(self, array: Array, read: Read) -> Iterator[Term]:
        """The sums from the first cell of the range on."""
        if array.name != self.sums_of:
            yield from super()._between(array, read)
            return
        lane: Expr = self.name(self.lanes.name if self.lanes else "", len(self.axes) - 1)
        yield Term(Binary("+", AT, Binary("-", lane, BEGIN)), ONE, ONE)
