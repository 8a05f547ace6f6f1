"""Whether the normal form of a spec says the same as its semantics, on small exact calls.

In: an operation. Out: nothing, or a sentence with the first call on which the two differ. Fast kernels are made from
the normal form and reference kernels from the semantics, so no kernel is made of a spec that disagrees with itself.
The normal form is evaluated here, in the words of its relation: tap k joins `big[n, g*B + b, o*S + k*D - PB]` with
`small[n, g*A + a, o]` through `W[g, a, b, k]`. The semantics are evaluated by interpret.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import expr
from .bounds import index_of
from .expr import Inexact, Read
from .interpret import compute, integers
from .judging import NUMPY, Array, Judgement, each, judge, shape_of
from .kept import kept
from .model import Attribute, NormalForm, Op
from .plan import symbol_kinds, symbol_of, tensor_ways

Call = tuple[list[Array | None], dict[str, object], Judgement]
Column = dict[str, int]
Reals = npt.NDArray[np.float64]

SEED = 20240229
COLUMNS = 10  # legal settings of one spatial axis that calls are combined from
CALLS = 18  # calls that are compared, a third for each number of axes
TRIES = 600  # draws before a spec is given up
MOST = 3000  # the product of all sizes of a call: what keeps a check of six operations below half a second


@kept
def agrees(op: Op) -> str | None:
    """None where the normal form equals the semantics, or is not there; else how they differ."""
    return _compare(op, op.normal_form) if op.normal_form else None


def _compare(op: Op, form: NormalForm) -> str | None:
    compared = 0
    for inputs, attributes, judgement in calls(op):
        compared += 1
        expected = compute(op, inputs, attributes)
        call = _described(op, inputs, attributes)
        try:
            found = evaluate(op, form, inputs, judgement)
        except (IndexError, KeyError, ValueError, Inexact) as error:
            return f"the normal form of {op.op} does not fit the tensors of {call}: {error}"
        if found.shape != expected.shape:
            shapes = f"{list(found.shape)}, the semantics {list(expected.shape)}"
            return f"the normal form of {op.op} gives the shape {shapes}, for {call}"
        wrong = np.argwhere(found != expected)
        if len(wrong):
            cell = tuple(map(int, wrong[0]))
            values = f"{float(found[cell]):g}, the semantics {float(expected[cell]):g}"
            return f"the normal form of {op.op} gives {op.output.name}{list(cell)} = {values}, for {call}"
    return None if compared else f"no legal call of {op.op} was found on which to compare its normal form"


def _described(op: Op, inputs: Sequence[Array | None], attributes: Mapping[str, object]) -> str:
    given = [f"{t.name} {list(a.shape)}" for t, a in zip(op.inputs, inputs, strict=True) if a is not None]
    return ", ".join([*given, *(f"{name}={value}" for name, value in attributes.items())])


# The calls.


def calls(op: Op) -> Iterator[Call]:
    """Legal calls with small integers, the same ones every time, over every number of axes."""
    draw = _Draw(op)
    columns = list(draw.columns())
    ranks = range(op.spatial_rank.min, op.spatial_rank.max + 1)
    made = 0
    for _ in range(TRIES if columns or not draw.vectors else 0):
        rank = ranks[made % len(ranks)]
        chosen = [columns[draw.rng.integers(len(columns))] for _ in range(rank)]
        call = draw.call(draw.scalars(), chosen)
        if call is not None:
            made += 1
            yield call
        if made == CALLS:
            return


class _Draw:
    """Draws calls from a spec's declarations; those that its judge refuses, or that are too big, are None."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.rng = np.random.default_rng(SEED)
        self.numbers = [a for a in op.attributes if a.type in ("s64", "s64[]") and not a.shape_of]
        kinds = symbol_kinds(op)
        self.vectors = [dim.symbol for dim in op.dims.values() if kinds[dim.symbol].vector]
        self.sizes = [dim.symbol for dim in op.dims.values() if not kinds[dim.symbol].vector]

    def small(self, attribute: Attribute) -> int:
        """A value near the least legal one; often the default, where there is one."""
        if attribute.default is not None and self.rng.random() < 0.3:
            return int(attribute.default)
        return (attribute.min or 0) + int(self.rng.integers(3))

    def scalars(self) -> Column:
        """Values that are no vectors; sizes are multiples of every number, so that they divide by groups."""
        found = {symbol_of(a): self.small(a) for a in self.numbers if a.type == "s64"}
        unit = max(1, math.prod(found.values()))
        return found | {symbol: unit * int(self.rng.integers(1, 3)) for symbol in self.sizes}

    def columns(self) -> Iterator[Column]:
        """Values for one spatial axis with which a call is legal."""
        ones = dict.fromkeys([*self.sizes, *(symbol_of(a) for a in self.numbers if a.type == "s64")], 1)
        made = 0
        for _ in range(TRIES if self.vectors else 0):
            column = {symbol_of(a): self.small(a) for a in self.numbers if a.type == "s64[]"}
            column |= {symbol: int(self.rng.integers(1, 5)) for symbol in self.vectors}
            if self.call(ones, [column]) is not None:
                made += 1
                yield column
            if made == COLUMNS:
                return

    def call(self, scalars: Column, columns: Sequence[Column]) -> Call | None:
        op, rng = self.op, self.rng
        vectors = {symbol: tuple(column[symbol] for column in columns) for symbol in (columns[0] if columns else ())}
        symbols: dict[str, Any] = {**scalars, **vectors}
        if math.prod(entry for size in (*self.sizes, *self.vectors) for entry in each(symbols[size])) > MOST:
            return None
        words: dict[str, str] = {}
        for name in op.layout_attributes:
            allowed = op.attribute(name).values or ()
            words[name] = allowed[rng.integers(len(allowed))].value
        attributes: dict[str, object] = {**words, **{a.name or "": symbols[symbol_of(a)] for a in self.numbers}}
        arrays: dict[str, Array] = {}
        for tensor in op.tensors:
            stated = op.stated_by(tensor)
            if (tensor in op.outputs and not stated) or (tensor.optional and rng.random() < 0.5):
                continue
            names = list(tensor_ways(tensor))
            way = {tensor.name: names[rng.integers(len(names))]}
            try:
                shape = shape_of(op, tensor, way, words, symbols)
            except Inexact:
                return None
            if not stated:
                arrays[tensor.name] = rng.integers(-3, 4, shape).astype(NUMPY[op.dtypes[0][tensor.name]])
            elif isinstance(giver := stated[-1], Attribute):
                attributes[giver.name or ""] = list(shape)
            else:
                arrays[giver.name] = np.array(shape, NUMPY[op.dtypes[0][giver.name]])
        inputs = [arrays.get(tensor.name) for tensor in op.inputs]
        judgement = judge(op, inputs, attributes)
        cells = math.prod(judgement.shape or ())
        return (inputs, attributes, judgement) if judgement.accepted and cells <= MOST else None


# The normal form.


def evaluate(op: Op, form: NormalForm, inputs: Sequence[Array | None], judgement: Judgement) -> Array:
    """The output of a legal call by the normal form alone."""
    values: dict[str, Any] = judgement.values
    assert form.weights is not None
    assert isinstance(form.weights.tree, Read)
    assert judgement.shape is not None
    given = {tensor.name: array for tensor, array in zip(op.inputs, inputs, strict=True) if array is not None}
    given[op.output.name] = np.zeros(judgement.shape)
    groups = values.get(form.groups, 1)
    big, small = (_Data(op, judgement, name, given[name], groups) for name in (form.big, form.small))
    weights = given[form.weights.tree.tensor].astype(np.float64)
    place, taps = _weights(op, judgement, form.weights.tree, (groups, small.channels, big.channels))
    rank = len(taps)
    steps = [values.get(form.stride, (1,) * rank), values.get(form.dilation, (1,) * rank)]
    at, exists = _joined(small.extents, big.extents, taps, *steps, values.get(form.pad, (0,) * rank))
    w = weights[place].reshape(*weights[place].shape[:3], -1)
    if form.solve == "w":
        solved = np.einsum("ngbqt,ngaq->gabt", np.where(exists, big.cells[..., at], 0), small.cells)
        weights[place] = solved.reshape(weights[place].shape)
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

    def __init__(self, op: Op, judgement: Judgement, name: str, array: Array, groups: int) -> None:
        tensor = op.tensor(name)
        order = op.layouts[tensor.layout][judgement.layouts[tensor.layout]] if tensor.layout else tuple(tensor.dims)
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
        """The tensor in its own layout again."""
        return self.cells.reshape(self.shape).transpose(np.argsort(self.axes))


def _weights(
    op: Op, judgement: Judgement, read: Read, channels: tuple[int, int, int]
) -> tuple[tuple[Array, ...], tuple[int, ...]]:
    """Where W[g, a, b, *k] stands in its tensor, one index array per axis; and the extents of k."""
    tensor = op.tensor(read.tensor)
    way = judgement.arrangements.get(tensor.name, "")
    dims, index = tensor_ways(tensor)[way], index_of(tensor, read, way)
    extents = {axis: expr.evaluate(extent.tree, judgement.values) for axis, extent in dims.items()}
    taps = next(extent for extent in extents.values() if isinstance(extent, tuple))
    group, small, big, *tap = np.indices((*channels, *taps))
    letters = {**judgement.values, "g": group, "small": small, "big": big, "k": tuple(tap)}
    order = op.layouts[tensor.layout][judgement.layouts[tensor.layout]] if tensor.layout else tuple(dims)
    copies = [(axis, number) for axis in order for number in range(len(each(extents[axis])))]
    return tuple(integers(index[axis], letters, number) for axis, number in copies), taps


def _joined(
    small: Sequence[int], big: Sequence[int], taps: Sequence[int], *steps: Sequence[int]
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Which position of the big tensor each small position meets at each tap, and whether it exists."""
    at, exists = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
    for o, i, k, s, d, pad in zip(small, big, taps, *steps, strict=True):
        here = (np.arange(o) * s)[:, None] + np.arange(k) * d - pad
        shape = (len(at) * o, at.shape[1] * k)
        within = (here >= 0) & (here < i)
        at = (at[:, None, :, None] * i + np.where(within, here, 0)[:, None, :]).reshape(shape)
        exists = (exists[:, None, :, None] & within[:, None, :]).reshape(shape)
    return at, exists
