"""Hostile specs, and output folders that somebody prepared: done or refused with a message, in time, and never a byte outside."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from opwright import cli, write
from opwright.emit import render
from opwright.errors import UsageError
from opwright.language.source import SpecInvalid
from opwright.load import load_texts
from support.draws import FULL, rng
from support.package import ROOT
from support.specs import MATRIX_PRODUCT, problems_of

pytestmark = pytest.mark.hard

FILES = {
    "__init__.py": "import this\n",
    "_build.py": "# build\n",
    "c/one.c": "int one;\n",
    "c/engine/two.h": "int two;\n",
    "docs/one.md": "# One\n",
    write.MANIFEST: json.dumps({"outputs": {"c/one.c": {"sha256": "0"}}}) + "\n",
}
LIMIT = 20  # seconds


@contextmanager
def in_time() -> Iterator[None]:
    def late(*_: object) -> None:
        raise AssertionError("this hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def clear(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    elif os.path.lexists(place):
        place.unlink()


def manifest(outputs: dict[str, object]) -> str:
    return json.dumps({"outputs": outputs})


def outputs(*paths: str) -> str:
    return manifest({path: {"sha256": "0"} for path in paths})


# What stands in the place of a file or a folder; `outside` must stay as it is.
HAZARDS: dict[str, Callable[[Path, Path], object]] = {
    "nothing": lambda place, outside: None,
    "a link outside": lambda place, outside: place.symlink_to(outside),
    "a link to a file outside": lambda place, outside: place.symlink_to(outside / "secret"),
    "a link to itself": lambda place, outside: place.symlink_to(place),
    "a dangling link": lambda place, outside: place.symlink_to(outside / "new"),
    "a pipe": lambda place, outside: os.mkfifo(place),
    "a file": lambda place, outside: place.write_bytes(b"\xff\0"),
    "an empty folder": lambda place, outside: place.mkdir(),
    "a folder with a file": lambda place, outside: (place.mkdir(), (place / "x").write_text("x")),
    "a large file": lambda place, outside: os.truncate(os.open(place, os.O_CREAT | os.O_RDWR), 2**40),
    "a deep manifest": lambda place, outside: place.write_text("[" * 200_000),
    "a manifest that names files outside": lambda place, outside: place.write_text(
        outputs("../outside/secret", str(outside / "secret"), "c/../../outside/secret", "", ".", "c")
    ),
    "a manifest of other shapes": lambda place, outside: place.write_text(manifest({"c/one.c": [1]})),
    "a manifest that is one": lambda place, outside: place.write_text("1" * 10_000),
}
PLACES = ["", *FILES, "c", "c/engine", "docs", "c/old.c", "caf\udce9"]


def prepared(folder: Path, outside: Path, hazards: list[tuple[str, str]]) -> None:
    clear(outside)
    outside.mkdir()
    (outside / "secret").write_text("secret")
    clear(folder)
    if hazards[0][0]:
        write.write(folder, FILES)
    for path, hazard in hazards:
        place = folder / path if path else folder
        clear(place)
        if place.parent.is_dir() and not place.parent.is_symlink():
            HAZARDS[hazard](place, outside)


def written_safely(folder: Path, outside: Path) -> bool:
    """Write there and compare; whether it was written."""
    with in_time():
        try:
            write.compare(folder, FILES)
            write.write(folder, FILES)
            left = [difference for difference in write.compare(folder, FILES) if difference.state != "orphaned"]
            assert not left
            assert all(str(difference).isprintable() for difference in write.compare(folder, FILES))
            written = True
        except UsageError as error:
            assert str(error).isprintable()
            assert len(str(error)) < 2000
            written = False
    assert sorted(path.name for path in outside.iterdir()) == ["secret"]
    assert (outside / "secret").read_text() == "secret"
    return written


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
@pytest.mark.parametrize("hazard", HAZARDS)
def test_whatever_stands_in_one_place_nothing_hangs_fails_or_leads_outside(tmp_path: Path, hazard: str) -> None:
    folder, outside = tmp_path / "output", tmp_path / "outside"
    written = {}
    for path in PLACES:
        prepared(folder, outside, [(path, hazard)])
        written[path] = written_safely(folder, outside)
    if hazard.startswith("a link") or hazard in ("a file", "a pipe", "a dangling link"):
        assert not any(written[path] for path in ("", "c", "c/engine", "docs"))
        assert all(written[path] for path in ("_build.py", write.MANIFEST, "c/one.c"))
    if "folder" in hazard:
        assert not any(written[path] for path in FILES)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
def test_several_hazards_together_are_no_worse(tmp_path: Path) -> None:
    folder, outside, random = tmp_path / "output", tmp_path / "outside", rng("hostile outputs")
    names = set()
    for _ in range(3000 if FULL else 150):
        count = int(random.integers(1, 4))
        hazards = [(str(random.choice(PLACES[1:])), str(random.choice(list(HAZARDS)))) for _ in range(count)]
        prepared(folder, outside, hazards)
        names.add(written_safely(folder, outside))
    assert names == {True, False}


def project(tmp_path: Path) -> Path:
    spec = tmp_path / "spec" / "x"
    spec.mkdir(parents=True, exist_ok=True)
    (spec / "product.yaml").write_text(MATRIX_PRODUCT)
    return spec


@pytest.mark.parametrize("target", ["/dev/null", "/dev/null/x", "file", "file/x", "loop", "x" * 300])
def test_an_output_that_cannot_be_a_folder_is_a_wrong_usage(
    tmp_path: Path, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = project(tmp_path)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with in_time():
        assert cli.main(["generate", "--spec", str(spec), "--output", str(tmp_path / target)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert (tmp_path / "file").read_text() == "mine"


def exported(output: Path, into: Path, capsys: pytest.CaptureFixture[str]) -> bool:
    """Export a package in time; whether it was, and else one line says why."""
    with in_time():
        code = cli.main(["export", str(into), "--name", "copied", "--output", str(output)])
    printed = capsys.readouterr().err
    assert code in (0, 2)
    assert len(printed.splitlines()) == (code != 0)
    assert len(printed) < 1000
    return code == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
@pytest.mark.parametrize("hazard", [name for name in HAZARDS if name not in ("nothing", "a large file")])
def test_an_export_copies_a_package_whole_or_leaves_nothing(
    tmp_path: Path, hazard: str, capsys: pytest.CaptureFixture[str]
) -> None:
    outside, output, into = tmp_path / "outside", tmp_path / "output", tmp_path / "into"
    for place in (into, into / "copied", output / "c" / "more", output / "docs", output):
        for path in (into, output):
            clear(path)
        prepared(output, outside, [("c/old.c", "nothing")])
        if place != into:
            into.mkdir()
        clear(place)
        HAZARDS[hazard](place, outside)
        done = exported(output, into, capsys)
        assert sorted(path.name for path in outside.iterdir() if path.name != "copied") == ["secret"]
        assert (outside / "secret").read_text() == "secret"
        copied = into / "copied"
        if done:
            assert all((copied / path).read_text() == text for path, text in FILES.items() if path != "docs/one.md")
            assert not any(path.is_symlink() for path in copied.rglob("*"))
        elif place != copied:
            assert not os.path.lexists(copied)
        if hazard.startswith(("a link", "a dangling", "a pipe")):
            assert done == (place == into and hazard == "a link outside")


def test_a_package_is_not_exported_into_itself_through_a_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, outside = tmp_path / "output", tmp_path / "outside"
    prepared(output, outside, [("c/old.c", "nothing")])
    (tmp_path / "link").symlink_to(output)
    assert not exported(tmp_path / "link", output / "docs", capsys)
    assert not exported(output, tmp_path / "link" / "docs", capsys)
    assert exported(tmp_path / "link", tmp_path / "into", capsys)


def test_a_new_package_is_reported_in_a_line_and_many_files_in_a_few(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, output = project(tmp_path), tmp_path / "made"
    arguments = ["generate", "--spec", str(spec), "--output", str(output)]
    assert cli.main([*arguments, "--check"]) == 4
    assert len(capsys.readouterr().out.splitlines()) < 30
    assert cli.main(arguments) == 0
    assert capsys.readouterr().out.strip().endswith(f"files of 1 operation: written to {output}")
    assert cli.main([*arguments, "--check"]) == 0


def test_many_broken_specs_are_reported_in_bounded_length(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = project(tmp_path)
    for number in range(300):
        (spec / f"s{number}.yaml").write_text(f"op: {number}\nwhat: 1\n")
    assert cli.main(["generate", "--spec", str(spec), "--output", str(tmp_path / "made")]) == 3
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == cli.PROBLEMS + 2
    assert lines[-2].startswith("... and ")


# Specs


@pytest.mark.parametrize("escape", ["\\UFFFFFFFF", "\\U00110000", "\\UD800D800", "\\uD800", "\\xFF\\0"])
def test_escapes_of_no_character_are_refused(escape: str) -> None:
    assert problems_of({"a.yaml": MATRIX_PRODUCT.replace("op: MatMul", f'op: "{escape}"', 1)})


PIECES = [
    '"\\UFFFFFFFF"', "1e999", ".nan", "-0", "0x7fffffffffffffffffff", "null", "~", "[]", "{}", "''", "- a", "? a", "? [a]\n: b", "!!str x",
    "&a x", "*a", "|", ">", "%TAG", "---", "...", "\t", "\x85", "\u2028", "\ufeff", "K / 0", "K ** 9", "K + " * 50, "(" * 60, "{k: K}",
    "[k, n]", "c[m]", "sum", "max(", "floor(K / 0)", "99999999999999999999", "true", "2001-01-01", "1_000", "0o17", "a: b: c", "'", '"', "#",
    "${K}", "{{ K }}", "__class__", "M" * 70, "\\", "op: MatMul", "<<: {a: b}",
]  # fmt: skip


def mangled(random: np.random.Generator) -> str:
    lines = MATRIX_PRODUCT.split("\n")
    for _ in range(int(random.integers(1, 4))):
        at = int(random.integers(len(lines)))
        piece = str(random.choice(PIECES))
        kind = int(random.integers(6))
        if kind == 0:
            lines.insert(at, piece)
        elif kind == 1:
            lines[at] = lines[at].partition(":")[0] + ": " + piece
        elif kind == 2:
            lines[at] += piece
        elif kind == 3:
            del lines[at]
        elif kind == 4:
            lines[at] = "  " + lines[at]
        else:
            words = lines[at].split(" ")
            words[int(random.integers(len(words)))] = piece
            lines[at] = " ".join(words)
    return "\n".join(lines)


def test_mangled_specs_are_refused_with_a_place_or_make_a_package() -> None:
    random, refused, made = rng("mangled specs"), 0, 0
    for _ in range(20_000 if FULL else 300):
        text = mangled(random)
        with in_time():
            try:
                library = load_texts({"spec/x/a.yaml": text})
                render.render(library, ROOT / "templates", "spec/x")
                made += 1
            except SpecInvalid as invalid:
                assert all(str(problem).isprintable() and len(str(problem)) < 3000 for problem in invalid.problems)
                refused += 1
    assert refused > made > 0
