"""The facts on a page: its rows of attributes, arguments and data types, and the sentences that state shapes.

In: a Page. Out: facts in the spec's terms (`s64[]`, a minimum, a default), each with its cell.
Nothing here judges whether they are right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..language.source import Mark
from .kinds import ARGUMENTS, ATTRIBUTES, OPTIONAL, align, columns_of, dtype_words, header_is_whole, kind_of
from .page import Cell, Page, Table, Text

DEFAULT = re.compile(
    r"(\S{1,60}?),? ?\(default\)|(\S{1,60}) by default|default(?: value)?(?: is|:| =)? (\w{1,60})", re.IGNORECASE
)
WORD = re.compile(r"[A-Za-z]\w*")
NO_WORDS = frozenset(("a", "an", "and", "any", "by", "default", "either", "is", "of", "one", "or", "string", "the"))
NUMBERS = {"zeros": "0", "zero": "0", "ones": "1", "one": "1"}
MINIMA = ((re.compile(r"non-?negative|>= ?0"), "0"), (re.compile(r"positive|>= ?1|> ?0"), "1"))
ASIDE = re.compile(r"\([^()]{0,300}\)")
YES = {"required": "true", "yes": "true", "optional": "false", "no": "false"}
SHAPE = re.compile(r"(?:\(([^()]{1,300})\) ?)?\bfor (\w{1,40})(?= format\b)")


@dataclass(frozen=True)
class Row:
    """A row of a table, its cells under the names of their columns."""

    cells: dict[str, Cell]
    number: int

    @property
    def at(self) -> Mark:
        return next((cell.at for cell in self.cells.values() if not cell.lost), next(iter(self.cells.values())).at)

    @property
    def name(self) -> str:
        """The name in the row, in the spec's spelling; empty if the page lost it."""
        return self.cells["name"].text


@dataclass(frozen=True)
class Rows:
    """The tables of one kind."""

    rows: tuple[Row, ...]
    tables: tuple[Table, ...]

    @property
    def damaged(self) -> tuple[Table, ...]:
        """The tables whose header lost words."""
        return tuple(table for table in self.tables if not header_is_whole(table.header))


def attributes(page: Page) -> Rows:
    """The rows of the attributes' tables."""
    return _rows([table for table, _ in page.tables() if kind_of(table) == "attributes"], ATTRIBUTES)


def arguments(page: Page, side: str) -> Rows:
    """The rows of inputs or outputs: the text above a table decides, else the first table has the inputs."""
    found: list[Table] = []
    for nth, (table, above) in enumerate((t, a) for t, a in page.tables() if kind_of(t) == "arguments"):
        side_word = re.search(r"\b(input|output)s?\W*$", above, re.IGNORECASE)
        if (side_word[1].casefold() + "s" if side_word else ("inputs", "outputs")[min(nth, 1)]) == side:
            found.append(table)
    return _rows(found, ARGUMENTS)


def _rows(tables: Sequence[Table], shape: Sequence[str]) -> Rows:
    cells = [align(row, columns_of(table, shape)) for table in tables for row in table.rows if row]
    return Rows(tuple(Row(row, number) for number, row in enumerate(cells)), tuple(tables))


@dataclass(frozen=True)
class DtypeRow:
    """A row of data types; `header` has the tensor of each, where the page names it."""

    dtypes: tuple[str, ...]
    header: tuple[str, ...]
    at: Mark
    inside: bool


def dtype_tables(page: Page) -> list[Table]:
    return [table for table, _ in page.tables() if kind_of(table) == "dtypes"]


def dtype_rows(page: Page) -> list[DtypeRow]:
    """The rows of data types, and those that the page lost from their table."""
    rows: list[DtypeRow] = []
    for table in dtype_tables(page):
        header = tuple(cell.text.casefold() for cell in table.header)
        rows += [
            DtypeRow(tuple(c.text for c in row if not c.lost), header, row[0].at, True) for row in table.rows if row
        ]
    for text in page.texts:
        words = dtype_words(text.text)
        if len(words) > 1:
            rows.append(DtypeRow(tuple(words), (), text.at, False))
    return [row for row in rows if row.dtypes]


def attribute_facts(row: Row) -> dict[str, str | None]:
    """type, min, values, default and required of an attribute; None for facts that its row lacks.

    values is a list of words, separated by a space.
    """
    type_text, given = row.cells["type"].text, row.cells["values"].text
    word = next((word for word in type_text.split() if word), None)
    if word and not word.endswith("[]") and re.search(r"\blist\b|\bvector\b", given, re.IGNORECASE):
        word += "[]"
    plainly = ASIDE.sub(" ", given)
    text = word == "string" or (word is None and not re.search(r"\b(list|value)\b", given))
    optional = OPTIONAL.fullmatch(row.cells["optional"].text)
    return {
        "type": word,
        "min": None if text else _minimum(plainly, word),
        "values": _words(plainly) if text else None,
        "default": _default(given),
        "required": YES[optional[0].casefold()] if optional else None,
    }


def _words(given: str) -> str | None:
    return " ".join(word for word in WORD.findall(given) if word.casefold() not in NO_WORDS) or None


def _minimum(given: str, type_: str | None) -> str | None:
    """The minimum legal value; None for a positive real number."""
    found = next((minimum for mark, minimum in MINIMA if mark.search(given.casefold())), None)
    return None if found == "1" and (type_ or "").startswith("f32") else found


def _default(given: str) -> str | None:
    found = DEFAULT.search(given)
    if found is None:
        return None
    if re.search(r"\bempty list\b", given, re.IGNORECASE):
        return "[]"
    word = next(part for part in found.groups() if part is not None).strip("\"',.()[]").rpartition(",")[2]
    word = word.removesuffix("s") if word[:-1].isdigit() else word  # a list of 1s
    return NUMBERS.get(word.casefold(), word)


@dataclass(frozen=True)
class Shape:
    """The shape of a tensor on a page for one word of a layout attribute; None if it is lost."""

    word: str
    extents: tuple[str, ...] | None
    at: Mark


def shapes(page: Page) -> list[Shape]:
    """Every `(a, b, c) for WORD format` of the page."""
    return [
        Shape(found[2], tuple(part.strip() for part in found[1].split(",")) if found[1] else None, text.at)
        for text in page.texts
        for found in SHAPE.finditer(text.text)
    ]


def other_tables(page: Page) -> Iterator[Table]:
    """The tables other than those of attributes, arguments and data types."""
    return (table for table, _ in page.tables() if kind_of(table) == "other")


def gaps(page: Page) -> Iterator[Text]:
    """The texts that lost formulas."""
    return (text for text in page.texts if text.holes)
