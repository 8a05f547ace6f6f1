"""Kernels between pages that nobody may touch, on poisoned memory, on 1 to 8 threads with equal bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from opwright_kernels import _isa
from support.draws import FULL
from support.generated import PACKAGE

pytestmark = pytest.mark.hard
TESTS = Path(__file__).parents[1]


def guarded(*arguments: object, isa: str = "") -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(TESTS), str(PACKAGE.parent)])
    environment = {**os.environ, "PYTHONPATH": path, **({"OPWRIGHT_ISA": isa} if isa else {})}
    command = [sys.executable, "-m", "support.guarded", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=3600, check=False)


@pytest.mark.parametrize("side", ["low", "high"])
def test_an_access_beside_a_guarded_array_ends_the_process(side: str) -> None:
    assert guarded("touch", side).returncode < 0


@pytest.mark.parametrize("isa", ["", "portable"])
def test_kernels_touch_nothing_beside_their_arrays_and_scratch_on_any_number_of_threads(isa: str) -> None:
    for seed in range(20 if FULL else 1):
        done = guarded(seed, 2000 if FULL else 50, isa=isa)
        assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("isa", [isa.name for isa in _isa.ISAS if isa.needs <= _isa.cpu_flags()] if FULL else ["best"])
def test_kernels_of_steps_touch_nothing_beside_their_arrays_and_do_nothing_undefined(isa: str) -> None:
    best = [found.name for found in _isa.ISAS if found.needs <= _isa.cpu_flags() and found.dtypes != ("bf16",)][-1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(PACKAGE.parent)])}
    arguments = map(str, (1, 200 if FULL else 5, 60 if FULL else 6, best if isa == "best" else isa))
    command = [sys.executable, "-W", "ignore", "-m", "support.guarded_steps", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.endswith("right\n")
