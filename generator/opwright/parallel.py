"""Runs independent work on the available CPUs, in forked processes; results are in the order of the items.

In: a function and items. Out: its results, in order. The children share the parent's memory and return only
results, so the effect is the same as that of a loop.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
R = TypeVar("R")

WIDTH = 4  # bytes of a number in the queue
QUEUED = 2048  # numbers that fit into a pipe of any system before anybody reads them

# What a child has done, by number; the number of the item that it failed on, with its error and where that was.
Answer = tuple[list[tuple[int, Any]], tuple[int, Exception, str] | None]

_busy = False  # whether this process is a child, or waits for some


def each(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """`work` of every item. Results must be picklable; `work` and the items need not be, because a fork shares them.

    Runs in this process if there is one item or CPU, no fork, or another thread, which a child would lack. Raises what
    `work` raises for the first item that fails in a child, and ChildProcessError if a child ends early.
    """
    global _busy
    workers = min(len(items), os.cpu_count() or 1)
    if workers < 2 or not hasattr(os, "fork") or threading.active_count() > 1 or _busy:
        return [work(item) for item in items]
    _busy = True
    queue = _queued(len(items))
    children: list[tuple[int, int]] = []
    try:
        for _ in range(workers):
            children.append(_forked(work, items, queue))
        made = [_answer(pipe) for _, pipe in children]
    except BaseException:
        for child, _ in children:
            os.kill(child, signal.SIGTERM)
        raise
    finally:
        _busy = False
        os.close(queue)
        for child, pipe in children:
            os.close(pipe)
            os.waitpid(child, 0)
    if failures := [failure for _, failure in made if failure is not None]:
        _, error, trace = min(failures, key=lambda failure: failure[0])
        raise error from ChildProcessError(trace)
    results = {number: result for found, _ in made for number, result in found}
    return [results[number] for number in range(len(items))]


def _queued(count: int) -> int:
    """A pipe with the numbers where shares of the items begin, of which whoever has time reads the next."""
    queue, begin = os.pipe()
    share = _share(count)
    os.write(begin, b"".join(number.to_bytes(WIDTH, "little") for number in range(0, count, share)))
    os.close(begin)
    return queue


def _share(count: int) -> int:
    return -(-count // QUEUED)


def _forked(work: Callable[[T], Any], items: Sequence[T], queue: int) -> tuple[int, int]:
    """A child that works, and the pipe into which it writes its answer at the end."""
    sys.stdout.flush()
    sys.stderr.flush()
    answer, end = os.pipe()
    child = os.fork()
    if not child:
        _work(work, items, queue, end)
    os.close(end)
    return child, answer


def _work(work: Callable[[T], Any], items: Sequence[T], queue: int, answer: int) -> NoReturn:
    """Work until the queue is empty or an item fails, answer, and end without what is the parent's to end."""
    code = 1
    try:
        gc.freeze()  # shared objects do not change: the collector need not touch, and so copy, them
        data = pickle.dumps(_done(work, items, queue), pickle.HIGHEST_PROTOCOL)
        with open(answer, "wb") as pipe:
            pipe.write(data)
        code = 0
    finally:
        os._exit(code)


def _done(work: Callable[[T], Any], items: Sequence[T], queue: int) -> Answer:
    done: list[tuple[int, Any]] = []
    share = _share(len(items))
    while read := os.read(queue, WIDTH):
        begin = int.from_bytes(read, "little")
        for number in range(begin, min(begin + share, len(items))):
            try:
                done.append((number, work(items[number])))
            except Exception as error:  # whatever the work raises: the parent raises it again
                return done, (number, error, traceback.format_exc())
    return done, None


def _answer(pipe: int) -> Answer:
    try:
        with open(pipe, "rb", closefd=False) as stream:
            made: Answer = pickle.load(stream)
            return made
    except EOFError:
        raise ChildProcessError("a process that worked on a share of the items ended early") from None
