"""Small units to compile, and processes that load them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import opwright_kernels
import pytest
from opwright_kernels import _units
from opwright_kernels._units import Unit

PACKAGES = Path(opwright_kernels.__file__).parents[1]
CDEF = "int32_t twice(int32_t x);\nint32_t thrice(int32_t x);"
has_headers = any((folder / "Python.h").is_file() for folder in _units.python_include())
modes = [pytest.param("api", marks=pytest.mark.skipif(not has_headers, reason="Python.h is missing")), "abi"]


def make_unit(folder, body="FACTOR * x", factor=2, name="demo", flags=("-O1", "-std=c11", "-Wall", "-Werror")):
    """A unit of two C files and a header under `folder`."""
    include = folder / "include"
    include.mkdir(parents=True, exist_ok=True)
    (include / "factor.h").write_text(f"#include <stdint.h>\n#define FACTOR {factor}\n")
    (folder / "twice.c").write_text(
        f'#include "factor.h"\nint32_t twice(int32_t x);\nint32_t twice(int32_t x) {{ return {body}; }}\n'
    )
    (folder / "thrice.c").write_text("#include <stdint.h>\nint32_t thrice(int32_t x) { return 3 * x; }\n")
    return Unit(name, CDEF, (folder / "twice.c", folder / "thrice.c"), (include,), flags)


def entries(cache):
    return sorted(path.name for path in cache.iterdir() if path.is_dir())


def in_child(folder, package="opwright_kernels", **environment):
    """Another process that loads the unit under `folder` and prints twice(21)."""
    program = (
        f"from pathlib import Path; from {package} import _load, _units;"
        f"f = Path({str(folder)!r});"
        f"u = _units.Unit('demo', {CDEF!r}, (f / 'twice.c', f / 'thrice.c'), (f / 'include',),"
        " ('-O1', '-std=c11', '-Wall', '-Werror'));"
        "print(_load.load(u).lib.twice(21))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(PACKAGES), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def damage_truncate(path):
    path.write_bytes(path.read_bytes()[:1000])


def damage_library(path):
    path.unlink()


def damage_hash(path):
    (path.parent / "sha256").unlink()


def damage_unloadable(path):
    """What a library for another system looks like: as it was written, but no use here."""
    path.write_bytes(b"not a library")
    (path.parent / "sha256").write_text(hashlib.sha256(b"not a library").hexdigest())


DAMAGES = [damage_truncate, damage_library, damage_hash, damage_unloadable]
