"""Tells whether somebody else had the CPUs while something was timed, and times it again then.

In: what is to be timed. Out: what it found, and how many CPUs it missed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

# What missed so much of a CPU, because somebody else had it, is repeated, so many times at the most: with both threads
# on one CPU, which miss a whole one, a row took twice as long, for seconds on end, and the peak was half. Alone on the
# machine, oneDNN's miss up to 0.3 by themselves, ours and PyTorch's 0.01.
MISSED = 0.4
AGAIN = 5
PAUSE = 0.1  # seconds, before


def missing(work: Callable[[], T]) -> tuple[T, float]:
    """What `work` found, and how many CPUs it missed: one where a thread of this process waits for it all the time."""
    started, before = time.perf_counter(), _waited()
    found = work()
    return found, (_waited() - before) / (time.perf_counter() - started)


def undisturbed(attempt: Callable[[], tuple[T, float]]) -> T:
    """What an attempt found that missed no CPU; the last one, where somebody else had the CPUs in all of them."""
    found, missed = attempt()
    for _ in range(AGAIN):
        if missed < MISSED:
            break
        time.sleep(PAUSE)
        found, missed = attempt()
    return found


def _waited() -> float:
    """Seconds for which the threads of this process have been ready to run and had no CPU; 0 where Linux tells not."""
    nanoseconds = 0
    for path in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(OSError):  # a thread that has ended
            nanoseconds += int(path.read_text(encoding="ascii").split()[1])
    return nanoseconds * 1e-9
