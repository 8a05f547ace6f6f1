"""Outputs past the caches: which rows are stored so, and that nothing but the output is written."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import opwright_kernels as kernels
import pytest
from opwright_kernels._isa import cpu_flags

INCLUDE = Path(kernels.__file__).parent / "include"
CELLS = 4 << 20  # 16 MB of f32

PLACES = """\
#include <stdio.h>
#include "opwright_rows.h"
static _Alignas(64) float cells[1024], room[512];
static char place(int64_t first, int64_t step, int64_t n, int64_t rows)
{
    const float *const row = opwright_place_f32(cells + first, step, n, rows, room);
    return row == room ? 'r' : row == cells + first ? 'c' : '?';
}
static char past(int64_t first, int64_t step, int64_t n, int64_t rows)
{
    return opwright_past(cells + first, step, n * 4, rows) ? 'p' : 'c';
}
int main(void)
{
    int64_t bytes = 1 << 20;
    while (!opwright_streams(bytes)) {
        bytes *= 2;
    }
    const int64_t many = bytes / (512 * 4);
    printf("%d\\n", (int)(bytes >> 20));
    printf("%c%c%c%c%c%c%c\\n", place(0, 1, 512, many), place(16, 1, 512, many), place(1, 1, 512, many),
        place(0, 1, 511, many), place(0, 1, 512, many - 1), place(0, 1, 1024, many), place(0, 2, 512, 1));
    printf("%c%c%c%c%c%c%c\\n", past(0, 1, 512, many), past(16, 1, 512, many), past(1, 1, 512, many),
        past(0, 1, 511, many), past(0, 1, 512, many - 1), past(0, 1, 1024, many), past(0, 2, 512, many));
    return 0;
}
"""


@pytest.mark.skipif("avx2" not in cpu_flags(), reason="the CPU has no AVX2, whose stores go past the caches")
def test_whole_lines_of_large_outputs_go_past_the_caches_and_all_others_do_not(tmp_path: Path) -> None:
    """Of whole lines that begin at a line, in 4 MB of a server of Intel or 8 MB at least; in room, if there are no more
    cells than it has."""
    (tmp_path / "places.c").write_text(PLACES)
    program = tmp_path / "places"
    flags = ["-std=c11", "-mavx2", "-mfma", "-mf16c", f"-I{INCLUDE}", "-lm"]
    subprocess.run(["gcc", str(tmp_path / "places.c"), "-o", str(program), *flags], check=True)
    megabytes = 4 if "GenuineIntel" in Path("/proc/cpuinfo").read_text() and "avx512f" in cpu_flags() else 8
    told = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert told == f"{megabytes}\nrrccccr\nppcccpc\n"


@pytest.mark.parametrize(("shape", "first"), [((CELLS,), 0), ((CELLS,), 1), ((2049, 2051), 0), ((2**17 + 1, 33), 0)])
@pytest.mark.parametrize("threads", [1, 2])
def test_large_outputs_are_right_wherever_they_begin(shape: tuple[int, ...], first: int, threads: int) -> None:
    """Rows of whole lines and others, beside which nothing is written; in place, too."""
    size = int(np.prod(shape))
    src = np.random.default_rng(5).standard_normal(size + 1, np.float32)
    a, b = src[:size].reshape(shape), src[1:].reshape(shape)
    room = np.full(size + 64, 77, np.float32)
    begin = (-room.ctypes.data % 64) // 4 + first + 16
    out = room[begin : begin + size].reshape(shape)
    for _ in range(2):
        kernels.add(a, b, out=out, threads=threads)
        assert np.array_equal(out, a + b)
        assert np.array_equal(kernels.relu(out, out=out, threads=threads), np.maximum(a + b, 0))
    assert (room[:begin] == 77).all()
    assert (room[begin + size :] == 77).all()


@pytest.mark.parametrize("first", [0, 3])
def test_large_outputs_of_f16_are_right_wherever_they_begin(first: int) -> None:
    """Of 16 MB and a few cells: f32 that are narrowed on their way past the caches."""
    size = (8 << 20) + 7
    src = np.random.default_rng(6).standard_normal(size, np.float32)
    room = np.full(size + 96, 77, np.float16)
    begin = (-room.ctypes.data % 64) // 2 + first + 32
    out = room[begin : begin + size]
    kernels.type_cast(src, dtype="f16", out=out, threads=2)
    assert np.array_equal(out, src.astype(np.float16))
    assert (room[:begin] == 77).all()
    assert (room[begin + size :] == 77).all()
