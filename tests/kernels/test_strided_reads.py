"""Sums of products whose elements lie apart, as heads of channels do: engines take them by strides of their own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest
from opwright.derive.phases import staged
from support.draws import FULL, rng
from support.package import package
from support.random_strided_reads import draw
from support.step_verdicts import first_disagreement

SPECS, CALLS = (80, 16) if FULL else (4, 8)
# The scores of heads, by two letters of an axis that has more cells than these, and what the heads give, side by side.
HEADS = """op: Heads
revision: 1
summary: Attention of heads whose queries, keys and values share an axis.
dims: {batch: {symbol: N}, tokens: {symbol: T}, channels: {symbol: D}}
attributes:
  - {name: heads, symbol: H, type: s64, required: true, min: 1}
inputs: [{name: x, dims: {N: N, T: T, D: 3 * D}}]
outputs: [{name: dst, dims: {N: N, T: T, D: D}}]
dtypes:
  - {x: f32, dst: f32, accumulate: f32}
  - {x: bf16, dst: bf16, accumulate: f32}
let: {E: D / H}
semantics:
  ranges: {n: N, t: T, u: T, h: H, e: E}
  steps:
    - s[n, h, t, u] += x[n, t, h * E + e] * x[n, u, D + h * E + e] / E
    - p[n, h, t] max= s[n, h, t, u]
    - w[n, h, t, u] = exp(s[n, h, t, u] - p[n, h, t])
    - z[n, h, t] += w[n, h, t, u]
    - dst[n, t, h * E + e] += w[n, h, t, u] * x[n, u, 2 * D + h * E + e] / z[n, h, t]
"""
# A size that two arrays share with others of their own: p ends where the axis of y does.
SHORTER = """op: Shorter
revision: 1
summary: Letters that end where the axes of other arrays do.
dims: {a: {symbol: A}, y: {symbol: Y}, z: {symbol: Z}}
attributes:
  - {name: rows, symbol: M, type: s64, required: true, min: 0, max: 9}
  - {name: planes, symbol: P, type: s64, required: true, min: 0, max: 9}
inputs:
  - {name: x, dims: {M: Z, A: A}}
  - {name: y, dims: {P: Y, A: A}}
outputs: [{name: dst, dims: {P: P, M: M, A: A}}]
dtypes:
  - {x: f32, y: f32, dst: f32, accumulate: f32}
semantics:
  ranges: {a: A, m: M, p: P}
  steps:
    - dst[p, m, a] += x[m, a] * y[p, a]
"""
# Patches that share no cells, whose terms lie in lines of `size` cells: they are copied in blocks of lines.
PATCHES = """op: Patches
revision: 1
summary: What each patch of all channels gives.
dims: {batch: {symbol: N}, channels: {symbol: C}, patches: {symbol: P}, outputs: {symbol: O}}
attributes:
  - {name: size, symbol: T, type: s64, required: true, min: 1}
inputs:
  - {name: x, dims: {N: N, C: C, X: P * T}}
  - {name: w, dims: {O: O, C: C, T: T}}
outputs: [{name: dst, dims: {N: N, P: P, O: O}}]
dtypes:
  - {x: f32, w: f32, dst: f32, accumulate: f32}
  - {x: bf16, w: bf16, dst: f32, accumulate: f32}
semantics:
  ranges: {n: N, c: C, p: P, o: O, t: T}
  steps:
    - dst[n, p, o] += x[n, c, p * T + t] * w[o, c, t]
"""


def test_random_reads_by_strides_give_what_the_interpreter_gives(tmp_path: Path) -> None:
    drawn = [draw(np.random.default_rng([7, number]), f"Read{number}") for number in range(SPECS)]
    texts = {"heads.yaml": HEADS, "shorter.yaml": SHORTER}
    texts |= {f"read{number}.yaml": text for number, text in enumerate(drawn)}
    library, module = package(texts, tmp_path, "strided_reads")
    contracted = 0
    for op in library.ops:
        contracted += any(phase.contraction for phase in staged(op).phases)
        assert first_disagreement(module, op, rng("strided reads", op.function), CALLS, Counter()) is None, op.function
    assert contracted > SPECS // 3  # the others are sums of few products, or end where an axis does


def test_engines_multiply_heads_where_they_lie(tmp_path: Path) -> None:
    module = package({"heads.yaml": HEADS}, tmp_path, "strided_heads")[1]
    x = np.zeros((2, 33, 3 * 64), np.float32)
    told = str(module.explain("heads", x, heads=4))
    assert "2 x 4 x 33 rows, 33 columns, 16 terms" in told
    assert "2 x 4 x 33 rows, 16 columns, 33 terms" in told
    assert "copied first: nothing" in told


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_patches_of_any_size_are_copied_whole(made_patches: ModuleType, dtype: type) -> None:
    random = rng("patches", dtype.__name__)
    for size in (1, 2, 3, 4, 5, 8, 11, 12, 16, 17, 40):
        samples, channels, patches, outputs = (int(random.integers(1, most)) for most in (4, 300 // size + 2, 60, 40))
        x = random.integers(-3, 4, (samples, patches, size, channels)).astype(dtype)  # with the channels last
        x = np.ascontiguousarray(x.transpose(0, 3, 1, 2)) if random.random() < 0.7 else x.transpose(0, 3, 1, 2)
        w = random.integers(-3, 4, (outputs, channels, size)).astype(dtype)
        expected = np.einsum("ncpt,oct->npo", x.astype(np.float32), w.astype(np.float32))
        cells = np.lib.stride_tricks.as_strided(
            x, (samples, channels, patches * size), (x.strides[0], x.strides[1], x.strides[3])
        )
        for threads in (1, 3):
            assert np.array_equal(made_patches.patches(cells, w, size=size, threads=threads), expected), size


@pytest.fixture(scope="module")
def made_patches(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return package({"patches.yaml": PATCHES}, tmp_path_factory.mktemp("patches"), "strided_patches")[1]
