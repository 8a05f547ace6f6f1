"""Rows of data types that combine several rows: columns of several tensors, cells of several types.

In: a row as the page has it, and the rows of the spec. Out: findings that say whether the two match.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ..language.source import Mark
from .facts import DtypeRow
from .finding import Finding


def tensors_of(column: str) -> tuple[str, ...]:
    """The tensors of a column: `Src / Dst` has two, `Src_i` has each array of src."""
    return tuple(name.strip().removesuffix("_i") for name in column.split("/"))


def says_several(stated: DtypeRow, tensors: Sequence[str]) -> bool:
    """Whether a column has several tensors or none, or a cell several types."""
    strange = all(stated.header) and not set(stated.header) <= set(tensors)
    return strange or any("," in cell for cell in stated.dtypes)


def several(stated: DtypeRow, rows: Sequence[Mapping[str, str]], at: Mark) -> Iterator[Finding]:
    """The row agrees if each type of each cell occurs in a row of the spec that fits the other cells."""
    types = [tuple(re.split(r",\s*", cell)) for cell in stated.dtypes]
    columns = [[name for name in tensors_of(column) if name in rows[0]] for column in stated.header]
    if len(types) != len(columns):
        yield Finding("lost", f"dtypes.{types[0][0]}", " | ".join(stated.dtypes), "", stated.at, at)
        return
    fitting = [
        row
        for row in rows
        if all(row[name] in cell for names, cell in zip(columns, types, strict=True) for name in names)
    ]
    for names, cell in zip(columns, types, strict=True):
        found = {row[name] for row in fitting for name in names}
        missing = [dtype for dtype in cell if names and dtype not in found]
        field = f"dtypes.{types[0][0]}.{names[0]}" if names else f"dtypes.{types[0][0]}"
        status = "contradiction" if missing else "agree"
        yield Finding(status, field, ", ".join(cell), ", ".join(sorted(found)), stated.at, at, words=tuple(missing))
