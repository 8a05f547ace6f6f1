"""Sums over windows with several weights, divided or not, at whose borders cells are mirrored, repeated or go around."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from opwright.derive.phases import staged
from opwright.derive.rewrites.fitting import fitting, fitting_sizes
from opwright.load import load_texts
from opwright.oracle.validate import NUMPY
from support.draws import FULL, rng
from support.package import package
from support.spec_packages import instruction_set, serving
from support.step_verdicts import first_disagreement

WINDOWS = """op: WeightedWindows
revision: 1
summary: Weighted windows.
dims: {{samples: {{symbol: N}}, channels: {{symbol: C}}, high: {{symbol: H{least}}}, wide: {{symbol: W{least}}},
  rows: {{symbol: P}}, columns: {{symbol: Q}}}}
inputs: [{{name: x, dims: {{N: N, C: C, H: H, W: W}}}}, {{name: f, dims: {{U: 3}}}}, {{name: g, dims: {{V: 3}}}}]
outputs: [{{name: y, dims: {{N: N, C: C, P: P, Q: Q}}}}]
dtypes:
  - {{x: f32, f: f32, g: f32, y: f32, accumulate: f32}}
  - {{x: bf16, f: bf16, g: bf16, y: bf16, accumulate: f32}}
  - {{x: bf16, f: f32, g: f32, y: bf16, accumulate: f32}}
shape: {{P: "floor((H - 1) / {step}) + 1", Q: "floor((W - 1) / {step}) + 1"}}
semantics:
  ranges: {{n: N, c: C, p: P, q: Q, u: 3, v: 3}}
  steps:
    - y[n, c, p, q] += x[n, c, {row}, {column}] * {weights}
"""
BORDERS = {
    "mirrored": "min(max({0}, -({0})), 2 * {1} - 2 - ({0}))",
    "repeated": "min(max({0}, 0), {1} - 1)",
    "around": "({0}) % {1}",
    "twice": "floor(({0}) / 2)",
}
WEIGHTS = ("f[u] * g[v]", "f[u] * g[v] / 4", "(2 - abs(u - 1)) * f[v] * (g[0] / 2)", "f[u] * g[v] * f[v]")


def text(border: str, step: int, weights: str, least: str = ", min: 3") -> str:
    row, column = (
        BORDERS[border].format(f"{step} * {letter} + {tap} - 1" if step > 1 else f"{letter} + {tap} - 1", extent)
        for letter, tap, extent in (("p", "u", "H"), ("q", "v", "W"))
    )
    return WINDOWS.format(step=step, row=row, column=column, weights=weights, least=least)


@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("weights", WEIGHTS)
def test_windows_of_several_weights_are_products(border: str, weights: str) -> None:
    for step in (1, 2):
        (op,) = load_texts({"windows.yaml": text(border, step, weights)}).ops
        assert any(phase.contraction is not None for phase in staged(op).phases)


def test_mirrored_windows_are_products_where_a_call_has_the_cells_for_them() -> None:
    (op,) = load_texts({"windows.yaml": text("mirrored", 1, WEIGHTS[0], "")}).ops
    fits = fitting(op)
    assert fits is not None
    assert fitting_sizes(op) == "H >= 4, W >= 4"
    assert all(phase.contraction is None for phase in staged(op).phases)
    assert any(phase.contraction is not None for phase in staged(fits).phases)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(12 if FULL else 2))
def test_windows_of_several_weights_agree_with_the_interpreter(seed: int, tmp_path: Path) -> None:
    random, seen = rng("weighted", seed), Counter[str]()
    border, weights = list(BORDERS)[seed % len(BORDERS)], WEIGHTS[int(random.integers(len(WEIGHTS)))]
    given = {"windows.yaml": text(border, 1 + seed % 2, weights, ("", ", min: 3")[seed % 2])}
    library, module = package(given, tmp_path, f"weighted_{seed}")
    for isa in serving(module, library.ops[0]):
        with instruction_set(module, isa):
            problem = first_disagreement(module, library.ops[0], rng(seed, isa), 20 if FULL else 8, seen)
            assert problem is None, f"{isa}: {problem}"


BLOCKS = """op: Blocks
revision: 1
summary: Windows of blocks of cells.
dims: {{samples: N, channels: C, outputs: O, cells: W, windows: T, taps: K{size}}}
inputs: [{{name: x, dims: {{A: N, B: C, W: W}}}}, {{name: f, dims: {{{axes}}}}}]
outputs: [{{name: y, dims: {{A: N, B: O, T: T}}}}]
dtypes: [{{x: {kind}, f: {kind}, y: {kind}, accumulate: f32}}]
shape: {{T: floor(W / {step})}}
semantics:
  ranges: {{n: N, o: O, c: C, t: T, k: K, i: {each}}}
  steps: ["y[n, o, t] += x[n, c, {step} * t + {each} * k + i - {pad}] * f[{at}]"]
"""


def blocks(seed: int, kind: str = "f32") -> str:
    """Blocks of a number of cells or of a size, which weights have along two axes of any order."""
    random = rng("blocks", seed)
    each, at = ("2", "3", "P")[seed % 3], [str(letter) for letter in random.permutation([*"ocki"])]
    extents = {"o": "O", "c": "C", "k": "K", "i": each}
    axes = ", ".join(f"{letter.upper()}{letter}: {extents[letter]}" for letter in at)
    size, pad, step = ", each: P" * (each == "P"), int(random.integers(3)), int(random.integers(1, 4))
    given = {"size": size, "axes": axes, "kind": kind, "step": step, "each": each, "pad": pad, "at": ", ".join(at)}
    return BLOCKS.format(**given)


@pytest.mark.parametrize("seed", range(3))
def test_windows_of_blocks_are_products(seed: int) -> None:
    (op,) = load_texts({"blocks.yaml": blocks(seed)}).ops
    assert any(phase.contraction is not None for phase in staged(op).phases)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(12 if FULL else 2))
def test_windows_of_blocks_agree_with_the_interpreter(seed: int, tmp_path: Path) -> None:
    text = blocks(seed + 1, ("f32", "bf16")[seed % 2])
    library, module = package({"blocks.yaml": text}, tmp_path, f"blocks_{seed}")
    problem = first_disagreement(module, library.ops[0], rng("blocks", seed), 20 if FULL else 8, Counter())
    assert problem is None, f"{text}: {problem}"


MEAN = """op: OuterMean
revision: 1
summary: The mean of outer products.
dims: {samples: {symbol: N}, rows: {symbol: I}, columns: {symbol: J}}
inputs: [{name: a, dims: {N: N, I: I}}, {name: b, dims: {N: N, J: J}}]
outputs: [{name: y, dims: {I: I, J: J}}]
dtypes: [{a: f32, b: f32, y: f32, accumulate: f32}, {a: bf16, b: bf16, y: bf16, accumulate: f32}]
semantics: {ranges: {n: N, i: I, j: J}, steps: ["y[i, j] += VALUE"]}
"""


@pytest.mark.parametrize("value", ["a[n, i] * b[n, j] / N", "a[n, i] / N * b[n, j]", "a[n, i] * (b[n, j] / 2) / N"])
def test_divisors_without_letters_divide_the_sums(value: str, tmp_path: Path) -> None:
    library, module = package({"mean.yaml": MEAN.replace("VALUE", value)}, tmp_path, f"mean_{abs(hash(value))}")
    (product, finish) = staged(library.ops[0]).phases
    assert product.contraction is not None
    assert finish.finishes == product.contraction.target.tensor
    for isa in serving(module, library.ops[0])[: None if FULL else 1]:
        with instruction_set(module, isa):
            problem = first_disagreement(module, library.ops[0], rng(isa, value), 6, Counter[str]())
            assert problem is None, f"{isa}: {problem}"


LAST = """op: Blur
revision: 1
summary: Windows of every channel with the same weights, channels last.
dims: {samples: N, high: H, wide: W, channels: C, rows: P, columns: Q, taps: {symbol: U, min: 1}}
attributes: [{name: stride, symbol: S, type: s64, default: "1", min: 1}]
inputs: [{name: x, dims: {N: N, H: H, W: W, C: C}}, {name: f, dims: {U: U}}]
outputs: [{name: y, dims: {N: N, P: P, Q: Q, C: C}}]
dtypes:
  - {x: f32, f: f32, y: f32, accumulate: f32}
  - {x: bf16, f: f32, y: bf16, accumulate: f32}
  - {x: bf16, f: bf16, y: f32, accumulate: f32}
shape: {P: "floor((H - 1) / S) + 1", Q: "floor((W - 1) / S) + 1"}
semantics:
  ranges: {n: N, p: P, q: Q, c: C, u: U, v: U}
  steps:
    - y[n, p, q, c] += x[n, S * p + u - 1, S * q + v - 1, c] * f[u] * f[v]
"""


@pytest.mark.sweep
def test_channels_that_share_their_weights_are_windows_of_their_own(tmp_path: Path) -> None:
    random = rng("shared weights")
    library, module = package({"blur.yaml": LAST}, tmp_path, "shared_weights")
    for isa in serving(module, library.ops[0]):
        with instruction_set(module, isa):
            for n, h, w, c, taps, stride in (
                (2, 5, 7, 16, 3, 1),
                (1, 9, 4, 37, 2, 2),
                (3, 1, 6, 33, 4, 1),
                (1, 4, 4, 1, 3, 2),
            ):
                for row in library.ops[0].dtypes:
                    x, f = (
                        random.integers(-3, 4, shape).astype(NUMPY[row[k]])
                        for k, shape in (("x", (n, h, w, c)), ("f", (taps,)))
                    )
                    padded = np.pad(x.astype(np.float64), ((0, 0), (1, taps), (1, taps), (0, 0)))
                    whole = sum(
                        padded[:, u : u + h, v : v + w] * float(f[u]) * float(f[v])
                        for u in range(taps)
                        for v in range(taps)
                    )
                    found = module.blur(x, f, stride=stride)
                    expected = whole[:, ::stride, ::stride].astype(np.float32).astype(NUMPY[row["y"]])
                    assert (found == expected).all(), f"{isa} {row} {(n, h, w, c, taps, stride)}"


FILTERS = """op: Filters
revision: 1
summary: A filter of each channel, or one of all, and the gradient of these.
dims: {samples: N, channels: C, wide: W, columns: Q, taps: {symbol: K, min: 1}, spread: Z}
attributes:
  - {name: stride, symbol: S, type: s64, default: "1", min: 1}
  - {name: data_format, type: string, default: NXC, values: [NCX, NXC]}
layouts: {data_format: {NCX: [N, C, X], NXC: [N, X, C]}}
inputs:
  - {name: x, layout: data_format, dims: {N: N, C: C, X: W}}
  - {name: f, dims: {SHARED K: K}}
  - {name: d, layout: data_format, dims: {N: N, C: C, X: Q}}
outputs:
  - {name: y, layout: data_format, dims: {N: N, C: C, X: Q}}
  - {name: g, dims: {SHARED K: K}}
  - {name: z, layout: data_format, dims: {N: N, C: C, X: Z}}
dtypes:
  - {x: f32, f: f32, d: f32, y: f32, g: f32, z: f32, accumulate: f32}
  - {x: bf16, f: f32, d: bf16, y: bf16, g: f32, z: f32, accumulate: f32}
  - {x: bf16, f: bf16, d: bf16, y: f32, g: bf16, z: bf16, accumulate: f32}
shape: {Z: "S * Q + K", Q: "floor((W - 1) / S) + 1"}
semantics:
  ranges: {n: N, c: C, q: Q, k: K}
  steps:
    - y[n, c, q] += x[n, c, S * q + k - 1] * f[LETTER k]
    - g[LETTER k] += x[n, c, S * q + k - 1] * d[n, c, q]
    - z[n, c, S * q + k] += d[n, c, q] * f[LETTER k]
"""


@pytest.mark.sweep
@pytest.mark.parametrize("shared", [True, False])
def test_filters_of_one_channel_or_of_each_agree_with_the_interpreter(shared: bool, tmp_path: Path) -> None:
    """Calls have one channel or many, few taps or more than a row of registers, in both layouts."""
    given = FILTERS.replace("SHARED ", "" if shared else "C: C, ").replace("LETTER ", "" if shared else "c, ")
    seen, name = Counter[str](), f"filters_{shared}"
    library, module = package({"filters.yaml": given}, tmp_path, name)
    for isa in serving(module, library.ops[0]):
        with instruction_set(module, isa):
            problem = first_disagreement(module, library.ops[0], rng(name, isa), 40 if FULL else 12, seen)
            assert problem is None, f"{isa}: {problem}"


@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_sums_of_windows_are_finished_along_what_lies_together_in_the_output(layout: str, tmp_path: Path) -> None:
    left_out = tuple(f"- {mark}" for name in "dgz" for mark in (f"{{name: {name},", f"{name}["))
    kept = [line for line in FILTERS.splitlines() if not line.strip().startswith(left_out)]
    only = re.sub(r', [dgz]: \w+|, spread: Z|Z: "S \* Q \+ K", ', "", "\n".join(kept))
    given = only.replace("SHARED ", "C: C, ").replace("LETTER ", "c, ")
    _, module = package({"filters.yaml": given}, tmp_path, f"finished_{layout}")
    x = np.zeros((2, 32, 40) if layout == "NCX" else (2, 40, 32), NUMPY["bf16"])
    found = module.explain("filters", x, np.zeros((32, 3), np.float32), data_format=layout)
    *_, lanes = (text for text, _ in found.schedules if text.startswith("lanes"))
    assert lanes == ("lanes along q" if layout == "NCX" else "lanes along c")


TURNED = """op: Turned
revision: 1
summary: Filters whose rows of taps lie apart.
dims: {samples: N, channels: C, high: H, wide: W, rows: P, columns: Q, up: {symbol: U, min: 1}, side: {symbol: V, min: 1}}
attributes: [{name: stride, symbol: S, type: s64, default: "1", min: 1}]
inputs: [{name: x, dims: {N: N, C: C, H: H, W: W}}, {name: f, dims: {V: V, U: U, C: C}}]
outputs: [{name: y, dims: {N: N, C: C, P: P, Q: Q}}]
dtypes:
  - {x: bf16, f: f32, y: bf16, accumulate: f32}
  - {x: f16, f: f32, y: f16, accumulate: f32}
  - {x: bf16, f: bf16, y: f32, accumulate: f32}
shape: {P: "floor((H - U) / S) + 1", Q: "floor((W - V) / S) + 1"}
semantics:
  ranges: {n: N, c: C, p: P, q: Q, u: U, v: V}
  steps:
    - y[n, c, p, q] += x[n, c, S * p + u, S * q + v] * f[v, u, c]
"""


@pytest.mark.sweep
def test_filters_whose_taps_lie_in_another_order_are_read_as_they_lie(tmp_path: Path) -> None:
    random = rng("turned taps")
    library, module = package({"turned.yaml": TURNED}, tmp_path, "turned_taps")
    for isa in serving(module, library.ops[0])[: None if FULL else 1]:
        with instruction_set(module, isa):
            for c, h, w, up, side, stride in ((1, 9, 9, 3, 3, 2), (3, 12, 40, 3, 2, 1), (17, 9, 7, 5, 3, 1)):
                for row in library.ops[0].dtypes:
                    x, f = (
                        random.integers(-3, 4, shape).astype(NUMPY[row[name]])
                        for name, shape in (("x", (2, c, h, w)), ("f", (side, up, c)))
                    )
                    seen = np.lib.stride_tricks.sliding_window_view(x.astype(np.float32), (up, side), axis=(2, 3))
                    whole = np.einsum("ncpquv,vuc->ncpq", seen[:, :, ::stride, ::stride], f.astype(np.float32))
                    found = module.turned(x, f, stride=stride)
                    assert (found == whole.astype(NUMPY[row["y"]])).all(), f"{isa} {row} {(c, h, w, up, side)}"
