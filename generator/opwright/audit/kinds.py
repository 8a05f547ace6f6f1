"""The kinds of tables on a page of an operation, and how to identify their cells by content.

The position of a cell is not enough: a page that loses a cell shifts those after it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from .page import Cell, Table

DTYPE = re.compile(r"f64|f32|f16|bf16|f8_e5m2|f8_e4m3|s64|s32|s8|u8|s4|u4|boolean|bool")
TYPE = re.compile(rf"({DTYPE.pattern}|string)(\[\])?")
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
OPTIONAL = re.compile(r"required|optional|yes|no", re.IGNORECASE)
INDEX = re.compile(r"\d{1,3}")
FREE = re.compile(r".*", re.DOTALL)

# The columns, and the words that their headers may have, the most specific first.
COLUMNS = {
    "name": (NAME, ("attribute name", "argument name", "attribute", "argument", "name")),
    "description": (FREE, ("description",)),
    "type": (TYPE, ("value type", "type")),
    "values": (FREE, ("supported values", "values")),
    "optional": (OPTIONAL, ("required or optional", "required", "optional")),
    "index": (INDEX, ("index",)),
}
ATTRIBUTES = ("name", "description", "type", "values", "optional")
ARGUMENTS = ("index", "name", "optional")
SHAPES = {"attributes": ATTRIBUTES, "arguments": ARGUMENTS}


def dtype_words(text: str) -> list[str]:
    """The data types of a text that consists of nothing else; none if it says more."""
    words = text.replace("|", " ").replace(",", " ").split()
    return words if words and all(DTYPE.fullmatch(word) for word in words) else []


def kind_of(table: Table) -> str:
    """attributes, arguments, dtypes or other: by the header, or by the content of the rows if the header is lost."""
    header = " ".join(cell.text.casefold() for cell in table.header)
    cells = [cell.text for row in table.rows for cell in row if not cell.lost]
    if cells and all(map(dtype_words, cells)):
        return "dtypes"
    if "attribute" in header:
        return "attributes"
    if "argument" in header or re.search(r"\bindex\b", header):
        return "arguments"
    if table.rows and all(any(OPTIONAL.fullmatch(cell.text) for cell in row) for row in table.rows):
        return "attributes" if any(TYPE.fullmatch(cell) for cell in cells) else "arguments"
    return "other"


def column_of(header: str) -> str | None:
    """The column that a header cell names."""
    title = header.casefold()
    for column, (_, words) in COLUMNS.items():
        if title in words:
            return column
    near = [column for column, (_, words) in COLUMNS.items() if title and words[-1] in title]
    return near[0] if len(near) == 1 else None


def header_is_whole(header: Sequence[Cell]) -> bool:
    return bool(header) and all(
        not cell.lost and any(cell.text.casefold() in words for _, words in COLUMNS.values()) for cell in header
    )


def columns_of(table: Table, shape: Sequence[str]) -> Sequence[str]:
    """The columns of a table in order: from its header, or the usual ones if it is damaged."""
    named = [column_of(cell.text) for cell in table.header]
    known = [column for column in named if column is not None]
    return known if len(known) == len(named) == len(shape) and set(known) == set(shape) else shape


def align(cells: Sequence[Cell], columns: Sequence[str]) -> dict[str, Cell]:
    """The cell of each column of a row. A cell that was lost without a trace is inferred from the others."""
    place = cells[0].at
    if len(cells) == len(columns) and all(
        c.lost or _fit(c.text, column) > 0 for c, column in zip(cells, columns, strict=True)
    ):
        return dict(zip(columns, cells, strict=True))
    found = [cell for cell in cells if not cell.lost][: len(columns)]
    best = max(itertools.combinations(columns, len(found)), key=lambda chosen: _fits(found, chosen))
    return {column: Cell("", place) for column in columns} | dict(zip(best, found, strict=True))


def _fits(cells: Iterable[Cell], columns: Iterable[str]) -> float:
    return sum(_fit(cell.text, column) for cell, column in zip(cells, columns, strict=True))


def _fit(text: str, column: str) -> float:
    pattern, _ = COLUMNS[column]
    if pattern is FREE:
        says = re.search(r"default|list|value|\b[A-Za-z]\w* ?, ?[A-Za-z]", text)
        return 0.6 if bool(says) == (column == "values") else 0.5
    return 2 if pattern.fullmatch(text) else -2
