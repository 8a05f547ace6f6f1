"""Runs the functions of opwright_functions_f32.h in programs made by each compiler, and measures their results.

In: a way to compile and arguments. Out: results, the distance of each from the exact one in ulp, and what a walk over all
f32 found.
"""

from __future__ import annotations

import math
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opwright.emit.steps.values import OF_ROWS
from opwright.language.dtypes import DTYPES
from opwright_kernels import _engine, _isa

from .compilers import compile_with

Array = np.ndarray[Any, Any]
SOURCE = Path(__file__).parent / "function_driver.c"
# The order in which the driver writes results; the powers follow.
UNARY = ("exp", "exp2", "log", "log1p", "tanh", "erf", "sqrt", "rsqrt", "abs", "round", "floor", "ceil", "sign")
_erf = np.vectorize(math.erf, otypes=[np.float64])
EXACT: dict[str, Any] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log1p": np.log1p, "tanh": np.tanh, "erf": _erf, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "abs": np.abs, "round": np.rint, "floor": np.floor, "ceil": np.ceil,
    "sign": lambda x: np.where(x == 0, x, np.sign(x)),
}  # fmt: skip


@dataclass(frozen=True)
class Build:
    """A compiler, the instruction set it compiles for, and what its flags add; `runner` starts the program."""

    compiler: str
    isa: str
    flags: tuple[str, ...] = ()
    runner: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "-".join(
            [self.compiler, self.isa, *(flag.removeprefix("-ffp-") for flag in self.flags if "ffp" in flag)]
        )


EMULATED = Build("aarch64-linux-gnu-gcc", "neon", ("-static",), ("qemu-aarch64",))
BUILDS = [*(Build(compiler, isa) for compiler in ("gcc", "clang") for isa in ("portable", "avx2", "avx512")), EMULATED]
# Functions may also be part of kernels in which a compiler contracts; their bits differ then.
CONTRACTED = [
    Build("gcc", "avx2", ("-ffp-contract=fast",)),
    Build("clang", "avx512", ("-ffp-contract=fast",)),
    Build(EMULATED.compiler, EMULATED.isa, ("-static", "-ffp-contract=fast"), EMULATED.runner),
]


def isa_of(build: Build) -> _isa.Isa:
    return next(isa for isa in _isa.ISAS if isa.name == build.isa)


def program(build: Build, folder: Path, *more: str, source: Path = SOURCE) -> list[str]:
    """The command of the driver, or another program, as a build compiles it; skips where the compiler, the emulator or the CPU lacks."""
    isa = isa_of(build)
    missing = frozenset() if build.runner else isa.needs - _isa.cpu_flags()
    if missing:
        pytest.skip(f"this CPU has no {', '.join(sorted(missing))}")
    if build.runner and shutil.which(build.runner[0]) is None:
        pytest.skip(f"{build.runner[0]} is not installed")
    target = folder / str(build)
    flags = (*_engine.REFERENCE_FLAGS, *isa.flags, *build.flags)
    compile_with(build.compiler, *flags, source, *more, "-o", target, "-lm")
    return [*build.runner, str(target)]


def results(command: list[str], pairs: Array) -> dict[str, Array]:
    """What each function makes of the first of each pair, and `pow` of both."""
    done = subprocess.run(command, input=pairs.tobytes(), capture_output=True, timeout=300, check=True)
    rows = np.frombuffer(done.stdout, np.float32).reshape(len(UNARY) + 1, len(pairs))
    return dict(zip((*UNARY, "pow"), rows, strict=True))


def exact(name: str, pairs: Array) -> Array:
    """The same in double."""
    first, second = pairs.T.astype(np.float64)
    with np.errstate(all="ignore"):
        return np.asarray(np.power(first, second) if name == "pow" else EXACT[name](first))


def distances(got: Array, wanted: Array) -> Array:
    """How far results are from the exact ones, in ulp of f32; Inf counts as the power of two behind the last number."""
    bounded = np.clip(wanted, -(2.0**128), 2.0**128)
    with np.errstate(all="ignore"):
        exponents = np.frexp(np.minimum(np.abs(bounded), 2.0**127))[1] - 1
        ulp = np.ldexp(1.0, np.maximum(exponents, -126) - 23)
        return np.asarray(np.abs(np.clip(got.astype(np.float64), -(2.0**128), 2.0**128) - bounded) / ulp)


def sample(worst: list[int], random: np.random.Generator) -> Array:
    """Pairs of arguments, `worst` among the first ones: single ones with any power, pairs whose power is a number of
    f32, and all pairs of special numbers."""
    single = arguments(worst, random)
    any_power = random.choice([0.5, -0.5, 1, -1, 2, 3, -3, 1e-3, 7.5, 100], single.shape)
    base = np.exp(random.uniform(-20, 20, 100_000)) * random.choice([1, 1, 1, -1], 100_000)
    power = random.uniform(-1.1, 1.1, base.shape) * 104 / np.maximum(np.abs(np.log(np.abs(base))), 1e-3)
    special = [0, 1, 2, 3, 0.5, 0.75, 1.5, 1e-45, 1e-38, 2**23 + 1, 2**24 - 1, 2**24, 1e30, 3.4e38, np.inf, np.nan]
    columns = [
        (single, any_power * random.uniform(0.9, 1.1, single.shape)),
        (base, np.where(base < 0, np.rint(power), power)),
        map(np.ravel, np.meshgrid([*special, *np.negative(special)], [*special, *np.negative(special)])),
    ]
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(np.concatenate([np.stack([*pair], 1).astype(np.float32) for pair in columns]))


def arguments(worst: list[int], random: np.random.Generator) -> Array:
    """Every exponent with edges and random mantissas, both sides of where functions reduce or change, plain numbers, and
    the `worst`, identified by their bits."""
    root = 0x3504F3  # the mantissa of sqrt(2)
    edges = [*range(4), *range(root - 2, root + 3), *range(2**22 - 2, 2**22 + 3), *range(2**23 - 4, 2**23)]
    mantissas = np.concatenate([np.tile(edges, (512, 1)), random.integers(0, 2**23, (512, 64))], 1)
    patterns = ((np.arange(512)[:, None] << 23) | mantissas).astype(np.uint32).ravel()
    n = np.arange(-160, 128)
    ends = [0.625, 3.98, 10, 2**22, 2**23, 2**24]
    turns = [n + 0.5, (n + 0.5) * np.log(2), (n + 0.5) * 17 / 32, n / 2, 2.0 ** (n - 0.5) - 1, ends]
    boundaries = np.concatenate([*turns, *map(np.negative, turns)]).astype(np.float32).view(np.uint32)
    around = (boundaries[:, None] + np.arange(-4, 5)).astype(np.uint32).ravel()
    plain = random.uniform(-20, 20, 60_000).astype(np.float32).view(np.uint32)
    return np.concatenate([patterns, around, plain, np.array(worst, np.uint32)]).view(np.float32)


@dataclass(frozen=True)
class Walk:
    """What a walk over f32 found: the worst distance in ulp and its argument's bits, wrong NaN and signs of zero, and
    the sum of all results' bits, each times the place of its argument, modulo 2^64."""

    ulp: float
    at: int
    wrong: int
    checksum: int

    def __add__(self, other: Walk) -> Walk:
        further = max(self, other, key=lambda walk: walk.ulp)
        return Walk(further.ulp, further.at, self.wrong + other.wrong, (self.checksum + other.checksum) % 2**64)


def walk(command: list[str], name: str, stride: int) -> Walk:
    """All f32, or one of `stride` batches of them, by two processes, each half of it."""
    halves = [
        subprocess.Popen(["nice", *command, name, str(a), str(b), str(stride)], stdout=subprocess.PIPE, text=True)
        for a, b in ((0, 2**31), (2**31, 2**32))
    ]
    found = []
    for half in halves:
        words = half.communicate()[0].split()
        assert half.returncode == 0, half.args
        found.append(Walk(float(words[0]), int(words[1], 16), int(words[2]), int(words[3], 16)))
    return found[0] + found[1]


# Each function of rows, in place or not, of stretches of 1, 2, 3, ... cells: what stands behind a row must stay as it is.
ROWS = """
#include <stdio.h>
#include <string.h>
#include "opwright_functions_rows.h"
#define OF(name) \\
    for (int64_t at = 0, n = 1; at < cells; at += n, n = n % 700 + 1) { \\
        const int64_t length = n < cells - at ? n : cells - at; \\
        NUMBER *const to = n % 3 ? row : other; \\
        memcpy(row, x + at, sizeof *row * (size_t)length); \\
        to[length] = 77.0f; \\
        opwright_##name##_row_@(to, row, length); \\
        if (to[length] != 77.0f) return 1; \\
        fwrite(to, sizeof *to, (size_t)length, stdout); \\
    }
static NUMBER x[1 << 20], row[1024], other[1024];
int main(void)
{
    const int64_t cells = (int64_t)fread(x, sizeof *x, 1 << 20, stdin);
    EACH
    return 0;
}
"""


def rows(dtype: str) -> str:
    """A program that writes what each function of rows makes of the numbers that it reads."""
    each = " ".join(f"OF({name})" for name in OF_ROWS)
    return ROWS.replace("@", dtype).replace("NUMBER", DTYPES[dtype].c_type).replace("EACH", each)
