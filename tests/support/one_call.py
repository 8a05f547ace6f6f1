"""A call of ConvTranspose that tests vary: its arrays, its lists and its result."""

from __future__ import annotations

from typing import Any

import numpy as np
import opwright_kernels as ok

F32 = np.dtype(np.float32)


LISTS: dict[str, Any] = {"strides": [2, 2], "pads_begin": [1, 0], "pads_end": [0, 1], "dilations": [1, 1]}


def integers(*shape: int, dtype: Any = F32) -> np.ndarray:
    return np.random.default_rng(list(shape)).integers(-3, 4, shape).astype(dtype)


SRC, WEIGHTS, BIAS = integers(2, 4, 5, 6), integers(3, 3, 4, 6), integers(4)
EXPECTED = ok.conv_transpose(SRC, WEIGHTS, BIAS, **LISTS)
SHAPE = (2, 8, 10, 4)


def call(src: Any = SRC, weights: Any = WEIGHTS, bias: Any = BIAS, **more: Any) -> Any:
    return ok.conv_transpose(src, weights, bias, **{**LISTS, **more})


def interface(array: np.ndarray) -> Any:
    """An object that is no array but has the interface of one."""

    class Holder:
        __array_interface__ = array.__array_interface__
        keep = array

    return Holder()
