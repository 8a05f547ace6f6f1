"""Places in specs, and the problems found there.

Every node that the loader makes has a `Mark`; every violation is a `Problem`. Problems are collected
and raised together as one `SpecInvalid`, so that a spec owner can fix a file in one pass.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ..errors import inert
from ..memo import Interned


@dataclass(frozen=True, order=True)
class Mark:
    """A place in a spec file; line and column count from 1. The mark of a mapping has those of its keys."""

    file: str = "<memory>"
    line: int = 1
    column: int = 1
    keys: tuple[tuple[str, Mark], ...] = field(default=(), compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def key(self, name: str) -> Mark:
        """The place of a key of this mapping; that of the mapping if it has no such key."""
        return dict(self.keys).get(name, self)

    def moved(self, columns: int) -> Mark:
        return Mark(self.file, self.line, self.column + columns)


class Prose(str):
    """A text of a view for comments and docstrings only: changing it changes no token of code."""


class Code(metaclass=Interned):
    """A node of a view that is code throughout, without Prose. Equal nodes are one object."""


@dataclass(frozen=True, order=True)
class Problem:
    """One problem of a spec: its place, its rule, and a sentence that says what to do."""

    mark: Mark
    rule: str
    message: str

    def __str__(self) -> str:
        return inert(f"{self.mark}: {self.rule}: {self.message}")


class SpecInvalid(Exception):  # noqa: N818  # named for what it says
    """A set of specs that cannot be used; `problems` lists every reason, in file order."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(map(str, self.problems)))


# What reading, sampling or rendering an operation raises when only some of the edits between two valid states are
# applied to it. Anything else, such as an OSError, is a fault of the tool.
INCONSISTENT: tuple[type[Exception], ...] = (
    SpecInvalid, ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, StopIteration, TypeError,
    ValueError,
)  # fmt: skip


def suggestion(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'strides'?)`, or '' if no known word is close."""
    folded = {other.lower(): other for other in sorted(known)}
    near = difflib.get_close_matches(word.lower(), folded, n=1, cutoff=0.6)
    return f" (did you mean '{folded[near[0]]}'?)" if near else ""


def unknown(word: str, known: Iterable[str], at: Mark, rule: str, what: str) -> Iterator[Problem]:
    """The problem of an unknown word."""
    choices = sorted(set(known))
    if word not in choices:
        yield Problem(at, rule, f"there is no {what} '{word}'{suggestion(word, choices)}")
