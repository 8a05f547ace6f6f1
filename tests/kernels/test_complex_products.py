"""Products of complex numbers, whose components lie anywhere: random specs, judged by calls."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from opwright.derive.phases import staged
from opwright.language.model import Op
from support import random_pairs
from support.draws import FULL, rng
from support.package import package
from support.step_verdicts import first_disagreement

SPECS, CALLS = (60, 24) if FULL else (8, 10)


def products(op: Op) -> int:
    return sum(phase.contraction is not None for phase in staged(op).phases)


def test_complex_products_are_what_the_interpreter_gives(tmp_path: Path) -> None:
    texts = {f"Pairs{n}.yaml": random_pairs.draw(np.random.default_rng([31, n]), f"Pairs{n}") for n in range(SPECS)}
    library, module = package(texts, tmp_path, "complex_products")
    for op in library.ops:
        assert first_disagreement(module, op, rng("pairs", op.function), CALLS, Counter()) is None, op.function


def test_a_complex_matrix_times_a_vector_is_a_product_of_its_rows_as_they_lie(tmp_path: Path) -> None:
    text = """op: Rows
revision: 1
summary: A complex matrix times a vector.
dims: {rows: I, terms: K}
inputs: [{name: a, dims: {I: I, K: K, X: 2}}, {name: c, dims: {K: K, X: 2}}]
outputs: [{name: y, dims: {I: I, X: 2}}]
dtypes: [{a: f32, c: f32, y: f32, accumulate: f32}]
semantics:
  ranges: {i: I, k: K}
  steps:
    - y[i, 0] += a[i, k, 0] * c[k, 0] - a[i, k, 1] * c[k, 1]
    - y[i, 1] += a[i, k, 0] * c[k, 1] + a[i, k, 1] * c[k, 0]
"""
    library, _ = package({"Rows.yaml": text}, tmp_path, "one_product_of_rows")
    assert [products(op) for op in library.ops] == [1]


def test_columns_whose_components_are_neighbours_need_one_product(tmp_path: Path) -> None:
    text = """op: {name}
revision: 1
summary: A product of complex matrices.
dims: {{batch: N, rows: I, terms: K, columns: J}}
inputs: [{{name: a, dims: {{N: N, I: I, K: K, X: 2}}}}, {{name: c, dims: {{N: N, K: K, J: J, X: 2}}}}]
outputs: [{{name: y, dims: {{N: N, I: I, J: J, X: 2}}}}]
dtypes: [{{a: f32, c: f32, y: f32, accumulate: f32}}]
semantics:
  ranges: {{n: N, i: I, k: K, j: J}}
  steps:
    - y[n, i, j, 0] += a[n, i, k, 0] * c[n, k, j, 0] {first} a[n, i, k, 1] * c[n, k, j, 1]
    - y[n, i, j, 1] += {second}
"""
    cross = "a[n, i, k, 0] * c[n, k, j, 1] + c[n, k, j, 0] * a[n, i, k, 1]"
    texts = {
        "Plain.yaml": text.format(name="Plain", first="-", second=cross),
        "Conjugated.yaml": text.format(name="Conjugated", first="+", second=cross.replace("+", "-")),
        "Twice.yaml": text.format(name="Twice", first="-", second=cross.replace("a[n, i, k, 1]", "a[n, i, k, 0]")),
    }
    library, _ = package(texts, tmp_path, "one_product")
    assert {op.function: products(op) for op in library.ops} == {"plain": 1, "conjugated": 1, "twice": 4}
