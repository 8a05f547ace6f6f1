"""What a call means to those that split it: its facts, from shapes and data types alone.

In: an operation, descriptions of arrays, attributes. Out: `Facts`, and the data type of each output. A call that the
rules refuse raises SpecError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _sharding
from ._dtypes import DTYPES
from ._errors import Refusal
from ._sharding import Facts


@dataclass(frozen=True)
class Call:
    """A legal call: its facts, the options to split it, and the data types of the outputs that it has."""

    operation: Any
    facts: Facts
    options: Sequence[_sharding.SplitOption]
    dtypes: Mapping[str, Any]


def understood(operation: Any, inputs: Sequence[Any], attributes: Sequence[Any]) -> Call:
    """What a call means; inputs are described by TensorSpecs, attributes are in the operation's order."""
    try:
        given = operation.arrays(inputs)
        meant: Any = operation.resolve(*given, *attributes)
    except Refusal as refusal:
        raise operation.refused(refusal) from None
    shapes = {info.name: _shape(value) for info, value in zip(operation.inputs, given) if value is not None}
    table = _sharding.tables()[operation.function]
    by_name = dict(zip(operation.attributes, attributes))
    if hasattr(meant, "outputs"):
        names = tuple(name for name in operation.outputs if name not in meant.absent)
        shapes |= {name: meant.outputs[name].shape for name in names}
        places = {**meant.places, **{name: meant.outputs[name].places for name in names}}
        arrangements: dict[str, str] = {}
    else:
        names = (operation.output,)
        shapes[operation.output] = meant.shape
        places = {
            name: _places(table.tensors[name], meant.words, len(shapes[name]))
            for name in shapes
            if name in table.tensors
        }
        arrangements = {name: operation.arrangements[name][at] for name, at in meant.arrangements.items()}
    facts = Facts(meant.values, places, shapes, by_name, meant.row, arrangements, names)
    row = operation.rows[meant.row][1]
    return Call(operation, facts, _sharding.options(table.splits, facts), {name: DTYPES[row[name]] for name in names})


def _shape(value: Any) -> Any:
    return [part.shape for part in value] if isinstance(value, (list, tuple)) else value.shape


def _places(tensor: _sharding.Order, words: Mapping[str, str], axes: int) -> dict[str, tuple[int, ...]]:
    """Where the axes of a tensor stand in its array."""
    order = tensor.orders[words[tensor.layout] if tensor.layout else ""]
    rank = axes - sum(axis not in tensor.vectors for axis in order)
    found, at = {}, 0
    for axis in order:
        count = rank if axis in tensor.vectors else 1
        found[axis], at = tuple(range(at, at + count)), at + count
    return found


def part_of(call: Call, part: _sharding.Part, inputs: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """The inputs of a part as far as they are no arrays to cut, and all its attributes: vectors state its shape."""
    own = []
    for info, value in zip(call.operation.inputs, inputs):
        states = {
            output for option in call.options for name, output in option.split.states.items() if name == info.name
        }
        output = next((name for name in states if name in part.shapes), "")
        stated = info.states_shape and value is not None and output
        own.append(
            None if info.name in part.without else np.asarray(part.shapes[output], np.int32) if stated else value
        )
    left_out = {name: call.operation.defaults.get(name) for name, value in part.attributes.items() if value is None}
    return own, {**call.facts.attributes, **part.attributes, **left_out}
