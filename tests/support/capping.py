"""Caps the instruction sets of a generated package, as OPWRIGHT_ISA does for a process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest


def here(kernels: ModuleType, *isas: str) -> list[str]:
    """Those of some instruction sets that this CPU has."""
    own = sys.modules[f"{kernels.__name__}._isa"]
    return [row.name for row in own.ISAS if row.name in isas and row.needs <= own.cpu_flags()]


@contextmanager
def capped_at(kernels: ModuleType, isa: str) -> Iterator[str]:
    """The name of an instruction set above which nothing is used. Skips on a CPU without it."""
    isas = sys.modules[f"{kernels.__name__}._isa"]
    found = next(row for row in isas.ISAS if row.name == isa)
    if not found.needs <= isas.cpu_flags():
        pytest.skip(f"this CPU lacks {isa}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPWRIGHT_ISA", isa)
        isas.allowed.cache_clear()
        yield isa
    isas.allowed.cache_clear()
