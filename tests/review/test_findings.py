"""Findings: revisions, waivers, the lock, the proof, every form of the report, and what the command returns."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from opwright import cli
from opwright.review import rules
from opwright.review.findings import Review
from opwright.review.report import FORMATS, schema
from opwright.review.waivers import locked, read_lock
from opwright.source import SpecInvalid
from support import checkout, reviewing

SPECS = reviewing.specs()
OP = "conv_transpose.yaml"
DOCS = ("summary: The gradient of Convolution in its src", "summary: A gradient of Convolution in its src")
SAME_LOWER = ("same_lower: ceil(T / 2)", "same_lower: floor(T / 2)")
GUARD = ("  init: 0\n", "  init: 1\n")


def after(*edits: tuple[str, str], file: str = OP) -> dict[str, str]:
    return reviewing.edited(SPECS, file, *edits)


def ids(review: Review) -> list[str]:
    return [finding.rule.id for finding in review.findings]


def waiver(finding: object, expires: str = "2030-02-01") -> str:
    return f"waivers:\n  - {{rule: {finding.rule.id}, fingerprint: '{finding.fingerprint}', reason: agreed, expires: {expires}}}\n"


@pytest.fixture(scope="module")
def docs_only() -> Review:
    return reviewing.reviewed(SPECS, after(DOCS))


@pytest.fixture(scope="module")
def meaning() -> Review:
    return reviewing.reviewed(SPECS, after(GUARD))


# What is found.


def test_a_docs_only_edit_is_proven_docs_only(docs_only: Review):
    assert ids(docs_only) == ["docs-summary-changed"]
    assert docs_only.impact.unpredicted == []
    assert docs_only.impact.observed.files == {"docs/API.md", "docs/conv_transpose.md"}
    assert docs_only.impact.observed.kernels == frozenset()


def test_the_sentence_of_a_named_value_reaches_pages_and_no_module():
    shared = ("summary: the kernel's extent with its dilation", "summary: the extent of the dilated kernel")
    found = reviewing.reviewed(SPECS, after(shared, file="_common.yaml"))
    assert ids(found) == ["docs-summary-changed"]
    assert found.impact.unpredicted == []
    assert {path for path in found.impact.observed.files if not path.startswith("docs/")} == set()


def test_an_edit_of_a_shared_entry_is_one_finding_of_all_operations_that_share_it():
    found = reviewing.reviewed(SPECS, after(SAME_LOWER, file="_common.yaml"))
    assert ids(found) == ["padding-rule-changed"]
    assert len(found.findings[0].ops) == 6
    assert str(found.findings[0].new) == "spec/onednn_graph/_common.yaml:101:19"


def test_a_blank_line_and_a_comment_are_a_matter_of_form_and_move_no_file():
    found = reviewing.reviewed(SPECS, after(("revision: 1\n", "\n# one\nrevision: 1\n")))
    assert ids(found) == ["format-text-changed"]
    assert found.impact.observed.files == frozenset()


def test_a_changed_meaning_needs_a_new_revision(meaning: Review):
    assert sorted(ids(meaning)) == ["op-revision-kept", "semantics-edge-changed"]
    raised = reviewing.reviewed(SPECS, after(GUARD, ("revision: 1", "revision: 2")))
    assert sorted(ids(raised)) == ["op-revision-raised", "semantics-edge-changed"]


def test_a_revision_in_the_lock_keeps_its_meaning_whatever_the_base_says():
    lock = "revisions: {ConvTranspose@2: 00000000000000aa}\n"
    found = reviewing.reviewed(SPECS, after(("revision: 1", "revision: 2")), lock=lock)
    assert sorted(ids(found)) == ["op-revision-kept", "op-revision-raised"]


def test_the_lock_only_grows():
    from opwright.load import load_texts

    library = load_texts(SPECS)
    first = locked(library, {"Convolution@1": "00000000000000aa"})
    assert read_lock(first, "LOCK.yaml")["Convolution@1"] == "00000000000000aa"
    assert len(read_lock(first, "LOCK.yaml")) == 6


def test_operations_that_come_and_go_take_their_kernels_with_them():
    product = (checkout.ROOT / "tests/data/matrix_product.yaml").read_text(encoding="utf-8")
    found = reviewing.reviewed(SPECS, {**SPECS, "spec/onednn_graph/matrix_product.yaml": product})
    assert ids(found) == ["op-added"]
    assert found.findings[0].moved.added
    assert found.impact.unpredicted == []
    back = reviewing.reviewed({**SPECS, "spec/onednn_graph/matrix_product.yaml": product}, SPECS)
    assert ids(back) == ["op-removed"]
    assert back.findings[0].moved.removed == found.findings[0].moved.added


def test_a_file_under_another_name_is_a_matter_of_the_record():
    moved = {name.replace("/convolution.yaml", "/conv.yaml"): text for name, text in SPECS.items()}
    assert ids(reviewing.reviewed(SPECS, moved)) == ["op-file-moved"]


def test_a_fingerprint_follows_the_values_and_not_the_place(meaning: Review):
    lower = reviewing.reviewed(SPECS, after(GUARD, ("revision: 1\n", "revision: 1\n\n\n")))
    assert {f.fingerprint for f in lower.findings} == {f.fingerprint for f in meaning.findings}
    other = reviewing.reviewed(SPECS, after((GUARD[0], "  init: 2\n")))
    assert not {f.fingerprint for f in other.findings} & {f.fingerprint for f in meaning.findings}


# The proof.


def test_a_rule_that_promises_less_than_its_edit_does_is_found_out(monkeypatch: pytest.MonkeyPatch):
    rule = rules.RULES["semantics-edge-changed"]
    monkeypatch.setitem(rules.RULES, rule.id, dataclasses.replace(rule, kernel="none"))
    found = reviewing.reviewed(SPECS, after(GUARD))
    assert "impact-unpredicted" in ids(found)
    assert "semantics-edge-changed declares the effect 'none'" in found.impact.unpredicted[0]


def test_a_difference_that_no_finding_tells_is_found_out(monkeypatch: pytest.MonkeyPatch):
    from opwright.review import compare

    whole = compare.edits
    monkeypatch.setattr(
        compare, "edits", lambda old, new: tuple(e for e in whole(old, new) if e.path != "semantics.init")
    )
    found = reviewing.reviewed(SPECS, after(GUARD, DOCS))
    assert "impact-unpredicted" in ids(found)
    assert any("do not account for the whole difference" in text for text in found.impact.unpredicted)


# Waivers.


def test_a_waiver_lets_its_finding_pass_and_no_other(meaning: Review):
    edge = next(f for f in meaning.findings if f.rule.id == "semantics-edge-changed")
    found = reviewing.reviewed(SPECS, after(GUARD), waivers=waiver(edge))
    assert [f.rule.id for f in found.failing("error")] == ["op-revision-kept"]


def test_a_waiver_that_is_unused_or_expired_fails(docs_only: Review):
    summary = docs_only.findings[0]
    assert "waiver-entry-unused" in [
        f.rule.id for f in reviewing.reviewed(SPECS, SPECS, waivers=waiver(summary)).failing("error")
    ]
    expired = reviewing.reviewed(SPECS, after(DOCS), waivers=waiver(summary, "2029-12-31"))
    assert [f.rule.id for f in expired.failing("error")] == ["waiver-entry-expired"]


def test_a_waiver_of_more_than_180_days_is_refused(docs_only: Review):
    with pytest.raises(SpecInvalid, match="within 180 days"):
        reviewing.reviewed(SPECS, after(DOCS), waivers=waiver(docs_only.findings[0], "2031-01-01"))


def test_a_project_remaps_severities(docs_only: Review):
    found = reviewing.reviewed(SPECS, after(DOCS), waivers="severity: {docs: error}\n")
    assert [f.severity for f in found.findings] == ["error"]
    assert [f.severity for f in docs_only.findings] == ["info"]


# The forms.


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_every_form_names_every_rule_that_fired(form: str, meaning: Review):
    text = FORMATS[form](meaning, True)
    assert all(rule in text for rule in ids(meaning))


def test_the_json_form_is_as_its_published_schema_says(meaning: Review):
    published = json.loads((checkout.ROOT / "docs/diff.schema.json").read_text(encoding="utf-8"))
    assert published == schema()
    found = json.loads(FORMATS["json"](meaning, True))
    jsonschema.validate(found, published)
    assert found["predicted"] is True
    assert len(found["findings"]) == 2


def test_junit_counts_errors_as_failures_and_sarif_says_where(meaning: Review):
    suite = ElementTree.fromstring(FORMATS["junit"](meaning, False))
    assert (suite.get("tests"), suite.get("failures")) == ("2", "2")
    run = json.loads(FORMATS["sarif"](meaning, False))["runs"][0]
    assert {result["ruleId"] for result in run["results"]} == set(ids(meaning))
    places = [result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"]]
    assert places == ["spec/onednn_graph/conv_transpose.yaml"] * 2


def test_kernels_that_change_alike_are_shown_once(meaning: Review):
    hunks = json.loads(FORMATS["json"](meaning, True))["code"]
    assert len(meaning.impact.observed.kernels) == 36
    assert len([line for line in hunks if line.startswith("@@")]) < 36


def test_spec_text_stays_inert_in_every_form():
    nasty = "summary: 'The <script>alert(1)</script> ::error::x | `y` %0A'\nsource"
    text = SPECS[f"{reviewing.FOLDER}/{OP}"]
    line = next(line for line in text.splitlines() if line.startswith("summary:"))
    found = reviewing.reviewed(SPECS, {**SPECS, f"{reviewing.FOLDER}/{OP}": text.replace(f"{line}\nsource", nasty)})
    assert ids(found) == ["docs-summary-changed"]
    assert "%250A" in FORMATS["github"](found, False)
    assert [line.count("::notice") for line in FORMATS["github"](found, False).splitlines()] == [1, 0]
    ElementTree.fromstring(FORMATS["junit"](found, False))
    json.loads(FORMATS["sarif"](found, False))


# The command.


def specs_in(folder: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "spec"


def test_the_exit_code_says_what_was_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    old = str(specs_in(tmp_path / "old", SPECS))
    docs = str(specs_in(tmp_path / "docs", after(DOCS)))
    edge = str(specs_in(tmp_path / "edge", after(GUARD)))
    bad = str(specs_in(tmp_path / "bad", after(("revision: 1", "revision: none"))))
    assert cli.main(["diff", old, docs]) == 0
    assert cli.main(["diff", old, edge]) == 1
    assert cli.main(["diff", old, docs, "--fail-on", "notice"]) == 0
    assert cli.main(["diff", old, "nowhere"]) == 2
    assert cli.main(["diff", old, bad]) == 3
    assert f"{bad}: 1 problems" in capsys.readouterr().err


def test_an_unpredicted_effect_exits_with_5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rule = rules.RULES["semantics-edge-changed"]
    monkeypatch.setitem(rules.RULES, rule.id, dataclasses.replace(rule, kernel="none"))
    old, edge = (str(specs_in(tmp_path / name, texts)) for name, texts in (("old", SPECS), ("edge", after(GUARD))))
    assert cli.main(["diff", old, edge]) == 5


def test_a_commit_and_a_single_file_are_sides(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    specs_in(tmp_path, SPECS)

    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    git("add", ".")
    git("commit", "-m", "specs")
    specs_in(tmp_path, after(DOCS))
    spec = ["--spec", str(tmp_path / "spec")]
    capsys.readouterr()
    assert cli.main(["diff", "--format", "json", *spec]) == 0
    assert [f["rule"] for f in json.loads(capsys.readouterr().out)["findings"]] == ["docs-summary-changed"]
    assert cli.main(["diff", "git:HEAD", "git:HEAD", *spec]) == 0
    assert "no findings" in capsys.readouterr().out
    assert cli.main(["diff", "git:nowhere", *spec]) == 2
    path = f"spec/onednn_graph/{OP}"
    (tmp_path / "old.yaml").write_text(SPECS[path], encoding="utf-8")
    driver = [path, str(tmp_path / "old.yaml"), "0", "100644", str(tmp_path / path), "0", "100644"]
    assert cli.main(["diff", *driver, *spec]) == 0
    assert "docs-summary-changed" in capsys.readouterr().out


def test_rules_are_listed_and_explained(capsys: pytest.CaptureFixture[str]):
    assert cli.main(["diff", "--rules"]) == 0
    listed = capsys.readouterr().out
    assert all(rule in listed for rule in rules.RULES)
    assert cli.main(["diff", "--explain", "padding-rule-changed"]) == 0
    assert "shifted values" in capsys.readouterr().out
    assert cli.main(["diff", "--explain", "padding-rul-changed"]) == 2
    assert "did you mean 'padding-rule-changed'" in capsys.readouterr().err
