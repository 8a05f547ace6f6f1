"""Calls of any operation, drawn from its declarations: extents at the edges, and calls that are a step from legal.

What a call means is asked of the interpreter; nothing here knows an operation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from opwright.language.evaluate import evaluate
from opwright.language.expr import Inexact
from opwright.language.model import Attribute, Op
from opwright.language.types import symbol_kinds, symbol_of
from opwright.oracle import sample
from opwright.oracle.validate import NUMPY, Validation, validate

Rng = np.random.Generator

EDGES = (0, 1, 1, 2, 2, 3, 4, 6, 17, 65)  # 17 and 65: a vector's length plus one, a block of accumulators' plus one
SPACE = (0, 1, 1, 2, 2, 3, 4, 5, 6, 9, 17)
MAX_SIZE = 200_000  # terms of a call, and elements of a tensor
TRIES = 300


@dataclass(frozen=True)
class Drawn:
    """The arguments of a call by position and by name, and what the spec makes of it."""

    inputs: tuple[np.ndarray | None, ...]
    attributes: dict[str, Any]
    validation: Validation

    def __str__(self) -> str:
        given = [None if x is None else f"{x.dtype}{list(x.shape)}" for x in self.inputs]
        return f"{given} {self.attributes} {self.validation.violations}"


class Caller:
    """Draws calls of one operation."""

    def __init__(self, op: Op, rng: Rng) -> None:
        self.op, self.rng = op, rng
        kinds = symbol_kinds(op)
        self.numbers = [a for a in sample.numbers(op) if a.type != "f32"]
        self.reals = [a for a in sample.numbers(op) if a.type == "f32"]
        self.vectors = [dim.symbol for dim in op.dims.values() if kinds[dim.symbol].vector]
        self.sizes = [dim.symbol for dim in op.dims.values() if not kinds[dim.symbol].vector]
        self.columns: list[dict[str, int]] = []

    def one(self, items: Any) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def legal(self, count: int) -> Iterator[Drawn]:
        """Up to `number` legal calls; fewer if legal ones are rare."""
        made = 0
        for attempt in range(TRIES):
            drawn = self.draw(tame=attempt % 3 == 0)
            if drawn is not None and drawn.validation.accepted:
                made += 1
                yield drawn
            if made == count:
                return

    def draw(self, tame: bool = False) -> Drawn | None:
        """A call, legal or not; None where sizes make no shapes, or too large ones."""
        op, rng = self.op, self.rng
        rank = int(rng.integers(op.spatial_rank.min, op.spatial_rank.max + 1))
        scalars = {symbol_of(a): self.small(a) for a in self.numbers if a.type == "s64"}
        unit = max(1, math.prod(scalars.values())) if rng.random() < 0.7 else 1
        scalars |= {symbol: unit * int(self.one((1, 2) if tame else EDGES)) for symbol in self.sizes}
        columns = [self.column(tame) for _ in range(rank)]
        symbols = [*self.vectors, *(symbol_of(a) for a in self.numbers if a.type == "s64[]")]
        vectors = {symbol: tuple(column[symbol] for column in columns) for symbol in symbols}
        values: dict[str, Any] = {}
        for attribute in self.numbers:
            value = {**scalars, **vectors}[symbol_of(attribute)]
            if attribute.required or rng.random() < 0.8:
                values[attribute.name or ""] = list(value) if isinstance(value, tuple) else value
        for attribute in self.reals:
            if attribute.required or rng.random() < 0.6:
                values[attribute.name or ""] = float(self.one((-2, -1, 0, 0.5, 1, 3)))
        for attribute in op.attributes:
            if attribute.type == "string" and (attribute.required or rng.random() < 0.7):
                allowed = self.one(attribute.values)
                values[attribute.name or ""] = self.one((allowed.value, *allowed.aliases))
        row = self.one(op.dtypes)
        given = frozenset(t.name for t in op.tensors if t.optional and rng.random() < 0.5)
        arrangements = {t.name: self.one(list(t.dims_by_arrangement)) for t in op.tensors}
        sizes: dict[str, Any] = {**{s: scalars[s] for s in self.sizes}, **{s: vectors[s] for s in self.vectors}}
        return self.made(sample.Setting(sizes, values, given, arrangements, row), rank)

    def small(self, attribute: Attribute) -> int:
        return max(attribute.min or 0, -3) + int(self.rng.integers(0, 3))

    def column(self, tame: bool) -> dict[str, int]:
        """Values of one spatial axis; often one with which a call was legal."""
        if self.columns and self.rng.random() < 0.5:
            return dict(self.one(self.columns))
        column = {symbol_of(a): self.small(a) for a in self.numbers if a.type == "s64[]"}
        return column | {symbol: int(self.one((1, 2, 3, 4) if tame else SPACE)) for symbol in self.vectors}

    def made(self, setting: sample.Setting, rank: int) -> Drawn | None:
        op = self.op
        known = {a.name for a in op.attributes}
        canonical = {
            spelling: value.value
            for a in op.attributes
            for value in a.values or ()
            for spelling in (value.value, *value.aliases)
        }
        plain = {n: canonical.get(v, v) if isinstance(v, str) else v for n, v in setting.values.items()}
        try:
            made = sample.arguments(op, replace(setting, values=plain))
        except (Inexact, KeyError):
            return None
        if any(math.prod(shape) > MAX_SIZE or min(shape, default=0) < 0 for _, shape in made.tensors.values()):
            return None
        inputs = tuple(self.array(made, tensor.name, setting.row) for tensor in op.inputs)
        attributes = {**made.values, **setting.values}
        assert attributes.keys() <= known
        validation = validate(op, inputs, attributes)
        if validation.accepted:
            if self.terms(validation.values) > MAX_SIZE or math.prod(validation.shape or ()) > MAX_SIZE:
                return None
            columns = [
                {s: v[at] for s, v in sample.facts(op, replace(setting, values=plain)).items() if isinstance(v, tuple)}
                for at in range(rank)
            ]
            self.columns = [*self.columns[-20:], *columns]
        return Drawn(inputs, attributes, validation)

    def terms(self, values: Mapping[str, Any]) -> int:
        extents = [evaluate(extent.tree, values) for extent in self.op.semantics.ranges.values()]
        return math.prod(entry for extent in extents for entry in (extent if isinstance(extent, tuple) else (extent,)))

    def array(self, made: sample.Arguments, name: str, row: Mapping[str, str]) -> np.ndarray | None:
        if name in made.vectors:
            return np.array(made.vectors[name], np.int32)
        if name not in made.tensors:
            return None
        dtype, shape = made.tensors[name]
        return self.rng.integers(-3, 4, shape).astype(NUMPY[dtype])

    def nearly(self, drawn: Drawn) -> Drawn:
        """A call with one thing changed, refused about as often as not."""
        inputs, attributes = list(drawn.inputs), dict(drawn.attributes)
        present = [at for at, array in enumerate(inputs) if array is not None]
        kind = self.one(("extent", "extent", "number", "rank", "dtype", "drop"))
        at = int(self.one(present))
        array = inputs[at]
        assert array is not None
        if kind == "extent" and array.ndim:
            shape = list(array.shape)
            axis = int(self.rng.integers(array.ndim))
            shape[axis] = max(shape[axis] + int(self.one((-1, 1, 1, 3))), 0)
            changed = np.zeros(shape, array.dtype)
            if array.dtype == np.int32:
                changed[...] = np.resize(array, shape) if array.size else 1
            inputs[at] = changed
        elif kind == "number" and attributes:
            name = str(self.one(list(attributes)))
            value = attributes[name]
            if isinstance(value, list) and value:
                value = [*value]
                value[int(self.rng.integers(len(value)))] += int(self.one((-3, -1, 1, 7)))
                attributes[name] = value
            elif isinstance(value, (int, float)):
                attributes[name] = value + self.one((-3, -1, 1, 7))
            else:
                attributes[name] = "no_such_word"
        elif kind == "rank" and array.dtype != np.int32:
            inputs[at] = array[np.newaxis]
        elif kind == "dtype":
            inputs[at] = array.astype(self.one((np.float32, np.float64, np.int64)))
        elif kind == "drop":
            inputs[at] = None
        return Drawn(tuple(inputs), attributes, validate(self.op, inputs, attributes))
