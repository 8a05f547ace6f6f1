"""Random specs of steps that read and write cells of a last axis by their numbers."""

from __future__ import annotations

import numpy as np

SPEC = """op: NAME
revision: 1
summary: Cells that have numbers.
dims: {m_sets: M, n_rows: N, k_cells: K}
inputs: [{name: a, dims: {M: M, N: N, K: K}}, {name: b, dims: {N: N, K: K}}]
outputs: [{name: y, dims: {M: M, N: N, K: K}}]
dtypes: [{a: f32, b: f32, y: f32, accumulate: f32}]
semantics:
  ranges: {m: M, n: N}
  steps: [STEPS]
"""


def spec_of_cells(random: np.random.Generator, op: str) -> str:
    """The text of a spec of two to four steps, each of which writes a cell; some write one again."""
    steps = []
    for number in range(int(random.integers(2, 5))):
        one, two, three = (int(cell) for cell in random.integers(0, 4, 3))
        value = str(
            random.choice(
                ["a[m, n, {0}] * b[n, {1}] - a[m, n, {2}]", "max(a[m, n, {0}], b[n, {1}])", "a[m, n, {0}] + 2"]
            )
        )
        cell = number if random.integers(4) else int(random.integers(0, 4))
        operator = str(random.choice(["=", "=", "+="]))
        steps.append(f"'y[m, n, {cell}] {operator} {value.format(one, two, three)}'")
    steps.append("'y[m, n, 0] += b[n, 1] * a[m, n, 3]'")
    return SPEC.replace("NAME", op).replace("STEPS", ", ".join(steps))
