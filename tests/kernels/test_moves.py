"""Copies of whole arrays: between orders of axes that lie across each other, and into other shapes."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import opwright_kernels as kernels
import pytest

DTYPES = {"f32": np.dtype(np.float32), "bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16)}


def numbers(random: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    made = random.integers(1, 200, shape).astype(DTYPES[dtype])
    views = (made, made[::-1], made.swapaxes(0, -1).copy().swapaxes(0, -1), np.repeat(made, 2, -1)[..., ::2])
    return views[random.integers(len(views))]


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_a_transpose_moves_every_cell_to_its_place_and_writes_nothing_else(isa: str, dtype: str) -> None:
    random = np.random.default_rng(len(isa) + len(dtype))
    for _ in range(25):
        rank = int(random.integers(2, 5))
        extents = [(1, 2, 15, 16, 17, 33, 530), (0, 1, 3, 16, 20), (1, 2, 5), (1, 2)]
        shape = tuple(int(random.choice(extents[axis])) for axis in random.permutation(rank))
        order = [int(axis) for axis in random.permutation(rank)]
        src = numbers(random, shape, dtype)
        expected = src.transpose(order)
        room = np.zeros([extent + 2 for extent in expected.shape], DTYPES[dtype])
        out = room[tuple(slice(1, extent + 1) for extent in expected.shape)] if random.integers(2) else None
        found = kernels.static_transpose(src, order=order, out=out, threads=int(random.integers(1, 4)))
        assert (found == expected).all(), (shape, order, src.strides)
        if out is not None:
            assert np.count_nonzero(room.astype(np.float32)) == expected.size


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_a_reshape_keeps_the_order_of_cells_whatever_the_strides(isa: str, dtype: str) -> None:
    random = np.random.default_rng(len(isa) * 7 + len(dtype))
    for shape, other in (
        ((30, 40), (1200,)),
        ((30, 40), (25, 48)),
        ((3, 5, 7), (105,)),
        ((1, 1100), (2, 550)),
        ((0, 3), (0,)),
    ):
        src = numbers(random, shape, dtype)
        found = kernels.static_reshape(src, shape=list(other), special_zero=math.prod(shape) == 0)
        assert (found == src.reshape(other)).all()


def test_a_copy_keeps_all_bits_of_what_it_copies(isa: str) -> None:
    every = np.arange(2**16, dtype=np.uint16)
    for dtype in ("bf16", "f16"):
        copied = kernels.reorder(every.view(DTYPES[dtype]))
        assert (copied.view(np.uint16) == every).all(), dtype


def test_explain_names_tiles_where_axes_lie_across_each_other_and_nowhere_else() -> None:
    for shape, order, tiles in (((20, 30), [1, 0], True), ((20, 8), [1, 0], False), ((4, 20, 30), [1, 0, 2], False)):
        told = str(kernels.explain("static_transpose", np.zeros(shape, np.float32), order=order))
        assert ("lanes along x: tiles: squares" in told) is tiles, shape
