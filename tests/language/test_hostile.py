"""Spec text is hostile until proven otherwise: every trick is refused quickly and with a place, or is inert text."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from opwright.language.source import Mark, Problem, SpecInvalid
from opwright.load import MAX_BYTES, load, load_texts
from support.hostile import HOSTILE_NAMES, INVISIBLE, quoted, with_hostile_texts
from support.specs import MATRIX_PRODUCT, problems_of, real_texts

QUICK = 5.0


def refused(text: str) -> list[str]:
    """The problems of one text, which must come quickly."""
    begin = time.process_time()
    problems = problems_of({"a.yaml": text})
    assert time.process_time() - begin < QUICK
    assert problems
    assert all(problem.mark.file == "a.yaml" and problem.mark.line >= 1 for problem in problems)
    return [str(problem) for problem in problems]


def rules(text: str) -> set[str]:
    return {line.split(": ")[1] for line in refused(text)}


# YAML itself.


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("yaml-tag", "op: !!python/object/apply:os.system ['touch pwned']"),
        ("yaml-tag", "op: !!python/name:os.system"),
        ("yaml-tag", "op: !local a"),
        ("yaml-tag", "op: ! a"),
        ("yaml-tag", "op: !!binary aGVsbG8="),
        ("yaml-anchor", "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]"),
        ("yaml-anchor", "a: &a\n  <<: *a"),
        ("yaml-documents", "op: A\n---\nop: B"),
        ("yaml-depth", "[" * 100_000),
        ("yaml-depth", "{a: " * 50_000),
        ("yaml-size", "[" + "1," * 60_000 + "1]"),
        ("yaml", "op: 'never closed"),
        ("yaml", "op: [a"),
        ("yaml", "op: a: b"),
        ("yaml", "\top: a"),
        ("yaml", "op: *nowhere"),
        ("yaml", "%YAML 9.9\n---\nop: a"),
        ("yaml", "op: a\0b"),
        ("yaml", "op: \x07"),
        ("yaml", ""),
        ("yaml", "# nothing"),
        ("kind", "- op: A"),
        ("kind", "just text"),
        ("kind", "? [a, b]\n: c"),
        ("unknown-key", "<<: {op: A}"),
        ("unknown-key", "__class__: A"),
        ("duplicate-key", "op: A\nop: B"),
    ],
)
def test_yaml_tricks_are_refused(rule: str, text: str) -> None:
    assert rule in rules(text) or (rule == "yaml" and "yaml-anchor" in rules(text))


def test_a_control_character_is_refused_at_its_line_and_column() -> None:
    assert refused("op: A\nsummary: a\0b")[0].startswith("a.yaml:2:11: yaml: ")


@pytest.mark.parametrize("filler", [" ", "a ", "- ", "a: ", "'", '"', "# ", "\n", "? ", "{", "]", "|\n", "+= ", "\\"])
def test_large_texts_of_one_piece_are_refused_quickly(filler: str) -> None:
    refused((filler * MAX_BYTES)[:MAX_BYTES])


def test_a_long_statement_is_refused_quickly() -> None:
    assert "semantics-form" in rules(MATRIX_PRODUCT.replace("c[m, n] +=", "c" + " " * 200_000 + "x"))


# Names.


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_names_that_mean_something_elsewhere_are_refused(name: str) -> None:
    for old, new in (("name: a,", "name: {},"), ("rows: M,", "rows: {},"), ("{m: M,", "{{{}: M,")):
        assert rules(MATRIX_PRODUCT.replace(old, new.format(quoted(name)), 1)) & {"name", "name-reserved"}, old


@pytest.mark.parametrize(
    "name", ["import", "Import", "print", "Print", "None", "A-B", "A\nB", "Ａ", "А", "A__", "_A", "A" * 65]
)
def test_operations_are_named_by_plain_words(name: str) -> None:
    text = MATRIX_PRODUCT.replace("op: MatMul", f"op: {quoted(name)}")
    assert rules(text) & {"name", "name-reserved", "op-name"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("accumulate: f32", "accumulate: '*/ system(0)'"),
        ("revision: 1", "revision: 99999999999999999999999"),
        ("revision: 1", "revision: 1e400"),
        ("revision: 1", "revision: ٣"),
        ("k: K}", "k: 99999999999999999999}"),
        ("k: K}", "k: K; DROP}"),
        ("k: K}", "k: __import__('os')}"),
        ("k: K}", "k: 'K */ x'}"),
        ("b[k, n]", 'b[k, n] * "x"'),
        ("b[k, n]", "b[k, n]{{ 1 }}"),
        ("dims: {M: M, K: K}", "dims: {'M]': M, K: K}"),
        ("dims: {M: M, K: K}", "dims: {'М': M, K: K}"),
    ],
)
def test_values_and_expressions_hold_nothing_else(old: str, new: str) -> None:
    assert old in MATRIX_PRODUCT
    refused(MATRIX_PRODUCT.replace(old, new, 1))


@pytest.mark.parametrize("expression", ["(" * 300 + "K" + ")" * 150, "K" + " + K" * 120, "-" * 400 + "K", "max(" * 100])
def test_deep_expressions_are_refused(expression: str) -> None:
    assert "expression" in rules(MATRIX_PRODUCT.replace("k: K}", f"k: '{expression}'}}"))


def test_polynomials_that_explode_are_refused_quickly() -> None:
    bomb = "*".join(["(M + N + K + m + n + k)"] * 18)
    assert "semantics-index" in rules(MATRIX_PRODUCT.replace("a[m, k]", f"a[m, {bomb}]"))


# Free text.


@pytest.mark.parametrize("character", INVISIBLE, ids=[f"U+{ord(character):04X}" for character in INVISIBLE])
def test_invisible_and_turning_characters_are_refused(character: str) -> None:
    refused(MATRIX_PRODUCT.replace("A product", f'"A {character} product').replace("matrices.", 'matrices."'))


def test_free_text_is_kept_as_text() -> None:
    library = load_texts(with_hostile_texts(real_texts()))
    convolution = library.op("Convolution")
    assert "{{ 7 * 7 }}" in convolution.summary
    assert "*/" in (convolution.attributes[0].summary or "")
    assert "\n" not in convolution.summary


def test_texts_have_a_bounded_length() -> None:
    assert "text-length" in rules(MATRIX_PRODUCT.replace("A product", "A product" * 1000))


def test_problems_never_carry_control_characters_to_a_terminal() -> None:
    problem = Problem(Mark("a\x1b[2J.yaml"), "rule", "red \x1b[31m and back \u202e")
    assert str(problem).isprintable()
    assert all(line.isprintable() for line in refused('"\\e[31mop": A\n"\\e[31mop": B'))


# Files.


def folder_with(tmp_path: Path, name: str = "good.yaml", text: str = MATRIX_PRODUCT) -> Path:
    folder = tmp_path / "spec" / "x"
    folder.mkdir(parents=True)
    (folder / name).write_text(text)
    return folder


def folder_refusal(folder: Path) -> str:
    begin = time.process_time()
    with pytest.raises(SpecInvalid) as caught:
        load(folder)
    assert time.process_time() - begin < QUICK
    (problem,) = caught.value.problems
    return str(problem)


def test_a_file_of_100_mb_is_refused_quickly(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    with (folder / "big.yaml").open("wb") as stream:
        stream.truncate(100 * 2**20)
    assert folder_refusal(folder).startswith("spec/x/big.yaml:1:1: file-size: ")


def test_a_file_that_is_no_utf8_is_refused_at_the_byte(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    (folder / "latin.yaml").write_bytes(b"op: A\nsummary: caf\xe9\n")
    assert folder_refusal(folder).startswith("spec/x/latin.yaml:2:13: file-encoding: ")


def test_a_directory_is_no_spec(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    (folder / "dir.yaml").mkdir()
    assert "this is not a regular file" in folder_refusal(folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
def test_a_fifo_does_not_hang(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    os.mkfifo(folder / "pipe.yaml")
    assert "this is not a regular file" in folder_refusal(folder)


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    secret = tmp_path / "secret"
    secret.write_text("password: hunter2")
    (folder / "link.yaml").symlink_to(secret)
    line = folder_refusal(folder)
    assert line.startswith("spec/x/link.yaml:1:1: file-link: ")
    assert "hunter2" not in line


def test_a_dangling_link_and_one_to_itself_are_refused(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    (folder / "loop.yaml").symlink_to(folder / "loop.yaml")
    assert "spec/x/loop.yaml:1:1: file" in folder_refusal(folder)
    (folder / "loop.yaml").unlink()
    (folder / "none.yaml").symlink_to(folder / "nothing")
    assert "spec/x/none.yaml:1:1: file" in folder_refusal(folder)


@pytest.mark.parametrize(
    "name",
    ["a\nb.yaml", "a*/b.yaml".replace("/", ""), "-a.yaml", "a b.yaml", "ä.yaml", "{{x}}.yaml", "a" * 120 + ".yaml"],
)
def test_files_have_plain_names(tmp_path: Path, name: str) -> None:
    line = folder_refusal(folder_with(tmp_path, name))
    assert ": file-name: " in line
    assert line.isprintable()
