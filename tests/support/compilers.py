"""The compilers that tests of C text ask: the skip of a test names the one that is missing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from .generated import PACKAGE

SOURCES = sorted((PACKAGE / "c").glob("*.c"))
ENTRIES = sorted((PACKAGE / "c" / "entries").glob("*.c"))
INCLUDE = (f"-I{PACKAGE / 'include'}", f"-I{PACKAGE / 'c' / 'engine'}")
STRICT = ("-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic")
COMPILERS = ["gcc", "clang"]
every_compiler = pytest.mark.parametrize("compiler", COMPILERS)


def engine_names(isa: str, dtype: str) -> tuple[str, ...]:
    """The flags that name what the engine and its entries are compiled for."""
    return f"-DOPWRIGHT_ISA={isa}", f"-DOPWRIGHT_{dtype.upper()}"


def compile_with(compiler: str, *arguments: str | Path) -> None:
    """Run a compiler with the package's headers in sight; fail with what it says."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    command = [compiler, *INCLUDE, *map(str, arguments)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert answer.returncode == 0, answer.stderr
