"""Threads: the same bits for every number of them, first calls that come together, and no data race in a kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opwright_kernels import _isa, _operation
from support.calls import describe, random_call
from support.draws import FULL, rng
from support.generated import PACKAGE, run
from support.kernel_driver import build, check, isa_flags, packed, with_kernels
from support.rulings import DTYPES, OPERATIONS

pytestmark = pytest.mark.hard
USABLE = [(isa.name, dtype) for isa in _isa.usable(_isa.ISAS) for dtype in isa.dtypes or DTYPES if dtype != "bytes"]
BEST_F32 = next(pair for pair in USABLE if pair[1] == "f32")


@pytest.mark.parametrize("op", OPERATIONS)
def test_every_number_of_threads_gives_the_same_bits(op: str, isa: str) -> None:
    random = rng("thread counts", op, isa)
    for _ in range(1000 if FULL else 10):
        call = random_call(random, op)
        alone = run(call, threads=1)
        for threads in range(2, 9):
            assert run(call, threads=threads).tobytes() == alone.tobytes(), (threads, describe(call))


def raced(program: Path, isa: str, dtype: str, number: int, *flags: str) -> subprocess.CompletedProcess[str]:
    """What ThreadSanitizer says of calls on 2 to 8 threads, whose answers are right if it says nothing."""
    every = ("-O0", "-g", "-fsanitize=thread", "-pthread", "-DOPWRIGHT_THREADS", *flags, *isa_flags(isa))
    build(program, isa, dtype, "gcc", every)
    random = rng("races", dtype, isa)
    calls = with_kernels([random_call(random, op, dtype) for op in OPERATIONS for _ in range(number)], isa)
    questions = [packed(call, isa, 2 + index % 7) for index, call in enumerate(calls)]
    asked, answered = program.with_name("calls"), program.with_name("answers")
    asked.write_bytes(b"".join(question for question, _ in questions))
    environment = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1 exitcode=66"}
    command = [program, asked, answered]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1200, check=False)
    if done.returncode == 0:
        check(calls, [like for _, like in questions], answered.read_bytes())
    return done


@pytest.fixture
def best(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An instruction set that calls take for once."""
    monkeypatch.setenv("OPWRIGHT_ISA", request.param)
    _operation.forget()
    yield request.param
    _operation.forget()


@pytest.mark.parametrize(("best", "dtype"), USABLE if FULL else [BEST_F32], indirect=["best"])
def test_kernels_have_no_data_race(best: str, dtype: str, tmp_path: Path) -> None:
    done = raced(tmp_path / "driver", best, dtype, 1000 if FULL else 10)
    assert done.returncode == 0, done.stderr[:3000]


@pytest.mark.parametrize("best", ["portable"], indirect=True)
def test_the_sanitizer_sees_threads_that_do_the_same_work(best: str, tmp_path: Path) -> None:
    done = raced(tmp_path / "driver", best, "f32", 1, "-DOPWRIGHT_RACE")
    assert done.returncode == 66
    assert "WARNING: ThreadSanitizer: data race" in done.stderr


TOGETHER = """
import sys, threading
import numpy as np
import opwright_kernels as ok
from support.calls import random_call
from support.draws import rng
from support.generated import run, function
from support import rulings
from support.generated import same

sys.setswitchinterval(1e-6)
calls = [random_call(rng("together", sys.argv[1], number)) for number in range(12)]
expected = [rulings.compute(call) for call in calls]
start, wrong = threading.Barrier(8), []

def work(number):
    try:
        start.wait()
        for turn in range(3 * len(calls)):
            index = (turn + number // 2) % len(calls)
            options = {"threads": 1 + turn % 5, "specialize": (None, 1, 2)[number % 3]}
            ok.explain(calls[index].op, *calls[index].inputs, **calls[index].attributes)
            if not same(run(calls[index], **options), expected[index]):
                wrong.append(index)
    except BaseException as error:
        wrong.append(error)
        raise

threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("wrong" if wrong else "right")
"""


@pytest.mark.parametrize("seed", range(40 if FULL else 3))
def test_first_calls_of_everything_may_come_together(seed: int) -> None:
    path = os.pathsep.join([str(Path(__file__).parents[1]), str(PACKAGE.parent)])
    done = subprocess.run(
        [sys.executable, "-c", TOGETHER, str(seed)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "right"), done.stderr
