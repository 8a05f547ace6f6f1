"""Steps read other cells of the array that they write as these were before, on any number of threads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from opwright.oracle.run_steps import compute_steps
from support.draws import FULL, rng
from support.package import package
from support.random_other_cells import steps_of_other_cells
from support.step_verdicts import agree

SPECS, CALLS = (12, 20) if FULL else (3, 8)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(20 if FULL else 1))
def test_steps_that_read_what_they_write_agree_with_the_interpreter(seed: int, tmp_path: Path) -> None:
    random = rng("other cells", seed)
    kinds = [str(kind) for kind in random.choice(["f32", "f32", "f64"], SPECS)]
    texts = {f"others{n}.yaml": steps_of_other_cells(random, f"Others{n}", kind) for n, kind in enumerate(kinds)}
    library, module = package(texts, tmp_path, f"other_cells_{seed}")
    seen = agree(module, library.ops, CALLS, seed)
    assert all(seen[f"{op.op} legal"] for op in library.ops)


def test_rows_that_many_threads_turn_are_read_as_they_were(tmp_path: Path) -> None:
    text = steps_of_other_cells(rng("turned"), "Turned", "f32")
    head = text[: text.index("  ranges:")]
    text = (
        f'{head}  ranges: {{r: R, c: C}}\n  steps: ["y[r, c] = x[r, c] * w[c]", "y[r, c] += y[R - 1 - r, C - 1 - c]"]\n'
    )
    library, module = package({"turned.yaml": text}, tmp_path, "turned_cells")
    random = rng("turned rows")
    x, w = (random.integers(-8, 8, shape).astype(np.float32) for shape in ((301, 407), 407))
    wanted = compute_steps(library.op("Turned"), [x, w], {})["y"]
    for threads in (1, 2, 5):
        assert (module.turned(x, w, threads=threads) == wanted).all()
