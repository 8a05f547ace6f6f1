"""A review in the form that its reader wants: people at a terminal, in a pull request, and programs.

In: a Review. Out: text. Spec text stands in it; each form makes it inert in its own way.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree

from ..emit.render import code, markdown
from ..language.source import Mark, inert
from . import values
from .evidence import VALUE_SCHEMA, WITNESS_SCHEMA
from .findings import Finding, Review
from .hunks import hunks
from .page import as_html
from .rules import RULES, SEVERITIES, Rule

SCHEMA_VERSION = 1
LISTED = 8  # kernels that are named; the rest is counted
GITHUB = {"error": "error", "warning": "warning", "notice": "notice", "info": "notice"}
SARIF = {"error": "error", "warning": "warning", "notice": "note", "info": "none"}


def _ops(finding: Finding) -> str:
    return ", ".join(finding.ops) if len(finding.ops) < 4 else f"{len(finding.ops)} operations"


def _change(finding: Finding) -> str:
    return f"{finding.path}: {finding.was} -> {finding.now}" if finding.now else finding.was


def kernels(finding: Finding, review: Review) -> str:
    """How many kernels a finding moves, and the first of them."""
    moved = finding.moved
    parts = []
    if moved.kernels:
        parts.append(f"{len(moved.kernels)} of {review.impact.kernels} change: {_some(moved.kernels)}")
    parts += [f"{len(names)} {word}: {_some(names)}" for word, names in
              (("added", moved.added), ("removed", moved.removed)) if names]  # fmt: skip
    parts += filter(None, [values.summary(review, finding)])
    return "; ".join(parts) or f"none of {review.impact.kernels} changes"


def _some(names: frozenset[str]) -> str:
    shown = sorted(names)[:2]
    return ", ".join(shown) + (", ..." if len(names) > len(shown) else "")


def _witness(finding: Finding) -> list[str]:
    first, *rest = finding.witness.lines() if finding.witness else [""]
    return [f"witness: {first}", *(f"         {line}" for line in rest)] if first else []


def _files(finding: Finding) -> str:
    files = sorted(finding.moved.files)
    rest = f" and {len(files) - LISTED} more" if len(files) > LISTED else ""
    return ", ".join(files[:LISTED]) + rest if files else "none"


def summary(review: Review) -> str:
    """One line: how many findings, and whether the prediction held."""
    counts = Counter(finding.severity for finding in review.findings if not finding.waived)
    said = ", ".join(f"{counts[s]} {s}{'s' * (counts[s] != 1 and s != 'info')}" for s in SEVERITIES if counts[s])
    waived = sum(bool(finding.waived) for finding in review.findings)
    held = "NOT as predicted" if review.impact.unpredicted else "as predicted"
    moved = review.impact.observed
    effect = f"{len(moved.files)} files and {len(moved.kernels)} kernels change, {held}"
    if moved.added or moved.removed:
        effect += f"; {len(moved.added)} kernels added, {len(moved.removed)} removed"
    return f"{said or 'no findings'}{f', {waived} waived' if waived else ''}; {effect}"


def text(review: Review, with_code: bool = False) -> str:
    lines = []
    for finding in review.findings:
        severity = "waived" if finding.waived else finding.severity
        head = f"{severity:7} {finding.rule.id}   {_ops(finding)}   {finding.place}"
        about = [
            _change(finding),
            f"why: {finding.waived or finding.rule.reason}",
            f"kernels: {kernels(finding, review)}" if finding.ops else "",
            f"files: {_files(finding)}" if finding.ops else "",
            *_witness(finding),
            f"fingerprint: {finding.fingerprint}   reproduce: {finding.reproduce}",
        ]
        lines += [inert(head.rstrip()), *(f"        {inert(line)}" for line in about if line), ""]
    lines += [difference for difference in code_changes(review) if with_code]
    return "\n".join([*lines, summary(review)]) + "\n"


def code_changes(review: Review) -> list[str]:
    """The changed kernels as hunks; files with the same hunks stand together over one print of them."""
    printed = []
    for hunk in hunks(review.impact):
        files = [f"{path} ({count} times)" if count > 1 else path for path, count in hunk.files.items()]
        printed += [f"@@ {', '.join(files)}", "\n".join(map(inert, hunk.lines)), ""]
    return printed


def _place(mark: Mark | None) -> dict[str, Any] | None:
    return {"file": mark.file, "line": mark.line, "column": mark.column} if mark else None


def _finding(finding: Finding) -> dict[str, Any]:
    moved, rule = finding.moved, finding.rule
    return {
        "rule": rule.id,
        "severity": finding.severity,
        "contract": rule.contract,
        "kernel": rule.kernel,
        "record": rule.record or None,
        "direction": rule.direction,
        "operations": list(finding.ops),
        "path": finding.path,
        "was": finding.was,
        "is": finding.now,
        "before": _place(finding.old),
        "after": _place(finding.new),
        "reason": rule.reason,
        "files": sorted(moved.files),
        "kernels": {
            "changed": sorted(moved.kernels),
            "added": sorted(moved.added),
            "removed": sorted(moved.removed),
        },
        "witness": finding.witness.as_json() if finding.witness else None,
        "reproduce": finding.reproduce,
        "fingerprint": finding.fingerprint,
        "waived": finding.waived or None,
    }


def as_json(review: Review, with_code: bool = False) -> str:
    """The form that docs/diff.schema.json describes."""
    whole = {
        "version": SCHEMA_VERSION,
        "base": review.base,
        "head": review.head,
        "predicted": not review.impact.unpredicted,
        "kernels": review.impact.kernels,
        "findings": [_finding(finding) for finding in review.findings],
        "values": None if review.values is None else [asdict(value) for value in review.values.values()],
        "code": code_changes(review) if with_code else [],
    }
    return json.dumps(whole, indent=2) + "\n"


def as_markdown(review: Review, with_code: bool = False) -> str:
    """A comment of a pull request: one row per finding, long lists folded away."""
    lines = [f"### Spec review: {markdown(summary(review))}", ""]
    if review.findings:
        lines += ["| | rule | where | was | is | kernels |", "|---|---|---|---|---|---|"]
    for finding in review.findings:
        severity = "waived" if finding.waived else finding.severity
        moved = finding.moved
        count = len(moved.kernels | moved.added | moved.removed)
        cells = (
            f"**{severity}**", code(finding.rule.id), f"{markdown(_ops(finding))} {code(finding.place)}",
            code(finding.was[:200]), code(finding.now[:200]), f"{count} of {review.impact.kernels}" if count else "",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    for finding in review.findings:
        about = [f"- {markdown(finding.rule.reason)}", f"- kernels: {code(kernels(finding, review))}"]
        about += [f"- {code(line)}" for line in _witness(finding)]
        about += [f"- fingerprint {code(finding.fingerprint)}; again with {code(finding.reproduce)}"]
        title = markdown(f"{finding.rule.id}: {finding.path}")
        lines += ["", f"<details><summary>{title}</summary>", "", *about, "", "</details>"]
    if with_code:
        fenced = "\n".join(code_changes(review)).replace("```", "` ` `")
        lines += ["", "<details><summary>C that changes</summary>", "", "```diff", fenced, "```", "", "</details>"]
    return "\n".join(lines) + "\n"


def as_github(review: Review, with_code: bool = False) -> str:
    """Annotations of GitHub Actions, one line each."""

    def escaped(said: str) -> str:
        return said.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

    def value(said: str) -> str:
        return escaped(said).replace(":", "%3A").replace(",", "%2C")

    lines = []
    for finding in review.findings:
        if finding.waived:
            continue
        at = finding.new or finding.old or Mark("spec")
        where = f"file={value(at.file)},line={at.line},col={at.column},title={value(finding.rule.id)}"
        said = "\n".join([_change(finding), finding.rule.reason, *_witness(finding)])
        lines.append(f"::{GITHUB[finding.severity]} {where}::{escaped(said)}")
    return "\n".join([*lines, summary(review)]) + "\n"


def as_junit(review: Review, with_code: bool = False) -> str:
    """One case per finding; those that are errors fail."""
    failing = [finding for finding in review.findings if finding.severity == "error" and not finding.waived]
    suite = ElementTree.Element(
        "testsuite", name="opwright diff", tests=str(len(review.findings)), failures=str(len(failing))
    )
    for finding in review.findings:
        where = inert(f"{finding.rule.id} {finding.path}")
        case = ElementTree.SubElement(suite, "testcase", classname=_ops(finding) or "specs", name=where)
        if finding in failing:
            made = ElementTree.SubElement(case, "failure", message=inert(_change(finding)), type=finding.rule.id)
            made.text = "\n".join([finding.place, finding.rule.reason, *map(inert, _witness(finding))])
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode") + "\n"


def as_sarif(review: Review, with_code: bool = False) -> str:
    """SARIF 2.1.0, for code scanning."""
    used = sorted({finding.rule.id for finding in review.findings})

    def result(finding: Finding) -> dict[str, Any]:
        at = finding.new or finding.old or Mark("spec")
        region = {"startLine": at.line, "startColumn": at.column}
        return {
            "ruleId": finding.rule.id,
            "level": SARIF[finding.severity],
            "message": {"text": inert(" ".join([f"{_change(finding)}. {finding.rule.reason}", *_witness(finding)]))},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": at.file}, "region": region}}],
            "partialFingerprints": {"opwright/v1": finding.fingerprint},
            "suppressions": [{"kind": "external", "justification": finding.waived}] if finding.waived else [],
        }

    rules = [{"id": name, "shortDescription": {"text": RULES[name].reason}} for name in used]
    run = {
        "tool": {"driver": {"name": "opwright", "rules": rules}},
        "results": [result(finding) for finding in review.findings],
    }
    whole = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(whole, indent=2) + "\n"


FORMATS: Mapping[str, Callable[[Review, bool], str]] = {
    "text": text,
    "json": as_json,
    "markdown": as_markdown,
    "github": as_github,
    "junit": as_junit,
    "sarif": as_sarif,
    "html": as_html,
}


def explained(rule: Rule) -> str:
    """All that a rule says of itself."""
    mirror = f"none: {rule.mirror[2:]}" if rule.mirror.startswith("! ") else rule.mirror
    mirror = "itself: the opposite edit is of the same kind" if mirror == rule.id else mirror
    rows = (
        ("rule", rule.id), ("severity", rule.severity()), ("contract", rule.contract), ("kernels", rule.kernel),
        ("record", rule.record or "none"), ("direction", rule.direction), ("mirror", mirror), ("why", rule.reason),
    )  # fmt: skip
    return "".join(f"{name:10} {value}\n" for name, value in rows)


def schema() -> dict[str, Any]:
    """The JSON Schema of the json form."""
    word, words = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
    counted = {"type": "integer", "minimum": 1}
    place = {
        "type": ["object", "null"],
        "properties": {"file": word, "line": counted, "column": counted},
        "required": ["file", "line", "column"],
        "additionalProperties": False,
    }
    maybe = {"type": ["string", "null"]}
    kernel_lists = {
        "type": "object",
        "properties": {"changed": words, "added": words, "removed": words},
        "required": ["changed", "added", "removed"],
        "additionalProperties": False,
    }
    finding = {
        "rule": {"enum": sorted(RULES)}, "severity": {"enum": list(SEVERITIES)}, "contract": word, "kernel": word,
        "record": maybe, "direction": word, "operations": words, "path": word, "was": word, "is": word,
        "before": place, "after": place, "reason": word, "files": words, "kernels": kernel_lists,
        "witness": WITNESS_SCHEMA, "reproduce": word, "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
        "waived": maybe,
    }  # fmt: skip
    findings = {
        "type": "array",
        "items": {"type": "object", "properties": finding, "required": list(finding), "additionalProperties": False},
    }
    whole = {
        "version": {"const": SCHEMA_VERSION}, "base": word, "head": word, "predicted": {"type": "boolean"},
        "kernels": {"type": "integer", "minimum": 0}, "findings": findings,
        "values": {"type": ["array", "null"], "items": VALUE_SCHEMA}, "code": words,
    }  # fmt: skip
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "opwright diff --format json",
        "type": "object",
        "properties": whole,
        "required": list(whole),
        "additionalProperties": False,
    }
