"""What the peers agree on before they compute: a call brought to one canonical problem.

In: a legal `Call`. Out: a `Problem`, where the op's name, layouts, arrangements, `auto_pad`, `output_padding` and the
two ways to give a shape are gone. It never computes a result and never checks that a call is legal.

"Big" is the side that the strides walk over, "small" the other. N: batch, IC/OC: in/out channels, G: groups, K: kernel
extents, EK: dilated kernel extents, X: spatial axes. R1 to R14 are the rulings that the specs record as discrepancies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from support.call import Call

OPERANDS = {
    "Convolution": ("big", "weights"),
    "ConvolutionBackwardData": ("small", "weights"),
    "ConvolutionBackwardWeights": ("big", "small"),
    "ConvTranspose": ("small", "weights"),
    "ConvTransposeBackwardData": ("big", "weights"),
    "ConvTransposeBackwardWeights": ("small", "big"),
}
"""What the first two inputs of each op are."""


@dataclass(frozen=True)
class Axis:
    """One spatial axis, with everything decided."""

    big: int
    small: int
    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int
    output_padding: int

    @property
    def extended_kernel(self) -> int:
        """EK."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def span(self) -> int:
        """The cells of the big side, padding included, that some tap can reach."""
        return self.stride * (self.small - 1) + self.extended_kernel


@dataclass(frozen=True)
class Problem:
    """A call without its spelling: data as (N, C, X), weights as (small channels, big channels / G, K)."""

    finds: str
    big: np.ndarray | None
    small: np.ndarray | None
    weights: np.ndarray | None
    bias: np.ndarray | None
    groups: int
    axes: tuple[Axis, ...]
    channels_last: bool
    weights_last: bool
    page_arrangement: bool

    def restore(self, result: np.ndarray) -> np.ndarray:
        """The canonical result in the layout, format and arrangement that the call asked for."""
        if self.finds != "weights":
            return np.moveaxis(result, 1, -1) if self.channels_last else result
        if self.page_arrangement:
            result = to_page(result, self.groups)
        return spatial_first(result) if self.weights_last else result


def problem(call: Call) -> Problem:
    """Bring a legal call to its canonical form."""
    attributes, names = call.attributes, OPERANDS[call.op]
    finds = ({"big", "small", "weights"} - set(names)).pop()
    groups = int(attributes.get("groups", 1))
    channels_last = attributes.get("data_format", "NXC") == "NXC"
    weights_last = attributes.get("weights_format", "XIO").startswith("X")
    given = dict(zip(names, call.inputs, strict=False))
    data = {
        side: channels_first(array) if channels_last else array for side, array in given.items() if side != "weights"
    }
    shape = wanted_shape(call)
    if finds == "weights":
        weights, channels = None, (shape[-1], shape[-2], *shape[:-2]) if weights_last else shape
    else:
        weights = channels_then_spatial(given["weights"]) if weights_last else given["weights"]
        channels = weights.shape
    page = is_page_arrangement(call.op, channels[:2], groups, data)
    if page and weights is not None:
        weights = to_library(weights, groups)
    extents = {side: array.shape[2:] for side, array in data.items()}
    if call.op == "ConvolutionBackwardData":
        extents["big"] = shape[1:-1] if channels_last else shape[2:]
    return Problem(
        finds=finds,
        big=data.get("big"),
        small=data.get("small"),
        weights=weights,
        bias=call.inputs[2] if call.op in ("Convolution", "ConvTranspose") and len(call.inputs) > 2 else None,
        groups=groups,
        axes=tuple(_axes(call, channels[2:], extents)),
        channels_last=channels_last,
        weights_last=weights_last,
        page_arrangement=page,
    )


def wanted_shape(call: Call) -> tuple[int, ...]:
    """The shape that the call gives for its output, or () for the ops that have none: the input wins (R8)."""
    name = {"ConvolutionBackwardData": "dst_shape"}.get(call.op, "weights_shape")
    if "Backward" not in call.op or call.op == "ConvTransposeBackwardData":
        return ()
    tensor = call.inputs[2] if len(call.inputs) > 2 else None
    return tuple(int(extent) for extent in (call.attributes[name] if tensor is None else tensor))


def is_page_arrangement(op: str, channels: tuple[int, ...], groups: int, data: dict[str, np.ndarray]) -> bool:
    """Whether grouped weights, with these (I, O) extents, are arranged as the pages of ConvTranspose* have it (R1)."""
    if groups == 1 or not op.startswith("ConvTranspose"):
        return False
    rows, columns = channels
    fits_rows = "small" not in data or rows == data["small"].shape[1]
    fits_columns = "big" not in data or columns == data["big"].shape[1] // groups
    return not (fits_rows and fits_columns)


def to_library(weights: np.ndarray, groups: int) -> np.ndarray:
    """(IC/G, OC, K) as (IC, OC/G, K)."""
    rows, columns, *kernel = weights.shape
    split = weights.reshape(rows, groups, columns // groups, *kernel)
    return split.swapaxes(0, 1).reshape(groups * rows, columns // groups, *kernel)


def to_page(weights: np.ndarray, groups: int) -> np.ndarray:
    """(IC, OC/G, K) as (IC/G, OC, K)."""
    rows, columns, *kernel = weights.shape
    split = weights.reshape(groups, rows // groups, columns, *kernel)
    return split.swapaxes(0, 1).reshape(rows // groups, groups * columns, *kernel)


def channels_first(array: np.ndarray) -> np.ndarray:
    """(N, X, C) as (N, C, X)."""
    return np.moveaxis(array, -1, 1)


def channels_then_spatial(weights: np.ndarray) -> np.ndarray:
    """(K, I, O) as (O, I, K); the same move takes XOI to IOX."""
    return np.moveaxis(weights, (-1, -2), (0, 1))


def spatial_first(weights: np.ndarray) -> np.ndarray:
    """(O, I, K) as (K, I, O)."""
    return np.moveaxis(weights, (0, 1), (-1, -2))


def _axes(call: Call, kernel: tuple[int, ...], extents: dict[str, tuple[int, ...]]) -> Iterator[Axis]:
    attributes = call.attributes
    auto_pad = attributes.get("auto_pad", "none").lower()
    output_padding = [*attributes.get("output_padding", ()), *[0] * len(kernel)]
    for axis, taps in enumerate(kernel):
        stride, dilation = int(attributes["strides"][axis]), int(attributes["dilations"][axis])
        extended, extra = (taps - 1) * dilation + 1, int(output_padding[axis])
        big, small = (extents[side][axis] if side in extents else None for side in ("big", "small"))
        # R7: what the forward op added is taken off before anything else looks at the size.
        stated = extra if call.op.startswith("ConvTranspose") else 0
        begin, end = int(attributes["pads_begin"][axis]), int(attributes["pads_end"][axis])
        if auto_pad == "valid":
            begin = end = 0
        elif auto_pad != "none":
            if big is None:
                total = max(extended - stride, 0)
            else:
                walked, unstated = big - stated, extra - stated
                total = max(stride * (-(-walked // stride) - 1) + extended - walked + unstated, 0)
            begin, end = total // 2, total - total // 2
            if auto_pad == "same_lower":
                begin, end = end, begin
        if big is None:
            big = stride * (small - 1) + extended - begin - end + stated
        if small is None:
            small = (big - stated + begin + end - extended) // stride + 1
        yield Axis(big, small, taps, stride, dilation, begin, end, stated)
