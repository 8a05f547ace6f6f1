"""A review for continuous integration: GitHub annotations, JUnit, SARIF."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from ..errors import inert
from ..language.source import Mark
from . import words
from .advice import advice
from .findings import Finding, Review
from .rules import RULES

LEVELS = {"error": "error", "warning": "warning", "notice": "notice", "info": "notice"}
SARIF = {"error": "error", "warning": "warning", "notice": "note", "info": "none"}
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def annotation(level: str, title: str, at: Mark | None, sentences: Sequence[str]) -> str:
    """One annotation of GitHub Actions, on one line."""

    def escaped(text: str) -> str:
        return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    def value(text: str) -> str:
        return escaped(inert(text)).replace(":", "%3A").replace(",", "%2C")

    where = [f"file={value(at.file)}", f"line={at.line}", f"col={at.column}"] if at else []
    return f"::{level} {','.join([*where, f'title={value(title)}'])}::{escaped(chr(10).join(map(inert, sentences)))}"


def as_github(review: Review, with_code: bool = False) -> str:
    """Annotations of GitHub Actions, one line each, and a line for the end of the log."""
    lines = []
    for finding in review.findings:
        if not finding.waived:
            sentences = [words.change(finding), finding.rule.reason, f"action: {advice(finding)}"]
            level, at = LEVELS[finding.severity], finding.new or finding.old
            lines.append(annotation(level, finding.rule.id, at, [*sentences, *words.witness(finding)]))
    last = f"{words.lead(review)}; {words.compared(review)}; {words.summary(review)}"
    return "\n".join([*lines, inert(last)]) + "\n"


def suite(name: str, properties: Mapping[str, str], tests: int, **counts: int) -> ElementTree.Element:
    """An empty JUnit suite."""
    numbers = {word: str(count) for word, count in {"tests": tests, **counts}.items()}
    made = ElementTree.Element("testsuite", {"name": inert(name), **numbers})
    listed = ElementTree.SubElement(made, "properties")
    for key, value in properties.items():
        ElementTree.SubElement(listed, "property", name=key, value=inert(value))
    return made


def xml(made: ElementTree.Element) -> str:
    ElementTree.indent(made)
    return ElementTree.tostring(made, encoding="unicode") + "\n"


def as_junit(review: Review, with_code: bool = False) -> str:
    """One case per finding: findings at or above the threshold fail, waived ones are skipped."""
    failing = review.failing(review.threshold)
    about = {"base": review.base, "head": review.head, "contracts": words.lead(review), "fail-on": review.threshold}
    skipped = sum(bool(finding.waived) for finding in review.findings)
    made = suite("opwright diff", about, len(review.findings), failures=len(failing), skipped=skipped)
    for finding in review.findings:
        where = inert(f"{finding.rule.id} {finding.path}")
        case = ElementTree.SubElement(made, "testcase", classname=words.ops(finding) or "specs", name=where)
        if finding in failing:
            message = inert(words.change(finding))
            failure = ElementTree.SubElement(case, "failure", message=message, type=finding.rule.id)
            about_it = [finding.place, finding.rule.reason, f"action: {advice(finding)}", *words.witness(finding)]
            failure.text = "\n".join(map(inert, about_it))
        elif finding.waived:
            ElementTree.SubElement(case, "skipped", message=inert(finding.waived))
    return xml(made)


def result(rule: str, level: str, message: str, at: Mark | None, **more: Any) -> dict[str, Any]:
    """A SARIF result, located at the folder of specs if it has no line."""
    at = at or Mark("spec")
    region = {"startLine": at.line, "startColumn": at.column}
    place = {"physicalLocation": {"artifactLocation": {"uri": at.file}, "region": region}}
    return {"ruleId": rule, "level": level, "message": {"text": inert(message)}, "locations": [place], **more}


def sarif(rules: Iterable[dict[str, Any]], results: Iterable[dict[str, Any]], code: int, **about: Any) -> str:
    """A SARIF 2.1.0 log of one run; the run is unsuccessful if nothing could be compared."""
    run = {
        "tool": {"driver": {"name": "opwright", "rules": list(rules)}},
        "invocations": [{"executionSuccessful": code in (0, 1), "exitCode": code}],
        "properties": about,
        "results": list(results),
    }
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def as_sarif(review: Review, with_code: bool = False) -> str:
    """SARIF 2.1.0, for code scanning."""

    def of(finding: Finding) -> dict[str, Any]:
        sentences = [f"{words.change(finding)}. {finding.rule.reason}", f"Action: {advice(finding)}."]
        return result(
            finding.rule.id, SARIF[finding.severity], " ".join([*sentences, *words.witness(finding)]),
            finding.new or finding.old,
            partialFingerprints={"opwright/v1": finding.fingerprint},
            suppressions=[{"kind": "external", "justification": finding.waived}] if finding.waived else [],
        )  # fmt: skip

    used = sorted({finding.rule.id for finding in review.findings})
    rules = ({"id": name, "shortDescription": {"text": RULES[name].reason}} for name in used)
    about = {"base": review.base, "head": review.head, "contracts": words.contracts(review)}
    return sarif(rules, map(of, review.findings), review.exit_code, **about)
