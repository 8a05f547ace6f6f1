"""Calls that break the rules of a spec, drawn from what the spec says of each argument.

In: an operation and a legal call of it. Out: the same call with one argument changed: a tensor of another data type, rank
or extent; a number, word, list or stated shape that its attribute does not allow; an argument left out. Some of them
are legal again. Nothing here knows an operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from opwright.language.model import Attribute, Op
from opwright.oracle.validate import NUMPY
from opwright_kernels import TensorSpec

Rng = np.random.Generator

LIMITS = (0, -1, 2**31, 2**62, 2**63 - 1, -(2**63))
REALS = (
    0.0,
    -0.0,
    1e-9,
    -1e-9,
    1e-45,
    0.1,
    1e16,
    -123456.789,
    3.5e38,
    1e300,
    float("inf"),
    float("-inf"),
    float("nan"),
)
# A quote, an escape, what no terminal shows, other scripts, and more letters than a message has room for.
WORDS = ("", " ", "x'", 'x"', "x'\"", "a\\b\n\r\t\x01\x7f", "é", "日本語", "NULL", "x" * 79, "x" * 200)


@dataclass(frozen=True)
class BadCall:
    """The arguments of a call, and what was changed in it."""

    change: str
    inputs: tuple[Any, ...]
    attributes: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.change}: {list(map(_described, self.inputs))} {self.attributes}"


def bad_calls(op: Op, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> Iterator[BadCall]:
    """Every call that one change of this one makes."""
    for at, given in enumerate(inputs):
        for change, changed in _tensors(op, at, given):
            yield BadCall(
                f"{op.inputs[at].name} {change}", (*inputs[:at], changed, *inputs[at + 1 :]), dict(attributes)
            )
    for attribute in op.attributes:
        name = attribute.name or ""
        if not attribute.required and name in attributes:
            yield BadCall(f"{name} left out", tuple(inputs), {n: v for n, v in attributes.items() if n != name})
        for value in _values(attribute, attributes.get(name)):
            yield BadCall(f"{name} changed", tuple(inputs), {**attributes, name: value})


# Tensors.


def _tensors(op: Op, at: int, given: Any) -> Iterator[tuple[str, Any]]:
    """Other values of an input, each with a name."""
    if given is None:
        for dtype in sorted({row[op.inputs[at].name] for row in op.dtypes}):
            yield "given", np.ones((2,), NUMPY[dtype])
        return
    yield "left out", None
    if isinstance(given, list):
        yield "of no arrays", [] if len(given) > 1 else None
        yield "twice", [*given, *given]
        for change, part in _arrays(given[-1]):
            yield f"with one {change}", [*given[:-1], part]
            yield f"with one more {change}", [*given, part]
        return
    yield from _arrays(given)
    if op.inputs[at].shape_of is not None:
        for entry in (0, -1, -(2**31), 2**31 - 1):
            for axis in range(given.size):
                stated = np.array(given)
                stated[axis] = entry
                yield f"with the entry {entry}", stated


def _arrays(given: Any) -> Iterator[tuple[str, Any]]:
    shape = tuple(given.shape)
    for dtype in NUMPY.values():
        if dtype != given.dtype:
            yield f"of {dtype}", np.ones(shape, dtype)
    yield "of rank 0", np.ones((), given.dtype)
    yield "with an axis more", np.ones((*shape, 1), given.dtype)
    yield "with 64 axes", np.ones((1,) * 64, given.dtype)
    for axis, extent in enumerate(shape):
        yield "with an axis less", np.ones(shape[:axis] + shape[axis + 1 :], given.dtype)
        for other in (0, 1, extent + 1, extent - 1, 2 * extent):
            if other not in (extent, -1):
                yield f"with the extent {other}", np.ones((*shape[:axis], other, *shape[axis + 1 :]), given.dtype)
        if given.dtype != np.int32:  # one that states a shape must have memory
            yield "of many cells", TensorSpec((*shape[:axis], 2**40, *shape[axis + 1 :]), str(given.dtype))


# Attributes.


def _values(attribute: Attribute, value: Any) -> Iterator[Any]:
    """Values that an attribute may not allow."""
    kind = attribute.type or ""
    if kind == "string":
        yield from WORDS
        for word in attribute.values or ():
            for spelling in (word.value, *word.aliases):
                yield from (spelling, spelling.upper(), spelling[1:], f"{spelling}_", spelling[::-1])
    elif kind == "s64":
        yield from _numbers(attribute, value)
    elif kind == "f32":
        yield from REALS
        yield from (float(limit) + step for limit in _limits(attribute) for step in (-1e-3, 0.0, 1e-3))
    elif kind == "bool" and value is not None:
        yield not value
    elif kind.endswith("[]"):
        entries = list(value or [])
        yield from ([], entries[:-1], [*entries, *entries], entries[::-1], [*entries, 0], [*entries, 1])
        yield [1] * 70  # more than any array has axes
        for at in range(len(entries)):
            for entry in REALS if kind == "f32[]" else _numbers(attribute, entries[at]):
                yield [*entries[:at], entry, *entries[at + 1 :]]


def _numbers(attribute: Attribute, value: int | None) -> Iterator[int]:
    yield from LIMITS
    yield from (limit + step for limit in _limits(attribute) for step in (-1, 0, 1))
    yield from (value + step for step in (-2, -1, 1, 2) if value is not None)


def _limits(attribute: Attribute) -> list[int]:
    return [int(limit) for limit in (attribute.min, attribute.max) if limit is not None]


def _described(array: Any) -> Any:
    if isinstance(array, list):
        return list(map(_described, array))
    return None if array is None else f"{array.dtype}{list(array.shape)}"


# Outputs.


def bad_outputs(inputs: Sequence[Any], targets: Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
    """The arrays of a call's outputs with one of them changed, and what was changed."""
    parts = [part for given in inputs for part in (given if isinstance(given, list) else [given])]
    arrays = [part for part in parts if part is not None and part.flags.writeable]
    for at, target in enumerate(targets):
        if target is None:
            continue
        others = [
            (f"output {at} {change}", other) for change, other in _arrays(target) if isinstance(other, np.ndarray)
        ]
        others += [(f"output {at} is another array", other) for other in (*arrays, *targets) if other is not None]
        if target.size > 1:
            one: Any = np.ndarray(target.shape, target.dtype, bytearray(64), strides=(0,) * target.ndim)
            others.append((f"output {at} repeats a cell", one))
        for array in arrays:
            if array.dtype == target.dtype and array.shape == target.shape and array.size > 1:
                others.append((f"output {at} is an array of an input, backwards", array[::-1]))
        for change, other in others:
            yield change, [*targets[:at], other, *targets[at + 1 :]]
