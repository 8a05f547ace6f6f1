"""A review in every output format: terminal, pull request, and formats for programs.

In: a Review. Out: text. It contains spec text; each format escapes it in its own way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..errors import inert
from . import refused, words
from .advice import advice
from .ci import as_github, as_junit, as_sarif
from .comment import as_markdown
from .findings import Review
from .json_form import as_json
from .page import as_html
from .refused import Refused
from .rules import Rule


def text(review: Review, with_code: bool = False) -> str:
    """For a terminal: the summary for callers, then the findings, the most severe first."""
    lines = [inert(line) for line in (words.lead(review), words.compared(review))] + [""]
    for finding in review.findings:
        head = f"{words.severity(finding):7} {finding.rule.id}   {words.ops(finding)}   {finding.place}"
        about = [
            words.change(finding),
            f"why: {finding.waived or finding.rule.reason}",
            f"action: {advice(finding)}",
            f"kernels: {words.kernels(finding, review)}" if finding.ops else "",
            f"files: {words.files(finding)}" if finding.ops else "",
            *words.witness(finding),
            f"fingerprint: {finding.fingerprint}   reproduce: {finding.reproduce}",
        ]
        lines += [inert(head.rstrip()), *(f"        {inert(line)}" for line in about if line), ""]
    lines += [difference for difference in words.code_changes(review) if with_code]
    return "\n".join([*lines, words.summary(review)]) + "\n"


FORMATS: Mapping[str, Callable[[Review, bool], str]] = {
    "text": text,
    "json": as_json,
    "markdown": as_markdown,
    "github": as_github,
    "junit": as_junit,
    "sarif": as_sarif,
    "html": as_html,
}
# The same formats for a side whose specs are refused.
REFUSALS: Mapping[str, Callable[[Refused], str]] = {
    "text": refused.as_text,
    "json": refused.as_json,
    "markdown": refused.as_markdown,
    "github": refused.as_github,
    "junit": refused.as_junit,
    "sarif": refused.as_sarif,
    "html": refused.as_html,
}


def explained(rule: Rule) -> str:
    """The full description of a rule."""
    mirror = f"none: {rule.mirror[2:]}" if rule.mirror.startswith("! ") else rule.mirror
    mirror = "itself: the opposite edit is of the same kind" if mirror == rule.id else mirror
    rows = (
        ("rule", rule.id), ("severity", rule.severity()), ("contract", rule.contract), ("kernels", rule.kernel),
        ("record", rule.record or "none"), ("direction", rule.direction), ("mirror", mirror), ("why", rule.reason),
    )  # fmt: skip
    return "".join(f"{name:10} {value}\n" for name, value in rows)
