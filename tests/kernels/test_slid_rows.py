"""Windows over pixels with a last axis of their own: rows of both are one where calls have them so, with the same values."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from opwright.derive.phases import staged
from opwright.load import load_texts
from opwright.oracle.run_steps import compute_steps
from opwright.oracle.validate import NUMPY
from support.draws import FULL, rng
from support.package import package
from support.spec_packages import instruction_set, serving
from support.step_verdicts import first_disagreement

SPEC = """op: SlidRows
revision: 1
summary: Windows over rows of pixels.
dims: {{samples: {{symbol: N}}, wide: {{symbol: W}}, channels: {{symbol: C}}}}
inputs: [{{name: x, dims: {{N: N, W: W, C: C}}}}]
outputs: [{{name: y, dims: {{N: N, V: {extent}, C: C}}}}]
dtypes:
  - {{x: f32, y: f32, accumulate: f32}}
  - {{x: bf16, y: bf16, accumulate: f32}}
  - {{x: u8, y: f32, accumulate: f32}}
  - {{x: f16, y: f16, accumulate: f32}}
semantics:
  ranges: {{n: N, w: {extent}, c: C, q: 3}}
  steps:
{steps}
"""
EXTENTS = {"valid": ("W - 2", "w + q"), "same": ("W", "w + q - 1"), "causal": ("W", "w + q - 2"), "far": ("W", "w - q")}
EXTENTS |= {"apart": ("W - 4", "w + 2 * q")}
STEPS = {
    "sums": ("y[n, w, c] += x[n, {0}, c]",),
    "means": ("t[n, w, c] += x[n, {0}, c]", "y[n, w, c] = t[n, w, c] / 3"),
    "greatest": ("y[n, w, c] max= x[n, {0}, c]",),
    "range": ("p[n, w, c] max= x[n, {0}, c]", "m[n, w, c] min= x[n, {0}, c]", "y[n, w, c] = p[n, w, c] - m[n, w, c]"),
    "squares": ("y[n, w, c] += x[n, {0}, c] * x[n, {0}, c]",),
}
FILTER = """op: FewChannels
revision: 1
summary: Filters of images whose few channels lie last.
dims: {{samples: {{symbol: N}}, high: {{symbol: H}}, wide: {{symbol: W}}, channels: {{symbol: C}}, taps: {{symbol: K}}}}
inputs: [{{name: x, dims: {{N: N, H: H, W: W, C: C}}}}, {{name: g, dims: {{P: 2, K: K}}}}]
outputs: [{{name: y, dims: {{N: N, {outer}}}}}]
dtypes:
  - {{x: f32, g: f32, y: f32, accumulate: f32}}
  - {{x: bf16, g: bf16, y: bf16, accumulate: f32}}
semantics:
  ranges: {{n: N, h: H, w: W, c: C, p: 2, k: K}}
  steps:
{steps}
"""
FILTERS = {
    "plain": ("y[n, h, w, c] += x[n, h + p - 1, w + k - 1, c] * g[p, k]",),
    "finished": (
        "t[n, h, w, c] += x[n, h + p - 1, w + k - 1, c] * g[p, k]",
        "y[n, h, w, c] = max(t[n, h, w, c] + 1, 0)",
    ),
    "spread": ("y[n, h + p - 1, w + k - 1, c] += x[n, h, w, c] * g[p, k]",),
    "turned": ("y[n, c, h, w] += x[n, h + p - 1, w + k - 1, c] * g[p, k]",),
}
SIZES = [(2, 5, 7, 3, 3), (1, 9, 33, 1, 2), (3, 4, 40, 5, 4), (1, 3, 21, 16, 3), (2, 6, 19, 33, 5)]


def text(steps: str, extent: str) -> str:
    size, index = EXTENTS[extent]
    return SPEC.format(extent=size, steps="".join(f"    - {one.format(index)}\n" for one in STEPS[steps]))


@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize("steps", STEPS)
def test_rows_of_pixels_and_channels_are_one(steps: str, extent: str) -> None:
    (op,) = load_texts({"rows.yaml": text(steps, extent)}).ops
    forms = [phase.merged for phase in staged(op).phases]
    assert forms != [None] * len(forms)
    assert all(
        form.program.arrays["x"].axes[-1].extent != op.inputs[0].dims["C"].tree for form in forms if form is not None
    )


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(25 if FULL else 5))
def test_windows_over_rows_agree_with_the_interpreter(seed: int, tmp_path: Path) -> None:
    steps, extent = list(STEPS)[seed % len(STEPS)], list(EXTENTS)[(seed + seed // len(STEPS)) % len(EXTENTS)]
    library, module = package({"rows.yaml": text(steps, extent)}, tmp_path, f"slid_{seed}")
    seen = Counter[str]()
    for isa in serving(module, library.ops[0]):
        with instruction_set(module, isa):
            problem = first_disagreement(module, library.ops[0], rng("slid rows", seed, isa), 20 if FULL else 8, seen)
            assert problem is None, problem


@pytest.mark.parametrize("extent", EXTENTS)
def test_rows_of_any_number_of_channels_are_those_of_the_interpreter(extent: str, tmp_path: Path) -> None:
    """Pixels without gaps, of few channels or many, and views in which they have some or lie in another order."""
    library, module = package({"rows.yaml": text("means", extent)}, tmp_path, f"slid_sizes_{extent}")
    random = rng("slid sizes", extent)
    for n, w, c in ((2, 9, 3), (1, 40, 24), (2, 31, 33), (1, 9, 64), (3, 5, 1)):
        whole = random.integers(-9, 9, (n, w, 2 * c)).astype("f4")
        for x in (whole[:, :, :c].copy(), whole[:, :, ::2], whole[:, ::-1, c:], whole[:, :, :c].copy(order="F")):
            expected = compute_steps(library.ops[0], [x], {})["y"]
            for threads in (1, 3):
                np.testing.assert_allclose(module.slid_rows(x, threads=threads), expected, rtol=1e-6)


@pytest.mark.parametrize("kind", FILTERS)
def test_filters_of_few_channels_give_exact_sums(kind: str, tmp_path: Path) -> None:
    outer = "C: C, H: H, W: W" if kind == "turned" else "H: H, W: W, C: C"
    steps = "".join(f"    - {one}\n" for one in FILTERS[kind])
    library, module = package({"filter.yaml": FILTER.format(outer=outer, steps=steps)}, tmp_path, f"few_{kind}")
    random = rng("few channels", kind)
    for isa in serving(module, library.ops[0]):
        with instruction_set(module, isa):
            for n, h, w, c, k in SIZES:
                for dtype in ("f32", "bf16"):
                    x = random.integers(-3, 4, (n, h, w, c)).astype(NUMPY[dtype])
                    g = random.integers(-2, 3, (2, k)).astype(NUMPY[dtype])
                    expected = compute_steps(library.ops[0], [x, g], {})["y"]
                    found = [module.few_channels(x, g, threads=threads) for threads in (1, 2)]
                    assert all(one.tobytes() == np.asarray(expected).astype(one.dtype).tobytes() for one in found)
