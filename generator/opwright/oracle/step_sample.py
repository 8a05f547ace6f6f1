"""Small legal calls of an operation of steps, sampled from its declarations alone, the same ones at every run.

In: an operation of steps. Out: inputs of real numbers, attributes, and the meaning of the call. Sizes are chosen first
and determine the arrays; calls that break a rule of the spec are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..language import expr
from ..language.evaluate import evaluate
from ..language.expr import Call, Inexact, Name
from ..language.model import Attribute, Op, Tensor
from ..language.types import symbol_of
from .extents import each
from .step_call import StepValidation
from .validate import NUMPY
from .validate_steps import validate_steps

SEED = 20240229
TRIES = 300
EXTENTS = (1, 2, 2, 3, 3, 4)
NUMBERS = (0.5, 1.0, 2.0, 3.0)


@dataclass(frozen=True)
class Sample:
    """A legal call: an array per input, None if it is left out."""

    arrays: tuple[Any, ...]
    attributes: dict[str, Any]
    call: StepValidation


def samples(op: Op, count: int, seed: int = SEED, extents: Sequence[int] = EXTENTS) -> Iterator[Sample]:
    """Up to `number` legal calls; fewer if legal ones are rare."""
    sampler = _Sampler(op, np.random.default_rng(seed), extents)
    found = 0
    for number in range(TRIES):
        sample = sampler.draw(number)
        if sample is not None:
            found += 1
            yield sample
        if found == count:
            return


class _Sampler:
    def __init__(self, op: Op, rng: np.random.Generator, extents: Sequence[int]) -> None:
        self.op, self.rng, self.choices = op, rng, extents

    def one(self, items: Sequence[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def draw(self, number: int) -> Sample | None:
        op = self.op
        rank = int(self.rng.integers(op.spatial_rank.min, op.spatial_rank.max + 1))
        facts = self.sizes(rank)
        values: dict[str, Any] = {}
        self.lacking = {
            tensor.dims[axis].text for tensor in op.tensors for axis in tensor.may_lack if self.rng.random() < 0.3
        }
        facts |= dict.fromkeys(self.lacking, 1)
        row = op.dtypes[number % len(op.dtypes)]
        for attribute in op.attributes:
            self.value(attribute, facts, values, rank, row)
        try:
            self.named(facts, values)
            for attribute in (a for a in op.attributes if a.per):
                values[attribute.name or ""] = self.entries(attribute, facts[attribute.per or ""])
            arrays = tuple(self.array(tensor, facts, values, row) for tensor in op.inputs)
            for attribute in (a for a in op.attributes if a.shape_of):
                tensor = op.tensor(attribute.shape_of or "")
                order = self.order(tensor, values)
                values[attribute.name or ""] = [e for axis in order for e in self.extents(tensor, axis, facts)]
        except (Inexact, KeyError, ValueError):
            return None
        given: list[Any] = [[a] if t.joined and a is not None else a for t, a in zip(op.inputs, arrays)]
        stated = {name: value for name, value in values.items() if value is not None}
        call = validate_steps(op, given, stated)
        return Sample(arrays, stated, call) if call.accepted else None

    def sizes(self, rank: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for dim in self.op.dims.values():
            minimum = dim.min or 0
            count = rank if dim.per_axis else self.one((0, 1, 1, 2)) if dim.run else None
            if count is None:
                found[dim.symbol] = max(self.one(self.choices), minimum)
            else:
                found[dim.symbol] = tuple(max(self.one(self.choices), minimum) for _ in range(count))
        return found

    def value(
        self, attribute: Attribute, facts: dict[str, Any], values: dict[str, Any], rank: int, row: Mapping[str, str]
    ) -> None:
        """A value of an attribute, and its value in formulas; attributes that place axes follow with the arrays."""
        name = attribute.name or ""
        if attribute.dtype_of:
            values[name] = row[attribute.dtype_of]
        elif attribute.type == "string":
            values[name] = self.one(attribute.values or ()).value
        elif attribute.type == "bool":
            values[name] = facts[symbol_of(attribute)] = bool(
                self.rng.random() < (0.7 if attribute.default == "true" else 0.4)
            )
        elif attribute.locates or attribute.order_of or attribute.per or attribute.shape_of or attribute.blocks:
            values[name] = None
        elif attribute.type in ("s64[]", "f32[]"):
            omitted = attribute.default is not None and self.rng.random() < 0.3
            made = [self.number(attribute, omitted) for _ in range(rank)]
            facts[symbol_of(attribute)] = tuple(made)
            values[name] = None if omitted else made
        else:
            values[name] = facts[symbol_of(attribute)] = self.number(attribute)

    def number(self, attribute: Attribute, omitted: bool = False) -> Any:
        real = attribute.type in ("f32", "f32[]")
        if omitted:
            return (float if real else int)(attribute.default or 0)
        return self.one(NUMBERS) if real else self.whole(attribute)

    def whole(self, attribute: Attribute) -> int:
        minimum = attribute.min if attribute.min is not None else -1
        value = minimum + int(self.rng.integers(0, 3))
        return min(value, attribute.max if attribute.max is not None else value)

    def entries(self, attribute: Attribute, count: int) -> list[Any]:
        return [self.number(attribute) for _ in range(count)]

    def named(self, facts: dict[str, Any], values: Mapping[str, Any]) -> None:
        """The named values. Raises KeyError if one cannot be computed."""
        pending = {
            symbol: let.value or let.cases[str(values[let.by or ""]).lower()] for symbol, let in self.op.lets.items()
        }
        while pending:
            symbol = next((s for s, found in pending.items() if expr.names(found.tree) <= facts.keys()), "")
            facts[symbol] = evaluate(pending.pop(symbol).tree, facts)

    # Arrays.

    def array(self, tensor: Tensor, facts: Mapping[str, Any], values: dict[str, Any], row: Mapping[str, str]) -> Any:
        """An input with real numbers around 1 and around 0, or with integers; None if the call leaves it out."""
        wanted = tensor.when is None or bool(evaluate(tensor.when.tree, facts))
        if not wanted or (tensor.optional and self.rng.random() < 0.2):
            return None
        order = self.order(tensor, values)
        shape = self.placed(tensor, {axis: self.extents(tensor, axis, facts) for axis in order}, values)
        dtype = NUMPY[row[tensor.name]]
        if dtype == np.bool_:
            return np.asarray(self.rng.integers(0, 2, shape), bool)
        if np.dtype(dtype).kind in "iu":
            return np.asarray(self.rng.integers(0, 4, shape), dtype)
        return np.asarray(self.rng.uniform(0.3, 1.7, shape), dtype)

    def order(self, tensor: Tensor, values: Mapping[str, Any]) -> list[str]:
        """The axes of an array, in the order of its layout."""
        order = list(tensor.dims)
        if tensor.layout is not None:
            word = values[tensor.layout]
            order = list(self.op.layouts[tensor.layout][str(word).lower() if isinstance(word, bool) else word])
        return [axis for axis in order if axis not in tensor.may_lack or tensor.dims[axis].text not in self.lacking]

    def extents(self, tensor: Tensor, axis: str, facts: Mapping[str, Any]) -> tuple[int, ...]:
        """The extents of an axis in this array: some are 1 if it broadcasts, and some of a run are missing."""
        value = evaluate(tensor.dims[axis].tree, facts)
        whole = each(value)
        if min(whole, default=0) < 0:
            raise ValueError(axis)
        if axis not in tensor.broadcast or tensor.broadcast_if or self.rng.random() < 0.5:
            return whole
        trailing = whole[int(self.rng.integers(0, len(whole) + 1)) :] if isinstance(value, tuple) else whole
        return tuple(1 if self.rng.random() < 0.3 else extent for extent in trailing)

    def placed(self, tensor: Tensor, extents: Mapping[str, tuple[int, ...]], values: dict[str, Any]) -> list[int]:
        """The shape of an array; attributes that place its axes are chosen here."""
        owners = [(axis, extent) for axis, found in extents.items() for extent in found]
        for attribute in (a for a in self.op.attributes if a.locates):
            name, symbol = attribute.name or "", Name(self.op.dims[attribute.locates or ""].symbol)
            axes = [axis for axis, extent in tensor.dims.items() if _run(extent.tree) == symbol]
            if not axes:
                continue
            if attribute.type == "s64":
                before = sum(len(extents[axis]) for axis in list(extents)[: list(extents).index(axes[0])])
                values[name] = before if values[name] is None else values[name]
                continue
            if values[name] is None:
                values[name] = sorted(int(spot) for spot in self.rng.permutation(len(owners))[: len(extents[axes[0]])])
            first = next(t for t in self.op.data_inputs if symbol in [_run(e.tree) for e in t.dims.values()])
            ours, theirs = (sorted(str(_run(e.tree)) for e in t.dims.values()) for t in (tensor, first))
            if axes[0] not in extents or ours != theirs:  # if there are axes besides the run, dims order it
                continue
            inner = iter(extents[axes[0]])
            outer = (extent for axis, extent in owners if axis != axes[0])
            return [next(inner) if spot in values[name] else next(outer) for spot in range(len(owners))]
        return [extent for _, extent in owners]


def _run(tree: expr.Expr) -> expr.Expr:
    return tree.arguments[0] if isinstance(tree, Call) and tree.function == "ones" else tree
