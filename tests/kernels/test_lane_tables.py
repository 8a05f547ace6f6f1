"""Quotients of the letter that lanes run along, which a task keeps in tables: each task has those of its own letters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import opwright_kernels as ok
from support.package import package
from support.spec_packages import instruction_set, quick_compiler, usable

CHECKERBOARD = """op: Checkerboard
revision: 1
summary: Every other cell, and every third of a run.
dims: {samples: N, height: H, width: W, rest: {symbol: X, run: true}}
inputs:
  - {name: src, dims: {N: N, H: H, W: W}}
  - {name: tail, dims: {X: X}}
outputs:
  - {name: dst, dims: {N: N, H: H, W: W}}
  - {name: thirds, dims: {N: N, H: H, X: X}}
dtypes:
  - {src: f32, tail: f32, dst: f32, thirds: f32, accumulate: f32}
semantics:
  ranges: {n: N, h: H, w: W, x: X}
  steps:
    - dst[n, h, w] = select((n + h + w) % 2 == 0, src[n, h, w], 0)
    - thirds[n, h, x] = select((n + h + number(x)) % 3 == 0, tail[x], 0)
"""


def test_a_board_alternates_along_all_of_its_axes(tmp_path: Path) -> None:
    n, h, w = np.ogrid[:3, :4, :70]
    src, row = np.ones((3, 4, 70), np.float32), np.arange(1, 19, dtype=np.float32).reshape(2, 9)[:, ::-1]
    thirds = np.where((n + h + np.arange(18)) % 3 == 0, row.reshape(18), 0).reshape(3, 4, 2, 9)
    with quick_compiler(tmp_path):
        _, module = package({"checkerboard.yaml": CHECKERBOARD}, tmp_path, "lane_tables")
        for isa in {usable(module)[0], "portable"}:
            with instruction_set(module, isa):
                for threads in (1, 3):
                    found = module.checkerboard(src, row, threads=threads)
                    assert np.array_equal(found[0], (n + h + w) % 2 == 0), isa
                    assert np.array_equal(found[1], thirds), isa


WINDOWS = """op: EvenWindows
revision: 1
summary: Sums over windows that cover a row for any number of them.
dims: {row: I}
attributes:
  - {name: count, symbol: O, type: s64, required: true, min: 1}
inputs:
  - {name: src, dims: {I: I}}
outputs:
  - {name: dst, dims: {O: O}}
dtypes:
  - {src: f32, dst: f32, accumulate: f32}
semantics:
  ranges: {i: I, o: O}
  steps:
    - do: cells[o] += 1
      where: [i >= floor(o * I / O), i < ceil((o + 1) * I / O)]
    - dst[o] += cells[o] * src[i]
"""


def test_a_quotient_of_the_next_lane_has_an_entry_for_the_last_lane_of_a_task(tmp_path: Path) -> None:
    with quick_compiler(tmp_path):
        _, module = package({"even_windows.yaml": WINDOWS}, tmp_path, "next_lanes")
        for row, count in [(1, 4), (5, 4), (9, 70), (70, 9)]:
            ends = np.arange(count + 1) * row
            cells = -(-ends[1:] // count) - ends[:-1] // count
            for isa in {usable(module)[0], "portable"}:
                with instruction_set(module, isa):
                    found = module.even_windows(np.ones(row, np.float32), count=count)
                    assert np.array_equal(found, cells * row), (isa, row, count)


def test_a_row_is_read_at_any_places_near_and_far() -> None:
    for cells in (1, 2, 7, 16, 17, 33, 300):
        src = np.random.default_rng(cells).standard_normal((2, 3, cells), np.float32)
        for wanted in (15, 16, 40, 200):
            found = ok.interpolate(src, mode="nearest", extents=[wanted], data_format="NCX", threads=1)
            places = np.clip((np.arange(wanted) + 0.5) * cells / wanted - 0.5, 0, cells - 1)
            nearest = (found[0, 0][:, None] == src[0, 0]).argmax(1)
            assert (abs(nearest - places) <= 0.5).all(), (cells, wanted)
            assert np.array_equal(found, src[..., nearest]), (cells, wanted)
