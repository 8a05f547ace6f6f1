"""Cells of a last axis that steps name by numbers, as real and imaginary parts: lanes go along the axis before."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from opwright.derive.phases import staged
from opwright.oracle.run_steps import compute_steps
from support.draws import FULL, rng
from support.package import package
from support.random_numbered_cells import spec_of_cells
from support.spec_packages import instruction_set, serving
from support.step_verdicts import first_disagreement

COUNT, CALLS = (40, 15) if FULL else (5, 6)


@pytest.mark.sweep
def test_steps_that_name_cells_by_numbers_agree_with_the_interpreter(tmp_path: Path) -> None:
    random, seen = rng("numbered cells"), Counter[str]()
    texts = {f"cells{n}.yaml": spec_of_cells(random, f"Cells{n}") for n in range(COUNT)}
    library, module = package(texts, tmp_path, "numbered_cells")
    for op in library.ops:
        assert "n" in staged(op).phases[0].lanes
        for isa in serving(module, op):
            with instruction_set(module, isa):
                problem = first_disagreement(module, op, rng(op.op, isa), CALLS, seen)
                assert problem is None, f"{isa}: {problem}\n{texts[op.op.lower() + '.yaml']}"
                for rows in (1, 17, 200):
                    a, b = (random.integers(-8, 9, shape).astype(np.float32) for shape in ((3, rows, 4), (rows, 4)))
                    wanted = compute_steps(op, [a, b], {})["y"]
                    found = getattr(module, op.function)(a, b, threads=int(random.integers(1, 4)))
                    assert np.array_equal(found, wanted), (isa, rows, texts[op.op.lower() + ".yaml"])
