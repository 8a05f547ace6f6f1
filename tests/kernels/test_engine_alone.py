"""The engine of contractions without Python: a C program that multiplies by it, also where vectors have 16 bytes."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import opwright_kernels as ok
import pytest
from support.compilers import compile_with, engine_names
from support.draws import FULL

ENGINE = Path(ok.__file__).parent / "c" / "engine"
PROGRAM = Path(__file__).parents[1] / "support" / "contraction_driver.c"


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("machine", ["here", "aarch64"])
def test_products_agree_with_plain_loops(machine: str, dtype: str, tmp_path: Path) -> None:
    """The compiler's own choice of instructions: vectors of 16 bytes on x86-64, too."""
    here = machine in ("here", platform.machine())
    compiler, emulator = ("cc", []) if here else ("aarch64-linux-gnu-gcc", ["qemu-aarch64"])
    if not here and shutil.which(*emulator) is None:
        pytest.skip(f"{emulator[0]} is not installed")
    sources = [PROGRAM, ENGINE / "contraction.c", ENGINE / "tiles.c"]
    program = tmp_path / "products"
    flags = ("-std=gnu11", "-O1", "-static", *engine_names("any", dtype))
    compile_with(compiler, *flags, *sources, "-lm", "-o", program)
    count = 3000 if FULL else 300
    done = subprocess.run([*emulator, program, str(count)], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (0, f"{count} agree\n")
