"""Derived gradients are reviewed like operations: autograd of PyTorch calls them, though callers do not."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from opwright import cli
from opwright.load import read_folder
from opwright.review.sides import SideInvalid
from support import checkout, reviewing

from .test_sides import git, project

FOLDER = reviewing.FOLDER
FORWARD, GRADIENT, EXPORTED = (
    f"{FOLDER}/{name}.yaml" for name in ("square", "gradients/square_backward", "square_backward")
)
ALL = read_folder(checkout.ROOT / FOLDER, checkout.ROOT)
TEXTS = {name: text for name, text in ALL.items() if name in (FORWARD, GRADIENT) or Path(name).name.startswith("_")}
ROW = next(line for line in TEXTS[GRADIENT].splitlines(keepends=True) if "src: bf16" in line)
WITHOUT_ROW = {**TEXTS, GRADIENT: TEXTS[GRADIENT].replace(ROW, "")}
WITHOUT = {name: text for name, text in TEXTS.items() if name != GRADIENT}
AS_FUNCTION = {**WITHOUT, EXPORTED: TEXTS[GRADIENT]}


@pytest.mark.parametrize(
    ("after", "rules"),
    [
        (WITHOUT_ROW, ["dtypes-row-removed", "dtypes-row-added"]),
        (WITHOUT, ["op-removed", "op-added"]),
        (AS_FUNCTION, ["op-added", "op-removed"]),
    ],
)
def test_a_gradient_that_changes_comes_or_goes_is_found_and_moves_what_was_predicted(
    after: dict[str, str], rules: list[str]
):
    """Both ways. The last one becomes a function of the package."""
    for rule, sides in zip(rules, ((TEXTS, after), (after, TEXTS)), strict=True):
        found = reviewing.reviewed(*sides)
        reported = {finding.rule.id for finding in found.findings if finding.rule.area in ("op", "dtypes")}
        assert rule in reported
        assert found.impact.unpredicted == []
        page = "docs/square_backward.md" in found.impact.observed.files
        assert page == (after is AS_FUNCTION)


def test_a_gradient_that_does_not_follow_from_its_operation_makes_a_side_invalid():
    changed = TEXTS[GRADIENT].replace("2 * ", "3 * ")
    assert changed != TEXTS[GRADIENT]
    with pytest.raises(SideInvalid, match="gradient-derived") as refused:
        reviewing.reviewed(TEXTS, {**TEXTS, GRADIENT: changed})
    assert refused.value.side == "after"


def test_an_edit_of_an_operation_is_reviewed_before_its_gradient_is_derived_again():
    changed = TEXTS[FORWARD].replace("src[x] * src[x]", "3 * src[x] * src[x]")
    assert changed != TEXTS[FORWARD]
    found = reviewing.reviewed(TEXTS, {**TEXTS, FORWARD: changed})
    assert "semantics-sum-changed" in {finding.rule.id for finding in found.findings}


def test_folders_commits_and_files_that_git_passes_have_their_gradients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    here = project(tmp_path / "own", TEXTS)
    monkeypatch.chdir(here)
    (here / GRADIENT).write_text(WITHOUT_ROW[GRADIENT], encoding="utf-8")
    (old := tmp_path / "old.yaml").write_text(TEXTS[GRADIENT], encoding="utf-8")
    driven = [GRADIENT, str(old), "0", "100644", str(here / GRADIENT), "0", "100644"]

    def rules(*sides: str) -> list[str]:
        capsys.readouterr()
        cli.main(["diff", *sides, "--format", "json", "--no-witness"])
        found = [finding["rule"] for finding in json.loads(capsys.readouterr().out)["findings"]]
        return [rule for rule in found if not rule.startswith("lint-")]

    assert rules("git:HEAD") == rules(*driven) == ["dtypes-row-removed"]
    git(here, "commit", "--quiet", "-am", "less")
    assert rules("git:HEAD^", "git:HEAD") == rules("git:HEAD^", f"{FOLDER}") == ["dtypes-row-removed"]
    os.remove(here / GRADIENT)
    assert rules() == ["op-removed"]


def test_programs_in_c_that_call_a_gradient_are_told_what_its_edits_break():
    """The exported C library has gradients, too."""
    renamed = {name: re.sub(r"\b(diff_)?src\b(?!-)", r"\1given", text) for name, text in TEXTS.items()}
    with reviewing.nothing_rendered():
        found = reviewing.reviewed(TEXTS, renamed).findings
    told = {op for finding in found if finding.rule.id == "c-api-changed" for op in finding.ops}
    assert told == {"Square", "SquareBackward"}
