"""Which kernels an operation has: dtype row x layout words x group class x ISA, as a table.

In: an operation. Out: its variants in a fixed order. Names follow docs/naming of the C functions:
`<op>_<dtypes>_<layout words>_<group class>_<isa>`; a part that an operation does not have is left out.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from .model import GroupClass, Op

ISAS = ("portable",)


@dataclass(frozen=True)
class Variant:
    """One kernel: what it is specialised for."""

    op: Op
    row: dict[str, str]
    layouts: dict[str, str]
    group_class: GroupClass | None
    isa: str

    @property
    def dtype(self) -> str:
        """`f32`, or where the data tensors differ every one of theirs: `bf16_bf16_f32`."""
        return row_name(self.op, self.row)

    @property
    def words(self) -> tuple[str, ...]:
        """The layout words in the order of the attributes."""
        return tuple(self.layouts.values())

    @property
    def name(self) -> str:
        group = (self.group_class.name or "",) if self.group_class else ()
        return "_".join((self.op.function, self.dtype, *(word.lower() for word in self.words), *group, self.isa))


def row_name(op: Op, row: dict[str, str]) -> str:
    """The part of a kernel's name that tells a dtype row."""
    dtypes = [row[tensor.name] for tensor in op.tensors]
    return dtypes[0] if len(set(dtypes)) == 1 else "_".join(dtypes)


def layout_choices(op: Op) -> list[dict[str, str]]:
    """Every combination of words of the attributes that order axes."""
    attributes = op.layout_attributes
    words = [[allowed.value for allowed in op.attribute(name).values or ()] for name in attributes]
    return [dict(zip(attributes, chosen)) for chosen in itertools.product(*words)]


def expand(op: Op) -> tuple[Variant, ...]:
    """All variants of an operation, in the order of dtype row, layout, class, ISA."""
    classes: tuple[GroupClass | None, ...] = op.classes or (None,)
    return tuple(
        Variant(op, row, layouts, group_class, isa)
        for row, layouts, group_class, isa in itertools.product(op.dtypes, layout_choices(op), classes, ISAS)
    )
