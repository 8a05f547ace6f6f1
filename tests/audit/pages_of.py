"""The pages that the audit's tests read, and the library they are held against."""

from __future__ import annotations

import functools
from pathlib import Path

from opwright.audit import forms
from opwright.audit.compare import Finding, audit
from opwright.audit.page import Page
from opwright.commands.audit import operation
from opwright.language.library import Library
from support.specs import convolutions

ROOT = Path(__file__).resolve().parents[2]
PAGES = Path(__file__).parent / "pages"


@functools.cache
def library() -> Library:
    return convolutions()


def text_of(name: str) -> str:
    return (PAGES / name).read_text(encoding="utf-8")


def audited(text: str, op: str | None = None) -> tuple[Finding, ...]:
    page = forms.read(text, "page")
    return audit(operation(page, library(), op), page)


def page(name: str) -> Page:
    return forms.read(text_of(name), name)


def fields_with(findings: tuple[Finding, ...], *statuses: str) -> set[str]:
    """`field` of every finding of these statuses, with its ruling: `attributes.weights_format.values R2`."""
    return {f"{f.field} {f.ruling.id}" if f.ruling else f.field for f in findings if f.status in statuses}
