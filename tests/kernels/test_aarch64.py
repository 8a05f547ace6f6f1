"""The engine on another architecture: vectors of four lanes, compiled for aarch64 and run by an emulator."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from support.calls import random_call
from support.generated import FULL, rng
from support.kernel_driver import build, check, packed
from support.rulings import DTYPES, OPERATIONS

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
NAMED = "avx2"  # whose entries they are by name; the flags below make them what they are


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_engine_gives_what_the_rulings_give_on_aarch64(dtype: str, tmp_path: Path) -> None:
    if shutil.which(EMULATOR) is None:
        pytest.skip(f"{EMULATOR} is not installed")
    program, questions, answers = tmp_path / "driver", tmp_path / "calls", tmp_path / "answers"
    build(program, NAMED, dtype, COMPILER, ("-O1", "-static", "-march=armv8-a"))
    random = rng("aarch64", dtype)
    calls = [random_call(random, op, dtype) for op in OPERATIONS for _ in range(500 if FULL else 40)]
    pairs = [packed(call, NAMED, 1 + number % 3) for number, call in enumerate(calls)]
    questions.write_bytes(b"".join(question for question, _ in pairs))
    done = subprocess.run([EMULATOR, program, questions, answers], capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    check(calls, [like for _, like in pairs], answers.read_bytes())
