"""Edits of any field of shipped operations, of derived gradients and of shared files: what a review calls harmless is, as
judged by calls, signatures, structs of C, and tables of PyTorch, of ONNX and of splits."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from opwright.derive.algebra.poly import NotPolynomial
from opwright.language.source import SpecInvalid
from opwright.review.evidence import ERROR
from support import judged_edits, mutants
from support.draws import FULL, rng

SETS = 40 if FULL else 2  # of edits in a part
EDITS = 6 if FULL else 3  # of a set
CALLS = 20 if FULL else 6
REFUSED = (SpecInvalid, NotPolynomial)


@pytest.mark.hard
@pytest.mark.sweep
@pytest.mark.parametrize("part", range(16 if FULL else 1))
def test_no_edit_of_shared_entries_and_rows_of_pytorch_and_onnx_is_called_less_than_it_is(part: int):
    """Some of them with the proof of their effect, which also compares what headers declare."""
    wrong = []
    with judged_edits.quiet():
        for turn in range(SETS):
            chance, draws = random.Random(seed := 1000 * part + turn), rng("tables", part, turn)
            name = chance.choice(sorted(judged_edits.files().values()))
            for what, before, after in judged_edits.table_edited(name, EDITS, chance):
                proven = chance.random() < 0.2
                try:
                    for sides in ((before, after), (after, before)):
                        wrong += [(seed, name, what, m) for m in judged_edits.misses(*sides, draws, CALLS, proven)]
                except REFUSED:
                    continue
    assert wrong == []


@pytest.mark.hard
@pytest.mark.sweep
@pytest.mark.parametrize("part", range(16 if FULL else 2))
def test_no_edit_of_a_shipped_operation_is_called_less_than_it_is(part: int):
    """Both ways: what came may go."""
    wrong = []
    with judged_edits.quiet():
        for turn in range(SETS):
            chance, draws = random.Random(seed := 1000 * part + turn), rng("judged", part, turn)
            name = chance.choice(sorted(judged_edits.files().values()))
            for what, before, after in judged_edits.edits(name, EDITS, chance):
                try:
                    for sides in ((before, after), (after, before)):
                        wrong += [(seed, name, what, miss) for miss in judged_edits.misses(*sides, draws, CALLS)]
                except REFUSED:
                    continue
    assert wrong == []


@pytest.mark.hard
@pytest.mark.sweep
@pytest.mark.parametrize(("seed", "op"), [(seed, "") for seed in range(100, 160)] if FULL else [(115, "Tanh")])
def test_kernels_of_both_sides_do_what_witnesses_say(seed: int, op: str, tmp_path: Path):
    chance, wrong, executed = random.Random(seed), list[tuple[str, str]](), 0
    files = judged_edits.files()
    drawn = chance.choice(sorted(files.values()))
    name = files.get(op, drawn)
    with judged_edits.quiet():
        for what, before, after in judged_edits.edits(name, 3, chance):
            try:
                found = judged_edits.reviewed(before, after, run=True).findings
            except REFUSED:
                continue
            shown = [finding.witness for finding in found if finding.witness and finding.witness.call]
            executed += sum(witness.executed for witness in shown)
            wrong += [(what, note) for witness in shown for note in witness.notes if ERROR in note]
    assert wrong == []
    assert executed or FULL


def test_a_letter_that_is_also_the_name_of_an_input_in_onnx_is_renamed_alone():
    """The node's inputs keep their names, so no node is computed otherwise; if they do not, that is told."""
    name = judged_edits.files()["HardSwish"]
    before = judged_edits.family(name)
    text = before[name]
    letter = text.replace("{cells: X}", "{cells: H}").replace("{X: X}", "{X: H}").replace("{x: X}", "{x: H}")
    assert letter.count("H}") == 4
    both = letter.replace("src: X}", "src: H}")
    assert both != letter
    for after, rules in ((letter, {"dim-symbol-renamed"}), (both, {"dim-symbol-renamed", "onnx-node-changed"})):
        found = judged_edits.reviewed(before, {**before, name: after}).findings
        assert {finding.rule.id for finding in found if "HardSwish" in finding.ops} == rules


@pytest.mark.parametrize(
    ("old", "new", "breaks"),
    [
        ("IC / G", "(IC / G) * XTRA", False),
        ("floor((I + PB + PE - EK) / S) + 1", "floor((I + PB + PE - EK) / S) + XTRA", False),
        ("floor((I + PB + PE - EK) / S) + 1", "floor((I + PB + PE - EK) / S) + 1 + XTRA", True),
    ],
)
def test_formulas_with_a_new_attribute_are_compared_at_its_default(old: str, new: str, breaks: bool):
    """No call from before names it; both ways, as one that goes with its default was named by calls that it breaks."""
    name = judged_edits.files()["Convolution"]
    before = judged_edits.family(name)
    data = mutants.plain(before[name])
    data["attributes"].append({"name": "extra", "symbol": "XTRA", "type": "s64", "default": "1", "summary": "one more"})
    text = mutants.written(data)
    assert f'"{old}"' in text
    after = {**before, name: text.replace(f'"{old}"', f'"{new}"')}
    for sides in ((before, after), (after, before)):
        found = judged_edits.reviewed(*sides).findings
        rules = {f.rule.id for f in found if f.rule.area in ("input", "shape", "semantics") and "Convolution" in f.ops}
        assert rules
        assert {rule.rpartition("-")[2] for rule in rules} == {"changed" if breaks else "rewritten"}
