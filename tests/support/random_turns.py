"""Random specs of sums of products whose rows and columns lie in turns, as of pixels that channels become, and of heads.

In: a random generator, and a name. Out: the text of a spec: whether the sums have a name, the order of their axes and of
those of both factors, which pairs of letters share an axis of the output, and what is done to the sums, vary.
"""

from __future__ import annotations

import numpy as np

EXTENTS = {"p": "2", "q": "3"}  # of letters of columns that share an axis with rows; others are sizes of their own


def draw(random: np.random.Generator, name: str) -> str:
    """A spec with rows h and w, columns o, p and q, terms c and batches b."""

    def mixed(letters: str) -> list[str]:
        return [str(letter) for letter in random.permutation([*letters])]

    rows = mixed("bhw") if random.random() < 0.5 else [*"bhw"]
    columns = mixed("opq") if random.random() < 0.5 else [*"opq"]
    rows.insert(int(random.integers(4)), "c")
    columns.insert(int(random.integers(4)), "c")
    pixels = ["b", "o", "2 * h + p", "3 * w + q"] if random.random() < 0.7 else ["b", "h", "w", "2 * o + p", "q"]
    named = random.random() < 0.6
    product = f"x[{', '.join(rows)}] * f[{', '.join(columns)}]"
    target = f"y[{', '.join(pixels)}]"
    steps = [f"{target} += {product}"]
    if named:
        sums = f"t[{', '.join(mixed('bohwpq'))}]"
        finish = str(random.choice([sums, f"max({sums} + z[o], 0)", f"{sums} * number(h) + z[o]"]))
        steps = [f"{sums} += {product}", f"{target} = {finish}"]
    kinds = [str(kind) for kind in random.choice(["f32", "bf16", "f64", "f16"], 2, replace=False)]

    def size(letter: str) -> str:
        return EXTENTS.get(letter, letter.upper())

    def dims(indices: list[str]) -> str:
        extents = {"2 * h + p": "2 * H", "3 * w + q": "3 * W", "2 * o + p": "2 * O"}
        axes = (f"A{at}: {extents.get(index, size(index))}" for at, index in enumerate(indices))
        return "{" + ", ".join(axes) + "}"

    return "\n".join(
        [
            f"op: {name}",
            "revision: 1",
            "summary: Sums of products whose rows and columns lie in turns.",
            "dims: {batch: B, channels: C, outputs: O, height: H, width: W}",
            "inputs:",
            f"  - {{name: x, dims: {dims(rows)}}}",
            f"  - {{name: f, dims: {dims(columns)}}}",
            "  - {name: z, dims: {O: O}, optional: true}",
            "outputs:",
            f"  - {{name: y, dims: {dims(pixels)}}}",
            "dtypes:",
            *(f"  - {{x: {k}, f: {k}, z: {k}, y: {k}, accumulate: {'f64' if k == 'f64' else 'f32'}}}" for k in kinds),
            "semantics:",
            "  ranges: {b: B, c: C, o: O, h: H, p: 2, w: W, q: 3}",
            "  steps:",
            *(f"    - {step}" for step in steps),
            "",
        ]
    )
