"""Two edits at once: whatever they are, the files and kernels that move are those that were predicted.

A short run takes some pairs, the same every time; OPWRIGHT_SWEEP=full takes a thousand.
"""

from __future__ import annotations

import pytest
from opwright.language.source import SpecInvalid
from support import pairs, reviewing
from support.draws import FULL

PAIRS = 1000 if FULL else 24
PARTS = 8  # tests that the pairs are spread over, so that the workers of pytest-xdist share them
SETS = pairs.bases()
# What once was not predicted, whichever operation it is done to.
TOGETHER = [
    ("row_added", "said"), ("row_added", "discrepancy_added"), ("row_replaced", "said"), ("moved", "typical"),
    ("moved", "revision"), ("come", "said"), ("gone", "typical"), ("row_added", "row_replaced"),
]  # fmt: skip


def unpredicted(pair: pairs.Pair) -> list[str]:
    try:
        return reviewing.reviewed(pair.before, pair.after).impact.unpredicted
    except SpecInvalid:  # a normal form that no longer agrees with its semantics
        return []


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(PARTS))
def test_what_two_edits_move_is_what_was_predicted(part: int):
    wrong = {}
    for seed in range(part, PAIRS, PARTS):
        pair = pairs.pair(seed, SETS)
        if found := unpredicted(pair):
            wrong[seed, pair.names] = found[:3]
    assert wrong == {}


@pytest.mark.parametrize("names", TOGETHER, ids=" and ".join)
def test_edits_of_rows_words_and_files_move_together_what_was_predicted(names: tuple[str, str]):
    pair = pairs.chosen(names, SETS[-1] if "gone" in names else SETS[0])
    assert unpredicted(pair) == []
