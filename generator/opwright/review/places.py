"""The calls that a search tries: legal calls of one side, and ways to change them.

In: an operation and the edits under test. Out: settings, and how the two sides differ on each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np

from ..calls.call_text import CallText
from ..language.model import Op
from ..language.source import INCONSISTENT
from .edit import Edit
from .readings import Difference, Reading, Sides

S = TypeVar("S")


class Place(ABC, Generic[S]):
    """The settings of one side's calls. `near` are calls that both sides refuse for different reasons."""

    def __init__(self, op: Op, seeds: Sequence[S], edits: Sequence[Edit]) -> None:
        self.op, self.seeds = op, seeds
        self.near: list[S] = []
        self.broken = 0
        self.failed = 0
        self.known: Reading | None = None
        self.unnamed = any(edit.rule == "input-order-changed" for edit in edits)

    @abstractmethod
    def setting(self, rng: np.random.Generator, number: int) -> S:
        """First the legal calls themselves, then changed ones."""

    @abstractmethod
    def call(self, setting: S) -> CallText | None:
        """The call of a setting; None if its sizes give no shapes or too large ones."""

    @abstractmethod
    def simpler(self, setting: S) -> Iterator[S]:
        """Simpler settings, the greatest simplification first."""

    def mended(self, setting: S) -> S:
        """The setting with sizes adjusted to the conditions, if that is known."""
        return setting

    def keep(self, setting: S, broken: int) -> None:
        """Keep a call that both sides refuse for different reasons, a near miss; fewer reasons are better."""
        if not self.near or broken < self.broken:
            self.near, self.broken = [], broken
        if broken == self.broken:
            self.near.append(setting)

    def like(self, sides: Sides, setting: S, wanted: Difference) -> S | None:
        """A setting on which the sides differ in the same way; None if there is none."""
        now = self.differ(sides, setting)
        pairs = ((now.base, wanted.base), (now.head, wanted.head))
        alike = all({*found.rules} <= {*old.rules} for found, old in pairs) or wanted.kind == "refused"
        return setting if alike and (now.kind, now.shared) == (wanted.kind, wanted.shared) else None

    def differ(self, sides: Sides, setting: S) -> Difference:
        """How the sides differ on a setting's call."""
        call = self.call(setting)
        try:
            return sides.differ(call, self.known) if call else Difference()
        except INCONSISTENT:  # counted; the witness reports how many calls could not be evaluated
            self.failed += 1
            return Difference()
