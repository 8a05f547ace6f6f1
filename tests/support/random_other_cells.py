"""Random specs of steps that read other cells of the array that they write, as these were before the step."""

from __future__ import annotations

import numpy as np

SPEC = """op: NAME
revision: 1
summary: Steps that read other cells of what they write.
dims: {r_cells: R, c_cells: C}
inputs: [{name: x, dims: {R: R, C: C}}, {name: w, dims: {C: C}}]
outputs: [{name: y, dims: {R: R, C: C}}]
dtypes: [{x: KIND, w: KIND, y: KIND, accumulate: KIND}]
semantics:
  ranges: {r: R, c: C, k: C}
  steps: [STEPS]
"""


def steps_of_other_cells(random: np.random.Generator, op: str, kind: str = "f64") -> str:
    """The text of a spec whose `y`, or an array beside it, is written by several steps that read it."""
    name = str(random.choice(["y", "t"]))
    places = ("c", "C - 1 - c", "c - 1", "c + 1", "floor(c / 2)", "2 * c", "0", "1 - c", "C - 2 * c", "c % 3")
    steps = [f"{name}[r, c] = x[r, c]"]
    for _ in range(int(random.integers(1, 4))):
        column, row = str(random.choice(places)), str(random.choice(["r", "r", "R - 1 - r", "r + 1"]))
        operator = str(random.choice(["=", "+=", "max=", "min=", "*="]))
        target = (
            "r, c" if name == "t" or random.integers(3) else "r, floor(c / 2)" if operator != "=" else "r, C - 1 - c"
        )
        read = f"{name}[{row}, {column}]"
        factor = str(random.choice(["w[c]", "2", "w[k]" if operator != "=" else "w[c]"]))
        value = str(random.choice([f"{read} * {factor}", f"{factor} + {read}", f"{read} - {name}[r, c] * {factor}"]))
        steps.append(f"{name}[{target}] {operator} {value}")
    steps += [f"y[r, c] = {name}[r, c]"] if name == "t" else []
    steps.append("y[r, c] += w[k]")
    return SPEC.replace("NAME", op).replace("KIND", kind).replace("STEPS", ", ".join(f"'{step}'" for step in steps))
