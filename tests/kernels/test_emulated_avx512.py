"""The code of kernels for AVX-512 is right on any x86-64 CPU with AVX2, where what it uses of AVX-512 is emulated."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from opwright_kernels import _isa
from support.draws import FULL
from support.generated import PACKAGE

TESTS = Path(__file__).parents[1]
# Rows that are limited, widened and rounded, that functions and sums are made of, and that are chosen from: compiling
# takes nearly all of the time.
SOME = ("Clamp", "SoftMax", "Select")
MORE = (
    "MatMul",
    "LayerNorm",
    "TypeCast",
    "StaticTranspose",
    "MaxPool",
    "MaxPoolBackward",
    "GELU",
    "ReduceSum",
    "Concat",
)


@pytest.mark.skipif(
    platform.machine() != "x86_64" or not _isa.cpu_flags() >= {"avx2", "fma", "f16c"} or shutil.which("gcc") is None,
    reason="gcc and an x86-64 CPU with AVX2",
)
def test_kernels_of_avx512_agree_with_the_interpreter_where_it_is_emulated(tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{TESTS / "support" / "emulating_cc.py"}" "$@"\n')
    compiler.chmod(0o755)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(TESTS), str(PACKAGE.parent)]),
        "CC": str(compiler),
        "OPWRIGHT_CACHE_DIR": str(tmp_path / "cache"),
        "OPWRIGHT_ISA": "avx512",
    }
    command = [sys.executable, "-W", "ignore", "-m", "support.emulated_steps", "1", "40" if FULL else "3", *SOME]
    command += MORE if FULL else ()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.endswith("right\n")
