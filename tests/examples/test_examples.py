"""Every example runs, and its README lists all of them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from support import checkout
from support.compilers import STRICT, compile_with, every_compiler
from support.generated import PACKAGE

EXAMPLES = checkout.ROOT / "examples"
# Programs of one process; tests/integrations/test_torch_distributed.py runs the others.
PROGRAMS = sorted(path.name for path in EXAMPLES.glob("*.py") if "torchrun" not in path.read_text(encoding="utf-8"))


def test_the_readme_lists_every_example():
    listed = set(re.findall(r"\]\(([\w.]+)\)", (EXAMPLES / "README.md").read_text(encoding="utf-8")))
    assert listed == {path.name for path in EXAMPLES.iterdir() if path.is_file()} - {"README.md"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_runs(name: str):
    ran = checkout.run(checkout.ROOT, str(EXAMPLES / name))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip()


@every_compiler
def test_the_example_in_c_compiles_and_runs(compiler: str, tmp_path: Path):
    sources = (EXAMPLES / "convolve.c", PACKAGE / "c" / "convolution_f32.c")
    compile_with(compiler, "-std=c11", *STRICT, *sources, "-lm", "-o", tmp_path / "convolve")
    assert subprocess.run([tmp_path / "convolve"], check=True, capture_output=True, text=True).stdout == "12 16 24 28\n"
