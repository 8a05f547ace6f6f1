"""A row that is stored a cache line at a time, past the caches where the output is large.

In: how the value at a position of the row is computed. Out: the loops over lanes. Compilers make vectors of the cells
of a line, which need no test of whether rows overlap, and keep them in registers until they are stored. A row that one
cell makes is read at the same place for every line. Where cells of a narrower type are read, several lines are made at
once, of as many cells as one line has of those: of fewer, compilers make vectors of half a line, which a load of the
whole line waits for. 1M bf16 as f32 take 0.23 of the time, as many u8 dequantized 0.26 (AMD Zen 5, gcc 12.2).
Values with costly functions take longer than any store: their rows stay as they are.

Figures: one thread of an AMD Zen 4, gcc 12.2, f32: a sum of two arrays of 16M cells takes 0.5 of the time that it takes
with rows of 512 cells in room that are then stored past the caches; of 2048 x 1 and 1 x 512 0.57 of that with a row
filled with the one cell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace

from ...derive.rewrites.sharing import COSTLY
from ...language import expr
from .. import nodes
from ..nodes import ONE, ZERO, Assign, Binary, Call, Declare, DeclareArray, Do, Expr, For, If, Index, Name, Stmt
from . import row_ends
from .elements import product

Ends = tuple[list[Stmt], list[Expr]]  # copies of the ends of rows, and values of these
LINE = 64  # bytes
HALF = 2  # bytes of cells of 16 bits
UNDONE = 16  # iterations
N, WHOLE, LANE = Name("n_"), Name("whole_"), Name("j_")
LEFT = Binary("-", N, WHOLE)
BEGINS = (Name("i_"), WHOLE)  # where a line begins in its row, and what follows the last one
PAST, CELLS = Name("past_"), Name("cells_")
WIDE = Name("wide_")  # values of f32 before they are narrowed


def costly(value: expr.Expr) -> bool:
    """Whether a value takes longer to compute than to store."""
    return any(isinstance(node, expr.Call) and node.function in COSTLY for node in expr.walk(value))


def cells_of(size: int) -> Expr:
    """How many cells of so many bytes a line has."""
    return nodes.integer(LINE // size)


def declared(row: str, step: Expr, size: int, narrow: int, rows: Expr) -> list[Stmt]:
    """The cells of whole lines, and whether they are stored past the caches: where so many `rows` are large."""
    count, bytes_ = cells_of(narrow), product(N, nodes.integer(size))
    past = Call("opwright_past", (Name(row), step, bytes_, rows)) if rows != ZERO else ZERO
    return [
        Declare(WHOLE.name, Binary("*", Binary("/", N, count), count)),
        Declare(PAST.name, past, "int"),
    ]


def stored(row: str, c_type: str, size: int, narrow: int, make: Callable[[Expr], Expr], source: str) -> list[Stmt]:
    """The loop over lines, and that over the cells behind the last one; `narrow` is the size of the narrowest cells."""
    count = cells_of(narrow)
    line, rest = (make(Binary("+", begin, LANE)) for begin in BEGINS)
    # Before they look for vectors, compilers undo loops of 16 iterations, unless they are asked not to.
    once = 1 if LINE // narrow <= UNDONE else 0
    inner = For(LANE.name, ZERO, count, (Assign(Index(CELLS, LANE), line, source=source),), source=source, unroll=once)
    lines = [nodes.integer(line * (LINE // size)) for line in range(size // narrow)]
    begins = [BEGINS[0] if line == ZERO else Binary("+", BEGINS[0], line) for line in lines]
    cells = [CELLS if line == ZERO else Binary("+", CELLS, line) for line in lines]
    puts = [
        Do(Call("opwright_put_line", (Binary("+", Name(row), at), some, PAST)))
        for at, some in zip(begins, cells, strict=True)
    ]
    last = Assign(Index(Name(row), Binary("+", WHOLE, LANE)), rest, source=source)
    array = DeclareArray(CELLS.name, c_type, LINE // narrow)
    return [
        For("i_", ZERO, WHOLE, (array, inner, *puts), step=count, source=source),
        For(LANE.name, ZERO, Binary("-", N, WHOLE), (last,), source=source),
    ]


def rounded(
    row: str, narrow: int, make: Callable[[Expr], Expr], source: str, stands: str, ends: Callable[[Expr], Ends | None]
) -> list[Stmt]:
    """The same of values that are rounded to bf16: lines of f32 are made first, or `stands` is a row of them.

    Compilers join the test for NaN of `opwright_to_bf16` with those of a value, of which rounding is no part here: hard
    swish of 256 cells takes 31 ns in place of 42, x * y * x 17 in place of 19. Cells behind the last line are made of
    copies of the `ends` of rows: gradients of softmax of 63 cells take 0.53 of the time of one by one (Intel Xeon,
    Sapphire Rapids, gcc 12.2).
    """
    count, (first, rest) = LINE // narrow, BEGINS
    made = Assign(Index(WIDE, LANE), make(Binary("+", first, LANE)), source=source)
    once = 1 if count <= UNDONE else 0
    fill = For(LANE.name, ZERO, nodes.integer(count), (made,), source=source, unroll=once)
    array = DeclareArray(WIDE.name, "float", count)

    def put(line: int) -> Stmt:
        at = Binary("+", first, nodes.integer(line)) if line else first
        wide = Binary("+", Name(stands), at) if stands else Binary("+", WIDE, nodes.integer(line)) if line else WIDE
        return Do(Call("opwright_put_line_bf16", (Binary("+", Name(row), at), wide, PAST)))

    puts = (put(line) for line in range(0, count, LINE // 2))
    behind, first_behind = Binary("+", rest, LANE), Binary("+", Name(row), rest)
    value = make(behind)
    last = Assign(Index(Name(row), behind), Call("opwright_to_bf16", (value,)), source=source)
    left: Sequence[Stmt] = (For(LANE.name, ZERO, LEFT, (last,), source=source),)
    if count == LINE // HALF and stands:
        left = (Do(Call("opwright_put_end_bf16", (first_behind, Binary("+", Name(stands), rest), LEFT))),)
    elif count == LINE // HALF and (found := ends(value)) is not None:
        copies, (value,) = found
        fill_end = replace(fill, body=(Assign(Index(WIDE, LANE), value, source=source),))
        put_end = Do(Call("opwright_put_end_bf16", (first_behind, WIDE, LEFT)))
        left = row_ends.either([*copies, array, fill_end, put_end], left, source)
    return [
        For("i_", ZERO, WHOLE, (*(() if stands else (array, fill)), *puts), step=nodes.integer(count), source=source),
        *left,
    ]


def halved(
    row: str,
    narrow: int,
    make: Callable[[Expr], tuple[list[Stmt], Expr]],
    source: str,
    ends: Callable[[Expr, Set[str]], Ends | None],
) -> list[Stmt]:
    """The same of values that are stored as f16, whose conversions are instructions that no loop becomes.

    `make` gives what widens the cells from a place on, and a value of them. Lines stay in registers: 1M cells of
    min(max(x, -1), 1) take 0.4 of the time of rows of 512 that are converted before and after (AMD Zen 3, gcc 12.2).
    Cells behind the last line are one more, with zeros behind and copies of the `ends` of other rows: gradients of
    softmax of 63 cells take 0.78 of the time of fewer cells, which vectors wait for (Sapphire Rapids, gcc 12.2).
    """
    count, (first, rest) = LINE // narrow, BEGINS
    wide = DeclareArray(WIDE.name, "float", count)

    def filled(value: Expr, end: Expr, unroll: int = 0) -> list[Stmt]:
        cell = Assign(Index(WIDE, LANE), value, source=source)
        return [wide, For(LANE.name, ZERO, end, (cell,), source=source, unroll=unroll)]

    def put(line: int) -> Stmt:
        more = nodes.integer(line)
        at, cells = (
            (Binary("+", Binary("+", Name(row), first), more), Binary("+", WIDE, more))
            if line
            else (Binary("+", Name(row), first), WIDE)
        )
        return Do(Call("opwright_put_line_f16", (at, cells, PAST)))

    widened, value = make(first)
    puts = (put(line) for line in range(0, count, LINE // 2))
    lines = (*widened, *filled(value, nodes.integer(count), 1 if count <= UNDONE else 0), *puts)
    widened, value = make(rest)
    put_end = Do(Call("opwright_to_row_f16", (WIDE, Binary("+", Name(row), rest), LEFT)))
    left: Sequence[Stmt] = [*widened, *filled(value, LEFT), put_end]
    copies: list[Stmt] = []
    own = {one.name for one in widened if isinstance(one, DeclareArray)}
    if narrow == HALF and (found := ends(value, own)) is not None:
        copies, (value,) = found
        whole = [*widened, *copies, *filled(value, Call("opwright_padded", (LEFT,))), put_end]
        left = row_ends.either(whole, left, source) if copies else whole
    behind = left if copies else [If(Binary("<", WHOLE, N), (*left,), source=source)]
    return [For("i_", ZERO, WHOLE, lines, step=nodes.integer(count), source=source), *behind]


def widened(name: str, row: Expr, begin: Expr, narrow: int) -> list[Stmt]:
    """The cells of a row of f16 from a place on as f32: those of a line, or those behind the last one."""
    count = LINE // narrow
    lines = [
        Do(
            Call(
                "opwright_from_line_f16",
                (Binary("+", row, nodes.integer(line)), Binary("+", Name(name), nodes.integer(line)))
                if line
                else (row, Name(name)),
            )
        )
        for line in range(0, count, LINE // 2)
    ]
    behind = Call("opwright_from_row_f16", (row, ONE, LEFT, Name(name)))
    if narrow == HALF:
        behind = Call("opwright_from_end_f16", (row, LEFT, Name(name)))
    return [DeclareArray(name, "float", count), *([Do(behind)] if begin == WHOLE else lines)]


def place(position: Expr, by: Expr | None) -> Expr:
    """The cell of a row at a position, where all lines begin at its first one if `by` is 0."""
    if by is None:
        return position
    assert isinstance(position, Binary)
    return Binary("+", Binary("*", position.left, by), position.right)
