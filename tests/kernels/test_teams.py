"""The threads that fast kernels share: many callers, forks, other libraries' threads, and the pool by itself."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import opwright_kernels as ok
import pytest
from support.compilers import compile_with
from support.generated import PACKAGE

pytestmark = pytest.mark.hard

PLAIN = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
SETUP = """
import os
import numpy as np
import opwright_kernels as ok

rng = np.random.default_rng(3)
src = rng.standard_normal((2, 20, 20, 24)).astype(np.float32)
weights = rng.standard_normal((3, 3, 24, 40)).astype(np.float32)
lists = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}

def run(threads):
    dst = ok.convolution(src, weights, **lists, threads=threads)
    found = ok.convolution_backward_weights(src, dst, weights_shape=list(weights.shape), **lists, threads=threads)
    back = ok.convolution_backward_data(dst, weights, dst_shape=list(src.shape), **lists, threads=threads)
    return dst.tobytes() + found.tobytes() + back.tobytes()
"""


def passes(program: str) -> None:
    path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-c", SETUP + program]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["done"]), done.stderr[-3000:]


def test_callers_from_many_threads_get_the_bits_that_one_gets() -> None:
    rng = np.random.default_rng(1)
    calls = [
        (
            rng.standard_normal((1, size, size, 24)).astype(np.float32),
            rng.standard_normal((3, 3, 24, 33)).astype(np.float32),
        )
        for size in range(5, 29)
    ]

    def run(number: int) -> bytes:
        src, weights = calls[number % len(calls)]
        return ok.convolution(src, weights, **PLAIN, threads=1 + number % 4).tobytes()

    alone = [run(number) for number in range(len(calls))]
    with ThreadPoolExecutor(16) as callers:
        for number, found in enumerate(callers.map(run, range(400))):
            assert found == alone[number % len(calls)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is missing")
def test_a_child_of_a_process_that_has_used_its_team_computes() -> None:
    passes(
        """
expected = run(4)
for _ in range(5):
    child = os.fork()
    if child == 0:
        os._exit(0 if run(4) == expected and run(1) == expected else 1)
    assert os.waitpid(child, 0)[1] == 0
assert run(4) == expected
print("done")
"""
    )


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="threads cannot be bound to CPUs here")
def test_a_thread_that_was_kept_off_a_cpu_while_it_woke_may_run_there_again() -> None:
    passes(
        """
import time

expected = run(4)
for _ in range(10):
    time.sleep(0.02)
    assert run(4) == expected
time.sleep(0.1)
threads = [int(name) for name in os.listdir("/proc/self/task")]
assert len(threads) > 1 or len(os.sched_getaffinity(0)) == 1
assert {frozenset(os.sched_getaffinity(thread)) for thread in threads} == {frozenset(os.sched_getaffinity(0))}
print("done")
"""
    )


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_teams_work_beside_the_threads_of_pytorch() -> None:
    passes(
        """
import threading
import torch

torch.set_num_threads(2)
expected, failed = run(2), []

def compute():
    for _ in range(20):
        if run(2) != expected:
            failed.append("differs")

def multiply():
    a = torch.ones(300, 300)
    for _ in range(50):
        a = (a @ a).clamp(max=1)

threads = [threading.Thread(target=target) for target in (compute, compute, multiply, multiply)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not failed
print("done")
"""
    )


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize(
    "imported", ["import opwright_kernels.torch", "import torch; import opwright_kernels._remember as r; r.forget()"]
)
def test_the_threads_of_pytorch_do_the_work_where_it_is_imported_and_a_child_has_its_own(imported: str) -> None:
    passes(
        """
expected = run(1), run(2), run(3)
IMPORTED
import torch
from opwright_kernels import _team

if torch.__config__.parallel_info().count("OpenMP") > 1:
    assert _team._borrowed()
for torch_threads in (1, 2, 4):
    torch.set_num_threads(torch_threads)
    assert (run(1), run(2), run(3)) == expected
child = os.fork()
if child == 0:
    os._exit(0 if (run(1), run(2), run(3)) == expected else 1)
assert os.waitpid(child, 0)[1] == 0
print("done")
""".replace("IMPORTED", imported)
    )


CALLERS = """
#define _GNU_SOURCE
#include <opwright_pool.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

static void work(void *context, int64_t worker)
{
    int64_t *counts = context;
    ++counts[worker];
}

static _Atomic int wrong;

static void *call(void *unused)
{
    (void)unused;
    for (int round = 0; round < 300; ++round) {
        int64_t counts[9] = {0};
        opwright_team_run(work, counts, 1 + round % 9);
        for (int i = 0; i < 9; ++i) {
            wrong += counts[i] != (i < 1 + round % 9);
        }
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; ++i) {
        pthread_create(&threads[i], NULL, call, NULL);
    }
    for (int i = 0; i < 4; ++i) {
        pthread_join(threads[i], NULL);
    }
    return wrong != 0;
}
"""


def test_the_pool_has_no_data_race(tmp_path: Path) -> None:
    source, program = tmp_path / "callers.c", tmp_path / "callers"
    source.write_text(CALLERS)
    team = PACKAGE / "c" / "engine" / "team.c"
    compile_with("clang", "-std=c11", "-O1", "-g", "-fsanitize=thread", "-pthread", source, team, "-o", program)
    done = subprocess.run([program], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr[:3000]
