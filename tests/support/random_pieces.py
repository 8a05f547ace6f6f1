"""Random specs whose steps sum products of single cells, as of complex numbers and quaternions, to cells of one axis.

In: a random generator, and a name. Out: the text of a spec: how many cells numbers have, whether the spec says so, where
their axes lie, and which products each cell of the result adds up, vary.
"""

from __future__ import annotations

import numpy as np


def draw(random: np.random.Generator, name: str) -> str:
    """A spec with one, two or three cells of a product of matrices, or of a matrix and a vector."""
    cells = int(random.integers(2, 4))
    axis = "P" if random.random() < 0.5 else str(cells)
    places = [int(place) for place in random.integers(3, size=3)]
    alone = random.random() < 0.2  # a vector
    letters = [["m", "k"], ["k"] if alone else ["k", "n"], ["m"] if alone else ["m", "n"]]

    def read(array: int, cell: int) -> str:
        own = list(letters[array])
        own.insert(min(places[array], len(own)), str(cell))
        return f"{'acy'[array]}[{', '.join(own)}]"

    steps = []
    for cell in range(cells):
        value = ""
        for term in range(int(random.integers(1, 4))):
            sign = ("- " if random.random() < 0.5 else "+ ") if term else ""
            value += f"{sign}{read(0, int(random.integers(cells)))} * {read(1, int(random.integers(cells)))} "
        steps.append(f"{read(2, cell)} += {value.strip()}")
    dims = []
    for array in range(3):
        own = [f"{letter.upper()}: {letter.upper()}" for letter in letters[array]]
        own.insert(min(places[array], len(own)), f"X: {axis}")
        dims.append("{" + ", ".join(own) + "}")
    kinds = [str(kind) for kind in random.choice(["f32", "bf16", "f64", "f16"], 2, replace=False)]
    rows = [
        f"  - {{a: {kind}, c: {kind}, y: {kind}, accumulate: {'f64' if kind == 'f64' else 'f32'}}}" for kind in kinds
    ]
    free = ", cells: P" if axis == "P" else ""
    columns = "" if alone else ", columns: N"
    ranges = "m: M, k: K" + ("" if alone else ", n: N")
    return "\n".join(
        [
            f"op: {name}",
            "revision: 1",
            "summary: Products of numbers of several cells.",
            f"dims: {{rows: M, terms: K{columns}{free}}}",
            "inputs:",
            f"  - {{name: a, dims: {dims[0]}}}",
            f"  - {{name: c, dims: {dims[1]}}}",
            "outputs:",
            f"  - {{name: y, dims: {dims[2]}}}",
            "dtypes:",
            *rows,
            "semantics:",
            f"  ranges: {{{ranges}}}",
            "  steps:",
            *(f"    - {step}" for step in steps),
            "",
        ]
    )
