"""What the types alone cannot say: rules inside one operation, and rules across operations.

In: complete operations. Out: problems, noted in the list that the loader hands in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .model import Op, Page
from .schema import Problems


def check_op(op: Op, pages: Mapping[str, Page], problems: Problems) -> None:
    """Note every rule that one operation breaks."""


def check_library(ops: Sequence[Op], problems: Problems) -> None:
    """Note every rule that the operations break together."""
