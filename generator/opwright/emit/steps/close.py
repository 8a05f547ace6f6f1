"""Cells that lie a few apart, as of complex numbers, colours and coordinates: all steps of a lane in one loop.

In: a phase whose lanes are numbers of such groups. Out: whether arrays lie in memory as their axes stand, and the loop
for calls in which they do. Distances between lanes are literals there, so that compilers take cells out of
vectors and put them into others, each vector once for all steps.

Figures: one thread of an AMD Zen 5, gcc 12.2, time of rows that are copied first to that of the loop: a product of
500,000 complex numbers by one, f32 3.3; of 200,000 quaternions, f32 8; gray of 4x256x256x3, f32 2.3, bf16 1.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...derive.algebra import slopes
from ...derive.program import Part
from ...derive.rewrites.accumulating import CLOSE
from ...language import expr
from ...language.expr import Read
from .. import nodes
from ..nodes import Assign, Binary, Declare, Expr, For, Index, Name, Stmt
from . import cache_lines
from .elements import BEGIN, END
from .tasks import Tasks

STEPS = 16  # in a loop
# Which compilers convert in vectors. Of f16, such a loop takes 1.5 to 7 times as long (AMD Zen 5, gcc 12.2).
TYPES = ("f32", "bf16", "f64")


def close(tasks: Tasks) -> tuple[Expr, list[Stmt]] | None:
    """The condition and the loop over a task's lanes; None if a step has other loops, or all lanes are neighbours."""
    parts, lane = tasks.phase.parts, tasks.lanes
    if lane is None or lane.kind != "one" or not tasks.blocked or len(parts) > STEPS:
        return None
    own = [part.target.tensor for part in parts if part.target.tensor in tasks.staged.private]
    if len({*own}) < len(own) or not all(_pointwise(tasks, part) for part in parts):
        return None
    distances: dict[str, int] = {}
    apart = False
    for read in dict.fromkeys(read for part in parts for read in (part.target, *part.reads)):
        found = _distances(tasks, read)
        if found is None:
            return None
        strides, step = found
        distances |= strides
        apart |= step > 1
    if not apart:
        return None
    known = {name: nodes.integer(value) for name, value in distances.items()}
    holds = nodes.both([Binary("==", tasks.member(name), value) for name, value in known.items()])
    return holds, _loop(tasks, known)


def _pointwise(tasks: Tasks, part: Part) -> bool:
    """Whether a step sets one cell for each value of the letters of tasks, of which compilers make vectors."""
    assert tasks.lanes is not None
    plain = part.operator == "set" and not part.by and {*part.letters} <= {*tasks.phase.own}
    if not plain or tasks.lanes.name not in expr.names(part.target):
        return False
    (formula,) = part.formulas
    arrays = {part.target.tensor, *(read.tensor for read in part.reads)}
    kinds = {tasks.dtype(name) for name in arrays} | {tasks.values_of(part.target.tensor).accumulate}
    return kinds <= {*TYPES} and not cache_lines.costly(formula.value)


def _distances(tasks: Tasks, read: Read) -> tuple[dict[str, int], int] | None:
    """The strides of an array that lanes walk, as its axes stand: of those with a number of cells, and of that before.

    And how far apart neighbouring lanes are then.
    """
    assert tasks.lanes is not None
    array, lane = tasks.program.arrays[read.tensor], tasks.lanes.name
    if lane not in expr.names(read):
        return {}, 0
    between = array.role == "between"  # without gaps
    if between and array.name in tasks.staged.private:
        return {}, 0
    found: dict[str, int] = {}
    distance = 1
    for axis, index in reversed([*zip(array.axes, read.indices, strict=True)]):
        if axis.kind != "one":
            return None
        found |= {} if between else {f"{array.name}_{axis.name}": distance}
        if lane in expr.names(index):
            slope = slopes.slope(index, lane)
            step = int(slope.value) * distance if isinstance(slope, expr.Number) else 0
            once = sum(lane in expr.names(other) for other in read.indices) == 1
            return (found, step) if 0 < step <= CLOSE and once else None
        if not isinstance(axis.extent, expr.Number) or expr.names(index):
            return None
        distance *= int(axis.extent.value)
    return None


def _loop(tasks: Tasks, known: Mapping[str, Expr]) -> list[Stmt]:
    """The loop over lanes, with what a lane has between steps in variables, and arrays that no other name is for."""
    names: dict[str, str] = {}
    body: list[Stmt] = []
    for part in tasks.phase.parts:
        target, value = part.target, part.formulas[0].value
        made = tasks.values_of(target.tensor).copied(value, tasks.dtype(target.tensor))
        cell = tasks.element(target)
        if target.tensor in tasks.staged.private:
            names[target.tensor] = f"{target.tensor}_cell_"
            body.append(Declare(names[target.tensor], made, tasks.c_type(target.tensor), source=part.source))
        else:
            body.append(Assign(cell, made, source=part.source))
    arrays = [name for name in tasks.program.arrays if name in tasks.used and name not in names]
    alone = {name: f"{name}_alone_" for name in arrays if not tasks.is_number(name)}

    def inner(code: Any) -> Any:
        if isinstance(code, Index) and isinstance(code.array, Name):
            name = code.array.name
            if name in names:
                return Name(names[name])
            return Index(Name(alone.get(name, name)), inner(code.at))
        if isinstance(code, Name):
            return known.get(code.name, code)
        return nodes.mapped(code, inner)

    written = {part.target.tensor for part in tasks.phase.parts}
    kinds = {name: f"{'' if name in written else 'const '}{tasks.c_type(name)} *restrict" for name in alone}
    pointers = [Declare(own, Name(name), kinds[name], changes=True) for name, own in alone.items()]
    source = tasks.phase.parts[0].source
    loop = For(tasks.lane_name(), BEGIN, END, tuple(map(inner, body)), source=source, independent=True)
    return [*pointers, loop]
