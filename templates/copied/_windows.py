"""Contractions with windows as the engine of convolutions takes them: problems in normal form.

In: where the cells of both operands and of the sums stand, letter by letter. Out: the members of an `opwright_window`,
or None where the three are not related as in c/engine/problem.h: of a big tensor, whose windows move with the letters
of a small one and of weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ._contraction_shapes import MAX_BATCHES, Walk, copied, merged

Spot = tuple[str, int]  # a letter, and which of the axes that it walks
Factors = tuple[tuple[str, int | tuple[int, ...]], ...]
Slide = tuple[Factors, int | tuple[int, ...], int | tuple[int, ...]]  # how letters move an index, its rest, its extent
SIDES = ("left", "right", "target")
Y, X, W = range(3)  # what is solved for: window.h
IMAGES = 3  # what pieces are cut along, beside the axes: window.h
PIECE_BYTES = 1 << 21  # of sums that wait to be finished: with less, weights are packed more often than they pay for
MAX_AXES = 3
ENOUGH = 16  # cells that fill vectors
FEW_TAPS, FEW_COLUMNS = 7, 64  # of a row of the only group


@dataclass(frozen=True)
class Window:
    """An axis that letters move along together: its extent and the distance of its cells, and by how much they move."""

    extent: int
    step: int
    factors: tuple[tuple[Spot, int], ...]
    offset: int

    def ends(self, extents: Mapping[Spot, int]) -> tuple[int, int]:
        """The first and the last cell that letters reach, if none of them is empty."""
        moves = [factor * (extents[spot] - 1) for spot, factor in self.factors]
        return self.offset + sum(min(0, move) for move in moves), self.offset + sum(max(0, move) for move in moves)

    def inside(self, extents: Mapping[Spot, int]) -> bool:
        """Whether letters stay inside the axis."""
        first, last = self.ends(extents)
        return first >= 0 and last < self.extent

    def counted(self, extents: Mapping[Spot, int]) -> bool:
        """Whether letters count through the axis as digits do, `c * M + m`: they walk it like axes of their own.

        A depthwise convolution 3x3 of 4x56x56x32 with 2 results a channel takes
        0.08 of the time of loops, bf16 0.06 (AMD Zen 5, gcc 12.2, one thread).
        """
        cells = 1
        for spot, factor in sorted(self.factors, key=lambda moved: moved[1]):
            if extents[spot] != 1 and factor != cells:
                return False
            cells *= extents[spot]
        return self.offset == 0 and cells == self.extent


@dataclass(frozen=True)
class Placed:
    """Where the cells of an array stand: how far neighbours lie apart along each axis of each letter, and windows."""

    steps: Mapping[Spot, int]
    windows: tuple[Window, ...] = ()
    first: int = 0

    def opened(self, extents: Mapping[Spot, int]) -> Placed | None:
        """The same where windows are walked like other axes; None where one may leave its axis."""
        steps, first = dict(self.steps), self.first
        for window in self.windows:
            if not window.inside(extents):
                return None
            steps |= {spot: factor * window.step for spot, factor in window.factors}
            first += window.offset * window.step
        return Placed(steps, (), first)


@dataclass(frozen=True)
class Axis:
    """A spatial axis: extents, how windows move, and the distances of neighbours."""

    small: int
    big: int
    taps: int
    stride: int
    dilation: int
    pad: int
    small_x: int
    big_x: int
    w_k: int


@dataclass(frozen=True)
class Problem:
    """A problem in normal form. The distances of a Walk are those in big, small and weights, in this order."""

    big: str
    small: str
    weights: str
    n: Walk
    g: Walk
    a: Walk
    b: Walk
    axes: tuple[Axis, ...]
    batches: tuple[Walk, ...]
    first: Mapping[str, int]

    @property
    def solve(self) -> int:
        return {self.small: Y, self.big: X, self.weights: W}["target"]

    @property
    def data(self) -> str:
        """The side that windows move on, or that is spread over it; '' of weights, which have both as operands."""
        return {Y: self.big, X: self.small, W: ""}[self.solve]

    def words(self) -> str:
        """What it is, for `explain`."""
        taps = " x ".join(str(axis.taps) for axis in self.axes)
        small = " x ".join(str(axis.small) for axis in self.axes)
        times = "".join(f"{walk.extent} x " for walk in (*self.batches, self.n, self.g) if walk.extent != 1)
        return f"{times}{self.a.extent} to {self.b.extent} channels, {taps} taps, {small} positions"

    def dims(self, side: str) -> list[tuple[str, int, int]]:
        """The axes of one of the three: a name, the extent and the distance of neighbours."""
        if side == self.weights:
            own = [("g", self.g.extent, self.g.out), ("a", self.a.extent, self.a.out), ("b", self.b.extent, self.b.out)]
            own += [(f"x{n}", axis.taps, axis.w_k) for n, axis in enumerate(self.axes)]
            return own + [(f"batch{n}", walk.extent, walk.out) for n, walk in enumerate(self.batches)]
        name, each, x = ("left", self.b, "big") if side == self.big else ("right", self.a, "small")
        own = [("n", self.n.extent, getattr(self.n, name)), ("c", self.g.extent * each.extent, getattr(each, name))]
        own += [(f"x{n}", getattr(axis, x), getattr(axis, f"{x}_x")) for n, axis in enumerate(self.axes)]
        return own + [(f"batch{n}", walk.extent, getattr(walk, name)) for n, walk in enumerate(self.batches)]

    def moved(self, side: str, steps: Mapping[str, int]) -> Problem:
        """The same with other distances in one of the three."""
        name = {self.big: "left", self.small: "right", self.weights: "out"}[side]
        x = {self.big: "big_x", self.small: "small_x", self.weights: "w_k"}[side]

        def at(walk: Walk, key: str) -> Walk:
            return replace(walk, **{name: steps.get(key, getattr(walk, name))})

        found = replace(
            self,
            axes=tuple(replace(axis, **{x: steps[f"x{n}"]}) for n, axis in enumerate(self.axes)),
            batches=tuple(at(walk, f"batch{n}") for n, walk in enumerate(self.batches)),
        )
        if side == self.weights:
            return replace(found, g=at(self.g, "g"), a=at(self.a, "a"), b=at(self.b, "b"))
        if side == self.big:
            return replace(found, n=at(self.n, "n"), b=at(self.b, "c"))
        return replace(found, n=at(self.n, "n"), a=at(self.a, "c"))


def problem_of(placed: Mapping[str, Placed], extents: Mapping[Spot, int]) -> Problem | None:
    """What sides are to each other; None where they are not related as a problem's."""
    slid = [side for side in SIDES if placed[side].windows]
    if len(slid) != 1 or 0 in extents.values():
        return None
    (big,) = slid
    windows = sorted(placed[big].windows, key=lambda window: abs(window.step), reverse=True)
    one, other = (side for side in SIDES if side != big)
    pairs = []
    for window in windows:
        of = {side: [(s, f) for s, f in window.factors if s in placed[side].steps] for side in (one, other)}
        if any(len(found) != 1 for found in of.values()) or len(window.factors) != 2:
            return None
        pairs.append({side: found[0] for side, found in of.items()})
    sizes = {side: math.prod(extents[pair[side][0]] for pair in pairs) for side in (one, other)}
    for small, weights in sorted(((one, other), (other, one)), key=lambda sides: -sizes[sides[0]]):
        found = _related(placed, extents, (big, small, weights), list(zip(windows, pairs)))
        if found is not None:
            return found
    return None


def _related(
    placed: Mapping[str, Placed],
    extents: Mapping[Spot, int],
    sides: tuple[str, str, str],
    windows: Sequence[tuple[Window, Mapping[str, tuple[Spot, int]]]],
) -> Problem | None:
    """The problem where it is known which side is which."""
    big, small, weights = sides
    first = {side: placed[side].first for side in SIDES}
    axes = []
    for window, pair in windows:
        (o, stride), (k, dilation) = pair[small], pair[weights]
        taps, w_k, offset, cells = extents[k], placed[weights].steps[k], window.offset, window.extent
        if dilation < 0 and weights == "target":
            return None
        if dilation < 0:
            first[weights] += (taps - 1) * w_k
            offset, dilation, w_k = offset + (taps - 1) * dilation, -dilation, -w_k
        if offset > 0:
            first[big] += offset * window.step
            offset, cells = 0, cells - offset
        if stride < 1 or dilation < 1 or cells < 1 or (first[big] != placed[big].first and big == "target"):
            return None
        axes.append(Axis(extents[o], cells, taps, stride, dilation, -offset, placed[small].steps[o], window.step, w_k))
    used = {spot for window, _ in windows for spot, _ in window.factors}
    walks: dict[tuple[bool, ...], list[Walk]] = {}
    for spot, extent in extents.items():
        inside = tuple(spot in placed[side].steps for side in sides)
        if spot not in used and any(inside) and extent != 1:
            walk = Walk(extent, *(placed[side].steps.get(spot, 0) for side in sides))
            walks.setdefault(inside, []).append(walk)
    kinds = {"n": (True, True, False), "b": (True, False, True), "a": (False, True, True), "g": (True, True, True)}
    if walks.keys() - kinds.values() or len(axes) > MAX_AXES:
        return None
    of = {name: _merged(walks.get(inside, [])) for name, inside in kinds.items()}
    reduced = {small: "b", big: "a", weights: "n"}["target"]
    one = {name: found[0] if found else Walk(1, 0, 0, 0) for name, found in of.items()}
    batches = [walk for name, found in of.items() for walk in found[1:]]
    if len(of[reduced]) > 1:
        return None
    g, a, b = one["g"], one["a"], one["b"]
    if of["g"]:  # channels run over all groups
        a = a if a.extent > 1 else replace(a, right=g.right)
        b = b if b.extent > 1 else replace(b, left=g.left)
        if g.left != b.extent * b.left or g.right != a.extent * a.right:
            a, b = one["a"], one["b"]
            batches, g = [g, *batches], Walk(1, 0, 0, 0)
    if len(batches) > MAX_BATCHES:
        return None
    return _repeated(Problem(big, small, weights, one["n"], g, a, b, tuple(axes), tuple(batches), first))


def _repeated(problem: Problem) -> Problem:
    """A problem in which windows of one channel that lie side by side are channels, whose taps are repeated.

    Few are positions. A blur of 4x120x121x32 by 5x5 takes 0.22 of the time of loops (Emerald Rapids, gcc 12.2, f32), of
    2x100x123x3 by 3x3 0.01 of that of windows one by one, of 32 channels as positions 1.5 (AMD Zen 4).
    """
    found = (problem.n, *problem.batches)
    near = next((walk for walk in found if walk.left == walk.right == 1 and walk.extent > 1), None)
    if near is None or problem.solve == W or not problem.a.extent == problem.b.extent == problem.g.extent == 1:
        return problem
    one = Walk(1, 0, 0, 0)
    rest = replace(
        problem,
        n=one if problem.n is near else problem.n,
        batches=tuple(walk for walk in problem.batches if walk is not near),
    )
    cells, last = near.extent, problem.axes[-1]
    if cells >= ENOUGH or not last.big_x == last.small_x == cells or last.stride != 1:
        return replace(rest, g=near, a=replace(problem.a, right=1), b=replace(problem.b, left=1))
    lengths = {name: cells * getattr(last, name) for name in ("small", "big", "dilation", "pad")}
    return replace(rest, axes=(*problem.axes[:-1], replace(last, **lengths, small_x=1, big_x=1)))


def _merged(walks: Sequence[Walk]) -> list[Walk]:
    order = sorted(walks, key=lambda walk: (abs(walk.left), abs(walk.right), abs(walk.out)), reverse=True)
    return sorted(merged(order), key=lambda walk: walk.extent, reverse=True)


def is_dense(problem: Problem, side: str) -> bool:
    """Whether the engine takes one of the three where it is: without gaps, channels before or behind all other axes."""
    dims = [(name, extent, step) for name, extent, step in problem.dims(side) if extent > 1]
    cells = 1
    for _, extent, step in sorted(dims, key=lambda dim: abs(dim[2])):
        if (step if side != problem.weights else abs(step)) != cells:
            return False
        cells *= extent
    if side == problem.weights:
        return True
    space = [step for name, _, step in dims if name.startswith("x")]
    channels = [step for name, _, step in dims if name == "c"]
    between = bool(space) and any(min(space) < step < max(space) for step in channels)
    return space == sorted(space, reverse=True) and not between


def _apart(problem: Problem, side: str) -> bool:
    """Whether positions of one channel, along which lanes go, lie apart, or other problems between rows of sums."""
    dims = [(name[0] == "x", step) for name, extent, step in problem.dims(side) if extent > 1]
    space = [step for along, step in dims if along]
    if not space or side == problem.weights or not problem.a.extent == problem.b.extent == problem.g.extent == 1:
        return False
    return space[-1] != 1 or (side == "target" and any(min(space) < s < max(space) for along, s in dims if not along))


def spread(placed: Mapping[str, Placed], extents: Mapping[Spot, int], finished: bool) -> bool:
    """Whether loops, or rows that are copied first, serve better.

    Blurs 3x3 of 2x100x123x3 f32, then relu, take 0.04 of their time (AMD Zen 4, gcc 12.2). Sums of single channels
    that are finished in another order than engines have are stored: 3x3 of 4x57x61x48 f32 to channels first take 0.03.
    """
    problem = problem_of(placed, extents)
    if problem is None:
        return False
    turned = _single(problem) and problem.solve != W and not is_dense(problem, "target")
    return _apart(problem, "target") or (finished and (turned or _apart(problem, problem.data)))


def _single(problem: Problem) -> bool:
    """Whether windows move on groups of one channel."""
    return problem.a.extent == problem.b.extent == 1 < problem.g.extent


def _crossed(problem: Problem) -> str:
    """The operand whose neighbours are channels where those of the other data are positions, or the reverse; or ''.

    The engine goes along channels or positions of both: windows 3x3 of 8x64x57x61 f32, stored with channels last, take
    0.06 of their time with a copy, the gradient of their weights 0.1 (AMD EPYC, Zen 4, gcc 12.2).
    """
    lasts = dict[str, bool]()
    for side in (problem.big, problem.small) if _single(problem) else ():
        dims = [(abs(step), name) for name, extent, step in problem.dims(side) if extent > 1 and name[0] in "cx"]
        lasts[side] = bool(dims) and min(dims)[1] == "c"
    if len({*lasts.values()}) < 2:
        return ""
    return problem.data or next(side for side, last in lasts.items() if last)


def without_gaps(problem: Problem, side: str, keeps: bool) -> tuple[Problem, tuple[Walk, ...]]:
    """A problem with one of the three copied, its axes in their order if that `keeps`, and what the copy is made of."""
    dims = problem.dims(side)
    names = [name for name, _, _ in dims]
    if keeps:
        order = sorted(dims, key=lambda dim: abs(dim[2]), reverse=True)
    elif side == problem.weights:
        order = sorted(dims, key=lambda dim: not dim[0].startswith("batch"))
    else:
        data = next(other for other in (problem.small, problem.big) if other != side)
        steps = {name: step for name, extent, step in problem.dims(data) if extent > 1}
        last = steps.get("c") == 1 and data == "target"
        order = sorted(
            dims, key=lambda dim: (not dim[0].startswith("batch"), last and dim[0] == "c", names.index(dim[0]))
        )
    walks: list[Walk] = []
    steps, cells = {}, 1
    for name, extent, step in reversed(order):
        walks.insert(0, Walk(extent, step, step, step))
        steps[name] = cells
        cells *= extent
    return problem.moved(side, steps), tuple(walks)


def filled(problem: Problem) -> Problem:
    """The same with distances along axes of one cell, too: as if arrays had been laid out with them."""
    for side in (problem.big, problem.small, problem.weights):
        dims = [dim for dim in problem.dims(side) if not dim[0].startswith("batch")]
        steps = {name: step for name, extent, step in dims if extent > 1}
        last = steps.get("c", 0) == 1
        cells = 1
        dims.reverse()
        dims.sort(key=lambda dim: not (last and dim[0] == "c"))
        for name, extent, _ in dims:
            steps.setdefault(name, cells)
            cells = abs(steps[name]) * extent
        batches = problem.batches
        problem = replace(replace(problem, batches=()).moved(side, steps), batches=batches)
    return problem


def cut(problem: Problem) -> tuple[Problem, dict[str, Any]] | None:
    """A problem that computes a piece of sums, which lie without gaps in the order of their cells, and the pieces.

    None where cells of a piece do not lie side by side.
    """
    side = "target"
    dims = [dim for dim in problem.dims(side) if not dim[0].startswith("batch")]
    order = sorted((dim for dim in dims if dim[1] > 1), key=lambda dim: dim[2], reverse=True)
    size = {name: extent for name, extent, _ in dims}
    cells = math.prod(size.values())
    where, each, total = "", 1, 1
    if problem.solve == Y and cells * 4 > PIECE_BYTES:
        where = "n" if size["n"] > 1 else next((name for name, _, _ in order if name.startswith("x")), "")
        if where == "n" and cells // size["n"] * 4 > PIECE_BYTES:
            problem = replace(problem, n=Walk(1, 0, 0, 0), batches=(*problem.batches, problem.n))
            return None if len(problem.batches) > MAX_BATCHES else cut(problem)
        total = size.get(where, 1)
        each = max(1, min(total, PIECE_BYTES // (cells // total * 4)))
    steps, inner, spacing = {}, 1, 1
    lines: list[tuple[int, int, int]] = []
    for name, extent, step in reversed(order):
        steps[name] = spacing
        if not lines and name != where and step == inner:
            inner *= extent
        elif name == where and step == inner and not lines:
            lines = [(0, 0, 0)]
        else:
            lines.insert(0, (extent, spacing, step))
            if where and (0, 0, 0) not in lines:
                return None
        spacing *= each if name == where else extent
    lines = [line for line in lines if line[0]]
    number = {"": -1, "n": IMAGES}.get(where, MAX_AXES - len(problem.axes) + int(where[1:]) if where[:1] == "x" else -1)
    pieces = {
        "cut": number,
        "each": each,
        "total": total,
        "inner": inner,
        "sums_bytes": -(-spacing * 4 // 64) * 64,
        "lines": len(lines),
        "line": [line[0] for line in lines],
        "line_sums": [line[1] for line in lines],
        "line_cell": [line[2] for line in lines],
    }
    whole = {name: steps.get(name, spacing) for name, _, _ in dims}
    spaced = replace(problem, batches=()).moved(side, whole)
    return replace(spaced, batches=problem.batches), pieces


def channelwise(problem: Problem) -> bool:
    """Whether groups have one channel on either side, and the engine of such is the faster one.

    With one group 256x14x14 by 5x5 takes 0.17 of the time, bf16 0.11, 1x1024x1024 0.71, and the gradient of weights
    0.18 and 0.39; but 64x16000 by 101 taps 1.9, 4x512x512 by 11x11 1.4 (AMD Zen 5, gcc 12.2, f32).
    """
    if problem.a.extent != 1 or problem.b.extent != 1:
        return False
    last = problem.axes[-1]
    return problem.g.extent > 1 or problem.solve == W or last.taps <= FEW_TAPS or last.small < FEW_COLUMNS


def members_of(problem: Problem, kinds: Mapping[str, int]) -> dict[str, Any]:
    """The members of the engine's struct, but those of pieces; `kinds`: its flags for copying either operand."""
    copies: dict[str, tuple[Walk, ...]] = {}
    crossed = _crossed(problem)
    for side in ("left", "right"):
        well = is_dense(problem, side) and not _apart(problem, side) and side != crossed
        if kinds[side] != 1 or not well:
            problem, copies[side] = without_gaps(problem, side, well)
    problem = filled(problem)
    missing = MAX_AXES - len(problem.axes)
    neutral = Axis(1, 1, 1, 1, 1, 0, 0, 0, 0)

    def each(name: str) -> list[int]:
        return [getattr(axis, name) for axis in (*[neutral] * missing, *problem.axes)]

    def around(name: str, extent: str) -> list[int]:
        """Distances; axes that there are not lie around the first of the others."""
        steps = [getattr(axis, name) for axis in problem.axes]
        outer = steps[0] * getattr(problem.axes[0], extent)
        return [outer] * missing + steps

    first = {problem.small: problem.big, problem.big: problem.small, problem.weights: problem.big}["target"]
    of = {problem.big: "left", problem.small: "right", problem.weights: "out"}
    members = {
        "problem": {
            "N": problem.n.extent,
            "G": problem.g.extent,
            "A": problem.a.extent,
            "B": problem.b.extent,
            **{name: each(name) for name in ("small", "big", "taps", "stride", "dilation", "pad")},
            "small_n": problem.n.right,
            "small_c": problem.a.right,
            "small_x": around("small_x", "small"),
            "big_n": problem.n.left,
            "big_c": problem.b.left,
            "big_x": around("big_x", "big"),
            "w_g": problem.g.out,
            "w_a": problem.a.out,
            "w_b": problem.b.out,
            "w_k": around("w_k", "taps"),
        },
        "solve": problem.solve,
        "exchanged": int(first == "right"),
        "batches": len(problem.batches),
        "batch": [walk.extent for walk in problem.batches],
        "each": 1,
        "total": 1,
        "cut": -1,
    }
    for side in SIDES:
        name = "out" if side == "target" else side
        members[f"{name}_batch"] = [getattr(walk, of[side]) for walk in problem.batches]
    for side in ("left", "right"):
        members[side] = copied(copies.get(side), kinds[side], "left", problem.first[side])
    return members
