"""PyTorch as a witness for any operation that has a normal form: its convolutions, in float64, rounded once.

In: a legal call. Out: the expected result. The normal form says which tensor is big, small or the weights, and the spec
how each is laid out; nothing here knows an operation. PyTorch is imported on first use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..language.evaluate import evaluate
from ..language.expr import Read
from ..language.model import NormalForm, Op, Tensor
from ..language.types import spatial
from .indices import index

if TYPE_CHECKING:
    from .validate import Validation

Array = np.ndarray[Any, Any]


def inexpressible(op: Op, inputs: Sequence[Array | None]) -> str | None:
    """Why PyTorch cannot compute the call, or None if it can."""
    if op.normal_form is None:
        return f"{op.op} has no normal form that PyTorch could compute"
    given = [array for array in inputs if array is not None]
    if any(array.size == 0 for array in given):
        return "PyTorch does not support convolutions of empty tensors"
    if not all(np.isfinite(array.astype(np.float32)).all() for array in given):
        return "PyTorch multiplies padding by Inf and NaN"
    return None


def compute(op: Op, inputs: Sequence[Array | None], attributes: Mapping[str, Any]) -> Array:
    """The output of a legal call that is not `inexpressible`."""
    from .validate import validate

    assert op.normal_form is not None
    return _Call(op, op.normal_form, inputs, validate(op, inputs, attributes)).result()


@dataclass(frozen=True)
class _Order:
    """Converts the axes of a tensor's array to the spec's order and back."""

    axes: tuple[int, ...]

    def ordered(self, array: Array) -> Array:
        return array.transpose(self.axes)

    def restored(self, array: Array) -> Array:
        return array.transpose(np.argsort(self.axes))


class _Call:
    def __init__(self, op: Op, form: NormalForm, inputs: Sequence[Array | None], validation: Validation) -> None:
        self.op, self.form, self.validation = op, form, validation
        self.values: dict[str, Any] = dict(validation.values)
        self.given = {tensor.name: array for tensor, array in zip(op.inputs, inputs, strict=False) if array is not None}
        self.steps = {"stride": self.values[form.stride], "dilation": self.values[form.dilation]}
        self.groups: int = self.values[form.groups]
        self.rank = len(self.steps["stride"])
        assert form.weights is not None
        assert isinstance(form.weights.tree, Read)
        self.read = form.weights.tree

    def result(self) -> Array:
        from .dtypes import rounded

        found = {"y": self.small, "x": self.big, "w": self.weights}[self.form.solve]()
        assert self.validation.row is not None
        return np.ascontiguousarray(rounded(found, self.validation.row[self.op.output.name]))

    # The three ways to solve the relation.

    def small(self) -> Array:
        import torch.nn.functional as nn

        conv = (nn.conv1d, nn.conv2d, nn.conv3d)[self.rank - 1]
        found = conv(self.spanned(), self.torch_weights(), None, groups=self.groups, **self.steps)
        return self.finished(found.numpy())

    def big(self) -> Array:
        import torch.nn.functional as nn

        conv = (nn.conv_transpose1d, nn.conv_transpose2d, nn.conv_transpose3d)[self.rank - 1]
        spanned = conv(self.tensor(self.form.small), self.torch_weights(), groups=self.groups, **self.steps)
        return self.finished(_window(spanned, self.pads(), self.shape(self.form.big)[2:]).numpy())

    def weights(self) -> Array:
        import torch

        big, small = self.spanned(), self.tensor(self.form.small)
        shape = (small.shape[1], big.shape[1] // self.groups, *self.kernel())
        like, zeros = torch.empty(shape, dtype=torch.float64), [0] * self.rank
        ask = torch.ops.aten.convolution_backward
        steps = (self.steps["stride"], zeros, self.steps["dilation"])
        found = ask(small, big, like, None, *steps, False, zeros, self.groups, [False, True, False])[1].numpy()
        output = self.op.output
        cells = np.empty(self.order(output).ordered(np.empty(self.validation.shape or (), bool)).shape)
        cells[self.places()] = found.reshape(self.groups, -1, *shape[1:])
        return self.order(output).restored(cells)

    def finished(self, found: Array) -> Array:
        bias = self.given.get(self.form.bias or "")
        whole = found if bias is None else found + bias.astype(np.float64).reshape(-1, *[1] * self.rank)
        return self.order(self.op.output).restored(whole)

    # Tensors as the relation sees them.

    def order(self, tensor: Tensor) -> _Order:
        """The position of each axis of a tensor in its array."""
        dims = next(iter(tensor.dims_by_arrangement.values()))
        vectors = spatial(dims, self.op)
        names = self.op.layouts[tensor.layout][self.validation.layouts[tensor.layout]] if tensor.layout else tuple(dims)
        expanded = [(name, number) for name in names for number in range(self.rank if name in vectors else 1)]
        places = {(name, number): at for at, (name, number) in enumerate(expanded)}
        return _Order(tuple(places[key] for key in sorted(places, key=lambda key: (list(dims).index(key[0]), key[1]))))

    def shape(self, name: str) -> tuple[int, ...]:
        """A tensor's shape in the spec's order of axes."""
        tensor = self.op.tensor(name)
        own = self.given[name].shape if name in self.given else self.validation.shape or ()
        return tuple(own[at] for at in self.order(tensor).axes)

    def tensor(self, name: str) -> Any:
        import torch

        array = self.order(self.op.tensor(name)).ordered(self.given[name])
        return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float64))

    def torch_weights(self) -> Any:
        """(channels of small, channels of big / groups, kernel)."""
        import torch

        array = self.order(self.op.tensor(self.read.tensor)).ordered(self.given[self.read.tensor])
        parts = array[self.places()].astype(np.float64)
        return torch.from_numpy(np.ascontiguousarray(parts.reshape(-1, *parts.shape[2:])))

    def kernel(self) -> tuple[int, ...]:
        return self.shape(self.read.tensor)[-self.rank :]

    def places(self) -> tuple[Any, ...]:
        """The indices that turn weights in the spec's order into [group, small channel, big channel, tap]."""
        small, big = (self.shape(name)[1] // self.groups for name in (self.form.small, self.form.big))
        grids = np.ogrid[tuple(slice(extent) for extent in (self.groups, small, big, *self.kernel()))]
        letters: dict[str, Any] = {"g": grids[0], "small": grids[1], "big": grids[2], "k": tuple(grids[3:])}
        tensor = self.op.tensor(self.read.tensor)
        arrangement = self.validation.arrangements.get(tensor.name, "")
        places = index(tensor, self.read, arrangement, {**self.values, **letters})
        found = [evaluate(*places[axis]) for axis in tensor.dims_by_arrangement[arrangement]]
        return tuple(part for at in found for part in (at if isinstance(at, tuple) else (at,)))

    def pads(self) -> tuple[int, ...]:
        pads: tuple[int, ...] = self.values[self.form.pad]
        return pads

    def spanned(self) -> Any:
        """The big side padded or cropped to exactly the cells that taps can reach, so that PyTorch needs no padding."""
        small = self.shape(self.form.small)[2:]
        steps = zip(self.steps["stride"], small, self.kernel(), self.steps["dilation"], strict=True)
        spans = [stride * (cells - 1) + (taps - 1) * dilation + 1 for stride, cells, taps, dilation in steps]
        return _window(self.tensor(self.form.big), [-pad for pad in self.pads()], spans)


def _window(tensor: Any, starts: Sequence[int], sizes: Sequence[int]) -> Any:
    """For each spatial axis `size` cells from `start` on, of a tensor surrounded by zeros."""
    import torch.nn.functional as nn

    margins: list[int] = []
    for extent, start, size in zip(tensor.shape[2:], starts, sizes, strict=True):
        margins = [max(-start, 0), max(start + size - extent, 0), *margins]  # PyTorch lists the last axis first
    tensor = nn.pad(tensor, margins)
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True), start=2):
        tensor = tensor.narrow(axis, max(start, 0), size)
    return tensor
