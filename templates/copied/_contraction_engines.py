"""The engines that compute contractions for kernels of steps: which there are, for which dtypes, and their libraries.

In: dtypes and the CPU. Out: an `Engine`, or None where there is none; where one does not compile, a warning says so.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from . import _engine, _isa, _load, _team
from ._dtypes import DTYPES
from ._errors import BuildError
from ._units import Unit

LABELS = {DTYPES["float32"]: "f32", DTYPES["bfloat16"]: "bf16", DTYPES["float16"]: "f16"}
WIDEST = DTYPES["float32"]  # which holds the others
OF_DIFFERENCES = ("squares", "distances")  # engines that sum these of pairs of elements in place of products
F64 = "f64"  # the engine of products that adds up in f64
S64, S32 = "s64", "s32"  # those of integers, which add up in s64; the second one of operands that 32 bits hold
OWN = {  # what engines read
    **{name: dtype for dtype, name in LABELS.items()},
    **dict.fromkeys(OF_DIFFERENCES, WIDEST),
    F64: DTYPES["float64"],
    **dict.fromkeys((S64, S32), DTYPES["int64"]),
}
PRODUCTS = "contraction"  # the engine of products; others are of windows
TAPS = ("window_taps", "window_taps_wide")  # whose weights are floats
WIDE = ("window_wide", *TAPS)  # of no use where operands are floats
CHANNELWISE = "window_channelwise_data"  # of y and x
WINDOWS = ("window_data", "window_weights", CHANNELWISE, "window_channelwise_weights", *WIDE)  # of floats
BYTE_WINDOWS = "window_bytes"
FUNCTIONS = {PRODUCTS: "contract", **dict.fromkeys((*WINDOWS, BYTE_WINDOWS), "window")}
BYTES = "bytes"  # the engine of signed and unsigned bytes, whose sums are s32
WITHOUT_WINDOWS = (BYTES, F64, S64, S32)  # engines that have none of WINDOWS
BYTE_TYPES = {DTYPES["int8"]: 1, DTYPES["uint8"]: 0}  # whether they are signed
BYTE_SUMS = {DTYPES["int32"]: 0, WIDEST: 1, DTYPES["int64"]: 2, DTYPES["float64"]: 3}  # how its sums are stored
MAX_BYTE_SUM = 2**31 - 1
MAX_ZERO = 2**14  # of zero points, with which no correction of a sum leaves s32
WIDENED = {
    DTYPES["bfloat16"]: 2,
    DTYPES["float16"]: 3,
    DTYPES["int8"]: 4,
    DTYPES["uint8"]: 5,
    WIDEST: 6,
    DTYPES["bool_"]: 5,
    DTYPES["int32"]: 7,
    DTYPES["int64"]: 8,
    DTYPES["uint64"]: 8,  # whose products have the same bits
}  # the engine's flag to widen what it copies
HALF = DTYPES["bfloat16"]
EXACT = {DTYPES[name] for name in ("int8", "uint8", "bool_")}  # which it holds
INTEGERS = {DTYPES[name] for name in ("int8", "uint8", "bool_", "int32", "int64")}
CDEF = """
typedef void opwright_finish(const void *context, int64_t cell, int64_t cells, const void *sums, int64_t worker);
typedef void opwright_product_function(const void *problem, const void *left, const void *right, void *out,
    opwright_finish *finish, const void *context, const opwright_team *team, void *scratch);
typedef void opwright_pack_function(const void *problem, const void *left, const void *right, void *packed,
    const opwright_team *team, void *scratch);
typedef void opwright_block_function(const void *problem, const void *left, const void *right, const void *packed,
    void *out, opwright_finish *finish, const void *context, int64_t begin, int64_t end, void *scratch);
typedef struct opwright_product {
    opwright_product_function *run;
    const void *problem;
    int64_t destination;
    int64_t shared, task;
    opwright_pack_function *pack;
    opwright_block_function *block;
    int64_t packed;
} opwright_product;
typedef struct opwright_blocks {
    int64_t count, tasks;
    int64_t packed, bytes;
    int64_t scratch;
} opwright_blocks;
"""
ENGINE_CDEF = """
typedef struct opwright_copied {
    int64_t wanted;
    int64_t axes;
    int64_t extent[16], step[16];
    int64_t first;
    int64_t bounded, begin[16], end[16], fill;
} opwright_copied;
typedef struct opwright_contraction {
    int64_t rows, columns, terms;
    int64_t left_row, left_term, right_term, right_column, out_row, out_column;
    int64_t elements, finished;
    int64_t batches;
    int64_t batch[8], left_batch[8], right_batch[8], out_batch[8];
    int64_t left_signed, right_signed, sums;
    int64_t left_zero, right_zero, swapped;
    int64_t split;
    int64_t row_axes, row_extent[8], row_step[8], term_axes, term_extent[8], term_step[8];
    opwright_copied left, right;
} opwright_contraction;
typedef struct opwright_problem {
    int64_t N, G, A, B;
    int64_t small[3], big[3], taps[3], stride[3], dilation[3], pad[3];
    int64_t small_n, small_c, small_x[3], big_n, big_c, big_x[3], w_g, w_a, w_b, w_k[3];
} opwright_problem;
typedef struct opwright_window {
    opwright_problem problem;
    int64_t solve, exchanged;
    int64_t batches;
    int64_t batch[8], left_batch[8], right_batch[8], out_batch[8];
    int64_t finished, cut, each, total, inner, sums_bytes;
    int64_t lines, line[8], line_sums[8], line_cell[8];
    opwright_copied left, right;
} opwright_window;
"""


# Functions of blocks of rows: c/engine/contraction_blocks.h.
BLOCKS = """
void opwright_contract_pack_{0}(const void *problem, const void *left, const void *right, void *packed,
    const opwright_team *team, void *scratch);
void opwright_contract_block_{0}(const void *problem, const void *left, const void *right, const void *packed,
    void *out, opwright_finish *finish, const void *context, int64_t begin, int64_t end, void *scratch);
int64_t opwright_contract_rows_{0}(const void *problem, int64_t tasks, const int64_t *cells);
int64_t opwright_contract_packed_{0}(const void *problem, int64_t all);
int64_t opwright_contract_copied_{0}(const void *problem);
int64_t opwright_contract_block_scratch_{0}(const void *problem, int64_t rows);
"""


# Whether tasks of windows can finish sums: c/engine/window.c.
FINISHES = "int64_t opwright_window_finishes_{0}(const void *problem);\n"


@dataclass(frozen=True)
class Engine:
    """The engine of a dtype, for the best instruction set that can be used. `name` is that of its functions."""

    isa: _isa.Isa
    library: _load.Library
    function: Any
    scratch: Any
    name: str
    blocks: bool  # whether it computes blocks of rows

    def finishes(self, problem: Any) -> bool:
        """Whether tasks can finish the sums of a window of this engine."""
        return bool(getattr(self.library.lib, f"opwright_window_finishes_{self.name}")(problem))

    def of_blocks(self, what: str) -> Any:
        """A function of blocks of rows, as C has it."""
        return getattr(self.library.lib, f"opwright_contract_{what}_{self.name}")

    def address(self, what: str) -> int:
        own = self.library.ffi
        found = own.addressof(self.library.lib, f"opwright_contract_{what}_{self.name}")
        return int(own.cast("uintptr_t", found))


def computes_blocks(label: str, group: str) -> bool:
    return group == PRODUCTS and label != BYTES


def isas(label: str, group: str = PRODUCTS) -> tuple[_isa.Isa, ...]:
    """The instruction sets that have an engine; of bytes, f64 and differences, all which have one of floats.

    Products by floats are those of floats: no other instructions multiply, or take denormals for zero.
    """
    floats = label in (*WITHOUT_WINDOWS, *OF_DIFFERENCES) or group in TAPS
    own = (isa for isa in _isa.ISAS if label in isa.dtypes or floats)
    own = (isa for isa in own if not (group == BYTE_WINDOWS and isa.matrices))  # whose engine gathers windows
    return tuple(isa for isa in own if "f32" in isa.dtypes or (label in isa.dtypes and group not in TAPS))


@cache
def unit(isa: _isa.Isa, label: str, group: str = PRODUCTS) -> Unit:
    """The library of the engine; `group` names its files, see _engine.FILES."""
    driver, *needs = _engine.objects(isa, label, BYTES if (label, group) == (BYTES, PRODUCTS) else group)
    name = f"{label}_{isa.name}"
    function = FUNCTIONS[group]
    functions = (
        f"opwright_product_function opwright_{function}_{name};\n"
        f"int64_t opwright_{function}_scratch_{name}(const void *problem, int64_t workers);\n"
    )
    functions += BLOCKS.format(name) if computes_blocks(label, group) else ""
    functions += FINISHES.format(name) if group in WINDOWS else ""
    return replace(
        driver,
        name=f"opwright_{group}_{name}",
        cdef=_team.CDEF + CDEF + ENGINE_CDEF + functions,
        needs=tuple(needs),
    )


_engines: dict[tuple[str, str, tuple[_isa.Isa, ...]], Engine | None] = {}


def engine(label: str, group: str = PRODUCTS) -> Engine | None:
    """The engine of a dtype, compiled at first use; None where there is none for this CPU or this compiler."""
    key = (label, group, _isa.allowed())
    if key not in _engines:
        _engines[key] = _loaded(label, group)
    return _engines[key]


def label_of(dtypes: set[np.dtype[Any]], accumulate: np.dtype[Any], term: str = "") -> str:
    """The dtype in which the engine takes operands: their own, or the widest of several; '' where there is none.

    Bytes beside bf16 are bf16: 256x1024x512 by s8 takes 0.47 of the time in f32 (AMD Zen 4, gcc 12.2).
    Sums of another `term` than products have an engine of its name, which takes the widest.
    """
    if not term and dtypes <= BYTE_TYPES.keys() and accumulate in BYTE_SUMS:
        return BYTES
    if accumulate == OWN[S64] and not term and dtypes <= INTEGERS | {DTYPES["uint64"]}:
        return S32 if all(dtype.itemsize < accumulate.itemsize for dtype in dtypes) else S64
    if accumulate == OWN[F64] and not term and dtypes <= LABELS.keys() | INTEGERS | {OWN[F64]}:
        return F64
    if accumulate != WIDEST or not dtypes <= LABELS.keys() | INTEGERS:
        return ""
    if term:
        return term
    kinds = dtypes - EXACT if HALF in dtypes else dtypes
    return LABELS.get(next(iter(kinds)), LABELS[WIDEST]) if len(kinds) == 1 else LABELS[WIDEST]


def splits(dtypes: set[np.dtype[Any]], label: str) -> bool:
    """Whether matrix registers of bf16 compute products by floats, each as a sum of several: c/engine/split.h.

    Exponentials of 512x256 bf16 by 256x256 take 0.42 of the time in f32 (Xeon with AMX, gcc 12.2).
    """
    if label != LABELS[WIDEST] or WIDEST not in dtypes or not dtypes & {HALF, *EXACT} or len(dtypes) != 2:
        return False
    isa = best(LABELS[HALF])
    return isa is not None and isa.matrices


def best(label: str, group: str = PRODUCTS) -> _isa.Isa | None:
    """The best instruction set that has an engine of a dtype which can be had here."""
    return next((isa for isa in _isa.usable(isas(label, group)) if not _load.fit(unit(isa, label, group))), None)


def _loaded(label: str, group: str) -> Engine | None:
    isa = best(label, group)
    if isa is None:
        return None
    try:
        library = _load.load(unit(isa, label, group))
    except BuildError as error:
        warnings.warn(
            f"the engine {group} of {label} for {isa.name} cannot be compiled, and loops, which are much slower, "
            f"compute what it would: {error}",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    name = f"{FUNCTIONS[group]}_{{}}{label}_{isa.name}"
    function = library.ffi.addressof(library.lib, f"opwright_{name.format('')}")
    scratch = getattr(library.lib, f"opwright_{name.format('scratch_')}")
    return Engine(isa, library, function, scratch, f"{label}_{isa.name}", computes_blocks(label, group))
