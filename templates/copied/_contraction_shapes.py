"""The axes of a contraction as its engine takes them: rows, columns, terms and batches.

In: extents, and how far neighbours lie apart in both operands and in what is written. Out: a `Shape`, or None where
there are too many axes. An operand whose distances no order of loops fits is copied first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

MAX_BATCHES = 8  # axes of batches that the engine walks
MAX_COPIED = 16  # axes of an operand that it copies
ENOUGH = 16  # cells that fill vectors
SOME = 5  # cells that fill enough of a vector
TOGETHER = 256  # columns of rows that are finished together, as in c/engine/contraction.c
LANED_LEAST = 4  # rows and columns, as in c/engine/contraction_lanes.h
CACHED = 2**19  # cells whose copies leave a cache of 1 MB
OFTEN = 4  # products that read the same rows, whose terms lie apart: all turn them otherwise
REUSED = 4  # products of each cell that pay for a copy whose only use is fewer, longer axes: in place, 768 products of
# 1x300x24 bf16 take 0.12 of the time, of 128x2048 cells by 3 terms f32 0.08 (AMD Zen 5, gcc 12.2)
FULL_REUSED = 128  # the same where an axis fills vectors, the last one in part: 288 x 10 products of 8x16 by 8 terms
# f32 take 0.32 of the time of copies, bf16 0.5, 12 of 64x24 by 384 terms 0.56 and 0.87, but 6 of 591x20 1.4 times.
FULL_TERMS = 64  # with as many and full vectors no copy pays: 6 of 591x64 by 384 terms f32 take 0.88 of its time, 0.78
# on two threads; 280 of 200x32 by 8 terms 1 and 2.6 times (Intel Xeon, gcc 12.2)


@dataclass(frozen=True)
class Walk:
    """An axis of a contraction: its extent, and how far neighbours lie apart in left, right and out, in elements."""

    extent: int
    left: int
    right: int
    out: int


@dataclass(frozen=True)
class Shape:
    """A contraction as the engine takes it. An operand in `copied` is copied first: its axes, the last one fastest."""

    rows: Walk
    columns: Walk
    terms: Walk
    batches: tuple[Walk, ...]
    copied: Mapping[str, tuple[Walk, ...]]


@lru_cache(1024)
def shaped(
    walks: tuple[Walk, ...], reduced: tuple[bool, ...], mixed: tuple[str, ...] = (), turned: tuple[str, ...] = ()
) -> Shape | None:
    """Axes as rows, columns, terms and batches; None where there are too many axes.

    Operands in `mixed` are copied as they lie, those in `turned` so that each product finds its terms side by side.
    """
    axes = [(walk, sums) for walk, sums in zip(walks, reduced, strict=True) if walk.extent != 1]
    terms = [walk for walk, sums in axes if sums]
    rows = [walk for walk, sums in axes if not sums and walk.left and not walk.right]
    columns = [walk for walk, sums in axes if not sums and walk.right and not walk.left]
    batches = [walk for walk, sums in axes if not sums and walk.left and walk.right]
    # Cells that both operands repeat are rows or columns that lie in one place, not products of their own.
    repeated = [walk for walk, sums in axes if not sums and not walk.left and not walk.right]
    (rows if _cells(rows) <= _cells(columns) else columns).extend(repeated)
    wanted = {*turned}
    orders = {"left": [batches, rows, terms], "right": [batches, columns, terms]}
    terms = sorted(terms, key=lambda walk: (abs(walk.left), abs(walk.right)), reverse=True)
    if len(merged(terms)) > 1:
        by_right = sorted(terms, key=lambda walk: abs(walk.right), reverse=True)
        # The order of the larger operand, so that the smaller is copied: 48x64x9 by 5000x9x64 takes 0.3 of the time
        # (Sapphire Rapids, gcc 12.2, f32).
        fewer = not nested(terms, "left") or _cells(rows) < _cells(columns)
        if fewer and nested(by_right, "right"):
            terms = by_right
        wanted |= {name for name in orders if not nested(terms, name)}
    rows, columns, batches = (
        sorted(some, key=lambda walk: abs(walk.out), reverse=True) for some in (rows, columns, batches)
    )
    wanted |= {"left"} if _joins(rows, "left", columns, terms) else set()
    wanted |= {"right"} if _joins(columns, "right", rows, terms) else set()
    copied = {}
    for name, own in (("left", rows), ("right", columns)):
        if name in wanted or name in mixed:
            near = name in {*wanted} - {*turned} and _nearer(own, terms, name)
            inner = (*terms, *own) if near else (*own, *terms)
            order = [walk for walk in (*batches, *inner) if getattr(walk, name) or walk in terms]
            order = order if name in wanted else sorted(order, key=partial(_far, name=name), reverse=True)
            copied[name] = tuple(order)
            steps = dict(zip(map(id, order), _dense(order), strict=True))
            batches, rows, columns, terms = (_moved(some, name, steps) for some in (batches, rows, columns, terms))
    column, *more_columns = sorted(merged(columns), key=_inside, reverse=True) or [Walk(1, 0, 0, 0)]
    row, *more_rows = sorted(merged(rows), key=_inside, reverse=True) or [Walk(1, 0, 0, 0)]
    row, *more_rows = sorted([row, *more_rows], key=partial(_beside, other=column), reverse=True)
    column, *more_columns = sorted([column, *more_columns], key=partial(_beside, other=row), reverse=True)
    term, *more_terms = merged(terms) or [Walk(1, 0, 0, 0)]
    outer = (*merged(batches), *more_rows, *more_columns)
    again = math.prod(walk.extent for walk in outer if not walk.left)
    if again >= OFTEN and term.left != 1 and "left" not in turned:
        return shaped(walks, reduced, mixed, (*turned, "left"))
    many = len(outer) > MAX_BATCHES or any(len(order) > MAX_COPIED for order in copied.values())
    return None if more_terms or many else Shape(row, column, term, outer, copied)


def _nearer(own: Sequence[Walk], terms: Sequence[Walk], name: str) -> bool:
    """Whether rows or columns lie side by side, enough for vectors, and terms do not: a copy has them so, too.

    500 products of 8x16 by 16x16 f32, whose terms are two letters that lie in either order, take 0.36 of the time of
    copies with terms side by side, f64 0.46, 32 of 37x130 by 130x100 0.51 and 0.58 (AMD Zen 4, gcc 12.2).
    """
    return _side_by_side(own, name) >= SOME and _side_by_side(terms, name) == 1


def _side_by_side(walks: Sequence[Walk], name: str) -> int:
    """How many cells of some axes lie one behind the other in an array."""
    cells = 1
    while (more := max((walk.extent for walk in walks if abs(getattr(walk, name)) == cells), default=1)) > 1:
        cells *= more
    return cells


def _joins(own: Sequence[Walk], name: str, others: Sequence[Walk], terms: Sequence[Walk]) -> bool:
    """Whether a copy of an operand makes one axis of its rows or columns, and each cell is read often enough.

    An axis whose cells lie side by side and fill vectors is long enough: see FULL_REUSED. So is one of windows, of
    which a copy has each cell several times: 4 x 101 frames of 400 cells by 201 filters f32 take 0.5 of the time in
    place, two threads 0.4 (Intel Xeon with AVX-512, gcc 12.2).
    """
    real = [walk for walk in own if getattr(walk, name)]
    if max((walk.extent for walk in real), default=0) >= ENOUGH and _overlaps([*real, *terms], name):
        return False
    near = max((walk.extent for walk in real if abs(walk.out) == abs(getattr(walk, name)) == 1), default=0)
    if near >= ENOUGH and near % (2 * ENOUGH) == 0 and _cells(terms) >= FULL_TERMS:
        return False
    often = REUSED if near < ENOUGH else FULL_REUSED
    return len(merged(real)) > 1 and nested(real, "out") and _cells(others) >= often


def _overlaps(walks: Sequence[Walk], name: str) -> bool:
    """Whether axes share cells of an array, as windows do."""
    reach = 0
    for step, extent in sorted((abs(getattr(walk, name)), walk.extent) for walk in walks):
        if 0 < step <= reach:
            return True
        reach += step * (extent - 1)
    return False


def _cells(walks: Iterable[Walk]) -> int:
    return math.prod(walk.extent for walk in walks)


def _far(walk: Walk, name: str) -> tuple[bool, int]:
    """How axes rank in memory, that of the nearest neighbours last; cells that an array repeats are outermost."""
    step = abs(getattr(walk, name))
    return step == 0, step


def _inside(walk: Walk) -> tuple[bool, bool, int]:
    """How axes rank to be that of each product: first one whose cells fill vectors of what is written, or some of one.

    1000 products of one 128x32 by 32x8 take 0.13 of the time in f32, 0.13 in bf16, with AVX2 0.08 and 0.19; 5000 of 6x6
    by 6x6 0.5 and 0.68, with two threads, which write no line of each other, 0.15 and 0.31. Where rows of 4 cells are
    preferred, 4x4 transforms take 1.8 times as long (Intel Xeon, gcc 12.2).
    """
    near = abs(walk.out) == 1
    return near and walk.extent >= ENOUGH, near and walk.extent >= SOME, walk.extent


def _beside(walk: Walk, other: Walk) -> bool:
    """Whether an axis makes one block of what is written with the other: its sums are then finished together.

    48 x 48 products of 32 x 32 by 64 terms, divided by a number, take 0.8 of the time, bf16 0.74 (AMD Zen 5, gcc 12.2).
    """
    near = abs(other.out) == 1 and walk.out == other.extent * other.out
    return near and walk.extent >= ENOUGH and other.extent <= TOGETHER


def beside(shape: Shape) -> bool:
    """Whether cells of different products lie side by side in all three arrays, which loops make vectors of.

    The tiles of the engine pay for their stores one by one. With a single row or column loops take less: 300x500 rows
    of 16 cells by 500x16 f32 0.06 of its time, 2000x60 of 4 0.46 (Intel Xeon, gcc 12.2). Where rows and columns are
    several, lanes of the engine have a product each: c/engine/contraction_lanes.h. Of these, few terms pay, and many
    cells: with 3 terms and 128 cells 0.25, with 16 terms and 8 cells 4 times as long (AMD Zen 4, gcc 12.2, f32).
    """
    cells = [walk.extent for walk in shape.batches if abs(walk.out) == abs(walk.left) == abs(walk.right) == 1]
    spread = all(abs(walk.out) != 1 for walk in (shape.rows, shape.columns) if walk.extent != 1)
    alone = min(shape.rows.extent, shape.columns.extent) < LANED_LEAST
    near = spread and max(cells, default=0) >= (LANED_LEAST if alone else 64) and (shape.terms.extent < 8 or alone)
    return near or _vectors(shape)


def _vectors(shape: Shape) -> bool:
    """Whether each product is of a vector and a matrix, and of the matrices those cells lie side by side.

    4001 of 24x50 f32 whose rows lie 4001 cells apart take 0.64 of the time of the engine, bf16 0.42, 431 of 3x4001 0.28
    and 0.40, 431 of 24x401 0.3 to 0.54 and 0.85 to 1.33 (AMD Zen 4, gcc 12.2).
    """
    for side, one, other in (("left", shape.columns, shape.rows), ("right", shape.rows, shape.columns)):
        cells = [walk.extent for walk in shape.batches if abs(getattr(walk, side)) == 1]
        apart = abs(getattr(other, side)) != 1 and abs(getattr(shape.terms, side)) != 1
        if one.extent == 1 and other.extent > 1 and apart and max(cells, default=0) >= 64:
            return True
    return False


def scattered(shape: Shape) -> bool:
    """Whether neither rows nor columns, nor the lanes of the engine, lie side by side in what is written.

    Sums finished one by one cost a call each: 32 products of 64x48x40, f32 by bf16, whose cells lie beside each other,
    take 0.2 of the time if the next phase takes the sums as rows (AMD Zen 4, gcc 12.2).
    """
    most = max(shape.rows.extent, shape.columns.extent)
    along = any(walk.extent != 1 and abs(walk.out) == 1 for walk in (shape.rows, shape.columns))
    laned = min(shape.rows.extent, shape.columns.extent) >= LANED_LEAST and any(
        walk.left == walk.right == walk.out == 1 and walk.extent >= ENOUGH for walk in shape.batches
    )
    return most > 1 and not along and not laned


def once(shape: Shape, widened: Collection[str]) -> bool:
    """Whether each element of an operand that is copied in a wider type serves one product: loops widen as they read.

    Copies that stay in a cache cost little. 8 x 1024 x 512 of bf16, each row times a factor of f32, summed over
    the first axis: 0.06 of the time (AMD Zen 4, gcc 12.2).
    """
    others = {"left": shape.columns, "right": shape.rows}
    cells = math.prod(walk.extent for walk in (shape.rows, shape.columns, shape.terms, *shape.batches))

    def alone(name: str) -> bool:
        again = (walk.extent for walk in shape.batches if not getattr(walk, name))
        return others[name].extent == 1 and all(extent == 1 for extent in again)

    return cells >= CACHED and any(map(alone, widened))


def _dense(order: Sequence[Walk]) -> list[int]:
    """How far neighbours lie apart where axes lie without gaps, the last one fastest."""
    return [math.prod(max(walk.extent, 1) for walk in order[number + 1 :]) for number in range(len(order))]


def _moved(walks: Iterable[Walk], name: str, steps: Mapping[int, int]) -> list[Walk]:
    """Axes that lie otherwise in an operand; the objects that `steps` knows by their identity live in the caller."""
    return [replace(walk, **{name: steps[id(walk)]}) if id(walk) in steps else walk for walk in walks]


def nested(walks: Sequence[Walk], name: str) -> bool:
    """Whether an array goes through axes as through one."""
    steps = [(getattr(walk, name), walk.extent) for walk in walks]
    return all(outer == inner * extent for (outer, _), (inner, extent) in itertools.pairwise(steps))


def merged(walks: Sequence[Walk]) -> list[Walk]:
    """Neighbouring axes put together where all arrays go through both as through one."""
    found: list[Walk] = []
    for walk in walks:
        if found and all(nested([found[-1], walk], name) for name in ("left", "right", "out")):
            found[-1] = replace(walk, extent=found[-1].extent * walk.extent)
        else:
            found.append(walk)
    return found


def members(shape: Shape, kinds: Mapping[str, int], first: Mapping[str, int]) -> dict[str, Any]:
    """The members of the engine's struct; `first` is where the cells of either operand begin."""
    return {
        "rows": shape.rows.extent,
        "columns": shape.columns.extent,
        "terms": shape.terms.extent,
        "left_row": shape.rows.left,
        "left_term": shape.terms.left,
        "right_term": shape.terms.right,
        "right_column": shape.columns.right,
        "out_row": shape.rows.out,
        "out_column": shape.columns.out,
        "batches": len(shape.batches),
        "batch": [walk.extent for walk in shape.batches],
        "left_batch": [walk.left for walk in shape.batches],
        "right_batch": [walk.right for walk in shape.batches],
        "out_batch": [walk.out for walk in shape.batches],
        **{name: copied(shape.copied.get(name), kinds[name], name, first[name]) for name in ("left", "right")},
    }


SPLIT_LEAST = 16  # rows, columns and terms


def splittable(shape: Shape) -> bool:
    """Whether it pays to take floats as bf16 in parts."""
    return min(shape.rows.extent, shape.columns.extent, shape.terms.extent) >= SPLIT_LEAST


def halved(values: Mapping[str, Any], side: str) -> dict[str, Any]:
    """The members of floats that an engine of bf16 takes as they are: their distances count halves of them."""
    moved = (f"{side}_row", f"{side}_term") if side == "left" else (f"{side}_term", f"{side}_column")
    found: dict[str, Any] = {name: 2 * values[name] for name in moved}
    found[f"{side}_batch"] = [2 * step for step in values[f"{side}_batch"]]
    if not values[side]["wanted"]:
        found[side] = {**values[side], "first": 2 * values[side]["first"]}
    return {**found, "split": 1 if side == "left" else 2}


def copied(axes: Sequence[Walk] | None, kind: int, name: str, first: int) -> dict[str, Any]:
    """The engine's description of an operand whose cells begin at `first`, and which it copies first if it has axes."""
    if axes is None:
        return {"wanted": 0, "first": first}
    steps = [getattr(walk, name) for walk in axes]
    extents = [walk.extent for walk in axes]
    return {"wanted": kind, "axes": len(axes), "extent": extents, "step": steps, "first": first}
