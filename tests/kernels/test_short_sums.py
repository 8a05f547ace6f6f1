"""Short rows of sums are finished as one long row, where they follow one another in memory."""

from __future__ import annotations

import itertools
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.capping import capped_at, here
from support.draws import rng
from support.package import package
from support.rulings import DTYPES

LINES = """op: FinishedLines
revision: 1
summary: Products with one row for all of theirs, one cell for each matrix, and another array beside them.
dims: {batch: {symbol: B}, rows: {symbol: R}, terms: {symbol: K}, columns: {symbol: M}}
inputs:
  - {name: src, dims: {B: B, R: R, K: K}}
  - {name: weights, dims: {M: M, K: K}}
  - {name: bias, dims: {M: M}}
  - {name: scale, dims: {B: B}}
  - {name: other, dims: {B: B, R: R, M: M}}
outputs:
  - {name: dst, dims: {B: B, R: R, M: M}}
dtypes:
  - {src: f32, weights: f32, bias: f32, scale: f32, other: f32, dst: f32, accumulate: f32}
  - {src: bf16, weights: bf16, bias: bf16, scale: bf16, other: bf16, dst: bf16, accumulate: f32}
  - {src: f16, weights: f16, bias: f16, scale: f16, other: f16, dst: f16, accumulate: f32}
semantics:
  ranges: {b: B, r: R, m: M, k: K}
  steps:
    - sums[b, r, m] += src[b, r, k] * weights[m, k]
    - dst[b, r, m] = max(sums[b, r, m] + bias[m], scale[b]) - other[b, r, m]
"""
IMAGES = """op: FinishedImages
revision: 1
summary: A convolution with one row for all places, whose channels lie last.
spatial_rank: {min: 1, max: 3}
dims:
  batch: {symbol: N}
  in_channels: {symbol: C}
  out_channels: {symbol: M}
  src_spatial: {symbol: I, per_axis: true}
  taps: {symbol: K, per_axis: true, min: 1}
  dst_spatial: {symbol: O, per_axis: true}
inputs:
  - {name: src, dims: {N: N, X: I, C: C}}
  - {name: weights, dims: {M: M, C: C, X: K}}
  - {name: bias, dims: {M: M}}
outputs:
  - {name: dst, dims: {N: N, X: O, M: M}}
dtypes:
  - {src: f32, weights: f32, bias: f32, dst: f32, accumulate: f32}
  - {src: bf16, weights: bf16, bias: bf16, dst: bf16, accumulate: f32}
shape: {O: I - K + 1}
semantics:
  ranges: {n: N, m: M, x: O, c: C, k: K}
  steps:
    - sums[n, x, m] += src[n, x + k, c] * weights[m, c, k]
    - dst[n, x, m] = max(sums[n, x, m] + bias[m], 0)
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    texts = {"finished_lines.yaml": LINES, "finished_images.yaml": IMAGES}
    return package(texts, tmp_path_factory.mktemp("short_sums"), "short_sums_package")[1]


def drawn(random: np.random.Generator, extents: tuple[int, ...], dtype: str, gap: int) -> Any:
    """Small integers, the last axis without gaps, with some after each row, or between cells."""
    room = random.integers(-3, 4, (*extents[:-1], 2 * extents[-1] + 3)).astype(DTYPES[dtype])
    found = room[..., : extents[-1]] if gap < 2 else room[..., : 2 * extents[-1] : 2]
    return found if gap else np.ascontiguousarray(found)


def gaps(random: np.random.Generator, count: int) -> list[int]:
    """Mostly none."""
    return [int(random.integers(3)) if random.integers(4) == 0 else 0 for _ in range(count)]


@pytest.mark.parametrize("isa", ["portable", "avx2", "avx512", "avx512_bf16"])
def test_short_rows_of_sums_are_finished_exactly(kernels: ModuleType, isa: str) -> None:
    """Rows around the bounds of those that are one, few of them or many, with and without gaps, for all threads."""
    _ = kernels.finished_lines
    if isa not in here(kernels, isa):
        pytest.skip(f"this CPU lacks {isa}")
    random = rng("short sums", isa)
    with capped_at(kernels, isa):
        for number, dtype in itertools.product(range(24), ("f32", "bf16", "f16")):
            columns = int(random.choice([1, 2, 7, 16, 31, 64, 65, 100, 127, 128, 129]))
            batch, rows = int(random.choice([1, 1, 2, 3])), int(random.choice([1, 2, 3, 15, 64, 113, 300]))
            terms = int(random.choice([1, 3, 16, 40]))
            shapes = [(batch, rows, terms), (columns, terms), (columns,), (batch,), (batch, rows, columns)]
            around = gaps(random, 6)
            given = [drawn(random, one, dtype, gap) for one, gap in zip(shapes, around, strict=False)]
            src, weights, bias, scale, other = (one.astype(np.float32) for one in given)
            wanted = np.maximum(src @ weights.T + bias, scale[:, None, None]) - other
            for threads in (1, 3):
                out = drawn(random, shapes[-1], dtype, around[-1])
                kernels.finished_lines(*given, out=out, threads=threads)
                assert (out.astype(np.float32) == wanted).all(), (dtype, number, shapes, around, threads)


@pytest.mark.parametrize("isa", ["portable", "avx2", "avx512", "avx512_bf16"])
def test_places_of_an_image_are_finished_exactly(kernels: ModuleType, isa: str) -> None:
    """One to three axes of places, one tap or more, whose rows follow one another or not."""
    _ = kernels.finished_images
    if isa not in here(kernels, isa):
        pytest.skip(f"this CPU lacks {isa}")
    random = rng("short images", isa)
    with capped_at(kernels, isa):
        for number, dtype in itertools.product(range(18), ("f32", "bf16")):
            columns, rank = int(random.choice([1, 3, 16, 48, 64, 100, 128, 130])), int(random.integers(1, 4))
            batch, channels, taps = (int(random.choice(some)) for some in ([1, 2, 3], [1, 5, 16], [1, 1, 2]))
            axes = tuple(int(random.integers(taps, (40, 12, 6)[rank - 1])) for _ in range(rank))
            shapes = [(batch, *axes, channels), (columns, channels, *[taps] * rank), (columns,)]
            around = gaps(random, 4)
            given = [drawn(random, one, dtype, gap) for one, gap in zip(shapes, around, strict=False)]
            src, weights, bias = (one.astype(np.float32) for one in given)
            windows = np.lib.stride_tricks.sliding_window_view(src, (taps,) * rank, tuple(range(1, rank + 1)))
            summed = tuple(range(rank + 1, 2 * rank + 2))
            wanted = np.maximum(np.tensordot(windows, weights, (summed, tuple(range(1, rank + 2)))) + bias, 0)
            for threads in (1, 3):
                out = drawn(random, wanted.shape, dtype, around[-1])
                kernels.finished_images(*given, out=out, threads=threads)
                assert (out.astype(np.float32) == wanted).all(), (dtype, number, shapes, around, threads)
