"""Sums of products that go to single cells of one output, as those of complex numbers: random specs, judged by calls."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from opwright.derive.phases import staged
from opwright.derive.rewrites.fitting import fitting
from opwright.language.model import Op
from support import random_pieces
from support.draws import FULL, rng
from support.package import package
from support.step_verdicts import first_disagreement

SPECS, CALLS = (60, 24) if FULL else (6, 10)


def arrays_of_sums(op: Op) -> int:
    return sum(array.name == "y_sum_" for array in staged(op).program.arrays.values())


def test_cells_of_products_are_what_the_interpreter_gives(tmp_path: Path) -> None:
    texts = {f"Cells{n}.yaml": random_pieces.draw(np.random.default_rng([17, n]), f"Cells{n}") for n in range(SPECS)}
    library, module = package(texts, tmp_path, "pieces_of_sums")
    for op in library.ops:
        assert first_disagreement(module, op, rng("pieces", op.function), CALLS, Counter()) is None, op.function


def test_pieces_of_products_need_no_array_of_all_sums(tmp_path: Path) -> None:
    texts = {f"Cells{n}.yaml": random_pieces.draw(np.random.default_rng([17, n]), f"Cells{n}") for n in range(40)}
    library, _ = package(texts, tmp_path, "pieces_of_products")
    matrices = [op for op in library.ops if any(dim.symbol == "N" for dim in op.dims.values())]
    fixed = [op for op in matrices if all(dim.symbol != "P" for dim in op.dims.values())]
    fitted = [fits for op in matrices if op not in fixed and (fits := fitting(op)) is not None]
    assert len(fixed) > 5
    assert len(fitted) > 5
    assert len(fixed) + len(fitted) == len(matrices)
    for op in (*fixed, *fitted):
        assert not arrays_of_sums(op), op.function
        assert any(phase.contraction for phase in staged(op).phases), op.function
