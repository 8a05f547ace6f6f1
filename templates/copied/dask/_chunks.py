"""Chunks of inputs as ranges of letters, and ranges as chunks and slices of chunks.

In: what a call means, and its dask arrays. Out: where each letter is divided; a Refusal that names the rechunk where
chunks do not fit.
"""

from __future__ import annotations

import itertools
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from .. import _sharding, _split_calls
from .._errors import Refusal
from .._sharding import Facts, Range, SplitOption


class Source:
    """One dask array, and the tasks that slice its chunks."""

    def __init__(self, parameter: str, array: Any, layer: str) -> None:
        self.parameter, self.array, self.layer = parameter, array, layer
        self.starts = [list(itertools.accumulate(sizes, initial=0)) for sizes in array.chunks]

    def one_chunk(self, axis: int) -> str:
        """The call that leaves an axis in one chunk."""
        return f"{self.parameter}.rechunk({{{axis}: -1}})"

    def pieces(self, ranges: Mapping[int, Range], tasks: dict[Any, Any]) -> Any:
        """Nested lists of keys, one level for each axis: whole chunks, and slices of others."""
        covers = []
        for axis, starts in enumerate(self.starts):
            start, stop = ranges.get(axis, (0, starts[-1]))
            found = []
            for n in range(max(0, bisect_right(starts, start) - 1), min(bisect_left(starts, stop), len(starts) - 1)):
                low, high = (min(max(at, starts[n]), starts[n + 1]) - starts[n] for at in (start, stop))
                if low < high:
                    found.append((n, low, high, starts[n + 1] - starts[n]))
            covers.append(found or [(0, 0, 0, starts[1] - starts[0])])
        return self._nested(covers, (), tasks)

    def _nested(self, covers: Sequence[Any], chosen: tuple[Any, ...], tasks: dict[Any, Any]) -> Any:
        if len(chosen) < len(covers):
            return [self._nested(covers, (*chosen, one), tasks) for one in covers[len(chosen)]]
        block = tuple(n for n, *_ in chosen)
        whole = (self.array.name, *block)
        if all((low, high) == (0, size) for _, low, high, size in chosen):
            return whole
        bounds = tuple((low, high) for _, low, high, _ in chosen)
        key = (self.layer, *block, *itertools.chain(*bounds))
        tasks[key] = (operator.getitem, whole, tuple(slice(*pair) for pair in bounds))
        return key


def bounds(call: _split_calls.Call, sources: Mapping[str, Sequence[Source]]) -> dict[SplitOption, list[Range]]:
    """The ranges of every letter along which an input is chunked. Raises Refusal where chunks do not fit."""
    found: dict[SplitOption, list[Range]] = {}
    for name, arrays in sources.items():
        for source in arrays:
            for axis, starts in enumerate(source.starts):
                if len(starts) > 2:
                    option = _option(call, name, axis, source)
                    if option not in found:
                        found[option] = _ranges(call.facts, option, name, axis, source)
    return found


def rechunks(call: _split_calls.Call, sources: Mapping[str, Sequence[Source]], option: SplitOption) -> Iterator[str]:
    """The calls that leave every input in one chunk along a letter."""
    for name, arrays in sources.items():
        spots = {option.spot(call.facts, name, own) for own in option.split.axes.get(name, ())}
        for source in arrays:
            for axis, starts in enumerate(source.starts):
                if axis in spots and len(starts) > 2:
                    yield source.one_chunk(axis)


def _option(call: _split_calls.Call, name: str, axis: int, source: Source) -> SplitOption:
    """The letter along which an input is chunked at an axis."""
    facts = call.facts
    for option in call.options:
        if any(option.spot(facts, name, own) == axis for own in option.split.axes.get(name, ())):
            return option
    table = _sharding.tables()[call.operation.function].splits
    places = facts.places.get(name, {})
    own = [split for split in table if any(axis in places.get(one, ()) for one in split.axes.get(name, ()))]
    reason = f": {own[0].why}" if own and own[0].why else ", as its reference page says"
    got = f"{len(source.starts[axis]) - 1} chunks along axis {axis}, along which this call may not be split{reason}"
    expected = f"one chunk along axis {axis}: {source.one_chunk(axis)}"
    raise Refusal(f"{source.parameter}-chunks", source.parameter, got, expected)


def _ranges(facts: Facts, option: SplitOption, name: str, axis: int, source: Source) -> list[Range]:
    """The chunks of an axis as ranges of a letter's values, none of them empty."""
    starts = source.starts[axis]
    side = next(role for own, role in option.split.axes[name].items() if option.spot(facts, name, own) == axis)
    if option.split.window is None:
        each = starts[-1] // option.total if option.total else 1
        if any(start % each for start in starts):
            raise _uneven(source, axis, each)
        values = [start // each for start in starts]
    else:
        found = _sharding.geometry(facts, option.split.window, option.axis)
        big = option.split.size == option.split.window.big
        if (side == "big") == big:
            values = starts
        else:  # where a window and the cells in its middle meet
            middle = found.pad - (found.reach - found.stride) // 2
            moved = [s * found.stride - middle if big else (s + middle) // found.stride for s in starts[1:-1]]
            values = [0, *moved, option.total]
    limits = sorted({min(max(value, 0), option.total) for value in values})
    return list(pairwise(limits)) or [(0, option.total)]


def _uneven(source: Source, axis: int, each: int) -> Refusal:
    """Chunks that part what belongs together, and chunks near them that do not."""
    sizes = source.array.chunks[axis]
    near = [each * round(start / each) for start in source.starts[axis]]
    chunks = tuple(b - a for a, b in pairwise(sorted(set(near))))
    expected = f"chunks of multiples of {each} along axis {axis}: {source.parameter}.rechunk({{{axis}: {chunks}}})"
    return Refusal(
        f"{source.parameter}-chunks", source.parameter, f"chunks {sizes} along axis {axis}", expected, chunks
    )
