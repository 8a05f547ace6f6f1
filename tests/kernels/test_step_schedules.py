"""How steps are scheduled changes no value: tiles of lanes, two letters made one, tables of quotients, long sums."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import ml_dtypes
import numpy as np
import opwright_kernels as kernels
import pytest
from support import functions
from support.package import package

GROUPED = """
op: Grouped
revision: 1
summary: The greatest number of every group of channels, and how far its cells lie below.
dims:
  batch: {symbol: N}
  channels: {symbol: C}
  groups: {symbol: G}
  space: {symbol: X}
attributes:
  - {name: groups, symbol: Q, type: s64, required: true, min: 1, summary: How many groups there are.}
  - {name: order, type: string, required: true, values: [NCX, NXC], summary: The order of axes.}
layouts:
  order: {NCX: [N, C, X], NXC: [N, X, C]}
inputs:
  - {name: src, layout: order, dims: {N: N, C: C, X: X}, summary: The numbers.}
  - {name: bias, dims: {G: G}, summary: Added to each group.}
outputs:
  - {name: below, layout: order, dims: {N: N, C: C, X: X}, summary: How far each cell lies below.}
  - {name: mass, dims: {N: N, G: G}, summary: The product of what each group has above it.}
dtypes:
  - {src: f32, bias: f32, below: f32, mass: f32, accumulate: f32}
constraints:
  - {id: groups-fit, expr: G == Q, say: bias has an entry for each group, argument: bias}
semantics:
  ranges: {n: N, g: G, k: C / G, x: X}
  steps:
    - peak[n, g] max= src[n, g * (C / G) + k, x]
    - total[n, g] += src[n, g * (C / G) + k, x] * src[n, g * (C / G) + k, x] + bias[g]
    - below[n, g * (C / G) + k, x] = peak[n, g] - src[n, g * (C / G) + k, x] + bias[g]
    - mass[n, g] = total[n, g]
"""

CAUSAL = """
op: Causal
revision: 1
summary: A causal filter of each channel, its sigmoid, and a linear layer.
dims:
  batch: {symbol: B}
  time: {symbol: T}
  channels: {symbol: C}
  features: {symbol: E}
inputs:
  - {name: x, dims: {B: B, T: T, C: C}, summary: The numbers.}
  - {name: w, dims: {C: C, K: 4}, summary: The filters.}
  - {name: p, dims: {E: E, C: C}, summary: The layer.}
outputs:
  - {name: y, dims: {B: B, T: T, E: E}, summary: The results.}
dtypes:
  - {x: f32, w: f32, p: f32, y: f32, accumulate: f32}
semantics:
  ranges: {b: B, t: T, c: C, k: 4, e: E}
  steps:
    - d[b, t, c] += x[b, t + k - 3, c] * w[c, k]
    - y[b, t, e] += d[b, t, c] / (1 + exp(-d[b, t, c])) * p[e, c]
"""

BLOCKED = """op: Blocked
revision: 1
summary: Blocks of 16 channels as planes.
dims: {batch: N, blocks: B, cells: P}
inputs: [{name: x, dims: {N: N, B: B, P: P, K: 16}}]
outputs: [{name: y, dims: {N: N, C: B * 16, P: P}}]
dtypes: [{x: f32, y: f32, accumulate: f32}]
semantics:
  ranges: {n: N, b: B, p: P, k: 16}
  steps: ["y[n, b * 16 + k, p] = x[n, b, p, k]"]
"""


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    folder = tmp_path_factory.mktemp("grouped")
    yield package({"grouped.yaml": GROUPED}, folder, "grouped_package")[1]


def drawn(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.standard_normal(shape).astype(np.float32)


def test_letters_of_groups_give_the_same_whichever_axis_is_contiguous(grouped: ModuleType) -> None:
    random = np.random.default_rng(3)
    for n, groups, each, x in ((2, 3, 5, 7), (1, 4, 16, 33), (3, 1, 40, 2), (2, 70, 1, 5), (1, 8, 9, 1), (2, 2, 3, 0)):
        src, bias = drawn(random, n, groups * each, x), drawn(random, groups)
        cells = src.reshape(n, groups, each, x).astype(np.float64)
        peak = cells.max((2, 3), initial=-np.inf)
        below = (peak[:, :, None, None] - cells + bias[:, None, None]).reshape(src.shape)
        mass = (cells * cells + bias[:, None, None]).sum((2, 3))
        for order, given in (("NCX", src), ("NXC", np.ascontiguousarray(src.swapaxes(1, 2)))):
            found = [grouped.grouped(given, bias, groups=groups, order=order, threads=t) for t in (1, 2, 3)]
            for low, total in found:
                assert np.allclose(low if order == "NCX" else low.swapaxes(1, 2), below, rtol=1e-5, atol=1e-5)
                assert np.allclose(total, mass, rtol=1e-5, atol=1e-4)
                assert (low.tobytes(), total.tobytes()) == tuple(one.tobytes() for one in found[0])


FEW, FOLDED = 32, 16  # fewer lanes are summed over so many rows that follow one another in another order


@pytest.mark.parametrize("lanes", [1, 33, 97, 600])
def test_lanes_of_every_tile_add_up_all_rows_alike(isa: str, lanes: int) -> None:
    random = np.random.default_rng(lanes)
    for rows in (1, 127, 128, 300):
        src = random.integers(-9, 10, (3, rows, lanes)).astype(np.float32)
        assert (kernels.reduce_sum(src, axes=[1]) == src.sum(1)).all()
        assert (kernels.reduce_max(src, axes=[1]) == src.max(1)).all()
        uneven = drawn(random, rows, lanes)
        alone = kernels.reduce_sum(uneven, axes=[0], threads=1)
        assert alone.tobytes() == kernels.reduce_sum(uneven, axes=[0], threads=3).tobytes()
        wider = np.concatenate([uneven, uneven], 1)  # whose lanes stand in other tiles
        same = kernels.reduce_sum(wider, axes=[0])[lanes:].tobytes() == alone.tobytes()
        assert same or (lanes < FEW and rows >= FOLDED)


@pytest.mark.parametrize("apart", [2, 3, 70])
def test_lanes_that_lie_apart_have_the_bits_of_those_that_lie_together(isa: str, apart: int) -> None:
    random = np.random.default_rng(apart)
    window = {"kernel": [3, 2], "strides": [2, 1], "pads_begin": [1, 0], "pads_end": [0, 1], "data_format": "NXC"}
    for lanes in (1, 31, 33, 63, 97, 150, 260):
        for rows in (1, 130):
            src = drawn(random, rows, lanes * apart)[:, ::apart]
            total = kernels.reduce_sum(np.ascontiguousarray(src), axes=[0])
            same = kernels.reduce_sum(src, axes=[0]).tobytes() == total.tobytes()
            assert same or (lanes < FEW and rows >= FOLDED)
        image = drawn(random, 1, 5, 4, lanes * apart)[..., ::apart]
        assert not image.flags.contiguous or lanes == 1
        near = np.ascontiguousarray(image)
        pooled = kernels.max_pool(near, **window)
        assert kernels.max_pool(image, **window).tobytes() == pooled.tobytes()
        above = drawn(random, *pooled.shape[:-1], lanes * apart)[..., ::apart]
        found = kernels.max_pool_backward(image, above, **window)
        assert found.tobytes() == kernels.max_pool_backward(near, np.ascontiguousarray(above), **window).tobytes()


def test_narrow_tiles_of_rows_that_lie_together_copy_none() -> None:
    code = (Path(kernels.__file__).parent / "c" / "max_pool_f32.c").read_text()
    tiles = re.findall(r"^( *)if \(src_C == 1\) \{\n(.*?)^\1\}", code, re.DOTALL | re.MULTILINE)
    widths = {int(width) for _, tile in tiles for width in re.findall(r"tile_\[(\d+)\];", tile)}
    assert widths == {64, 32}
    assert not any("opwright_row_" in tile for _, tile in tiles)


def test_sums_begin_anew_after_as_many_terms_however_many_rows_a_run_has(isa: str) -> None:
    random = np.random.default_rng(29)
    for rows, each in ((3, 100), (7, 50), (2, 128), (5, 129), (1, 300), (40, 7), (256, 1)):
        for lanes in (FEW, 33, 64, 300):
            apart = drawn(random, rows, each + 1, lanes)[:, :each]  # whose rows do not follow each other
            total = kernels.reduce_sum(apart.reshape(rows * each, lanes).copy(), axes=[0])
            assert kernels.reduce_sum(apart, axes=[0, 1]).tobytes() == total.tobytes(), (rows, each, lanes)


def test_nothing_but_terms_is_in_the_loop_that_sums_them() -> None:
    code = (Path(kernels.__file__).parent / "c" / "reduce_sum_f32.c").read_text()
    loops = re.findall(r"^( *)for \(int64_t r = round_;.*?^\1\}", code, re.DOTALL | re.MULTILINE)
    assert len(loops) > 4
    inside = re.findall(r"^ *for \(int64_t r = round_;[^}]*\}", code, re.MULTILINE)
    assert not any("terms_" in loop for loop in inside)


def test_long_sums_of_lanes_lose_no_more_than_short_ones() -> None:
    rows = np.random.default_rng(5).uniform(0.1, 0.2, (60000, 33)).astype(np.float32)
    exact = rows.astype(np.float64).sum(0)
    assert (abs(kernels.reduce_sum(rows, axes=[0]) - exact) < 2e-6 * exact).all()
    _, _, _, mean, _ = kernels.batch_norm_forward_training(
        rows, np.zeros(33, np.float32), np.ones(33, np.float32), epsilon=1e-5, data_format="NXC"
    )
    assert (abs(mean - exact / 60000) < 4e-7).all()


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_blends_are_the_same_whichever_axis_is_contiguous(isa: str, mode: str) -> None:
    random = np.random.default_rng(7)
    for (n, c, h, w), extents in (((2, 3, 5, 7), (9, 1100)), ((1, 70, 4, 3), (2, 2)), ((1, 2, 1, 1), (3, 40))):
        src = drawn(random, n, c, h, w)
        last = np.ascontiguousarray(np.moveaxis(src, 1, -1))
        for how in ("half_pixel", "align_corners"):
            given = {"mode": mode, "extents": list(extents), "coordinate_transformation_mode": how}
            found = kernels.interpolate(src, data_format="NCX", **given)
            spread = np.repeat(src, 3, axis=-1)[..., ::3]  # gathered cells that lie apart
            assert kernels.interpolate(spread, data_format="NCX", **given).tobytes() == found.tobytes()
            for threads in (1, 3):
                other = kernels.interpolate(last, data_format="NXC", threads=threads, **given)
                assert np.moveaxis(other, -1, 1).tobytes() == found.tobytes()
            rows = places(h, extents[0], how, mode) @ src.astype(np.float64) @ places(w, extents[1], how, mode).T
            assert np.allclose(found, rows, rtol=1e-5, atol=1e-5)


def places(cells: int, wanted: int, how: str, mode: str) -> np.ndarray:
    """By cell of the result, the weight of each cell of the source."""
    at = np.arange(wanted)
    middle = (at + 0.5) * cells / wanted - 0.5 if how == "half_pixel" else at * (cells - 1) / max(wanted - 1, 1)
    weights = np.zeros((wanted, cells))
    if mode == "nearest":
        weights[at, np.clip(np.floor(middle + 0.5 + 1e-9).astype(int), 0, cells - 1)] = 1
        return weights
    low = np.floor(middle + 1e-9)
    for tap in (0, 1):
        share = middle - low if tap else 1 - (middle - low)
        np.add.at(weights, (at, np.clip(low.astype(int) + tap, 0, cells - 1)), share)
    return weights


@pytest.mark.parametrize("length", [1, 31, 64, 129, 700, 2049])
def test_rows_in_groups_have_the_bits_of_each_row_alone(isa: str, length: int) -> None:
    def results(x: np.ndarray, d: np.ndarray, threads: int) -> list[np.ndarray]:
        shares, stats = kernels.soft_max(x, axis=2, keep_stats=True, threads=threads)
        gradient = kernels.log_softmax_backward(d, x, axis=2, threads=threads)
        return [shares, stats, gradient, kernels.reduce_l2(x, axes=[2], threads=threads)]

    random = np.random.default_rng(length)
    for first, second in ((1, 1), (3, 5), (2, 17), (33, 1)):
        src, diff = drawn(random, first, second, length), drawn(random, second, first, length).swapaxes(0, 1)
        rows = [(slice(i, i + 1), slice(j, j + 1)) for i in range(first) for j in range(second)]
        alone = [results(src[row], diff[row], 1) for row in rows]
        for threads in (1, 2, 3):
            for number, found in enumerate(results(src, diff, threads)):
                assert found.tobytes() == b"".join(each[number].tobytes() for each in alone)


def test_lanes_do_not_go_along_a_letter_that_only_begins_or_copies_cells(isa: str) -> None:
    random = np.random.default_rng(5)
    src, diff = drawn(random, 2, 32, 28, 28), drawn(random, 2, 32, 14, 14)
    window = {"kernel": [2, 2], "strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "data_format": "NCX"}
    (lanes,) = re.findall(r"lanes along (\w+):", str(kernels.explain("max_pool_backward", src, diff, **window)))
    assert lanes == "c"
    found = kernels.max_pool_backward(src, diff, **window)
    cells = src.reshape(2, 32, 14, 2, 14, 2)
    wanted = np.where(cells == cells.max((3, 5), keepdims=True), diff[:, :, :, None, :, None], 0)
    assert (found == wanted.reshape(src.shape)).all()


def test_what_follows_sums_of_windows_goes_along_the_cells_of_what_it_makes(tmp_path: Path) -> None:
    """Of a causal depthwise filter, a sigmoid and a product, whose second step sees no tensor."""
    _, made = package({"causal.yaml": CAUSAL}, tmp_path, "causal_package")
    x, w, p = (np.ones(shape, np.float32) for shape in ((2, 500, 192), (192, 4), (96, 192)))
    assert re.findall(r"lanes along (\w+):", str(made.explain("causal", x, w, p)))[1] == "c"


def test_lanes_do_not_go_along_blocks_of_channels_that_become_planes(tmp_path: Path) -> None:
    _, made = package({"blocked.yaml": BLOCKED}, tmp_path, "blocked_package")
    x = np.arange(2 * 3 * 37 * 16, dtype=np.float32).reshape(2, 3, 37, 16)
    assert re.findall(r"lanes along (\w+):", str(made.explain("blocked", x))) == ["p"]
    assert (made.blocked(x) == x.transpose(0, 1, 3, 2).reshape(2, 48, 37)).all()


FOLDED_ROWS = """
op: FoldedRows
revision: 1
summary: What rows of few cells make together.
dims: {before: B, rows: C, more: D, after: A}
inputs:
  - {name: src, dims: {B: B, C: C, D: D, A: A}, summary: The numbers.}
  - {name: weight, dims: {B: B}, summary: Of all cells.}
outputs:
  - {name: total, dims: {B: B, A: A}, summary: The weighted sum.}
  - {name: norm, dims: {B: B, A: A}, summary: The sum of the squares.}
  - {name: low, dims: {B: B, A: A}, summary: The least.}
  - {name: high, dims: {B: B, C: C, A: A}, summary: The greatest.}
dtypes:
  - {src: f32, weight: f32, total: f32, norm: f32, low: f32, high: f32, accumulate: f32}
  - {src: bf16, weight: f32, total: f32, norm: f32, low: f32, high: f32, accumulate: f32}
  - {src: s8, weight: f64, total: f64, norm: f64, low: f64, high: f64, accumulate: f64}
semantics:
  ranges: {b: B, c: C, d: D, a: A}
  steps:
    - total[b, a] += src[b, c, d, a] * weight[b]
    - norm[b, a] += src[b, c, d, a] * src[b, c, d, a]
    - low[b, a] min= src[b, c, d, a]
    - high[b, c, a] max= src[b, c, d, a]
"""


def test_rows_of_few_cells_that_follow_one_another_are_summed_together(tmp_path: Path) -> None:
    """As those that lie apart are, or are too few; a cell that is no number is one of its lane alone."""
    _, made = package({"folded.yaml": FOLDED_ROWS}, tmp_path, "folded_package")
    random = np.random.default_rng(8)
    for rows, more, cells in ((1, 1, 1), (3, 16, 1), (2, 700, 3), (70, 15, 5), (1, 37, 7), (2, 64, 16), (1, 300, 31)):
        for dtype in ("f4", ml_dtypes.bfloat16, "i1"):
            src = random.integers(-2, 3, (3, rows, more, cells + 1)).astype(dtype)
            for given in (src[..., 1:], np.ascontiguousarray(src[..., 1:])):
                wide = given.astype(np.float64)
                weight = np.full(3, 2, np.float64 if dtype == "i1" else np.float32)
                if dtype != "i1":
                    given[1, 0, -1, -1] = wide[1, 0, -1, -1] = np.nan
                total, norm, low, high = made.folded_rows(given, weight, threads=2)
                assert np.array_equal(total, 2 * wide.sum((1, 2)), equal_nan=True)
                assert np.array_equal(norm, (wide * wide).sum((1, 2)), equal_nan=True)
                assert np.array_equal(low, wide.min((1, 2)), equal_nan=True)
                assert np.array_equal(high, wide.max(2), equal_nan=True)
    code = next((tmp_path / "folded_package" / "c").glob("folded_rows_bf16*.c")).read_text()
    assert "opwright_fold_sum_f32(folded_0_, width_, n_, tile_);" in code


MIDDLE = """
op: Middle
revision: 1
summary: Shares of the cells along the middle axis, and those so far.
dims: {before: B, cells: C, after: A}
inputs:
  - {name: src, dims: {B: B, C: C, A: A}, summary: The numbers.}
outputs:
  - {name: shares, dims: {B: B, C: C, A: A}, summary: The shares.}
  - {name: sums, dims: {B: B, C: C, A: A}, summary: The sum of the cells so far.}
dtypes:
  - {src: bf16, shares: f32, sums: bf16, accumulate: f32}
semantics:
  ranges: {b: B, c: C, k: C, a: A}
  steps:
    - total[b, a] += abs(src[b, c, a]) + 1
    - shares[b, c, a] = src[b, c, a] / total[b, a]
    - {do: "sums[b, c, a] += src[b, k, a]", where: [k <= c]}
"""


def test_lanes_go_along_rows_whose_cells_lie_few_cells_apart(tmp_path: Path) -> None:
    """Where the last axis has too few cells; running sums are those of several such rows at once."""
    _, made = package({"middle.yaml": MIDDLE}, tmp_path, "middle_package")
    for cells, after in ((37, 3), (16, 15), (130, 1), (7, 5), (40, 16), (600, 2), (1024, 1), (1025, 1)):
        x = np.random.default_rng(cells).integers(-2, 3, (9, cells, after)).astype(ml_dtypes.bfloat16)
        lanes = {*re.findall(r"lanes along (\w+):", str(made.explain("middle", x)))}
        assert lanes == ({"c"} if after < 16 else {"a"}), (cells, after)
        wide = x.astype(np.float32)
        shares, sums = made.middle(x, threads=2)
        assert (shares == wide / (abs(wide) + 1).sum(1, keepdims=True)).all()
        assert (sums == wide.cumsum(1).astype(ml_dtypes.bfloat16)).all()
    code = next((tmp_path / "middle_package" / "c").glob("middle_*.c")).read_text()
    assert re.search(r"}\n +opwright_running_sum_f32\(", code)  # whatever its tasks: rows in room of the group's own
    assert "float sums_sum__room_of_[4096];" in code  # for four rows of up to 1024 cells
    assert code.count("t_ < (one_row_ ? 1 : tasks_)") == 2  # converted as one row, before and after


@pytest.mark.parametrize("shape", [(2, 3, 5, 5000), (1, 1, 17, 40), (3, 7, 1, 4097), (2, 1, 1, 3)])
def test_parts_begin_and_end_anywhere_in_a_run_of_tasks(shape: tuple[int, ...]) -> None:
    generator = np.random.default_rng(sum(shape))
    src = generator.standard_normal(shape, np.float32)
    gamma, beta, mean, variance = (generator.uniform(0.5, 2, shape[-1]).astype(np.float32) for _ in range(4))
    expected = (src - mean) * (gamma / np.sqrt(variance + np.float32(1e-5))) + beta
    given = (src, gamma, beta, mean, variance)
    for threads in (1, 2, 3, 5, 8):
        found = kernels.batch_norm_inference(*given, epsilon=1e-5, data_format="NXC", threads=threads)
        assert np.allclose(found, expected, rtol=1e-5, atol=1e-5), threads


def test_functions_of_long_rows_are_passes_over_short_blocks() -> None:
    """What is as wide as its values; conversions to bf16 are passes of their own, which short blocks do not pay."""
    folder = Path(kernels.__file__).parent / "c"
    short, few = "parts_, 2048 < X_inner_ ? 256 : 512);", "parts_, 512);"
    for name in ("gelu", "elu_backward", "mish"):
        assert short in (folder / f"{name}_f32.c").read_text(), name
    assert few in (folder / "gelu_bf16.c").read_text()


def test_lanes_that_share_lines_are_taken_in_long_blocks(tmp_path: Path) -> None:
    """What kernels reckon of the distance of neighbours: beside each other, in the same lines, in lines of their own;

    and how many lanes a block of few has.
    """
    code = (Path(kernels.__file__).parent / "c" / "max_pool_f32.c").read_text()
    (expression,) = re.findall(r"parts_, (S_w_ .*)\);", code)
    main = f"""
    #include <stdio.h>
    #include "opwright_rows.h"
    int main(void) {{
        const int64_t steps[] = {{1, 2, -3, 15, 16, -784, 4000}};
        for (int i = 0; i < 7; ++i) {{
            const int64_t S_w_ = 1, src_X_w_ = steps[i], dst_X_w_ = 1;
            printf("%lld ", (long long)({expression}));
        }}
        const int64_t few[][3] = {{{{64, 1, 1}}, {{64, 1, 2}}, {{96, 1, 2}}, {{128, 1, 2}}, {{64, 3, 2}}, {{63, 1, 2}}}};
        for (int i = 0; i < 6; ++i) {{
            printf("%lld ", (long long)opwright_block(few[i][0], few[i][1], few[i][2], 4096));
        }}
    }}"""
    source = tmp_path / "blocks.c"
    source.write_text(main)
    include = Path(kernels.__file__).parent / "include"
    command = functions.program(functions.BUILDS[0], tmp_path, "-I", str(include), source=source)
    found = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
    assert found[:7] == ["4096", "512", "512", "512", "64", "64", "64"]
    assert found[7:] == ["64", "32", "64", "64", "64", "64"]  # of few lanes, with threads for halves


WIDER = """
op: Wider
revision: 1
summary: The sum of an array and another one, of one cell or of as many.
dims: {run: {symbol: X, run: true}}
inputs:
  - {name: a, dims: {X: X}, broadcast: [X]}
  - {name: b, dims: {X: X}, broadcast: [X]}
outputs: [{name: y, dims: {X: X}}]
dtypes: ROWS
semantics:
  ranges: {x: X}
  steps: ["y[x] = a[x] + b[x]"]
"""
NUMPY = {
    "f64": np.float64,
    "f32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "u8": np.uint8,
    "s8": np.int8,
}
KINDS = {"f64": 8, "f32": 4, "bf16": 2, "f16": 2, "u8": 1, "s8": 1}
MIXED = [
    (a, b, "f64" if "f64" in (a, b) or number % 3 == 0 else "f32")
    for number, (a, b) in enumerate(itertools.product(KINDS, repeat=2))
]


@pytest.fixture(scope="module")
def wider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    folder = tmp_path_factory.mktemp("wider")
    rows = [{"a": a, "b": b, "y": y, "accumulate": "f64" if y == "f64" else "f32"} for a, b, y in MIXED]
    yield package({"wider.yaml": WIDER.replace("ROWS", json.dumps(rows))}, folder, "wider_package")[1]


def test_lines_are_made_of_whole_vectors_of_the_narrowest_cells(wider: ModuleType) -> None:
    random = np.random.default_rng(11)
    for a, b, y in random.permutation(MIXED)[:5].tolist():
        size = min(KINDS[kind] for kind in (a, b, y))
        file = "_".join(["wider", a, b, y])
        code = (Path(wider.__file__).parent / "c" / f"{file}.c").read_text()
        assert {int(cells) for cells in re.findall(r"cells_\[(\d+)\];", code)} == {64 // size}, (a, b, y)
        for length in (1, 15, 64 // size, 64, 129, int(random.integers(1, 9000))):
            for shape in ((length,), (1,)):
                one, other = (random.integers(0, 9, n).astype(NUMPY[kind]) for n, kind in ((length, a), (shape, b)))
                wanted = (one.astype(np.float64) + other.astype(np.float64)).astype(NUMPY[y])
                room = np.full(length + 70, 77, NUMPY[y])
                found = wider.wider(one, other, out=room[3 : 3 + length], threads=2)
                assert (found == wanted).all(), (a, b, y, length, shape)
                assert (room[:3] == 77).all()
                assert (room[3 + length :] == 77).all()


CHOSEN = """
op: Chosen
revision: 1
summary: Sums of columns, as they are or doubled, or the first row.
dims: {samples: {symbol: N}, rows: {symbol: K, min: 1}, columns: {symbol: C}}
attributes:
  - {name: how, type: string, required: true, values: [first, sums, doubled], summary: What is taken.}
inputs: [{name: src, dims: {N: N, K: K, C: C}}]
outputs: [{name: dst, dims: {N: N, C: C}}, {name: other, dims: {N: N, C: C}}]
dtypes:
  - {src: f32, dst: f32, other: f32, accumulate: f32}
  - {src: bf16, dst: bf16, other: bf16, accumulate: f32}
semantics:
  ranges: {n: N, k: K, c: C}
  steps:
    - by: how
      cases: {first: "total[n, c] += 0", sums: "total[n, c] += src[n, k, c]", doubled: "total[n, c] += src[n, k, c]"}
    - by: how
      cases: {first: "dst[n, c] = src[n, 0, c]", sums: "dst[n, c] = total[n, c]", doubled: "dst[n, c] = 2 * total[n, c]"}
    - other[n, c] = READ
"""


@pytest.mark.parametrize(("read", "stored"), [("src[n, K - 1, c]", False), ("total[n, c]", True)])
def test_a_word_that_chooses_sums_chooses_what_follows_them_in_registers(
    tmp_path: Path, read: str, stored: bool
) -> None:
    """A step that reads them whatever the word is finds them in memory."""
    module = package({"chosen.yaml": CHOSEN.replace("READ", read)}, tmp_path, f"chosen_{int(stored)}")[1]
    random = np.random.default_rng(13)
    code = (Path(module.__file__).parent / "c" / "chosen_f32.c").read_text()
    assert bool(re.search(r"cells_\[j_\] = .*total_row_", code)) == stored
    for n, k, c in ((2, 3, 5), (1, 300, 33), (3, 129, 97), (1, 1, 1), (2, 7, 600), (1, 2, 4200), (0, 2, 3)):
        for dtype in (np.float32, ml_dtypes.bfloat16):
            src = random.integers(0, 3, (n, k, c)).astype(dtype)
            sums = src.astype(np.float64).sum(1)
            for how, wanted in (("first", src[:, 0]), ("sums", sums), ("doubled", 2 * sums)):
                given = np.asfortranarray(src) if random.integers(2) else src
                beside = (sums if how != "first" else 0 * sums) if stored else src[:, k - 1]
                for threads in (1, 3):
                    found, other = module.chosen(given, how=how, threads=threads)
                    assert (found == wanted.astype(dtype)).all(), (n, k, c, how)
                    assert (other == beside.astype(dtype)).all(), (n, k, c, how)


PAIRS = """
op: Pairs
revision: 1
summary: Weighted distances of rows, and the greatest difference.
dims: {batch: {symbol: Z}, left: {symbol: M}, right: {symbol: N}, cells: {symbol: K}}
inputs:
  - {name: a, dims: {Z: Z, M: M, K: K}}
  - {name: b, dims: {Z: Z, N: N, K: K}}
  - {name: w, dims: {N: N, K: K}}
outputs: [{name: far, dims: {Z: Z, M: M, N: N}}, {name: most, dims: {Z: Z, M: M, N: N}}]
dtypes:
  - {a: f32, b: f32, w: f32, far: f32, most: f32, accumulate: f32}
  - {a: bf16, b: bf16, w: bf16, far: f32, most: bf16, accumulate: f32}
semantics:
  ranges: {z: Z, m: M, n: N, k: K}
  steps:
    - sums[z, m, n] += w[n, k] * (a[z, m, k] - b[z, n, k]) * (a[z, m, k] - b[z, n, k])
    - most[z, m, n] max= abs(a[z, m, k] - b[z, n, k])
    - far[z, m, n] = sqrt(sums[z, m, n])
"""
SIDES = [
    (2, 9, 37, 13),
    (1, 30, 600, 20),
    (3, 3, 40, 5),
    (1, 8, 16, 256),
    (1, 8, 16, 257),
    (2, 0, 20, 4),
    (2, 12, 20, 0),
    (1, 17, 1, 9),
]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    folder = tmp_path_factory.mktemp("pairs")
    yield package({"pairs.yaml": PAIRS}, folder, "pairs_package")[1]


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_a_side_of_a_reduction_over_pairs_is_turned_where_it_serves_many(
    pairs: ModuleType, isa: str, dtype: type
) -> None:
    sys.modules["pairs_package._operation"].forget()
    assert isa
    random = np.random.default_rng(7)
    turned = []
    for batch, left, right, cells in SIDES:
        shapes = ((batch, left, cells), (batch, right, cells), (right, cells))
        a, b, w = (random.integers(0, 4, shape).astype(dtype) for shape in shapes)
        other = np.ascontiguousarray(b.swapaxes(1, 2)).swapaxes(1, 2)
        wide = [x.astype(np.float32) for x in (a, b, w)]
        apart = wide[0][:, :, None] - wide[1][:, None]
        wanted = np.sqrt((wide[2] * apart * apart).sum(-1)), abs(apart).max(-1, initial=-np.inf)
        turned.append("turned" in str(pairs.explain("pairs", a, b, w)))
        for given in (b, other):
            alone = [x.tobytes() for x in pairs.pairs(a, given, w, threads=1)]
            assert [x.tobytes() for x in pairs.pairs(a, given, w, threads=3)] == alone
            for found, right_one in zip(pairs.pairs(a, given, w, threads=1), wanted, strict=True):
                assert np.allclose(found.astype(np.float32), right_one, rtol=1e-6)
    assert turned == [True, True, False, True, False, False, True, False]
