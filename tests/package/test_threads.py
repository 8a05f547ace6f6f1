"""The number of threads, and the pool: every part runs once, whoever asks, however it is asked."""

import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter
from pathlib import Path

import numpy as np
import opwright_kernels
import pytest
from opwright_kernels import _threads
from opwright_kernels._errors import Refusal
from support.draws import FULL

PACKAGES = Path(opwright_kernels.__file__).parents[1]


@pytest.fixture(autouse=True)
def _no_choice(monkeypatch):
    monkeypatch.setattr(_threads, "_chosen", None)
    monkeypatch.delenv("OPWRIGHT_NUM_THREADS", raising=False)


def test_by_default_there_is_a_thread_for_each_cpu_of_the_process():
    assert _threads.get_num_threads() == _threads.cpu_count() >= 1


def test_the_environment_sets_the_number_and_a_call_overrides_it(monkeypatch):
    monkeypatch.setenv("OPWRIGHT_NUM_THREADS", "3")
    assert _threads.get_num_threads() == 3
    _threads.set_num_threads(np.int32(5))
    assert _threads.get_num_threads() == 5


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", "true"])
def test_a_wrong_environment_is_refused_by_name(monkeypatch, value):
    monkeypatch.setenv("OPWRIGHT_NUM_THREADS", value)
    with pytest.raises(Refusal) as caught:
        _threads.get_num_threads()
    assert (caught.value.rule, caught.value.argument) == ("threads", "OPWRIGHT_NUM_THREADS")
    assert caught.value.expected == "an integer >= 1"


@pytest.mark.parametrize(
    ("value", "wrong_kind"),
    [(0, False), (-2, False), (True, True), (np.True_, True), (2.0, True), ("2", True), (None, True)],
)
def test_a_number_of_threads_is_an_integer_of_at_least_one(value, wrong_kind):
    with pytest.raises(Refusal) as caught:
        _threads.set_num_threads(value)
    assert caught.value.rule == "threads"
    assert caught.value.wrong_kind is wrong_kind
    assert _threads._chosen is None


@pytest.mark.parametrize("parts", [1, 2, 3, 17])
def test_each_part_runs_exactly_once(parts):
    seen = []
    _threads.run(lambda part, of: seen.append((part, of)), parts)
    assert sorted(seen) == [(part, parts) for part in range(parts)]


def test_a_single_part_runs_on_the_calling_thread_and_starts_no_other(monkeypatch):
    monkeypatch.setattr(_threads, "_pool", None)
    seen = []
    _threads.run(lambda part, of: seen.append(threading.current_thread()), 1)
    assert seen == [threading.current_thread()]


def test_two_parts_run_at_the_same_time():
    both = threading.Barrier(2, timeout=10)
    _threads.run(lambda part, of: both.wait(), 2)


def test_what_a_part_raises_is_raised_and_the_pool_lives_on():
    def kernel(part, of):
        if part == 2:
            raise KeyError("part two")

    for _ in range(20):
        with pytest.raises(KeyError, match="part two"):
            _threads.run(kernel, 4)
    test_each_part_runs_exactly_once(4)


def test_no_part_runs_once_an_error_is_raised():
    running = Counter()

    def kernel(part, of):
        if part == 0:
            raise ValueError
        running["now"] += 1
        time.sleep(0.01)
        running["now"] -= 1

    for _ in range(5):
        with pytest.raises(ValueError):  # noqa: PT011
            _threads.run(kernel, 6)
        assert running["now"] == 0


def test_a_finished_run_keeps_nothing_of_its_kernel_alive():
    class Kernel:
        def __call__(self, part, of):
            time.sleep(0.001)

    kernel = Kernel()
    gone = weakref.ref(kernel)
    _threads.run(kernel, 4)
    del kernel
    deadline = time.monotonic() + 5
    while gone() is not None and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert gone() is None


def test_nested_runs_finish():
    seen = []
    _threads.run(lambda i, _: _threads.run(lambda j, _: _threads.run(lambda k, _: seen.append((i, j, k)), 3), 3), 3)
    assert sorted(seen) == [(i, j, k) for i in range(3) for j in range(3) for k in range(3)]


def test_eight_threads_may_run_kernels_at_once():
    failures = []

    def caller(number):
        for round_ in range(50):
            total = np.zeros(5, np.int64)

            def kernel(part, of, total=total):
                total[part] += number

            _threads.run(kernel, 5)
            if total.tolist() != [number] * 5:
                failures.append((number, round_, total))

    callers = [threading.Thread(target=caller, args=(number,)) for number in range(8)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(30)
    assert not any(thread.is_alive() for thread in callers)
    assert failures == []


FORK = """
import os, signal, threading
from opwright_kernels import _threads
both = threading.Barrier(2, timeout=10)
_threads.run(lambda part, of: both.wait(), 2)  # there is a pool now
child = os.fork()
if child == 0:
    signal.alarm(10)
    _threads.run(lambda part, of: both.wait(), 2)  # needs a second thread, the child's own
    os._exit(42)
_threads.run(lambda part, of: None, 4)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is missing")
def test_a_forked_child_has_a_pool_of_its_own():
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK],
        env={**os.environ, "PYTHONPATH": str(PACKAGES)},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert answer.stdout.strip() == "42"


TOGETHER = """\
import sys, threading
sys.path.insert(0, {packages!r})
import numpy as np
import opwright_kernels as ok
ok.set_num_threads(2)
x, w = np.ones((2, 24, 24, 64), np.float32), np.ones((3, 3, 64, 64), np.float32)
start, wrong = threading.Barrier(8), []
def call():
    start.wait()
    for _ in range(20):
        y = ok.convolution(x, w, strides=[1, 1], pads_begin=[0, 0], pads_end=[0, 0], dilations=[1, 1])
        if not (y == 576).all():
            wrong.append(y)
threads = [threading.Thread(target=call) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
sys.exit(bool(wrong))
"""


@pytest.mark.hard
def test_first_calls_that_come_together_share_a_team_that_outlives_them():
    script = TOGETHER.format(packages=str(PACKAGES))
    ended = [subprocess.run([sys.executable, "-c", script], check=False).returncode for _ in range(24 if FULL else 6)]
    assert ended == [0] * len(ended)


def test_where_no_thread_can_be_started_the_caller_runs_all_parts_and_leaves_nothing_behind(monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    pool, seen = _threads._Pool(), []
    monkeypatch.setattr(_threads, "_pool", pool)
    monkeypatch.setattr(threading.Thread, "start", start)
    for _ in range(3):
        _threads.run(lambda part, of: seen.append(part), 4)
    assert sorted(seen) == sorted([0, 1, 2, 3] * 3)
    assert pool.jobs.empty()
