"""Names of a spec never meet those that generated code has of its own, in kernels, in Python and in a library in C."""

from __future__ import annotations

from pathlib import Path

import pytest
from opwright.load import load_texts
from support.draws import FULL, rng
from support.renaming import candidates, code, collisions, fresh, hostile

DATA = Path(__file__).parents[1] / "data"
SPECS = sorted([*DATA.glob("formulas/*.yaml"), *DATA.glob("steps/*.yaml")])
SPECS = [path for path in SPECS if "\n  steps:" in path.read_text(encoding="utf-8")]  # others sort sizes by name
CHOSEN = SPECS if FULL else [SPECS[int(at)] for at in rng("names").permutation(len(SPECS))[:4]]
TRIALS = 40 if FULL else 6


@pytest.mark.sweep
@pytest.mark.parametrize("path", CHOSEN, ids=lambda path: path.stem)
def test_code_of_a_spec_under_other_names_differs_in_these_alone(path: Path) -> None:
    """An identifier that stands for two things under some names is told from the code under fresh names."""
    op, given = fresh(load_texts({path.name: path.read_text(encoding="utf-8")}).ops[0])
    files, draw = code(op), rng(path.stem)
    words = candidates(op, files)
    for _ in range(TRIALS):
        other = hostile(op, given, words, draw, 0.5)
        assert collisions(files, code(other)) == []
