"""What `opwright diff` and `opwright rules` print, and their exit codes."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path

import pytest
from opwright import cli
from opwright.review import rules
from support import reviewing
from support.small_edits import DOCS, GUARD, OP, SPECS, after

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
    assert f"{bad}: 1 problem" in capsys.readouterr().err


def test_a_side_that_generate_would_refuse_is_invalid_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    whole = reviewing.specs()
    good = str(specs_in(tmp_path / "good", whole))
    edge = str(specs_in(tmp_path / "edge", reviewing.edited(whole, OP, GUARD)))
    for pair in ((good, edge), (edge, good)):
        assert cli.main(["diff", *pair]) == 3
        printed = capsys.readouterr().err
        assert (
            "conv_transpose.yaml:73:14: normal-form-disagrees: the normal form of ConvTranspose gives dst[" in printed
        )
        assert f"{edge}: 1 problem" in printed
    link = Path(good, "onednn_graph", "conv_link.yaml")
    link.symlink_to(Path(edge, "onednn_graph", "convolution.yaml"))
    assert cli.main(["diff", good, good]) == 3
    assert "links out of the folder are not followed" in capsys.readouterr().err


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
