"""A call on which two sides differ: accepted before and refused now, or with another shape.

In: the two specs of an operation. Out: the call as text, or nothing where none was found. Calls are judged by
judging.py; no kernel runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..model import Library
from .rules import Rule


def said(rule: Rule, ops: Sequence[str], before: Library, after: Library) -> str:
    """The smallest such call that was found for a breaking or dangerous rule."""
    return ""
