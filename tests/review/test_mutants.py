"""Every small change of every field of every spec: refused by the loader, or found by exactly the rules that are expected.

`mutants.txt` says what each kind of change is. Whatever is found, the prediction must hold: both sides are rendered, and
the files whose tokens differ are the files that were predicted. A short run takes a mutant of each kind and field;
OPWRIGHT_SWEEP=full takes them all.
"""

from __future__ import annotations

import functools
import zlib
from collections import defaultdict
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from opwright.derive.contract import contract_hash
from opwright.language.library import Common, Sources
from opwright.language.model import Op
from opwright.language.source import SpecInvalid
from opwright.language.structs import keys_of
from opwright.load import load_texts
from opwright.review.rules import RULES
from support import mutants, reviewing
from support.draws import FULL
from support.mutants import Mutant

REFUSED = "refused"
PARTS = 16  # tests that the mutants are spread over, so that the workers of pytest-xdist share them
COMMON = f"{reviewing.FOLDER}/_common.yaml"
FORMULAS = {"value": "value-formula", "padding": "padding-rule", "shape": "shape-formula"}
# Fields that no spec here has and that no single edit can put in, each with what would take it.
WITHOUT_MUTANT = {
    "Semantics.where": "absent from the six operations; fixtures.txt has edits of guards",
    **dict.fromkeys(
        (
            "Semantics.steps",
            "Attribute.blocks",
            "Step.do",
            "Step.where",
            "Step.by",
            "Step.cases",
            "Tensor.broadcast",
            "Tensor.broadcast_if",
            "Tensor.may_lack",
        ),
        "the six operations have no steps; test_steps.py has edits of them",
    ),
    "Onnx.gives": "the six operations have one output",
    "Op.layouts": "the six operations take them from _common.yaml; Common.layouts has the mutants",
}
DATA = {name: mutants.plain(text) for name, text in reviewing.specs().items()}
TEXTS = {name: mutants.written(data) for name, data in DATA.items()}


@dataclass(frozen=True)
class Kind:
    """A row of mutants.txt."""

    fields: tuple[str, ...]
    hows: tuple[str, ...]
    outcomes: tuple[str, ...]
    refusable: bool

    def fits(self, spot: str, how: str) -> bool:
        return any(fnmatchcase(spot, field) for field in self.fields) and any(fnmatchcase(how, h) for h in self.hows)

    def __str__(self) -> str:
        return f"{', '.join(self.fields)} | {', '.join(self.hows)}"


def kinds() -> list[Kind]:
    lines = Path(__file__).with_name("mutants.txt").read_text(encoding="utf-8").splitlines()
    found = []
    for line in lines:
        if line and not line.startswith("#"):
            fields, hows, outcomes = (cell.strip() for cell in line.split(" | "))
            words = outcomes.removesuffix(" ?").split(" / ")
            found.append(
                Kind(tuple(fields.split(", ")), tuple(hows.split(", ")), tuple(words), outcomes.endswith(" ?"))
            )
    return found


KINDS = kinds()


@functools.cache
def kind_of(spot: str, how: str) -> Kind:
    return next(row for row in KINDS if row.fits(spot, how))


def kind(mutant: Mutant) -> Kind:
    return kind_of(mutant.spot, mutant.how)


def every_mutant() -> list[Mutant]:
    """All mutants; one name for another throughout is one mutant, wherever the name is given."""
    found: dict[Any, Mutant] = {}
    for name, data in DATA.items():
        for mutant in mutants.mutants(name, data):
            found.setdefault(mutant.value if mutant.how == "renamed throughout" else mutant.name, mutant)
    return list(found.values())


MUTANTS = every_mutant()


def sample() -> list[Mutant]:
    """A mutant of each kind and field, the same at every run.

    An entry of _common.yaml, which changes all operations, is taken for a kind that no field of an operation has.
    """
    groups = defaultdict(list)
    for mutant in sorted(MUTANTS, key=lambda m: (m.file == COMMON, zlib.crc32(m.name.encode()))):
        groups[kind(mutant), mutant.spot].append(mutant)
    found = []
    for (row, _), group in groups.items():
        if group[0].file != COMMON or row.outcomes == (REFUSED,) or row not in map(kind, found):
            found.append(group[0])
    return sorted(found, key=lambda m: m.file)  # a worker that takes neighbours renders fewer bases


CHOSEN = MUTANTS if FULL else sample()


# What is expected, read off the plain data.


def users(mutant: Mutant, *sections: str) -> list[tuple[str, Any]]:
    """The entries of operations that take the entry of _common.yaml that was changed, each with its section."""
    found = []
    for data in (data for file, data in DATA.items() if file != COMMON):
        for part in sections:
            entries = data.get(part, ())
            found += [(part, entry) for entry in (entries.values() if isinstance(entries, dict) else entries)]
    name = mutant.path[1]
    name = name if isinstance(name, str) else DATA[COMMON][mutant.path[0]][name]["name"]
    return [(part, entry) for part, entry in found if name == (entry.get("use") if isinstance(entry, dict) else entry)]


def overridden(mutant: Mutant) -> bool:
    """Whether every operation says itself what was changed of a shared attribute."""
    shared = mutant.file == COMMON and mutant.path[0] == "attributes" and len(mutant.path) == 3
    key = mutant.path[-1]
    return (
        shared
        and key != "use"
        and all(isinstance(entry, dict) and key in entry for _, entry in users(mutant, "attributes"))
    )


def words(mutant: Mutant) -> dict[str, str]:
    """What the braces of mutants.txt stand for."""
    section = str(mutant.path[0])
    if mutant.file == COMMON and section == "let" and len(mutant.path) > 1:
        section = users(mutant, "let", "padding", "shape")[0][0]
    value = {"let": "value"}.get(section, section)
    keys = DATA[COMMON]["dims"].get(mutant.path[-1], {}) if mutant.path[0] == "dims" else {}
    lost = {"typical": "dim-typical-changed", "summary": "docs-summary-changed", "per_axis": "dim-axes-changed"}
    rules = [rule for key, rule in lost.items() if key in keys]
    rules += ["dim-minimum-lowered"] if keys.get("min") == "1" else []
    return {
        "tensor": section.removesuffix("s"),
        "value": value,
        "rule": FORMULAS.get(value, ""),
        "keys": " ".join(rules),
    }


def expected(mutant: Mutant) -> list[tuple[set[str], set[str]]]:
    """What may be found: in each pair the rules that must be there, and with them those that may."""
    if overridden(mutant):
        return [({"format-text-changed"}, {"format-text-changed"})]
    same = [mutant]
    if mutant.how == "renamed throughout":  # a word may name several things
        given = [m for name, data in DATA.items() for m in mutants.mutants(name, data)]
        same = [m for m in given if m.how == mutant.how and m.value == mutant.value]
    rows = [(kind(m), words(m)) for m in same]
    found = []
    for n in range(max(len(row.outcomes) for row, _ in rows)):
        must, may = set[str](), set[str]()
        for row, filled in rows:
            sure, _, more = row.outcomes[min(n, len(row.outcomes) - 1)].format(**filled).partition(" + ")
            must |= {*sure.split()}
            may |= {*sure.split(), *more.split()}
        found.append((must, may))
    return [*found, ({REFUSED}, {REFUSED})] if any(row.refusable for row, _ in rows) else found


def outcome(mutant: Mutant) -> list[str]:
    """`refused`, or the rules of the findings; what follows from an edit is left out: a kept revision is checked here,
    notes of the linter, ways to split, and what C declares in tests of their own."""
    after = {**TEXTS, **mutant.made(DATA)}
    try:
        found = reviewing.reviewed(TEXTS, after)
    except SpecInvalid:
        return [REFUSED]
    assert found.impact.unpredicted == [], "; ".join(found.impact.unpredicted)
    old, new = load_texts(TEXTS), load_texts(after)
    changed = {op.op for op in new.ops if any(o.op == op.op and _changed(o, op) for o in old.ops)}
    noted = {op for finding in found.findings if finding.rule.id == "op-revision-kept" for op in finding.ops}
    assert noted == changed, mutant.name
    rules = [finding.rule for finding in found.findings if finding.rule.area not in ("lint", "symbol", "split", "c")]
    return sorted(rule.id for rule in rules if rule.id != "op-revision-kept")


def _changed(old: Op, new: Op) -> bool:
    return old.revision == new.revision and contract_hash(old) != contract_hash(new)


def wrong(mutant: Mutant) -> str:
    """What is not as expected of a mutant; nothing where all is."""
    try:
        found = outcome(mutant)
    except AssertionError as error:
        return f"{mutant.name}: {error}"
    once = mutant.how in ("gone", "renamed throughout") or len(found) == len(set(found))
    fits = any(must <= set(found) <= may for must, may in expected(mutant))
    return "" if fits and once else f"{mutant.name}: {' '.join(found)}, expected one of {expected(mutant)}"


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(PARTS))
def test_a_mutant_is_refused_or_found_by_the_expected_rules_and_moves_what_was_predicted(part: int):
    found = [wrong(mutant) for mutant in CHOSEN[part * len(CHOSEN) // PARTS : (part + 1) * len(CHOSEN) // PARTS]]
    assert [sentence for sentence in found if sentence] == []


def test_the_short_run_has_many_mutants_that_are_not_always_refused():
    assert len([m for m in sample() if kind(m).outcomes != (REFUSED,)]) >= 150


def test_every_row_fits_a_mutant_and_is_made_of_rules():
    fitting = {str(kind(mutant)) for mutant in MUTANTS}
    assert [str(row) for row in KINDS if str(row) not in fitting] == []
    plain = {word for row in KINDS for outcome in row.outcomes for word in outcome.split() if "{" not in word}
    assert plain <= {REFUSED, "+", *RULES} - {"impact-unpredicted"}


def test_no_field_of_the_language_is_without_a_mutant_or_a_reason():
    spots = {mutant.spot for mutant in MUTANTS}
    classes, waiting = set[type](), [Op, Common, Sources]
    while waiting:
        cls = waiting.pop()
        classes.add(cls)
        kinds = [metadata["kind"] for metadata in keys_of(cls).values()]
        for found in kinds:
            while hasattr(found, "item"):
                found = found.item
            if getattr(found, "cls", None) and found.cls not in classes:
                waiting.append(found.cls)
    fields = {f"{cls.__name__}.{key}" for cls in classes for key in keys_of(cls)}
    assert fields - spots == WITHOUT_MUTANT.keys()
