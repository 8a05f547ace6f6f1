"""Steps that only set cells of an output to 0, or copy them from an input, as they are or with 0 added, by one call.

In: a step that is not the only one of its phase, and its loops; or a phase that copies short rows, and a letter of its
tasks. Out: calls of `opwright_clear_rows`, `opwright_copy_rows` or `opwright_zero_added_rows` (c/rows.h), which take
rows that follow one another as one. Padding of 8x57x55x30 bf16, channels last, takes 0.4 of the time of a loop over the
cells of each row (AMD Zen 5, gcc 12.2).
"""

from __future__ import annotations

from ...derive.algebra import slopes
from ...derive.phases import Phase, Staged
from ...derive.program import Formula, Part, given, summed_alone
from ...derive.rewrites.growing import growing
from ...language import expr
from ...language.dtypes import DTYPES
from ...language.expr import Number, Read
from ...language.model import Op
from .. import nodes
from ..nodes import ONE, ZERO, Assign, Binary, Call, Cast, Declare, Do, Expr, For, If, Name, Stmt
from .bounds import Bounds
from .elements import product
from .loops import Loop, Loops

SHORT = 512  # bytes of rows that are copied together
ROUNDED = {("f64", "f32"), ("s32", "f32"), ("s64", "f32"), ("s64", "f64")}  # sums that do not hold all cells
INDICES = ("s8", "u8", "s32", "s64")  # which short rows have as many cells of as f32 tells apart
FLOATS = ("bf16", "f16", "f32", "f64")  # of which -0 with 0 added is 0


def possible(loops: Loops, part: Part, formula: Formula) -> bool:
    """Whether a step sets cells of an output that other steps write, too, to 0 or to those of an input."""
    return sets(loops, part, formula) and not loops.streams(part.target)


def sets(loops: Loops, part: Part, formula: Formula) -> bool:
    """Whether a step sets cells of an output to 0 or to those of an input, and no rows are turned for it."""
    return copies(loops, part, formula) and not loops.crossing


def copies(loops: Loops, part: Part, formula: Formula) -> bool:
    """Whether a step sets cells of an output to 0 or to those of an input."""
    _, value = given(formula.value, loops.program.letters)
    added = summed_alone(value)
    value, target = added or value, part.target
    reads = [target, value] if isinstance(value, Read) else [target]
    arrays = [loops.program.arrays[read.tensor] for read in reads]
    moves = part.operator == "set" and (isinstance(value, Read) or value == Number(0))
    roles = [array.role for array in arrays] in (["output"], ["output", "input"])
    ones = all(axis.kind == "one" for array in arrays for axis in array.axes)
    alike = len({loops.dtype(read.tensor) for read in reads}) == 1
    walked = all(
        slopes.slope(index, name) is not None for read in reads for index in read.indices for name in part.letters
    )
    exact = added is None or (loops.dtype(target.tensor), loops.values_of(target.tensor).accumulate) not in ROUNDED
    return moves and exact and roles and ones and alike and walked


def moves_rows(op: Op, found: Staged, phase: Phase, letter: str) -> bool:
    """Whether several steps only set cells of rows along a letter of tasks, which is the last of all that they name.

    A frame around 4 x 156 rows of 157 pixels of 3 f32 takes 0.2 of the time of lanes along pixels (AMD EPYC, Zen 4,
    gcc 12.2).
    """
    rows = [Loops(op, row, found, phase, letter) for row in op.dtypes]
    forms = [(one, growing(op, found, phase, one.row, letter, one.is_number)[1]) for one in rows]
    steps = [(loops, part) for loops, form in forms for part in form.parts]
    lasts = {read.indices[-1:] for _, part in steps for read in (part.target, *part.reads)}
    plain = all(len(part.formulas) == 1 and not (part.by or part.where) for _, part in steps)
    own = letter in phase.own and len(phase.parts) > 1 and lasts == {(expr.Name(letter),)}
    return own and plain and all(sets(loops, part, part.formulas[0]) for loops, part in steps)


def in_order(loops: Loops, part: Part, formula: Formula, letters: list[str]) -> list[str]:
    """The letters of such a step in the order of what it writes, if none but these are its loops.

    A frame around 132 planes of 56x57 f32 whose columns a spec names first takes 0.3 of the time of its order, around
    4 x 156 rows of 157 pixels of 3 0.2 (AMD EPYC, Zen 4, gcc 12.2).
    """
    places = [[name for name in letters if name in expr.names(index)] for index in part.target.indices]
    found = [name for some in places for name in some]
    alone = all(len(some) < 2 for some in places) and len({*found}) == len(found)
    return found if alone and possible(loops, part, formula) else letters


def across(op: Op, phase: Phase, lane: str) -> tuple[Read, ...]:
    """What steps copy whose cells lie together along another letter than that of lanes of tasks: squares are turned.

    All of it is of inputs and outputs, of which calls know how cells lie.
    """
    made = {part.target.tensor for part in phase.parts}
    values = [formula.value for part in phase.parts for formula in part.formulas]
    reads = [one for one in values if isinstance(one, Read) and one.tensor not in made and lane in expr.names(one)]
    last = [one for one in reads if isinstance(one.indices[-1], expr.Name) and one.indices[-1] != expr.Name(lane)]
    known = {read.tensor for read in last} <= {tensor.name for tensor in op.tensors}
    only_set = all(part.operator == "set" for part in phase.parts) and len(phase.parts) > 1
    return tuple(last) if only_set and known and lane in phase.own and last == reads else ()


def short_rows(loops: Loops, letter: str) -> tuple[list[Expr], list[Stmt]]:
    """When a loop over a letter of tasks copies rows of few cells that follow one another, and the calls in its place.

    Nothing of a phase that does more. 123 x 197 rows of 32 f32 that change places take 0.55 to 0.75 of the time of rows
    that are copied alone, bf16 0.5 (AMD EPYC Zen 3, gcc 12.2).
    """
    lanes, parts, own = loops.lanes, loops.phase.parts, {*loops.phase.own}
    if lanes is None or lanes.kind != "one" or letter not in loops.program.letters:
        return [], []
    if any(part.by or part.where or len(part.formulas) != 1 for part in parts):
        return [], []
    cells = [lanes.name if lanes.name in own else "".join({*part.letters} - own) for part in parts]
    walked = [{*part.letters} == own | {cell} for part, cell in zip(parts, cells, strict=True)]
    named = [_named(loops, part, cell) for part, cell in zip(parts, cells, strict=True)]
    if not all(walked) or not all(one or sets(loops, part, part.formulas[0]) for part, one in zip(parts, named)):
        return [], []
    calls = [_row(loops, part, letter, cell, one) for part, cell, one in zip(parts, cells, named, strict=True)]
    if lanes.name not in own:  # there all rows would be copied by such calls
        return [], calls
    reads = [read for part, one in zip(parts, named) for read in (part.target, *(() if one else part.reads))]
    size = max(DTYPES[loops.dtype(part.target.tensor)].size for part in parts)
    bytes_ = product(loops.along(), nodes.integer(size))
    apart = [step for step in map(loops.step, reads) if step not in (None, ONE)]
    tests: list[Expr] = [Binary("==", step, ONE) for step in dict.fromkeys(apart) if step is not None]
    tests += [Binary("==", Name("blocks_"), ONE), Binary("<=", bytes_, nodes.integer(SHORT))]
    targets = dict.fromkeys(part.target.tensor for part in parts)  # whose whole lines go past the caches
    past = [Call("opwright_past", (Name(name), ONE, bytes_, Name("total_"))) for name in targets]
    tests += [nodes.Unary("!", one) for one in past]
    return tests, calls


def _row(loops: Loops, part: Part, letter: str, cell: str, named: tuple[expr.Expr, expr.Expr] | None) -> Stmt:
    """A call for all cells of several rows, and a loop over those of which one cell is named."""
    extent = loops.extent(loops.program.letters[cell], 0)
    begun = (Declare(cell, ZERO), Declare("n_", extent), *_calls(loops, part, part.formulas[0], letter, cell))
    if named is None:
        return nodes.Scope(begun)
    values, first, place = loops.values_of(part.target.tensor), Name("first_"), Name("named_")
    stored = values.copied(named[1], loops.dtype(part.target.tensor))
    put = (Declare(cell, place), Assign(loops.element(part.target), stored, source=part.source))
    inside = nodes.both([Binary("<=", ZERO, place), Binary("<", place, extent)])
    number = Cast("int64_t", loops.element(named[0])) if isinstance(named[0], Read) else values.integer(named[0])
    body = (Declare(place.name, number), If(inside, put))
    each = For(letter, first, Binary("+", first, Name("rows_")), body, source=part.source)
    return nodes.Scope((*begun, Declare(first.name, Name(letter)), each))


def _named(loops: Loops, part: Part, cell: str) -> tuple[expr.Expr, expr.Expr] | None:
    """Which of the cells of a row is not 0, and its value: `select(at[n] == k, value, 0)`; None of other steps.

    One-hot of 20000 x 100 u8 takes 0.1 of the time, 1000 diagonals of 65 u8 0.15 (AMD EPYC Zen 4, gcc 12.2).
    """
    value, letter, target = part.formulas[0].value, expr.Name(cell), part.target
    if part.operator != "set" or not isinstance(value, expr.Call) or value.function != "select":
        return None
    condition, some, none = value.arguments
    if none != Number(0) or not isinstance(condition, expr.Binary) or condition.op != "==":
        return None
    array = loops.program.arrays[target.tensor]
    ones = array.role == "output" and all(axis.kind == "one" for axis in array.axes)
    walks = [index for index in target.indices if cell in expr.names(index)] == [letter]
    sides = [condition.left, condition.right]
    places = [side for side in sides if side != letter]
    if not (ones and walks) or len(places) != 1 or cell in expr.names(places[0]) | expr.names(some):
        return None
    (place,) = places
    whole = (
        loops.dtype(place.tensor) in INDICES
        if isinstance(place, Read)
        else loops.values_of(target.tensor).is_whole(place)
    )
    return (place, some) if whole else None


def moved(
    loops: Loops, part: Part, formula: Formula, outer: list[Loop], bounds: Bounds, lane: bool
) -> tuple[Stmt, ...]:
    """The loops of such a step, with a call in place of the inner two: that of the lanes is the innermost."""
    cells = outer[-1].name if not lane else loops.lane_name()
    others = outer if lane else outer[:-1]
    low, high = loops.lane_span(bounds) if lane else bounds.span(cells, ZERO, outer[-1].extent)
    known = nodes.names_of((low, high))
    along = others[-1] if others and others[-1].name not in known and not bounds.tests.get(others[-1].name) else None
    body = _calls(loops, part, formula, along.name if along else "", cells)
    if along is not None:
        begin, end = bounds.span(along.name, ZERO, along.extent)
        rows = Binary("-", end, Name(along.name))
        body = (For(along.name, begin, end, (Declare("rows_", rows), *body), step=rows, source=part.source),)
    if lane:
        inner = loops.laned(bounds, body, part.source)
    else:
        count = Binary("-", high, Name(cells))
        inner = [For(cells, low, high, (Declare("n_", count), *body), step=count, source=part.source)]
    return loops.looped(others[: len(others) - (along is not None)], bounds, inner, part.source)


def _calls(loops: Loops, part: Part, formula: Formula, row: str, cell: str) -> tuple[Stmt, ...]:
    """The call for rows of a step; that which sets them to 0 in calls in which sizes are not as they have to be."""
    conditions, value = given(formula.value, loops.program.letters)
    copied = (Do(_call(loops, part, value, row, cell)),)
    if not conditions:
        return copied
    holds = nodes.both([loops.values_of(part.target.tensor).truth(one) for one in conditions])
    cleared = (Do(_call(loops, part, Number(0), row, cell)),)
    return If(holds, copied), If(nodes.Unary("!", holds), cleared)


def _call(loops: Loops, part: Part, value: expr.Expr, row: str, cell: str) -> Expr:
    added = summed_alone(value)
    value, target = added or value, part.target
    size = DTYPES[loops.dtype(target.tensor)].size
    count = (Name("rows_") if row else ONE, Name("n_"))
    loops.used.add(target.tensor)
    to = (loops.address(target), growth(loops, target, row), growth(loops, target, cell))
    if isinstance(value, Read):
        loops.used.add(value.tensor)
        source = (loops.address(value), growth(loops, value, row), growth(loops, value, cell))
        changes = added is not None and loops.dtype(target.tensor) in FLOATS
        return Call(f"opwright_{'zero_added' if changes else 'copy'}_rows_{size}", (*to, *source, *count))
    return Call(f"opwright_clear_rows_{size}", (*to, *count))


def growth(loops: Loops, read: Read, letter: str) -> Expr:
    """How far apart in memory the cells of neighbouring values of a letter are."""
    steps = []
    for axis, index in zip(loops.program.arrays[read.tensor].axes, read.indices, strict=True):
        growth = slopes.folded(slopes.slope(index, letter) or slopes.ZERO)
        if growth != slopes.ZERO:
            steps.append(product(loops.integer(growth, None), loops.member(f"{read.tensor}_{axis.name}")))
    return nodes.chain("+", steps, ZERO)
