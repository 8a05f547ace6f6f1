"""Long windows that begin far from each other, and parts of axes: lanes go along their cells, which lie together."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from opwright.derive.phases import staged
from opwright.load import load_texts
from support.draws import FULL, rng
from support.package import package
from support.spec_packages import instruction_set, serving
from support.step_verdicts import first_disagreement

CALLS = 24 if FULL else 8
FRAMES = """op: Frames
revision: 1
summary: How much energy windows have, their peaks, and how far each lies from what its cells are on the average.
dims: {{rows: N, cells: T, windows: F}}
attributes:
  - {{name: hop, symbol: H, type: s64, required: true, min: 1, summary: Cells from one window to the next.}}
inputs:
  - {{name: src, dims: {{N: N, T: T}}}}
outputs:
  - {{name: energy, dims: {{N: N, F: F}}}}
  - {{name: peak, dims: {{N: N, F: F}}}}
  - {{name: apart, dims: {{N: N, F: F}}}}
dtypes:
  - {{src: f32, energy: f32, peak: f32, apart: f32, accumulate: f32}}
  - {{src: bf16, energy: f32, peak: bf16, apart: f32, accumulate: f32}}
  - {{src: s32, energy: f64, peak: s32, apart: f64, accumulate: f64}}
shape: {{F: ceil(T / {hop})}}
semantics:
  ranges: {{n: N, f: F, k: 48}}
  steps:
    - energy[n, f] += src[n, f * {hop} + k - 5] * src[n, f * {hop} + k - 5]
    - peak[n, f] max= src[n, f * {hop} + k]
    - mean[n, f] += src[n, f * {hop} + k] / 48
    - apart[n, f] += abs(src[n, f * {hop} + k] - mean[n, f])
"""


@pytest.mark.parametrize("hop", ["H", "24"])
def test_windows_that_begin_far_from_each_other_have_lanes_along_their_cells(hop: str, tmp_path: Path) -> None:
    library, module = package({"frames.yaml": FRAMES.format(hop=hop)}, tmp_path, f"frames_{hop}")
    (op,) = library.ops
    for isa in serving(module, op):
        with instruction_set(module, isa):
            assert first_disagreement(module, op, rng(isa, hop), CALLS, Counter[str]()) is None
    told = str(module.explain(op.op, np.ones((3, 960), np.float32), hop=24))
    assert "lanes along k: row" in told


DIAGONAL = """op: Diagonal
revision: 1
summary: How much the cells from the diagonal on have, and their peaks.
dims: {rows: N, cells: K}
inputs: [{name: src, dims: {N: N, T: N + K - 1}}]
outputs: [{name: sums, dims: {N: N}}, {name: peak, dims: {N: N}}]
dtypes:
  - {src: f32, sums: f32, peak: f32, accumulate: f32}
semantics:
  ranges: {n: N, k: K}
  steps:
    - sums[n] += src[n, n + k]
    - peak[n] max= src[n, n + k]
"""


def test_windows_in_rows_of_their_own_have_lanes_along_their_cells() -> None:
    (op,) = load_texts({"diagonal.yaml": DIAGONAL}).ops
    assert all("k" in phase.lanes for phase in staged(op).phases)


PARTS = """op: Roughness
revision: 1
summary: How rough rows are, and the greatest cell but for the first one of each.
dims: {rows: N, high: {symbol: H, min: 2}, wide: {symbol: W, min: 2}}
inputs: [{name: src, dims: {N: N, H: H, W: W}}]
outputs: [{name: rough, dims: {N: N}}, {name: peak, dims: {N: N}}]
dtypes:
  - {src: f32, rough: f32, peak: f32, accumulate: f32}
  - {src: bf16, rough: f32, peak: bf16, accumulate: f32}
semantics:
  ranges: {n: N, h: H - 1, w: W - 1}
  steps:
    - rough[n] += abs(src[n, h + 1, w + 1] - src[n, h, w])
    - peak[n] max= src[n, h, w + 1]
"""


def test_parts_of_axes_that_are_reduced_have_lanes_along_them(tmp_path: Path) -> None:
    library, module = package({"parts.yaml": PARTS}, tmp_path, "parts_of_axes")
    (op,) = library.ops
    for isa in serving(module, op):
        with instruction_set(module, isa):
            assert first_disagreement(module, op, rng(isa, "parts"), CALLS, Counter[str]()) is None
    assert "lanes along w: row" in str(module.explain(op.op, np.ones((3, 20, 40), np.float32)))


LAGS = """op: Lags
revision: 1
summary: How much signals have of patterns, at each of the lags at which they fit.
dims: {signals: {symbol: B}, patterns: {symbol: G}, cells: {symbol: K}}
inputs: [{name: src, dims: {B: B, L: K + 20}}, {name: pattern, dims: {G: G, K: K}}]
outputs: [{name: dst, dims: {B: B, G: G, T: 21}}]
dtypes:
  - {src: f32, pattern: f32, dst: f32, accumulate: f32}
  - {src: bf16, pattern: bf16, dst: bf16, accumulate: f32}
semantics:
  ranges: {b: B, g: G, t: 21, k: K}
  steps:
    - dst[b, g, t] += src[b, t + k] * pattern[g, k]
"""


@pytest.mark.parametrize("last", ["t", "g"])
def test_many_windows_of_few_cells_are_rows_that_overlap(last: str, tmp_path: Path) -> None:
    turned = LAGS.replace("dst[b, g, t]", "dst[b, t, g]").replace(
        "dst, dims: {B: B, G: G, T: 21}", "dst, dims: {B: B, T: 21, G: G}"
    )
    library, module = package({"lags.yaml": turned if last == "g" else LAGS}, tmp_path, f"overlapping_lags_{last}")
    (op,) = library.ops
    for isa in serving(module, op):
        with instruction_set(module, isa):
            assert first_disagreement(module, op, rng(isa, "lags"), CALLS, Counter[str]()) is None
    told = str(module.explain(op.op, np.ones((3, 420), np.float32), np.ones((9, 400), np.float32)))
    assert "a contraction for" in told
    assert "copied first: nothing" in told
