"""The review as a page: what stands on it, that spec text is inert there, and how a browser shows it."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import bs4
import pytest
from opwright.calls import call_text
from opwright.language.source import Mark
from opwright.review.evidence import Witness
from opwright.review.findings import Review
from opwright.review.page import as_html, spans
from support import browser, reviewing

OP = "conv_transpose.yaml"
SPECS = reviewing.by_semantics(OP)
HOSTILE = "</style></pre><script>document.title='owned'</script><img src=x onerror=alert(1)> {{ 7 * 7 }} \u202e\x1b[31m"
shown = pytest.mark.skipif(browser.executable() is None, reason="chromium is not installed")


def parsed(page: str) -> bs4.BeautifulSoup:
    return bs4.BeautifulSoup(page, "html.parser")


@pytest.fixture(scope="module")
def review() -> Review:
    after = reviewing.edited(
        SPECS,
        OP,
        ("  init: 0\n", "  init: 1\n"),
        ("summary: The gradient of Convolution", "summary: A gradient of Convolution"),
    )
    after = reviewing.edited(after, "_common.yaml", ("same_lower: ceil(T / 2)", "same_lower: floor(T / 2)"))
    found = reviewing.reviewed(SPECS, after)
    waived = found.findings[0]
    entry = f"{{rule: {waived.rule.id}, fingerprint: '{waived.fingerprint}', reason: agreed, expires: 2030-02-01}}"
    waiver = f"waivers: [{entry}]\n"
    found = reviewing.reviewed(SPECS, after, waivers=waiver)
    last = dataclasses.replace(
        found.findings[-1], witness=Witness(3, call_text.parse("conv_transpose(src f32[1,4,4,8])"), differs="values")
    )
    return dataclasses.replace(found, findings=(*found.findings[:-1], last))


@pytest.fixture(scope="module")
def page(review: Review) -> str:
    return as_html(review, True)


# What stands on it.


def test_the_top_says_the_verdict_the_exit_code_the_counts_and_both_sides(page: str, review: Review):
    top = parsed(page).header
    assert top.h1.get_text() == "2 findings block the change"
    assert "Exit code 1" in top.get_text()
    counts = {item["class"][0]: int(item.b.get_text()) for item in top.select(".counts li")}
    live = Counter(f.severity for f in review.findings if not f.waived)
    assert counts == {"error": 2, "warning": 0, "notice": 1, "info": 1, "waived": 1}
    assert counts["error"] == live["error"]
    assert [side.get_text() for side in top.select(".sides dd")] == ["before", "after"]


def test_the_verdict_follows_the_threshold_and_the_proof(review: Review):
    def heading(found: Review) -> str:
        return parsed(as_html(found)).h1.get_text()

    none = dataclasses.replace(review, findings=())
    assert heading(none) == "No findings"
    info = dataclasses.replace(review, findings=tuple(f for f in review.findings if f.severity == "info"))
    assert heading(info) == "Nothing blocks the change"
    assert heading(dataclasses.replace(info, threshold="info")) == "1 finding blocks the change"
    wrong = dataclasses.replace(review, impact=dataclasses.replace(review.impact, unpredicted=["ConvTranspose: files"]))
    assert heading(wrong) == "The change does not match the prediction"
    assert "ConvTranspose: files" in parsed(as_html(wrong)).find(id="proof").get_text()


def test_every_finding_stands_under_its_operations_with_all_that_is_known_of_it(page: str, review: Review):
    document = parsed(page)
    titles = [section.h2.get_text() for section in document.select("main > section")]
    assert titles == [
        "ConvTranspose",
        "6 operations",
        "The specs as a whole",  # which says that the waiver came with the change
        "Prediction and proof",
        "The C that changes",
    ]
    cards = document.select("article")
    assert len(cards) == len(review.findings)
    for card in cards:
        fingerprint = card.select(".copy")[1].get_text()
        finding = next(f for f in review.findings if f.fingerprint == fingerprint)
        shown = " ".join(card.get_text().split())
        assert card.h3.get_text().split()[-1] == finding.rule.id
        assert card.h3.span.get_text() == ("waived" if finding.waived else finding.severity)
        expected = [
            finding.path,
            finding.rule.reason,
            finding.waived,
            str(finding.old or ""),
            str(finding.new or ""),
            finding.reproduce,
        ]
        assert all(text in shown for text in expected)
        assert " ".join(" ".join(finding.witness.lines() if finding.witness else []).split()) in shown
        assert [value.get_text() for value in card.select(".value")] == [finding.was, finding.now]
        moved = finding.moved.kernels | finding.moved.files
        assert {name.get_text() for name in card.select(".names li")} == moved
        assert all(listed.find_parent("details") for listed in card.select(".names"))


def test_the_proof_counts_what_was_predicted_and_what_was_observed(page: str, review: Review):
    rows = [[cell.get_text() for cell in row.select("th, td")] for row in parsed(page).select("#proof tbody tr")]
    observed = review.impact.observed
    assert rows[0] == ["Files that change", str(len(observed.files)), str(len(observed.files)), "yes"]
    assert rows[1][1:3] == [str(len(observed.kernels))] * 2
    assert len(observed.kernels) > 0


def test_c_that_changes_alike_in_many_kernels_is_shown_once_and_folded(page: str, review: Review):
    blocks = parsed(page).select("#code > details")
    assert 0 < len(blocks) < len(review.impact.observed.kernels)
    several = [block for block in blocks if "more place" in block.summary.get_text()]
    assert several
    assert all(not block.has_attr("open") for block in several)
    assert all(block.has_attr("open") for block in blocks if block not in several)
    assert not parsed(as_html(review)).select("#code")


def test_what_differs_within_a_value_is_marked_on_both_sides():
    was, now = spans("floor(T / 2)", "ceil(T / 2)")
    assert [(span.text, span.changed) for span in was] == [("floor", True), ("(T / 2)", False)]
    assert [(span.text, span.changed) for span in now] == [("ceil", True), ("(T / 2)", False)]


# What it is made of.


def test_the_page_stands_alone_and_has_landmarks_and_headings_in_order(page: str):
    document = parsed(page)
    assert not document.select("script, link, img, iframe, object, embed, form")
    assert all(link["href"].startswith("#") for link in document.select("[href]"))
    assert not re.search(r"url\(|@import|https?:", page)
    ids = Counter(element["id"] for element in document.select("[id]"))
    assert set(ids.values()) == {1}
    targets = {link["href"][1:] for link in document.select("[href]")}
    targets |= {element["aria-labelledby"] for element in document.select("[aria-labelledby]")}
    assert targets <= set(ids)
    assert document.html["lang"] == "en"
    assert [len(document.select(name)) for name in ("header", "nav", "main", "footer", "h1")] == [1] * 5
    levels = [int(heading.name[1]) for heading in document.select("h1, h2, h3")]
    assert all(below - above <= 1 for above, below in itertools.pairwise(levels))


def test_spec_text_is_inert_wherever_it_stands(review: Review):
    finding = dataclasses.replace(
        review.findings[0],
        path=HOSTILE, was=HOSTILE, now=f"{HOSTILE} now", witness=Witness(1, notes=(HOSTILE,)), waived=HOSTILE, reproduce=HOSTILE, ops=(HOSTILE, "b"),
        old=Mark(HOSTILE), new=Mark(HOSTILE), moved=dataclasses.replace(review.findings[0].moved, files=frozenset({HOSTILE})),
    )  # fmt: skip
    impact = dataclasses.replace(review.impact, unpredicted=[HOSTILE])
    names = frozenset({f"{HOSTILE}.c"})
    impact.observed, impact.texts = dataclasses.replace(impact.observed, files=names), ({}, {f"{HOSTILE}.c": HOSTILE})
    page = as_html(dataclasses.replace(review, base=HOSTILE, head=HOSTILE, findings=(finding,), impact=impact), True)
    document = parsed(page)
    assert not document.select("script, img")
    assert not [name for element in document.find_all(True) for name in element.attrs if name.startswith("on")]
    assert page.count("&lt;script&gt;") >= 12
    assert "{{ 7 * 7 }}" in document.get_text()
    assert not re.search("[\u202e\x1b]", page)
    assert "\\u202e\\x1b[31m" in page


def test_an_edit_of_hostile_text_is_shown_as_text():
    text = SPECS[f"{reviewing.FOLDER}/{OP}"]
    line = next(line for line in text.splitlines() if line.startswith("summary:"))
    after = {
        **SPECS,
        f"{reviewing.FOLDER}/{OP}": text.replace(line, "summary: '<script>alert(1)</script><b onclick=x>'"),
    }
    document = parsed(as_html(reviewing.reviewed(SPECS, after), True))
    assert not document.select("script, b[onclick]")
    assert [value.get_text() for value in document.select(".value")][1] == "<script>alert(1)</script><b onclick=x>"


# How it looks.


def colours(page: str) -> dict[str, dict[str, str]]:
    """The colours of both schemes, and of paper."""
    blocks = re.findall(r":root \{(.*?)\}", page, re.DOTALL)
    return {
        name: dict(re.findall(r"--(\w+): (#[0-9a-f]{3,6})", block))
        for name, block in zip(("light", "dark", "print"), blocks)
    }


def luminance(colour: tuple[int, ...]) -> float:
    parts = [part / 255 for part in colour[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """As WCAG 2 defines it."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def rgb(colour: str) -> tuple[int, ...]:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    return tuple(bytes.fromhex(digits))


def test_every_text_colour_is_readable_on_every_ground(page: str):
    found = colours(page)
    assert list(found) == ["light", "dark", "print"]
    for scheme in found.values():
        for text in ("ink", "soft", "link", "error", "warning", "notice", "info", "waived"):
            assert contrast(rgb(scheme[text]), rgb(scheme["paper"])) >= 4.5, (scheme, text)
        for ground in ("paper", "sheet", "gone", "come"):
            assert contrast(rgb(scheme["ink"]), rgb(scheme[ground])) >= 7, (scheme, ground)


@shown
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_text_in_strong_contrast_on_the_ground_of_the_scheme(page: str, scheme: str, tmp_path: Path):
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    browser.screenshot(page, tmp_path / "page.png", scheme, (1000, 2400))
    with image.open(tmp_path / "page.png") as opened:
        picture = opened.convert("RGB")
    assert picture.size == (1000, 2400)
    pixels: Mapping[tuple[int, ...], int] = {
        colour: count for count, colour in picture.getcolors(picture.width * picture.height)
    }
    ground = max(pixels, key=lambda colour: pixels[colour])
    expected = {name: rgb(value) for name, value in colours(page)[scheme].items()}
    assert ground == expected["paper"]
    assert (luminance(ground) > 0.5) == (scheme == "light")
    text = {colour: count for colour, count in pixels.items() if contrast(colour, ground) >= 7}
    assert sum(text.values()) > 2000  # glyphs of a page that is not blank
    # Of every colour that means something there are pixels: a heading, a severity, both sides of a change.
    assert all(pixels.get(expected[name], 0) > 20 for name in ("ink", "error", "gone", "come"))


WIDEST = """
  for (const folded of frame.querySelectorAll("details")) folded.open = true;
  return frame.documentElement.scrollWidth;"""


@shown
def test_a_phone_shows_the_page_without_scrolling_sideways(page: str):
    assert browser.measured(page, 390, WIDEST) == 390
    wide = page.replace("<footer>", '<footer><div style="width: 600px">wide</div>')
    assert browser.measured(wide, 390, WIDEST) > 390  # what the measure says where something sticks out


@shown
def test_folded_lists_open_without_a_script_and_keyboards_reach_them(page: str):
    script = """
      const folded = frame.querySelector("article details");
      folded.querySelector("summary").focus();
      const ring = frame.defaultView.getComputedStyle(frame.activeElement, null).outlineStyle;
      const before = folded.scrollHeight;
      folded.querySelector("summary").click();
      return [frame.activeElement.tagName, ring, folded.open, folded.scrollHeight > before];"""
    tag, ring, opened, grown = browser.measured(page, 800, script)
    assert (tag, opened, grown) == ("SUMMARY", True, True)
    assert ring == "solid"
