"""No text, however mangled, crashes or hangs the audit, or reaches a terminal raw."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from audit.pages_of import PAGES, audited, library, text_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opwright.audit import forms, report
from opwright.audit.compare import audit
from opwright.audit.page import MAX_TEXT, plain

NAMES = sorted(path.name for path in PAGES.iterdir())
OPS = [op.op for op in library().ops]
SHARDS = [
    "|", "||", " | ", "---|", "|---|---|", "+---+---+", "+===+", "====  ====", "=====", "~~~~", "\n", "\n\n", " ", "\\", "`",
    "``", ":ref:`", "<table>", "<tr><td>", "</p>", ".. note::", "@note", "(", ")", "for IOX format", "divisible by groups",
    "f16", "s64", "Required", "\x1b[31m", "\u202e", "\u2026", "\x00", "[a](", "\\f$", "{#x}", "\u00b2", "99999999999",
]  # fmt: skip
EDIT = st.tuples(st.integers(0, 5000), st.integers(0, 60), st.sampled_from(["", *SHARDS]) | st.text(max_size=6))
SETTINGS = settings(max_examples=120, deadline=5000, suppress_health_check=list(HealthCheck))


def stays_bounded(text: str, op: str) -> None:
    page = forms.read(text, "page")
    findings = audit(library().op(op), page)
    shown = report.text(report.Audited(page, op, findings), everything=True)
    assert all(letter.isprintable() or letter == "\n" for letter in shown)
    report.as_json([report.Audited(page, op, findings)])


@SETTINGS
@given(name=st.sampled_from(NAMES), op=st.sampled_from(OPS), edits=st.lists(EDIT, max_size=12))
def test_mangled_pages_are_audited_all_the_same(name: str, op: str, edits: list[tuple[int, int, str]]) -> None:
    text = text_of(name)
    for at, size, new in edits:
        text = text[:at] + new + text[at + size :]
    stays_bounded(text, op)


@SETTINGS
@given(parts=st.lists(st.sampled_from(SHARDS), max_size=60), op=st.sampled_from(OPS))
def test_shards_of_markup_are_audited_all_the_same(parts: list[str], op: str) -> None:
    stays_bounded("".join(parts), op)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_that_breaks_off_anywhere_is_audited(name: str) -> None:
    text = text_of(name)
    for size in range(0, len(text), max(len(text) // 25, 1)):
        stays_bounded(text[:size], "ConvTranspose")


@pytest.mark.parametrize("shard", SHARDS)
def test_a_long_page_of_one_shard_takes_little_time(shard: str) -> None:
    started = time.monotonic()
    for between in ("", " ", "\n"):
        text = (shard + between) * (60_000 // len(shard + between))
        if text.count("\n") <= forms.MAX_LINES:
            stays_bounded(text, "ConvTranspose")
    assert time.monotonic() - started < 20


def test_a_page_that_is_too_big_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.txt"
    page.write_bytes(b"x" * (forms.MAX_BYTES + 1))
    with pytest.raises(forms.PageError, match="at most"):
        forms.read_page(page)


def test_bytes_that_are_no_utf_8_are_read(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_bytes(text_of("upstream.md").encode() + b"\xff\xfe\x00")
    assert forms.read_page(page).form == "Markdown"


def test_control_characters_of_a_page_are_not_printed() -> None:
    findings = audited(text_of("upstream.md").replace("`same_lower`", "`\x1b[31mred`"))
    assert all(finding.page.isprintable() for finding in findings)


def test_plain_text_is_bounded() -> None:
    assert len(plain("word " * 10_000)) <= MAX_TEXT
