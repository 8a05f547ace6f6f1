"""Convolutions and their gradients written in steps: computed by the engine of convolutions, exactly as the interpreter
does, with what follows them applied before anything is stored."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from opwright.language.library import Library
from opwright.oracle.run_steps import compute_steps
from support import random_convolutions, rulings
from support.call import Call
from support.capping import capped_at
from support.draws import FULL
from support.package import package
from support.random_contractions import DTYPES
from support.random_convolutions import ROWS, SOLVED, Drawn

COUNT = 12 if FULL else 3
FUSED = """op: FusedConvolution
revision: 1
summary: A convolution with a bias, a residual and an activation.
spatial_rank: {min: 1, max: 3}
dims:
  batch: {symbol: N}
  in_channels: {symbol: C}
  out_channels: {symbol: M}
  src_spatial: {symbol: I, per_axis: true}
  taps: {symbol: K, per_axis: true, min: 1}
  dst_spatial: {symbol: O, per_axis: true}
attributes:
  - {name: strides, symbol: S, type: "s64[]", default: "1", length: spatial, min: 1, neutral: 1}
  - {name: pads, symbol: P, type: "s64[]", default: "0", length: spatial, min: 0, neutral: 0}
  - {name: data_format, type: string, default: NXC, values: [NCX, NXC]}
layouts:
  data_format: {NCX: [N, C, X], NXC: [N, X, C]}
inputs:
  - {name: src, layout: data_format, dims: {N: N, C: C, X: I}}
  - {name: weights, dims: {M: M, C: C, X: K}}
  - {name: bias, dims: {M: M}}
  - {name: residual, layout: data_format, dims: {N: N, C: M, X: O}, optional: true}
outputs:
  - {name: dst, layout: data_format, dims: {N: N, C: M, X: O}}
dtypes:
  - {src: f32, weights: f32, bias: f32, residual: f32, dst: f32, accumulate: f32}
shape: {O: floor((I + 2 * P - K) / S) + 1}
semantics:
  ranges: {n: N, m: M, x: O, c: C, k: K}
  steps:
    - sums[n, m, x] += src[n, c, x * S + k - P] * weights[m, c, k]
    - dst[n, m, x] = max(sums[n, m, x] + bias[m] + residual[n, m, x], 0)
"""
Made = tuple[Library, ModuleType, list[Drawn]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    rng = np.random.default_rng(11)
    drawn = [random_convolutions.draw(rng, f"Windows{n}", SOLVED[n % 3]) for n in range(COUNT)]
    texts = {f"windows{n}.yaml": one.text for n, one in enumerate(drawn)} | {"fused.yaml": FUSED}
    return *package(texts, tmp_path_factory.mktemp("windows"), "windows_package"), drawn


@pytest.fixture(params=["avx2", "avx512_bf16", "amx_bf16"] if FULL else ["avx512_bf16", "amx_bf16"])
def capped(made: Made, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of an instruction set above which nothing is used."""
    _ = made[1].windows0  # loads the modules of the package
    with capped_at(made[1], request.param) as isa:
        yield isa


def test_random_convolutions_in_steps_are_exact(made: Made, capped: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library, kernels, drawn = made
    contractions = sys.modules[f"{kernels.__name__}._contractions"]
    words: list[str] = []
    put = contractions.Product.put
    monkeypatch.setattr(contractions.Product, "put", lambda own, *given: words.append(own.words) or put(own, *given))
    rng = np.random.default_rng([12, len(capped)])
    for one in drawn:
        op = library.op(one.op)
        for number in range(12):
            kind, written = ROWS[int(rng.integers(len(ROWS)))]
            inputs, attributes = random_convolutions.call(rng, one, kind)
            attributes["made"] = written
            expected = compute_steps(op, inputs, attributes)["out_0"].astype(np.float64)
            for threads in (1, 3):
                sys.modules[f"{kernels.__name__}._remember"].CALLS.clear()
                found = getattr(kernels, op.function)(*inputs, **attributes, threads=threads)
                call = (one.op, kind, written, [array.shape for array in inputs], attributes, number, threads)
                assert found.dtype == DTYPES[written]
                assert (found.astype(np.float64) == expected).all(), call
    assert sum("windows" in text for text in words) > len(words) / 2


def test_taps_outside_contribute_nothing_whatever_the_weights_hold(made: Made) -> None:
    kernels = made[1]
    src, weights = np.ones((1, 2, 6, 6), np.float32), np.ones((3, 2, 3, 3), np.float32)
    weights[1, 0, 0, 0], weights[2, 1, 2, 2] = np.inf, np.nan
    found = kernels.fused_convolution(src, weights, np.zeros(3, np.float32), pads=[1, 1], data_format="NCX")
    assert (found[0, 0, 0, 0], found[0, 1, 0, 0], found[0, 1, 0, 1], found[0, 1, 1, 1]) == (8, 8, 12, np.inf)
    assert found[0, 2, 5, 5] == 8
    assert np.isnan(found[0, 2, 1:5, 1:5]).all()


@pytest.mark.parametrize("order", ["NCX", "NXC"])
def test_a_convolution_with_its_activation_holds_no_more_sums_than_those_of_a_task(made: Made, order: str) -> None:
    _, kernels, _ = made
    bytes_ = []
    for images, cells in ((2, 64), (16, 64), (2, 400)):
        space = (cells, cells)
        shapes = [(images, 16, *space), (32, 16, 3, 3), (32,), (images, 32, *space)]
        if order == "NXC":
            shapes[0], shapes[3] = (images, *space, 16), (images, *space, 32)
        spec = [kernels.TensorSpec(shape, "float32") for shape in shapes]
        explanation = kernels.explain("fused_convolution", *spec, pads=[1, 1], data_format=order, threads=1)
        assert "finished before they are stored" in str(explanation)
        bytes_.append(explanation.scratch_bytes)
    assert max(bytes_) < 1 << 20
    rng = np.random.default_rng(13)
    for shape, taps, strides in (((3, 5, 150, 170), (3, 3), [1, 1]), ((9, 20, 61, 67), (5, 1), [2, 1])):
        src = rng.integers(-2, 3, shape).astype(np.float32)
        weights = rng.integers(-2, 3, (37, shape[1], *taps)).astype(np.float32)
        bias = rng.integers(-2, 3, 37).astype(np.float32)
        src = src if order == "NCX" else np.ascontiguousarray(np.moveaxis(src, 1, -1))
        attributes = {"strides": strides, "pads": [2, 1], "data_format": order}
        found = [kernels.fused_convolution(src, weights, bias, **attributes, threads=threads) for threads in (1, 2)]
        assert found[0].tobytes() == found[1].tobytes()
        lists = {"strides": strides, "pads_begin": [2, 1], "pads_end": [2, 1], "dilations": [1, 1]}
        call = Call("Convolution", (src, weights, bias), {**lists, "data_format": order, "weights_format": "OIX"})
        assert (found[0] == np.maximum(rulings.compute(call), 0)).all()


@pytest.mark.parametrize("order", ["NCX", "NXC"])
def test_sums_are_finished_exactly_whatever_parts_tasks_have(made: Made, capped: str, order: str) -> None:
    """Few channels and many, long rows and short, with weights for any of the engine's ways."""
    rng = np.random.default_rng([15, len(capped), len(order)])
    for case in range(24 if FULL else 8):
        rank = 1 + case % 3
        channels, filters = int(rng.choice([1, 3, 16, 33, 300])), int(rng.choice([1, 8, 15, 16, 48, 130, 520]))
        space = [int(rng.integers(1, (600, 30, 9)[rank - 1])) for _ in range(rank)]
        taps = [int(rng.choice([1, 1, 2, 3])) for _ in range(rank)]
        strides, pads = ([int(n) for n in rng.integers(least, 3, rank)] for least in (1, 0))
        if any(cells + 2 * pad < tap for cells, pad, tap in zip(space, pads, taps, strict=True)):
            continue
        shapes = [(int(rng.integers(1, 4)), channels, *space), (filters, channels, *taps), (filters,)]
        src, weights, bias = (rng.integers(-2, 3, shape).astype(np.float32) for shape in shapes)
        src = src if order == "NCX" else np.ascontiguousarray(np.moveaxis(src, 1, -1))
        attributes = {"strides": strides, "pads": pads, "data_format": order}
        lists = {"strides": strides, "pads_begin": pads, "pads_end": pads, "dilations": [1] * rank}
        call = Call("Convolution", (src, weights, bias), {**lists, "data_format": order, "weights_format": "OIX"})
        expected = np.maximum(rulings.compute(call), 0)
        for threads in (1, 3):
            sys.modules[f"{made[1].__name__}._remember"].CALLS.clear()
            found = made[1].fused_convolution(src, weights, bias, **attributes, threads=threads)
            assert (found == expected).all(), (case, shapes, attributes, threads)


def test_rows_of_finished_cells_that_follow_each_other_and_others_are_the_same(made: Made) -> None:
    """Outputs and residuals with gaps after cells, rows or planes, or with none."""
    library, kernels, _ = made
    op, rng = library.op("FusedConvolution"), np.random.default_rng(14)

    def placed(shape: tuple[int, ...]) -> np.ndarray:
        """An array of which some axes have more room than cells."""
        room = [extent + int(rng.integers(0, 3)) * bool(rng.integers(0, 2)) for extent in shape]
        return np.full(room, 77, np.float32)[tuple(map(slice, shape))]

    for case in range(40 if FULL else 16):
        rank, order = 1 + case % 3, ("NCX", "NXC")[case // 3 % 2]
        space = tuple(int(n) for n in rng.integers(1, 9 if rank > 1 else 70, rank))
        channels, made_channels, taps = int(rng.integers(1, 5)), int(rng.choice([1, 3, 16, 19, 40])), (1, 3)[case % 2]
        attributes = {"pads": [taps // 2] * rank, "data_format": order}
        shapes = [(2, channels, *space), (made_channels, channels, *[taps] * rank), (made_channels,)]
        arrays = [rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes]
        out, residual = placed((2, made_channels, *space)), placed((2, made_channels, *space))
        if order == "NXC":
            arrays[0] = np.ascontiguousarray(np.moveaxis(arrays[0], 1, -1))
            out, residual = placed((2, *space, made_channels)), placed((2, *space, made_channels))
        residual[...] = rng.integers(-3, 4, residual.shape)
        arrays += [residual] if rng.integers(0, 2) else []
        expected = compute_steps(op, [np.ascontiguousarray(array) for array in arrays], attributes)["dst"]
        for threads in (1, 2):
            out[...] = 77
            assert kernels.fused_convolution(*arrays, **attributes, out=out, threads=threads) is out
            assert (out == expected).all(), (case, order, space, out.strides, residual.strides)
            around = out.base
            assert around is None or (around == 77).sum() >= around.size - out.size


def test_an_engine_that_does_not_compile_is_reported_once(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    _ = made[1].windows0
    engines = sys.modules[f"{made[1].__name__}._contraction_engines"]
    errors = sys.modules[f"{made[1].__name__}._errors"]

    def failing(_: object) -> None:
        raise errors.BuildError("cc is no compiler")

    monkeypatch.setattr(engines, "_engines", {})
    monkeypatch.setattr(engines._load, "load", failing)
    if engines.best("f32") is None:
        pytest.skip("no engine for this CPU")
    with pytest.warns(RuntimeWarning, match="loops, which are much slower, compute what it would: cc is no compiler"):
        assert engines.engine("f32") is None
    assert engines.engine("f32") is None
