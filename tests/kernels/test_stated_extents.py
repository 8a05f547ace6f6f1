"""Extents that are formulas: memory between steps holds as many cells as the formulas say, however they are nested."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from opwright.language import expr
from opwright.language.evaluate import evaluate
from support.draws import rng
from support.package import package
from support.spec_packages import instruction_set, serving
from support.step_verdicts import first_disagreement

SPEC = """\
op: {name}
revision: 1
summary: Cells below the greatest of their column.
dims:
  rows: {{symbol: B}}
  places: {{symbol: T, min: 1}}
  taps: {{symbol: K, min: 1}}
attributes:
  - {{name: step, symbol: S, type: s64, default: "2", min: 1}}
inputs:
  - {{name: x, dims: {{B: B, T: T, K: K}}}}
outputs:
  - {{name: y, dims: {{L: "{first}", B: B, M: "{second}"}}}}
dtypes:
  - {{x: f32, y: f32, accumulate: f32}}
semantics:
  ranges: {{l: "{first}", b: B, m: "{second}"}}
  steps:
    - "t[l, b, m] = x[b, l % T, m % K] + l % 3"
    - "most[m] max= t[l, b, m]"
    - "y[l, b, m] = t[l, b, m] - most[m]"
"""
UP = """\
op: Widened
revision: 1
summary: A transposed convolution whose extent stands in the output.
dims:
  batch: {symbol: B}
  channels: {symbol: C}
  places: {symbol: T, min: 1}
  outputs: {symbol: O}
  taps: {symbol: K, min: 1}
attributes:
  - {name: step, symbol: S, type: s64, default: "2", min: 1}
inputs:
  - {name: x, dims: {B: B, C: C, T: T}}
  - {name: w, dims: {C: C, O: O, K: K}}
outputs:
  - {name: y, dims: {B: B, O: O, L: (T - 1) * S + K}}
dtypes:
  - {x: f32, w: f32, y: f32, accumulate: f32}
semantics:
  ranges: {b: B, o: O, t: T, c: C, k: K}
  steps:
    - y[b, o, t * S + k] += x[b, c, t] * w[c, o, k]
"""


def extent(random: np.random.Generator, depth: int = 2) -> str:
    """A formula of sizes, at least 1."""
    if depth == 0 or random.random() < 0.2:
        return str(random.choice(["T", "K", "S", "2"]))
    left, right = extent(random, depth - 1), extent(random, depth - 1)
    forms = [
        f"({left}) * ({right})",
        f"{left} + {right}",
        f"(({left}) - 1) * S + {right}",
        f"ceil(({left}) / ({right}))",
    ]
    return forms[int(random.integers(len(forms)))] if "/" not in right else f"{left} + {right}"


def test_memory_between_steps_has_the_cells_that_formulas_of_extents_say(tmp_path: Path) -> None:
    random = rng("stated extents")
    pairs = [(extent(random), extent(random)) for _ in range(12)]
    texts = {
        f"shape{n}.yaml": SPEC.format(name=f"Shape{n}", first=first, second=second)
        for n, (first, second) in enumerate(pairs)
    }
    library, module = package(texts, tmp_path, "stated_extents")
    for n, pair in enumerate(pairs):
        x = np.zeros((3, 4, 5), np.float32)
        sizes = {"B": 3, "T": 4, "K": 5, "S": 3}
        first, second = (int(evaluate(expr.parse(text), sizes)) for text in pair)
        plan = module.explain(f"shape{n}", x, step=3)
        assert plan.shape == (first, 3, second), pair
        columns = second if second >= 16 else 1  # of fewer ones each may be a task
        assert plan.scratch_bytes >= 4 * first * 3 * columns, pair
    for op in library.ops[:3]:
        assert first_disagreement(module, op, rng("stated", op.op), 6, Counter()) is None


def test_a_sum_that_is_stored_apart_from_an_output_of_any_order_has_its_own_memory(tmp_path: Path) -> None:
    library, module = package({"widened.yaml": UP}, tmp_path, "stated_widened")
    op = library.op("Widened")
    for isa in serving(module, op):
        with instruction_set(module, isa):
            assert first_disagreement(module, op, rng("widened", isa), 12, Counter()) is None, isa
            x, w = np.ones((3, 8, 2), np.float32), np.ones((8, 33, 4), np.float32)
            out = np.full((3, 33, 6), 77, np.float32)[::-1, :, ::-1]
            assert (module.widened(x, w, out=out) == module.widened(x, w)).all(), isa


PLACED = """\
op: Placed
revision: 1
summary: Sums by columns of groups.
dims: {groups: {symbol: G}, columns: {symbol: C}}
inputs: [{name: x, dims: {Y: G * C, X: G}}, {name: w, dims: {C: C}}]
outputs: [{name: y, dims: {C: C}}]
dtypes: [{x: f32, w: f32, y: f32, accumulate: f32}]
semantics:
  ranges: {g: G, c: C}
  steps: ["y[c] += x[g * C + c, g] * w[c]"]
"""


def test_a_size_that_has_an_axis_is_not_computed_from_another_axis(tmp_path: Path) -> None:
    """With no columns, the groups of (0, 3) were 0 / 0; without `w`, nothing told how G * C follows."""
    others = PLACED.replace(", {name: w, dims: {C: C}}", "").replace(" * w[c]", "").replace("w: f32, ", "")
    texts = {"placed.yaml": PLACED, "told.yaml": others.replace("op: Placed", "op: Told")}
    library, module = package(texts, tmp_path, "placed")
    assert library.op("Told").function == "told"
    for sizes in ((3, 2), (3, 0), (1, 1)):
        x = np.arange(sizes[0] ** 2 * sizes[1], dtype=np.float32).reshape(-1, sizes[0])
        wanted = sum(x[g * sizes[1] : (g + 1) * sizes[1], g] for g in range(sizes[0]))
        assert (module.placed(x, np.ones(sizes[1], np.float32)) == wanted).all()
        assert (module.told(x) == wanted).all()
