"""Runs independent work on the available CPUs, in forked processes; results are in the order of the items.

In: a function and items. Out: its results, in order. The children share the parent's memory and return only
results, so the effect is the same as that of a loop.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_shared: tuple[Callable[[Any], Any], Sequence[Any]] | None = None


def each(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """`work` of every item. Results must be picklable; `work` and the items need not be, because a fork shares them.

    Runs in this process if there is one item or CPU, no fork, or another thread, which a child would lack.
    """
    global _shared
    workers = min(len(items), os.cpu_count() or 1)
    if workers < 2 or not hasattr(os, "fork") or threading.active_count() > 1 or _shared is not None:
        return [work(item) for item in items]
    _shared = work, items
    try:
        # Shared objects do not change: freezing keeps the children's collectors from touching, and so copying, them.
        with ProcessPoolExecutor(workers, multiprocessing.get_context("fork"), gc.freeze) as pool:
            return list(pool.map(_one, range(len(items))))
    finally:
        _shared = None


def _one(number: int) -> Any:
    assert _shared is not None
    work, items = _shared
    return work(items[number])
