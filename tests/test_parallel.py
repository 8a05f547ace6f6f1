"""Work in forked processes has the results of a loop, and its errors."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from opwright import parallel


@pytest.fixture(autouse=True)
def three_cpus(monkeypatch: pytest.MonkeyPatch):
    """Workers whatever runs the test: it is taken for the only thread."""
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    monkeypatch.setattr(threading, "active_count", lambda: 1)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 3 * parallel.QUEUED + 1])
def test_results_come_in_the_order_of_the_items(count: int):
    assert parallel.each(lambda item: (item, "x" * (item % 100)), range(count)) == [
        (item, "x" * (item % 100)) for item in range(count)
    ]


def test_items_are_worked_on_in_other_processes_and_large_results_come_back():
    def work(item: int) -> tuple[int, bytes]:
        return os.getpid(), bytes([item]) * 2**20

    found = parallel.each(work, range(6))
    assert os.getpid() not in {process for process, _ in found}
    assert [made for _, made in found] == [bytes([item]) * 2**20 for item in range(6)]


def test_work_that_calls_it_again_stays_in_its_process():
    found = parallel.each(lambda item: {*parallel.each(lambda _: os.getpid(), range(4)), os.getpid()}, range(4))
    assert all(len(processes) == 1 for processes in found)


def test_the_error_of_the_first_item_that_fails_is_raised_and_tells_where_that_was():
    def fail(item: int) -> int:
        raise KeyError(item)

    with pytest.raises(KeyError) as raised:
        parallel.each(fail, [5, 6, 7])
    assert raised.value.args == (5,)
    assert "in fail" in str(raised.value.__cause__)


def children() -> set[str]:
    """The processes that this one has yet to wait for, of whatever test, where the system lists them."""
    lists = Path("/proc/self/task").glob("*/children")
    return {child for listed in lists for child in listed.read_text().split()}


def test_a_process_that_is_killed_is_an_error_and_leaves_none_behind():
    def die(item: int) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return item

    before = children()
    with pytest.raises(ChildProcessError, match="ended early"):
        parallel.each(die, range(4))
    assert children() <= before


def test_a_result_that_cannot_be_handed_back_is_an_error():
    with pytest.raises(ChildProcessError):
        parallel.each(lambda item: lambda: item, range(4))


def test_pipes_are_closed():
    before = len([*Path("/proc/self/fd").iterdir()]) if Path("/proc/self/fd").is_dir() else 0
    parallel.each(lambda item: item, range(9))
    after = len([*Path("/proc/self/fd").iterdir()]) if Path("/proc/self/fd").is_dir() else 0
    assert after == before
