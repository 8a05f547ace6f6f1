"""Rows of cells that indices name: where each lies is computed by vectors, then what is there is taken.

In: an element at `named(idx[n], K)`, where lanes run along n. Out: its row, in a buffer, with 0 where no cell is named,
so that compilers make vectors of what is computed from it, as they do not of cells that lie anywhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeGuard

from ...derive.algebra.conditions import conjunction
from ...derive.program import Program
from ...language import expr
from ...language.expr import Read
from .. import nodes
from ..nodes import ONE, ZERO, Assign, Binary, Call, Conditional, DeclareArray, Do, Expr, For, Index, Name, Stmt
from .elements import ROOM, Elements

NOWHERE = Name("OPWRIGHT_NOWHERE")
LANE = Name("i_")


def is_row(read: Read, lane: str) -> bool:
    """Whether the cells of lanes are those that rows of numbers name."""
    named = [index for index in read.indices if lane in expr.names(index) and expr.reads(index)]
    return bool(named) and all(_names(index) and not _deeper(index, lane) for index in named)


def _names(index: expr.Expr) -> TypeGuard[expr.Call]:
    return isinstance(index, expr.Call) and index.function == "named"


def _told(index: expr.Call) -> tuple[expr.Expr, ...]:
    """What says whether a cell is there: its number and how many there are, or its offset."""
    told = index.arguments
    return told[:1] if len(told) == 3 else (told[0], told[-1])


def _deeper(index: expr.Expr, lane: str) -> bool:
    """Whether what an index reads lies where another index says."""
    return any(lane in expr.names(inner) and expr.reads(inner) for read in expr.reads(index) for inner in read.indices)


def there(integer: Callable[[expr.Expr], Expr], told: Sequence[expr.Expr]) -> Expr:
    """Whether there is a cell, by its number and the extent of its axis, or by its offset."""
    if len(told) == 2:
        return Call("opwright_within", (*map(integer, told),))
    return Binary("!=", integer(told[0]), NOWHERE)


def is_nothing(found: Program, value: expr.Expr, tests: Sequence[expr.Expr], lane: str) -> bool:
    """Whether a value of rows is 0, without a sign, where there is no cell that tests name."""
    if isinstance(value, expr.Binary) and value.op in "+*":
        return all(is_nothing(found, side, tests, lane) for side in expr.children(value))
    if not isinstance(value, Read):
        return value == expr.Number(0)
    named = {expr.Call("within", _told(index)) for index in value.indices if _names(index)}
    return (is_row(value, lane) and named == {*tests}) or _is_zero(found, value, conjunction(tests))


def _is_zero(found: Program, value: Read, tests: expr.Expr) -> bool:
    """Whether one step alone makes an array, which is 0 where conditions do not hold: rewrites/offsets.py."""
    makers = [part for part in found.parts if part.target.tensor == value.tensor]
    if len(makers) != 1 or makers[0].target != value or makers[0].operator != "set" or makers[0].where:
        return False
    made = makers[0].formulas[0].value
    return isinstance(made, expr.Call) and made.function == "select" and made.arguments[::2] == (tests, expr.Number(0))


def taken(elements: Elements, read: Read, room: str, count: Expr, source: str) -> list[Stmt]:
    """The statements that fill a buffer with the row."""
    begin, places, made = _offsets(elements, read) or _places(elements, read, room, count, source)
    elements.position = None
    return [*made, Do(Call(f"opwright_taken_{elements.dtype(read.tensor)}", (begin, places, count, Name(room))))]


def _offsets(elements: Elements, read: Read) -> tuple[Expr, Expr, list[Stmt]] | None:
    """From where the cells of a row lie and how far, if an array has that as it stands."""
    indices = tuple(expr.Number(0) if _names(index) else index for index in read.indices)
    offset, *others = (index.arguments for index in read.indices if _names(index))
    begin = dataclasses.replace(read, indices=indices)
    alone = len(offset) == 3 and all(one[0] == offset[0] for one in others)
    if not alone or not isinstance(offset[0], Read) or elements.step(begin) != ZERO:
        return None
    elements.used.add(offset[0].tensor)
    return (elements.address(begin), elements.address(offset[0]), []) if elements.step(offset[0]) == ONE else None


def _places(elements: Elements, read: Read, room: str, count: Expr, source: str) -> tuple[Expr, Expr, list[Stmt]]:
    """The same of a row whose cells' places are computed first."""
    places = Name(room.replace("_room_", "_places_"))
    elements.position = LANE
    tests = dict.fromkeys(there(elements.scalar, _told(index)) for index in read.indices if _names(index))
    place = Conditional(nodes.both(tests), elements.place(read), NOWHERE)
    made = Assign(Index(places, LANE), place, source=source)
    lanes = For(LANE.name, ZERO, count, (made,), source=source)
    return elements.pointer(read.tensor), places, [DeclareArray(places.name, "int64_t", ROOM), lanes]
