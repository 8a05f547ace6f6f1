"""Pages with one fact altered: the audit notices every one, whatever form the page has.

Alterations are made in the text of a page: a word of a table, a default, a least value, a row, a sentence. A page is
one of tests/audit/pages, a published one where these are at hand, or a reference page that this project has printed.
"""

from __future__ import annotations

import functools
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from audit.pages_of import ROOT, audited, library, text_of
from audit.test_real_pages import RULED
from audit.test_real_pages import text_of as published
from opwright.audit import reference
from opwright.audit.finding import Finding
from opwright.audit.forms import read
from opwright.commands.audit import operation
from opwright.project import find
from support.draws import FULL

OWN = ["upstream.md", "upstream_formats.md", "grid_tables.rst", "simple_tables.rst", "page.html"]
DOCS = ROOT / "generated" / "opwright_kernels" / "docs"
REFERENCES = sorted(path.name for path in DOCS.glob("conv*.md"))
SAMPLE, WORDS_OF_A_REFERENCE = (None, 200) if FULL else (12, 8)

# What stands in a page, and other facts that may be put in its place.
WORDS: dict[str, tuple[str, ...]] = {
    r"\bnon-negative\b": ("positive",),
    r"(?<!non-)\b[Pp]ositive (?=values|s64)": ("non-negative ",),
    r"\bRequired\b(?! or\b|\s*\||.{0,3}</t?h)": ("Optional",),
    r"(?<!or )\bOptional\b(?!.{0,3}</t?h)": ("Required",),
    r"\bs64 list\b": ("s64 value",),
    r"\bzeros by default\b": ("ones by default",),
    r"(?<=`)1(?=`{1,2} by default)|(?<=value, )1(?= by default)": ("2",),
    r"\bNXC\b(?=`* \(default\))": ("NHWC", "NCX"),
    r"\bsame_upper\b(?=[`]*\s*,)": ("causal", "same_lower"),
    r"\bdivisible by\b": ("less than", "not divisible by"),
    r"\bmust be divisible\b": ("need not be divisible", "may be divisible"),
    r"\bdivisible by (?:the )?groups": ("divisible by strides",),
    r"\bBoth (?=in)": ("Either ",),
    r"\bfront/top/left\b": ("back/bottom/right",),
    r"\bwill precede over the (?P<name>\w+)": (r"is overridden by the \g<name>", r"will not precede over the \g<name>"),
    r"\b(?P<a>weights\\?_shape`* input will precede over the [|\w]+) attribute": (r"attribute of weights_shape will precede over the input",),
    r"\bEither\b(?=.{0,60}should be provided)": ("Neither",),
    r"\bwill be ignored\b": ("will be honoured", "will not be ignored", "are added"),
    r"\bvalid, same_upper and same_lower\b": ("valid and same_lower", "none and valid"),
    r"\bpads_begin and pads_end attributes\b": ("pads_begin attribute",),
    r"(?<=takes )\S+": ("bias",),
    r"in\\?_channels / groups": ("in_channels", "out_channels / groups"),
    r"\bs32\b": ("s64",),
    r"\bdiff_dst\b(?=`)": ("dst",),
}  # fmt: skip


@dataclass(frozen=True)
class Alteration:
    """A page with one fact changed."""

    what: str
    text: str


def words(text: str) -> Iterator[Alteration]:
    """One fact in the place of another."""
    for pattern, others in WORDS.items():
        for found in re.finditer(pattern, text):
            for other in others:
                changed = found.expand(other) if "\\g" in other else other
                near = text[max(found.start() - 30, 0) : found.end() + 10]
                altered = text[: found.start()] + changed + text[found.end() :]
                yield Alteration(f"{found[0]!r} -> {changed!r} near {near!r}", altered)


ROW = re.compile(r"^\W*(?:f32|bf16)\W+(?:f32|bf16)|^\W*\d\W+`{1,2}\w+`{1,2}\W+(?:Required|Optional)")


def rows(text: str) -> Iterator[Alteration]:
    """A row of data types or of an argument that is gone, or has another type."""
    lines = text.split("\n")
    for n, line in enumerate(lines):
        if ROW.search(line):
            yield Alteration(f"gone: {line!r}", "\n".join(lines[:n] + lines[n + 1 :]))
        if ROW.search(line) and "f32" in line:
            yield Alteration(f"f64: {line!r}", "\n".join([*lines[:n], line.replace("f32", "f64", 1), *lines[n + 1 :]]))


def gone(text: str) -> Iterator[Alteration]:
    """A sentence that states a rule, taken out."""
    stated = "must be divisible by|will precede over|should be provided|will be ignored"
    for found in re.finditer(rf"(?<=[.:]) [^.:|]*\b(?:{stated})\b[^.:|]*\.", text):
        yield Alteration(f"gone: {found[0]!r}", text[: found.start()] + text[found.end() :])


UNREAD = re.compile(r"<!--.*?-->|^```\w*$|\]\([^)]*\)", re.MULTILINE | re.DOTALL)  # a comment, a language, an address


def cells(text: str) -> Iterator[Alteration]:
    """Any word of a reference page: every one counts."""
    masked = UNREAD.sub(lambda found: "-" * len(found[0]), text)
    for found in re.finditer(r"[A-Za-z0-9]+", masked):
        yield Alteration(f"{found[0]!r} at {found.start()}", text[: found.start()] + "other" + text[found.end() :])


def notices(findings: tuple[Finding, ...]) -> Counter[tuple[str, str, str]]:
    return Counter((found.status, found.field, found.page) for found in findings if found.status != "agree")


def sampled(alterations: Iterator[Alteration], seed: str, count: int | None = SAMPLE) -> list[Alteration]:
    made = list(alterations)
    return made if count is None else random.Random(seed).sample(made, min(count, len(made)))


def unnoticed(text: str, seed: str) -> list[str]:
    before = notices(audited(text))
    made = [*sampled(words(text), seed), *sampled(rows(text), seed), *gone(text)]
    assert made
    return [
        alteration.what
        for alteration in made
        if alteration.text != text and notices(audited(alteration.text)) == before
    ]


@pytest.mark.parametrize("name", OWN)
def test_every_altered_fact_of_a_page_is_noticed(name: str) -> None:
    assert unnoticed(text_of(name), name) == []


@pytest.mark.parametrize("number", sorted(RULED))
def test_every_altered_fact_of_a_published_page_is_noticed(number: str) -> None:
    assert unnoticed(published(number), number) == []


@functools.cache
def today(name: str) -> tuple[object, object]:
    op = operation(read((DOCS / name).read_text(encoding="utf-8"), name), library())
    return op, reference.today(op, library(), find())


def against_today(name: str, text: str) -> tuple[Finding, ...]:
    op, now = today(name)
    page = read(text, name)
    assert reference.is_reference(page, now)
    return reference.against(op, page, now)


@pytest.mark.parametrize("name", REFERENCES)
def test_a_reference_page_of_this_project_agrees_with_itself(name: str) -> None:
    findings = against_today(name, (DOCS / name).read_text(encoding="utf-8"))
    assert notices(findings) == {}
    assert len(findings) > 100


@pytest.mark.parametrize("name", REFERENCES)
def test_every_altered_word_of_a_reference_page_is_noticed(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    for alteration in sampled(cells(text), name, WORDS_OF_A_REFERENCE):
        assert notices(against_today(name, alteration.text)), alteration.what


@pytest.mark.parametrize("name", REFERENCES)
def test_every_line_that_a_reference_page_lost_is_noticed(name: str) -> None:
    lines = (DOCS / name).read_text(encoding="utf-8").split("\n")
    telling = [n for n, line in enumerate(lines) if re.search(r"[A-Za-z0-9]", line) and not line.startswith("```")]
    for n in random.Random(name).sample(telling, WORDS_OF_A_REFERENCE // 2):
        assert notices(against_today(name, "\n".join(lines[:n] + lines[n + 1 :]))), lines[n]
