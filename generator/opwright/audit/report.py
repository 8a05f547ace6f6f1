"""Findings as text, as a table for a terminal, or as JSON.

The text of a page is untrusted: it was made printable when it was read, and no markup in it is interpreted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..language.source import Mark
from .compare import counts
from .finding import Finding
from .page import Page

STYLES = {"agree": "green", "contradiction": "bold red", "ruled": "cyan", "silent": "dim", "lost": "yellow"}
MAX_SHOWN = 300


@dataclass(frozen=True)
class Audited:
    """A page, the operation that it was compared with, and the findings."""

    page: Page
    op: str
    findings: tuple[Finding, ...]

    def shown(self, everything: bool) -> Sequence[Finding]:
        return [finding for finding in self.findings if everything or finding.status != "agree"]

    @property
    def summary(self) -> str:
        """`24 agree, 1 ruled (R1), 0 contradict, 3 silent, 2 lost`."""
        number = counts(self.findings)
        rulings = dict.fromkeys(str(finding.ruling.id) for finding in self.findings if finding.ruling)
        ruled = f"{number['ruled']} ruled" + (f" ({', '.join(rulings)})" if rulings else "")
        return (
            f"{number['agree']} agree, {ruled}, {number['contradiction']} contradict, "
            f"{number['silent']} silent, {number['lost']} lost"
        )

    @property
    def title(self) -> str:
        return f"{self.page.file}: {self.op} ({self.page.form})"


def _labelled(finding: Finding) -> Iterator[tuple[str, str]]:
    """The lines that explain a finding, each with its label."""
    parts = [("page", finding.page), ("spec", finding.spec), ("note", finding.note)]
    if finding.ruling is not None:
        parts.append((str(finding.ruling.id), finding.ruling.ruling or ""))
    return ((label, text[:MAX_SHOWN]) for label, text in parts if text)


def text(audited: Audited, everything: bool = False) -> str:
    """The report as plain text."""
    lines: list[str] = []
    for finding in audited.shown(everything):
        lines.append(f"{finding.status:13}  {finding.field}   {audited.op}   {finding.page_at}   {finding.spec_at}")
        lines += [f"{'':13}  {label}: {value}" for label, value in _labelled(finding)]
    return "\n".join([*lines, f"{audited.title}: {audited.summary}"])


def print_table(console: Console, audited: Audited, everything: bool = False) -> None:
    """The report on a terminal."""
    table = Table(title=Text(audited.title), title_justify="left", expand=True)
    for column in ("status", "field", "what is statement", "where"):
        table.add_column(column, overflow="fold")
    for finding in audited.shown(everything):
        statement = "\n".join(f"{label}: {part}" for label, part in _labelled(finding))
        where = f"{finding.page_at}\n{finding.spec_at}"
        table.add_row(Text(finding.status, STYLES[finding.status]), Text(finding.field), Text(statement), Text(where))
    if table.row_count:
        console.print(table)
    console.print(Text(f"{audited.title}: {audited.summary}"))


def as_json(pages: Sequence[Audited]) -> str:
    """All findings, including those that agree."""
    return json.dumps({"pages": [_page(audited) for audited in pages]}, indent=2, ensure_ascii=False)


def _page(audited: Audited) -> dict[str, Any]:
    return {
        "page": audited.page.file,
        "form": audited.page.form,
        "op": audited.op,
        "summary": counts(audited.findings),
        "findings": [_finding(finding) for finding in audited.findings],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    ruling = finding.ruling
    return {
        "status": finding.status,
        "field": finding.field,
        "page": {"says": finding.page, **_place(finding.page_at)},
        "spec": {"says": finding.spec, **_place(finding.spec_at)},
        "note": finding.note,
        "ruling": {"id": ruling.id, "ruling": ruling.ruling, "why": ruling.why} if ruling else None,
    }


def _place(mark: Mark) -> dict[str, Any]:
    return {"file": mark.file, "line": mark.line, "column": mark.column}
