"""What edits of specs do to ways to split operations: the review says what the table of splits lost, got or has otherwise."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest
from opwright.derive.algebra.poly import NotPolynomial
from opwright.derive.splitting.split import WHOLE
from opwright.derive.splitting.table import table
from opwright.language.model import Op
from opwright.language.source import SpecInvalid
from opwright.load import load_texts
from support import judged_edits, mutants, reviewing, split_edits
from support.draws import FULL
from support.random_idioms import idioms
from support.specs import untied

SPECS = 400 if FULL else 14
EDITS = 6 if FULL else 3  # of a spec


def ways(op: Op) -> dict[str, Counter[str]]:
    """Every way of a size, by the size's role, without the letters of formulas."""
    roles = {dim.symbol: role for role, dim in op.dims.items()}
    roles |= {a.symbol or "": a.name or "" for a in op.attributes if a.type == "s64"}
    found: dict[str, Counter[str]] = {}
    for split in table(op):
        if split.kind != WHOLE:
            data = {key: item for key, item in split.data().items() if key != "letter"}
            found.setdefault(roles[split.size], Counter())[json.dumps(data, sort_keys=True)] += 1
    return found


def told(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, set[str]]:
    """The rules that the review finds of each size."""
    found: dict[str, set[str]] = {}
    with reviewing.nothing_rendered():
        for finding in reviewing.reviewed(before, after).findings:
            if finding.rule.area == "split":
                role = finding.path.removeprefix("splits.").partition(" where ")[0]
                found.setdefault(role, set()).add(finding.rule.id)
    return found


def spec(number: int) -> tuple[str, dict[str, str]]:
    """The file of an operation without its ties, shipped or of random idioms, and the texts that it needs."""
    chance = random.Random(number)
    if number % 3 == 2:
        name = f"{reviewing.FOLDER}/idioms.yaml"
        return name, {name: idioms(np.random.default_rng(number), "Idioms")}
    name = chance.choice(sorted(judged_edits.files().values()))
    shared = {file: text for file, text in judged_edits.folder().items() if file.rpartition("/")[2].startswith("_")}
    return name, {**shared, name: untied(judged_edits.folder()[name])}


@pytest.mark.hard
def test_the_review_names_every_size_whose_ways_to_split_changed_and_no_other() -> None:
    wrong, seen = [], Counter[str]()
    with judged_edits.quiet():
        for number in range(SPECS):
            name, texts = spec(number)
            data, chance = mutants.plain(texts[name]), random.Random(number)
            data.pop("normal_form", None)
            before = {**texts, name: mutants.written(data)}
            for made in (split_edits.edited(data, chance) for _ in range(EDITS)):
                try:
                    after = {**texts, name: mutants.written(made)} if made else before
                    sides = [ways(load_texts(side).ops[0]) for side in (before, after)]
                except (SpecInvalid, NotPolynomial):
                    continue
                one, other = sides
                for old, new, was, now in ((one, other, before, after), (other, one, after, before)):
                    changed = {role for role in {*old, *new} if old.get(role) != new.get(role)}
                    found = told(was, now)
                    gone = {role for role in changed if role not in new}
                    seen.update({"same": not changed, "gone": len(gone), "changed": len(changed - gone)})
                    if found.keys() != changed or any(found[role] != {"split-way-removed"} for role in gone):
                        wrong.append((number, name, changed, found))
    assert wrong == []
    assert min(seen[kind] for kind in ("same", "gone", "changed")) > 3, seen


def test_a_window_whose_padding_a_part_states_otherwise_is_a_way_that_changed() -> None:
    name = f"{reviewing.FOLDER}/max_pool.yaml"
    texts = {file: untied(text) for file, text in judged_edits.folder().items() if file.rpartition("/")[2][0] == "_"}
    texts[name] = untied(judged_edits.folder()[name])
    other = reviewing.edited(texts, "max_pool.yaml", ("I + PB + PE - EK", "I + PB - EK"))
    for sides in ((texts, other), (other, texts)):
        assert told(*sides) == {"dst_spatial": {"split-way-changed"}}
