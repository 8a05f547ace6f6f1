"""The machine: its description and its measured peaks.

In: numbers of threads. Out: figures in FLOP/s and B/s. Says nothing that tells one machine of a kind from another.
"""

from __future__ import annotations

import platform
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from opwright_kernels import _isa, _load
from opwright_kernels._compiler import find
from opwright_kernels._threads import cpu_count
from opwright_kernels._units import Unit

from .disturbed import missing, undisturbed

FOLDER = Path(__file__).with_name("c")
CDEF = """
int64_t peak_multiply_add(int64_t rounds, float *sink);
int64_t peak_dots(int64_t rounds, float *sink);
int64_t peak_read(const float *from, int64_t size, float *sink);
"""
ROUNDS = 1_000_000
READ = 2**26  # floats: well beyond any last-level cache
REPEATS = 30  # of a millisecond or two each: some are not interrupted
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
DTYPES = {"f32": "multiply_add", "f16": "multiply_add", "bf16": "dots"}


@dataclass(frozen=True)
class Length:
    """A vector length at which peaks are measured."""

    bits: int
    needs: frozenset[str]
    flags: tuple[str, ...]


LENGTHS = (
    Length(128, frozenset(), ()),
    Length(256, frozenset({"avx2", "fma"}), ("-march=x86-64-v3",)),
    Length(512, frozenset({"avx512f", "avx512bw", "avx512vl", "avx512dq"}), ("-march=x86-64-v4",)),
    Length(512, frozenset({"avx512_bf16"}), ("-march=x86-64-v4", "-mavx512bf16", "-DDOTS")),
)


def peaks(threads: int) -> dict[str, float]:
    """The best of a few attempts on some threads: `multiply_add_<bits>`, `dots_<bits>` in FLOP/s, `read` in B/s."""
    found: dict[str, float] = {}
    library = None
    for length in LENGTHS:
        if not length.needs <= _isa.cpu_flags():
            continue
        library = _library(length)
        lib, new = library.lib, library.ffi.new
        dots = "-DDOTS" in length.flags
        kernel, name = (lib.peak_dots, "dots") if dots else (lib.peak_multiply_add, "multiply_add")
        sinks = [new("float[]", 16) for _ in range(threads)]
        found[f"{name}_{length.bits}"] = _best(partial(_computing, kernel, sinks), threads)
    assert library is not None
    data = np.ones((threads, READ // threads), np.float32)  # of zeros, all pages would be mapped to one
    parts = [library.ffi.from_buffer("float[]", part) for part in data]
    sinks = [library.ffi.new("float[]", 16) for _ in range(threads)]
    found["read"] = _best(lambda at: library.lib.peak_read(parts[at], len(parts[at]), sinks[at]), threads)
    return found


def ceiling(found: dict[str, float], dtype: str) -> float:
    """The peak FLOP/s of a kernel of this dtype; bf16 without dot products is widened."""
    for kind in (DTYPES[dtype], "multiply_add"):
        figures = [figure for name, figure in found.items() if name.startswith(kind)]
        if figures:
            return max(figures)
    raise KeyError(dtype)


def described() -> dict[str, str]:
    """A description of the machine."""
    flags = _isa.cpu_flags()
    shown = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16", "asimd")
    return {
        "CPU": _model(),
        "CPUs": str(cpu_count()),
        "instructions": ", ".join(flag for flag in shown if flag in flags) or platform.machine(),
        "caches": ", ".join(_caches()),
        "system": f"{platform.system()} {platform.machine()}",
        "compiler": _compiler(),
    }


def _computing(kernel: Any, sinks: list[Any], at: int) -> int:
    flops: int = kernel(ROUNDS, sinks[at])
    return flops


def _best(work: Callable[[int], int], threads: int) -> float:
    def timed() -> float:
        started = time.perf_counter()
        total = sum(pool.map(work, range(threads)))
        return total / (time.perf_counter() - started)

    with ThreadPoolExecutor(threads) as pool:
        timed()
        return undisturbed(lambda: missing(lambda: max(timed() for _ in range(REPEATS))))


def _library(length: Length) -> Any:
    flags = ("-std=gnu11", "-O2", *length.flags, f"-DLANES={length.bits // 32}")
    kind = "dots" if "-DDOTS" in flags else "multiply_add"
    return _load.load(Unit(f"peak_{kind}_{length.bits}", CDEF, (FOLDER / "peak.c",), (FOLDER,), flags))


def _model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        lines = []
    entries = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
    fields = {name.strip(): value.strip() for name, value in entries.items()}
    family = f" (family {fields['cpu family']}, model {fields['model']})" if "cpu family" in fields else ""
    return fields.get("model name", platform.machine()) + family


def _caches() -> list[str]:
    found = []
    for index in sorted(CACHES.glob("index*")):
        level, kind, size = ((index / name).read_text("ascii").strip() for name in ("level", "type", "size"))
        if kind != "Instruction":
            found.append(f"L{level} {size}")
    return found


def _compiler() -> str:
    command = find().command
    answer = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    return answer.stdout.splitlines()[0]
