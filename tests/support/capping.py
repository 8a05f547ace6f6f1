"""Caps the instruction sets of a generated package, as OPWRIGHT_ISA does for a process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

import pytest

REGISTERS = frozenset(["amx_tile", "amx_int8", "amx_bf16"])


def here(kernels: ModuleType, *isas: str) -> list[str]:
    """Those of some instruction sets that this CPU has, or that are emulated on it."""
    own = sys.modules[f"{kernels.__name__}._isa"]
    return [row.name for row in own.ISAS if row.name in isas and row.needs <= own.cpu_flags() | _emulated()]


@contextmanager
def capped_at(kernels: ModuleType, isa: str) -> Iterator[str]:
    """The name of an instruction set above which nothing is used. Skips on a CPU without it.

    Where the compiler emulates matrix registers, the package takes the CPU for one that has them.
    """
    isas = sys.modules[f"{kernels.__name__}._isa"]
    found = next(row for row in isas.ISAS if row.name == isa)
    flags = isas.cpu_flags()
    if not found.needs <= flags | _emulated():
        pytest.skip(f"this CPU lacks {isa}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPWRIGHT_ISA", isa)
        if not found.needs <= flags:
            patch.setattr(isas, "cpu_flags", lambda: flags | REGISTERS)
            engines = import_module(f"{kernels.__name__}._contraction_engines")
            patch.setattr(engines, "_engines", {})  # which are those of this CPU
        isas.allowed.cache_clear()
        yield isa
    isas.allowed.cache_clear()


def _emulated() -> frozenset[str]:
    """What the compiler emulates: see quick_compiler of spec_packages.py."""
    return REGISTERS if os.environ.get("EMULATED_AMX") else frozenset()
