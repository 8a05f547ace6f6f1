"""A row of cells at an index that bends or goes around its axis, as pieces with one stride each.

In: a cell whose index on one axis has min or max of linear functions of the lane, such as a border that repeats or
mirrors cells, or is a quotient, so that each cell stands many times. Out: the statements that copy its row to room. The
lanes at which two of these functions cross end
the pieces: plain copies between short borders. Reflection of 4x64x112x112 f32 by 3 cells takes 0.3 of the time of
cells one at a time (AMD Zen 4, gcc 12.2).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from ...derive.algebra import slopes
from ...derive.program import Axis, Formula, Part
from ...language import expr
from ...language.dtypes import DTYPES
from ...language.expr import Binary, Call, Expr, Read, Unary
from .. import nodes
from ..nodes import ZERO, Assign, Declare, Do, For, Name, Scope, Stmt
from .elements import Elements

N, AT, HERE, PIECE = Name("n_"), Name("bend_"), Name("here_"), Name("piece_")
ADDED = (("f32", "f32"), ("f32", "bf16"), ("f64", "f64"))  # arrays, and what is added to them by pieces
MAX_FUNCTIONS = 4  # of one bend, which cross six times at most


def moved(elements: Elements, part: Part, value: Expr) -> nodes.Expr | None:
    """Where pieces of a row end that a step only copies, back or around bends; None if it does anything else."""
    if part.operator != "set" or not isinstance(value, Read) or elements.lanes is None or value in elements.crossed:
        return None
    lane = elements.lanes.name
    alike = elements.dtype(value.tensor) == elements.dtype(part.target.tensor) and value.tensor != part.target.tensor
    growths = [slopes.slope(index, lane) for index in value.indices]
    back = any(growth is not None and slopes.sign(growth, elements.minimum) < 0 for growth in growths)
    bent = any(growth is None for growth in growths)
    return ends(elements, value) if alike and lane in expr.names(value) and (back or bent) else None


def wrapped(elements: Elements, read: Read, room: nodes.Expr) -> nodes.Expr | None:
    """A row that goes around an axis, as pieces with one stride; None if it does not."""
    assert elements.lanes is not None
    lane = elements.lanes.name
    array, moving = elements.program.arrays[read.tensor], [lane in expr.names(index) for index in read.indices]
    axis, index = array.axes[moving.index(True)], read.indices[moving.index(True)]
    last, back = slopes.minus(axis.extent, expr.Number(1)), False
    if isinstance(index, Binary) and index.op == "-" and index.left == last:
        index, back = index.right, True
    if array.role == "between" or moving.count(True) > 1 or axis.kind != "one" or not isinstance(index, Binary):
        return None
    if index.op != "%" or index.right != axis.extent or slopes.slope(index.left, lane) != expr.Number(1):
        return None
    begin = last if back else expr.Number(0)
    first = tuple(begin if moves else at for at, moves in zip(read.indices, moving, strict=True))
    step: nodes.Expr = elements.member(f"{array.name}_{axis.name}")
    step = nodes.Unary("-", step) if back else step
    place, size = elements.integer(index.left, None), nodes.integer(DTYPES[elements.dtype(read.tensor)].size)
    start = elements.address(dataclasses.replace(read, indices=first))
    return nodes.Call("opwright_wrapped", (start, place, elements.extent(axis, 0), step, N, room, size))


def repeated(elements: Elements, read: Read, room: str) -> nodes.Expr | None:
    """A row at a quotient of the lane, `floor(k / 32)`, in which each cell stands many times; None if it is not."""
    assert elements.lanes is not None
    lane = elements.lanes.name
    array, moving = elements.program.arrays[read.tensor], [lane in expr.names(index) for index in read.indices]
    axis, index = array.axes[moving.index(True)], read.indices[moving.index(True)]
    if array.role == "between" or moving.count(True) > 1 or axis.kind != "one":
        return None
    quotient = index.arguments[0] if isinstance(index, Call) and index.function == "floor" else None
    if not isinstance(quotient, Binary) or quotient.op != "/" or lane in expr.names(quotient.right):
        return None
    if slopes.slope(quotient.left, lane) != expr.Number(1):
        return None
    first = tuple(expr.Number(0) if moves else at for at, moves in zip(read.indices, moving, strict=True))
    at, times = (elements.integer(side, None) for side in (quotient.left, quotient.right))
    start, step = (
        elements.address(dataclasses.replace(read, indices=first)),
        elements.member(f"{array.name}_{axis.name}"),
    )
    return nodes.Call(f"opwright_repeated_{elements.dtype(read.tensor)}", (start, step, at, times, N, Name(room)))


def added(elements: Elements, part: Part, formula: Formula, made: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """The loops of a step; the innermost adds cells where an index bends or goes around by a call for each piece.

    Gradients of 2000 rows of 501 f32 with a border that repeats cells take 0.2 of the time (AMD EPYC Zen 4, gcc 12.2).
    """
    loop = made[0] if len(made) == 1 else None
    if not isinstance(loop, For):
        return (*made,)
    if len(loop.body) == 1 and isinstance(loop.body[0], For):
        return (dataclasses.replace(loop, body=added(elements, part, formula, loop.body)),)
    value, target, letters = formula.value, part.target, elements.program.letters
    if part.operator != "sum" or not isinstance(value, Read) or loop.letter not in letters or loop.step is not None:
        return (*made,)
    kinds = (elements.dtype(target.tensor), elements.dtype(value.tensor))
    moving = [number for number, index in enumerate(target.indices) if loop.letter in expr.names(index)]
    straight = all(slopes.slope(index, loop.letter) is not None for index in value.indices)
    alone = len(loop.body) == 1 and isinstance(loop.body[0], Assign) and letters[loop.letter].kind == "one"
    if not (alone and straight) or kinds not in ADDED or len(moving) != 1 or value.tensor == target.tensor:
        return (*made,)
    axis, index = elements.program.arrays[target.tensor].axes[moving[0]], target.indices[moving[0]]
    numbers = any(map(elements.is_number, (target.tensor, value.tensor)))
    if numbers or slopes.slope(index, loop.letter) is not None or axis.kind != "one":
        return (*made,)
    at = Name(loop.letter)
    end: nodes.Expr | None
    if isinstance(index, Binary) and index.op == "%" and slopes.slope(index.left, loop.letter) == slopes.ONE:
        place = nodes.Call("opwright_modulo", (elements.integer(index.left, None), elements.integer(index.right, None)))
        left = nodes.Binary("-", elements.integer(index.right, None), place)
        end = nodes.Call("opwright_min", (loop.end, nodes.Binary("+", at, left)))
    else:
        end = _end(elements, (axis,), (index,), loop.letter, at, loop.end)
    if end is None:
        return (*made,)
    (to, to_step), (source, step) = (_walked(elements, read, loop.letter) for read in (target, value))
    count = Name("count_")
    call = nodes.Call("opwright_added_{}_{}".format(*kinds), (to, to_step, source, step, count))
    body = (Assign(count, nodes.Binary("-", end, at)), Do(call))
    pieces = For(loop.letter, loop.begin, loop.end, body, step=count, source=part.source)
    return (Scope((Declare(count.name, ZERO, changes=True), pieces)),)


def _walked(elements: Elements, read: Read, letter: str) -> tuple[nodes.Expr, nodes.Expr]:
    """Where the cell of a letter's value is, and how far the next one is apart."""
    elements.used.add(read.tensor)
    here = elements.place(read)
    following = _replaced(here, Name(letter), nodes.Binary("+", Name(letter), nodes.ONE))
    return elements.address(read), nodes.Binary("-", following, here)


def _replaced(code: Any, old: nodes.Expr, new: nodes.Expr) -> Any:
    return new if code == old else nodes.mapped(code, lambda inner: _replaced(inner, old, new))


def ends(elements: Elements, read: Read) -> nodes.Expr | None:
    """Where the piece of a row ends that begins at AT; None if its index is of another form."""
    assert elements.lanes is not None
    lane, along = elements.lanes.name, elements.program.arrays[read.tensor].axes
    return _end(elements, along, read.indices, lane, AT, N, Name(elements.lane_name()))


def _end(
    elements: Elements,
    along: Sequence[Axis],
    indices: Sequence[Expr],
    lane: str,
    at: nodes.Expr,
    end: nodes.Expr,
    begin: nodes.Expr = ZERO,
) -> nodes.Expr | None:
    """Where the piece ends that begins at `at`, counted from `begin`; None if an index is of another form."""
    found = end
    for axis, index in zip(along, indices, strict=True):
        if slopes.slope(index, lane) is not None:
            continue
        if axis.kind not in ("one", "spatial"):
            return None
        for bend in _bends(index, lane):
            if bend is None or len(bend) > MAX_FUNCTIONS:
                return None
            for one, other in itertools.combinations(bend, 2):
                difference = slopes.folded(Binary("-", one, other))
                growth = slopes.folded(slopes.slope(difference, lane) or slopes.ZERO)
                sign = slopes.sign(growth, elements.minimum)
                if sign == 0 and growth != slopes.ZERO:
                    return None
                if sign:
                    past = _crossing(elements, axis, difference, growth, lane)
                    past = past if begin == ZERO else nodes.Binary("-", past, begin)
                    found = nodes.Call("opwright_bend", (past, at, found))
    return found


def _crossing(elements: Elements, axis: Axis, difference: Expr, growth: Expr, lane: str) -> nodes.Expr:
    """The first value of a letter at which a difference that grows or shrinks has another sign than before."""
    rest = slopes.without(difference, lane)
    up = slopes.sign(growth, elements.minimum) > 0
    above, by = (slopes.negated(rest), growth) if up else (rest, slopes.negated(growth))
    copy = len(elements.axes) - 1 if axis.kind == "spatial" else None
    crossed = elements.integer(above, copy)
    if by != slopes.ONE:
        crossed = nodes.Call("opwright_floor_div", (crossed, elements.integer(by, copy)))
    return nodes.plus(crossed, nodes.ONE)


def pieces(elements: Elements, read: Read, room: str, end: nodes.Expr) -> list[Stmt]:
    """The statements that copy a row to room, of which pieces end at `end`."""
    elements.used.add(read.tensor)
    place, following = (_place(elements, read, at) for at in (AT, nodes.Binary("+", AT, nodes.ONE)))
    start, step = nodes.Binary("+", Name(read.tensor), HERE), nodes.Binary("-", following, HERE)
    to = nodes.Binary("+", Name(room), AT)
    copied = Do(nodes.Call(f"opwright_copied_{elements.dtype(read.tensor)}", (start, step, PIECE, to)))
    body = (Assign(PIECE, nodes.Binary("-", end, AT)), Declare(HERE.name, place), copied)
    return [Scope((Declare(PIECE.name, ZERO, changes=True), For(AT.name, ZERO, N, body, step=PIECE)))]


def _place(elements: Elements, read: Read, at: nodes.Expr) -> nodes.Expr:
    """Where the cell of a lane of the row is."""
    elements.position = at
    place = elements.place(read)
    elements.position = None
    return place


def _bends(tree: Expr, lane: str) -> Iterator[list[Expr] | None]:
    """The functions of each part of an index that bends; None for a part that is no minimum or maximum of such."""
    if slopes.slope(tree, lane) is not None:
        return
    if isinstance(tree, Call) and tree.function in ("min", "max"):
        yield _functions(tree, lane)
    elif isinstance(tree, (Unary, Binary)) and tree.op in "+-*":
        for child in expr.children(tree):
            yield from _bends(child, lane)
    else:
        yield None


def _functions(tree: Expr, lane: str) -> list[Expr] | None:
    """The linear functions among which min and max choose, also in sums: `last - max(w, -w)`."""
    if slopes.slope(tree, lane) is not None:
        return [tree]
    if isinstance(tree, Binary) and tree.op in "+-":
        left, right = _functions(tree.left, lane), _functions(tree.right, lane)
        return None if None in (left, right) else [Binary(tree.op, a, b) for a in left or () for b in right or ()]
    if not isinstance(tree, Call) or tree.function not in ("min", "max"):
        return None
    found = [_functions(argument, lane) for argument in tree.arguments]
    return None if None in found else [one for some in found for one in some or ()]
