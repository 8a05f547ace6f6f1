"""What `diff` calls harmless is: edits of every formula, judged by what both sides do with random calls."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from unittest import mock

import pytest
from opwright.derive.poly import NotPolynomial
from opwright.language.library import Library
from opwright.language.source import SpecInvalid
from opwright.load import load_texts
from opwright.oracle import sample
from opwright.review import compare
from opwright.review.readings import Sides
from opwright.review.rules import RULES
from opwright.review.search import search
from opwright.review.witness import BREAKS, MIN_TRIES, claimed
from support import formula_edits, reviewing

FULL = os.environ.get("OPWRIGHT_SWEEP") == "full"
EDITS = 4000 if FULL else 16
CALLS = 1500 if FULL else 60
PARTS = 8
HARMLESS = ("none", "compatible")
REFUSED = (SpecInvalid, NotPolynomial)  # the second where the loops of kernels cannot be derived


def broken(base: Library, texts: Mapping[str, str], seed: int) -> str:
    """A call that breaks though every edit is called harmless; nothing where there is none, or the loader refuses."""
    try:
        head = load_texts(texts)
    except REFUSED:
        return ""
    edits = compare.edits(base, head)
    told = {RULES[edit.rule] for edit in edits}
    if any(rule.contract not in HARMLESS for rule in told):
        return ""
    for old, new in zip(base.ops, head.ops, strict=True):
        own = [edit for edit in edits if edit.op == old.op]
        sides = Sides(old, new, new)
        with mock.patch.object(sample, "SEED", seed):
            found = search(sides, own, (BREAKS,), CALLS) if own else None
        doubted = any(claimed(rule) for rule in told) and own
        if found and found.call and not (doubted and search(sides, own, (BREAKS,), MIN_TRIES).call):
            return f"{sorted(rule.id for rule in told)}: {found.call} {found.kind}"
    return ""


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(PARTS))
def test_no_edit_of_a_formula_that_is_called_harmless_breaks_a_call(part: int):
    texts = reviewing.specs()
    base = load_texts(texts)
    made = formula_edits.edits(texts, EDITS // PARTS, random.Random(part))
    wrong = [(told, call) for number, (told, after) in enumerate(made) if (call := broken(base, after, number + 1))]
    assert wrong == []


def test_edits_of_formulas_are_harmless_breaking_and_refused():
    """Else the sweep would show nothing."""
    texts = reviewing.specs()
    base, contracts = load_texts(texts), set()
    for _, after in formula_edits.edits(texts, 24, random.Random(99)):
        try:
            found = {RULES[edit.rule].contract for edit in compare.edits(base, load_texts(after))}
        except REFUSED:
            found = {"refused"}
        contracts |= {"breaking" if "breaking" in found else "refused" if "refused" in found else "harmless"}
    assert contracts == {"harmless", "breaking", "refused"}
