"""How calls are split over parts: the table of an operation, and what each part of a call takes, changes and gives.

In: the splits of an operation, as data, and the facts of a call. Out: for ranges of letters a `Part`. Nothing here
knows an operation, moves data or calls a kernel.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import gcd
from pathlib import Path
from typing import Any

Range = tuple[int, int]
Ranges = dict[int, Range]  # by axis of an array
SHARED = ("cells", "same")  # joins that add nothing up


@dataclass(frozen=True)
class Window:
    """Cell `small * stride + tap * dilation - pad` of the big axis belongs to window `small`."""

    small: str
    big: str
    taps: str
    stride: str
    dilation: str
    pad: str = ""
    begin: str = ""
    end: str = ""
    extra: str = ""
    zero: tuple[str, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    kept: bool = False  # both sides of a part have the padding of the whole


@dataclass(frozen=True, eq=False)
class Split:
    """One letter of an operation, and how it may be split; the reference page of the operation says the same."""

    letter: str
    kind: str
    size: str
    axes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    joins: Mapping[str, str] = field(default_factory=dict)
    stretched: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    once: Sequence[str] = ()
    beside: str = ""
    reach: int = 0
    alone: bool = False
    sizes: Mapping[str, str] = field(default_factory=dict)
    when: Mapping[str, Any] = field(default_factory=dict)
    arrangements: Mapping[str, str] = field(default_factory=dict)
    rows: Sequence[int] = ()
    stretched_rows: Sequence[int] = ()
    window: Window | None = None
    why: str = ""

    @property
    def neighbours(self) -> bool:
        """Whether a part takes cells of the parts beside it."""
        return self.window is not None or self.reach > 0


@dataclass(frozen=True)
class Facts:
    """What a call means: sizes by symbol, where axes stand, shapes of what it takes and gives, its attributes.

    A list of arrays has a list of shapes. An absent tensor has no shape.
    """

    values: Mapping[str, Any]
    places: Mapping[str, Mapping[str, tuple[int, ...]]]
    shapes: Mapping[str, Any]
    attributes: Mapping[str, Any]
    row: int
    arrangements: Mapping[str, str]
    outputs: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class SplitOption:
    """A split that a call allows: of a size, or of one of the sizes along several axes, so many values."""

    split: Split
    axis: int
    axes: int
    total: int

    def spot(self, facts: Facts, tensor: str, axis: str) -> int | None:
        """The axis of the array that is cut; None where the tensor does not have it."""
        spots = facts.places.get(tensor, {}).get(axis, ())
        at = self.axis - self.axes + len(spots)
        return spots[at] if 0 <= at < len(spots) else None


@dataclass
class Part:
    """A part of a call: of each input its ranges, its attributes, and where its results belong.

    `inputs` and `outputs` are ranges of the whole; `used` are the ranges of a result that count. `attributes` are
    all that differ, None where one is left out. `without` are inputs that it does not get. `share` is its weight in a
    mean.
    """

    inputs: dict[str, Ranges] = field(default_factory=dict)
    outputs: dict[str, Ranges] = field(default_factory=dict)
    used: dict[str, Ranges] = field(default_factory=dict)
    shapes: dict[str, list[int]] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)
    without: set[str] = field(default_factory=set)
    share: float = 1.0


def splits(data: Sequence[Mapping[str, Any]]) -> tuple[Split, ...]:
    """The table of an operation from plain data."""
    return tuple(Split(**{**row, "window": Window(**row["window"])} if "window" in row else dict(row)) for row in data)


@dataclass(frozen=True)
class Order:
    """The order of a tensor's axes for each word of an attribute; of which `vectors` stand for all spatial axes."""

    layout: str
    orders: Mapping[str, Sequence[str]]
    vectors: Sequence[str]


@dataclass(frozen=True)
class Table:
    """The splits of an operation, and the orders of its tensors' axes where calls do not tell their places."""

    splits: tuple[Split, ...]
    tensors: Mapping[str, Order]


@cache
def tables() -> dict[str, Table]:
    """The table of every operation of this package, by its function."""
    found = json.loads((Path(__file__).resolve().parent / "SHARDING.json").read_text(encoding="utf-8"))
    return {
        function: Table(splits(entry["splits"]), {name: Order(*order) for name, order in entry["tensors"].items()})
        for function, entry in found.items()
    }


def options(table: Sequence[Split], facts: Facts) -> list[SplitOption]:
    """The splits that a call allows."""
    found: list[SplitOption] = []
    for split in table:
        known = {name: facts.attributes.get(name) for name in split.when} == dict(split.when)
        placed = all(facts.arrangements.get(name, word) == word for name, word in split.arrangements.items())
        if split.kind == "whole" or not known or not placed or (split.rows and facts.row not in split.rows):
            continue
        sizes = _along(facts, split.size)
        if split.beside:
            pairs = zip(sizes, _along(facts, split.beside))
            sizes = tuple(own if other == 1 and split.alone else gcd(own, other) for own, other in pairs)
        counted = "count" in split.attributes.values()  # one group leaves its channels to other letters
        made = [
            SplitOption(split, axis, len(sizes), size) for axis, size in enumerate(sizes) if size > 1 or not counted
        ]
        found += [one for option in made for one in _joined(option, facts)]
    return found


def _along(facts: Facts, size: str) -> tuple[int, ...]:
    """A size along each of its axes."""
    found = facts.values[size]
    return found if isinstance(found, tuple) else (int(found),)


def _joined(option: SplitOption, facts: Facts) -> Iterator[SplitOption]:
    """An option with the joins of this call: an output that has one cell for all values is made of shares."""
    split = option.split
    shares = {
        name: join
        for name, join in split.stretched.items()
        if name in facts.outputs and option.total != 1 and not _has_cells(option, facts, name)
    }
    if not shares:
        yield option
    elif not split.stretched_rows or facts.row in split.stretched_rows:
        yield replace(option, split=replace(split, joins={**split.joins, **shares}))


def _has_cells(option: SplitOption, facts: Facts, tensor: str) -> bool:
    spots = [option.spot(facts, tensor, axis) for axis in option.split.axes.get(tensor, ())]
    return any(spot is not None and extent(facts, tensor, spot) != 1 for spot in spots)


def joins(cut: Sequence[SplitOption], output: str) -> str | None:
    """How an output is made of parts along several options: `cells`, `same` or a reduction; None where it is not."""
    found = {option.split.joins[output] for option in cut} - {"same"}
    shares = found - {"cells"}
    if len(shares) > 1:
        return None
    return next(iter(shares), "cells" if found else "same")


def part(facts: Facts, cut: Mapping[SplitOption, Range]) -> Part | None:
    """What a part takes and gives that has a range of values along each option; no range is empty.

    None where all its windows lie in the padding, and add nothing to a sum.
    """
    made = Part()
    if any(_lost(facts, option, ranges) for option, ranges in cut.items()):
        return None
    for option, (start, stop) in cut.items():
        split = option.split
        if split.window is None:
            _cells(facts, option, start, stop, made)
        made.without |= set(split.once) if start else set()
        if "mean" in split.joins.values():
            made.share *= (stop - start) / option.total
        for name, size in split.sizes.items():
            made.attributes[name] = (
                _stated(facts, option, size, start, stop, made.attributes.get(name)) if size else None
            )
        for name, change in split.attributes.items():
            given = facts.attributes.get(name)
            if change == "count":
                made.attributes[name] = stop - start
            elif given is not None and len(given) > 1:
                made.attributes[name] = list(given)[start:stop]
    for split in dict.fromkeys(option.split for option in cut if option.split.window):
        _windows(facts, split, {option.axis: option for option in cut if option.split is split}, cut, made)
    for option in cut:
        for name, output in option.split.states.items():
            if output in made.shapes and facts.attributes.get(name) is not None:
                made.attributes[name] = made.shapes[output]
    return made


def _stated(facts: Facts, option: SplitOption, size: str, start: int, stop: int, known: Any) -> list[int]:
    """The extents of a part that a list states; `known` are those that other letters have cut."""
    found = list(known or _along(facts, size))
    low, high = _reaching(option, start, stop)
    found[option.axis] = _along(facts, size)[option.axis] // option.total * (high - low)
    return found


def _reaching(option: SplitOption, start: int, stop: int) -> Range:
    """The values that a part takes with those beside it."""
    return max(0, start - option.split.reach), min(option.total, stop + option.split.reach)


def _cells(facts: Facts, option: SplitOption, start: int, stop: int, made: Part) -> None:
    for tensor, axes in option.split.axes.items():
        for axis in axes if tensor in facts.shapes else ():
            spot = option.spot(facts, tensor, axis)
            if spot is None:
                continue
            cells = extent(facts, tensor, spot)
            if cells == 1 and option.total != 1:  # stretched
                continue
            each = cells // option.total if option.total else 1
            low, high = _reaching(option, start, stop)
            taken = (low * each, high * each)
            if tensor in facts.outputs:
                _gives(facts, made, tensor, spot, (start * each, stop * each), taken)
            else:
                made.inputs.setdefault(tensor, {})[spot] = taken


def extent(facts: Facts, tensor: str, spot: int) -> int:
    shape = facts.shapes[tensor]
    return int(shape[0][spot] if shape and isinstance(shape[0], (list, tuple)) else shape[spot])


def _gives(facts: Facts, made: Part, tensor: str, spot: int, wanted: Range, computed: Range) -> None:
    """Of an output, a range of the whole, and the range that a part computes, in which it lies."""
    made.outputs.setdefault(tensor, {})[spot] = wanted
    if wanted != computed:
        made.used.setdefault(tensor, {})[spot] = (wanted[0] - computed[0], wanted[1] - computed[0])
    shape = made.shapes.setdefault(tensor, list(facts.shapes[tensor]))
    shape[spot] = computed[1] - computed[0]


@dataclass(frozen=True)
class Geometry:
    """The windows along one axis, in numbers."""

    small: int
    big: int
    stride: int
    reach: int  # cells from the first of a window to behind its last
    pad: int

    def under(self, start: int, stop: int) -> Range:
        """The cells under some windows, those in the padding too."""
        return start * self.stride - self.pad, (stop - 1) * self.stride + self.reach - self.pad

    def windows(self, start: int, stop: int) -> Range:
        """Windows, some of them over a cell, that hold a range."""
        first, last = self.under(start, stop)
        if first >= self.big:
            start = max(0, (self.big - 1 + self.pad) // self.stride)
        if last <= 0:
            stop = -((self.reach - self.pad - 1) // self.stride) + 1
        return start, stop

    def over(self, start: int, stop: int) -> Range:
        """The windows that have a cell in a range; more of them where they leave gaps at its ends."""
        first = -((self.reach - 1 - start - self.pad) // self.stride)
        first = max(0, min(first, (start + self.pad) // self.stride, self.small - 1))
        last = (stop - 1 + self.pad) // self.stride + 1
        if self.under(first, max(last, first + 1))[1] < stop:
            last += 1
        return first, max(first + 1, min(last, self.small))

    def kept(self, start: int, stop: int) -> tuple[Range, Range]:
        """The cells of a part that is padded as the whole is, so that some windows are right, and all its windows."""
        first = max(0, min(start - -(-self.pad // self.stride), (self.big - 1) // self.stride))
        begin = first * self.stride
        end = min(self.big, max(begin + 1, self.under(start, stop)[1]))
        count = (end - begin + 2 * self.pad - self.reach) // self.stride + 1
        return (first, first + count), (begin, end)


def geometry(facts: Facts, window: Window, axis: int) -> Geometry:
    """The windows of a call along one of its axes."""

    def number(name: str) -> int:
        value = facts.values[name] if name and not name.isdigit() else int(name or 0)
        return int(value[axis] if isinstance(value, tuple) else value)

    taps, dilation = number(window.taps), number(window.dilation)
    reach = (taps - 1) * dilation + 1
    return Geometry(number(window.small), number(window.big), number(window.stride), reach, number(window.pad))


def _lost(facts: Facts, option: SplitOption, ranges: Range) -> bool:
    """Whether all windows of a share of a sum lie in the padding."""
    window = option.split.window
    if window is None or set(option.split.joins.values()) <= {*SHARED}:
        return False
    found = geometry(facts, window, option.axis)
    first, last = found.under(*ranges)
    return first >= found.big or last <= 0


def _windows(
    facts: Facts, split: Split, own: Mapping[int, SplitOption], cut: Mapping[SplitOption, Range], made: Part
) -> None:
    """The windows of a part along every axis, with the padding that each has of its own."""
    window = split.window
    assert window is not None
    count = next(iter(own.values())).axes
    padding: dict[str, list[int]] = {name: [0] * count for name in (window.begin, window.end, window.extra)}
    for axis in range(count):
        found = geometry(facts, window, axis)
        windows, cells = (0, found.small), (0, found.big)
        if axis in own:
            option = own[axis]
            wanted = cut[option]
            windows = found.over(*wanted) if split.size == window.big else found.windows(*wanted)
            cells = _clipped(found, windows, split.size == window.big)
            if window.kept:
                windows, cells = found.kept(*wanted)
            _sides(facts, option, wanted, {"small": windows, "big": cells}, made)
        first, last = found.under(*windows)
        padding[window.begin][axis] = max(0, cells[0] - first)
        padding[window.end][axis] = max(0, last - cells[1])
        if not padding[window.end][axis]:
            padding[window.extra][axis] = max(0, cells[1] - last)
    made.attributes.update({name: entries for name, entries in padding.items() if name})
    made.attributes.update({name: [0] * count for name in window.zero})
    made.attributes.update(window.words)


def _clipped(found: Geometry, windows: Range, scattered: bool) -> Range:
    """The cells under windows that there are; the last windows have those behind them that no window reaches."""
    first, last = found.under(*windows)
    behind = scattered and windows[1] == found.small
    return min(max(0, first), found.big), found.big if behind else max(0, min(last, found.big))


def _sides(facts: Facts, option: SplitOption, wanted: Range, sides: Mapping[str, Range], made: Part) -> None:
    for tensor, axes in option.split.axes.items():
        for axis, side in axes.items() if tensor in facts.shapes else ():
            spot = option.spot(facts, tensor, axis)
            if spot is None:
                continue
            if tensor in facts.outputs:
                _gives(facts, made, tensor, spot, wanted, sides[side])
            else:
                made.inputs.setdefault(tensor, {})[spot] = sides[side]
