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
        explanation = str(kernels.explain("static_transpose", np.zeros(shape, np.float32), order=order))
        assert ("lanes along x: tiles: squares" in explanation) is tiles, shape


def test_f32_becomes_f16_to_the_bit_whatever_the_length_of_the_row(isa: str) -> None:
    random = np.random.default_rng(9)
    bits = random.integers(0, 2**32, 60000, np.uint32)
    bits[:40000] = (bits[:40000] & 0x80007FFF) | random.integers(0x32000000 >> 15, 0x48000000 >> 15, 40000) << 15
    for value in (0x7F800001, 0xFFC12345, 0x7F800000, 0x80000000, 0x00000001, 0x477FEFFF, 0x477FF000, 0x38800000):
        bits[random.integers(0, bits.size, 50)] = value
    sign, magnitude = bits >> 16 & 0x8000, bits & 0x7FFFFFFF
    with np.errstate(over="ignore"):
        rounded = bits.view(np.float32).astype(np.float16).view(np.uint16)
    quiet = sign | 0x7E00 | magnitude >> 13 & 0x3FF
    expected = np.where(magnitude > 0x7F800000, quiet, rounded)
    for cells in (*range(1, 36), bits.size):
        begin = int(random.integers(0, bits.size - cells + 1))
        found = kernels.type_cast(bits[begin : begin + cells].view(np.float32), dtype="f16")
        assert (found.view(np.uint16) == expected[begin : begin + cells]).all()


def test_rows_in_another_order_are_copied_whole_by_any_number_of_threads(isa: str) -> None:
    random = np.random.default_rng(10)
    for shape in ((2, 3, 5, 7), (1, 40, 3), (6, 1, 64), (2, 0, 3), (4, 5, 1023)):
        src = random.standard_normal(shape).astype(np.float32)
        order = [*random.permutation(len(shape) - 1).tolist(), len(shape) - 1]
        for threads in (1, 2, 3):
            assert (kernels.static_transpose(src, order=order, threads=threads) == src.transpose(order)).all()
