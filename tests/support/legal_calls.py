"""A legal call of each of the six operations, of which tests change single arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
import opwright_kernels as ok

F32 = np.float32
LISTS = {"strides": [2, 2], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}


def zeros(*shape: int, dtype: Any = F32) -> np.ndarray:
    return np.zeros(shape, dtype)


def int32(*entries: int) -> np.ndarray:
    return np.array(entries, np.int32)


BASES: dict[str, dict[str, Any]] = {
    "convolution": {"src": zeros(1, 7, 9, 4), "weights": zeros(3, 3, 4, 6), "bias": zeros(6)},
    "convolution_backward_data": {
        "diff_dst": zeros(1, 4, 5, 6),
        "weights": zeros(3, 3, 4, 6),
        "dst_shape": [1, 7, 9, 4],
    },
    "convolution_backward_weights": {
        "src": zeros(1, 7, 9, 4),
        "diff_dst": zeros(1, 4, 5, 6),
        "weights_shape": [3, 3, 4, 6],
    },
    "conv_transpose": {"src": zeros(1, 4, 5, 6), "weights": zeros(3, 3, 4, 6), "bias": zeros(4)},
    "conv_transpose_backward_data": {"diff_dst": zeros(1, 7, 9, 4), "weights": zeros(3, 3, 4, 6)},
    "conv_transpose_backward_weights": {
        "src": zeros(1, 4, 5, 6),
        "diff_dst": zeros(1, 7, 9, 4),
        "weights_shape": [3, 3, 4, 6],
    },
}
SHAPES = {
    "convolution": (1, 4, 5, 6),
    "convolution_backward_data": (1, 7, 9, 4),
    "convolution_backward_weights": (3, 3, 4, 6),
    "conv_transpose": (1, 7, 9, 4),
    "conv_transpose_backward_data": (1, 4, 5, 6),
    "conv_transpose_backward_weights": (3, 3, 4, 6),
}
C, CD, CW, T, TD, TW = BASES


def call(op: str, **changes: Any) -> Any:
    return getattr(ok, op)(**{**BASES[op], **LISTS, **changes})


def one_channel(**more: Any) -> dict[str, Any]:
    """A Convolution with one spatial axis of 1."""
    plain = {name: [1 if name in ("strides", "dilations") else 0] for name in LISTS}
    return plain | {"src": zeros(1, 1, 1), "weights": zeros(1, 1, 1), "bias": None} | more
