"""Rows of f32 that are stored as bf16: the bits of each cell alone, whatever its neighbours are and however rows end."""

from __future__ import annotations

import ctypes
from pathlib import Path

import ml_dtypes
import numpy as np
import opwright_kernels as kernels
import pytest
from opwright.derive.variants import ISAS
from opwright_kernels._isa import cpu_flags
from support.compilers import compile_with

INCLUDE = Path(kernels.__file__).parent / "include"
HARNESS = """
#include "opwright_rows.h"
void lines(const float *from, uint16_t *to, int64_t n)
{
    for (int64_t i = 0; i < n; i += 32) {
        opwright_put_line_bf16(to + i, from + i, 0);
    }
}
void wide(const float *from, uint16_t *to, int64_t step, int64_t n, int64_t rows)
{
    opwright_put_wide_bf16(from, to, step, n, rows);
}
"""
SETS = {isa.name: isa for isa in ISAS if isa.name in ("portable", "avx2", "avx512")}
MARK = 0x1234


@pytest.fixture(scope="module", params=[(name, cc) for name in SETS for cc in ("gcc", "clang")], ids="-".join)
def rows(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    name, compiler = request.param
    if not {*SETS[name].needs} <= {*cpu_flags()}:
        pytest.skip(f"the CPU has no {name}")
    folder: Path = tmp_path_factory.mktemp("narrowed")
    source, library = folder / "harness.c", folder / "harness.so"
    source.write_text(HARNESS)
    flags = ("-std=c11", "-O3", "-ffp-contract=off", *SETS[name].flags, f"-I{INCLUDE}")
    compile_with(compiler, *flags, "-shared", "-fPIC", source, "-o", library, "-lm")
    return ctypes.CDLL(str(library))


def called(function: ctypes._NamedFuncPointer, values: np.ndarray, to: np.ndarray, *numbers: int) -> None:
    function(ctypes.c_void_p(values.ctypes.data), ctypes.c_void_p(to.ctypes.data), *map(ctypes.c_int64, numbers))


def narrowed(values: np.ndarray) -> np.ndarray:
    """The bits of bf16; of a NaN the first ones, made quiet."""
    bits = values.view(np.uint32)
    with np.errstate(all="ignore"):
        numbers = values.astype(ml_dtypes.bfloat16).view(np.uint16)
    return np.where(np.isnan(values), ((bits | 0x400000) >> 16).astype(np.uint16), numbers)


def patterns() -> np.ndarray:
    """Every first half of a float with second halves about a tie: in order, so that lines are alike, and mixed."""
    ends = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    found = ((np.arange(2**16, dtype=np.uint32) << 16)[None, :] | ends[:, None]).ravel()
    return np.concatenate([found, np.random.default_rng(5).permutation(found)]).view(np.float32)


def test_every_cell_of_a_line_has_the_bits_of_its_own_value(rows: ctypes.CDLL) -> None:
    values = patterns()
    found = np.full(values.size, MARK, np.uint16)
    called(rows.lines, values, found, values.size)
    assert np.array_equal(found, narrowed(values))


@pytest.mark.parametrize("rows_of_output", [1, 1 << 24])  # the output is small, or goes past the caches
@pytest.mark.parametrize("step", [1, 2, 3, -1, 5])
def test_rows_go_to_cells_apart(rows: ctypes.CDLL, step: int, rows_of_output: int) -> None:
    values = patterns()[-512:].copy()
    for n in (*range(35), 63, 64, 480, 500, 512):
        for first in (0, 1):
            room = np.full(4096, MARK, np.uint16)
            aligned = room[(-room.ctypes.data % 64) // 2 + 32 + first + (511 if step < 0 else 0) :]
            called(rows.wide, values, aligned, step, n, rows_of_output)
            begin = (aligned.ctypes.data - room.ctypes.data) // 2
            wanted = np.full(4096, MARK, np.uint16)
            wanted[begin + step * np.arange(n)] = narrowed(values[:n])
            assert np.array_equal(room, wanted), (n, first)
