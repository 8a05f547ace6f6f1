"""Contractions of bytes with windows: rows of one operand are gathered, or read where tiles multiply them.

In: where the cells of both operands and of the sums stand, letter by letter. Out: the members of an
`opwright_contraction`, or None. The operand that windows move over is copied first where they leave it, or where the
letters summed with them do not lie side by side: with a border of its zero point, whose terms add nothing. What tiles
read is always copied: c/engine/window_bytes.c.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ._contraction_shapes import MAX_BATCHES, Walk, copied, merged, nested
from ._windows import Placed, Spot

MAX_AXES = 8  # of rows and of terms
UNIT = 4  # terms that are multiplied at once: runs are filled up to whole ones
LEAST_WINDOWS = 4  # of a line, in tiles: with fewer, most of their time would go to loading right
MOST_FILLED = 1.5  # times the terms
LEAST_OVERLAP = 2  # windows that read a cell: copying is no gain for fewer


@dataclass(frozen=True)
class Bordered:
    """The operand of the windows as it is read: distances, and the axes of its copy with what lies inside of each."""

    steps: Mapping[Spot, int]
    first: int
    axes: tuple[tuple[int, int, int, int], ...] = ()  # extent, distance, begin and end of what lies inside


def problem_of(
    slid: Placed, other: Placed, target: Placed, extents: Mapping[Spot, int], fill: int, *, tiled: bool
) -> dict[str, Any] | None:
    """The members, with the operand of the windows as left; None where the engine does not take such walks.

    `tiled`: for tiles that read windows where they are.
    """
    if other.windows or target.windows or 0 in extents.values():
        return None
    read = bordered(slid, other, target, extents, copied=tiled)
    if read is None:
        return None
    kinds: dict[str, list[Walk]] = {"rows": [], "columns": [], "terms": [], "batches": []}
    for spot, extent in extents.items():
        walk = Walk(extent, read.steps.get(spot, 0), other.steps.get(spot, 0), target.steps.get(spot, 0))
        if extent != 1:
            kinds[_kind(walk, spot in target.steps)].append(walk)
    terms = sorted(kinds["terms"], key=lambda walk: (abs(walk.left), abs(walk.right)), reverse=True)
    rows = sorted(kinds["rows"], key=lambda walk: abs(walk.out), reverse=True)
    columns = merged(sorted(kinds["columns"], key=lambda walk: abs(walk.out), reverse=True))
    batches = kinds["batches"]
    axes: tuple[Walk, ...] | None = None
    if not nested(terms, "right"):
        order = [*(walk for walk in batches if walk.right), *columns, *terms]
        axes, cells, outer = tuple(order), 1, len(order) - len(columns) - len(terms)
        for number in reversed(range(len(order))):
            order[number], cells = replace(order[number], right=cells), cells * order[number].extent
        batches = [*order[:outer], *(walk for walk in batches if not walk.right)]
        terms, columns = order[len(order) - len(terms) :], merged(order[outer : len(order) - len(terms)])
    while not nested(rows, "out"):
        batches = [*batches, rows.pop(0)]
    column, *more = sorted(columns, key=lambda walk: walk.extent, reverse=True) or [Walk(1, 0, 0, 0)]
    batches = [*batches, *more]
    if column.extent == 1 and any(abs(walk.out) == 1 for walk in batches) and not tiled:
        return None  # loops have lanes along channels: 2x400x256 of 5 taps 0.03 of the time (AMD Zen 4, gcc 12.2)
    gathered = {"row": merged(rows), "term": _runs(terms)}
    if len(batches) > MAX_BATCHES or any(len(walks) > MAX_AXES for walks in gathered.values()):
        return None
    if tiled and not _tiled(gathered["row"], gathered["term"], batches, read):
        return None
    members = {
        "rows": _count(rows),
        "columns": column.extent,
        "terms": _count(terms),
        "right_term": terms[-1].right if terms else 0,
        "right_column": column.right,
        "out_row": rows[-1].out if rows else 0,
        "out_column": column.out,
        "batches": len(batches),
        "batch": [walk.extent for walk in batches],
        "left_batch": [walk.left for walk in batches],
        "right_batch": [walk.right for walk in batches],
        "out_batch": [walk.out for walk in batches],
        "left": _copy(read, fill),
        "right": copied(axes, 1, "right", other.first),
    }
    for name, walks in gathered.items():
        members |= {f"{name}_axes": len(walks), f"{name}_extent": [walk.extent for walk in walks]}
        members[f"{name}_step"] = [walk.left for walk in walks]
    return members


def _tiled(rows: Sequence[Walk], terms: Sequence[Walk], batches: Sequence[Walk], read: Bordered) -> bool:
    """Whether lines of windows fill tiles, runs of terms units, products share right, and windows overlap."""
    cells = math.prod(extent for extent, *_ in read.axes)
    run = terms[-1].extent if terms[-1].left == 1 else 1
    return bool(
        rows
        and rows[-1].extent >= LEAST_WINDOWS
        and -(-run // UNIT) * UNIT <= MOST_FILLED * run
        and not any(walk.right for walk in batches)
        and _count(rows) * _count(terms) * _count(batches) >= LEAST_OVERLAP * cells
    )


def bordered(
    slid: Placed, other: Placed, target: Placed, extents: Mapping[Spot, int], *, copied: bool = False
) -> Bordered | None:
    """The operand of the windows, `copied` or in place if it can be; None where letters move one of them backwards."""
    opened = slid.opened(extents)
    summed = [step for spot, step in slid.steps.items() if spot not in target.steps and extents[spot] != 1]
    if not copied and opened is not None and (not summed or min(summed) == 1):
        return Bordered(opened.steps, opened.first)
    reached = {spot for window in slid.windows for spot, _ in window.factors}
    order = sorted(slid.windows, key=lambda window: abs(window.step), reverse=True)
    if any(factor < 1 for window in order for _, factor in window.factors) or not reached <= {*extents}:
        return None
    own = [spot for spot, step in slid.steps.items() if step and extents[spot] != 1]
    last = [spot for spot in own if spot not in target.steps]
    first = slid.first
    axes: list[tuple[int, int, int, int]] = []
    moved: list[Sequence[tuple[Spot, int]]] = []
    for spot in (spot for spot in own if spot in target.steps):
        axes.append((extents[spot], slid.steps[spot], 0, extents[spot]))
        moved.append([(spot, 1)])
    for window in order:
        low = window.offset
        extent = sum(factor * (extents[spot] - 1) for spot, factor in window.factors) + 1
        begin = min(max(0, -low), extent)
        axes.append((extent, window.step, begin, max(begin, min(extent, window.extent - low))))
        moved.append(window.factors)
        first += low * window.step
    for spot in last:
        axes.append((extents[spot], slid.steps[spot], 0, extents[spot]))
        moved.append([(spot, 1)])
    steps: dict[Spot, int] = {}
    cells = 1
    for (extent, *_), letters in zip(reversed(axes), reversed(moved)):
        steps |= {spot: factor * cells for spot, factor in letters}
        cells *= extent
    return Bordered(steps, first, tuple(axes))


def _kind(walk: Walk, kept: bool) -> str:
    if not kept:
        return "terms"
    return "rows" if walk.left and not walk.right else "columns" if walk.right and not walk.left else "batches"


def _runs(terms: Sequence[Walk]) -> list[Walk]:
    """Terms that lie side by side in left, put together; at least one axis."""
    return merged([replace(walk, right=walk.left, out=walk.left) for walk in terms]) or [Walk(1, 1, 1, 1)]


def _count(walks: Sequence[Walk]) -> int:
    cells = 1
    for walk in walks:
        cells *= walk.extent
    return cells


def _lines(axes: Sequence[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    """Axes of a copy, each put together with the next one where that lies inside and has no gaps."""
    found: list[tuple[int, int, int, int]] = []
    for extent, step, begin, end in axes:
        if found and (begin, end) == (0, extent) and found[-1][1] == extent * step:
            outer, _, low, high = found.pop()
            extent, begin, end = outer * extent, low * extent, high * extent
        found.append((extent, step, begin, end))
    return found


def _copy(read: Bordered, fill: int) -> dict[str, Any]:
    if not read.axes:
        return {"wanted": 0, "first": read.first}
    extents, steps, begins, ends = zip(*_lines(read.axes))
    return {
        "wanted": 1,
        "axes": len(extents),
        "extent": [*extents],
        "step": [*steps],
        "first": read.first,
        "bounded": 1,
        "begin": [*begins],
        "end": [*ends],
        "fill": fill & 255,
    }
