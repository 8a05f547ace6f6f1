"""Rows of cells as vectors of lanes, from the first cell to the last: sums along a row, and a row that is set.

In: a step of a task, as statements. Out: the same for rows whose cells follow one another, in vectors that functions
read, combine and store, and the conditions under which calls have such rows. The last cells of a row are one vector
more, of which some lanes are used; loops over cells end one by one, and keep their sums in memory.

Gradients of softmax of 4700 rows of 64 f32 take 0.69 of the time of loops, of 2300 of 128 0.82, of bf16 0.69 and 0.75;
cosines of 3001 pairs of rows of 129 f32 0.56, layer norm of 1999 rows of 99 f32 0.79, bf16 0.8 (AMD EPYC, Zen 4, gcc
12.2, one thread).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

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
)
from .cache_lines import PAST
from .short_rows import CELL, LANE, WHOLE, N

USED, PADS = Binary(">", Name("OPWRIGHT_EACH"), ONE), "OPWRIGHT_PADS"
VECTORS = Name("vectors_")  # whether a call has such rows
LANES, SOME = "opwright_lanes_f32", nodes.integer(32)
STORED = {"f32": "float", "bf16": "opwright_bf16", "f16": "opwright_f16"}
TYPES = {f"{c_type} *": dtype for dtype, c_type in STORED.items()}
ROWS, PUTS, KEPT = ({f"opwright_{word}_{dtype}" for dtype in STORED} for word in ("row", "put", "kept"))
WIDENED = {"opwright_from_bf16": "bf16", "opwright_from_f16": "f16"}
LINES = {"opwright_put_line_bf16": "bf16", "opwright_put_line_f16": "f16"}
COMBINED = {"+": "plus", "-": "minus", "*": "times", "/": "over"}

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class _Row:
    """Where a row begins, how far its cells are apart, and what points to them."""

    begin: Expr
    step: Expr
    c_type: str

    @property
    def dtype(self) -> str:
        return TYPES.get(self.c_type.removeprefix("const "), "")


class _Other(Exception):  # noqa: N818  # named for what it says
    """A statement or a value of another form."""


def vectors(body: Sequence[Stmt], length: Expr | None = None) -> tuple[Expr, list[Stmt]] | None:
    """When a step of a task may be so, and its statements then; None of other steps, or of rows of another `length`."""
    try:
        return _Vectors().made(body, length)
    except _Other:
        return None


def either(test: Expr, some: Sequence[Stmt], others: Sequence[Stmt]) -> list[Stmt]:
    """Both forms of a step: in vectors where calls have such rows, and as it was."""
    return [Declare(VECTORS.name, test, "int"), If(VECTORS, (*some,)), If(Unary("!", VECTORS), (*others,))]


def chosen(body: Sequence[Stmt]) -> list[Stmt]:
    """The statements of a task, in which such steps have both forms."""
    made, held = list[Stmt](), list[Stmt]()
    for number, one in enumerate(body):
        if isinstance(one, If) and not held:
            made.append(replace(one, body=(*chosen(one.body),)))
            continue
        held.append(one)
        following = body[number + 1] if number + 1 < len(body) else None
        if _begins(one) or (_begins(held[0]) and isinstance(following, Assign) and _sums_up(following)):
            continue
        both = vectors(held)
        made += held if both is None else [Scope((*either(*both, held),))]
        held = []
    return [*made, *held]


def _begins(one: Stmt) -> bool:
    """Whether a statement is of those that begin sums of lanes."""
    room = isinstance(one, DeclareArray) and one.name.startswith("sums_")
    return room or (isinstance(one, For) and one.letter == LANE.name and one.end == SOME)


def _sums_up(one: Assign) -> bool:
    """Whether a statement adds up a sum of lanes."""
    return isinstance(one.value, Call) and one.value.function == "opwright_sum_of_f32"


def _a(kind: type[Kind], one: object) -> Kind:
    """A part of code, which is of this kind."""
    if not isinstance(one, kind):
        raise _Other
    return one


def _need(*tests: bool) -> None:
    """Leaves code of another form."""
    if not all(tests):
        raise _Other


class _Vectors:
    def __init__(self) -> None:
        self.rows, self.used = dict[str, _Row](), dict[str, None]()
        self.past = False  # whether rows are stored past the caches

    def made(self, body: Sequence[Stmt], length: Expr | None) -> tuple[Expr, list[Stmt]]:
        at = [n for n, one in enumerate(body) if isinstance(one, For) and one.step == Name("block_")]
        _need(len(at) == 1)
        loop, before, after = _a(For, body[at[0]]), body[: at[0]], body[at[0] + 1 :]
        _need(all(map(_begins, before)))
        sums = [one.name for one in before if isinstance(one, DeclareArray)]
        begun = [_a(Assign, one.body[0]).value for one in before if isinstance(one, For)]
        totals = dict(self.total(_a(Assign, one)) for one in after)
        _need(loop.begin == ZERO, length in (None, loop.end), len(begun) == len(sums), {*sums} == totals.keys())
        kept, loops = self.parted(loop.body)
        steps = (
            self.sums(loops, sums) if sums else [self.cells(one) if one.end == N else self.line(one) for one in loops]
        )
        _need(bool(steps))
        rows = [Declare(name, self.rows[name].begin, self.rows[name].c_type, changes=True) for name in self.used]
        first = [Declare(loop.letter, ZERO)] if loop.letter in nodes.names_of((*rows, *kept, *steps)) else []
        strides = dict.fromkeys(self.rows[name].step for name in self.used)
        tests = [Binary("==", stride, ONE) for stride in strides if stride != ONE]
        lanes = [
            Declare(name, Call("opwright_lanes_of_f32", (one,)), LANES, changes=True)
            for name, one in zip(sums, begun, strict=True)
        ]
        inner = Scope((*first, Declare(N.name, loop.end), *rows, *kept, *steps))
        return nodes.both([USED, *tests]), [*lanes, inner, *totals.values()]

    def total(self, one: Assign) -> tuple[str, Stmt]:
        """What adds a sum of lanes up, of the vectors."""
        _need(_sums_up(one))
        lanes = _a(Name, _a(Call, one.value).arguments[0])
        return lanes.name, replace(one, value=Call("opwright_sum_lanes_f32", (lanes,)))

    def parted(self, body: Sequence[Stmt]) -> tuple[list[Stmt], list[For]]:
        """The numbers that are the same along a row, and the loops; the rows are remembered."""
        kept, loops = list[Stmt](), list[For]()
        for one in body[1:]:
            if isinstance(one, Do):
                self.done(_a(Call, one.call))
            elif isinstance(one, For):
                _need(one.letter == CELL.name)
                loops.append(one)
            elif isinstance(one, If):
                _need(bool({PADS, WHOLE.name} & nodes.names(one.condition)))  # the last cells
            elif isinstance(one, Declare) and one.name == PAST.name:
                self.past = one.value != ZERO
            elif isinstance(one, Declare) and "*" in one.c_type:
                self.rows[one.name] = self.row(one.value, one.c_type.replace("restrict", "").strip())
            elif isinstance(one, Declare) and one.name != WHOLE.name:
                _need(one.c_type == "float", not self.rows.keys() & nodes.names(one.value))
                kept.append(one)
            else:
                _need(isinstance(one, (DeclareArray, Declare)))
        return kept, loops

    def done(self, call: Call) -> None:
        """What is called for whole rows: one of f16 is widened, or results are put where they belong."""
        if call.function == "opwright_from_row_f16":
            begin, step, count, copy = call.arguments
            _need(count == N)
            self.rows[_a(Name, copy).name] = _Row(begin, step, "const opwright_f16 *")
        else:
            _need(call.function in PUTS)

    def row(self, value: Expr, c_type: str) -> _Row:
        """A row that is declared."""
        if isinstance(value, Binary):
            return _Row(value, ONE, c_type)
        if isinstance(value, Conditional):
            test = _a(Binary, value.condition)
            _need(test.right == ONE)
            return replace(self.known(value.yes), step=test.left)
        call = _a(Call, value)
        if call.function in KEPT:
            return replace(self.known(call.arguments[0]), step=call.arguments[1])
        _need(call.function in ROWS)
        _need(call.arguments[2] == N)
        return _Row(call.arguments[0], call.arguments[1], c_type)

    def known(self, array: Expr) -> _Row:
        """The row that has a name."""
        name = _a(Name, array).name
        _need(name in self.rows)
        return self.rows[name]

    def sums(self, loops: Sequence[For], sums: Sequence[str]) -> list[Stmt]:
        """The loops that add the terms of each sum to its lanes."""
        _need(len(loops) == 1)
        _need(loops[0].end == WHOLE)
        made = dict[str, tuple[Stmt, Stmt]]()
        for one in loops[0].body:
            each = _a(For, one)
            term = _a(Assign, each.body[0])
            lanes = _a(Name, _a(Index, term.target).array)
            _need(len(each.body) == 1, term.operator == "+=", term.target == Index(lanes, LANE))
            value = _placed(term.value, Binary("+", CELL, LANE), CELL)
            whole, rest = (Call("opwright_plus_lanes", (lanes, self.value(value, some))) for some in (False, True))
            last = Call("opwright_first_lanes_of", (lanes, rest, Binary("-", N, CELL)))
            made[lanes.name] = (Assign(lanes, whole, source=term.source), Assign(lanes, last, source=term.source))
        _need(made.keys() == {*sums})
        return self.looped([whole for whole, _ in made.values()], [last for _, last in made.values()])

    def cells(self, loop: For) -> Stmt:
        """The loop that sets the cells of a row."""
        one = _a(Assign, loop.body[0])
        target = _a(Index, one.target)
        _need(len(loop.body) == 1, loop.step is None, target.at == CELL, one.operator in ("=", "+="))
        return self.put(target.array, one.value if one.operator == "=" else Binary("+", target, one.value), "f32")

    def line(self, loop: For) -> Stmt:
        """The loop that sets the cells of a row of 16 bits, a line at a time."""
        _need(loop.step == SOME, len(loop.body) > 1, not self.past)
        *before, fill, last = loop.body
        put, cell = _a(Call, _a(Do, last).call), _a(Assign, _a(For, fill).body[0])
        _need(put.function in LINES)
        _need(_a(For, fill).end == SOME, cell.target == Index(put.arguments[1], LANE))
        to, value = _a(Binary, put.arguments[0]), _placed(cell.value, Binary("+", CELL, LANE), CELL)
        for one in before:
            if isinstance(one, DeclareArray):
                continue
            call = _a(Call, _a(Do, one).call)
            _need(call.function == "opwright_from_line_f16")
            begin = _a(Binary, call.arguments[0])
            _need(begin.right == CELL)
            value = _placed(value, Index(call.arguments[1], LANE), Index(begin.left, CELL))
        _need(to.right == CELL, cell.operator == "=")
        return self.put(to.left, value, LINES[put.function])

    def put(self, row: Expr, value: Expr, dtype: str) -> Stmt:
        """What sets the cells of a row."""
        _need(self.known(row).dtype == dtype)
        self.used[_a(Name, row).name] = None
        to = Binary("+", row, CELL)
        function, rest = f"opwright_put_lanes_{dtype}", Binary("-", N, CELL)
        whole = Do(Call(function, (to, self.value(value, False), SOME)))
        last = Do(Call(function, (to, self.value(value, True), rest)))
        return Scope((*self.looped([whole], [last]),))

    def looped(self, whole: Sequence[Stmt], rest: Sequence[Stmt]) -> list[Stmt]:
        """Vectors, and one more of the last cells."""
        end = Binary("*", Binary("/", N, SOME), SOME)
        last = If(Binary("<", WHOLE, N), tuple(_placed(one, CELL, WHOLE) for one in rest))
        return [Declare(WHOLE.name, end), For(CELL.name, ZERO, WHOLE, tuple(whole), step=SOME), last]

    def value(self, tree: Expr, some: bool) -> Expr:
        """A value of lanes, `some` of which are cells of the row."""
        if CELL.name not in nodes.names(tree):
            return Call("opwright_lanes_of_f32", (tree,))
        if isinstance(tree, Binary) and tree.operator in COMBINED:
            sides = (self.value(tree.left, some), self.value(tree.right, some))
            return Call(f"opwright_{COMBINED[tree.operator]}_lanes", sides)
        if isinstance(tree, Call) and tree.function in WIDENED:
            return self.read(_a(Index, tree.arguments[0]), some)
        cell = _a(Index, tree)
        _need(self.known(cell.array).dtype != "bf16")  # whose cells are widened
        return self.read(cell, some)

    def read(self, cell: Index, some: bool) -> Expr:
        """The cells of a row as f32."""
        row = self.known(cell.array)
        _need(cell.at == CELL, row.dtype in STORED)
        self.used[_a(Name, cell.array).name] = None
        end = N if some else Binary("+", CELL, SOME)
        return Call(f"opwright_some_lanes_{row.dtype}", (cell.array, CELL, end))


def _placed(code: Any, what: Expr, by: Expr) -> Any:
    """Code with one value instead of another."""
    return by if code == what else nodes.mapped(code, lambda part: _placed(part, what, by))
