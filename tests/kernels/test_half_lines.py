"""Rows of f16 that are widened, computed and narrowed a line at a time, limits that are constants, and conditions of two rows."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest
from support.package import package

HEAD = """
op: {name}
revision: 1
summary: A value of two arrays and a vector.
dims:
  rows: {{symbol: B}}
  cells: {{symbol: C}}
inputs:
  - {{name: x, dims: {{X: B, Y: C}}, summary: One.}}
  - {{name: z, dims: {{X: B, Y: C}}, summary: Another.}}
  - {{name: w, dims: {{X: B}}, summary: A number for each row.}}
outputs: [{{name: y, dims: {{X: B, Y: C}}, summary: The values.}}]
dtypes:
  - {{x: f16, z: f16, w: f16, y: {made}, accumulate: f32}}
  - {{x: bf16, z: bf16, w: f32, y: {other}, accumulate: f32}}
  - {{x: f16, z: u8, w: f32, y: {made}, accumulate: f32}}
semantics:
  ranges: {{b: B, c: C}}
  steps:
    - y[b, c] = {value}
"""
LIMITED = HEAD.format(name="Limited", made="f16", other="bf16", value="min(max(x[b, c] * w[b], -2), 3) + z[b, c]")
BOTH = HEAD.format(name="Both", made="boolean", other="boolean", value="x[b, c] > 0 and z[b, c] > 0 or x[b, c] < w[b]")
BF16 = np.dtype(ml_dtypes.bfloat16)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    folder = Path(tmp_path_factory.mktemp("half_lines"))
    return package({"limited.yaml": LIMITED, "both.yaml": BOTH}, folder, "half_lines_package")[1]


def arrays(kind: np.dtype, other: np.dtype, number: np.dtype, cells: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(cells)
    x = (random.standard_normal((6, cells)) * 4).astype(kind)
    x.flat[:: 7 + cells // 3] = np.nan
    x.flat[1 :: 11 + cells // 3] = -np.inf
    z = random.integers(-9 if other.itemsize > 1 else 0, 9, (6, cells)).astype(other)
    return x, z, random.standard_normal(6).astype(number)


KINDS = [(np.float16, np.float16, np.float16), (BF16, BF16, np.float32), (np.float16, np.uint8, np.float32)]


@pytest.mark.parametrize("kinds", KINDS, ids=["f16", "bf16", "f16_u8"])
def test_rows_of_any_length_and_stride_have_the_values_of_single_cells(
    built: ModuleType, kinds: tuple, isa: str
) -> None:
    for cells in (0, 1, 7, 8, 31, 32, 50, 64, 197, 513, 1100):
        x, z, w = arrays(*map(np.dtype, kinds), cells)
        for a, b in ((x, z), (x[:, ::-1], z[::2].repeat(2, 0)), (np.asfortranarray(x), z), (x[:, ::3], z[:, ::3])):
            wide, other, by = a.astype(np.float32), b.astype(np.float32), w.astype(np.float32)[:, None]
            with np.errstate(invalid="ignore"):
                product = wide * by
                limited = np.where(np.isnan(product), product, np.clip(product, np.float32(-2), np.float32(3)))
                expected = (limited + other).astype(x.dtype)
                both = ((wide > 0) & (other > 0)) | (wide < by)
            for threads in (1, 2):
                found = built.limited(a, b, w, threads=threads)
                assert np.array_equal(found.astype(np.float32), expected.astype(np.float32), equal_nan=True), cells
                assert np.array_equal(built.both(a, b, w, threads=threads).astype(bool), both), cells
