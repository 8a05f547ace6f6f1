"""Steps that share loops, and outputs whose cells grow where they lie, give what the interpreter gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import opwright_kernels as kernels
import pytest
from ml_dtypes import bfloat16
from opwright.emit.steps.kernels import step_unit
from opwright.language.library import Library
from opwright.oracle.run_steps import compute_steps
from support.package import package

WINDOWS = """
op: WindowSpread
revision: 1
summary: The gradient of a window's maximum, beside steps that look elsewhere.
dims:
  batch: {symbol: N}
  channels: {symbol: C}
  cells: {symbol: I}
  windows: {symbol: O}
attributes:
  - {name: kernel, symbol: K, type: s64, required: true, min: 1}
  - {name: stride, symbol: S, type: s64, required: true, min: 1}
  - {name: pad, symbol: P, type: s64, default: "0", min: 0}
  - {name: mode, type: string, required: true, values: [first, second, third]}
  - {name: order, type: string, required: true, values: [NCX, NXC]}
layouts:
  order: {NCX: [N, C, X], NXC: [N, X, C]}
inputs:
  - {name: src, layout: order, dims: {N: N, C: C, X: I}}
  - {name: diff, layout: order, dims: {N: N, C: C, X: O}}
outputs:
  - {name: spread, layout: order, dims: {N: N, C: C, X: I}}
  - {name: turned, layout: order, dims: {N: N, C: C, X: O}}
dtypes:
  - {src: f32, diff: f32, spread: f32, turned: f32, accumulate: f32}
  - {src: bf16, diff: bf16, spread: bf16, turned: bf16, accumulate: f32}
constraints:
  - {id: fits, expr: O == floor((I + 2 * P - K) / S) + 1, say: diff has a cell for each window, argument: diff}
semantics:
  ranges: {n: N, c: C, o: O, k: K}
  steps:
    - peak[n, c, o] max= src[n, c, o * S + k - P]
    - first[n, c, o] min= select(src[n, c, o * S + k - P] == peak[n, c, o], number(k), inf)
    - by: mode
      cases:
        first: spread[n, c, o * S + k - P] += select(number(k) == first[n, c, o], diff[n, c, o], 0)
        second: spread[n, c, o * S + k - P] += select(number(k) == first[n, c, o], diff[n, c, o], 0)
        third: spread[n, c, o * S + k - P] += 0
    - behind[n, c, o] += peak[n, c, O - 1 - o] + 0 * first[n, c, o]
    - turned[n, c, o] = behind[n, c, o] - diff[n, c, o]
"""
Made = tuple[Library, ModuleType]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    folder = tmp_path_factory.mktemp("fused")
    yield package({"windows.yaml": WINDOWS}, folder, "fused_package")


def test_steps_in_shared_loops_give_what_the_interpreter_gives(made: Made) -> None:
    library, built = made
    random = np.random.default_rng(5)
    for order in ("NCX", "NXC"):
        for mode in ("first", "second", "third"):
            for channels, cells, kernel, stride, pad in ((3, 29, 2, 2, 0), (70, 11, 3, 1, 1), (17, 40, 4, 3, 2)):
                windows = (cells + 2 * pad - kernel) // stride + 1
                src, diff = (
                    random.integers(-4, 4, (2, channels, n) if order == "NCX" else (2, n, channels)).astype(np.float32)
                    for n in (cells, windows)
                )
                given = {"kernel": kernel, "stride": stride, "pad": pad, "mode": mode, "order": order}
                for threads in (1, 3):
                    got = built.window_spread(src, diff, **given, threads=threads)
                    expected = compute_steps(library.op("WindowSpread"), [src, diff], given)
                    for name, one in zip(("spread", "turned"), got, strict=True):
                        np.testing.assert_array_equal(one, expected[name], err_msg=f"{name} {given}")


def test_what_grows_in_the_type_of_its_sums_has_no_second_array(made: Made) -> None:
    texts = {one.row["src"]: one for one in step_unit(made[0].op("WindowSpread")).kernels}
    arrays = {
        dtype: {
            function.name.removeprefix(f"window_spread_{dtype}_"): {array.name for array in function.arrays}
            for view in kernel.phases
            for function in view.functions
        }
        for dtype, kernel in texts.items()
    }
    assert {name for name, used in arrays["f32"].items() if "spread_sum_" in used} == {"0_c"}
    assert any("spread_sum_" in used for used in arrays["bf16"].values())


def test_cells_that_tiles_begin_are_not_begun_before() -> None:
    """Their values are those of the conformance tests; a sum of many rounds needs its cells from the start."""
    folder = Path(str(kernels.__file__)).parent / "c"
    pools = (folder / "max_pool_backward_f32.c").read_text().split("static void ")
    (along,) = [text for text in pools if text.startswith("max_pool_backward_f32_0_c(")]
    assert "tile_[i_] = -INFINITY" in along
    assert "] = -INFINITY" not in along.replace("tile_[i_] = -INFINITY", "")
    assert "diff_gamma_sum_[c - begin_] = 0.0f" in (folder / "batch_norm_training_backward_f32.c").read_text()


def test_sums_of_lanes_that_lie_apart_are_scattered_once(made: Made) -> None:
    """They are the output itself where its channels are neighbours: then nothing is written between the arrays."""
    _, built = made
    random = np.random.default_rng(6)
    for order in ("NCX", "NXC"):
        for batch, channels, cells, kernel, stride in ((1, 530, 12, 12, 1), (3, 65, 9, 3, 2), (2, 16, 40, 4, 4)):
            windows = (cells - kernel) // stride + 1
            shapes = [(batch, channels, n) if order == "NCX" else (batch, n, channels) for n in (cells, windows)]
            src, diff = (random.integers(-4, 4, shape).astype(np.float32) for shape in shapes)
            given = {"kernel": kernel, "stride": stride, "pad": 0, "mode": "first", "order": order}
            wanted = built.window_spread(src, diff, **given, threads=1)
            rooms = [np.full((*one.shape[:-1], one.shape[-1] + 5), 77, np.float32) for one in wanted]
            gaps = tuple(room[..., 2:-3] for room in rooms)  # rows that lie apart
            for threads in (1, 2, 3):
                built.window_spread(src, diff, **given, threads=threads, out=gaps)
                for one, room, found in zip(wanted, rooms, gaps, strict=True):
                    np.testing.assert_array_equal(found, one)
                    assert (room[..., :2] == 77).all()
                    assert (room[..., -3:] == 77).all()


def test_cases_that_say_the_same_are_printed_once(made: Made) -> None:
    text = (Path(str(made[1].__file__)).parent / "c" / "window_spread_f32.c").read_text()
    assert "mode_word_ == 0 || mode_word_ == 1" in text
    assert "mode_word_ == 2" not in text


def test_a_row_of_f32_becomes_f16_without_a_copy_before() -> None:
    folder = Path(str(kernels.__file__)).parent / "c"
    assert "wide_[" not in (folder / "type_cast_f32_f16.c").read_text()
    assert "wide_[" in (folder / "sqrt_f16.c").read_text()
    src = np.arange(-700, 701, dtype=np.float32)[::-1] / 3
    out = np.zeros(2802, np.float16)[::2]
    np.testing.assert_array_equal(kernels.type_cast(src, dtype="f16", out=out), src.astype(np.float16))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, bfloat16], ids=["f32", "f16", "bf16"])
def test_what_follows_sums_in_registers_reads_these_in_every_data_type(dtype: type) -> None:
    for rows, columns in ((1, 1), (3, 40), (130, 33), (300, 70), (2, 600)):
        src = (np.arange(rows * columns).reshape(rows, columns) * 7 % 3 - 1).astype(dtype)
        for name, reduce in (("reduce_sum", np.sum), ("reduce_max", np.max), ("reduce_min", np.min)):
            found = getattr(kernels, name)(src, axes=[0], threads=1)
            assert np.array_equal(found, reduce(src.astype(np.float64), axis=0).astype(dtype)), (name, rows, columns)
