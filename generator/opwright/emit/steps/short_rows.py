"""Short rows of a group of tasks that follow one another, as one run: a step goes through all of them in one loop.

In: a step of the tasks of a group, as statements. Out: the same for all tasks at once. Numbers of tasks are repeated,
once for each cell of their rows; terms of a sum along a row are left in a row of their own, and the rows of the group
are summed up by one call, in the order in which each is summed by itself.

Each row by itself waits for what begins and ends it: gradients of softmax of 18750 rows of 16 f32 take 0.46 of the time
of row by row, of 33 0.58, of 48 0.74, of 63 0.73; of 64 they would take 0.95, of 128 1.4 (AMD EPYC, Zen 4, gcc 12.2,
one thread).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from .. import nodes
from ..nodes import (
    ONE,
    ZERO,
    Assign,
    Binary,
    Call,
    Conditional,
    Declare,
    DeclareArray,
    Do,
    Expr,
    For,
    If,
    Index,
    Name,
    Stmt,
)
from .cache_lines import LINE

LONGEST, TASKS = 63, 16  # cells of a row, and rows of a group, at the most
CELLS = LONGEST * TASKS
TASK, COUNT, N, WHOLE, CELL, LANE = map(Name, ("t_", "tasks_", "n_", "whole_", "i_", "j_"))
DTYPES = {"float": "f32", "double": "f64"}
TOTAL = re.compile(r"opwright_(sum|product)_of_(f32|f64)")  # extremes of zeros of both signs know an order


@dataclass(frozen=True)
class Sums:
    """What sums along rows leave: the loops that fill rows with their terms, the rows, and the calls that sum them."""

    arrays: Sequence[Stmt]
    loops: Sequence[Stmt]
    calls: Sequence[Stmt]


def served(length: Expr, joined: Expr) -> Expr:
    """Whether the rows of a group are one run, for which blocks of lanes have room; rows without cells are none."""
    room = Binary(">=", Name("block_"), Binary("*", length, Name("group_")))
    short = (Binary("<", ZERO, length), Binary("<=", length, nodes.integer(LONGEST)))
    return nodes.both([*short, joined, room])


def room(length: Expr, cells: Expr) -> Expr:
    """The cells of all rows of a group."""
    short = Binary("<=", length, nodes.integer(LONGEST))
    return Conditional(short, Call("opwright_min", (Name("block_"), cells)), cells)


def one_run(body: Sequence[Stmt], length: Expr, numbers: Set[str], first: Callable[[Stmt], Stmt]) -> list[Stmt] | None:
    """A step of all tasks at once, whose `numbers` are arrays with one of each task; None of other steps.

    `first` makes code of a task that of the first one.
    """
    places = [n for n, one in enumerate(body) if isinstance(one, For) and one.step == Name("block_")]
    loop = body[places[0]] if len(places) == 1 else None
    if not isinstance(loop, For) or (loop.begin, loop.end) != (ZERO, length):
        return None
    (count, *inner), before, after = loop.body, body[: places[0]], body[places[0] + 1 :]
    sums: Sums | None = Sums((), (), ())
    if before or after:
        at = next((n for n, one in enumerate(inner) if isinstance(one, For) and one.letter == CELL.name), len(inner))
        sums = _sums(before, inner[at:], after, length)
        inner = [one for one in inner[:at] if not isinstance(one, Declare) or one.name != WHOLE.name]
    if sums is None or not isinstance(count, Declare) or count.name != N.name:
        return None
    hoisted = _hoisted(inner, numbers)
    rest = [_spread(one, hoisted.keys()) for one in (*inner, *sums.loops) if one not in hoisted.values()]
    cells = replace(count, value=Binary("*", COUNT, length))
    run = first(replace(loop, body=(cells, *rest)))
    known = {loop.letter, N.name, *(one.name for one in inner if isinstance(one, Declare))} - hoisted.keys()
    if nodes.names(run) & (numbers | hoisted.keys()) or nodes.names_of(hoisted.values()) & known:
        return None
    return [*sums.arrays, *_repeated(hoisted, length), run, *sums.calls]


def _sums(before: Sequence[Stmt], loops: Sequence[Stmt], after: Sequence[Stmt], length: Expr) -> Sums | None:
    """The terms of sums that are begun, added to by lanes, and totalled; None of other reductions."""
    begun = {one.name: one.c_type for one in before if isinstance(one, DeclareArray)}
    first, *ends = loops or (None,)
    each = first.body if isinstance(first, For) and first.end == WHOLE else ()
    terms = [one.body[0] for one in each if isinstance(one, For) and one.letter == LANE.name and len(one.body) == 1]
    if not begun or {len(terms), len(after), len(before) / 2} != {len(begun)}:
        return None
    arrays, made, calls = list[Stmt](), list[Stmt](), list[Stmt]()
    for (name, c_type), term, total in zip(begun.items(), terms, after, strict=True):
        if not isinstance(total, Assign) or not isinstance(total.target, Index) or not isinstance(term, Assign):
            return None
        of = TOTAL.fullmatch(total.value.function) if isinstance(total.value, Call) else None
        if of is None or total.value != Call(of.group(), (Name(name),)) or total.target.at != TASK:
            return None
        if term.operator == "=" or term.target != Index(Name(name), LANE):
            return None
        row, (operator, kind) = Name(name.replace("sums", "terms")), of.groups()
        cell = Assign(Index(row, CELL), _placed(term.value, Binary("+", CELL, LANE), CELL), source=term.source)
        arrays.append(DeclareArray(row.name, c_type, CELLS))
        made.append(For(CELL.name, ZERO, N, (cell,), source=term.source))
        rows = Call(f"opwright_{operator}_rows_{kind}_{kind}", (row, length, length, COUNT, total.target.array))
        calls.append(Do(rows))
    return Sums(arrays, made, calls) if all(isinstance(one, (If, For)) for one in ends) else None


def _hoisted(inner: Sequence[Stmt], numbers: Set[str]) -> dict[str, Declare]:
    """The values that depend on numbers of tasks, and are the same along a row."""
    found = dict[str, Declare]()
    for one in inner:
        if isinstance(one, Declare) and one.c_type in DTYPES and nodes.names(one.value) & (numbers | found.keys()):
            found[one.name] = one
    return found


def _repeated(hoisted: Mapping[str, Declare], length: Expr) -> list[Stmt]:
    """Rows in which such a value of each task stands as often as its row has cells."""
    made, each = list[Stmt](), list[Stmt]()
    for name, one in hoisted.items():
        of = Name(f"{name}of_")
        made.append(DeclareArray(of.name, one.c_type, TASKS))
        each += [one, Assign(Index(of, TASK), Name(name))]
    made += [For(TASK.name, ZERO, COUNT, tuple(each))] if each else []
    for name, one in hoisted.items():
        dtype, room = DTYPES[one.c_type], Name(f"{name}room_")
        given = (Name(f"{name}of_"), ONE, ZERO, length, Binary("*", COUNT, length), room)
        row = Call(f"opwright_repeated_{dtype}", given)
        made.append(DeclareArray(room.name, one.c_type, CELLS + LINE))
        made.append(Declare(f"{name}row_", row, f"const {one.c_type} *", changes=True))
    return made


def _spread(one: Stmt, names: Set[str], place: Expr | None = None) -> Stmt:
    """A statement in whose loops over lanes names stand for cells of rows; elsewhere they stay."""
    if isinstance(one, For) and one.letter in (CELL.name, LANE.name):
        outer = WHOLE if place is None else place
        at = CELL if one.letter == CELL.name else Binary("+", outer, LANE)
        return replace(one, body=tuple(_spread(inner, names, at) for inner in one.body))
    if isinstance(one, (If, For)):
        return replace(one, body=tuple(_spread(inner, names, place) for inner in one.body))
    for name in names if place is not None else ():
        assert place is not None
        one = _placed(one, Name(name), Index(Name(f"{name}row_"), place))
    return one


def _placed(code: Any, what: Expr, by: Expr) -> Any:
    """Code with one value instead of another."""
    return by if code == what else nodes.mapped(code, lambda part: _placed(part, what, by))
