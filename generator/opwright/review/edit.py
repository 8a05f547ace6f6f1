"""A difference between two libraries, and the operations that have any.

In: two libraries. Out: pairs of operations; what finds differences makes an `Edit` of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ..language.library import Library, Page
from ..language.model import Op
from ..language.source import Mark
from .tree import same

Pages = Mapping[str, Page]


def _as_listed(pages: Pages) -> Pages:
    return pages


@dataclass(frozen=True)
class Edit:
    """One difference. `make` applies it to an operation (None if there is none), `pages` to the documents."""

    rule: str
    op: str
    path: str
    was: str
    now: str
    old: Mark | None
    new: Mark | None
    make: Callable[[Op | None], Op | None]
    pages: Callable[[Pages], Pages] = _as_listed


def changed(before: Library, after: Library) -> Iterator[tuple[Op, Op]]:
    """The operations of both sides, old and new, that are not exactly the same."""
    olds = {op.op: op for op in before.every}
    for op in after.every:
        old = olds.get(op.op)
        if old is not None and not same(old, op):
            yield old, op
