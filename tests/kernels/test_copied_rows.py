"""Short rows that only change places, several of which are copied by one call, as they stand or with 0 added."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest
from support.draws import rng
from support.guarded import guarded
from support.package import package

TYPES = {
    "f32": np.dtype(np.float32),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f16": np.dtype(np.float16),
    "u8": np.dtype(np.uint8),
    "f64": np.dtype(np.float64),
}
HEAD = """
op: {name}
revision: 1
summary: Rows that change places.
dims:
  samples: {{symbol: B}}
  heads: {{symbol: H}}
  places: {{symbol: L}}
  cells: {{symbol: D}}{more}
inputs: [{{name: x, dims: {{B: B, L: L, H: H, E: 2 * D}}, summary: Rows.}}]
outputs: [{outputs}]
dtypes:
{rows}
{shape}
semantics:
  ranges: {{b: B, h: H, l: L, d: D}}
  steps:
{steps}"""
OUT = "{{name: {0}, dims: {{B: B, H: H, L: L, {1}}}, summary: Rows.}}"
SPLIT = "    - q[b, h, l, d] = x[b, l, h, d]\n    - k[b, h, l, d] = x[b, l, h, D + d]\n"
JOINED = "    - q[b, h, l, d] += x[b, l, h, D + d]\n    - q[b, h, l, D + d] += x[b, l, h, d]\n"
APART = "    - q[b, h, l, 3 * d + 1] += x[b, l, h, d]\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    def spec(name: str, steps: str, axis: str, *names: str) -> str:
        accumulate = {dtype: "f64" if dtype == "f64" else "f32" for dtype in TYPES}
        kinds = {dtype: ", ".join(f"{one}: {dtype}" for one in ("x", *names)) for dtype in TYPES}
        return HEAD.format(
            name=name,
            more="\n  wide: {symbol: E}" if "E" in axis else "",
            outputs=", ".join(OUT.format(one, axis) for one in names),
            rows="\n".join(f"  - {{{kinds[dtype]}, accumulate: {accumulate[dtype]}}}" for dtype in TYPES),
            shape='shape: {E: "2 * D"}' if "E" in axis else "",
            steps=steps,
        )

    texts = {
        "Halves.yaml": spec("Halves", SPLIT, "D: D", "q", "k"),
        "Swapped.yaml": spec("Swapped", JOINED, "E: E", "q"),
        "Apart.yaml": spec("Apart", APART, 'F: "3 * D + 2"', "q"),
    }
    return package(texts, Path(tmp_path_factory.mktemp("copied_rows")), "copied_rows_package")[1]


NUMBERED = """
op: Numbered
revision: 1
summary: The first place of a maximum, by the number of a letter that two axes take apart.
dims: {rows: H, cells: W}
inputs: [{name: x, dims: {H: H, W: W}, summary: Cells.}]
outputs: [{name: y, dims: {H: H, W: W}, summary: Places.}]
dtypes: [{x: f32, y: f32, accumulate: f32}]
semantics:
  ranges: {p: "floor(H / 2)", q: "floor(W / 2)", k: 4, r: 3}
  steps:
    - "m[p, q] max= x[2 * p + floor(k / 2), 2 * q + k % 2]"
    - "y[2 * p + floor(k / 2), 2 * q + k % 2] += select(x[2 * p + floor(k / 2), 2 * q + k % 2] == m[p, q], number(r, k) + 10 * number(k), 0)"
"""
STRETCHED = """
op: Stretched
revision: 1
summary: Each cell many times.
dims: {rows: B, columns: C}
attributes: [{name: times, symbol: T, type: s64, required: true, min: 0, summary: How many times.}]
inputs: [{name: x, dims: {X: B, Y: C}, summary: Cells.}]
outputs: [{name: y, dims: {X: B, Y: C, Z: T}, summary: Rows.}]
dtypes: [{x: f32, y: f32, accumulate: f32}, {x: bf16, y: bf16, accumulate: f32}, {x: u8, y: u8, accumulate: f32}]
semantics:
  ranges: {b: B, c: C, t: T}
  steps:
    - "y[b, c, t] VALUE x[b, c]"
"""
FILLED = """
op: Filled
revision: 1
summary: A number many times.
dims: {}
attributes: [{name: times, symbol: T, type: s64, required: true, min: 0, summary: How many times.}]
inputs: [{name: x, dims: {}, summary: A number.}]
outputs: [{name: y, dims: {Z: T}, summary: A row.}]
dtypes: [{x: f32, y: f32, accumulate: f32}, {x: bf16, y: bf16, accumulate: f32}, {x: u8, y: u8, accumulate: f32}]
semantics:
  ranges: {t: T}
  steps:
    - "y[t] = x[]"
"""


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    texts = {"Numbered.yaml": NUMBERED, "Stretched.yaml": STRETCHED.replace("VALUE", "=")}
    texts |= {"Filled.yaml": FILLED, "Added.yaml": STRETCHED.replace("VALUE", "+=").replace("Stretched", "Added")}
    return package(texts, Path(tmp_path_factory.mktemp("other_rows")), "other_rows_package")[1]


def test_a_letter_that_axes_take_apart_keeps_its_number(others: ModuleType, isa: str) -> None:
    x = rng("numbered digits").permutation(30).reshape(6, 5).astype(np.float32)
    expected = np.zeros_like(x)
    for p, q in np.ndindex(3, 2):
        k = int(x[2 * p : 2 * p + 2, 2 * q : 2 * q + 2].argmax())
        expected[2 * p + k // 2, 2 * q + k % 2] = sum(4 * r + k + 10 * k for r in range(3))
    assert (others.numbered(x) == expected).all()


@pytest.mark.parametrize("dtype", ["f32", "bf16", "u8"])
def test_a_row_of_one_cell_has_that_cell(others: ModuleType, dtype: str, isa: str) -> None:
    x = np.arange(64 * 33).reshape(64, 33) % 250
    for times in (0, 1, 7, 16, 33, 128, 130):
        for view in (x.astype(TYPES[dtype]), np.repeat(x, 2, 1).astype(TYPES[dtype])[:, ::2]):
            for function in (others.stretched, others.added):
                assert (function(view, times=times) == view[..., None]).all(), times
            assert (others.filled(view[3:4, 5].reshape(()), times=times) == np.full(times, view[3, 5])).all()


PIXELS = """
op: {name}
revision: 1
summary: Pixels that change places.
dims: {{rows: H, columns: W{more}}}
inputs: [{{name: x, dims: {{H: H, W: W, C: {cells}}}, summary: Pixels.}}]
outputs: [{{name: y, dims: {{{axes}, C: {cells}}}, summary: Pixels.}}]
dtypes:
{rows}
semantics:
  ranges: {{h: H, w: W, c: {cells}}}
  steps:
    - "{step}"
"""
STEPS = {"flip": "y[h, w, c] = x[h, W - 1 - w, c]", "turn": "y[w, h, c] = x[h, w, c]"}


@pytest.fixture(scope="module")
def pixels(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    rows = "\n".join(f"  - {{x: {one}, y: {one}, accumulate: {'f64' if one == 'f64' else 'f32'}}}" for one in TYPES)
    texts = {}
    for kind, step in STEPS.items():
        for cells, more in {"C": ", cells: C", "2": "", "3": ""}.items():
            name, axes = f"{kind.title()}Of{cells}", "H: H, W: W" if kind == "flip" else "W: W, H: H"
            texts[f"{name}.yaml"] = PIXELS.format(name=name, more=more, cells=cells, axes=axes, rows=rows, step=step)
    return package(texts, Path(tmp_path_factory.mktemp("pixels")), "pixels_package")[1]


@pytest.mark.parametrize("dtype", TYPES)
def test_pixels_are_copied_to_the_bit_and_nothing_beside_them_is_read(pixels: ModuleType, dtype: str, isa: str) -> None:
    random, kind = rng("pixels", dtype), TYPES[dtype]
    for cells in (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17):
        for rows, columns in [(1, 1), (3, 40), *(tuple(map(int, random.integers(0, 90, 2))) for _ in range(3))]:
            whole = random.integers(0, 256, (rows, columns, cells * kind.itemsize)).astype(np.uint8).view(kind)
            wide = np.repeat(whole, 2, 1)[:, ::2]
            for view in (guarded(whole, True), guarded(whole, False), wide, whole[:, ::-1], whole[::-1]):
                for names in ("of_c", *([f"of{cells}"] if cells in (2, 3) else [])):
                    for threads in (1, 3):
                        flipped = getattr(pixels, f"flip_{names}")(view, threads=threads)
                        turned = getattr(pixels, f"turn_{names}")(view, threads=threads)
                        assert (bits(flipped) == bits(view[:, ::-1])).all(), (view.shape, view.strides)
                        assert (bits(turned) == bits(view.transpose(1, 0, 2))).all(), (view.shape, view.strides)


def bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")


@pytest.mark.parametrize("dtype", TYPES)
def test_rows_of_any_length_are_copied_to_the_bit(built: ModuleType, dtype: str, isa: str) -> None:
    random, kind = rng("copied rows", dtype), TYPES[dtype]
    for cells in (0, 1, 4, 7, 8, 15, 16, 17, 31, 33, 64, 65, 300):
        b, h, t = (int(random.integers(0 if cells == 4 else 1, 6)) for _ in range(3))
        x = random.integers(-3, 4, (b, t, h, 2 * cells)).astype(kind)
        if kind.kind != "u":
            x[x == 1], x[x == 2] = -0.0, np.nan
        for view in (x, x[:, ::-1], x[..., ::-1].copy()[..., ::-1], np.repeat(x, 2, 2)[:, :, ::2]):
            expected = view.transpose(0, 2, 1, 3)
            room = np.ones((b, h, t, 2 * cells + 2), kind)
            for threads in (1, 3):
                q, k = built.halves(view, threads=threads)
                assert (bits(q) == bits(expected[..., :cells])).all(), (cells, view.strides)
                assert (bits(k) == bits(expected[..., cells:])).all(), (cells, view.strides)
                swapped = np.concatenate([expected[..., cells:], expected[..., :cells]], -1) + kind.type(0)
                apart = np.zeros((b, h, t, 3 * cells + 2), kind)
                apart[..., 1:-1:3] = expected[..., :cells] + kind.type(0)
                in_room = built.swapped(view, out=room[..., 1:-1], threads=threads)
                made = [(built.swapped(view, threads=threads), swapped), (in_room, swapped)]
                for found, wanted in (*made, (built.apart(view, threads=threads), apart)):
                    same = (found == wanted) | ((found != found) & (wanted != wanted))
                    assert same.all(), (cells, view.strides)
                    assert kind.kind == "u" or not np.signbit(found.astype(np.float64))[found == 0].any()
                assert (room[..., 0] == 1).all()
                assert (room[..., -1] == 1).all()
