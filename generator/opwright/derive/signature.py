"""Kernels as callers see them: names, parameters and files.

In: an operation, or a variant of it. Out: a `Signature`. Header, entries, the package's declarations for cffi, its list
of kernels, the manifest and the names that a spec may not take are all printed from here.

The name itself is that of the variant (variants.py).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from ..language.dtypes import DTYPES
from ..language.model import GroupClass, Op
from ..memo import memoised
from .rules.normal_form import is_channelwise
from .variants import Variant, expand, layout_choices, row_name, stem


@dataclass(frozen=True)
class Parameter:
    """A parameter of a C function; `mark` is the text between its type and its name."""

    name: str
    c_type: str
    mark: str = ""
    constant: bool = False


@dataclass(frozen=True)
class Prototype:
    """A type of C functions: the result and the parameters, tensors first."""

    type_name: str
    tensors: tuple[Parameter, ...]
    rest: tuple[Parameter, ...]
    result: str = "void"


@dataclass(frozen=True)
class Signature:
    """One kernel: its name, its function type, and the file of the package that defines it."""

    name: str
    prototype: Prototype
    path: str


@dataclass(frozen=True)
class Stem:
    """The part that kernels of all ISAs share: a name, and their specialisation.

    `part` names the library of the fast ones; it is empty for the one that most of them share.
    """

    name: str
    dtype: str
    words: tuple[str, ...]
    group: str
    part: str


# The further parameters of a portable kernel, of a fast one, and of its two companions.
PART = (Parameter("part", "int64_t"), Parameter("parts", "int64_t"))
TEAM = (Parameter("team", "opwright_team", "*", constant=True), Parameter("scratch", "void", "*"))
WORKERS = (Parameter("workers", "int64_t"),)
VALUES = (Parameter("values", "int64_t", "*"),)
SIZES = "sizes"
# The parameter names besides tensors of a portable kernel, and of a fast one.
PORTABLE_NAMES = frozenset({SIZES, *(parameter.name for parameter in PART)})
FAST_NAMES = frozenset({SIZES, *(parameter.name for parameter in TEAM)})


def header(op: Op) -> str:
    """The header that declares an operation's kernels, as C files include it."""
    return f"opwright/{op.function}.h"


def header_path(op: Op) -> str:
    """Its path in the package."""
    return f"include/{header(op)}"


def sizes_type(op: Op) -> str:
    return f"opwright_{op.function}_sizes"


def _sizes(op: Op) -> Parameter:
    return Parameter(SIZES, sizes_type(op), "*", constant=True)


def _tensors(op: Op, row: dict[str, str]) -> tuple[Parameter, ...]:
    """Data inputs, then the output."""
    return tuple(
        Parameter(t.name, DTYPES[row[t.name]].c_type, "*restrict ", constant=t.name != op.output.name)
        for t in op.tensors
    )


def prototype(op: Op, row: dict[str, str], fast: bool) -> Prototype:
    """The parameters of the portable or the fast kernels of a dtype row."""
    name = f"opwright_{op.function}_{row_name(op, row)}{'' if fast else '_part'}"
    return Prototype(name, _tensors(op, row), (_sizes(op), *(TEAM if fast else PART)))


@dataclass(frozen=True)
class RowTypes:
    """The function types of a dtype row: of its portable kernels, and of its fast ones if it has some."""

    dtype: str
    portable: Prototype
    fast: Prototype | None


def row_types(op: Op, row: dict[str, str], fast: bool) -> RowTypes:
    made = prototype(op, row, fast=True) if fast else None
    return RowTypes(row_name(op, row), prototype(op, row, fast=False), made)


def scratch(op: Op) -> Prototype:
    """The parameters of `<kernel>_scratch` of a fast kernel: it returns the bytes for a number of workers."""
    return Prototype(f"opwright_{op.function}_scratch", (), (_sizes(op), *WORKERS), "int64_t")


def fixed(op: Op) -> Prototype:
    """The parameters of `<kernel>_fixed`, which returns the values that are worth compiling in."""
    return Prototype(f"opwright_{op.function}_fixed", (), (_sizes(op), *VALUES), "int64_t")


def group_name(group: GroupClass | None) -> str:
    return (group.name or "") if group is not None else ""


def _stem(op: Op, dtype: str, words: tuple[str, ...], group: GroupClass | None) -> Stem:
    return Stem(stem(op, dtype, words, group), dtype, words, group_name(group), library_part(op, group))


@memoised
def stems(op: Op) -> tuple[Stem, ...]:
    """The signatures of all kernels, in the order of dtype row, layout and class."""
    choices = itertools.product(op.dtypes, layout_choices(op), op.classes or (None,))
    return tuple(_stem(op, row_name(op, row), tuple(words.values()), group) for row, words, group in choices)


def signature(variant: Variant) -> Signature:
    """The signature of a kernel."""
    op, fast = variant.op, variant.isa.fast and not variant.op.stepped
    path = entries_path(op, variant.dtype, variant.group_class) if fast else reference_path(op, variant.dtype)
    return Signature(variant.name, prototype(op, variant.row, fast), path)


@memoised
def signatures(op: Op) -> tuple[Signature, ...]:
    """The signatures of all kernels of an operation."""
    return tuple(signature(variant) for variant in expand(op))


# Files of kernels.


def library_part(op: Op, group: GroupClass | None) -> str:
    """The class in the name of its own library: groups with one channel on either side have an engine of their own."""
    name = group_name(group)
    return name if name and is_channelwise(op, name) else ""


def entries_path(op: Op, dtype: str, group: GroupClass | None) -> str:
    """The file of the entries of a dtype row's fast kernels."""
    return f"c/entries/{'_'.join(filter(None, (op.function, dtype, library_part(op, group))))}.c"


def reference_path(op: Op, dtype: str) -> str:
    """The file of a dtype row's portable kernels."""
    return f"c/{op.function}_{dtype}.c"
