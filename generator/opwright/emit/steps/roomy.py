"""Steps whose indices bend or are rounded: `x[min(max(w - 2, 2 - w), ...)]`, or `x[floor(p * W / 160)]`.

In: a step of a phase. Out: the conditions on sizes under which all of its cells are there, so that its rows need no
test of each cell, and what begins them is not stored twice. Reflections of 8x32x57x55 f32 by two cells take 0.2 of
the time (AMD EPYC Zen 4, gcc 12.2).
"""

from __future__ import annotations

from collections.abc import Callable

from ...derive.program import Formula, Part
from ...language.expr import Number
from .. import nodes
from ..nodes import Binary, Expr, If, Stmt
from .bounds import Bounds
from .elements import Elements


def sizes(elements: Elements, part: Part, formula: Formula) -> list[Expr]:
    """The conditions on extents from which such indices lie inside their axes; not that an axis has any cell."""
    found: list[Expr] = []
    for read in (part.target, *formula.reads):
        array = elements.program.arrays[read.tensor]
        for number, (axis, index) in enumerate(zip(array.axes, read.indices, strict=True)):
            least = elements.program.inside_from(array.name, number, index)
            if least < 2 or elements.program.walks_inside(array.name, number, index):
                continue
            copies = range(len(elements.axes)) if axis.kind == "spatial" else (0,)
            found += [Binary(">=", elements.extent(axis, copy), nodes.integer(least)) for copy in copies]
    return [*dict.fromkeys(found)]


def halved(
    elements: Elements,
    part: Part,
    formula: Formula,
    laned: Callable[[], bool],
    made: Callable[[], tuple[Stmt, ...]],
) -> tuple[Stmt, ...]:
    """A step in two ways, where sizes suffice and where they do not; () if they make no difference for its lanes."""
    suffice = [] if elements.roomy else sizes(elements, part, formula)
    if not suffice or laned():
        return ()
    elements.roomy = True
    rows = made() if laned() else ()
    elements.roomy = False
    holds = nodes.both(suffice)
    return (If(holds, rows), If(nodes.Unary("!", holds), made())) if rows else ()


def overwritten(elements: Elements, part: Part, bounds_of: Callable[[Part], Bounds]) -> list[Expr]:
    """The conditions under which the next step writes every cell that a step sets to a number; none if it may not."""
    after = elements.phase.parts[elements.phase.parts.index(part) + 1 :][:1]
    if not after or part.operator != "set" or part.where or part.by or part.reads:
        return []
    (following,) = after
    same = following.target == part.target and following.operator == "set" and not (following.where or following.by)
    if not same or not isinstance(part.formulas[0].value, Number):
        return []
    if any(read.tensor == part.target.tensor for read in following.reads):
        return []
    before, elements.roomy = elements.roomy, True
    bounds = bounds_of(following)
    elements.roomy = before
    narrowed = bounds.low or bounds.high or {*bounds.tests} - {""}
    return [] if narrowed else [*sizes(elements, following, following.formulas[0]), *bounds.tests.get("", [])]
