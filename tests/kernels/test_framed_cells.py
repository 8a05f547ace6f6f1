"""Cells in a frame of one value are those that the interpreter chooses, whatever the sizes and where it begins."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from opwright.derive.phases import staged
from support.generated import FULL, rng
from support.package import package
from support.random_framed import spec_of_frame
from support.spec_packages import instruction_set, quick_compiler, serving
from support.step_verdicts import first_disagreement

COUNT, CALLS = (120, 30) if FULL else (10, 12)


@pytest.mark.sweep
def test_cells_in_frames_agree_with_the_interpreter(tmp_path: Path) -> None:
    random, seen = rng("framed"), Counter[str]()
    texts = {f"framed{n}.yaml": spec_of_frame(random, f"Framed{n}") for n in range(COUNT)}
    with quick_compiler(tmp_path):
        library, module = package(texts, tmp_path, "framed")
        for op in library.ops:
            seen["apart"] += any(name.endswith("_inside_") for name in staged(op).program.letters)
            for isa in serving(module, op):
                with instruction_set(module, isa):
                    problem = first_disagreement(module, op, rng(op.op, isa), CALLS, seen)
                    assert problem is None, f"{isa}: {problem}\n{texts[op.op.lower() + '.yaml']}"
    assert len(library.ops) / 3 < seen["apart"] < len(library.ops)
    assert sum(seen[f"{op.op} legal"] for op in library.ops) > COUNT * CALLS / 4
