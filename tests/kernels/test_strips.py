"""Sums over windows along several axes have the terms that the interpreter adds."""

from __future__ import annotations

from pathlib import Path

import pytest
from opwright.derive.phases import staged
from support.draws import FULL, rng
from support.package import package
from support.random_strips import spec_of_strips
from support.step_verdicts import agree

COUNT, CALLS = (60, 20) if FULL else (8, 10)


@pytest.mark.sweep
def test_sums_over_windows_along_several_axes_agree_with_the_interpreter(tmp_path: Path) -> None:
    random = rng("strips")
    texts = {f"strips{n}.yaml": spec_of_strips(random, f"Strips{n}") for n in range(COUNT)}
    library, module = package(texts, tmp_path, "strips")
    strips = [any(name.startswith("strip_") for name in staged(op).program.arrays) for op in library.ops]
    seen = agree(module, library.ops, CALLS)
    assert any(strips)
    assert not (FULL and all(strips)), "of 8 all may be"
    assert sum(seen[f"{op.op} legal"] for op in library.ops) > COUNT * CALLS / 2
