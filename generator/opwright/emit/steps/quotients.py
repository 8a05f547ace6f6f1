"""Quotients in the loops of a step: each is computed in the outermost loop that knows its letters, or kept in a table.

In: statements of a task, and the names that are known before them. Out: the same statements, with such quotients named
where their last letter changes; loops over single lanes take theirs from tables of as many lanes as a table holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

from .. import nodes
from ..nodes import ZERO, Assign, Binary, Call, Declare, Expr, For, If, Name, Stmt
from . import wholes
from .elements import BEGIN, END, ROOM
from .tasks import Tasks

FILLED = Name("filled_")  # the first lane that tables are of


def tabled(tasks: Tasks, steps: Sequence[Sequence[Stmt]]) -> list[tuple[Stmt, ...]]:
    """Steps whose loops over single lanes, all of a row, take quotients from tables, as many lanes at a time."""
    known, lane, row, room = {*tasks.declared}, tasks.lane_name(), tasks.along(), nodes.integer(ROOM)
    fill = If(Binary("!=", FILLED, BEGIN), ())

    def by_tables(code: Any) -> Any:
        if not isinstance(code, (For, If)):
            return code
        if not isinstance(code, For) or code.letter != lane:
            return nodes.mapped(code, by_tables)
        all_ = code.step is None and (code.begin, code.end) == (ZERO, row)
        body = wholes.tabled(code.body, known, lane, tasks.tables, tasks.taps().keys()) if all_ else code.body
        if body == code.body:
            return code
        end = Declare(END.name, Call("opwright_min", (Binary("+", BEGIN, room), row)))
        return For(BEGIN.name, ZERO, row, (end, fill, replace(code, begin=BEGIN, end=END, body=body)), step=room)

    made = [tuple(map(by_tables, step)) for step in steps]
    if not tasks.tables:
        return made
    filled = replace(fill, body=(*tasks.entries(), Assign(FILLED, BEGIN)))

    def filling(code: Any) -> Any:
        return filled if code is fill else nodes.mapped(code, filling)

    return [tuple(map(filling, step)) for step in made]


def hoisted(steps: Sequence[Sequence[Stmt]], known: AbstractSet[str]) -> list[tuple[Stmt, ...]]:
    """Steps whose inner loops use quotients by the names that outer loops give them."""
    hoisting = _Hoisting()
    return [hoisting.inside(step, known) for step in steps]


class _Hoisting:
    """The names of quotients, numbered within a function."""

    def __init__(self) -> None:
        self.count = 0

    def inside(self, body: Sequence[Stmt], known: AbstractSet[str]) -> tuple[Stmt, ...]:
        return tuple(self.statement(one, known) for one in body)

    def statement(self, one: Stmt, known: AbstractSet[str]) -> Stmt:
        if not wholes.has_quotient(one):
            return one
        if isinstance(one, For):
            within = known | {one.letter}
            found: dict[Expr, str] = {}
            body = tuple(self.named(inner, one.letter, within, found) for inner in one.body)
            begins = [Declare(name, value) for value, name in found.items()]
            return replace(one, body=(*begins, *self.inside(body, within | {*found.values()})))
        return replace(one, body=self.inside(one.body, known)) if isinstance(one, If) else one

    def named(self, code: Any, letter: str, known: AbstractSet[str], found: dict[Expr, str], deep: bool = False) -> Any:
        """Code with quotients of a loop's letter named if they stand in loops further in."""
        if letter not in nodes.names(code) or not wholes.has_quotient(code):
            return code
        if deep and isinstance(code, Call) and wholes.divides(code) and letter in nodes.names(code) <= known:
            if code not in found:
                found[code] = f"quotient_{self.count}_"
                self.count += 1
            return Name(found[code])
        return nodes.mapped(code, lambda inner: self.named(inner, letter, known, found, deep or isinstance(code, For)))
