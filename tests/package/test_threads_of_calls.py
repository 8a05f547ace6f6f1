"""How many threads a call uses, and calls from several threads and processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import opwright_kernels as ok
import pytest
from opwright_kernels import _operation, _team, _threads
from support import rulings
from support.calls import describe, random_call
from support.draws import rng
from support.generated import PACKAGE, run, same
from support.one_call import EXPECTED, LISTS, SHAPE, call

BF16, F16, F32 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16), np.dtype(np.float32)


@pytest.fixture
def _threads_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_threads, "_chosen", None)
    monkeypatch.delenv("OPWRIGHT_NUM_THREADS", raising=False)


# Threads


@pytest.fixture(params=["portable", ""], ids=["portable", "best"])
def _isa_of_the_call(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Reference kernels, then the best that this CPU has."""
    with monkeypatch.context() as patched:
        patched.setenv("OPWRIGHT_ISA", request.param)
        _operation.forget()
        yield
    _operation.forget()


@pytest.mark.usefixtures("_threads_as_they_were", "_isa_of_the_call")
def test_a_call_uses_the_threads_of_its_argument_else_of_the_program_else_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, team = [], _team.team
    monkeypatch.setattr(_threads, "run", lambda kernel, parts: (asked.append(parts), kernel(0, 1)))
    monkeypatch.setattr(_team, "team", lambda workers: (asked.append(workers), team(workers))[1])
    monkeypatch.setattr(_team, "SERIAL_TERMS", 0)
    monkeypatch.setenv("OPWRIGHT_NUM_THREADS", "3")
    results = [call()]
    ok.set_num_threads(5)
    results += [call(), call(threads=2), call(threads=np.int8(1))]
    assert asked == [3, 5, 2]
    assert ok.get_num_threads() == 5
    assert all(same(result, EXPECTED) for result in results)


@pytest.mark.usefixtures("_threads_as_they_were")
def test_a_wrong_environment_is_refused_before_anything_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPWRIGHT_NUM_THREADS", "many")
    monkeypatch.setattr(_team, "SERIAL_TERMS", 0)
    out = np.full(SHAPE, 7, F32)
    with pytest.raises(ok.SpecError) as caught:
        call(out=out)
    assert (caught.value.rule, caught.value.argument) == ("threads", "OPWRIGHT_NUM_THREADS")
    assert (out == 7).all()


def test_eight_threads_of_the_program_may_call_at_once() -> None:
    calls = [random_call(rng("at once", number)) for number in range(40)]
    expected = [rulings.compute(one) for one in calls]
    failures: list[str] = []

    def caller(number: int) -> None:
        order = np.random.default_rng(number).permutation(len(calls))
        for index in order:
            if not same(run(calls[index], threads=1 + number % 3), expected[index]):
                failures.append(describe(calls[index]))

    threads = [threading.Thread(target=caller, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert not any(thread.is_alive() for thread in threads)
    assert failures == []


def test_another_thread_works_on_while_a_kernel_runs() -> None:
    """The kernel releases the GIL: someone counts on between its start and its end."""
    src, weights = np.zeros((1, 40, 40, 64), F32), np.zeros((3, 3, 64, 64), F32)
    plain = {name: [int(name in ("strides", "dilations"))] * 2 for name in LISTS}
    ok.conv_transpose(src, weights, threads=1, **plain)
    moments: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.is_set():
            moments.append(time.perf_counter())
            time.sleep(0.0005)

    ticker = threading.Thread(target=tick)
    ticker.start()
    within = 0
    for _ in range(50):
        start = time.perf_counter()
        ok.conv_transpose(src, weights, threads=1, **plain)
        end = time.perf_counter()
        margin = (end - start) / 4
        within += sum(start + margin < moment < end - margin for moment in moments)
        if within > 3:
            break
    done.set()
    ticker.join()
    assert within > 3


FORK = """
import os, signal
import numpy as np
import opwright_kernels as ok
lists = dict(strides=[1], pads_begin=[0], pads_end=[0], dilations=[1])
src, weights = np.ones((4, 300, 8), np.float32), np.ones((3, 8, 8), np.float32)
expected = ok.conv_transpose(src, weights, threads=2, **lists)
child = os.fork()
if child == 0:
    signal.alarm(20)
    again = ok.conv_transpose(src, weights, threads=3, **lists)
    os._exit(42 if np.array_equal(again, expected) else 1)
assert np.array_equal(ok.conv_transpose(src, weights, threads=2, **lists), expected)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is missing")
def test_a_forked_child_can_call() -> None:
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK],
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert answer.stdout.strip() == "42"
