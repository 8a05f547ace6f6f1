"""The lock, the waivers and the severities: what a branch changes in them is reported, and excuses nothing in that branch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opwright.derive.contract import contract_hash
from opwright.load import load_texts
from opwright.review.findings import Review
from opwright.review.waivers import HASH, Lock, locked, read_lock
from support import checkout, reviewing

OP = "conv_transpose.yaml"
SPECS = reviewing.by_semantics(OP)
LIBRARY = load_texts(SPECS)
LOCK = locked(LIBRARY, Lock())
INIT = ("  init: 0\n", "  init: 1\n")
REVISION = ("revision: 1", "revision: 2")
DOCS = (
    "summary: The gradient of Convolution with respect to its src",
    "summary: A gradient of Convolution with respect to its src",
)
MEANING = reviewing.edited(SPECS, OP, INIT)


@pytest.fixture(scope="module", autouse=True)
def _unrendered() -> Iterator[None]:
    with reviewing.nothing_rendered():
        yield


def ids(review: Review) -> list[str]:
    return sorted(finding.rule.id for finding in review.findings)


def errors(review: Review) -> list[str]:
    return sorted(finding.rule.id for finding in review.failing("error"))


def entry(name: str, value: str | None) -> str:
    """The lock with another hash of one revision, or without it."""
    lines = LOCK.splitlines(keepends=True)
    (at,) = [n for n, line in enumerate(lines) if line.startswith(f"  {name}:")]
    lines[at : at + 1] = [] if value is None else [f"  {name}: {value}\n"]
    return "".join(lines)


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (LOCK, entry("Convolution@1", "0" * 64), "lock-entry-changed"),
        (LOCK + f"  Convolution@7: {'0' * 64}\n", LOCK + f"  Convolution@7: {'1' * 64}\n", "lock-entry-changed"),
        (LOCK, entry("Convolution@1", None), "lock-entry-removed"),
        (LOCK, f"hash: {HASH}\nrevisions: {{}}\n", "lock-entry-removed"),
        (LOCK, "", "lock-hash-lowered"),
        (LOCK, LOCK.replace(f"hash: {HASH}", "hash: 1"), "lock-hash-lowered"),
        (LOCK.replace(f"hash: {HASH}", "hash: 1"), LOCK, "lock-hash-raised"),
        (entry("Convolution@1", None), LOCK, "lock-entry-added"),
        ("", LOCK, "lock-entry-added"),
    ],
)
def test_every_change_of_the_lock_is_a_finding_of_its_own(old: str, new: str, rule: str):
    found = reviewing.reviewed(SPECS, SPECS, old_lock=old, lock=new)
    assert ids(found) == [rule]
    assert errors(found) == ([] if rule in ("lock-entry-added", "lock-hash-raised") else [rule])


def test_an_entry_of_the_lock_that_is_rewritten_without_its_operation_is_an_error():
    wrong = entry("Convolution@1", "0" * 64)
    assert errors(reviewing.reviewed(SPECS, SPECS, old_lock=wrong, lock=LOCK)) == ["lock-entry-changed"]


def test_a_changed_meaning_whose_hash_is_rewritten_in_the_lock_is_one_finding():
    lock = locked(load_texts(MEANING), Lock())
    found = reviewing.reviewed(SPECS, MEANING, old_lock=LOCK, lock=lock)
    assert ids(found) == ["op-revision-kept", "semantics-edge-changed"]
    assert errors(found) == ids(found)


def test_a_revision_that_is_lowered_with_the_lock_rewritten_is_an_error():
    raised = reviewing.edited(MEANING, OP, REVISION)
    both = locked(load_texts(raised), read_lock(LOCK, "LOCK.yaml"))
    found = reviewing.reviewed(raised, MEANING, old_lock=both, lock=locked(load_texts(MEANING), Lock()))
    assert errors(found) == ["lock-entry-removed", "op-revision-kept", "op-revision-lowered"]
    assert "op-revision-lowered" in errors(reviewing.reviewed(raised, MEANING))


def test_an_edit_of_what_all_operations_share_asks_for_new_revisions_once():
    wider = reviewing.edited(SPECS, "_common.yaml", ("in_channels: {min: 0", "in_channels: {min: 1"))
    found = reviewing.reviewed(SPECS, wider, old_lock=LOCK, lock=LOCK)
    (reported,) = [finding for finding in found.findings if finding.rule.id == "op-revision-kept"]
    assert len(reported.ops) == 6
    assert reported.was == "ConvTranspose@1, ConvTransposeBackwardData@1, ConvTransposeBackwardWeights@1 and 3 more"


def test_a_revision_in_the_lock_keeps_its_meaning_whatever_the_base_says():
    lock = f"hash: {HASH}\nrevisions: {{ConvTranspose@2: 00000000000000aa}}\n"
    found = reviewing.reviewed(SPECS, reviewing.edited(SPECS, OP, REVISION), old_lock=lock, lock=lock)
    assert ids(found) == ["op-revision-kept", "op-revision-raised"]


def test_a_new_revision_is_asked_to_be_locked_where_there_is_a_lock():
    raised = reviewing.edited(SPECS, OP, REVISION)
    found = reviewing.reviewed(SPECS, raised, old_lock=LOCK, lock=LOCK)
    assert ids(found) == ["op-revision-raised", "op-revision-unlocked"]
    assert ids(reviewing.reviewed(SPECS, raised)) == ["op-revision-raised"]


def test_the_lock_only_grows():
    first = locked(LIBRARY, Lock(hash=HASH, revisions={"Convolution@1": "00000000000000aa"}))
    known = read_lock(first, "LOCK.yaml").revisions
    assert known["Convolution@1"] == "00000000000000aa"
    assert len(known) == 6


def test_the_lock_of_this_project_holds_every_revision_of_its_specs():
    committed = (checkout.ROOT / "spec/LOCK.yaml").read_text(encoding="utf-8")
    library = load_texts(reviewing.specs())
    known = read_lock(committed, "LOCK.yaml")
    assert {f"{op.op}@{op.revision}": contract_hash(op) for op in library.ops}.items() <= known.revisions.items()
    assert committed == locked(library, known)


def waiver(reason: str = "agreed", expires: str = "2030-02-01", finger: str = "0123456789abcdef") -> str:
    return (
        f"waivers:\n  - {{rule: docs-summary-changed, fingerprint: '{finger}', reason: {reason}, expires: {expires}}}\n"
    )


def test_every_change_of_waivers_and_severities_is_a_finding_of_its_own():
    def rules_of(old: str, new: str) -> list[str]:
        found = ids(reviewing.reviewed(SPECS, SPECS, old_waivers=old, waivers=new))
        return [rule for rule in found if rule != "waiver-entry-unused"]

    assert rules_of("", waiver()) == ["waiver-entry-added"]
    assert rules_of(waiver(), "") == ["waiver-entry-removed"]
    assert rules_of(waiver(), waiver(reason="renewed")) == ["waiver-entry-changed"]
    assert rules_of(waiver(), waiver(expires="2030-03-01")) == ["waiver-entry-changed"]
    assert rules_of(waiver(), waiver(finger="f" * 16)) == ["waiver-entry-added", "waiver-entry-removed"]
    assert rules_of(waiver(), f"# why\n{waiver()}") == []
    for old, new in (("", "{breaking: info}"), ("{breaking: info}", ""), ("{docs: error}", "{docs: info}")):
        texts = [f"severity: {text}\n" if text else "" for text in (old, new)]
        assert rules_of(*texts) == ["waiver-severity-changed"]


def test_a_branch_is_judged_by_the_severities_of_its_base():
    meek = "severity: {breaking: info, dangerous: info, numerics: info, provenance: info}\n"
    excused = reviewing.reviewed(SPECS, MEANING, waivers=meek)
    assert errors(excused) == ["op-revision-kept", "semantics-edge-changed"]
    assert "waiver-severity-changed" in [finding.rule.id for finding in excused.failing("warning")]
    assert errors(reviewing.reviewed(SPECS, MEANING, old_waivers=meek, waivers=meek)) == []
    strict = reviewing.reviewed(
        SPECS, reviewing.edited(SPECS, OP, DOCS), old_waivers="severity: {docs: error}\n", waivers=""
    )
    assert errors(strict) == ["docs-summary-changed"]
