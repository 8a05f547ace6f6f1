"""Detects that another process used the CPUs during a measurement, and repeats it.

In: what is to be timed. Out: what it found, and how many CPUs it missed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

# A measurement whose threads missed more of a CPU is repeated, at most AGAIN times. If another process takes one of two
# CPUs, threads miss 1.0, and a row takes twice as long. On an idle machine, oneDNN's threads miss up to 0.3, ours and
# PyTorch's 0.01 (AMD Zen 4, 2 CPUs).
MISSED = 0.4
AGAIN = 5
PAUSE = 0.1  # seconds before a repeat


def missing(work: Callable[[], T]) -> tuple[T, float]:
    """The result of `work`, and how many CPUs it missed: 1 means that a thread waited for a CPU all the time."""
    started, before = time.perf_counter(), _waited()
    found = work()
    return found, (_waited() - before) / (time.perf_counter() - started)


def undisturbed(attempt: Callable[[], tuple[T, float]]) -> T:
    """The result of the first undisturbed attempt, or of the last one if all of them were disturbed."""
    found, missed = attempt()
    for _ in range(AGAIN):
        if missed < MISSED:
            break
        time.sleep(PAUSE)
        found, missed = attempt()
    return found


def _waited() -> float:
    """Seconds for which threads of this process were ready but had no CPU; 0 if Linux does not report them."""
    nanoseconds = 0
    for path in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(OSError):  # a thread that has ended
            nanoseconds += int(path.read_text(encoding="ascii").split()[1])
    return nanoseconds * 1e-9
