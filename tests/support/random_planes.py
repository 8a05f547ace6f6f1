"""Random specs of one step that copies cells into another order: axes change places, run backwards, are moved, halved or joined."""

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
  ranges: {RANGES}
  steps: ["y[TO] = x[FROM]"]
"""
ACCUMULATE = {"f64": "f64", "s32": "s64"}  # others accumulate in f32


def spec_of_planes(random: np.random.Generator, op: str) -> str:
    """The text of a spec; two axes of what is written may be one, and halves of one that is read two."""
    extents, halved = {letter: letter.upper() for letter in "abcd"}, random.integers(3) == 0
    if halved:
        extents |= {"d": "(D / 2)", "e": "2"}
    letters = [str(letter) for letter in random.permutation([*extents])]
    kind = str(random.choice(["f32", "bf16", "f64", "u8", "s32", "f16"]))
    dims, to = [f"{letter.upper()}: {extents[letter]}" for letter in letters], [*letters]
    joined = random.integers(2) == 0
    if joined:
        at = int(random.integers(len(letters) - 1))
        one, two = letters[at : at + 2]
        to[at : at + 2] = [f"{one} * {extents[two]} + {two}"]
        dims[at : at + 2] = [f"J: {extents[one]} * {extents[two]}"]
    ways = ["{x}", "{x}", "{x}", "{X} - 1 - {x}", "{x} - 1" if joined else "{x}"]
    back = [str(random.choice(ways)).format(x=letter, X=letter.upper()) for letter in "abcd"]
    if halved:
        back[3] = str(random.choice(["2 * d + e", "e * (D / 2) + d"]))
    text = SPEC.replace("NAME", op).replace("KIND", kind).replace("ACC", ACCUMULATE.get(kind, "f32"))
    text = text.replace("RANGES", ", ".join(f"{letter}: {extent}" for letter, extent in extents.items()))
    return text.replace("DIMS", ", ".join(dims)).replace("TO", ", ".join(to)).replace("FROM", ", ".join(back))
