"""What follows a contraction cell by cell, as C statements over sums that have just been made.

In: a phase that takes the sums of the phase before, the letter along which its lanes go, and a row of data types. Out:
the statements of a function that an engine calls with neighbouring cells of these sums. Cells are counted as the tasks
of the phase are, those along the letter of the lanes last.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ..derive.phases import Phase, Staged
from ..derive.program import Array
from ..language.expr import Read
from ..language.model import Op
from . import nodes
from .nodes import ONE, ZERO, Binary, Call, Declare, Expr, For, Name, Stmt
from .step_elements import BEGIN, Term
from .step_lowering import Lowering

AT, CELLS = Name("at_"), Name("cells_")


class Finish(Lowering):
    """The loops of a phase over a stretch of cells, whose sums lie side by side."""

    def __init__(self, op: Op, row: dict[str, str], found: Staged, phase: Phase, lanes: str) -> None:
        assert phase.finishes is not None
        self.sums_of = phase.finishes
        super().__init__(op, row, dataclasses.replace(found, private=found.private | {self.sums_of}), phase, lanes)

    def body(self) -> tuple[Stmt, ...]:
        """A pass for each stretch of a row, of as many cells as tasks of the phase have in a block."""
        inner = self.statements()
        along, block = self.along(), self.constant("block_", self.most_lanes())
        cell, rest = Binary("+", Name("cell_"), AT), Binary("-", CELLS, AT)
        end = Call("opwright_min", (Binary("+", BEGIN, Call("opwright_min", (block, rest))), along))
        body = (
            Declare("begin_", Binary("%", cell, along)),
            Declare("end_", end),
            Declare("task_", Binary("/", cell, along)),
            *self.digits_of_task(
                [(loop.name, loop.extent) for name in self.phase.own for loop in self.own_loops(name)], Name("task_")
            ),
            *self.of_task(),
            *(Declare(name, value) for value, name in self.wholes.items()),
            *self.numbers(),
            *inner,
        )
        step = Call("opwright_min", (block, Binary("-", along, Binary("%", cell, along))))
        loop = For("at_", ZERO, CELLS, body, step=step)
        return (*nodes.used(self.declared.values(), loop), loop)

    def streams(self, target: Read) -> bool:
        return False  # its stretches are those of the engine's tiles

    def _between(self, array: Array, read: Read) -> Iterator[Term]:
        """Of the sums, those from the first of the stretch on."""
        if array.name != self.sums_of:
            yield from super()._between(array, read)
            return
        lane: Expr = self.name(self.lanes.name if self.lanes else "", len(self.axes) - 1)
        yield Term(Binary("+", AT, Binary("-", lane, BEGIN)), ONE, ONE)
