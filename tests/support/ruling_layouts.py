"""Arrays of a call in the order in which the rulings compute, and back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .rulings import Accepted

Ints = tuple[int, ...]


def split_data(shape: Ints, data_format: str) -> tuple[int, int, Ints]:
    """Batch, channels and spatial extents."""
    return (shape[0], shape[1], shape[2:]) if data_format == "NCX" else (shape[0], shape[-1], shape[1:-1])


def join_data(batch: int, channels: int, spatial: Ints, data_format: str) -> Ints:
    return (batch, channels, *spatial) if data_format == "NCX" else (batch, *spatial, channels)


def split_weights(shape: Ints, weights_format: str) -> tuple[dict[str, int], Ints]:
    """The extents of I and O, and the kernel's."""
    if weights_format[0] == "X":
        return dict(zip(weights_format[1:], shape[-2:], strict=True)), shape[:-2]
    return dict(zip(weights_format[:2], shape[:2], strict=True)), shape[2:]


def grouped(data: np.ndarray, data_format: str, groups: int) -> np.ndarray:
    """A view (N, G, channels of a group, X) of a data tensor."""
    view = data if data_format == "NCX" else np.moveaxis(data, -1, 1)
    n, c, *x = view.shape
    return view.reshape(n, groups, c // groups, *x)


def taps(weights: np.ndarray, weights_format: str, found: Accepted) -> np.ndarray:
    """A view (G, A, B, K) of a weights tensor."""
    # OIX and IOX begin with the small side's channels, XIO and XOI end with them.
    view = weights if weights_format[0] != "X" else np.moveaxis(weights, (-1, -2), (0, 1))
    first, second, *k = view.shape
    if found.arrangement == "library":
        return view.reshape(found.groups, first // found.groups, second, *k)
    return np.moveaxis(view.reshape(first, found.groups, second // found.groups, *k), 1, 0)


def flat(data: np.ndarray) -> np.ndarray:
    """The spatial axes of (N, G, C, X) as one."""
    return data.reshape(*data.shape[:3], math.prod(data.shape[3:]))


def reached(offset: int, stride: int, big: int, small: int) -> tuple[slice, slice]:
    """The big side's cells that a tap reaches, 0 <= o*stride + offset < big, and the small side's, o."""
    first = max(0, ceil(-offset, stride))
    last = min(small - 1, (big - 1 - offset) // stride)
    if last < first:
        return slice(0, 0), slice(0, 0)
    return slice(first * stride + offset, last * stride + offset + 1, stride), slice(first, last + 1)


def ceil(a: int, b: int) -> int:
    return -(-a // b)
