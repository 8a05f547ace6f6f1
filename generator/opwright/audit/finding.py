"""The result of comparing a page with a spec: one finding per field."""

from __future__ import annotations

from dataclasses import dataclass

from ..language.model import Discrepancy
from ..language.source import Mark

STATUSES = ("agree", "contradiction", "ruled", "silent", "lost")


@dataclass(frozen=True)
class Finding:
    """One field: its value on the page and in the spec, and their places."""

    status: str
    field: str
    page: str
    spec: str
    page_at: Mark
    spec_at: Mark
    note: str = ""
    words: tuple[str, ...] = ()
    ruling: Discrepancy | None = None
