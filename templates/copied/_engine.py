"""What the kernels of an instruction set are compiled from: files, flags, and what a compiler has to know.

In: a row of `ISAS`, a dtype row, and what its kernels solve for. Out: the objects of c/engine that they need.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from . import _isa
from ._units import Unit

HERE = Path(__file__).parent
INCLUDE = HERE / "include"
# -O2 with the vectoriser compiles in a third of the time of -O3 and runs as fast: geomean 1.0 over seven shapes
# (gcc 12, AMD Zen 5). Without contraction every compiler gives the same bits; errno, which no kernel reads, would keep
# a square root out of vectors.
REFERENCE_FLAGS = ("-std=c11", "-O2", "-ftree-vectorize", "-ffp-contract=off", "-fno-math-errno")
FLAGS = ("-std=gnu11", "-O2", "-ftree-vectorize", "-ffp-contract=fast")
# Either makes a compiler spill accumulators of a tile: predictive commoning gcc, the reduction of addresses in loops
# clang; either nearly halves the speed of a tile.
TUNING = ("-fno-predictive-commoning", "-mllvm -disable-lsr")
# What a compiler has to know: vectors as wide as the flags allow. Who knows these has the instructions of lanes.h.
PROBE = """#include "widths.h"
hvec narrowed(vec v) { return __builtin_convertvector((uvec)v, hvec); }
"""
WRAPPING = dict.fromkeys(("s64", "s32"), ("-fwrapv",))  # sums of integers, as SPEC.md has them
# Left out of -O2 for the sake of the first call, where they gain nothing: gcc compiles tiles in 0.8 of the time, and
# what packs and lists for them in 0.7. One thread, 450 rows of y and x, f32 and bf16: 1.0 times as fast. col2im.c (0.85
# with the second) and weights.c (0.98 without scheduling) keep all; -O1 without the others cost up to a fifth of bf16.
QUICKLY = (
    "-fno-thread-jumps -fno-schedule-insns2 -fno-tree-pre -fno-gcse -fno-tree-vrp -fno-code-hoisting -fno-ipa-cp "
    "-fno-store-merging -fno-tree-slp-vectorize"
)
BRIEFLY = "-O1 -fstrict-aliasing -finline-small-functions -fcaller-saves -fschedule-insns2 -fpeephole2"
# The files of c/engine with flags of their own, the longest to compile first: what y and x need, what w needs, and what
# the group class whose kernels have an engine of their own needs instead; contractions of steps.
FILES: dict[str, Mapping[str, tuple[str, ...]]] = {
    "data": {
        "tiles.c": (QUICKLY,),
        "channels.c": (BRIEFLY,),
        "columns.c": (BRIEFLY,),
        "col2im.c": (),
        "contraction.c": (),
        "product.c": (BRIEFLY,),
        "solve_data.c": (),
        "plain.c": (),
    },
    "weights": {
        "weights.c": (),
        "tiles.c": (QUICKLY,),
        "contraction.c": (),
        "weights_columns.c": (),
        "product.c": (BRIEFLY,),
        "solve_weights.c": (),
        "plain.c": (),
    },
    "contraction": {"contraction.c": (), "tiles.c": (QUICKLY,)},
    "bytes": {"contraction_bytes.c": (), "tiles.c": (QUICKLY,)},
    "window_bytes": {"window_bytes.c": ()},
    "channelwise_data": {"depthwise_channels.c": (), "depthwise_columns.c": (), "solve_depthwise.c": (), "plain.c": ()},
    "channelwise_weights": {
        "depthwise_weights.c": (),
        "weights_columns.c": (),
        "solve_depthwise_weights.c": (),
        "plain.c": (),
    },
}

# The engines of contractions with windows begin with a driver of their own.
FILES |= {
    f"window_{group}": {"window.c": (f"-DOPWRIGHT_SOLVES={group}",), **FILES[group]}
    for group in ("data", "weights", "channelwise_data", "channelwise_weights")
}
# The same of y and x, whose sums are stored as floats whatever the operands are; of groups with one channel on either
# side, whose weights are floats, sums are stored as floats or like the other operand.
FILES["window_wide"] = {
    file: tuning if file == "contraction.c" else (*tuning, "-DOPWRIGHT_WIDE")
    for file, tuning in FILES["window_data"].items()
}
FILES["window_taps"] = {
    file: (*tuning, "-DOPWRIGHT_WIDE_TAPS") for file, tuning in FILES["window_channelwise_data"].items()
}
FILES["window_taps_wide"] = {file: (*tuning, "-DOPWRIGHT_WIDE") for file, tuning in FILES["window_taps"].items()}


def objects(
    isa: _isa.Isa, label: str, group: str, fixed: str = "", literals: tuple[tuple[str, int], ...] = ()
) -> tuple[Unit, ...]:
    """The objects of a row of FILES; the file `fixed` gets `literals`, macros and their values."""
    return tuple(
        unit(isa, label, file, tuning, literals if file == fixed else ()) for file, tuning in FILES[group].items()
    )


@cache
def unit(
    isa: _isa.Isa, label: str, file: str, tuning: tuple[str, ...] = (), literals: tuple[tuple[str, int], ...] = ()
) -> Unit:
    """A file of c/engine, compiled once for all operations of an instruction set and dtype row."""
    folder = HERE / "c" / "engine"
    names = (f"-DOPWRIGHT_{label.upper()}", f"-DOPWRIGHT_ISA={isa.name}", *WRAPPING.get(label, ()))
    values = tuple(f"-D{macro}={value}" for macro, value in literals)
    return Unit(
        "_".join(["opwright_engine", file.removesuffix(".c"), *(["fixed"] if literals else []), label, isa.name]),
        "",
        (folder / file,),
        (INCLUDE, folder),
        (*FLAGS, *isa.flags, *names, *values),
        (*TUNING, *tuning),
        probe=PROBE,
    )
