"""Checks that the normal form of a spec agrees with its semantics, on small exact calls.

In: an operation. Out: None, or a sentence with the first call on which the two differ. Fast kernels are made from
the normal form and reference kernels from the semantics, so a spec that contradicts itself gets no kernels.
The normal form is evaluated here, in the words of its relation: tap k joins `big[n, g*B + b, o*S + k*D - PB]` with
`small[n, g*A + a, o]` through `W[g, a, b, k]`. The semantics are evaluated by interpret.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..language.evaluate import evaluate
from ..language.expr import Inexact, Read
from ..language.model import NormalForm, Op
from ..memo import memoised
from .extents import each
from .indices import index, integers
from .interpret import computed
from .sample import arguments, legal
from .validate import Array, Validation

Call = tuple[list[Array | None], dict[str, object], Validation]
Reals = npt.NDArray[np.float64]


@memoised
def agrees(op: Op) -> str | None:
    """None if there is no normal form or it equals the semantics; else how they differ."""
    return _compare(op, op.normal_form) if op.normal_form else None


def _compare(op: Op, form: NormalForm) -> str | None:
    compared = 0
    for inputs, attributes, validation in calls(op):
        compared += 1
        expected = computed(op, inputs, validation)
        call = _described(op, inputs, attributes)
        try:
            found = solved(op, form, inputs, validation)
        except (IndexError, KeyError, ValueError, Inexact) as error:
            return f"the normal form of {op.op} does not match the tensors of {call}: {error}"
        if found.shape != expected.shape:
            shapes = f"{list(found.shape)}, the semantics {list(expected.shape)}"
            return f"the normal form of {op.op} gives the shape {shapes}, for {call}"
        wrong = np.argwhere(found != expected)
        if len(wrong):
            cell = tuple(map(int, wrong[0]))
            values = f"{float(found[cell]):g}, the semantics {float(expected[cell]):g}"
            return f"the normal form of {op.op} gives {op.output.name}{list(cell)} = {values}, for {call}"
    return None if compared else f"no legal call of {op.op} was found to compare its normal form"


def calls(op: Op) -> Iterator[Call]:
    """Legal calls with small integers over every number of axes, the same ones every time."""
    for setting, inputs, validation in legal(op):
        yield inputs, arguments(op, setting).values, validation


def _described(op: Op, inputs: Sequence[Array | None], attributes: Mapping[str, object]) -> str:
    given = [f"{t.name} {list(a.shape)}" for t, a in zip(op.inputs, inputs, strict=True) if a is not None]
    return ", ".join([*given, *(f"{name}={value}" for name, value in attributes.items())])


# The normal form.


def solved(op: Op, form: NormalForm, inputs: Sequence[Array | None], validation: Validation) -> Array:
    """The output of a legal call by the normal form alone."""
    values: dict[str, Any] = validation.values
    assert form.weights is not None
    assert isinstance(form.weights.tree, Read)
    assert validation.shape is not None
    given = {tensor.name: array for tensor, array in zip(op.inputs, inputs, strict=True) if array is not None}
    given[op.output.name] = np.zeros(validation.shape)
    groups = values.get(form.groups, 1)
    big, small = (_Data(op, validation, name, given[name], groups) for name in (form.big, form.small))
    weights = given[form.weights.tree.tensor].astype(np.float64)
    place, taps = _weights(op, validation, form.weights.tree, (groups, small.channels, big.channels))
    if any((at < 0).any() for at in place):
        raise IndexError("an index of the weights is below 0")
    rank = len(taps)
    steps = [values.get(form.stride, (1,) * rank), values.get(form.dilation, (1,) * rank)]
    at, exists = _joined(small.extents, big.extents, taps, *steps, values.get(form.pad, (0,) * rank))
    w = weights[place].reshape(*weights[place].shape[:3], -1)
    if form.solve == "w":
        solved = np.einsum("ngbqt,ngaq->gabt", np.where(exists, big.cells[..., at], 0), small.cells)
        weights[...] = np.nan  # the value of a cell that no index reaches; fast kernels leave it, too
        weights[place] = solved.reshape(w.shape[:3] + taps)
        return weights
    if form.solve == "y":
        small.cells = np.einsum("ngbqt,gabt->ngaq", np.where(exists, big.cells[..., at], 0), w)
    else:
        terms = np.einsum("ngaq,gabt->ngbqt", small.cells, w)
        np.add.at(np.moveaxis(big.cells, -1, 0), at[exists], np.moveaxis(terms[..., exists], -1, 0))
    result = small if form.solve == "y" else big
    if form.bias in given:
        result.cells = result.cells + given[form.bias].astype(np.float64).reshape(groups, -1, 1)
    return result.stored()


class _Data:
    """A data tensor as cells[n, group, channel, position], whatever its layout."""

    def __init__(self, op: Op, validation: Validation, name: str, array: Array, groups: int) -> None:
        tensor = op.tensor(name)
        order = op.layouts[tensor.layout][validation.layouts[tensor.layout]] if tensor.layout else tuple(tensor.dims)
        rank = array.ndim - 2
        axes = {"": 0}
        for axis in order:
            axes[axis] = axes[""]
            axes[""] += rank if axis == list(tensor.dims)[2] else 1
        batch, channel, space = (axes[axis] for axis in tensor.dims)
        self.axes = (batch, channel, *range(space, space + rank))
        self.shape = tuple(array.shape[axis] for axis in self.axes)
        self.extents = self.shape[2:]
        self.channels = self.shape[1] // groups
        cells: Reals = array.transpose(self.axes).astype(np.float64)
        self.cells = cells.reshape(self.shape[0], groups, self.channels, -1)

    def stored(self) -> Array:
        """The tensor in its own layout."""
        return self.cells.reshape(self.shape).transpose(np.argsort(self.axes))


def _weights(
    op: Op, validation: Validation, read: Read, channels: tuple[int, int, int]
) -> tuple[tuple[Array, ...], tuple[int, ...]]:
    """The position of W[g, a, b, *k] in its tensor, one index array per axis, and the extents of k."""
    tensor = op.tensor(read.tensor)
    arrangement = validation.arrangements.get(tensor.name, "")
    dims = tensor.dims_by_arrangement[arrangement]
    extents = {axis: evaluate(extent.tree, validation.values) for axis, extent in dims.items()}
    taps = next(extent for extent in extents.values() if isinstance(extent, tuple))
    group, small, big, *tap = np.indices((*channels, *taps))
    letters = {**validation.values, "g": group, "small": small, "big": big, "k": tuple(tap)}
    order = op.layouts[tensor.layout][validation.layouts[tensor.layout]] if tensor.layout else tuple(dims)
    copies = [(axis, number) for axis in order for number in range(len(each(extents[axis])))]
    places = index(tensor, read, arrangement, letters)
    return tuple(integers(*places[axis], number) for axis, number in copies), taps


def _joined(
    small: Sequence[int], big: Sequence[int], taps: Sequence[int], *steps: Sequence[int]
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """The position of the big tensor for each small position and tap, and whether it exists."""
    at, exists = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
    for o, i, k, s, d, pad in zip(small, big, taps, *steps, strict=True):
        here = (np.arange(o) * s)[:, None] + np.arange(k) * d - pad
        shape = (len(at) * o, at.shape[1] * k)
        within = (here >= 0) & (here < i)
        at = (at[:, None, :, None] * i + np.where(within, here, 0)[:, None, :]).reshape(shape)
        exists = (exists[:, None, :, None] & within[:, None, :]).reshape(shape)
    return at, exists
