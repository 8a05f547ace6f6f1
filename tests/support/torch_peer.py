"""PyTorch as a witness: what a legal call must give, computed by its convolutions in float64.

In: a `Call`. Out: the output in the call's own type and layout. Small integers come out exact; other values are rounded
once from float64 (twice for bfloat16, through float32). PyTorch is imported when it is first asked to compute.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
from support.call import Call
from support.peer_geometry import Problem, problem

if TYPE_CHECKING:
    import torch


def available() -> bool:
    """Whether PyTorch is installed."""
    return find_spec("torch") is not None


def expressible(call: Call) -> str | None:
    """None when PyTorch can express the call, else why it can't."""
    floats = [array for array in call.inputs if array is not None and array.dtype != np.int32]
    asked = problem(call)
    if any(0 in array.shape for array in floats):
        return "PyTorch has no convolution without a batch or without channels"
    padded = any(axis.begin or axis.end or axis.span != axis.big for axis in asked.axes)
    if padded and not all(np.isfinite(array.astype(np.float32)).all() for array in floats):
        return "PyTorch multiplies padding by Inf or NaN"
    return None


def compute(call: Call) -> np.ndarray:
    """The output of a legal, expressible call."""
    asked = problem(call)
    result = {"small": _small, "big": _big, "weights": _weights}[asked.finds](asked)
    dtype = next(array.dtype for array in call.inputs if array is not None)
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(asked.restore(result).astype(dtype))


def _small(asked: Problem) -> np.ndarray:
    import torch.nn.functional as nn

    operation = (nn.conv1d, nn.conv2d, nn.conv3d)[len(asked.axes) - 1]
    bias = None if asked.bias is None else _tensor(asked.bias)
    return operation(_spanned(asked), _tensor(asked.weights), bias, groups=asked.groups, **_steps(asked)).numpy()


def _big(asked: Problem) -> np.ndarray:
    import torch.nn.functional as nn

    operation = (nn.conv_transpose1d, nn.conv_transpose2d, nn.conv_transpose3d)[len(asked.axes) - 1]
    spanned = operation(_tensor(asked.small), _tensor(asked.weights), groups=asked.groups, **_steps(asked))
    result = _window(spanned, [(axis.begin, axis.big) for axis in asked.axes]).numpy()
    return result if asked.bias is None else result + asked.bias.astype(float).reshape(-1, *[1] * len(asked.axes))


def _weights(asked: Problem) -> np.ndarray:
    import torch

    big, small, zeros = _spanned(asked), _tensor(asked.small), [0] * len(asked.axes)
    shape = (small.shape[1], big.shape[1] // asked.groups, *(axis.kernel for axis in asked.axes))
    like, only_weights = torch.empty(shape, dtype=torch.float64), [False, True, False]
    stride, dilation = _steps(asked).values()
    backward = torch.ops.aten.convolution_backward
    gradients = backward(small, big, like, None, stride, zeros, dilation, False, zeros, asked.groups, only_weights)
    return gradients[1].numpy()


def _spanned(asked: Problem) -> torch.Tensor:
    """The big side padded or cropped to exactly the cells that taps can reach, so that PyTorch needs no padding."""
    return _window(_tensor(asked.big), [(-axis.begin, axis.span) for axis in asked.axes])


def _window(tensor: torch.Tensor, cells: list[tuple[int, int]]) -> torch.Tensor:
    """For each spatial axis `size` cells from `start` on, of a tensor surrounded by zeros."""
    import torch.nn.functional as nn

    margins: list[int] = []
    for extent, (start, size) in zip(tensor.shape[2:], cells, strict=True):
        margins = [max(-start, 0), max(start + size - extent, 0), *margins]  # PyTorch lists the last axis first
    tensor = nn.pad(tensor, margins)
    for axis, (start, size) in enumerate(cells, start=2):
        tensor = tensor.narrow(axis, max(start, 0), size)
    return tensor


def _steps(asked: Problem) -> dict[str, list[int]]:
    return {"stride": [axis.stride for axis in asked.axes], "dilation": [axis.dilation for axis in asked.axes]}


def _tensor(array: np.ndarray) -> torch.Tensor:
    import torch

    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.float64))
