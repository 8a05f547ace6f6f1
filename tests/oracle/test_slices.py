"""Parts of large calls: their results are the same parts of the results of the whole."""

from __future__ import annotations

import numpy as np
import pytest
from opwright.calls.graph_run import _terms
from opwright.language.model import Op
from opwright.load import load
from opwright.oracle import witness
from opwright.oracle.run_steps import compute_steps
from opwright.oracle.slices import sliced
from opwright.oracle.step_sample import samples
from support.generated import FULL
from support.specs import FOLDER

OPS = [op for op in load(FOLDER, FOLDER.parents[1]).ops if op.stepped]


def cut(op: Op) -> int:
    """How many calls had a part, of which each was what the whole says."""
    found = 0
    for sample in samples(op, 6, extents=(2, 3, 4)):
        terms = _terms(op, list(sample.arrays), sample.attributes)
        part = sliced(op, sample.arrays, sample.attributes, terms, terms // 2)
        if part is None:
            continue
        whole = part.of(op, compute_steps(op, sample.arrays, sample.attributes))
        for name, cells in compute_steps(op, part.inputs, sample.attributes).items():
            np.testing.assert_array_equal(cells, whole[name])
        found += 1
    return found


def test_a_part_of_a_call_gives_that_part_of_its_results() -> None:
    tried = OPS if FULL else OPS[::5]
    assert sum(bool(cut(op)) for op in tried) > 0.7 * len(tried)


def test_a_large_result_that_is_wrong_in_a_part_is_called_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness, "INTERPRETED", 10)
    monkeypatch.setattr(witness, "SLICED", 200)
    op = next(op for op in OPS if op.op == "SoftMax")
    src = np.random.default_rng(1).normal(size=(20, 30)).astype(np.float32)
    (right,) = compute_steps(op, [src], {"axis": 1}).values()
    verdict = witness.check(op, [src], {"axis": 1}, 2400, [right])
    assert (verdict.right, verdict.ulp) == (True, 0)
    assert "values along B" in str(verdict)
    wrong = right.copy()
    wrong[0] += 1
    assert not witness.check(op, [src], {"axis": 1}, 2400, [wrong]).right
