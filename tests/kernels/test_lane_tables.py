"""Quotients of the letter that lanes run along, which a task keeps in tables: each task has those of its own letters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import opwright_kernels as ok
import pytest
from support.package import package
from support.spec_packages import instruction_set, usable

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


def test_gradients_go_to_their_places_in_rows_shorter_and_longer_than_a_table() -> None:
    torch = pytest.importorskip("torch")
    for cells, wanted in ((3, 1), (1, 4), (7, 511), (5, 513), (40, 1100), (1100, 40)):
        for layout, axes in (("NCX", (0, 1, 2, 3)), ("NXC", (0, 2, 3, 1))):
            given = torch.randn((2, 3, 5, wanted), generator=torch.manual_seed(wanted))
            diff_dst = np.ascontiguousarray(given.numpy().transpose(axes))
            src = np.empty((2, 3, 4, cells), np.float32).transpose(axes)
            attributes = {"mode": "bilinear", "extents": [5, wanted], "data_format": layout}
            one, three = (ok.interpolate_backward(src, diff_dst, **attributes, threads=n) for n in (1, 3))
            backward = torch.ops.aten.upsample_bilinear2d_backward
            expected = backward(given, [5, wanted], [2, 3, 4, cells], False).numpy().transpose(axes)
            assert np.array_equal(one, three), (layout, cells, wanted)
            assert np.allclose(one, expected, rtol=1e-4, atol=1e-4), (layout, cells, wanted)
