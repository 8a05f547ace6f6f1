"""The calls of operations of steps that a search tries.

In: an operation and the edits under test. Out: settings near the edits, and their calls.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..calls.call_text import CallText, ListText, TensorText
from ..emit.python_signature import parameter_name
from ..language.expr import Inexact
from ..language.model import Attribute, Op
from ..language.source import INCONSISTENT
from ..oracle.extents import each
from ..oracle.sample import Arguments
from ..oracle.sample_steps import StepSetting, arguments, placing, samples, settings
from ..oracle.validate import NUMPY
from ..oracle.validate_steps import validate_steps
from .edit import Edit
from .places import Place

CELLS = 2**20  # rank limit of each tensor of a call
LARGEST = 2**12  # the maximum number that constants of a spec put into a call
FRESH = 0.3  # how often a call is generated from scratch
ROUGH = (Inexact, KeyError, TypeError, ValueError, IndexError, StopIteration)  # the errors of sizes that fit nothing
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,9}(?![\w.])")


@functools.lru_cache(maxsize=64)
def step_settings(op: Op) -> tuple[StepSetting, ...]:
    """Legal calls, the smallest first; none if the operation is incomplete."""

    def accepted(made: Arguments) -> bool:
        inputs = [_empty(made, tensor.name) for tensor in op.inputs]
        return validate_steps(op, inputs, made.values).accepted

    try:
        return tuple(sorted(settings(op, accepted), key=_size))
    except INCONSISTENT:  # the caller then searches the other side, and says so
        return ()


def _empty(made: Arguments, name: str) -> Any:
    if name not in made.tensors:
        return None
    dtype, shape = made.tensors[name]
    parts = [np.broadcast_to(np.zeros((), NUMPY[dtype]), part) for part in made.lists.get(name, [shape])]
    return parts if name in made.lists else parts[0]


def _size(setting: StepSetting) -> int:
    return sum(entry for size in setting.sizes.values() for entry in each(size))


class StepPlace(Place[StepSetting]):
    """The calls of one side of an operation of steps."""

    def __init__(self, op: Op, other: Op, edits: Sequence[Edit]) -> None:
        super().__init__(op, step_settings(op), edits)
        numbers = {
            int(n) for edit in edits for n in _NUMBER.findall(f"{edit.was} {edit.now}") if abs(int(n)) <= LARGEST
        }
        self.sizes = sorted({0, 1, 2, 3, 4, 5, *(n + step for n in numbers for step in (-1, 0, 1) if n + step >= 0)})
        self.numbers = sorted({-1, 0, 1, 2, 3, *(n + step for n in numbers for step in (-1, 0, 1))})
        self.sides = (op, other)
        self.rows = [row for side in self.sides for row in side.dtypes]

    def setting(self, rng: np.random.Generator, number: int) -> StepSetting:
        if number < len(self.seeds):
            return self.seeds[number]
        fresh = rng.random() < FRESH
        found = next(samples(self.op, rng)) if fresh else self.seeds[int(rng.integers(len(self.seeds)))]
        for _ in range(int(rng.integers(1, 4))):
            found = self.changed(found, rng)
        return found

    def changed(self, setting: StepSetting, rng: np.random.Generator) -> StepSetting:
        """The setting with one thing changed."""
        kind = int(rng.integers(8))
        if kind < 3 and setting.sizes:
            symbol = _one(rng, list(setting.sizes))
            return dataclasses.replace(setting, sizes={**setting.sizes, symbol: self.sized(setting.sizes[symbol], rng)})
        if kind < 6 and self.op.attributes:
            attribute = _one(rng, [a for side in self.sides for a in side.attributes])
            return self.stated(setting, attribute, rng)
        if kind == 6:
            return dataclasses.replace(setting, row=_one(rng, self.rows))
        optional = [tensor.name for tensor in self.op.inputs if tensor.optional]
        if optional and rng.random() < 0.5:
            return dataclasses.replace(setting, given=setting.given ^ {_one(rng, optional)})
        turned = {name: int(rng.integers(4)) for name in setting.turns}
        return dataclasses.replace(setting, turns=turned)

    def sized(self, size: Any, rng: np.random.Generator) -> Any:
        """Another extent, or for a run one axis more or fewer."""
        extent = int(_one(rng, self.sizes))
        if not isinstance(size, tuple):
            return extent
        at = int(rng.integers(len(size) + 1))
        if at == len(size):
            return (*size, extent)
        return size[:at] + ((extent,) if rng.random() < 0.7 else ()) + size[at + 1 :]

    def stated(self, setting: StepSetting, attribute: Attribute, rng: np.random.Generator) -> StepSetting:
        """An attribute passed differently, or left out."""
        name = attribute.name or ""
        values = {key: value for key, value in setting.values.items() if key != name}
        if rng.random() < 0.25:
            return dataclasses.replace(setting, values=values)
        if placing(attribute) or attribute.dtype_of:
            return dataclasses.replace(setting, values={**values, name: None})
        return dataclasses.replace(setting, values={**values, name: self.value(setting, attribute, rng)})

    def value(self, setting: StepSetting, attribute: Attribute, rng: np.random.Generator) -> Any:
        if attribute.type == "string":
            own = [a for side in self.sides for a in side.attributes if a.name == attribute.name]
            words = [word for a in own for value in a.values or () for word in (value.value, *value.aliases)]
            return _one(rng, list(dict.fromkeys(words)))
        if attribute.type == "bool":
            return bool(rng.random() < 0.5)
        bounds = [bound + step for bound in (attribute.min, attribute.max) if bound is not None for step in (-1, 0, 1)]
        numbers = [*self.numbers, *bounds]
        if (attribute.type or "").endswith("[]"):
            known = setting.values.get(attribute.name or "") or ()
            count = each(setting.sizes.get(attribute.per or "", len(known)))[0] if attribute.per else len(known)
            found = tuple(_one(rng, numbers) for _ in range(max(count, 0)))
            return tuple(map(float, found)) if attribute.type == "f32[]" else found
        if attribute.type == "f32":
            return float(_one(rng, [*numbers, 0.5, -0.5, 1.5]))
        return int(_one(rng, numbers))

    def call(self, setting: StepSetting) -> CallText | None:
        try:
            made = arguments(self.op, setting)
        except ROUGH:
            return None
        if any(min(shape, default=0) < 0 or math.prod(shape) > CELLS for _, shape in made.tensors.values()):
            return None
        names = {tensor.name: parameter_name(tensor) for tensor in self.op.inputs}
        if self.unnamed:
            names |= {
                tensor.name: str(place) for place, tensor in enumerate(self.op.inputs, 1) if tensor.name in made.tensors
            }
        order = [attribute.name for attribute in self.op.attributes]
        values = {
            name: made.values[name] for name in sorted(made.values, key=lambda n: order.index(n) if n in order else -1)
        }
        return CallText(
            self.op.function,
            {
                names[name]: ListText(tuple(TensorText(dtype, part) for part in made.lists[name]))
                if name in made.lists
                else TensorText(dtype, shape)
                for name, (dtype, shape) in made.tensors.items()
            },
            {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()},
        )

    def simpler(self, setting: StepSetting) -> Iterator[StepSetting]:
        """Fewer arguments, then axes, then smaller extents, then plainer values."""
        replaced = functools.partial(dataclasses.replace, setting)
        for name in sorted(setting.given):
            yield replaced(given=setting.given - {name})
        for name in setting.values:
            yield replaced(values={key: value for key, value in setting.values.items() if key != name})
        if setting.row is not self.op.dtypes[0]:
            yield replaced(row=self.op.dtypes[0])
        for name, turn in setting.turns.items():
            if turn:
                yield replaced(turns={**setting.turns, name: 0})
        for symbol, size in setting.sizes.items():
            for smaller in _smaller(size):
                yield replaced(sizes={**setting.sizes, symbol: smaller})
        for name, value in setting.values.items():
            for plainer in _plainer(value):
                yield replaced(values={**setting.values, name: plainer})


def _smaller(size: Any) -> Iterator[Any]:
    if not isinstance(size, tuple):
        yield from dict.fromkeys(number for number in (1, (size + 1) // 2, size - 1) if 0 < number < size)
        return
    for at in range(len(size)):
        yield size[:at] + size[at + 1 :]
    for at, extent in enumerate(size):
        for number in _smaller(extent):
            yield (*size[:at], number, *size[at + 1 :])


def _plainer(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for at, entry in enumerate(value):
            for plainer in _plainer(entry):
                yield (*value[:at], plainer, *value[at + 1 :])
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from (type(value)(number) for number in (0, 1) if abs(value) > number)


def _one(rng: np.random.Generator, items: Sequence[Any]) -> Any:
    return items[int(rng.integers(len(items)))]
