"""Small calls of an operation of steps, sampled from its declarations alone.

In: an operation. Out: settings, and the arguments of a setting. The number of axes of a run, all extents and
the positions of axes are chosen here; validate_steps.py decides what a call means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..language import expr
from ..language.evaluate import evaluate
from ..language.expr import Call, Expr, Inexact, Name
from ..language.model import Attribute, Op, Tensor
from ..language.types import symbol_of
from .extents import Facts, each
from .sample import SEED, Arguments

REALS = (-2.0, -1.0, 0.0, 0.5, 1.0, 3.0)
EXTENTS = (1, 2, 2, 3, 3, 4)
RUN = (1, 1, 2, 0, 3)  # how many axes a run has
CALLS = 12
TRIES = 240


@dataclass(frozen=True)
class StepSetting:
    """The choices that determine the arguments of a call.

    `sizes` are the symbols of dimensions, a tuple for a run and for one value per axis; `values` the attributes that
    the call passes; `given` the optional inputs that it passes, `row` the types. `turns` has the choice for each
    attribute that places axes, each input that is broadcast or joined, and each size that may be missing.
    """

    sizes: Mapping[str, Any]
    values: Mapping[str, Any]
    given: frozenset[str]
    row: Mapping[str, str]
    turns: Mapping[str, int]


def placing(attribute: Attribute) -> bool:
    """Whether its value gives positions or extents of axes, so that it follows from shapes."""
    return bool(attribute.locates or attribute.order_of or attribute.extents_of or attribute.blocks)


def lackable(op: Op) -> set[str]:
    """The sizes whose axes may be missing from arrays."""
    return {tensor.dims[axis].text for tensor in op.tensors for axis in tensor.may_lack}


def arguments(op: Op, setting: StepSetting) -> Arguments:
    """The arguments of a call. Raises KeyError or Inexact if the sizes give no shapes."""
    return _Call(op, setting).arguments()


def samples(op: Op, rng: np.random.Generator) -> Iterator[StepSetting]:
    """An endless stream of settings; few of them need be legal."""
    while True:
        rank = int(rng.integers(op.spatial_rank.min, op.spatial_rank.max + 1))
        sizes: dict[str, Any] = {}
        for dim in op.dims.values():
            minimum = int(bool(dim.per_axis)) if dim.min is None else dim.min
            count = rank if dim.per_axis else _one(rng, RUN) if dim.run else None
            found = tuple(max(int(_one(rng, EXTENTS)), minimum) for _ in range(1 if count is None else count))
            sizes[dim.symbol] = found[0] if count is None else found
        stated = [a for a in op.attributes if a.required or placing(a) or rng.random() < 0.6]
        values = {a.name or "": _value(a, sizes, rank, rng) for a in stated if not placing(a) and not a.dtype_of}
        values |= {a.name or "": None for a in stated if placing(a) or a.dtype_of}
        names = [a.name or "" for a in op.attributes if placing(a)] + [
            t.name for t in op.inputs if t.broadcast or t.joined
        ]
        names += sorted(lackable(op))
        yield StepSetting(
            sizes,
            values,
            frozenset(t.name for t in op.inputs if t.optional and rng.random() < 0.5),
            _one(rng, op.dtypes),
            {name: int(rng.integers(4)) for name in names},
        )


def _one(rng: np.random.Generator, items: Any) -> Any:
    return items[int(rng.integers(len(items)))]


def _value(attribute: Attribute, sizes: Mapping[str, Any], rank: int, rng: np.random.Generator) -> Any:
    """A value near the legal minimum."""
    if attribute.type == "string":
        return _one(rng, attribute.values or ()).value
    if attribute.type == "bool":
        return bool(rng.random() < 0.5)
    count = sizes.get(attribute.per or "", 1) if attribute.per else rank
    if attribute.type in ("f32", "f32[]"):
        minimum = -9 if attribute.min is None else attribute.min
        reals = [max(float(_one(rng, REALS)), float(minimum)) for _ in range(max(count, 1))]
        return reals[0] if attribute.type == "f32" else tuple(reals[:count])
    minimum = -1 if attribute.min is None else attribute.min
    wholes = [int(minimum + rng.integers(3)) for _ in range(max(count, 1))]
    return tuple(wholes[:count]) if attribute.type == "s64[]" else wholes[0]


class _Call:
    """Computes the arguments of one call."""

    def __init__(self, op: Op, setting: StepSetting) -> None:
        self.op, self.setting = op, setting
        self.words = {a.name: str(self.stated(a)) for a in op.attributes if a.type == "string"}
        self.words |= {a.name: str(self.stated(a)).lower() for a in op.attributes if a.type == "bool"}
        self.lacking = {symbol for symbol in lackable(op) if setting.turns.get(symbol) == 3}
        self.facts = self.known()
        self.places: dict[str, Any] = {}

    def stated(self, attribute: Attribute) -> Any:
        """A value or its default; an alias as the word that it stands for."""
        found = self.setting.values.get(attribute.name or "", attribute.default)
        for value in attribute.values or ():
            found = value.value if found in value.aliases else found
        return found

    def known(self) -> Facts:
        """The symbols that determine shapes."""
        sizes = self.setting.sizes
        rank = next((len(sizes[dim.symbol]) for dim in self.op.dims.values() if dim.per_axis), 0)
        facts: Facts = {**sizes, **dict.fromkeys(self.lacking, 1)}
        for attribute in self.op.attributes:
            value, symbol = self.stated(attribute), symbol_of(attribute)
            if attribute.per or placing(attribute) or value is None:
                continue
            if attribute.type == "bool":
                facts[symbol] = self.words[attribute.name] == "true"
            elif attribute.type == "s64":
                facts[symbol] = int(value)
            elif attribute.type == "s64[]":
                facts[symbol] = (int(value),) * rank if isinstance(value, str) else tuple(value)[:rank]
        lets = dict(self.op.lets)
        while lets:
            ready = [s for s, let in lets.items() if self.ready(let, facts)]
            if not ready:
                break
            let = lets.pop(ready[0])
            formula = let.value or let.cases[self.words[let.by]]
            facts[ready[0]] = evaluate(formula.tree, facts)
        return facts

    def ready(self, let: Any, facts: Facts) -> bool:
        formula = let.value or let.cases.get(self.words.get(let.by, ""))
        return formula is not None and expr.names(formula.tree) <= facts.keys()

    def order(self, tensor: Tensor) -> list[str]:
        order = self.op.layouts[tensor.layout][self.words[tensor.layout]] if tensor.layout else tensor.dims
        return [axis for axis in order if axis not in tensor.may_lack or tensor.dims[axis].text not in self.lacking]

    def extents(self, tensor: Tensor) -> dict[str, tuple[int, ...]]:
        """The extents of each axis, or of all axes of a run; an input that may be broadcast is so by its turn."""
        holds = all(self.words.get(name) == word for name, word in tensor.broadcast_if.items())
        turn = self.setting.turns.get(tensor.name, 0) if holds else 0
        found = {}
        for axis in self.order(tensor):
            value = evaluate(tensor.dims[axis].tree, self.facts)
            own = each(value)
            if axis in tensor.broadcast and turn:
                shorter = isinstance(value, tuple) and turn == 2
                own = own[1:] if shorter else (1,) * len(own) if turn == 1 else (1, *own[1:]) if own else own
            found[axis] = own
        return found

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        """The shape of an array; records the values of attributes that describe its axes."""
        extents = self.extents(tensor)
        owners = [(axis, extent) for axis, found in extents.items() for extent in found]
        count = len(owners)
        for attribute in self.op.attributes:
            name, turn = attribute.name or "", self.setting.turns.get(attribute.name or "", 0)
            if attribute.order_of == tensor.name:
                order = [(spot + turn) % count for spot in range(count)][:: -1 if turn % 2 else 1]
                self.places.setdefault(name, tuple(order))
                return tuple(owners[spot % count][1] for spot in self.places[name])
            if attribute.extents_of:
                self.places.setdefault(name, each(self.facts[self.op.dims[attribute.extents_of].symbol]))
            if attribute.blocks and turn % 2:
                self.blocks(attribute, [axis for axis, _ in owners], tensor)
            if attribute.locates is None:
                continue
            symbol = Name(self.op.dims[attribute.locates].symbol)
            axis = next(
                (axis for axis, extent in tensor.dims.items() if axis in extents and _inside(extent.tree) == symbol), ""
            )
            if not axis:
                continue
            if attribute.type == "s64":
                before = sum(len(extents[other]) for other in list(extents)[: list(extents).index(axis)])
                self.places.setdefault(name, before - count if turn % 2 and before < count else before)
                continue
            own = len(extents[axis])
            if name not in self.places:
                spots = sorted((turn + place) % max(count, 1) for place in range(own))
                self.places[name] = tuple(spot - (count if turn % 2 else 0) for spot in spots)
            here = {spot % max(count, 1) for spot in self.places[name]}
            if len(here) != own or len(self.places[name]) > count:  # a broadcast array lacks axes
                continue
            inner, outer = iter(extents[axis]), iter([extent for other, extent in owners if other != axis])
            return tuple(next(inner) if spot in here else next(outer) for spot in range(count))
        return tuple(extent for _, extent in owners)

    def blocks(self, attribute: Attribute, owners: Sequence[str], tensor: Tensor) -> None:
        """The extents of blocks, from the first tensor with the size that they divide."""
        for role, size in (attribute.blocks or {}).items():
            symbol = Name(self.op.dims[role].symbol)
            if symbol in (extent.tree for extent in tensor.dims.values()):
                extent = each(evaluate(size.tree, self.facts))[0]
                blocks = tuple(extent if tensor.dims[axis].tree == symbol else 1 for axis in owners)
                self.places.setdefault(attribute.name or "", blocks)

    def arguments(self) -> Arguments:
        tensors = {}
        for tensor in self.op.inputs:
            wanted = tensor.when is None or bool(evaluate(tensor.when.tree, self.facts))
            if wanted and (not tensor.optional or tensor.name in self.setting.given):
                tensors[tensor.name] = (self.setting.row[tensor.name], self.shape(tensor))
        for tensor in self.op.outputs:
            if any(attribute.order_of == tensor.name for attribute in self.op.attributes):
                self.shape(tensor)
        lists = {name: self.parts(self.op.tensor(name), shape) for name, (_, shape) in tensors.items()}
        values: dict[str, Any] = {}
        for attribute in self.op.attributes:
            name = attribute.name or ""
            if name in self.setting.values:
                value = self.setting.values[name]
                values[name] = self.places.get(name, value)
                if attribute.dtype_of:
                    values[name] = self.setting.row[attribute.dtype_of]
        stated = {name: value for name, value in values.items() if value is not None}
        return Arguments(tensors, {}, stated, {name: parts for name, parts in lists.items() if parts})

    def parts(self, tensor: Tensor, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The shapes of the arrays of a variadic input: up to four, all but the last of extent 1."""
        if not tensor.joined:
            return []
        extents = self.extents(tensor)
        order = list(extents)
        at = sum(len(extents[axis]) for axis in order[: order.index(tensor.joined)])
        single = max(min(self.setting.turns.get(tensor.name, 0), shape[at] - 1), 0)
        return [(*shape[:at], extent, *shape[at + 1 :]) for extent in (1,) * single + (shape[at] - single,)]


def _inside(tree: Expr) -> Expr:
    return tree.arguments[0] if isinstance(tree, Call) and tree.function == "ones" else tree


def settings(op: Op, accepted: Any) -> list[StepSetting]:
    """The settings that `accepted` accepts, the same ones at every run."""
    found: list[StepSetting] = []
    for tried, setting in enumerate(samples(op, np.random.default_rng(SEED))):
        if tried == TRIES or len(found) == CALLS:
            break
        try:
            if accepted(arguments(op, setting)):
                found.append(setting)
        except (Inexact, KeyError, TypeError, ValueError, IndexError, StopIteration):
            continue
    return found
