"""Names of intermediates that kernels have for variables of their own, too: they mean the array."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from opwright.oracle.run_steps import compute_steps
from support.draws import rng
from support.package import package
from support.spec_packages import instruction_set, serving_one_of_many

NAMES = ("sums", "made", "same", "whole", "tile", "rest", "term", "pair", "shared", "lone")
SPEC = """op: Two{title}
revision: 1
summary: Sums of two windows of products, and half of them.
dims: {{rows: {{symbol: T}}, columns: {{symbol: C}}, taps: {{symbol: K}}}}
inputs: [{{name: x, dims: {{T: T, C: C}}}}, {{name: w, dims: {{C: C, K: K}}}}, {{name: v, dims: {{R: T + K, C: C}}}}]
outputs: [{{name: y, dims: {{T: T, C: C}}}}]
dtypes: [{{x: f32, w: f32, v: f32, y: f32, accumulate: f32}}]
semantics:
  ranges: {{t: T, c: C, k: K}}
  steps:
    - {name}[t, c] += x[t + k - K + 1, c] * w[c, k]
    - {name}[t, c] += v[t + k, c] * w[c, k]
    - y[t, c] = {name}[t, c] / (1 + exp(-{name}[t, c]))
"""


def test_an_array_may_have_the_name_of_a_variable_of_kernels(tmp_path: Path) -> None:
    """An array `sums` that was split in two was taken for the accumulators of a reduction, where loops computed it."""
    specs = {f"{name}.yaml": SPEC.format(name=name, title=name.title()) for name in NAMES}
    library, module = package(specs, tmp_path, "names_of_arrays")
    for op in library.ops:
        for isa in serving_one_of_many(module, op):
            with instruction_set(module, isa):
                draw = rng(op.op)
                for rows, columns, taps in ((1, 1, 2), (5, 3, 4), (2, 1, 40), (3, 70, 3)):
                    shapes = (rows, columns), (columns, taps), (rows + taps, columns)
                    inputs = [draw.standard_normal(shape).astype(np.float32) for shape in shapes]
                    wanted = compute_steps(op, inputs, {})["y"]
                    np.testing.assert_allclose(getattr(module, op.function)(*inputs), wanted, rtol=1e-4, atol=1e-4)
