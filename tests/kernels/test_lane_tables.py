"""Quotients of the letter that lanes run along, which a task keeps in tables: each task has those of its own letters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
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
