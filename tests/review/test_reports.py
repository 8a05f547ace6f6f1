"""Reports as people and programs read them: what they lead with, what they name, and how long they may be."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import bs4
import jsonschema
import pytest
from opwright import cli
from opwright.language.source import Mark, Problem
from opwright.review import comment, words
from opwright.review.advice import RULES as ADVICE
from opwright.review.advice import advice
from opwright.review.findings import Review
from opwright.review.impact import Moved
from opwright.review.json_form import schema
from opwright.review.refused import Refused
from opwright.review.report import FORMATS, REFUSALS
from opwright.review.rules import RULES
from support import reviewing

OP = "conv_transpose.yaml"
SPECS = reviewing.specs()
NASTY = "<script>x</script> ::error::x\n::error::y | `z` ``` %0A ]]> \x1b[31m \u202e </details>"


@pytest.fixture(scope="module")
def review() -> Review:
    """One finding of each contract, by one edit each."""
    after = reviewing.edited(
        SPECS, OP,
        ("default: XOI", "default: IOX"), ("summary: The gradient of Convolution", "summary: A gradient of Convolution"),
        ("ruling: 0 <= OP < max(S, D) on each axis.", "ruling: 0 <= OP < max(S, D)."),
    )  # fmt: skip
    return reviewing.reviewed(SPECS, after)


def named(review: Review) -> Review:
    return dataclasses.replace(review, base="git:one (merge base)", head="git:two")


# What stands first.


def test_the_first_line_counts_findings_by_contract(review: Review):
    counts = words.contracts(review)
    assert counts["breaking"] >= 1
    assert (counts["dangerous"], counts["none"]) == (1, 1)
    first = f"{counts['breaking']} breaking, 1 dangerous, 1 without effect on callers\n"
    assert FORMATS["text"](review, False).startswith(first)
    assert FORMATS["markdown"](review, False).startswith(f"### Spec review: {first}")
    assert json.loads(FORMATS["json"](review, False))["contracts"] == counts
    assert (
        bs4.BeautifulSoup(FORMATS["html"](review, False), "html.parser").select_one(".lead").get_text() + "\n" == first
    )
    assert sum(counts.values()) == len(review.findings)
    waived = dataclasses.replace(
        review, findings=tuple(dataclasses.replace(f, waived="agreed") for f in review.findings)
    )
    assert words.lead(waived) == f"{len(review.findings)} waived"
    assert words.lead(dataclasses.replace(review, findings=())) == "no findings"


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_every_form_names_both_sides(form: str, review: Review):
    text = FORMATS[form](named(review), False)
    assert "git:one (merge base)" in text
    assert "git:two" in text


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_every_form_tells_the_action_of_every_finding(form: str, review: Review):
    text = FORMATS[form](review, False)
    text = bs4.BeautifulSoup(text, "html.parser").get_text() if form == "html" else text
    for finding in review.findings:
        action = {"junit": "raise `revision`"}.get(form, advice(finding).split(",")[0].replace("`", ""))
        assert action.replace("`", "") in text.replace("\\", "").replace("`", ""), finding.rule.id


def test_every_rule_has_one_action_of_one_line_and_a_break_is_never_left_alone(review: Review):
    assert ADVICE.keys() <= RULES.keys()
    for rule in RULES.values():
        for ops in ((), ("ConvTranspose",)):
            action = advice(dataclasses.replace(review.findings[0], rule=rule, ops=ops, moved=Moved()))
            assert action
            assert not set("{}\n") & set(action), rule.id
            assert rule.contract not in ("breaking", "dangerous") or "nothing" not in action, rule.id


# How long, and how whole.


def long_review(review: Review, count: int, size: int) -> Review:
    template = review.findings[0]
    filling = "\u00e4|`" * (size // 3)
    many = [
        dataclasses.replace(
            template, path=f"path.{n}", was=f"{n} {filling}", now=f"{n} {NASTY * 2}", fingerprint=f"{n:016x}"
        )
        for n in range(count)
    ]
    return dataclasses.replace(review, findings=tuple(many))


def test_a_comment_shows_the_whole_of_what_was_and_is(review: Review):
    was, now = "a" * 3_000 + " end of was", "b" * 3_000 + " end of is"
    long = dataclasses.replace(review, findings=(dataclasses.replace(review.findings[0], was=was, now=now),))
    text = FORMATS["markdown"](long, False)
    assert f"\n- {was}\n" in text
    assert f"\n+ {now}\n" in text


@pytest.mark.parametrize(("count", "size"), [(1, 200_000), (40, 4_000), (300, 100), (3_000, 30), (5, 13_000)])
def test_a_comment_keeps_within_what_github_takes_and_says_what_it_left_out(review: Review, count: int, size: int):
    long = long_review(review, count, size)
    text = FORMATS["markdown"](long, True)
    assert len(text.encode()) <= comment.MAX_COMMENT_BYTES == 65_536
    assert len(text.encode()) > 3_000
    lines = text.splitlines()
    assert lines.count("</details>") == sum(line.startswith("<details>") for line in lines)
    assert sum(line.startswith("```") for line in lines) % 2 == 0
    shown = sum(line.startswith("<details>") and "C that changes" not in line for line in lines)
    left = re.search(r"(\d+) more findings: run `", text)
    assert shown >= 1
    assert shown + (int(left[1]) if left else 0) == count


def test_spec_text_ends_no_fence_and_opens_no_element_in_a_comment(review: Review):
    text = FORMATS["markdown"](long_review(review, 3, 30), False)
    inside = False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = not inside
        elif inside:
            assert line[:2] in ("- ", "+ ")
        else:
            assert "<script>" not in re.sub(r"`[^`]*`", "", line)


# What machines make of it.


@pytest.mark.parametrize("threshold", ["error", "warning", "notice"])
def test_junit_fails_from_the_threshold_on(review: Review, threshold: str):
    at = dataclasses.replace(review, threshold=threshold)
    made = ElementTree.fromstring(FORMATS["junit"](at, False))
    failing = [case for case in made.iter("testcase") if case.find("failure") is not None]
    assert len(failing) == int(made.get("failures")) == len(at.failing(threshold))
    levels = [sum(f.severity in words.SEVERITIES[: n + 1] for f in review.findings) for n in range(3)]
    assert len(failing) == levels[("error", "warning", "notice").index(threshold)]


def test_a_waived_finding_is_a_skipped_case(review: Review):
    first, *rest = review.findings
    waived = dataclasses.replace(review, findings=(dataclasses.replace(first, waived="agreed"), *rest))
    made = ElementTree.fromstring(FORMATS["junit"](waived, False))
    assert made.get("skipped") == "1"
    assert [
        case.find("skipped").get("message") for case in made.iter("testcase") if case.find("skipped") is not None
    ] == ["agreed"]


# A side that cannot be used.


def documents(form: str, text: str) -> Iterator[str]:
    """The messages in a report of a refused side, once the form's own reader has taken it."""
    if form == "json":
        found = json.loads(text)
        jsonschema.validate(found, schema())
        assert (found["exit_code"], found["predicted"]) == (3, None)
        yield from (problem["message"] for problem in found["invalid"]["problems"])
    elif form == "sarif":
        run = json.loads(text)["runs"][0]
        assert run["invocations"] == [{"executionSuccessful": False, "exitCode": 3}]
        yield from (result["message"]["text"] for result in run["results"])
    elif form == "junit":
        made = ElementTree.fromstring(text)
        assert made.get("errors") == made.get("tests")
        yield from (error.get("message") for error in made.iter("error"))
    elif form == "html":
        document = bs4.BeautifulSoup(text, "html.parser")
        assert not document.select("script")
        yield from (article.select("p")[-1].get_text() for article in document.select("article"))
    elif form == "github":
        lines = [line for line in text.splitlines() if line.startswith("::")]
        assert all(line.startswith("::error file=") for line in lines)
        yield from (line.split("::", 2)[2].replace("%25", "%") for line in lines)
    else:
        yield from (line.split(":", 4)[-1].strip() for line in text.splitlines() if OP in line)


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_a_broken_spec_has_a_well_formed_report_and_exits_with_3(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folders = []
    for name, texts in (("old", SPECS), ("bad", reviewing.edited(SPECS, OP, ("revision: 1", "revision: none")))):
        for path, text in texts.items():
            target = tmp_path / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        folders.append(str(tmp_path / name / "spec"))
    assert cli.main(["diff", *folders, "--format", form]) == 3
    out, err = capsys.readouterr()
    assert f"{folders[1]}: 1 problem in its specs" in err
    if form == "text":
        assert out == ""
        return
    assert len(list(documents(form, out))) == 1
    assert all(folder in out.replace("\\", "") for folder in folders) or form == "github"


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_a_report_of_a_broken_spec_is_bounded_or_whole_and_inert(form: str):
    problems = [Problem(Mark(OP, n, 1), "rule", f"{n} {NASTY}") for n in range(1, 2_000)]
    text = REFUSALS[form](Refused("the side", problems, "git:one", ""))
    if form == "markdown":
        assert len(text.encode()) <= comment.MAX_COMMENT_BYTES
        assert re.search(r"and \d+ more", text)
        return
    assert len(list(documents(form, text))) == len(problems)
    assert form == "json" or "\x1b" not in text
    assert FORMATS.keys() == REFUSALS.keys()
