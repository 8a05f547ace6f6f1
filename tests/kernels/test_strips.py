"""Sums over windows along several axes have the terms that the interpreter adds."""

from __future__ import annotations

from pathlib import Path

import pytest
from opwright.derive.phases import staged
from opwright.language.model import Op
from opwright.load import load_texts
from support.draws import FULL, rng
from support.package import package
from support.random_strips import spec_of_strips
from support.step_verdicts import agree

COUNT, CALLS = (60, 20) if FULL else (8, 10)


def has_strips(op: Op) -> bool:
    return any(name.startswith("strip_") for name in staged(op).program.arrays)


@pytest.mark.sweep
def test_sums_over_windows_along_several_axes_agree_with_the_interpreter(tmp_path: Path) -> None:
    random = rng("strips")
    texts = {f"strips{n}.yaml": spec_of_strips(random, f"Strips{n}") for n in range(COUNT)}
    while all(map(has_strips, load_texts(texts).ops)):
        texts[f"strips{len(texts)}.yaml"] = spec_of_strips(random, f"Strips{len(texts)}")
    library, module = package(texts, tmp_path, "strips")
    strips = [*map(has_strips, library.ops)]
    seen = agree(module, library.ops, CALLS)
    assert 0 < sum(strips) < len(library.ops)
    assert sum(seen[f"{op.op} legal"] for op in library.ops) > COUNT * CALLS / 2
