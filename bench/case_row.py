"""Rows that are a case in one dtype on some threads, and the rows that words choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar


class Keyed(Protocol):
    """What words choose by its key."""

    @property
    def key(self) -> str: ...

    @property
    def threads(self) -> int: ...


_Row = TypeVar("_Row", bound=Keyed)
_Case = TypeVar("_Case", bound="CaseRow")


@dataclass(frozen=True)
class CaseRow:
    """What is timed. `key` names it in results."""

    case_name: str
    dtype: str
    threads: int
    solve: str = "dst"

    @property
    def shape(self) -> str:
        return self.case_name

    @property
    def key(self) -> str:
        return f"{self.case_name}/{self.dtype}/{self.threads}"

    def exact(self: _Case) -> _Case:
        """The row whose result is that of this one before it is rounded."""
        return replace(self, dtype="f64", threads=1)


def chosen(rows: Sequence[_Row], words: Sequence[str], threads: Sequence[int] = ()) -> list[_Row]:
    """The rows whose key holds each of some words; none without words."""
    wanted = [row for row in rows if not threads or row.threads in threads]
    return [row for row in wanted if words and all(word in row.key for word in words)]
