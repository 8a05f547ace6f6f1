"""How many threads a kernel runs on, and the pool that runs its parts.

In: a kernel that computes part `i` of `n`. Out: nothing; all its parts are computed when `run` returns.
The parts and what each computes are the caller's choice and never depend on this pool, so neither do the results.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from functools import cache
from queue import SimpleQueue

from ._errors import Refusal
from ._numbers import int_scalar
from ._remember import changed
from ._words import quoted

Kernel = Callable[[int, int], object]

# The table behind os.environ, as it is at any time: looking into it is many times as fast as os.environ.get.
_environment: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined]
_VARIABLE = b"OPWRIGHT_NUM_THREADS"

_chosen: int | None = None


def check_threads(argument: str, value: object) -> int:
    """`value` as a number of threads. Refusal (rule "threads") unless it is an integer >= 1."""
    if type(value) is int and 1 <= value < 2**63:
        return value
    try:
        threads = int_scalar(argument, value)
    except Refusal as refusal:
        wrong_kind, nearest = refusal.wrong_kind, refusal.nearest
        raise Refusal("threads", argument, refusal.got, "an integer >= 1", nearest, wrong_kind) from None
    if threads < 1:
        raise Refusal("threads", argument, str(threads), "an integer >= 1", nearest=1)
    return threads


def set_num_threads(n: int) -> None:
    """Run kernels on `n` threads unless a call says otherwise; wins over OPWRIGHT_NUM_THREADS.

    Refusal (rule "threads") unless `n` is an integer >= 1.
    """
    global _chosen
    _chosen = check_threads("n", n)
    changed()


def get_num_threads() -> int:
    """What `set_num_threads` chose, else OPWRIGHT_NUM_THREADS, else the number of CPUs that this process may run on.

    Refusal (rule "threads") where OPWRIGHT_NUM_THREADS is not an integer >= 1.
    """
    if _chosen is not None:
        return _chosen
    wanted = _environment.get(_VARIABLE)
    return _parse(wanted) if wanted else cpu_count()


@cache
def _parse(wanted: bytes) -> int:
    text = os.fsdecode(wanted)
    try:
        return check_threads("OPWRIGHT_NUM_THREADS", int(text))
    except ValueError:
        raise Refusal("threads", "OPWRIGHT_NUM_THREADS", quoted(text), "an integer >= 1") from None


@cache
def cpu_count() -> int:
    """The number of CPUs that this process may run on, as it was when somebody first asked in it."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run(kernel: Kernel, parts: int) -> None:
    """Call `kernel(part, parts)` once for each part in range(parts), on this thread and on those of the pool.

    The first exception of a part is raised here, when no part runs any more; parts not yet begun are then dropped.
    """
    if parts == 1:
        kernel(0, 1)
        return
    job = _Job(kernel, parts)
    _pool.help(job, parts - 1)
    job.work()
    job.wait()


class _Job:
    """One call of `run`. Whoever is free takes the next part, the caller included.

    The caller only ever waits for parts that some thread runs already: nested and simultaneous calls cannot deadlock.
    """

    def __init__(self, kernel: Kernel, parts: int) -> None:
        self.kernel: Kernel | None = kernel
        self.parts = parts
        self.todo = deque(range(parts))
        self.done: SimpleQueue[BaseException | None] = SimpleQueue()

    def take(self) -> int | None:
        try:
            return self.todo.popleft()
        except IndexError:
            return None

    def work(self) -> None:
        """Run parts until none is left. What a part raises goes to `wait`."""
        while (part := self.take()) is not None:
            assert self.kernel is not None  # a part is left, so nobody has come through wait()
            try:
                self.kernel(part, self.parts)
            except BaseException as error:
                while self.take() is not None:
                    self.done.put(None)
                self.done.put(error)
            else:
                self.done.put(None)

    def wait(self) -> None:
        """Return when every part is accounted for; raise what the first to fail raised."""
        errors = [self.done.get() for _ in range(self.parts)]
        self.kernel = None  # a copy of this job may linger in the queue; the kernel's arrays must not
        for error in errors:
            if error is not None:
                try:
                    raise error
                finally:
                    del error, errors


class _Pool:
    """Threads that help with jobs: none at first, then as many as a job asked for, up to one for each other CPU."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[_Job] = SimpleQueue()
        self.workers = 0
        self.growing = threading.Lock()

    def help(self, job: _Job, helpers: int) -> None:
        helpers = min(helpers, max((os.cpu_count() or 1) - 1, 1))
        if self.workers < helpers:
            self.grow(helpers)
        for _ in range(min(helpers, self.workers)):  # nobody would take the others out
            self.jobs.put(job)

    def grow(self, workers: int) -> None:
        with self.growing:
            while self.workers < workers:
                thread = threading.Thread(target=self.serve, name=f"opwright-{self.workers + 1}", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # no more threads to be had: those that there are do the work
                    return
                self.workers += 1

    def serve(self) -> None:
        while True:
            self.jobs.get().work()


_pool = _Pool()


def _forget_threads() -> None:
    """In a forked child, where the pool's threads do not exist."""
    global _pool
    _pool = _Pool()
    cpu_count.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
