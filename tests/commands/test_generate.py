"""`opwright generate`: it compares what lies in a folder, says what differs, and mends it."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest
from opwright import cli, generate
from opwright.commands import generate as command
from opwright.generate import generated
from opwright.language.library import Library
from opwright.project import Project
from opwright.write import MANIFEST, write
from support.specs import sample_project


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return sample_project(tmp_path_factory.mktemp("sample"))


@pytest.fixture(scope="module")
def made(project: Project) -> tuple[Library, dict[str, str]]:
    return generated(project)


@pytest.fixture(scope="module")
def files(made: tuple[Library, dict[str, str]]) -> dict[str, str]:
    return made[1]


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        p.relative_to(folder).as_posix(): (p.read_bytes(), p.stat().st_mtime_ns)
        for p in folder.rglob("*")
        if p.is_file()
    }


@pytest.fixture
def package(tmp_path: Path, files: dict[str, str]) -> Path:
    folder = tmp_path / "package"
    write(folder, files)
    return folder


def run(project: Project, folder: Path, *options: str) -> int:
    return cli.main(["generate", *options, "--spec", str(project.spec), "--output", str(folder)])


def check(project: Project, folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """The exit code of `generate --check` and the lines that tell of files; nothing may have been written."""
    before = snapshot(folder)
    code = run(project, folder, "--check")
    assert snapshot(folder) == before
    lines = capsys.readouterr().out.splitlines()
    return code, [line for line in lines if re.match(r"[a-z-]+: ", line)]


def test_check_passes_where_nothing_differs(project: Project, package: Path, capsys: pytest.CaptureFixture[str]):
    assert check(project, package, capsys) == (command.OK, [])


def test_check_tells_stale_from_edited_missing_and_orphaned(
    project: Project, package: Path, capsys: pytest.CaptureFixture[str]
):
    manifest = json.loads((package / MANIFEST).read_text(encoding="utf-8"))
    stale = package / "c" / "convolution_f32.c"
    stale.write_text("// as an older generator made it\n", encoding="utf-8")
    manifest["outputs"]["c/convolution_f32.c"]["sha256"] = hashlib.sha256(stale.read_bytes()).hexdigest()
    (package / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    with (package / "_convolution.py").open("a", encoding="utf-8") as stream:
        stream.write("# a quick fix\n")
    (package / "py.typed").unlink()
    (package / "c" / "leftover.c").write_text("int leftover;\n", encoding="utf-8")
    code, lines = check(project, package, capsys)
    assert code == command.OUT_OF_DATE == 4
    assert set(lines) == {
        "stale: MANIFEST.json",
        "stale: c/convolution_f32.c",
        "hand-edited: _convolution.py",
        "missing: py.typed",
        "orphaned: c/leftover.c",
    }


def test_check_of_a_folder_that_is_not_there_finds_every_file_missing_and_makes_none(
    project: Project, tmp_path: Path, files: dict[str, str], capsys: pytest.CaptureFixture[str]
):
    folder = tmp_path / "nowhere"
    code, lines = check(project, folder, capsys)
    assert code == command.OUT_OF_DATE
    *named, rest = lines
    assert set(named) <= {f"missing: {path}" for path in files}
    assert len(set(named)) == command.SHOWN
    assert rest == f"missing: {len(files) - command.SHOWN} more"
    assert not folder.exists()


def test_check_fails_when_nothing_was_compared(
    project: Project,
    made: tuple[Library, dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(generate, "generated", lambda project: (made[0], {"__init__.py": ""}))
    assert run(project, tmp_path, "--check") == command.FAILED
    assert "nothing was compared" in capsys.readouterr().out


def test_generate_mends_what_check_found(project: Project, package: Path, capsys: pytest.CaptureFixture[str]):
    (package / "py.typed").unlink()
    (package / "_convolution.py").write_text("", encoding="utf-8")
    assert run(project, package) == command.OK
    capsys.readouterr()
    assert check(project, package, capsys) == (command.OK, [])


def test_generate_leaves_a_file_alone_that_it_never_made(project: Project, package: Path):
    mine = package / "notes.txt"
    mine.write_text("mine", encoding="utf-8")
    assert run(project, package) == command.OK
    assert mine.read_text(encoding="utf-8") == "mine"
