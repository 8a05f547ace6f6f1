"""Axes of one cell: whatever a spec calls their cell, what goes there is reduced in pieces by several threads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from opwright.derive.phases import staged
from opwright.emit.steps.kernels import step_kernel
from opwright.oracle.run_steps import compute_steps
from support.draws import rng
from support.package import package

HEAD = """
op: Reduced
revision: 1
summary: All cells of some axes.
dims: {a: {symbol: A}, b: {symbol: B}, c: {symbol: C}}
inputs: [{name: x, dims: {A: A, B: B, C: C}}]
outputs: [{name: y, dims: DIMS}]
dtypes: [{x: f32, y: f32, accumulate: f32}, {x: bf16, y: bf16, accumulate: f32}]
semantics:
  ranges: {a: A, b: B, c: CONES}
  steps:
"""
CELLS = ("0", "u", "v")
AXES = {"a": "A: A", "b": "B: B", "c": "C: C"}
COUNT = 12


def spec(dims: str, steps: Sequence[str]) -> str:
    """A spec with the letters of one value that its steps have."""
    ones = "".join(f', {letter}: "1"' for letter in "uv" if re.search(rf"\b{letter}\b", steps[0]))
    return HEAD.replace("DIMS", f"{{{dims}}}").replace("ONES", ones) + "".join(f"    - {step}\n" for step in steps)


@pytest.mark.parametrize("number", range(COUNT))
def test_what_goes_to_one_cell_is_that_of_the_interpreter(number: int, tmp_path: Path) -> None:
    random = rng(f"one cell {number}")
    kept = sorted(random.choice(["a", "b", "c"], int(random.integers(0, 3)), replace=False))
    places = [*kept, *random.permutation(CELLS)[: int(random.integers(0 if kept else 1, 3))]]
    indices = [str(place) for place in random.permutation(places)]
    dims = ", ".join(AXES.get(index, f'One{place}: "1"') for place, index in enumerate(indices))
    operator, value = str(random.choice(["+=", "max=", "min="])), str(random.choice(["x[a, b, c]", "abs(x[a, b, c])"]))
    target = f"[{', '.join(indices)}]"
    steps = [f"y{target} {operator} {value}"]
    if random.random() < 0.4:
        inner = f"s[{', '.join(index for index in indices if index != '0')}]"
        steps = [f"{inner} {operator} {value}", f"y{target} = {inner} * 0.5 + 1"]
    text = spec(dims, steps)
    library, module = package({"reduced.yaml": text}, tmp_path, f"one_cell_{number}")
    (op,) = library.ops
    for shape in ((3, 5, 40), (1, 1, 1), (0, 2, 3), (70, 33, 77), (2, 3, 70_000)):
        x = random.integers(-8, 8, shape).astype(np.float32)
        x = x.transpose(order := random.permutation(3)).copy().transpose(np.argsort(order))
        expected = compute_steps(op, [x], {})["y"]
        for threads in (None, 1, 2, 3):
            assert module.reduced(x, threads=threads).tobytes() == expected.tobytes(), (text, shape, threads)


@pytest.mark.parametrize("step", ["y[0] += x[a, b, c]", "y[u] += x[a, b, c]", "y[u] max= x[a, b, c]"])
def test_reductions_of_everything_may_go_in_pieces(step: str, tmp_path: Path) -> None:
    library, _ = package({"reduced.yaml": spec('One: "1"', [step])}, tmp_path, "one_cell_in_pieces")
    (op,) = library.ops
    assert len(staged(op).phases) == 1
    assert all(step_kernel(op, row).partial for row in op.dtypes)
