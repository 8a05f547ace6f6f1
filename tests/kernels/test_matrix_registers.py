"""Products by matrix registers, which are emulated on a CPU without them: random calls with tiles that are partly filled."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support import random_contractions
from support.capping import capped_at
from support.draws import FULL, rng
from support.package import package

SUPPORT = Path(__file__).parents[1] / "support"
BF16, F32 = ml_dtypes.bfloat16, np.float32
FLOATS = ((BF16, BF16, "bf16"), (BF16, BF16, "f32"), (F32, BF16, "f32"), (F32, BF16, "bf16"))
BYTES = tuple((left, right, "f32") for left in (np.int8, np.uint8) for right in (np.int8, np.uint8))
ROWS = {"bf16": FLOATS, "int8": BYTES}
NAMES = {BF16: "bf16", F32: "f32", np.int8: "s8", np.uint8: "u8"}
DTYPES = "\n".join(
    f"  - {{one: {NAMES[one]}, other: {NAMES[other]}, dst: {dst}, accumulate: f32}}"
    for one, other, dst in (*FLOATS, *BYTES)
)
PRODUCT = f"""op: Product
revision: 1
summary: Products of matrices.
dims: {{batch: {{symbol: B}}, rows: {{symbol: M}}, terms: {{symbol: K}}, columns: {{symbol: N}}}}
attributes:
  - {{name: made, type: string, values: [f32, bf16], dtype_of: dst, summary: The data type of the sums.}}
inputs: [{{name: one, dims: {{B: B, M: M, K: K}}}}, {{name: other, dims: {{B: B, K: K, N: N}}}}]
outputs: [{{name: dst, dims: {{B: B, M: M, N: N}}}}]
dtypes:
{DTYPES}
semantics:
  ranges: {{b: B, m: M, n: N, k: K}}
  steps: ["dst[b, m, n] += one[b, m, k] * other[b, k, n]"]
"""
EDGES = (1, 2, 3, 15, 16, 17, 31, 32, 33, 48, 63, 65, 100)
TERMS = (
    *EDGES,
    127,
    255,
    256,
    257,
    290,
    520,
    1023,
    1030,
    2050,
    2600,
)  # beyond a part, a chunk, and all that one product keeps


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    module = package({"product.yaml": PRODUCT}, tmp_path_factory.mktemp("registers"), "registers_package")[1]
    _ = module.product
    return module


def extents(random: np.random.Generator) -> tuple[int, int, int, int]:
    """Batches, rows, terms and columns of a product that the emulation computes fast enough."""
    while True:
        batch, rows, terms, columns = (int(random.choice(some)) for some in ((1, 1, 1, 5), EDGES, TERMS, EDGES))
        rows *= int(random.choice((1, 1, 1, 1, 9)))
        if batch * rows * terms * columns < 6_000_000:
            return batch, rows, terms, columns


def sums(kernels: ModuleType, one: Any, other: Any, made: str) -> np.ndarray:
    """The product on one thread, whose bits are those of two."""
    found = []
    for threads in (1, 2):
        sys.modules[f"{kernels.__name__}._remember"].CALLS.clear()
        found.append(kernels.product(one, other, made=made, threads=threads))
    assert found[0].tobytes() == found[1].tobytes()
    return np.asarray(found[0])


@pytest.mark.parametrize("registers", ["bf16", "int8"])
def test_random_products_are_exact_and_of_the_same_bits_with_two_threads(kernels: ModuleType, registers: str) -> None:
    random = rng("matrix registers", registers)
    with capped_at(kernels, f"amx_{registers}") as isa:
        for left, right, made in ROWS[registers]:
            explained = kernels.explain("product", np.ones((1, 40, 40), left), np.ones((1, 40, 40), right), made=made)
            assert f"a contraction for {isa}" in str(explained)
        for number in range(400 if FULL else 60):
            batch, rows, terms, columns = extents(random)
            left, right, made = ROWS[registers][number % 4]
            shapes = (batch, rows, terms), (batch, terms, columns)
            one, other = (
                random_contractions.viewed(random, random.integers(*limits(dtype), shape).astype(dtype))
                for shape, dtype in zip(shapes, (left, right))
            )
            call = number, NAMES[left], NAMES[right], made, one.shape, one.strides, other.shape, other.strides
            found = sums(kernels, one, other, made)
            wanted = one.astype(np.float64) @ other.astype(np.float64)
            assert (found == wanted.astype(found.dtype)).all(), call
            if registers == "bf16":
                one, other = (random.normal(size=array.shape).astype(array.dtype) for array in (one, other))
                sums(kernels, one, other, made)


def limits(dtype: Any) -> tuple[int, int]:
    return (np.iinfo(dtype).min, np.iinfo(dtype).max + 1) if np.issubdtype(dtype, np.integer) else (-2, 3)


# What the manual refuses, as the emulation names it.
MISUSED = {
    "shapes.palette = 2": "ldtilecfg where shapes.palette > 1",
    "shapes.start_row = 1": "ldtilecfg where shapes.start_row != 0",
    "shapes.rows[1] = 17": "ldtilecfg where shapes.rows[t] > EMU_TILE_ROWS",
    "shapes.row_bytes[1] = 65": "ldtilecfg where shapes.row_bytes[t] > EMU_ROW_BYTES",
    "shapes.rows[1] = 0": "ldtilecfg where (shapes.rows[t] == 0) != (shapes.row_bytes[t] == 0)",
    "shapes.rows[8] = shapes.row_bytes[8] = 1": "ldtilecfg where t >= EMU_TILES",
    "shapes.rows[0] = shapes.row_bytes[0] = 0": "tilezero where !emu_shaped(t)",
    "shapes.palette = 0": "tilezero where !emu_shaped(t)",
    "shapes.rows[0] = 4": "tdpbf16ps where s->rows[sum] != s->rows[left]",
    "shapes.row_bytes[0] = 8": "tdpbf16ps where s->row_bytes[sum] != s->row_bytes[right]",
    "shapes.rows[6] = 4": "tdpbf16ps where s->row_bytes[left] != 4 * s->rows[right]",
    "shapes.reserved[0] = 1": "ldtilecfg where memcmp(shapes.reserved",
    "": "",
}
PROGRAM = """
int main(int count, char **given) {
    static const char cells[1024];
    char sums[1024];
    emu_shapes shapes = {.palette = 1};
    for (int t = 0; t < 8; t++)
        shapes.rows[t] = 3, shapes.row_bytes[t] = 12;
    switch (count > 1 ? atoi(given[1]) : 0) {
%s
    }
    AMX_SHAPE(shapes);
    AMX_CLEAR(0);
    AMX_LOAD(4, cells, 64);
    AMX_LOAD(6, cells, 64);
    AMX_PRODUCT(tdpbf16ps, 0, 4, 6);
    AMX_STORE(0, sums, 64);
    return 0;
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_the_emulation_names_the_misuse_that_it_refuses(tmp_path: Path) -> None:
    cases = "\n".join(f"    case {number}: {what}; break;" for number, what in enumerate(MISUSED))
    program = tmp_path / "misused"
    command = ["gcc", "-mamx-tile", "-mamx-bf16", "-mavx2", "-mfma", "-include", str(SUPPORT / "emulated_amx.h")]
    source = tmp_path / "misused.c"
    source.write_text(PROGRAM % cases)
    subprocess.run([*command, str(source), "-o", str(program)], check=True)
    for number, words in enumerate(MISUSED.values()):
        done = subprocess.run([program, str(number)], capture_output=True, text=True, check=False)
        assert words in done.stderr, number
        assert (done.returncode == 0) == (not words), number
