"""The numbers that are convolved, the same for every candidate, and the judgement of what comes out.

In: a row. Out: its arrays, plain and aligned to 64 bytes. All values are integers from -2 to 2, so that every sum is
exact in f32 in whatever order it is taken, and each correct result is the exact one, rounded once.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from .rows import INPUTS, Row
from .shapes import SHAPES

Array = np.ndarray[Any, Any]
NUMPY = {"f32": np.dtype(np.float32), "bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16)}
NUMPY |= {"f64": np.dtype(np.float64), "u8": np.dtype(np.uint8), "s8": np.dtype(np.int8), "s32": np.dtype(np.int32)}
# Of a cell and of the typical cell: the error of a candidate that rounds intermediate sums.
TOLERANCE = {"f32": 1e-5, "bf16": 2.0**-7, "f16": 2.0**-9, "u8": 0, "s8": 0, "s32": 0}
ALIGNMENT = 64


class Tensors:
    """The arrays of a row, as every candidate gets them: the inputs filled, the result to be written."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.arrays = {name: empty(row.extents(name), NUMPY[row.dtype]) for name in ("big", "small", "weights")}
        for name in INPUTS[row.op]:
            self.canonical(name)[...] = integers(row.shape, name)
        self.forget()

    def canonical(self, name: str) -> Array:
        """A view of a tensor: data as (N, C, X), weights as (channels of small, channels of big / groups, K)."""
        return canonical(self.arrays[name], name, self.row.layout)

    @property
    def result(self) -> Array:
        return self.arrays[self.row.solve]

    def forget(self) -> None:
        """Overwrite the result, so that a cell that nobody writes is found."""
        self.result[...] = np.nan


def canonical(array: Array, name: str, layout: str) -> Array:
    if layout == "NCX":
        return array
    return array.transpose(-1, -2, *range(array.ndim - 2)) if name == "weights" else np.moveaxis(array, -1, 1)


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    size = int(np.prod(shape)) * dtype.itemsize
    room = np.empty(size + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + size].view(dtype).reshape(shape)


@lru_cache(maxsize=3)
def integers(shape: str, name: str) -> Array:
    """The values of a tensor of a shape, in canonical order: they depend on these two names only."""
    ncx = Row("Convolution", SHAPES[shape].name, "f32", "NCX", 1)
    generator = np.random.default_rng(zlib.crc32(f"{shape} {name}".encode()))
    return generator.integers(-2, 3, ncx.extents(name), np.int8)


def bits(array: Array) -> Array:
    """The same cells as integers."""
    return array.view(np.dtype(f"u{array.itemsize}"))


def wrong(result: Array, reference: Array, dtype: str) -> int:
    """How many cells of a canonical result are further from the exact ones than the dtype explains."""
    expected = reference.astype(NUMPY[dtype]).astype(np.float32)
    typical = float(np.sqrt(np.mean(np.square(expected, dtype=np.float64))))
    close = abs(result.astype(np.float32) - expected) <= TOLERANCE[dtype] * (abs(expected) + typical)
    return int(close.size - np.count_nonzero(close))
