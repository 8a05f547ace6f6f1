"""What a review compares: its base is found or refused, its project is the one it is called in, git can drive it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from opwright import cli
from opwright.project import TEMPLATE_SUFFIXES, find
from opwright.review.sides import working_tree
from support import checkout, reviewing

OP, POOL = (f"{reviewing.FOLDER}/{name}.yaml" for name in ("matrix_product", "max_pool"))
SPECS = {name: (checkout.ROOT / "tests/data" / Path(name).name).read_text(encoding="utf-8") for name in (OP, POOL)}
DOCS = ("The product of two", "A product of two")
BREAK = ('default: "1.0"', 'default: "2.0"')


def git(folder: Path, *arguments: str, **environment: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    names = {**{name: value for name, value in os.environ.items() if not name.startswith("GIT_")}, **environment}
    ran = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, env=names)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def project(folder: Path, texts: dict[str, str] = SPECS) -> Path:
    """A repository of specs alone, all committed on main."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "specs")
    return folder


def edit(folder: Path, change: tuple[str, str], file: str = OP) -> None:
    path = folder / file
    text = path.read_text(encoding="utf-8")
    assert change[0] in text
    path.write_text(text.replace(*change), encoding="utf-8")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of somebody else's, with the working directory in it."""
    (tmp_path / "theirs").mkdir()
    folder = project(tmp_path / "theirs")
    monkeypatch.chdir(folder)
    return folder


def rules(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    capsys.readouterr()
    cli.main(["diff", *arguments, "--format", "json", "--no-witness"])
    return [finding["rule"] for finding in json.loads(capsys.readouterr().out)["findings"]]


def test_a_checkout_that_runs_in_another_project_reviews_that_one(here: Path, capsys: pytest.CaptureFixture[str]):
    edit(here, DOCS)
    assert rules(capsys) == ["docs-summary-changed"]
    inner = here / "src/deep"
    inner.mkdir(parents=True)
    os.chdir(inner)
    assert rules(capsys) == ["docs-summary-changed"]
    assert find().templates == checkout.ROOT / "templates"
    assert find().output == here / "generated/opwright_kernels"


def test_where_no_specs_are_a_review_of_the_working_tree_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    git(tmp_path, "init", "--quiet")
    monkeypatch.chdir(tmp_path)
    for sides in ([], ["git:HEAD"], ["git:HEAD^", "git:HEAD"]):
        assert cli.main(["diff", *sides]) == 2
        assert f"there is no spec/ with specs in {tmp_path} or above it" in capsys.readouterr().err
    spec = str(checkout.ROOT / "spec")
    assert cli.main(["diff", spec, spec]) == 0


def test_a_clone_without_the_main_line_has_no_base(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    git(here, "switch", "--quiet", "-c", "branch")
    edit(here, BREAK)
    git(here, "commit", "--quiet", "-am", "break")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "--depth", "1", "--branch", "branch", here.as_uri(), str(clone))
    monkeypatch.chdir(clone)
    assert cli.main(["diff"]) == 2
    printed = capsys.readouterr().err
    assert "no commit to compare with" in printed
    assert "the clone is shallow" in printed
    git(clone, "fetch", "--quiet", "--unshallow", "origin", "main:refs/remotes/origin/main")
    assert "attribute-default-changed" in rules(capsys)
    monkeypatch.chdir(here)
    git(here, "branch", "--quiet", "-D", "main")
    assert cli.main(["diff"]) == 2
    assert "no commit to compare with" in capsys.readouterr().err
    assert "or name BASE, for example git:HEAD^" in printed


def test_a_spec_that_is_only_deleted_is_an_error(here: Path, capsys: pytest.CaptureFixture[str]):
    (here / POOL).unlink()
    assert rules(capsys) == ["op-removed"]
    git(here, "commit", "--quiet", "-am", "less")
    assert cli.main(["diff", "git:HEAD^", "--no-witness"]) == 1
    (here / OP).unlink()
    assert cli.main(["diff", "--no-witness"]) == 2


def test_git_drives_a_review_of_every_file_to_its_end(here: Path):
    command = here.parent / "opwright"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m opwright "$@" --no-witness\n', encoding="utf-8")
    command.chmod(0o755)
    (here / ".gitattributes").write_text("spec/**/*.yaml diff=opwright\n", encoding="utf-8")
    (here / "spec/LOCK.yaml").write_text("revisions: {MaxPool@7: 0000000000000000}\n", encoding="utf-8")
    git(here, "add", ".")
    git(here, "commit", "--quiet", "-m", "driver")
    git(here, "config", "diff.opwright.command", f"{command} diff")
    paths = {"PYTHONPATH": f"{checkout.ROOT / 'generator'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    edit(here, BREAK)
    edit(here, ("revision: 1", "revision: one"), POOL)
    (here / "spec/LOCK.yaml").write_text("revisions: {}\n", encoding="utf-8")
    broken = git(here, "diff", **paths)  # git fails where a driver does
    edit(here, ("revision: one", "revision: 2"), POOL)
    printed = git(here, "diff", **paths)
    for rule in ("attribute-default-changed", "op-revision-raised", "lock-entry-removed"):
        assert rule in printed
    assert "attribute-default-changed" not in broken  # no side of it can be read


@pytest.mark.parametrize("part", ["templates", "generator"])
def test_every_file_that_makes_outputs_is_one_that_a_review_looks_at(part: str):
    seen = working_tree(find()).tools[part]
    folder = checkout.ROOT / {"templates": "templates", "generator": "generator/opwright"}[part]
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {file for file in files if "__pycache__" not in file} == seen.keys()
    assert {Path(file).suffix for file in seen} <= {*TEMPLATE_SUFFIXES, ".py", ".j2"}


def test_changed_templates_and_a_changed_generator_are_reported_between_commits(tmp_path: Path):
    here = checkout.copy(tmp_path)

    def rules_of(*sides: str) -> dict[str, str]:
        ran = checkout.run(here, "-m", "opwright", "diff", *sides, "--format", "json")
        assert ran.returncode == 0, ran.stderr
        findings = json.loads(ran.stdout)["findings"]
        assert all(finding["severity"] == "notice" for finding in findings)
        return {finding["rule"]: finding["path"] for finding in findings}

    def append(file: str, text: str) -> None:
        with (here / file).open("a", encoding="utf-8") as stream:
            stream.write(text)

    git(here, "init", "--quiet")
    git(here, "add", ".")
    git(here, "commit", "--quiet", "-m", "all")
    assert rules_of("git:HEAD") == {}
    append("templates/copied/c/engine/solve_data.c", "// more\n")
    assert rules_of("git:HEAD") == {"template-files-changed": "templates/copied/c/engine/solve_data.c"}
    append("templates/docs/api.md.j2", "More.\n")
    append("generator/opwright/__main__.py", "# more\n")
    both = {
        "generator-code-changed": "generator/__main__.py",
        "template-files-changed": "templates/copied/c/engine/solve_data.c, templates/docs/api.md.j2",
    }
    assert rules_of("git:HEAD") == both
    git(here, "commit", "--quiet", "-am", "more")
    assert rules_of("git:HEAD^", "git:HEAD") == both
    assert rules_of("git:HEAD") == rules_of("git:HEAD", "spec") == {}
