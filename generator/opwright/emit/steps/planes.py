"""Steps that only set cells of an output to 0, or copy them from an input: two loops as one call.

In: a step that is not the only one of its phase, and its loops. Out: calls of `opwright_clear_rows` or
`opwright_copy_rows` (c/rows.h), which take rows that follow one another as one. Padding of 8x57x55x30 bf16, channels
last, takes 0.4 of the time of a loop over the cells of each row (AMD Zen 5, gcc 12.2).
"""

from __future__ import annotations

from ...derive.algebra import slopes
from ...derive.phases import Phase
from ...derive.program import Formula, Part
from ...language import expr
from ...language.dtypes import DTYPES
from ...language.expr import Number, Read
from .. import nodes
from ..nodes import ONE, ZERO, Binary, Call, Declare, Do, Expr, For, Name, Stmt
from .bounds import Bounds
from .elements import product
from .loops import Loop, Loops


def possible(loops: Loops, part: Part, formula: Formula) -> bool:
    """Whether a step sets cells of an output that other steps write, too, to 0 or to those of an input."""
    value, target = formula.value, part.target
    reads = [target, value] if isinstance(value, Read) else [target]
    arrays = [loops.program.arrays[read.tensor] for read in reads]
    moves = part.operator == "set" and (isinstance(value, Read) or value == Number(0))
    roles = [array.role for array in arrays] in (["output"], ["output", "input"])
    ones = all(axis.kind == "one" for array in arrays for axis in array.axes)
    alike = len({loops.dtype(read.tensor) for read in reads}) == 1
    walked = all(
        slopes.slope(index, name) is not None for read in reads for index in read.indices for name in part.letters
    )
    return moves and roles and ones and alike and walked and not (loops.streams(target) or loops.crossing)


def across(phase: Phase, lane: str) -> tuple[Read, ...]:
    """What steps copy whose cells lie together along another letter than that of lanes of tasks: squares are turned."""
    made = {part.target.tensor for part in phase.parts}
    values = [formula.value for part in phase.parts for formula in part.formulas]
    reads = [one for one in values if isinstance(one, Read) and one.tensor not in made and lane in expr.names(one)]
    last = [one for one in reads if isinstance(one.indices[-1], expr.Name) and one.indices[-1] != expr.Name(lane)]
    only_set = all(part.operator == "set" for part in phase.parts) and len(phase.parts) > 1
    return tuple(last) if only_set and lane in phase.own and last == reads else ()


def moved(
    loops: Loops, part: Part, formula: Formula, outer: list[Loop], bounds: Bounds, lane: bool
) -> tuple[Stmt, ...]:
    """The loops of such a step, with a call in place of the inner two: that of the lanes is the innermost."""
    cells = outer[-1].name if not lane else loops.lane_name()
    others = outer if lane else outer[:-1]
    low, high = loops.lane_span(bounds) if lane else bounds.span(cells, ZERO, outer[-1].extent)
    known = nodes.names_of((low, high))
    along = others[-1] if others and others[-1].name not in known and not bounds.tests.get(others[-1].name) else None
    body: Stmt = Do(_call(loops, part, formula, along.name if along else "", cells))
    if along is not None:
        begin, end = bounds.span(along.name, ZERO, along.extent)
        rows = Binary("-", end, Name(along.name))
        body = For(along.name, begin, end, (Declare("rows_", rows), body), step=rows, source=part.source)
    if lane:
        inner = loops.laned(bounds, (body,), part.source)
    else:
        count = Binary("-", high, Name(cells))
        inner = [For(cells, low, high, (Declare("n_", count), body), step=count, source=part.source)]
    return loops.looped(others[: len(others) - (along is not None)], bounds, inner, part.source)


def _call(loops: Loops, part: Part, formula: Formula, row: str, cell: str) -> Expr:
    value, target = formula.value, part.target
    size = DTYPES[loops.dtype(target.tensor)].size
    count = (Name("rows_") if row else ONE, Name("n_"))
    loops.used.add(target.tensor)
    to = (loops.address(target), _growth(loops, target, row), _growth(loops, target, cell))
    if isinstance(value, Read):
        loops.used.add(value.tensor)
        source = (loops.address(value), _growth(loops, value, row), _growth(loops, value, cell))
        return Call(f"opwright_copy_rows_{size}", (*to, *source, *count))
    return Call(f"opwright_clear_rows_{size}", (*to, *count))


def _growth(loops: Loops, read: Read, letter: str) -> Expr:
    """How far apart in memory the cells of neighbouring values of a letter are."""
    steps = []
    for axis, index in zip(loops.program.arrays[read.tensor].axes, read.indices, strict=True):
        growth = slopes.folded(slopes.slope(index, letter) or slopes.ZERO)
        if growth != slopes.ZERO:
            steps.append(product(loops.integer(growth, None), loops.member(f"{read.tensor}_{axis.name}")))
    return nodes.chain("+", steps, ZERO)
