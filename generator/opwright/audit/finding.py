"""What comes out of holding a page against a spec: one finding per field."""

from __future__ import annotations

from dataclasses import dataclass

from ..language.model import Discrepancy
from ..language.source import Mark

STATUSES = ("agree", "contradiction", "ruled", "silent", "lost")


@dataclass(frozen=True)
class Finding:
    """One field, what the page and the spec say of it, and where."""

    status: str
    field: str
    page: str
    spec: str
    page_at: Mark
    spec_at: Mark
    note: str = ""
    words: tuple[str, ...] = ()
    ruling: Discrepancy | None = None
