"""Every shipped operation of steps, on random calls: odd sizes, no cells, layouts, views, stretched inputs, threads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import opwright_kernels as ok
import pytest
from opwright.language.model import Op
from opwright.load import load
from support.draws import FULL, rng
from support.specs import FOLDER
from support.step_verdicts import first_disagreement

OPS = [op for op in load(FOLDER, FOLDER.parents[1]).ops if op.stepped]
CALLS = 60 if FULL else 4
ROWS = None if FULL else 1  # each row of data types has a kernel of its own to compile


@pytest.fixture(scope="module", autouse=True)
def _quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    yield


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.function)
def test_random_calls_of_a_shipped_operation_are_judged_and_computed_as_by_the_interpreter(op: Op) -> None:
    seen: Counter[str] = Counter()
    assert first_disagreement(ok, op, rng(op.op), CALLS, seen, ROWS) is None
    assert seen[f"{op.op} legal"] >= CALLS
