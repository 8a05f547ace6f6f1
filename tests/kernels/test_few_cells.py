"""Products of matrices of a few cells, in any order of axes and with any sharing: random specs, judged by calls."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from opwright.derive.phases import staged
from support.draws import FULL, rng
from support.package import package
from support.step_verdicts import first_disagreement

SPECS, CALLS = (40, 16) if FULL else (6, 8)


def spec(random: np.random.Generator, name: str) -> str:
    """A product of two of a letter of samples, one of them perhaps shared, whose other axes have two to four cells."""
    cells = {letter: int(random.integers(2, 5)) for letter in "ijkl"}
    terms = ["k", "l"] if random.random() < 0.3 else ["k"]
    shared = str(random.choice(["", "a", "c"]))
    arrays = {"a": ["i", *terms], "c": [*terms, "j"], "y": ["i", "j"]}
    for array, letters in arrays.items():
        random.shuffle(letters)
        if array != shared:
            letters.insert(0 if random.random() < 0.8 else len(letters), "n")

    def dims(letters: list[str]) -> str:
        return ", ".join(f"A{at}: {'N' if x == 'n' else cells[x]}" for at, x in enumerate(letters))

    reads = {array: f"{array}[{', '.join(letters)}]" for array, letters in arrays.items()}
    kinds = [str(kind) for kind in random.choice(["f32", "f64", "bf16", "s32"], 2, replace=False)]
    wide = {"f64": "f64", "s32": "s64"}
    ranges = ", ".join(f"{x}: {cells.get(x, 'N')}" for x in ("n", "i", "j", *terms))
    return "\n".join(
        [
            f"op: {name}",
            "revision: 1",
            "summary: Products of matrices of a few cells.",
            "dims: {samples: N}",
            "inputs:",
            *(f"  - {{name: {array}, dims: {{{dims(arrays[array])}}}}}" for array in "ac"),
            f"outputs: [{{name: y, dims: {{{dims(arrays['y'])}}}}}]",
            "dtypes:",
            *(f"  - {{a: {x}, c: {x}, y: {x}, accumulate: {wide.get(x, 'f32')}}}" for x in kinds),
            "semantics:",
            f"  ranges: {{{ranges}}}",
            f"  steps: ['{reads['y']} += {reads['a']} * {reads['c']}']",
            "",
        ]
    )


def test_products_of_few_cells_are_what_the_interpreter_gives(tmp_path: Path) -> None:
    texts = {f"Few{n}.yaml": spec(np.random.default_rng([53, n]), f"Few{n}") for n in range(SPECS)}
    library, module = package(texts, tmp_path, "products_of_few_cells")
    for op in library.ops:
        assert first_disagreement(module, op, rng("few cells", op.function), CALLS, Counter()) is None, op.function


@pytest.mark.parametrize(("cells", "engine"), [(2, False), (3, True), (4, True)])
def test_engines_multiply_matrices_of_more_cells_than_a_loop_reads(cells: int, engine: bool, tmp_path: Path) -> None:
    text = f"""op: Matrices
revision: 1
summary: Products of small matrices.
dims: {{samples: N}}
inputs: [{{name: a, dims: {{N: N, I: {cells}, K: {cells}}}}}, {{name: c, dims: {{N: N, K: {cells}, J: {cells}}}}}]
outputs: [{{name: y, dims: {{N: N, I: {cells}, J: {cells}}}}}]
dtypes: [{{a: f32, c: f32, y: f32, accumulate: f32}}]
semantics:
  ranges: {{n: N, i: {cells}, k: {cells}, j: {cells}}}
  steps: ['y[n, i, j] += a[n, i, k] * c[n, k, j]']
"""
    library, _ = package({"Matrices.yaml": text}, tmp_path, "few_or_more_cells")
    assert [any(phase.contraction for phase in staged(op).phases) for op in library.ops] == [engine]
