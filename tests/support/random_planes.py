"""Random specs of one step that copies cells into another order: axes change places, run backwards, or are joined."""

from __future__ import annotations

import numpy as np

SPEC = """op: NAME
revision: 1
summary: Cells in another order.
dims: {a_cells: A, b_cells: B, c_cells: C, d_cells: D}
inputs: [{name: x, dims: {A: A, B: B, C: C, D: D}}]
outputs: [{name: y, dims: {DIMS}}]
dtypes: [{x: KIND, y: KIND, accumulate: ACC}]
semantics:
  ranges: {a: A, b: B, c: C, d: D}
  steps: ["y[TO] = x[FROM]"]
"""
ACCUMULATE = {"f64": "f64", "s32": "s64"}  # others accumulate in f32


def spec_of_planes(random: np.random.Generator, op: str) -> str:
    """The text of a spec; two axes of what is written may be one."""
    letters = [str(letter) for letter in random.permutation([*"abcd"])]
    kind = str(random.choice(["f32", "bf16", "f64", "u8", "s32", "f16"]))
    dims, to = [f"{letter.upper()}: {letter.upper()}" for letter in letters], [*letters]
    if random.integers(3) == 0:
        at = int(random.integers(3))
        one, two = letters[at : at + 2]
        to[at : at + 2] = [f"{one} * {two.upper()} + {two}"]
        dims[at : at + 2] = [f"J: {one.upper()} * {two.upper()}"]
    back = [f"{letter.upper()} - 1 - {letter}" if random.integers(4) == 0 else letter for letter in "abcd"]
    text = SPEC.replace("NAME", op).replace("KIND", kind).replace("ACC", ACCUMULATE.get(kind, "f32"))
    return text.replace("DIMS", ", ".join(dims)).replace("TO", ", ".join(to)).replace("FROM", ", ".join(back))
