"""The interface of a candidate of the benchmark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np

CANDIDATES = {"ours": "bench.ours", "onednn": "bench.onednn", "torch": "bench.pytorch"}
"""The candidates, and the module of each one's class `Candidate`."""
MODULES = {**CANDIDATES, "ours_f32": "bench.ours", "copy": "bench.copying", "reference": "bench.reference"}
"""Further candidates: our own f32 in rows of f16, a copy of as many bytes, the exact results."""


class Refused(Exception):  # noqa: N818 - an answer, not an error of this program
    """The candidate does not support this; the text is its own reason."""


@dataclass(frozen=True)
class Ready:
    """One call, prepared: `run` computes all of it, from plain tensors to plain tensors.

    `result`, called after `run`, is what came out, in canonical order. `how` names the implementation, if it tells.
    """

    run: Callable[[], object]
    result: Callable[[], np.ndarray[Any, Any]]
    how: str = ""
    close: Callable[[], object] = bool


class Candidate(Protocol):
    """A library in a process of its own. It is made with the number of threads that it may use."""

    def versions(self) -> dict[str, str]:
        """Its versions and settings, for the report."""

    def modes(self, tensors: Any) -> list[str]:
        """The modes in which it can compute this; the fastest one counts."""

    def ready(self, tensors: Any, mode: str) -> Ready:
        """Prepare one mode. Raises `Refused` if the library does not support it."""


def load(name: str, threads: int) -> Candidate:
    made: Candidate = import_module(MODULES[name]).Candidate(threads)
    return made
