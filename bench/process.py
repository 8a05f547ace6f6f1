"""The parent of a worker process: starts it, sends requests with a time limit, and restarts it after it died."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from .candidate import Refused

LIMIT = 20.0  # seconds for any single answer


class Died(Refused):
    """The worker's process ended, or was killed after its time limit."""


class Process:
    """One candidate with one number of threads, not yet started."""

    def __init__(self, candidate: str, threads: int) -> None:
        self.candidate, self.threads = candidate, threads
        self._child: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def ask(self, method: str, *arguments: Any, limit: float = LIMIT) -> Any:
        """The worker's answer. Raises `Refused` if the candidate cannot, `Died` if it ended or took too long."""
        connection = self._started()
        try:
            connection.send((method, *arguments))
            if not connection.poll(limit):
                self.end()
                raise Died(f"stopped after {limit:g} s")
            verdict, answer = connection.recv()
        except (EOFError, OSError):
            code = self.end()
            raise Died(f"its process ended: {signal.Signals(-code).name if code < 0 else code}") from None
        if verdict == "refused":
            raise Refused(answer)
        return answer

    def end(self) -> int:
        """End the process, if there is one; its exit code."""
        child, self._child = self._child, None
        if child is None:
            return 0
        if self._connection is not None:
            self._connection.close()
        try:
            return child.wait(timeout=2)
        except subprocess.TimeoutExpired:
            child.kill()
            return child.wait()

    def _started(self) -> Connection:
        if self._child is None or self._connection is None:
            self._connection, theirs = Pipe()
            command = [sys.executable, "-m", "bench.worker", self.candidate, str(self.threads), str(theirs.fileno())]
            self._child = subprocess.Popen(
                command,
                env=_environment(self.candidate),
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            theirs.close()
        return self._connection


@contextmanager
def processes() -> Iterator[Processes]:
    """Workers that start at their first use and end with the block."""
    found = Processes()
    try:
        yield found
    finally:
        for process in found.values():
            process.end()


class Processes(dict[tuple[str, int], Process]):
    """A process for each candidate and number of threads."""

    def __missing__(self, key: tuple[str, int]) -> Process:
        made = self[key] = Process(*key)
        return made


def _environment(candidate: str) -> dict[str, str]:
    """The import paths of this process, and the best settings of the candidate."""
    ours = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    if candidate == "onednn":
        from support.onednn_peer import environment, library

        path = library()
        return {**environment(path.parent), "PYTHONPATH": ours["PYTHONPATH"]} if path else ours
    if candidate == "torch":  # it allocates its results: it may reuse the memory of the previous call
        ours |= {"MALLOC_MMAP_THRESHOLD_": str(2**32), "MALLOC_TRIM_THRESHOLD_": str(2**33)}
    return {name: value for name, value in ours.items() if name not in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
