"""The kernels under AddressSanitizer and UndefinedBehaviorSanitizer, and on memory that is never clean by luck."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import opwright_kernels as ok
import pytest
from support.call import Call
from support.calls import random_call
from support.draws import FULL, rng
from support.generated import PACKAGE, attempt
from support.huge_calls import huge_call
from support.kernel_driver import build, check, isa_flags, packed, with_kernels
from support.rulings import DTYPES, OPERATIONS

SANITIZERS = (
    "-fsanitize=address,undefined,float-divide-by-zero,float-cast-overflow",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
    "-g1",
)

PATIENCE = 3600 if FULL else 300  # seconds; beside other work the full length takes a quarter of an hour

pytestmark = [pytest.mark.hard, pytest.mark.usefixtures("isa")]


def sanitized(*command: Path) -> subprocess.CompletedProcess[str]:
    flags = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
    environment = {**os.environ, **flags}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)


def drive(program: Path, isa: str, calls: list[Call]) -> None:
    """Run calls through a driver, and compare what it says with the rulings."""
    questions, answers = program.with_name("calls"), program.with_name("answers")
    calls = with_kernels(calls, isa)
    pairs = [packed(call, isa, 1 + number % 3) for number, call in enumerate(calls)]
    questions.write_bytes(b"".join(question for question, _ in pairs))
    done = sanitized(program, questions, answers)
    assert done.returncode == 0, done.stderr[:3000]
    check(calls, [like for _, like in pairs], answers.read_bytes())


def see_an_access_beside_an_array(program: Path, isa: str) -> None:
    """Without which the silence of the sanitizers would say nothing."""
    call = Call(
        "Convolution",
        (np.ones((1, 8, 1), np.float32), np.ones((3, 1, 1), np.float32)),
        {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]},
    )
    question, _ = packed(call, isa, 1)
    # One float fewer than the sizes say.
    short = question[:24] + struct.pack("q", 28) + question[32:-16] + question[-12:]
    program.with_name("calls").write_bytes(short)
    done = sanitized(program, program.with_name("calls"), program.with_name("answers"))
    assert done.returncode not in (0, 3)
    assert re.search("AddressSanitizer.*28-byte region", done.stderr, re.DOTALL)


@pytest.mark.short(portable=("bf16",), avx2=("f32",), avx512=())
@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_touch_only_their_arrays_write_every_cell_and_overflow_nowhere(
    dtype: str, isa: str, tmp_path: Path
) -> None:
    program = tmp_path / "driver"
    build(program, isa, dtype, "gcc", ("-O0", *SANITIZERS, *isa_flags(isa)))
    random = rng("sanitizers", dtype)
    calls = [random_call(random, op, dtype) for op in OPERATIONS for _ in range(3000 if FULL else 100)]
    if dtype == "f32":
        huge = [huge_call(random, op) for op in OPERATIONS for _ in range(3000 if FULL else 150)]
        legal = [call for call in huge if not isinstance(attempt(call), ok.SpecError)]
        assert len(legal) > 300
        calls += legal
    drive(program, isa, calls)
    if dtype == "f32":
        see_an_access_beside_an_array(program, isa)


SWEEP = f"""
from support import rulings
from support.calls import random_call
from support.draws import rng
from support.generated import run, same
for number in range({600 if FULL else 200}):
    call = random_call(rng("perturbed", number))
    assert same(run(call), rulings.compute(call)), call
print("done")
"""


def test_kernels_give_the_same_on_memory_that_is_filled_with_rubbish() -> None:
    tests = Path(__file__).parents[1]
    path = os.pathsep.join([str(tests), str(PACKAGE.parent)])
    done = subprocess.run(
        [sys.executable, "-c", SWEEP],
        env={**os.environ, "PYTHONPATH": path, "MALLOC_PERTURB_": "165"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr
