"""The process of one candidate with one number of threads. It answers requests over a connection until that closes.

Arguments: the candidate, the number of threads, a file descriptor. A request is a tuple, its first entry the name of a
method of `Worker`. An answer is ("done", value), or ("refused", why).
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import time
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from . import candidate
from .candidate import Candidate, Ready, Refused
from .disturbed import missing
from .kinds import AnyRow, AnyTensors
from .rows import Row
from .tensors import NUMPY, Array, Tensors, bits, wrong

MIN_CALLS = 1


class Worker:
    """The state of a candidate between requests: the tensors of one row, and its prepared modes."""

    def __init__(self, made: Candidate) -> None:
        self.candidate = made
        self.tensors: AnyTensors | None = None
        self.prepared: dict[str, Ready] = {}
        self.expected: tuple[tuple[str, str, str], Array] | None = None

    def versions(self) -> dict[str, str]:
        return self.candidate.versions()

    def open(self, row: AnyRow) -> list[str]:
        """Make the tensors of a row; the modes to compute it."""
        self.close()
        self.tensors = Tensors(row) if isinstance(row, Row) else row.tensors()
        return self.candidate.modes(self.tensors)

    def close(self) -> None:
        for ready in self.prepared.values():
            ready.close()
        self.tensors, self.prepared = None, {}
        gc.collect()

    def describe(self, mode: str) -> str:
        """Prepare a mode. Returns the name of its implementation, if the candidate reports one."""
        return self._ready(mode).how

    def check(self, mode: str, reference: str | None) -> tuple[float, int]:
        """The seconds of a first call, and how many cells it got wrong: none where there is no reference."""
        assert self.tensors is not None
        ready = self._ready(mode)
        self.tensors.forget()
        seconds = _seconds(ready)
        if reference is None:
            return seconds, 0
        result = ready.result()
        if np.array_equal(bits(result), self._expected(reference)):
            return seconds, 0  # nearly always; counting wrong cells takes many times as long
        return seconds, wrong(result, np.load(reference, mmap_mode="r"), self.tensors.row.result_dtype)

    def write(self, mode: str, path: str) -> None:
        """Compute, and write the result in canonical order as f32."""
        ready = self._ready(mode)
        ready.run()
        np.save(path, np.ascontiguousarray(ready.result(), np.float32))

    def time(self, mode: str, budget: float) -> tuple[list[float], float]:
        """Seconds of each of as many calls as fit into `budget` seconds, at least one, and how many CPUs were missed.

        One more comes before them, to wake threads and caches; where it fills the budget alone it is long enough for
        that not to matter, and counts.
        """
        ready = self._ready(mode)

        def calls() -> list[float]:
            found = [_seconds(ready)]
            if found[0] <= budget:
                found = []
                end = time.perf_counter() + budget
                while len(found) < MIN_CALLS or time.perf_counter() < end:
                    found.append(_seconds(ready))
            return found

        gc.disable()
        try:
            return missing(calls)
        finally:
            gc.enable()

    def _expected(self, reference: str) -> Array:
        """The bits of the exact result, rounded to the dtype of the row; its neighbours share it."""
        assert self.tensors is not None
        row = self.tensors.row
        key = (row.shape, row.solve, row.result_dtype)
        if self.expected is None or self.expected[0] != key:
            self.expected = key, bits(np.load(reference).astype(NUMPY[row.result_dtype]))
        return self.expected[1]

    def _ready(self, mode: str) -> Ready:
        assert self.tensors is not None
        if mode not in self.prepared:
            self.prepared[mode] = self.candidate.ready(self.tensors, mode)
        return self.prepared[mode]


def _seconds(ready: Ready) -> float:
    started = time.perf_counter()
    ready.run()
    return time.perf_counter() - started


def serve(name: str, threads: int, connection: Connection) -> None:
    if threads < len(os.sched_getaffinity(0)):  # before the candidate counts the CPUs
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    worker: Worker | None = None
    while True:
        try:
            method, *arguments = connection.recv()
        except EOFError:
            return
        answer: tuple[str, Any]
        try:
            if worker is None:
                worker = Worker(candidate.load(name, threads))
                gc.freeze()  # the modules of PyTorch are many objects to walk at every row
            answer = "done", getattr(worker, method)(*arguments)
        except ImportError as error:
            answer = "refused", f"{error.name} is not installed"
        except (Refused, RuntimeError, NotImplementedError, ValueError, MemoryError) as error:
            answer = "refused", (str(error).strip().splitlines() or [type(error).__name__])[0]
        connection.send(answer)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # oneDNN may end its process
    serve(sys.argv[1], int(sys.argv[2]), Connection(int(sys.argv[3])))
