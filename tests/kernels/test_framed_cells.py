"""Cells in a frame of one value, or on sides of places, are those that the interpreter chooses, whatever the sizes."""

from __future__ import annotations

from pathlib import Path

import pytest
from opwright.derive.phases import staged
from support.draws import FULL, rng
from support.package import package
from support.random_framed import spec_of_frame, spec_of_sides
from support.step_verdicts import agree

COUNT, CALLS = (120, 30) if FULL else (14, 12)


@pytest.mark.sweep
def test_cells_in_frames_and_on_sides_agree_with_the_interpreter(tmp_path: Path) -> None:
    random = rng("framed")
    kinds = {"Framed": spec_of_frame, "Sides": spec_of_sides}
    texts = {f"{name}{n}.yaml": kinds[name](random, f"{name}{n}") for n in range(COUNT // 2) for name in kinds}
    library, module = package(texts, tmp_path, "framed")
    own = [" ".join(staged(op).program.letters) for op in library.ops]
    apart, sides = ([word in letters for letters in own] for word in ("_inside_", "_side_"))
    seen = agree(module, library.ops, CALLS)
    assert COUNT / 6 < sum(apart) < COUNT / 2
    assert sum(sides) > COUNT / 4
    assert sum(seen[f"{op.op} legal"] for op in library.ops) > COUNT * CALLS / 4
