"""Restores the line breaks that a page has lost.

In: a text in which headings, tables and notes run on in one line. Out: the restored lines, each
with its offset in the original. The marks of the structure survive such a loss: the borders of grid
tables, the rules of simple tables and headings, the separators of pipe tables.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from . import kinds
from .page import Line, plain

GROUP = r"(?<!\S)=+(?: +=+){1,40}(?!\S)"
BORDER = r"(?<!\S)\+[-=]+(?:\+[-=]+){0,40}\+(?!\S)"
SEPARATOR = r"(?<!\S)\|?(?: ?:?-{3,}:? ?\|){1,40}(?: ?:?-{3,}:?(?: ?\|)?)?(?!\S)"
UNDERLINE = r"(?<!\S)(?:={3,}|~{3,}|\*{3,}|#{7,}|\^{3,}|-{3,})(?!\S)"
# (A run of up to six # may start a heading of Markdown instead.)
TABLE = re.compile(f"{BORDER}|{GROUP}|{SEPARATOR}")
STRUCTURE = re.compile(f"(?P<border>{BORDER})|(?P<rule>{GROUP})|(?P<separator>{SEPARATOR})|(?P<underline>{UNDERLINE})")
PART = re.compile(r"(?<!\S)(?=\.\. |@note\b|\\note\b|\*\*Note\*\*)")
UNIT = re.compile(r":[a-z]{1,20}:`[^`]{0,300}`\S{0,20}|`{1,2}[^`]{1,300}`{1,2}\S{0,20}|\S+")
MAX_COLUMNS = 20


@dataclass(frozen=True)
class Piece:
    """A piece of a line: a word, or the text between two pipes."""

    text: str
    offset: int


def is_flat(text: str) -> bool:
    """Whether a table's border, rule or separator is next to other text: the sign of lost line breaks."""
    return any(found[0].strip() != line.strip() for line in text.split("\n") for found in TABLE.finditer(line))


def unflow(text: str) -> list[Line]:
    """The lines of a flat text."""
    return list(_lines(text.replace("\n", " ").replace("\t", " ")))


def _lines(text: str) -> Iterator[Line]:
    at = 0
    while found := STRUCTURE.search(text, at):
        build = {"border": _grid, "rule": _simple, "separator": _pipes, "underline": _heading}[found.lastgroup or ""]
        start, end, lines = build(text, at, found)
        yield from _paragraphs(text, at, start)
        yield from (Line("", start), *lines, Line("", end))
        at = max(end, found.start() + 1)
    yield from _paragraphs(text, at, len(text))


def _paragraphs(text: str, start: int, end: int) -> Iterator[Line]:
    """Running text, with a line for each comment and note in it."""
    cuts = [start, *(found.start() for found in PART.finditer(text, start, end) if found.start() > start), end]
    for here, there in itertools.pairwise(cuts):
        if text[here:there].strip():
            yield from (Line(text[here:there].strip(), here), Line("", there))


def _heading(text: str, at: int, found: re.Match[str], size: int | None = None) -> tuple[int, int, list[Line]]:
    """A heading has the length of its underline: that many characters before it, or the words of that length."""
    size = size or len(found[0])
    before = text[at : found.start()].rstrip()
    title = before[-size:]
    if len(before) > size and not before[-size - 1].isspace() and " " in title:
        title = title[title.index(" ") :]
    start = at + len(before) - len(title.lstrip())
    return start, found.start() + size, [Line(title.strip(), start), Line("=" * max(size, 3), found.start())]


def _grid(text: str, at: int, found: re.Match[str]) -> tuple[int, int, list[Line]]:
    """A grid table: lines between two borders have one cell per column of the border."""
    columns = found[0].count("+") - 1
    borders = [found]
    between: list[list[list[Piece]]] = []
    while following := re.compile(BORDER).search(text, borders[-1].end()):
        pieces = _split(text, borders[-1].end(), following.start())
        if following[0].count("+") - 1 != columns or pieces[0].text or len(pieces) % (columns + 1) != 1:
            break
        between.append([pieces[n : n + columns] for n in range(1, len(pieces) - 1, columns + 1)])
        borders.append(following)
    widths = [max([3, *(len(row[n].text) for group in between for row in group)]) for n in range(columns)]
    lines: list[Line] = []
    for border, group in zip(borders, [*between, []], strict=True):
        lines.append(Line("+" + "+".join(border[0][1] * (width + 2) for width in widths) + "+", border.start()))
        for row in group:
            cells = [piece.text.ljust(width) for piece, width in zip(row, widths, strict=True)]
            lines.append(Line("| " + " | ".join(cells) + " |", row[0].offset))
    return found.start(), borders[-1].end(), lines


def _split(text: str, start: int, end: int) -> list[Piece]:
    """The pieces between pipes that are words of their own."""
    cuts = [start - 1, *(found.start() for found in re.compile(r"(?<!\S)\|(?!\S)").finditer(text, start, end)), end]
    return [Piece(text[a + 1 : b].strip(), a + 1) for a, b in itertools.pairwise(cuts)]


def _simple(text: str, at: int, found: re.Match[str]) -> tuple[int, int, list[Line]]:
    """A simple table: three equal rules, except for the underline of a heading before the first."""
    rules = [found, *itertools.islice(re.compile(GROUP).finditer(text, found.end()), 2)]
    widths = [[len(group) for group in rule[0].split()] for rule in rules]
    if (
        len(rules) < 3
        or widths[1] != widths[2]
        or widths[0][-len(widths[1]) :] != widths[1]
        or len(widths[1]) > MAX_COLUMNS
    ):
        return _heading(text, at, found, widths[0][0])
    start, lines = found.start(), list[Line]()
    if len(widths[0]) > len(widths[1]):
        start, _, lines = _heading(text, at, found, widths[0][0])
        lines.append(Line("", found.start()))
    header = _units(text, rules[0].end(), rules[1].start())
    body = _units(text, rules[1].end(), rules[2].start())
    shape = _shape(header, body, len(widths[1]))
    rows = [_header_row(header, shape), *_body_rows(body, shape)]
    return start, rules[2].end(), lines + _written(rows, [rule.start() for rule in rules])


def _units(text: str, start: int, end: int) -> list[Piece]:
    """The words of a piece; a word may be a role or a literal that contains spaces."""
    return [Piece(found[0], found.start()) for found in UNIT.finditer(text, start, end)]


def _shape(header: Sequence[Piece], body: Sequence[Piece], columns: int) -> Sequence[str]:
    """The columns of a table, from words not yet assigned to cells."""
    if body and all(kinds.DTYPE.fullmatch(plain(unit.text)) for unit in body):
        return ("dtype",) * columns
    titles = " ".join(unit.text for unit in header).casefold()
    attributes = "attribute" in titles or ("index" not in titles and columns == len(kinds.ATTRIBUTES))
    return kinds.ATTRIBUTES if attributes else kinds.ARGUMENTS


def _header_row(units: Sequence[Piece], shape: Sequence[str]) -> list[Piece]:
    """The header's cells: its words are known, so a missing or cut one is detected."""
    rest = list(units)
    row: list[Piece] = []
    for column in shape:
        size = 1 if column == "dtype" else _header_size([unit.text.casefold() for unit in rest], column)
        taken, rest = rest[:size], rest[size:]
        row.append(Piece(" ".join(unit.text for unit in taken), taken[0].offset if taken else 0))
    return row


def _header_size(words: Sequence[str], column: str) -> int:
    """How many of the words form the header of a column; a cut one counts as one."""
    for name in kinds.COLUMNS[column][1]:
        if list(words[: len(name.split())]) == name.split():
            return len(name.split())
    return int(bool(words) and any(name.startswith(words[0]) for name in kinds.COLUMNS[column][1]))


def _body_rows(units: Sequence[Piece], shape: Sequence[str]) -> Iterator[list[Piece]]:
    if shape[0] == "dtype":
        yield from (list(units[n : n + len(shape)]) for n in range(0, len(units), len(shape)))
        return
    row: list[Piece] = []
    for unit in units:
        row.append(unit)
        if unit.text in ("Required", "Optional"):
            yield _attribute(row) if shape == kinds.ATTRIBUTES else _argument(row)
            row = []


def _argument(row: Sequence[Piece]) -> list[Piece]:
    """index, name and optionality of an argument, identified by their form."""
    cells = {column: Piece("", row[0].offset) for column in kinds.ARGUMENTS}
    for unit in row:
        text = plain(unit.text)
        cells[next(c for c in ("index", "optional", "name") if c == "name" or kinds.COLUMNS[c][0].fullmatch(text))] = (
            unit
        )
    return list(cells.values())


def _attribute(row: Sequence[Piece]) -> list[Piece]:
    """name, description, type, values and optionality: the type is a known word that splits the free text."""
    *inner, optional = row
    named = bool(inner) and bool(kinds.NAME.fullmatch(plain(inner[0].text)))
    typed = next(
        (n for n, unit in enumerate(inner) if n >= named and kinds.TYPE.fullmatch(plain(unit.text))), len(inner)
    )
    parts = (inner[:named], inner[named:typed], inner[typed : typed + 1], inner[typed + 1 :], [optional])
    return [Piece(" ".join(unit.text for unit in part), part[0].offset if part else row[0].offset) for part in parts]


def _written(rows: Sequence[Sequence[Piece]], rules: Sequence[int]) -> list[Line]:
    """A simple table's lines; a lost first cell is written as an escape, since an empty one would continue a row."""
    texts = [[cell.text or ("\\" if n == 0 else "") for n, cell in enumerate(row)] for row in rows]
    widths = [max(3, *(len(row[n]) if n < len(row) else 0 for row in texts)) for n in range(len(rows[0]))]
    rule = "  ".join("=" * width for width in widths)
    lines = [
        Line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), pieces[0].offset)
        for row, pieces in zip(texts, rows, strict=True)
    ]
    return [Line(rule, rules[0]), lines[0], Line(rule, rules[1]), *lines[1:], Line(rule, rules[2])]


def _pipes(text: str, at: int, found: re.Match[str]) -> tuple[int, int, list[Line]]:
    """A pipe table: a header before its separator with one cell per column, and rows after it."""
    columns = min(len(re.findall("-+", found[0])), MAX_COLUMNS)
    fenced = text[found.end() :].lstrip().startswith("|")
    before = _split(text, at, found.start())[:-1]
    header = before[-columns:]
    if not header:
        return found.start(), found.end(), []
    if not fenced:
        header[0] = _last_phrase(header[0])
    start = min(header[0].offset - fenced, found.start())
    following = re.compile(SEPARATOR).search(text, found.end())
    pieces = _split(text, found.end(), following.start() if following else len(text))
    rows, end = (_fenced_rows if fenced else _open_rows)(pieces, columns)
    lines = [Line("| " + " | ".join(piece.text for piece in row) + " |", row[0].offset) for row in [header, *rows]]
    lines.insert(1, Line("|" + "---|" * columns, found.start()))
    return start, max(end, found.end()), lines


def _last_phrase(piece: Piece) -> Piece:
    """The words at the end of a text that belong to a table's first header cell."""
    phrase = piece.text.casefold()
    known = [words for _, names in kinds.COLUMNS.values() for words in names if phrase.endswith(words)]
    size = len(max(known, key=len)) if known else len(piece.text.split()[-1]) if piece.text else 0
    return Piece(piece.text[len(piece.text) - size :], piece.offset + max(len(piece.text) - size, 0))


def _fenced_rows(pieces: Sequence[Piece], columns: int) -> tuple[list[Sequence[Piece]], int]:
    """Rows that start and end with a pipe: nothing is between two of them."""
    rows: list[Sequence[Piece]] = []
    at = 0
    while at + columns + 1 < len(pieces) and not pieces[at].text:
        rows.append(pieces[at + 1 : at + 1 + columns])
        at += columns + 1
    return rows, pieces[min(at, len(pieces) - 1)].offset


def _open_rows(pieces: Sequence[Piece], columns: int) -> tuple[list[Sequence[Piece]], int]:
    """Rows whose cells only end with a pipe: a row ends with its optionality, or is one of data types."""
    rows: list[Sequence[Piece]] = []
    row: list[Piece] = []
    end = pieces[0].offset
    for n, piece in enumerate(pieces):
        if not piece.text and not row:
            continue
        row.append(piece)
        typed = all(kinds.DTYPE.fullmatch(plain(cell.text)) for cell in row)
        if len(row) > columns:
            break
        if kinds.OPTIONAL.fullmatch(plain(piece.text)) or (typed and len(row) == columns):
            rows.append(row)
            row, end = [], pieces[min(n + 1, len(pieces) - 1)].offset
    return rows, end
