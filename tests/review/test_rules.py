"""The table of rules: every row is well-formed, has its mirror or says why not, fires on an edit and is silent on others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from opwright.load import load_texts
from opwright.model import Op
from opwright.review.compare import FIELDS, INNER, MANY, edits
from opwright.review.report import explained
from opwright.review.rules import CONTRACTS, KERNELS, RECORDS, RULES, SEVERITIES, SEVERITY, WITHOUT_RULE
from opwright.schema import keys_of
from support import mutants, reviewing

FIXTURES = Path(__file__).with_name("fixtures.txt")
FILES = {"op": "conv_transpose.yaml", "common": "_common.yaml", "sources": "_sources.yaml"}
PROSE = re.compile(r"\s*(- )?(id|page|library|ruling|why|summary|reason|say|revision): ")
# Rules that no edit of one spec fires, each with the test that holds it.
ELSEWHERE = {
    "op-removed": "test_findings: an operation that goes",
    "op-added": "test_findings: an operation that comes",
    "op-revision-kept": "test_findings",
    "op-file-moved": "test_findings",
    "op-deprecation-removed": "test_findings",
    "op-deprecation-changed": "test_findings",
    "op-revision-unlocked": "test_findings",
    "symbol-declaration-changed": "test_findings",
    "template-files-changed": "test_findings",
    "generator-code-changed": "test_findings",
    "lint-shared-unused": "test_lint",
    "lint-entry-repeated": "test_lint",
    "lint-page-uncited": "test_lint",
    "lint-relation-unanswered": "test_lint",
    "lint-relation-uneven": "test_lint",
    "waiver-entry-unused": "test_findings",
    "waiver-entry-expired": "test_findings",
    "impact-unpredicted": "test_findings",
}


def base() -> dict[str, str]:
    """ConvTranspose alone, with what it takes from the shared files."""
    texts = reviewing.specs()
    kept = {name: text for name, text in texts.items() if name.rpartition("/")[2] in FILES.values()}
    name = f"{reviewing.FOLDER}/conv_transpose.yaml"
    kept[name] = re.sub(r"relations:\n(  - .*\n)+", "", kept[name])
    return kept


def rows() -> list[tuple[str, str, str, str]]:
    lines = FIXTURES.read_text(encoding="utf-8").splitlines()
    split = [line.split(" | ", 3) for line in lines if line.strip() and not line.startswith("#")]
    return [(row[0].strip(), row[1], *(part.replace("\\n", "\n") for part in row[2:4])) for row in split]


def changed(where: str, old: str, new: str) -> dict[str, str]:
    """The base after an edit; `#ALL pattern => text` edits every other place but prose."""
    new, *more = re.split(r" ?#ALL ", new)
    texts = base()
    for key in ("op", "common") if where == "both" else (where,):
        name = f"{reviewing.FOLDER}/{FILES[key]}"
        text = texts[name]
        assert where == "both" or old in text, f"{old!r} is not in {FILES[key]}"
        text = text.replace(old, new) if where == "both" else text.replace(old, new, 1)
        for step in more:
            pattern, _, instead = step.partition(" => ")
            lines = [
                line if PROSE.match(line) else re.sub(pattern, instead, line) for line in text.splitlines(keepends=True)
            ]
            text = "".join(lines)
        texts[name] = text
    return texts


def fired(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {edit.rule for edit in edits(load_texts(before), load_texts(after))}


@pytest.mark.parametrize(("rule", "where", "old", "new"), rows(), ids=[row[0] for row in rows()])
def test_a_rule_fires_on_its_edit_and_its_mirror_on_the_opposite_one(rule: str, where: str, old: str, new: str):
    with reviewing.kept_loading():
        before, after = base(), changed(where, old, new)
        assert fired(before, after) == {rule}
        back = fired(after, before)
    mirror = RULES[rule].mirror
    assert mirror.startswith("! ") or back == {mirror}


def test_no_rule_fires_where_nothing_is_said_otherwise():
    texts = base()
    spaced = {name: "# a comment\n\n" + text.replace("\n\n", "\n\n\n") for name, text in texts.items()}
    again = {name: mutants.written(mutants.plain(text)) for name, text in texts.items()}
    assert fired(texts, spaced) == set()
    assert fired(texts, again) == set()


def test_every_rule_has_its_mirror_or_a_reason_why_not():
    for rule in RULES.values():
        if rule.mirror.startswith("! "):
            assert len(rule.mirror) > 10, rule.id
        else:
            assert rule.mirror in RULES, rule.id
            back = RULES[rule.mirror].mirror
            assert back == rule.id or rule.id.rpartition("-")[2] in ("removed", "added"), rule.id


def test_every_rule_is_made_of_known_words():
    for rule in RULES.values():
        assert re.fullmatch(r"[a-z]+(-[a-z]+){1,3}", rule.id)
        assert rule.contract in CONTRACTS
        assert rule.kernel in KERNELS
        assert rule.record in RECORDS
        assert rule.severity() in SEVERITIES
        assert rule.reason.endswith(".")
        assert rule.id in explained(rule)
    assert all(len(reason) > 10 for reason in WITHOUT_RULE.values())


def test_severity_is_read_off_the_axes_and_can_be_remapped():
    assert RULES["attribute-default-changed"].severity() == "error"
    assert RULES["class-kernels-removed"].severity() == "error"
    assert RULES["semantics-order-changed"].severity() == "warning"
    assert RULES["layout-word-added"].severity() == "notice"
    assert RULES["docs-summary-changed"].severity() == "info"
    assert RULES["docs-summary-changed"].severity({"docs": "warning"}) == "warning"
    assert RULES["layout-word-added"].severity({"layout-word-added": "error"}) == "error"
    assert set(SEVERITY.values()) == set(SEVERITIES)


def test_every_field_of_an_operation_stands_in_exactly_one_table():
    def classes(cls: type, seen: set[type]) -> set[type]:
        seen.add(cls)
        for metadata in keys_of(cls).values():
            kind = metadata["kind"]
            while hasattr(kind, "item"):
                kind = kind.item
            inner = getattr(kind, "cls", None)
            if inner is not None and inner not in seen:
                classes(inner, seen)
        return seen

    found = classes(Op, set())
    fields = {f"{cls.__name__}.{key}" for cls in found for key in keys_of(cls) if cls.__name__ != "NormalForm"}
    assert fields == {*FIELDS, *MANY, *INNER}
    assert len(fields) == len(FIELDS) + len(MANY) + len(INNER)
