"""What the benchmark asks of a candidate, whoever it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np

CANDIDATES = {"ours": "bench.ours", "onednn": "bench.onednn", "torch": "bench.pytorch"}
"""Who is timed, and where the class `Candidate` of each lives."""
MODULES = {**CANDIDATES, "ours_f32": "bench.ours", "copy": "bench.copying", "reference": "bench.reference"}
"""With those who stand beside them: our own f32 in rows of f16, a copy of as many bytes, the exact results."""


class Refused(Exception):  # noqa: N818 - an answer, not an error of this program
    """The candidate does not do this; the text says in its own words why."""


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
        """What to say about it."""

    def ways(self, tensors: Any) -> list[str]:
        """The ways to have this computed; the best of them counts."""

    def ready(self, tensors: Any, way: str) -> Ready:
        """Prepare one way. `Refused` where the library does not offer it."""


def load(name: str, threads: int) -> Candidate:
    made: Candidate = import_module(MODULES[name]).Candidate(threads)
    return made
