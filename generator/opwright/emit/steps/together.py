"""Short rows of sums that are finished together: rows that follow one another in memory are one long row.

In: a phase that finishes sums, whose lanes are the last axis of all that it reads and writes, and the letter before
that. Out: a constant of the function, whether a call of it has such rows, and what stands for an array that is the same
row for all of them: its cells are repeated in a buffer. Calls decide by their strides.

GELU of 4096 rows of 64 sums with a bias and a residual: with their product 0.88 of the time in bf16, 0.93 in f32 (one
thread of an AMD Zen 5, gcc 12.2).
"""

from __future__ import annotations

import itertools

from ...derive.contraction import Contraction
from ...derive.roles import COLUMNS, ROWS
from ...language import expr
from ...language.expr import Read
from .. import nodes
from ..nodes import ONE, Binary, Call, Conditional, Declare, DeclareArray, Expr, Name
from .elements import ROOM, Elements, product

SHORT = 128  # cells of a row, at most
# Cells of rows that fill no vector, at the least: 2000 products of 12x20 by 20x11 with a bias take 0.41 of the time,
# 20000 transforms of 8x8 bf16 from both sides 0.33, but 20000x64 to 3 2.2 times as long (Intel Xeon, gcc 12.2, f32).
LEAST = 8
ALTERNATING = 3  # runs of rows and of columns among the letters of the sums, at most
TOGETHER, CELLS = Name("together_"), Name("cells_")


def letter(elements: Elements, sums: str, order: list[str]) -> str:
    """The letter whose rows may be one: that before the lanes; '' if there is none."""
    lane, parts = elements.lanes, elements.phase.parts
    if lane is None or lane.kind != "one" or len(order) < 2 or len(parts) != 1 or len(parts[0].formulas) != 1:
        return ""
    (part,), before, value = parts, elements.program.letters[order[-2]], parts[0].formulas[0].value
    reads = [part.target, *(read for read in part.reads if read.tensor != sums)]
    forms = {_form(elements, read, before.name, lane.name) for read in reads}
    if part.operator != "set" or part.where or part.by or before.kind == "run":
        return ""
    roles = [elements.program.arrays[read.tensor].role for read in reads]
    apart = expr.names_outside_indices(value).isdisjoint((before.name, lane.name))
    return before.name if roles == ["output", *["input"] * len(reads[1:])] and apart and "" not in forms else ""


def follows(elements: Elements, sums: Contraction) -> tuple[tuple[str, str], ...]:
    """The axes of tensors along which rows follow one another where they are one; none where they never are,

    or where rows and columns of the product alternate more than once, which would be many small products then.
    """
    assert elements.lanes is not None
    lane, name = elements.lanes.name, sums.target.tensor
    walked = [sums.roles.get(index.id, "") for index in sums.target.indices if isinstance(index, expr.Name)]
    sides = [role for role, _ in itertools.groupby(role for role in walked if role in (ROWS, COLUMNS))]
    rows = letter(elements, name, [*(one for one in elements.phase.own if one != lane), lane])
    if not rows or len(sides) > ALTERNATING:
        return ()
    reads = [one for part in elements.phase.parts for one in (part.target, *part.reads) if one.tensor != name]
    both = [one for one in reads if {rows, lane} <= expr.names(one)]
    axes = [(one.tensor, elements.program.arrays[one.tensor].axes) for one in both]
    places = [one.indices.index(expr.Name(rows)) for one in both]
    return tuple(dict.fromkeys((tensor, some[place].name) for (tensor, some), place in zip(axes, places, strict=True)))


def tests(elements: Elements, sums: str, rows: str) -> list[Expr]:
    """That rows are short, and follow one another."""
    assert elements.lanes is not None
    lane, (part,) = elements.lanes.name, elements.phase.parts
    cells = elements.extent(elements.lanes, 0)
    found: list[Expr] = [
        Binary("<=", cells, nodes.integer(SHORT)),
        Binary(">=", CELLS, Binary("*", nodes.integer(2), cells)),
    ]
    for read in dict.fromkeys((part.target, *part.reads)):
        if read.tensor == sums or lane not in expr.names(read):
            continue
        found.append(Binary("==", _stride(elements, read, lane), ONE))
        if rows in expr.names(read):
            found.append(Binary("==", _stride(elements, read, rows), cells))
    return list(dict.fromkeys(found))


def begin(elements: Elements, read: Read) -> Expr | None:
    """Where a row begins that is the same for all rows: in the buffer, where these are one; None of other rows."""
    if TOGETHER.name not in elements.declared or not _shared(elements, read):
        return None
    assert elements.lanes is not None
    name, room, dtype = f"{read.tensor}_begin_", f"{read.tensor}_cells_", elements.dtype(read.tensor)
    cells, c_type = elements.extent(elements.lanes, 0), elements.c_type(read.tensor)
    if not any(isinstance(one, Declare) and one.name == name for one in elements.repeated):
        count = Binary("+", Call("opwright_min", (CELLS, nodes.integer(ROOM))), cells)
        copies = Call(f"opwright_copies_{dtype}", (Name(read.tensor), cells, count, Name(room)))
        elements.used.add(read.tensor)
        elements.repeated += [
            DeclareArray(room, c_type, ROOM + 2 * SHORT),
            Declare(name, Conditional(TOGETHER, copies, Name(read.tensor)), f"const {c_type} *", changes=True),
        ]
    lane = Name(elements.lane_name())
    place = Conditional(TOGETHER, Binary("%", lane, cells), product(lane, _stride(elements, read, elements.lanes.name)))
    return Binary("+", Name(name), place)


def _form(elements: Elements, read: Read, rows: str, lane: str) -> str:
    """Whether a read is one of the `rows`, a row that they `share`, or a cell for all; '' if it is of no such form."""
    named = [name for index in read.indices for name in expr.names(index) if name in (rows, lane)]
    plain = [index.id for index in read.indices if isinstance(index, expr.Name)]
    if not {*named} <= {*plain}:
        return ""
    if _shared(elements, read):
        return "share"
    return {(rows, lane): "rows", (): "cell"}.get(tuple(sorted(named, key=(rows, lane).index)), "")


def _shared(elements: Elements, read: Read) -> bool:
    """Whether a row is the same for all values of the other letters."""
    assert elements.lanes is not None
    axes = elements.program.arrays[read.tensor].axes
    indices = [index for axis, index in zip(axes, read.indices, strict=True) if axis.kind != "ones"]
    return indices == [expr.Name(elements.lanes.name)]


def _stride(elements: Elements, read: Read, name: str) -> Expr:
    """The stride of the axis of an array that a letter walks, of the last one of several."""
    return elements.stride(read.tensor, read.indices.index(expr.Name(name)), len(elements.axes) - 1)
