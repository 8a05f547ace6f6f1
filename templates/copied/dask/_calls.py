"""A call on dask arrays as a graph: a task for each part, slices of neighbours before it, joins of sums behind it.

In: an operation, dask arrays, attributes. Out: dask arrays. Parts follow the chunks of the inputs: where a letter may
be split, its values are divided where the first input that is chunked along it is.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

from .. import _interface, _sharding, _split_calls, _threads
from .._description import TensorSpec
from .._errors import Refusal
from .._sharding import Part
from ._chunks import Source, bounds, rechunks
from ._tasks import Combined, Computed, nothing

FAN = 8  # parts of a sum that are joined at once


def called(operation: Any, inputs: Sequence[Any], named: Mapping[str, Any], threads: int) -> Any:
    """The outputs of a call. SpecError where it is refused, or where chunks do not fit the operation."""
    given, attributes = _interface.bound(operation, inputs, named)
    try:
        threads = _threads.check_threads("threads", threads)
        arrays = [_lazy(info, value) for info, value in zip(operation.inputs, given)]
        call = _split_calls.understood(operation, [_described(value) for value in arrays], attributes)
        return Graph(call, arrays, threads).outputs()
    except Refusal as refusal:
        raise operation.refused(refusal) from None


def _lazy(info: Any, value: Any) -> Any:
    """An input as dask arrays; one that is held in memory has one chunk. A vector that states a shape stays."""
    if value is None or info.states_shape:
        return np.asarray(value) if isinstance(value, da.Array) else value
    if isinstance(value, (list, tuple)):
        return [_lazy(info, part) for part in value]
    whole: Any = da.from_array
    lazy = value if isinstance(value, da.Array) else whole(np.asarray(value), chunks=-1)
    if any(np.isnan(extent) for extent in lazy.shape):
        expected = f"known chunks: {info.parameter}.compute_chunk_sizes() finds them"
        raise Refusal(f"{info.parameter}-chunks", info.parameter, "chunks of unknown sizes", expected)
    return lazy


def _described(value: Any) -> Any:
    if isinstance(value, list):
        return [_described(part) for part in value]
    return TensorSpec(value.shape, value.dtype) if isinstance(value, da.Array) else value


class Graph:
    """The tasks of one call."""

    def __init__(self, call: _split_calls.Call, arrays: Sequence[Any], threads: int) -> None:
        self.call, self.threads, self.given = call, threads, arrays
        self.function = call.operation.function
        self.token = tokenize(self.function, arrays, sorted(call.facts.attributes.items()), threads)
        self.tasks: dict[Any, Any] = {}
        self.sources: dict[str, list[Source]] = {}
        for info, value in zip(call.operation.inputs, arrays):
            pieces = value if isinstance(value, list) else [value] if isinstance(value, da.Array) else []
            names = [f"{self.function}-{info.parameter}-{n}-{self.token}" for n in range(len(pieces))]
            self.sources[info.name] = [Source(info.parameter, *pair) for pair in zip(pieces, names)]
        self.cut = bounds(call, self.sources)

    def outputs(self) -> Any:
        names = self.call.facts.outputs
        joins = {name: _sharding.joins(tuple(self.cut), name) for name in names}
        for name, join in joins.items():
            if join is None:
                raise self.unjoinable(name)
        alone = list(joins.values()) == ["cells"] or (not self.cut and len(joins) == 1)
        parts = self.parts(alone)
        used = [one for value in self.given for one in (value if isinstance(value, list) else [value])]
        lazy: Any = [value for value in used if isinstance(value, da.Array)]
        graph = HighLevelGraph.from_collections(self.layer(alone), self.tasks, dependencies=lazy)
        if alone:
            return self.array(graph, self.layer(True), names[0])
        made = [self.output(graph, at, name, joins[name] or "", parts) for at, name in enumerate(names)]
        return made[0] if len(made) == 1 else tuple(made)

    def unjoinable(self, name: str) -> Refusal:
        """The refusal of parts whose results cannot be joined, with the least that has to be one chunk."""
        letters = " and ".join(option.split.letter for option in self.cut)
        for count in range(1, len(self.cut) + 1):
            for whole in combinations(self.cut, count):
                rest = tuple(option for option in self.cut if option not in whole)
                if all(_sharding.joins(rest, output) is not None for output in self.call.facts.outputs):
                    steps = dict.fromkeys(
                        step for option in whole for step in rechunks(self.call, self.sources, option)
                    )
                    along = " and ".join(option.split.letter for option in whole)
                    expected = f"one chunk along {along}: {' and '.join(steps)}"
                    got = f"parts along {letters}, whose results cannot be joined"
                    return Refusal(f"{name}-chunks", name, got, expected)
        raise AssertionError("a call in one part has nothing to join")

    def layer(self, alone: bool) -> str:
        return f"{self.function}{'' if alone else '-part'}-{self.token}"

    def parts(self, alone: bool) -> dict[tuple[int, ...], tuple[Any, Part]]:
        """A task for each part that has anything to compute: its key, and what it gives."""
        found = {}
        for at in self.numbers():
            ranges = {option: own[number] for (option, own), number in zip(self.cut.items(), at)}
            part = _sharding.part(self.call.facts, ranges)
            if part is None:
                continue
            key = (self.layer(alone), *(self.block(0, at) if alone else at))
            values, attributes = _split_calls.part_of(self.call, part, self.given)
            inputs = [self.pieces(info.name, part, value) for info, value in zip(self.call.operation.inputs, values)]
            trims = [part.used.get(output, {}) for output in self.call.facts.outputs]
            self.tasks[key] = (Computed(self.function, attributes, trims, self.threads, alone), *inputs)
            found[at] = (key, part)
        return found

    def pieces(self, name: str, part: Part, value: Any) -> Any:
        """What a task gets for an input: chunks and slices of chunks, nested as its axes are."""
        if value is None or not self.sources[name]:
            return value
        found = [source.pieces(part.inputs.get(name, {}), self.tasks) for source in self.sources[name]]
        return (tuple, found) if isinstance(value, list) else found[0]

    def block(self, at: int, numbers: Sequence[int]) -> tuple[int, ...]:
        """The place of a part among the chunks of an output."""
        axes = self.axes(self.call.facts.outputs[at])
        place = [0] * len(self.call.facts.shapes[self.call.facts.outputs[at]])
        for axis, number in axes.items():
            place[axis] = numbers[number]
        return tuple(place)

    def axes(self, name: str) -> dict[int, int]:
        """Which axes of an output are cut, and by which of the options."""
        found = {}
        for number, option in enumerate(self.cut):
            for axis in option.split.axes.get(name, ()) if option.split.joins[name] == "cells" else ():
                spot = option.spot(self.call.facts, name, axis)
                if spot is not None:
                    found[spot] = number
        return found

    def output(
        self, graph: HighLevelGraph, at: int, name: str, join: str, parts: Mapping[tuple[int, ...], tuple[Any, Part]]
    ) -> Any:
        """One output, made of all parts."""
        label = self.function if len(self.call.facts.outputs) == 1 else f"{self.function}-{name}"
        layer, tasks = f"{label}-{self.token}", dict[Any, Any]()
        groups: dict[tuple[int, ...], list[Any]] = {self.block(at, n): [] for n in self.numbers()}
        for numbers, (key, part) in parts.items():
            if all(n == 0 for n, option in zip(numbers, self.cut) if option.split.joins[name] == "same"):
                groups[self.block(at, numbers)].append((key, part.share))
        chunks = self.chunks(name)
        for block, keys in groups.items():
            extents = tuple(chunks[axis][place] for axis, place in enumerate(block))
            _join(tasks, (layer, *block), keys, at, join, extents, self.call.dtypes[name])
        layers = {**graph.layers, layer: MaterializedLayer(tasks)}
        needed = {**graph.dependencies, layer: {self.layer(False)}}
        return self.array(HighLevelGraph(layers, needed), layer, name)

    def array(self, graph: HighLevelGraph, layer: str, name: str) -> Any:
        return da.Array(graph, layer, self.chunks(name), dtype=self.call.dtypes[name])  # type: ignore[no-untyped-call]

    def chunks(self, name: str) -> tuple[tuple[int, ...], ...]:
        shape, cuts = self.call.facts.shapes[name], list(self.cut.items())
        chunks = [(extent,) for extent in shape]
        for axis, number in self.axes(name).items():
            option, ranges = cuts[number]
            each = shape[axis] // option.total
            chunks[axis] = tuple((stop - start) * each for start, stop in ranges)
        return tuple(chunks)

    def numbers(self) -> Iterator[tuple[int, ...]]:
        return product(*(range(len(ranges)) for ranges in self.cut.values()))


def _join(
    tasks: dict[Any, Any], key: Any, parts: list[Any], at: int, join: str, extents: tuple[int, ...], dtype: Any
) -> None:
    """The task that joins parts: in their order, a few at a time."""
    if not parts:
        tasks[key] = (nothing, extents, str(np.dtype(dtype)))
    elif join in ("cells", "same"):
        tasks[key] = (operator.getitem, parts[0][0], at)
    else:
        keys, shares = [part for part, _ in parts], [share if join == "mean" else 1.0 for _, share in parts]
        level = 0
        while level == 0 or len(keys) > 1:
            groups = range(0, len(keys), FAN)
            names = [key if len(groups) == 1 else (f"{key[0]}-{level}", *key[1:], n) for n in range(len(groups))]
            for name, start in zip(names, groups):
                own = slice(start, start + FAN)
                weights = [] if level or join != "mean" else shares[own]
                tasks[name] = (Combined(join, -1 if level else at, tuple(weights)), keys[own])
            keys, level = names, level + 1
