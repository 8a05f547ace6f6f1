"""Steps that read and write at places of all kinds agree with the interpreter, and so do their gradients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from opwright.gradients import Underivable, gradient_text
from opwright.load import load_texts
from support.draws import FULL, rng
from support.package import package
from support.random_places import places
from support.step_verdicts import agree

SPECS, CALLS = (12, 12) if FULL else (4, 8)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(30 if FULL else 1))
def test_steps_at_places_of_all_kinds_and_their_gradients_agree_with_the_interpreter(seed: int, tmp_path: Path) -> None:
    texts = dict[str, str]()
    for number in range(SPECS):
        text = places(rng("places", seed, number), f"Placed{number}")
        (op,) = load_texts({"op.yaml": text}).ops
        texts[f"{op.function}.yaml"] = text
        try:
            written, backward = gradient_text(op)
        except Underivable:
            continue
        texts[f"{backward.function}.yaml"] = written
    library, module = package(texts, tmp_path, f"places_{seed}")
    agree(module, library.ops, CALLS, seed)


ROLLED = """op: Rolled
revision: 1
summary: Cells that go around an axis, times the number of the cell they come from.
dims: {rows: A, cells: B}
inputs: [{name: x, dims: {A: A, B: B}}]
outputs: [{name: y, dims: {A: A, B: B}}]
dtypes: [{x: f32, y: f32, accumulate: f32}]
semantics: {ranges: {a: A, b: B}, steps: ["y[a, (b + 1) % B] = x[a, b] * number(a, b) + number(b)"]}
"""


def test_numbers_of_letters_are_those_of_the_cells_that_a_step_names_where_it_goes_around(tmp_path: Path) -> None:
    """The kernel reads around the axis: other letters stood in `number`, which takes letters alone, and nothing was generated."""
    _, module = package({"rolled.yaml": ROLLED}, tmp_path, "rolled")
    for shape in ((3, 5), (2, 40), (1, 1)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1
        numbers = np.arange(x.size).reshape(shape)
        assert (module.rolled(x) == np.roll(x * numbers + np.arange(shape[1]), 1, 1)).all()
