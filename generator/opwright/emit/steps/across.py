"""Rows that lie across lanes, in a run of tasks: those of several are turned at once, and those of all are copied once.

In: what a step reads, and the first cell of its row. Out: the row. The memory for such rows is that of a function, so
that tasks keep it.
"""

from __future__ import annotations

from ...derive.algebra import slopes
from ...derive.crossing import place
from ...derive.rewrites.accumulating import loose_axes
from ...language import expr
from ...language.expr import Read
from ..nodes import ONE, Binary, Call, Conditional, DeclareArray, Expr, Name
from .elements import SQUARE, TURNED, Elements, product

FROM, TO, N = Name("from_"), Name("to_"), Name("n_")  # the tasks of a run, and the lanes of one


def row(elements: Elements, read: Read, step: Expr, at: Expr) -> Expr | None:
    """A row whose cells lie `step` apart, from `at` on; None if no tasks share it."""
    letter, dtype = elements.crossing, elements.dtype(read.tensor)
    if read in elements.crossed:
        array = elements.program.arrays[read.tensor]
        at_letter = place(read, letter)
        growth = elements.integer(slopes.folded(slopes.slope(read.indices[at_letter], letter) or slopes.ZERO), None)
        across = product(growth, elements.member(f"{array.name}_{array.axes[at_letter].name}"))
        number, rows = Binary("-", Name(letter), FROM), Binary("-", TO, FROM)
        kept = _kept(elements, read, step, SQUARE * TURNED)
        return Call(f"opwright_across_{dtype}", (at, step, across, N, number, rows, kept))
    if shares(elements, read):
        kept = _kept(elements, read, step, TURNED)
        made = Binary("||", Binary("==", Name(letter), FROM), Binary("==", step, ONE))
        return Conditional(made, Call(f"opwright_row_{dtype}", (at, step, N, kept)), kept)
    return None


def shares(elements: Elements, read: Read) -> bool:
    """Whether tasks share what is made of a read: a condition that is not that of all of them must not skip it."""
    alike = elements.crossing not in expr.names(read) and not loose_axes(elements.program, read)
    return bool(elements.crossing) and (read in elements.crossed or alike)


def _kept(elements: Elements, read: Read, step: Expr, cells: int) -> Expr:
    """Memory that tasks keep, for so many cells."""
    elements.buffered(step)
    number = sum(room.name.startswith(f"{read.tensor}_kept_") for room in elements.rooms)
    room = DeclareArray(f"{read.tensor}_kept_{f'{number}_' if number else ''}", elements.c_type(read.tensor), cells)
    elements.rooms.append(room)
    return Name(room.name)
