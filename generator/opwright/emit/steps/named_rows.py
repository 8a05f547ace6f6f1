"""Rows of cells that indices name: where each lies is computed by vectors, then what is there is taken.

In: an element at `named(idx[n], K)`, where lanes run along n. Out: its row, in a buffer, with 0 where no cell is named,
so that compilers make vectors of what is computed from it, as they do not of cells that lie anywhere.
"""

from __future__ import annotations

from typing import TypeGuard

from ...language import expr
from ...language.expr import Read
from .. import nodes
from ..nodes import ZERO, Assign, Call, Conditional, DeclareArray, Do, Expr, For, Index, Name, Stmt
from .elements import ROOM, Elements

NOWHERE = Name("OPWRIGHT_NOWHERE")
LANE = Name("i_")


def is_row(read: Read, lane: str) -> bool:
    """Whether the cells of lanes are those that rows of numbers name."""
    named = [index for index in read.indices if lane in expr.names(index) and expr.reads(index)]
    return bool(named) and all(_names(index) and not _deeper(index, lane) for index in named)


def _names(index: expr.Expr) -> TypeGuard[expr.Call]:
    return isinstance(index, expr.Call) and index.function == "named"


def _deeper(index: expr.Expr, lane: str) -> bool:
    """Whether what an index reads lies where another index says."""
    return any(lane in expr.names(inner) and expr.reads(inner) for read in expr.reads(index) for inner in read.indices)


def taken(elements: Elements, read: Read, room: str, count: Expr, source: str) -> list[Stmt]:
    """The statements that fill a buffer with the row; places are those of the loop over lanes."""
    named = [index for index in read.indices if _names(index)]
    tests = [Call("opwright_within", (*map(elements.scalar, index.arguments),)) for index in named]
    places = Name(room.replace("_room_", "_places_"))
    place = Conditional(nodes.both(tests), elements.place(read), NOWHERE)
    return [
        DeclareArray(places.name, "int64_t", ROOM),
        For(LANE.name, ZERO, count, (Assign(Index(places, LANE), place, source=source),), source=source),
        Do(
            Call(
                f"opwright_taken_{elements.dtype(read.tensor)}",
                (elements.pointer(read.tensor), places, count, Name(room)),
            )
        ),
    ]
