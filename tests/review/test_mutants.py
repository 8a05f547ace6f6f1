"""Every small change of every field of every spec: refused by the loader, or found by exactly the rules that are expected.

`mutants.json` holds, for each field and mutation, the outcomes that are right; it is written with
OPWRIGHT_UPDATE_GOLDEN=1 and OPWRIGHT_SWEEP=full, and then read in review. A prediction must hold for every mutant.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path

import pytest
from opwright.hashing import semantic_hash
from opwright.load import load_texts
from opwright.model import Common, Op, Sources
from opwright.review.rules import RULES
from opwright.schema import keys_of
from opwright.source import SpecInvalid
from support import mutants, reviewing

EXPECTED = Path(__file__).with_name("mutants.json")
FULL = os.environ.get("OPWRIGHT_SWEEP") == "full"
UPDATE = os.environ.get("OPWRIGHT_UPDATE_GOLDEN") == "1"
REFUSED = "refused"
SHORT = 24  # mutants in a short run, of those that the loader lets pass
# Fields that no spec here has and that no single edit can put in, each with what would take it.
WITHOUT_MUTANT = {
    "Semantics.where": "absent from the six operations; fixtures.txt has semantics-guard-added",
    "Op.layouts": "the six operations take them from _common.yaml; Common.layouts has the mutants",
}

TEXTS = {name: mutants.written(mutants.plain(text)) for name, text in reviewing.specs().items()}
MUTANTS = [mutant for name, text in TEXTS.items() for mutant in mutants.mutants(name, text)]


def expected() -> dict[str, list[str]]:
    return json.loads(EXPECTED.read_text(encoding="utf-8")) if EXPECTED.exists() else {}


def outcome(mutant: mutants.Mutant) -> str:
    """`refused`, or the rules that fire; that a meaning changed under its revision is checked here and left out."""
    after = {**TEXTS, mutant.file: mutant.text}
    try:
        found = reviewing.reviewed(TEXTS, after)
    except SpecInvalid:
        return REFUSED
    assert found.impact.unpredicted == [], mutant.name
    old, new = load_texts(TEXTS), load_texts(after)
    kept = {op.op for op in new.ops if any(o.op == op.op and _changed(o, op) for o in old.ops)}
    noted = {op for finding in found.findings if finding.rule.id == "op-revision-kept" for op in finding.ops}
    assert noted == kept, mutant.name
    return " ".join(sorted({f.rule.id for f in found.findings} - {"op-revision-kept"}))


def _changed(old: Op, new: Op) -> bool:
    return old.revision == new.revision and semantic_hash(old) != semantic_hash(new)


def sample() -> list[mutants.Mutant]:
    """Some mutants that are not refused, of different fields, the same at every run."""
    table = expected()
    passing = [m for m in MUTANTS if any(o != REFUSED for o in table.get(f"{m.spot} {m.how}", []))]
    by_spot = {m.spot: m for m in sorted(passing, key=lambda m: zlib.crc32(m.name.encode()))}
    return sorted(by_spot.values(), key=lambda m: zlib.crc32(m.spot.encode()))[:SHORT]


@pytest.mark.sweep
def test_a_mutant_is_refused_or_found_by_the_expected_rules_and_moves_what_was_predicted():
    chosen, found = MUTANTS if FULL else sample(), dict[str, set[str]]()
    assert len(chosen) >= SHORT
    with reviewing.remembered():
        for mutant in chosen:
            found.setdefault(f"{mutant.spot} {mutant.how}", set()).add(outcome(mutant))
    if FULL and UPDATE:
        made = {key: sorted({*outcomes, *expected().get(key, [])}) for key, outcomes in sorted(found.items())}
        EXPECTED.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    table = expected()
    wrong = {key: outcomes - {*table.get(key, [])} for key, outcomes in found.items()}
    assert {key: outcomes for key, outcomes in wrong.items() if outcomes} == {}


def test_no_field_of_the_language_is_without_a_mutant_or_a_reason():
    spots = {mutant.spot for mutant in MUTANTS}
    classes, waiting = set[type](), [Op, Common, Sources]
    while waiting:
        cls = waiting.pop()
        classes.add(cls)
        kinds = [metadata["kind"] for metadata in keys_of(cls).values()]
        for kind in kinds:
            while hasattr(kind, "item"):
                kind = kind.item
            if getattr(kind, "cls", None) and kind.cls not in classes:
                waiting.append(kind.cls)
    fields = {f"{cls.__name__}.{key}" for cls in classes for key in keys_of(cls)}
    assert {field for field in fields - spots if field not in WITHOUT_MUTANT} == set()


def test_every_expected_outcome_is_made_of_rules():
    words = {word for outcomes in expected().values() for found in outcomes for word in found.split()}
    assert words <= {REFUSED, *RULES}
    assert "impact-unpredicted" not in words
