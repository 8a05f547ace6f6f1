"""The instruction sets that the kernels are built for, and the choice among them.

In: the CPU's feature flags and the environment variable OPWRIGHT_ISA. Out: one row of `ISAS`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Isa:
    """An instruction set: its name, the CPU flags it needs (in Linux's spelling), the compiler flags that enable it."""

    name: str
    needs: frozenset[str]
    flags: tuple[str, ...]


# From the least demanding to the best. OPWRIGHT_ISA names the last row that may be chosen.
ISAS: tuple[Isa, ...] = (Isa("portable", frozenset(), ()),)


@cache
def cpu_flags() -> frozenset[str]:
    """The CPU's feature flags; none where /proc/cpuinfo does not tell them."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() in ("flags", "Features"):  # x86, Arm
                    return frozenset(value.split())
    except OSError:
        pass
    return frozenset()


@cache
def selected() -> Isa:
    """The best instruction set that this CPU has and OPWRIGHT_ISA allows; the variable is read at the first call.

    ValueError where OPWRIGHT_ISA names no instruction set of this package.
    """
    names = [isa.name for isa in ISAS]
    cap = os.environ.get("OPWRIGHT_ISA")
    if cap and cap not in names:
        raise ValueError(f"OPWRIGHT_ISA is {cap!r}, expected one of: {', '.join(names)}")
    allowed = ISAS[: names.index(cap) + 1] if cap else ISAS
    return [isa for isa in allowed if isa.needs <= cpu_flags()][-1]
