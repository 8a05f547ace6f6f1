"""Cells in a frame of one value are those that the interpreter chooses, whatever the sizes and where it begins."""

from __future__ import annotations

from pathlib import Path

import pytest
from opwright.derive.phases import staged
from support.draws import FULL, rng
from support.package import package
from support.random_framed import spec_of_frame
from support.spec_packages import quick_compiler
from support.step_verdicts import agree

COUNT, CALLS = (120, 30) if FULL else (10, 12)


@pytest.mark.sweep
def test_cells_in_frames_agree_with_the_interpreter(tmp_path: Path) -> None:
    random = rng("framed")
    texts = {f"framed{n}.yaml": spec_of_frame(random, f"Framed{n}") for n in range(COUNT)}
    with quick_compiler(tmp_path):
        library, module = package(texts, tmp_path, "framed")
        apart = [any(name.endswith("_inside_") for name in staged(op).program.letters) for op in library.ops]
        seen = agree(module, library.ops, CALLS)
    assert len(library.ops) / 3 < sum(apart) < len(library.ops)
    assert sum(seen[f"{op.op} legal"] for op in library.ops) > COUNT * CALLS / 4
