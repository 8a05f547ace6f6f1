"""Values that depend on letters alone, such as discounts by position, are computed once for all cells that read them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from opwright.derive.phases import staged
from opwright.oracle.run_steps import compute_steps
from support.draws import rng
from support.package import package

HEAD = """
op: Discounted
revision: 1
summary: Cells by position.
dims: {a: {symbol: A}, b: {symbol: B}, c: {symbol: C}}
inputs: [{name: x, dims: {A: A, B: B, C: C}}]
outputs: [{name: y, dims: DIMS}]
dtypes: [{x: f32, y: f32, accumulate: f32}, {x: f64, y: f64, accumulate: f64}]
semantics:
  ranges: {a: A, b: B, c: C}
  steps:
    - STEP
"""
FUNCTIONS = (
    "exp(-{0} * 0.1)",
    "log({0} + 2)",
    "tanh({0} * 0.25)",
    "1 / sqrt({0} + 1)",
    "exp2(-({0} % 5))",
    "pow(0.9, {0})",
)
TARGETS = {
    "y[a, b, c] =": "{A: A, B: B, C: C}",
    "y[a, b] +=": "{A: A, B: B}",
    "y[c] +=": "{C: C}",
    "y[b] max=": "{B: B}",
}
COUNT = 8


@pytest.mark.parametrize("number", range(COUNT))
def test_cells_by_functions_of_letters_are_those_of_the_interpreter(number: int, tmp_path: Path) -> None:
    random = rng(f"values of letters {number}")
    target = random.choice([*TARGETS])
    letters = random.choice(["a", "b", "c"], int(random.integers(1, 4)))
    factors = [str(random.choice(FUNCTIONS)).format(letter) for letter in letters]
    value = " ".join(f"{random.choice(['*', '+', '-'])} {factor}" for factor in factors)
    text = HEAD.replace("DIMS", TARGETS[target]).replace("STEP", f"{target} x[a, b, c] {value}")
    library, module = package({"discounted.yaml": text}, tmp_path, f"discounted_{number}")
    (op,) = library.ops
    assert any(array.role == "between" for array in staged(op).arrays.values()), value
    for shape in ((3, 5, 40), (17, 1, 3), (2, 33, 7), (0, 2, 3), (9, 20, 1)):
        x = random.standard_normal(shape).astype(random.choice([np.float32, np.float64]))
        x = x.transpose(order := random.permutation(3)).copy().transpose(np.argsort(order))
        expected = compute_steps(op, [x], {})["y"]
        for threads in (1, 2):
            found = module.discounted(x, threads=threads)
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-4)
