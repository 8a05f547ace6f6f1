"""Cells and blocks along a diagonal of an output are those of the interpreter, and tasks have no more of it than rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from opwright.derive.phases import staged
from support.draws import FULL, rng
from support.package import package
from support.random_diagonals import spec_of_diagonal
from support.step_verdicts import agree

COUNT, CALLS = (120, 24) if FULL else (16, 10)


@pytest.mark.sweep
def test_cells_along_diagonals_agree_with_the_interpreter(tmp_path: Path) -> None:
    random = rng("diagonals")
    drawn = {f"Diagonal{n}": spec_of_diagonal(random, f"Diagonal{n}") for n in range(COUNT)}
    texts = {f"{name}.yaml": text for name, (text, _) in drawn.items()}
    library, module = package(texts, tmp_path, "diagonals")
    ops = {op.op: op for op in library.ops}
    rows = [name for name, op in ops.items() if any(part.where for part in staged(op).program.parts)]
    assert all("y_sum_" in staged(ops[name]).private for name in rows)
    assert all(drawn[name][1] for name in rows)
    assert len(rows) > COUNT / 4
    seen = agree(module, library.ops, CALLS)
    assert sum(seen[f"{op.op} legal"] for op in library.ops) > COUNT * CALLS / 4
