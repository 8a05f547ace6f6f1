"""Sums of products of bytes, signed or not, in s64 and in f32: exact on every instruction set, for every number of
threads, whatever follows them cell by cell."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from opwright.derive.phases import staged
from opwright.language.library import Library
from opwright.oracle.run_steps import compute_steps
from support import random_byte_windows, random_contractions
from support.capping import capped_at, here
from support.package import package
from support.random_contractions import Drawn

BYTES = {"s8": np.int8, "u8": np.uint8}
ROWS = [
    (left, right, sums, made) for left in BYTES for right in BYTES for sums, made in (("s64", "s32"), ("f32", "f32"))
]
FINISHES = {1: "{0} * 2 + {1}", 2: "max({0} - {1}, {2})"}
QUANTISED = """op: Quantised
revision: 1
summary: A linear layer of bytes, with zero points, scales and saturation.
dims:
  rows: {symbol: M}
  columns: {symbol: N}
  depth: {symbol: K}
inputs:
  - {name: src, dims: {M: M, K: K}}
  - {name: weights, dims: {K: K, N: N}}
  - {name: zero, dims: {M: M}}
  - {name: scale, dims: {N: N}}
outputs:
  - {name: dst, dims: {M: M, N: N}}
dtypes:
  - {src: u8, weights: s8, zero: f32, scale: f32, dst: s8, accumulate: f32}
semantics:
  ranges: {m: M, n: N, k: K}
  steps:
    - sums[m, n] += src[m, k] * weights[k, n]
    - total[n] += weights[k, n]
    - dst[m, n] = round((sums[m, n] - zero[m] * total[n]) * scale[n])
"""
Made = tuple[Library, ModuleType, list[Drawn]]


def of_bytes(one: Drawn) -> str:
    """The text of a drawn spec with rows of bytes."""
    names = [f"in_{n}" for n in range(len(one.factors) + len(one.others))]
    rows = ""
    for left, right, sums, made in ROWS:
        types = [left, right, *[{"s64": "s32"}.get(sums, sums)] * len(one.others)]
        dtypes = ", ".join(f"{name}: {dtype}" for name, dtype in zip(names, types, strict=True))
        rows += f"  - {{{dtypes}, out_0: {made}, accumulate: {sums}}}\n"
    text = re.sub(r"values: \[f32, .*?\]", "values: [s32, f32]", one.text)
    return re.sub(r"dtypes:\n(  - .*\n)+", f"dtypes:\n{rows}", text)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    rng = np.random.default_rng(4)
    drawn: list[Drawn] = []
    while len(drawn) < 3:
        one = random_contractions.draw(rng, f"Bytes{len(drawn)}", FINISHES.get(len(drawn), ""))
        drawn += [one] if len(one.factors) == 2 else []
    texts = {f"bytes{n}.yaml": of_bytes(one) for n, one in enumerate(drawn)} | {"quantised.yaml": QUANTISED}
    return *package(texts, tmp_path_factory.mktemp("bytes"), "bytes_package"), drawn


ISAS = ("portable", "avx2", "avx512_vnni", "amx_int8")


@pytest.fixture(params=["portable", "avx2", "avx512", "avx512_vnni", "amx_int8"])
def capped(made: Made, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of an instruction set above which nothing is used."""
    _ = made[1].bytes0  # loads the modules of the package
    with capped_at(made[1], request.param) as isa:
        yield isa


def forget(kernels: ModuleType) -> None:
    sys.modules[f"{kernels.__name__}._remember"].CALLS.clear()


def test_products_of_bytes_are_exact_on_every_instruction_set(made: Made, capped: str) -> None:
    library, kernels, drawn = made
    rng = np.random.default_rng([5, len(capped)])
    for number, one in enumerate(drawn):
        op = library.op(one.op)
        for left, right, sums, written in ROWS:
            small = random_contractions.inputs(rng, one, "f32", 100_000)
            types = [BYTES[left], BYTES[right], *[np.int32 if sums == "s64" else np.float32] * len(one.others)]
            inputs = [
                array.astype(dtype) if n > 1 else rng.integers(*limits(dtype), array.shape, dtype, endpoint=True)
                for n, (array, dtype) in enumerate(zip(small, types, strict=True))
            ]
            inputs[:2] = [random_contractions.viewed(rng, array) for array in inputs[:2]]
            expected = compute_steps(op, inputs, {"made": written})["out_0"]
            for threads in (1, 3):
                forget(kernels)
                found = getattr(kernels, op.function)(*inputs, made=written, threads=threads)
                assert (found.astype(np.float64) == expected.astype(np.float64)).all(), (number, left, right, sums)


def limits(dtype: type) -> tuple[int, int]:
    return np.iinfo(dtype).min, np.iinfo(dtype).max


@pytest.mark.parametrize("shape", [(1, 3, 7), (37, 70, 130), (70, 37, 4100), (300, 300, 64), (5, 600, 2500)], ids=str)
def test_extreme_bytes_of_any_depth_add_up_exactly(made: Made, capped: str, shape: tuple[int, int, int]) -> None:
    rows, columns, depth = shape
    rng = np.random.default_rng(6)
    zero, scale = np.arange(rows, dtype=np.float32) % 3, np.full(columns, 2.0**-12, np.float32)
    for src in (np.full((rows, depth), 255, np.uint8), rng.integers(0, 256, (rows, depth), np.uint8)):
        weights = rng.choice(np.int8([-128, 127]), (depth, columns))
        wide = (src.astype(np.int64) @ weights) - zero[:, None].astype(np.int64) * weights.sum(0, dtype=np.int64)
        expected = np.clip(np.rint(wide.astype(np.float32) * scale), -128, 127).astype(np.int8)
        found = [made[1].quantised(src, weights, zero, scale, threads=threads) for threads in (1, 2)]
        assert (found[0] == found[1]).all()
        close = np.abs(wide) < 2**24
        assert (found[0] == expected)[close].all()


def test_scales_and_saturation_need_no_memory_for_the_sums(made: Made, capped: str) -> None:
    kernels = made[1]
    shapes = [((4096, 64), "uint8"), ((64, 512), "int8"), ((4096,), "float32"), ((512,), "float32")]
    explanation = kernels.explain("quantised", *(kernels.TensorSpec(*shape) for shape in shapes), threads=1)
    if capped == "portable":  # whose kernels are loops
        assert "a contraction" not in str(explanation)
        return
    assert f"a contraction for {capped}" in str(explanation)
    assert "finished before they are stored" in str(explanation)
    assert explanation.scratch_bytes < 512 * 512 * 4


def differences(rng: np.random.Generator, one: Drawn) -> tuple[str, list[str]]:
    """The text of a drawn spec with something taken off its factors, the same for all that is summed; letters of inputs

    that it adds for that: of each the letters of its axes.
    """
    text = of_bytes(one)
    (line,) = re.findall(r"- (out_0\[.*\] \+= .*)", text)
    target, factors = line.split(" += ")[0], line.split(" += ")[1].split(" * ")
    letters, added = re.findall(r"\w+", target)[1:], list[str]()
    for at in rng.permutation(2)[: int(rng.integers(1, 3))]:
        some = sorted(rng.choice(letters, int(rng.integers(0, len(letters) + 1)), replace=False))
        zero = f"zero_{len(added)}[{', '.join(some)}]" if rng.random() < 0.7 else str(rng.integers(1, 9))
        added += ["".join(some)] if zero.startswith("zero") else []
        factors[at] = f"({factors[at]} {rng.choice(['-', '+'])} {zero})"
    text = text.replace(line, f"{target} += {' * '.join(factors)}")
    text = re.sub(r"  - \{.*accumulate: f32\}\n", "", text).replace("[s32, f32]", "[s32]")  # exact in integers only
    for number, axes in enumerate(added):
        name = f"zero_{number}"
        dims = ", ".join(f"{letter.upper()}: {letter.upper()}" for letter in axes)
        text = text.replace("outputs:\n", f"  - {{name: {name}, dims: {{{dims}}}}}\noutputs:\n")
        text = text.replace(", out_0: s32", f", {name}: s32, out_0: s32")
    return text, added


@pytest.mark.parametrize("seed", range(3))
def test_products_of_differences_are_contractions_and_exact(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng([7, seed])
    one = random_contractions.draw(rng, f"Differences{seed}", "")
    while len(one.factors) != 2:
        one = random_contractions.draw(rng, f"Differences{seed}", "")
    text, added = differences(rng, one)
    library, kernels = package({"differences.yaml": text}, tmp_path, f"differences_package_{seed}")
    op = library.op(one.op)
    left, right = map(set, one.factors)
    assert any(phase.contraction for phase in staged(op).phases) or not (left - right and right - left), text
    for isa, bound in itertools.product(here(kernels, *ISAS), (1_000, 30_000)):
        extents = dict.fromkeys("abcdefgh", 0)
        small = random_contractions.inputs(rng, one, "f32", bound)
        for tensor, array in zip(op.inputs, small):
            extents |= dict(zip((axis.lower() for axis in tensor.dims), array.shape))
        inputs = [rng.integers(-128, 128, array.shape).astype(np.int8) for array in small]
        inputs += [rng.integers(-99, 99, [extents[axis] for axis in axes]).astype(np.int32) for axes in added]
        expected = compute_steps(op, inputs, {"made": "s32"})["out_0"]
        with capped_at(kernels, isa):
            for threads in (1, 3):
                forget(kernels)
                found = getattr(kernels, op.function)(*inputs, made="s32", threads=threads)
                assert (found.astype(np.float64) == expected.astype(np.float64)).all(), (isa, text)


@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_convolutions_of_bytes_with_zero_points_are_contractions_and_exact(
    seed: int, tiled: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taps outside add nothing, whatever the zero point is; of some calls tiles read the windows."""
    rng = np.random.default_rng([8, seed + 3 * tiled])
    name = f"Windows{seed}{'Tiled' * tiled}"
    text = random_byte_windows.draw(rng, name)
    read: list[bool] = []
    library, kernels = package({"windows.yaml": text}, tmp_path, f"byte_windows_package_{seed}_{tiled}")
    op = library.op(name)
    assert any(phase.contraction for phase in staged(op).phases), text
    made = kernels._contractions._byte_windows.problem_of

    def counted(*places: Any, tiled: bool) -> Any:
        found = made(*places, tiled=tiled)
        read.append(tiled and found is not None)
        return found

    monkeypatch.setattr(kernels._contractions._byte_windows, "problem_of", counted)
    rows = [row for row in random_byte_windows.ROWS if row[1] == "s8" or not tiled]
    for isa, row, _ in itertools.product(here(kernels, *ISAS), rows, range(1 + 2 * tiled)):
        inputs, attributes = random_byte_windows.call(rng, op.inputs, row, tiled=tiled)
        expected = compute_steps(op, inputs, attributes)["dst"]
        with capped_at(kernels, isa):
            for threads in (1, 3):
                forget(kernels)
                found = getattr(kernels, op.function)(*inputs, **attributes, threads=threads)
                same = found.astype(np.float64) == expected.astype(np.float64)
                assert (same | (abs(expected) > 2**24)).all(), (isa, row, attributes, text)
    assert any(read) or not tiled, text


CHANNELS = """
op: Channels
revision: 1
summary: Windows along one channel each.
dims: {time: {symbol: T}, channels: {symbol: C}, taps: {symbol: K}}
inputs: [{name: x, dims: {T: T, C: C}}, {name: w, dims: {K: K, C: C}}]
outputs: [{name: y, dims: {T: T, C: C}}]
dtypes: [{x: s8, w: s8, y: f32, accumulate: f32}]
semantics:
  ranges: {t: T, c: C, k: K}
  steps: ["y[t, c] += x[t + k - 2, c] * w[k, c]"]
"""


def test_windows_of_one_channel_each_have_lanes_along_channels(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    x, w = rng.integers(-128, 128, (50, 70)).astype(np.int8), rng.integers(-128, 128, (5, 70)).astype(np.int8)
    _, kernels = package({"channels.yaml": CHANNELS}, tmp_path, "byte_channels_package")
    assert "gathered" not in str(kernels.explain("channels", x, w))
    around = np.pad(x.astype(np.float64), ((2, 2), (0, 0)))
    expected = sum(around[tap : tap + 50] * w[tap] for tap in range(5))
    assert (kernels.channels(x, w, threads=2) == expected).all()
