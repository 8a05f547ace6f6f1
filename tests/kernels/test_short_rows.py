"""Short rows beside one that is the same for all of them, or one cell: they are taken as long ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import opwright_kernels as kernels
import pytest
from support.draws import rng
from support.rulings import DTYPES

pytestmark = pytest.mark.usefixtures("isa")


def drawn(random: np.random.Generator, extents: tuple[int, ...], dtype: str, form: str) -> Any:
    """Small integers in memory as they stand, with gaps after rows or between cells, or with rows at one place."""
    rows, cells = extents
    if form == "once":
        return np.broadcast_to(random.integers(-8, 9, (1, cells)).astype(DTYPES[dtype]), extents)
    room = random.integers(-8, 9, (rows, 2 * cells + 3)).astype(DTYPES[dtype])
    return {"plain": np.ascontiguousarray(room[:, :cells]), "gap": room[:, :cells], "apart": room[:, : 2 * cells : 2]}[
        form
    ]


@pytest.mark.parametrize("dtype", DTYPES)
def test_short_rows_beside_one_row_or_cell_give_what_numpy_gives(dtype: str) -> None:
    """Rows around the bounds of what is repeated, on either side, in every order of memory, for every thread count."""
    random = rng("short rows", dtype)
    forms = ("plain", "plain", "gap", "apart", "once")
    for _ in range(60):
        cells = int(random.choice([1, 2, 7, 16, 31, 64, 65, 99, 100, 127, 128, 129]))
        rows = int(random.choice([63, 64, 65, 300, 1000]))
        large = drawn(random, (rows, cells), dtype, str(random.choice(forms)))
        small = drawn(random, (1, cells), dtype, str(random.choice(forms)))
        small = [small, small[0], small[:, :1], np.ascontiguousarray(small[0])][int(random.integers(4))]
        given = (large, small) if random.integers(2) else (small, large)
        out = drawn(random, (rows, cells), dtype, str(random.choice(forms[:4]))).copy(order="K")
        out = out if random.integers(2) else np.full((rows, cells + 5), 77, DTYPES[dtype])[:, :cells]
        wanted = given[0].astype(np.float32) - given[1].astype(np.float32)
        for threads in (1, 2, 5):
            out[...] = 77
            kernels.subtract(*given, out=out, threads=threads)
            assert (out.astype(np.float32) == wanted).all(), (given[0].shape, given[0].strides, given[1].strides)


def test_three_inputs_choose_cell_by_cell_in_short_rows() -> None:
    random = rng("short choices")
    for rows, cells in ((64, 100), (257, 33), (1000, 128), (640, 3)):
        shapes = [(rows, cells), (cells,), (rows, 1), (1, 1)]
        for _ in range(6):
            cond, yes, no = (shapes[int(random.integers(4))] for _ in range(3))
            test = random.integers(0, 2, cond).astype(bool)
            one, other = (random.integers(-8, 9, extents).astype(np.float32) for extents in (yes, no))
            found = kernels.select(test, one, other, threads=2)
            assert (found == np.where(test, one, other)).all()


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_short_rows_of_sums_are_finished_together(dtype: str) -> None:
    random = rng("short rows of sums", dtype)
    for columns in (3, 8, 10, 15):
        a, b, bias = (random.integers(-4, 5, s).astype(DTYPES[dtype]) for s in ((70, 20), (20, columns), (columns,)))
        wanted = a.astype(np.float32) @ b.astype(np.float32) + bias.astype(np.float32)
        for threads in (1, 3):
            found = kernels.mat_mul(a, b, bias, threads=threads)
            assert (found.astype(np.float32) == wanted.astype(DTYPES[dtype]).astype(np.float32)).all(), columns
        assert ("short rows" in str(kernels.explain("mat_mul", a, b, bias))) == (columns >= 8)


def test_rows_have_the_same_bits_alone_and_among_others() -> None:
    """Functions of several short rows are computed by one call, and sums of them divide whole vectors."""
    random = rng("rows alone")
    for cells in (1, 5, 8, 15, 16, 17, 31, 32, 33, 40, 130):
        for divisor in (1.0, 2.0**-60, 2.0**60):  # sums of middle size, and others
            x = (random.standard_normal((37, cells)) + np.log(divisor)).astype(np.float32)
            found = kernels.soft_max(x, axis=1)
            alone = [kernels.soft_max(row[None], axis=1)[0] for row in x]
            assert (found == np.stack(alone)).all(), cells
            logs, least = kernels.log_softmax(x, axis=1), [kernels.log_softmax(row[None], axis=1)[0] for row in x]
            assert (logs == np.stack(least)).all(), cells
            powers = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
            shares = powers / powers.sum(1, keepdims=True)
            assert np.allclose(found, shares, rtol=1e-5), cells
            assert np.allclose(logs, np.log(shares), rtol=1e-5, atol=1e-5), cells


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_what_follows_a_function_of_short_rows_reads_the_rows_again(dtype: str) -> None:
    random = rng("rows that are read again", dtype)
    for cells in (3, 16, 33, 40, 70):
        y, g = (random.standard_normal((21, cells)).astype(DTYPES[dtype]) for _ in range(2))
        found = kernels.log_softmax_backward(g, y, axis=1).astype(np.float64)
        wanted = g.astype(np.float64) - np.exp(y.astype(np.float64)) * g.astype(np.float64).sum(1, keepdims=True)
        np.testing.assert_allclose(found, wanted, rtol=1e-5 if dtype == "f32" else 2e-2, atol=1e-4)


def test_functions_of_short_rows_are_computed_for_several_at_once() -> None:
    for operation, rows in (("soft_max", "shared_0__rows_"), ("log_softmax", "made_0_rows_")):
        text = (Path(kernels.__file__).parent / "c" / f"{operation}_f32.c").read_text()
        assert f"opwright_exp_row_f32({rows}, {rows}, tasks_ * C);" in text
    assert "if (C < 32 || (C < 64 && C % 16 != 0)) {" in text  # rows whose stores in part are read soon


def test_a_function_of_a_row_as_it_stands_reads_the_row_itself() -> None:
    text = (Path(kernels.__file__).parent / "c" / "exp_f32.c").read_text()
    assert "opwright_exp_row_f32(dst_row_, src_row_, n_);" in text
