"""Sizes that a spec leaves to calls: where axes end as indices do, calls take a program that is made for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from opwright.derive.rewrites.fitting import fitting
from opwright.language.model import Op
from support import random_fitting, random_strided_reads
from support.draws import FULL, rng
from support.package import package
from support.step_calls import StepCaller
from support.step_verdicts import disagreement, first_disagreement

SPECS, CALLS = (60, 16) if FULL else (4, 6)


def as_called(op: Op) -> Op | None:
    """The operation for sizes that fit, by the name that callers know."""
    fits = fitting(op)
    return fits and replace(fits, function_=op.function)


def test_both_programs_give_what_the_interpreter_gives(tmp_path: Path) -> None:
    texts = {}
    for number in range(SPECS):
        for kind in (random_fitting, random_strided_reads):
            name = f"{kind.__name__.rsplit('_', 1)[1].title()}{number}"
            texts[f"{name}.yaml"] = kind.draw(np.random.default_rng([11, number]), name)
    library, module = package(texts, tmp_path, "fitting_sizes")
    fitted = 0
    for op in library.ops:
        assert first_disagreement(module, op, rng("sizes", op.function), CALLS, Counter()) is None, op.function
        fits = as_called(op)
        for number, call in enumerate(StepCaller(fits, rng("fit", op.function)).legal(CALLS) if fits else ()):
            assert disagreement(module, op, call, 1 + number % 3) is None, f"{op.function}: {call}"
            fitted += "sizes that fit" in str(module.explain(op.function, *call.inputs, **call.attributes))
    assert fitted > SPECS * CALLS // 2


def test_explain_says_whether_sizes_fit(tmp_path: Path) -> None:
    module = package({"scale.yaml": random_fitting.SCALE}, tmp_path, "fitting_scale")[1]
    scales = np.ones((5, 3), np.float32)
    assert "sizes that fit: D = 4 * G" in str(module.explain("scale", np.ones((5, 12), np.float32), scales))
    for cells in (11, 13, 0):
        assert "sizes that fit" not in str(module.explain("scale", np.ones((5, cells), np.float32), scales))


GROUPS = """op: {name}
revision: 1
summary: Values of cells, of which groups have sums.
dims: {{batch: B, pixels: P, groups: G, cells: D}}
inputs:
  - {{name: x, dims: {{B: B, P: P, G: G, D: D}}}}
  - {{name: w, dims: {{X: G, Y: D}}, optional: true}}
outputs: [{{name: most, dims: {{B: B, G: G}}}}, {{name: y, dims: {{B: B, P: P, G: G, D: D}}}}]
dtypes:
  - {{x: {kind}, w: {kind}, most: {kind}, y: {kind}, accumulate: f32}}
semantics:
  ranges: {{b: B, p: P, g: G, d: D}}
  steps:
    - most[b, g] max= abs(x[b, p, g, d])
    - mean[b, g] += x[b, p, g, d] * (w[g, d] + 1) / (P * D)
    - off[b, p, g, d] = x[b, p, g, d] - mean[b, g]
    - y[b, p, g, d] = off[b, p, g, d] * w[g, d] + most[b, g]
"""


def test_groups_are_one_row_where_calls_have_them_so(tmp_path: Path) -> None:
    kinds = ("f32", "bf16", "f16")
    texts = {f"{kind}.yaml": GROUPS.format(name=f"Groups{kind.title()}", kind=kind) for kind in kinds}
    library, module = package(texts, tmp_path, "groups_of_cells")
    for op in library.ops:
        assert first_disagreement(module, op, rng("groups", op.function), 3 * CALLS, Counter()) is None, op.function
    x, w = np.ones((2, 9, 8, 12), np.float32), np.ones((4, 6), np.float32)
    for given, one in ((x[:, :, :4, :6].copy(), True), (x[:, :, :4, :6], False), (x[:, :, ::2, ::2], False)):
        for weights in ([w], [], [np.ones((8, 6), np.float32)[::2]]):
            beside = one and (not weights or weights[0].flags.c_contiguous)
            lanes = dict(module.explain("groups_f32", given, *weights).schedules)
            assert ("lanes along g_d_" in lanes) == beside


FEW = """op: {name}
revision: 1
summary: Maps of few cells.
dims: {{batch: B, channels: C}}
inputs:
  - {{name: x, dims: {{B: B, C: C, U: {u}, V: {v}}}}}
  - {{name: w, dims: {{X: C, Y: {u}, Z: {v}}}}}
outputs: [{{name: y, dims: {{B: B, C: C, {y}}}}}]
dtypes: [{{x: {kind}, w: {kind}, y: {kind}, accumulate: f32}}]
semantics:
  ranges: {{b: B, c: C, u: {u}, v: {v}}}
  steps: ["y[b, c, {at}] = x[b, c, u, v] * w[c, u, v] - 1"]
"""


def test_maps_of_few_cells_are_one_row_where_calls_have_them_so(tmp_path: Path) -> None:
    texts = {}
    for number, (u, v) in enumerate(((7, 7), (3, 3), (1, 5), (2, 31))):
        one = number % 2
        y, at = (f"Y: {u * v}", "number(u, v)") if one else (f"U: {u}, V: {v}", "u, v")
        kind = ("f32", "bf16", "f16", "s8")[number]
        texts[f"{number}.yaml"] = FEW.format(name=f"Few{number}", u=u, v=v, y=y, at=at, kind=kind)
    library, module = package(texts, tmp_path, "few_cells")
    for op in library.ops:
        assert first_disagreement(module, op, rng("few", op.function), 3 * CALLS, Counter()) is None, op.function
    x = np.ones((2, 9, 7, 8), np.float32)
    for given, one in ((x[..., :7].copy(), True), (x[..., :7], False), (x[:, ::2, :, ::-1][..., :7].copy(), True)):
        weights = np.ones(given.shape[1:], np.float32)
        lanes = str(module.explain("few0", given, weights).schedules)
        assert ("lanes along c_u_v__" in lanes) == one, lanes
