"""Products of floats by bf16 or bytes, which matrix registers of bf16 compute by three parts of each float, or two where sums are
bf16: random calls on every instruction set, held against the interpreter; and cells that are not finite."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest
from opwright.language.library import Library
from opwright.oracle.run_steps import compute_steps
from support.capping import capped_at
from support.draws import FULL
from support.package import package
from support.random_float_factors import Product, draw, inputs

RANDOM = 30 if FULL else 8
CALLS = 12 if FULL else 5
PLAIN = """op: Plain
revision: 1
summary: Products of floats.
dims: {size_m: {symbol: M}, size_k: {symbol: K}, size_n: {symbol: N}}
inputs:
  - {name: one, dims: {MX: M, KX: K}}
  - {name: other, dims: {KX: K, NX: N}}
outputs:
  - {name: dst, dims: {MX: M, NX: N}}
dtypes:
  - {one: f32, other: bf16, dst: f32, accumulate: f32}
semantics:
  ranges: {m: M, k: K, n: N}
  reduce: dst[m, n] += one[m, k] * other[k, n]
"""
Made = tuple[Library, ModuleType, list[Product]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    rng = np.random.default_rng(4)
    drawn = [draw(rng, f"Product{number}") for number in range(RANDOM)]
    texts = {f"{one.op}.yaml": one.text for one in drawn} | {"plain.yaml": PLAIN}
    return *package(texts, tmp_path_factory.mktemp("floats"), "float_factors_package"), drawn


@pytest.fixture(params=["avx2", "avx512_bf16", "amx_bf16"])
def capped(made: Made, request: pytest.FixtureRequest) -> Iterator[str]:
    _ = made[1].plain  # loads the modules of the package
    with capped_at(made[1], request.param) as isa:
        yield isa


def test_floats_keep_all_of_their_bits_beside_narrow_factors(made: Made, capped: str) -> None:
    library, kernels, drawn = made
    for number, one in enumerate(drawn):
        rng = np.random.default_rng([6, number])
        for call in range(CALLS):
            read, _ = one.rows[call % len(one.rows)]
            given = inputs(rng, one, read)
            expected = compute_steps(library.op(one.op), given, {})["dst"]
            found = []
            for threads in (1, 3):
                sys.modules[f"{kernels.__name__}._remember"].CALLS.clear()
                found.append(getattr(kernels, one.function)(*given, threads=threads))
            where = one.text, read, [array.shape for array in given], [array.strides for array in given]
            if capped == "amx_bf16" and expected.dtype == ml_dtypes.bfloat16:
                far = np.abs(found[0].astype(np.float64) - expected.astype(np.float64))
                most = np.abs(expected.astype(np.float64)).max(initial=1)
                assert (far <= np.abs(expected.astype(np.float64)) * 2**-7 + most * 2**-12).all(), where
            else:
                assert (found[0] == expected).all(), where
            assert found[0].tobytes() == found[1].tobytes(), where


@pytest.mark.parametrize("terms", [20, 300, 1100])
def test_cells_that_are_not_finite_are_those_of_floats(made: Made, capped: str, terms: int) -> None:
    kernels = made[1]
    rng = np.random.default_rng(terms)
    one = rng.integers(1, 4, (70, terms)).astype(np.float32)
    other = rng.integers(1, 4, (terms, 65)).astype(ml_dtypes.bfloat16)
    one[3, 5], one[9, 7], one[11, 2], one[40, 0] = np.inf, -np.inf, 0, -1
    one[12, 1:2].view(np.int32)[:] = 0x7F800001  # a NaN with one bit, the last one
    other[2, 6], other[0, 64], other[terms - 1, 33] = np.inf, -np.inf, np.nan
    with np.errstate(all="ignore"):
        expected = one @ other.astype(np.float32)
    np.testing.assert_array_equal(kernels.plain(one, other), expected)


def test_matrix_registers_take_floats_beside_bf16(made: Made) -> None:
    kernels = made[1]
    one, other = np.ones((64, 48), np.float32), np.ones((48, 40), ml_dtypes.bfloat16)
    _ = kernels.plain
    with capped_at(kernels, "amx_bf16"):
        assert "a contraction for amx_bf16: 64 rows, 40 columns, 48 terms" in str(kernels.explain("plain", one, other))
