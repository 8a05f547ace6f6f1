"""Sums of which each cell has terms of its own, copies whose cells two letters count, and values at windows: random
specs, on random calls, with vectors and without."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from opwright.derive.phases import staged
from opwright.language.library import Library
from opwright.load import load_texts
from support.package import package
from support.spec_packages import instruction_set, serving
from support.step_verdicts import first_disagreement

FIRST, LAST = ("N", "C", "H", "W"), ("N", "H", "W", "C")
VALUES = ("{x} * {x}", "{x} * {z}", "max({x}, 0)", "(2 - {z}) * abs({x})", "select({x} > 0.5, {x}, 0.25 * {x})")
TYPES = (("f32", "f32"), ("bf16", "f32"))


def spec(op: str, axes: Sequence[str], out: str, sizes: str, ranges: str, steps: Sequence[str], more: str = "") -> str:
    """A spec of the inputs that its steps read."""
    given = {"x": axes, "z": axes, "f": ("U", "V")}
    extents = {"U": "3", "V": "3"}
    names = [name for name in given if any(f"{name}[" in step for step in steps)]
    inputs = "\n".join(
        f"  - {{name: {name}, dims: {{{', '.join(f'{axis}: {extents.get(axis, axis)}' for axis in given[name])}}}}}"
        for name in names
    )
    rows = "\n".join(
        f"  - {{{', '.join(f'{name}: {dtype}' for name in (*names, 'y'))}, accumulate: {sums}}}"
        for dtype, sums in TYPES
    )
    body = "\n".join(f"    - {step}" for step in steps)
    return f"""op: {op}
revision: 1
summary: Cells that share terms.
dims: {{samples: N, high: {{symbol: H, min: 3}}, wide: {{symbol: W, min: 3}}, channels: C{sizes}}}
inputs:
{inputs}
outputs:
  - {{name: y, dims: {{{out}}}}}
dtypes:
{rows}
{more}
semantics:
  ranges: {{{ranges}}}
  steps:
{body}
"""


def pieces(rng: np.random.Generator, number: int) -> str:
    """Each cell has terms of a piece of an axis, whose bounds are quotients."""
    axes = LAST if rng.integers(2) else FIRST
    cell = ", ".join(axis.lower() for axis in axes)
    target, rounded = cell.replace("w", "o"), str(rng.choice(["floor", "ceil"]))
    operator = str(rng.choice(["+=", "max="]))
    condition = f'w >= floor(o * W / O), "w < {rounded}((o + 1) * W / O)"'
    steps = [f'{{do: "m[{target}] {operator} x[{cell}]", where: [{condition}]}}', f"y[{target}] = 2 * m[{target}]"]
    sizes = "attributes: [{name: pieces, symbol: O, type: s64, default: 3, min: 1, max: 40, summary: Pieces.}]"
    out = ", ".join(f"{axis}: {axis.replace('W', 'O')}" for axis in axes)
    return spec(f"Pieces{number}", axes, out, "", "n: N, c: C, h: H, w: W, o: O", steps, sizes)


def rows(rng: np.random.Generator, number: int) -> str:
    """The cells of windows as rows, of windows that stay inside or are clamped."""
    axes, by = LAST if rng.integers(2) else FIRST, int(rng.integers(3))
    moved = {"H": "h + u", "W": f"{by} * w + v"} if by else {"H": "min(h + u, H - 1)", "W": "min(w + v, W - 1)"}
    high, wide = ("P", "Q") if by else ("H", "W")
    index = ", ".join(moved.get(axis, axis.lower()) for axis in axes)
    value = f"x[{index}] - z[{index}] * f[u, v]" if rng.integers(2) else f"x[{index}]"
    more = f'let: {{P: H - 2, Q: "floor((W - 3) / {by}) + 1"}}\n' if by else ""
    steps = [f"y[n, (c * 3 + u) * 3 + v, h * {wide} + w] = {value}"]
    ranges = f"n: N, c: C, u: 3, v: 3, h: {high}, w: {wide}"
    return spec(
        f"Rows{number}",
        axes,
        "N: N, K: C * 9, L: L",
        ", cells: L",
        ranges,
        steps,
        f"{more}shape: {{L: {high} * {wide}}}",
    )


def windows(rng: np.random.Generator, number: int) -> str:
    """Values of cells under weights, with borders or without, as they are or divided."""
    axes, by, pad = LAST if rng.integers(2) else FIRST, int(rng.integers(1, 3)), int(rng.integers(2))
    moved = {"H": f"{by} * h + u - {pad}", "W": f"{by} * w + v - {pad}"}
    index = ", ".join(moved.get(axis, axis.lower()) for axis in axes)
    value = VALUES[number % len(VALUES)].format(x=f"x[{index}]", z=f"z[{index}]")
    steps = [f"y[{', '.join(axis.lower() for axis in axes)}] += {value} * f[u, v]" + ("", " / 9")[number % 2]]
    more = f'shape: {{P: "floor((H + {2 * pad} - 3) / {by}) + 1", Q: "floor((W + {2 * pad} - 3) / {by}) + 1"}}'
    out = ", ".join(f"{axis}: { {'H': 'P', 'W': 'Q'}.get(axis, axis) }" for axis in axes)
    ranges = "n: N, c: C, h: P, w: Q, u: 3, v: 3"
    return spec(f"Windowed{number}", axes, out, ", rows: P, columns: Q", ranges, steps, more)


MAKERS = {"pieces": (pieces, 2), "rows": (rows, 2), "windowed": (windows, 3)}
TEXTS = {
    f"{name}{number}.yaml": make(np.random.default_rng([3, number]), number)
    for name, (make, count) in MAKERS.items()
    for number in range(count)
}


@pytest.mark.parametrize("name", [name for name in TEXTS if name.startswith("windowed")])
def test_values_of_cells_under_weights_are_made_once(name: str) -> None:
    (op,) = load_texts({name: TEXTS[name]}).ops
    found = staged(op)
    assert any(phase.contraction is not None and phase.contraction.slides for phase in found.phases)
    assert any(array.startswith("before_") for array in found.program.arrays)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Library, object]]:
    folder: Path = tmp_path_factory.mktemp("shared")
    yield package(TEXTS, folder, "shared_package")


@pytest.mark.parametrize("name", TEXTS)
def test_they_agree_with_the_interpreter(made: tuple[Library, object], name: str) -> None:
    library, module = made
    op = next(op for op in library.ops if op.op.lower() == name.removesuffix(".yaml"))
    for isa in [isa for isa in serving(module, op) if isa in ("portable", "avx512")]:
        with instruction_set(module, isa):
            assert first_disagreement(module, op, np.random.default_rng(5), 6, Counter()) is None, isa
