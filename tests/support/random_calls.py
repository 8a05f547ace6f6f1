"""Random legal calls on small integers, whose results every witness can give exactly.

In: a random generator. Out: a `Call` of one of the six ops, with any layout, format, arrangement, type, padding and way
to give a shape. It never makes a call that the rulings refuse.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from support.call import Call
from support.peer_geometry import OPERANDS, Axis, problem, spatial_first, to_page

DTYPES = (np.float32, ml_dtypes.bfloat16, np.float16)
SPATIAL = ("strides", "dilations", "pads_begin", "pads_end", "output_padding")
OUTPUT_PADDED = [op for op in OPERANDS if op.startswith("ConvTranspose") or op == "ConvolutionBackwardData"]


def random_call(rng: np.random.Generator, op: str) -> Call:
    """A legal call of `op`."""
    transposed = op.startswith("ConvTranspose")
    common: dict[str, Any] = {"auto_pad": str(rng.choice(["none", "none", "valid", "same_upper", "same_lower"]))}
    drawn = [_legal_axis(rng, op, common) for _ in range(rng.integers(1, 4))]
    axes = [axis for axis, _ in drawn]
    attributes = common | {name: [values[name][0] for _, values in drawn] for name in SPATIAL}
    groups, rows, columns, batch = (int(extent) for extent in rng.integers(1, 4, 4))
    attributes["groups"] = groups
    attributes["data_format"] = str(rng.choice(["NCX", "NXC"]))
    attributes["weights_format"] = str(rng.choice(["IOX", "XOI"] if transposed else ["OIX", "XIO"]))
    if not any(attributes["output_padding"]):
        del attributes["output_padding"]
    shapes = {
        "big": (batch, groups * columns, *(axis.big for axis in axes)),
        "small": (batch, groups * rows, *(axis.small for axis in axes)),
        "weights": (groups * rows, columns, *(axis.kernel for axis in axes)),
    }
    dtype = DTYPES[rng.integers(3)]
    arrays = {name: rng.integers(-3, 4, shape).astype(dtype) for name, shape in shapes.items()}
    if transposed and rng.integers(2):
        arrays["weights"] = to_page(arrays["weights"], groups)
    if attributes["weights_format"].startswith("X"):
        arrays["weights"] = spatial_first(arrays["weights"])
    if attributes["data_format"] == "NXC":
        arrays |= {side: np.moveaxis(arrays[side], 1, -1) for side in ("big", "small")}
    inputs: list[np.ndarray | None] = [arrays.pop(name) for name in OPERANDS[op]]
    (wanted,) = arrays.values()
    if op in ("Convolution", "ConvTranspose"):
        channels = groups * (columns if transposed else rows)
        inputs += [None, rng.integers(-3, 4, channels).astype(dtype)][rng.integers(2) :][:1]
    elif op != "ConvTransposeBackwardData":
        name = "dst_shape" if op == "ConvolutionBackwardData" else "weights_shape"
        if rng.integers(2):
            inputs.append(np.array(wanted.shape, np.int32))
        else:
            attributes[name] = list(wanted.shape)
    return Call(op, tuple(inputs), attributes)


def _legal_axis(rng: np.random.Generator, op: str, common: dict[str, Any]) -> tuple[Axis, dict[str, list[int]]]:
    """One spatial axis that is legal by itself, and the lists of length 1 that describe it."""
    while True:
        values = {name: [int(rng.integers(1, 4 if name == "strides" else 3))] for name in SPATIAL[:2]}
        values |= {name: [int(rng.integers(0, 3))] for name in SPATIAL[2:4]}
        values["output_padding"] = [int(rng.choice([0, 0, 0, 1, 2])) if op in OUTPUT_PADDED else 0]
        extents = {"big": rng.integers(1, 8), "small": rng.integers(1, 6), "weights": rng.integers(1, 4)}
        inputs = tuple(np.empty((1, 1, extents[name])) for name in OPERANDS[op])
        shape = [1, 1, extents["big" if op == "ConvolutionBackwardData" else "weights"]]
        formats = {"data_format": "NCX", "weights_format": "OIX", "dst_shape": shape, "weights_shape": shape}
        (axis,) = problem(Call(op, inputs, common | values | formats)).axes
        if _is_legal(op, axis):
            return axis, values


def _is_legal(op: str, axis: Axis) -> bool:
    if op == "ConvTranspose":
        return axis.big >= 1 and axis.output_padding < max(axis.stride, axis.dilation)
    steps = axis.big - axis.output_padding + axis.begin + axis.end - axis.extended_kernel
    divides = axis.output_padding == 0 or steps % axis.stride == 0
    return axis.big > axis.output_padding and steps >= 0 and divides and axis.small == steps // axis.stride + 1
