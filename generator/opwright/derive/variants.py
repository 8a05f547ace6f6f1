"""Which kernels an operation has: dtype row x layout words x group class x ISA, as a table.

In: an operation. Out: its variants in a fixed order. The name of a kernel is
`<op>_<dtypes>_<layout words>_<group class>_<isa>`; parts that an operation does not have are left out.

Kernels of the portable instruction set are loop nests made from the semantics. Those of every other one are fast: the
engine, compiled for it, behind an entry made from the normal form.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from ..language.model import GroupClass, Op
from ..memo import memoised
from .rewrites.as_steps import as_steps
from .rules.normal_form import is_channelwise


@dataclass(frozen=True)
class Isa:
    """An instruction set: the CPU features it needs (in Linux's words), the flags of compilers, its dtype rows.

    `exception` describes where its hardware departs from the numerics of all others. One whose registers hold
    `matrices` has no kernels for groups of one channel: they would be those of the instruction set before it.
    """

    name: str
    needs: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    exception: str = ""
    matrices: bool = False

    @property
    def fast(self) -> bool:
        return bool(self.dtypes)

    def serves(self, op: Op, row: dict[str, str], group: str = "") -> bool:
        """Whether it has kernels for a dtype row and group class: fast ones are made from a normal form and add in f32.

        Kernels of steps are compiled for every one whose numerics are those of the spec.
        """
        if not self.fast:
            return True
        if op.stepped:
            return "f32" in self.dtypes
        if self.matrices and group and is_channelwise(op, group):
            return False
        return op.normal_form is not None and row["accumulate"] == "f32" and row_name(op, row) in self.dtypes


# Everything that -march=x86-64-v3 and -v4 enable.
_V3 = (
    *("cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3"),
    *("abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"),
)
_V4 = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
_V4_FLAGS = ("-march=x86-64-v4", "-mprefer-vector-width=512")
_FAST = ("f32", "bf16", "f16")
_WITHOUT_DENORMALS = "denormal inputs and sums are treated as zero"

# From the least demanding to the best; no CPU has two instruction sets that cannot be ordered.
ISAS = (
    Isa("portable"),
    Isa("neon", ("asimd",), ("-march=armv8-a",), _FAST),
    Isa("avx2", _V3, ("-march=x86-64-v3",), _FAST),
    Isa("avx512", _V4, _V4_FLAGS, _FAST),
    Isa("avx512_vnni", (*_V4, "avx512_vnni"), (*_V4_FLAGS, "-mavx512vnni"), ("bytes",)),  # products of integers
    Isa(
        "amx_int8",
        (*_V4, "avx512_vnni", "amx_tile", "amx_int8"),
        (*_V4_FLAGS, "-mavx512vnni", "-mamx-tile", "-mamx-int8"),
        ("bytes",),
        matrices=True,
    ),
    Isa(
        "avx512_bf16",
        (*_V4, "avx512_bf16"),
        (*_V4_FLAGS, "-mavx512bf16"),
        ("bf16",),
        exception=_WITHOUT_DENORMALS,
    ),
    Isa(
        "amx_bf16",
        (*_V4, "avx512_bf16", "amx_tile", "amx_bf16"),
        (*_V4_FLAGS, "-mavx512bf16", "-mamx-tile", "-mamx-bf16"),
        ("bf16",),
        exception=f"{_WITHOUT_DENORMALS}, and a process has to ask Linux for matrix registers (the package does)",
        matrices=True,
    ),
)
PORTABLE = ISAS[0]


@dataclass(frozen=True)
class Variant:
    """One kernel, identified by its specialisation."""

    op: Op
    row: dict[str, str]
    layouts: dict[str, str]
    group_class: GroupClass | None
    isa: Isa

    @property
    def dtype(self) -> str:
        """`f32`, or the type of each data tensor if they differ: `bf16_bf16_f32`."""
        return row_name(self.op, self.row)

    @property
    def words(self) -> tuple[str, ...]:
        """The layout words in the order of the attributes."""
        return tuple(self.layouts.values())

    @property
    def stem(self) -> str:
        return stem(self.op, self.dtype, self.words, self.group_class)

    @property
    def name(self) -> str:
        return f"{self.stem}_{self.isa.name}"


def stem(op: Op, dtype: str, words: tuple[str, ...], group: GroupClass | None) -> str:
    """The name of a kernel without its ISA, which fast kernels of all ISAs share."""
    parts = (op.function, dtype, *(word.lower() for word in words), group.name if group is not None else None)
    return "_".join(filter(None, parts))


def row_name(op: Op, row: dict[str, str]) -> str:
    """The part of a kernel's name that identifies a dtype row."""
    dtypes = [row[tensor.name] for tensor in op.tensors]
    return dtypes[0] if len(set(dtypes)) == 1 else "_".join(dtypes)


def layout_choices(op: Op) -> list[dict[str, str]]:
    """Every combination of words of the attributes that order axes."""
    attributes = () if op.stepped else op.layout_attributes  # kernels of steps walk any strides
    words = [[allowed.value for allowed in op.attribute(name).values or ()] for name in attributes]
    return [dict(zip(attributes, chosen)) for chosen in itertools.product(*words)]


@memoised
def expand(op: Op) -> tuple[Variant, ...]:
    """All variants of an operation, in the order of dtype row, layout, class, ISA."""
    op = as_steps(op)
    classes: tuple[GroupClass | None, ...] = op.classes or (None,)
    return tuple(
        Variant(op, row, layouts, group_class, isa)
        for row, layouts, group_class, isa in itertools.product(op.dtypes, layout_choices(op), classes, ISAS)
        if isa.serves(op, row, (group_class.name or "") if group_class else "")
    )
