"""Short rows, a group at a time: each step runs for all tasks of a group before the next step does.

In: the steps of a task as statements, and what a task begins with. Out: the loop over the tasks of a part. The steps of
one row wait for each other, those of neighbouring rows do not: what a task remembers between steps gets a cell, or a
row, for each task of a group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from ...derive.phases import Phase
from ...language import expr
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
    Scope,
    Stmt,
    Unary,
    both,
)
from . import in_registers, short_rows
from .elements import Elements
from .values import OF_ROWS

TASKS = 16  # of a group, at most: the lanes of a vector
CELLS = 2048  # of all rows of a group, which stay in the first-level cache
RUNNING = {f"opwright_running_{kind}_{t}" for kind in ("sum", "product", "max", "min") for t in ("f32", "f64", "s64")}
RUNNING |= {one.replace("_f", "_of_f").replace("_s64", "_of_s64") for one in RUNNING}  # of rows that begin as copies
ROWS = ("opwright_sum_rows_", "opwright_product_rows_", "opwright_max_rows_", "opwright_min_rows_")
# Cells of rows of which as many have room there: running maxima of 500 x 1000 bf16 take 0.48 of the time of one by one
# (Intel Xeon, gcc 12.2), as s32 0.4.
LONG = 1024
TOGETHER = 4  # rows that running sums take at once: of 1024 x 1000 f64 0.4 of the time of one by one (AMD EPYC, Zen 4)
FUNCTIONS = {f"opwright_{name}_row_{t}" for name in OF_ROWS for t in ("f32", "f64")}
# Cells of rows, each step of which is left before a function and after it; of those that end within a vector.
SHORT, BROKEN, VECTOR = map(nodes.integer, (32, 64, 16))
BRIEF = Name("OPWRIGHT_BRIEF")  # cells of rows that are one run rather than vectors (c/rows.h)
TASK, GROUP, COUNT = Name("t_"), Name("group_"), Name("tasks_")
ONE_ROW, N = Name("one_row_"), Name("n_")


@dataclass(frozen=True)
class Grouped:
    """What the loop over groups is made of."""

    shared: Sequence[
        Declare
    ]  # what its tasks share: the letters of the first one, if they do not count up, and offsets
    left: Expr  # how many tasks follow one another from there on along one letter
    places: Mapping[str, Expr]  # letters of a task, as those of the first one and its place in the group
    begins: Sequence[Declare]  # the numbers that each task begins with, by name
    advance: Sequence[Stmt]  # makes the letters those of the next group
    steps: Sequence[Sequence[Stmt]]
    rows: Mapping[str, str]  # arrays with a row for each task: the type of their cells
    length: Expr  # of a row
    joins: Callable[[Set[str]], Expr | None]  # whether rows of neighbouring tasks follow one another in these arrays


def rows_of_tasks(elements: Elements, phase: Phase) -> dict[str, str] | None:
    """The private arrays that are a row along the lanes for each task, with their types; None if one is something else.

    So it is if a step walks another letter than those of tasks and lanes, but for one of a few values.
    """
    assert elements.lanes is not None
    lane, found = elements.lanes.name, dict[str, str]()
    letters = {name for part in phase.parts for name in part.letters} - {*phase.own, lane}
    if any(elements.program.letters[name].extent != expr.Number(1) for name in letters):
        return None
    for name in dict.fromkeys(part.target.tensor for part in phase.parts):
        array = elements.program.arrays[name]
        if name not in elements.staged.private or elements.is_number(name):
            continue
        own, walkers = elements.own_axes(array), elements.program.walkers(name)
        if {walkers[n] for n, axis in enumerate(array.axes) if n not in own and axis.kind != "ones"} != {lane}:
            return None
        found[name] = elements.c_type(name)
    return found


def in_groups(found: Grouped, first: Expr, end: Expr) -> list[Stmt]:
    """The loop over groups, after what stands before it."""
    wanted = nodes.names_of(statement for step in found.steps for statement in step)
    begins = [one for one in found.begins if one.name in wanted]
    numbers = {one.name: Index(Name(f"{one.name}_of_"), TASK) for one in begins}
    filled = [Assign(numbers[one.name], one.value) for one in begins]
    moved = Binary("*", TASK, found.length)
    rows = {name: Binary("+", Name(f"{name}_rows_"), moved) for name in found.rows}
    bodies = [
        tuple(placed(one, {**found.places, **numbers, **rows}) for one in _in_place(step)) for step in found.steps
    ]
    arrays = (DeclareArray(f"{one.name}_of_", one.c_type, TASKS) for one in begins)
    known = {f"{one.name}_of_" for one in begins}
    loops, fits = list[Stmt](), False
    loops += [For(TASK.name, ZERO, COUNT, tuple(filled))] if filled else []
    for body in bodies:
        step, after = _in_one_call(body, found)
        made = _in_two(body, found) or _of_group(step, after, found)
        run = _in_one_run((step, after), made, found, known)
        fits |= bool(run)
        forms = run or [_in_one_row(made[0], found, known), *made[1:]]
        loops += _in_vectors(body, forms, found, bool(run)) if not after else forms
    used, task = nodes.names_of((*loops, found.left)), Name("task_")
    shared = [one for one in found.shared if one.name in used]
    count = Declare(COUNT.name, Call("opwright_min", (GROUP, found.left)))
    moves = [*found.advance, Assign(task, Binary("-", COUNT, ONE), "+=")] if found.advance else []
    by = None if moves else GROUP
    return [*_before(found, fits), For(task.name, first, end, (*shared, count, *arrays, *loops, *moves), step=by)]


def _in_place(step: Sequence[Stmt]) -> list[Stmt]:
    """A step in which functions of rows are in place, as those of short rows are, whose cells are copied before."""
    made = list[Stmt]()
    for one in step:
        if isinstance(one, For):
            made.append(replace(one, body=(*_in_place(one.body),)))
        elif isinstance(one, Do) and _of_row(one.call):
            to, row, count = one.call.arguments
            cells = (Assign(Index(to, Name("i_")), Index(row, Name("i_"))),)
            made += [] if to == row else [For("i_", ZERO, count, cells)]
            made.append(Do(Call(one.call.function, (to, to, count))))
        else:
            made.append(one)
    return made


def _in_one_call(body: Sequence[Stmt], found: Grouped) -> tuple[Sequence[Stmt], list[Stmt]]:
    """A step of a task, and the call of a function for the rows of all tasks that the step would end with for each.

    Rows of few cells fill vectors in part: 20000 rows of 9 f32, tanh less their sum, take 0.28 of their time (Intel
    Xeon, gcc 12.2, one thread).
    """
    loop = body[-1] if body else None
    last = loop.body[-1] if isinstance(loop, For) and loop.body else None
    if not isinstance(loop, For) or not isinstance(last, Do) or not _of_row(last.call):
        return body, []
    function, arguments = last.call.function, last.call.arguments
    begins = [one.value for one in loop.body if isinstance(one, Declare) and Name(one.name) == arguments[0]]
    rows = [Name(f"{name}_rows_") for name in found.rows for value in begins if f"{name}_rows_" in nodes.names(value)]
    if len(rows) != 1:
        return body, []
    several = Binary(">", GROUP, ONE)
    kept = replace(loop, body=(*loop.body[:-1], If(Unary("!", several), (last,))))
    call = Call(function, (rows[0], rows[0], Binary("*", COUNT, found.length)))
    return (*body[:-1], kept), [If(several, (Do(call),))]


def _in_two(body: Sequence[Stmt], found: Grouped) -> list[Stmt]:
    """The same of a step that goes on with what the function makes, in a row of its own: before the call, and after it.

    Log-softmax of 20000 rows of 17 f32 that stores no exponentials takes 0.36 of its time, its gradient 0.45 (Intel
    Xeon, gcc 12.2, one thread): what was stored in part just now no vector loads soon. Of rows of 33 and 40 they take
    0.6 and 0.75. Of 48, which are whole vectors, the gradient would take 1.4, of 100 and 127 1.2.
    """
    at = next((n for n, one in enumerate(body) if isinstance(one, For)), len(body))
    loop = body[at] if at < len(body) else None
    if not isinstance(loop, For):
        return []
    calls = [(n, one.call) for n, one in enumerate(loop.body) if isinstance(one, Do) and _of_row(one.call)]
    if len(calls) != 1:
        return []
    place, call = calls[0]
    made = [one for one in loop.body if isinstance(one, DeclareArray) and Name(one.name) == call.arguments[0]]
    first, then = [one for one in loop.body[:place] if one not in made], loop.body[place + 1 :]
    known = [one for one in first if _makes(one, first)]
    filled = [one for one in first if one not in known]
    before = {one.name for one in body[:at] if isinstance(one, Declare)}
    if len(made) != 1 or not _fills(filled, call.arguments[0]) or nodes.names_of(first) & before:
        return []
    rows = Name(f"{made[0].name}rows_")
    begin = Binary("+", Binary("+", rows, Binary("*", TASK, found.length)), Name(loop.letter))
    known.append(Declare(made[0].name, begin, f"{made[0].c_type} *", changes=True))
    one, two = (replace(loop, body=(*_needed(known, some), *some)) for some in (filled, then))
    broken = both([Binary("<", found.length, BROKEN), Binary("!=", Binary("%", found.length, VECTOR), ZERO)])
    short = Binary("||", Binary("<", found.length, SHORT), broken)
    parted = (
        DeclareArray(rows.name, made[0].c_type, CELLS),
        For(TASK.name, ZERO, COUNT, (one,)),
        Do(Call(call.function, (rows, rows, Binary("*", COUNT, found.length)))),
        For(TASK.name, ZERO, COUNT, (*body[:at], two, *body[at + 1 :])),
    )
    return [If(short, parted), If(Unary("!", short), (For(TASK.name, ZERO, COUNT, tuple(body)),))]


def _of_row(call: Expr) -> TypeGuard[Call]:
    """Whether a call computes a function of a row."""
    return isinstance(call, Call) and call.function in FUNCTIONS


def _fills(statements: Sequence[Stmt], row: Expr) -> bool:
    """Whether statements fill a row and fetch others, and do nothing else."""
    loops = [one for one in statements if not isinstance(one, Do)]
    cells = [one for loop in loops if isinstance(loop, For) for one in loop.body]
    targets = [one.target for one in cells if isinstance(one, Assign)]
    return len(loops) == len(cells) == 1 and [one.array for one in targets if isinstance(one, Index)] == [row]


def _needed(known: Sequence[Stmt], body: Sequence[Stmt]) -> list[Stmt]:
    """The declarations that statements need, and the calls that fill them; compilers warn about unused ones."""
    wanted, needed = {*nodes.names_of(body)}, list[Stmt]()
    for one in reversed(known):
        if _makes(one, known) & wanted:
            wanted |= nodes.names(one)
            needed.insert(0, one)
    return needed


def _makes(one: Stmt, body: Sequence[Stmt]) -> Set[str]:
    """What a statement declares, or the arrays of a body that a call fills: rows of another type."""
    if isinstance(one, (Declare, DeclareArray)):
        return {one.name}
    arrays = {array.name for array in body if isinstance(array, DeclareArray)}
    return arrays & nodes.names(one) if isinstance(one, Do) else set()


def _of_group(body: Sequence[Stmt], after: Sequence[Stmt], found: Grouped) -> list[Stmt]:
    """The loop over the tasks of a group; a call that sums up a row of a task takes those of all."""
    loop: Stmt = For(TASK.name, ZERO, COUNT, tuple(body))
    whole = body[0] if body and len(body) == (2 if isinstance(body[0], If) else 1) else None
    first = whole.body[0] if isinstance(whole, If) else whole
    call = first.call if isinstance(first, Do) else None
    if not isinstance(call, Call) or not _of_rows(call.function) or call.arguments[1] == ZERO:
        return [loop, *after]
    tests = [whole.condition] if isinstance(whole, If) else []
    row, pitch, cells, _, *others = (_of_first(one, found) for one in call.arguments)
    several, together = Do(Call(call.function, (row, pitch, cells, COUNT, *others))), both(tests)
    return [If(together, (several,)), If(Unary("!", together), (loop,))] if tests else [several]


def _of_first(code: Any, found: Grouped) -> Any:
    """Code of the first task of a group."""
    for name, place in found.places.items():
        code = _instead(code, place, Name(name))
    return placed(code, {TASK.name: ZERO})


def _in_one_row(step: Stmt, found: Grouped, known: Set[str]) -> Stmt:
    """The loop over the tasks of a group, which takes rows that follow one another as one.

    So it does if a step knows no more of a task than where its rows are: running sums of rows of 7 bf16, which are
    converted before and after, take 0.16 of their time (Intel Xeon, gcc 12.2, one thread).
    """
    loop = step.body[0] if isinstance(step, For) and step.letter == TASK.name and len(step.body) == 1 else None
    if not isinstance(step, For) or not isinstance(loop, For) or loop.step is None:
        return step
    (count, *rest), names = loop.body, nodes.names(loop)
    whole = (loop.begin, loop.end) == (ZERO, found.length) and isinstance(count, Declare) and count.name == N.name
    if not whole or names & known:
        return step
    if (test := found.joins({name.removesuffix("_rows_") for name in names})) is None:
        return step
    assert isinstance(count, Declare)
    cells = Binary("*", COUNT, found.length)
    row = replace(loop, body=(replace(count, value=Conditional(ONE_ROW, cells, count.value)), *rest))
    join = Declare(ONE_ROW.name, both([test, Binary(">=", loop.step, cells)]), "int")
    return Scope((join, replace(step, end=Conditional(ONE_ROW, ONE, COUNT), body=(row,))))


def _in_one_run(
    step: tuple[Sequence[Stmt], Sequence[Stmt]], made: Sequence[Stmt], found: Grouped, numbers: Set[str]
) -> list[Stmt]:
    """A step, with what follows its loop, of all tasks at once where short rows follow one another, or as `made`."""
    body, after = step
    first: Callable[[Stmt], Stmt] = lambda one: _of_first(one, found)  # noqa: E731
    run = short_rows.one_run(body, found.length, numbers, first) if nodes.names_of(body) & numbers else None
    joined = found.joins({name.removesuffix("_rows_") for name in nodes.names_of(run or ())})
    if run is None or joined is None:
        return []
    one = Declare(ONE_ROW.name, short_rows.served(found.length, joined), "int")
    return [Scope((one, If(ONE_ROW, (*run, *after)), If(Unary("!", ONE_ROW), tuple(made))))]


def _in_vectors(body: Sequence[Stmt], forms: Sequence[Stmt], found: Grouped, short: bool) -> list[Stmt]:
    """A step in vectors, where these serve its rows, or in other `forms`, of which one is for `short` rows."""
    vectors = in_registers.vectors(body, found.length)
    if vectors is None:
        return [*forms]
    tests = [vectors[0], *([Binary(">", found.length, BRIEF)] if short else [])]
    return [Scope((*in_registers.either(both(tests), [For(TASK.name, ZERO, COUNT, tuple(vectors[1]))], forms),))]


def _of_rows(function: str) -> bool:
    """Whether a function takes rows of many tasks."""
    return function in RUNNING or function.startswith(ROWS)


def runs(step: Sequence[Stmt]) -> bool:
    """Whether a step makes running sums of rows by one call."""
    return any(isinstance(one, Do) and isinstance(one.call, Call) and one.call.function in RUNNING for one in step)


def _before(found: Grouped, fits: bool) -> list[Stmt]:
    """The number of tasks in a group, and room for their rows: a long row has it in scratch memory.

    If it `fits`, short rows of a group are one of a block's lanes.
    """
    cells = nodes.integer(CELLS)
    room = short_rows.room(found.length, cells) if fits else cells
    fit = Binary("/", room, Call("opwright_max", (found.length, ONE)))
    group: Expr = Call("opwright_max", (Call("opwright_min", (fit, nodes.integer(TASKS))), ONE))
    room_of_all = CELLS
    if any(map(runs, found.steps)):
        together = least = nodes.integer(TOGETHER)
        if found.rows:
            room_of_all = TOGETHER * LONG
            least = Conditional(Binary("<=", found.length, nodes.integer(LONG)), together, ONE)
        group = Call("opwright_max", (Binary("*", Binary("/", group, together), together), least))
    made: list[Stmt] = [Declare(GROUP.name, group)]
    for name, c_type in found.rows.items():
        room = Name(f"{name}_room_of_")
        place = Conditional(Binary(">", GROUP, ONE), room, Name(name))
        made += [
            DeclareArray(room.name, c_type, room_of_all),
            Declare(f"{name}_rows_", place, f"{c_type} *", changes=True),
        ]
    return made


def _instead(code: Any, what: Expr, by: Expr) -> Any:
    """Code with one value instead of another."""
    return by if code == what else nodes.mapped(code, lambda part: _instead(part, what, by))


def placed(code: Any, places: Mapping[str, Expr]) -> Any:
    """Code with what it knows of a task at its place in the group."""
    if isinstance(code, Name):
        return places.get(code.name, code)
    return nodes.mapped(code, lambda part: placed(part, places))
