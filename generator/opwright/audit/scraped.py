"""Text scraped from a rendered page, to blocks.

Such text has a table's pipes, but each cell is on an indented line of its own; a row starts in the first column.
Formulas and links are lost: only a gap between two lines of a sentence remains, and `HOLE` marks it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .markdown import is_separator
from .page import HOLE, Block, Cell, Line, Original, Table, Text, plain

CONTINUATION = re.compile(r" \S|[.,;:)]")  # the start of a line that continues a sentence after a lost formula


def read(lines: list[Line], original: Original) -> Iterator[Block]:
    """The blocks of a page's lines, in order."""
    separators = [n for n, line in enumerate(lines) if is_separator(line.text)]
    columns = [lines[n].text.count("-|") or 1 for n in separators]
    at = 0
    for nth, (n, width) in enumerate(zip(separators, columns, strict=True)):
        top = _header(lines, at, n, width)
        yield from _texts(lines[at:top], original)
        last = nth + 1 == len(separators)
        stop = len(lines) if last else _header(lines, n + 1, separators[nth + 1], columns[nth + 1])
        end = _end(lines, n + 1, stop, width)
        header = _rows(lines[top:n], original)
        yield Table(
            header[0] if header else (), tuple(_rows(lines[n + 1 : end], original)), original.mark(lines[top].offset)
        )
        at = end
    yield from _texts(lines[at:], original)


def _header(lines: list[Line], start: int, separator: int, columns: int) -> int:
    """The line of the first cell of a table's header."""
    pipes = 0
    for n in range(separator - 1, start - 1, -1):
        pipes += lines[n].text.count("|")
        if pipes >= columns and lines[n].text.strip(" |"):
            return n
    return separator


def _end(lines: list[Line], start: int, stop: int, columns: int) -> int:
    """The line after a table's last row: text without a final pipe where a row would start or is complete."""
    pipes, gap = 0, False
    for n in range(start, stop):
        text = lines[n].text
        starts = bool(text[:1].strip())
        pipes = text.count("|") + (0 if starts and text.strip("| ") else pipes)
        if text.strip() and not text.rstrip().endswith("|") and (starts or (gap and pipes >= columns - 1)):
            return n
        gap = not text.strip("| ")
    return stop


def _rows(lines: list[Line], original: Original) -> list[tuple[Cell, ...]]:
    rows: list[list[Line]] = []
    for line in lines:
        if not rows or (line.text[:1].strip() and line.text.strip("| ")):
            rows.append([])
        rows[-1].append(line)
    return [cells for cells in (_cells(row, original) for row in rows) if cells]


def _cells(row: list[Line], original: Original) -> tuple[Cell, ...]:
    """The cells of a row; empty ones at its end are its border."""
    cells: list[Cell] = []
    raw, offset = "", row[0].offset
    for line in row:
        *done, rest = line.text.split("|")
        for part in done:
            cells.append(original.cell(raw + part, offset))
            raw, offset = "", line.offset
        raw += rest
    cells.append(original.cell(raw, offset))
    while cells and cells[-1].lost:
        cells.pop()
    return tuple(cells)


def _texts(lines: list[Line], original: Original) -> Iterator[Text]:
    """Paragraphs; parts around lost formulas are rejoined, with the holes marked."""
    paragraph, start, gap = "", 0, False
    for line in lines:
        text = line.text
        if not text.strip():
            gap = gap or bool(text)
            continue
        if paragraph and CONTINUATION.match(text):
            paragraph += f" {HOLE} {text}"
        else:
            if paragraph:
                yield _text(paragraph + f" {HOLE}" * gap, start, original)
            paragraph, start = (f"{HOLE} {text}" if CONTINUATION.match(text) else text), line.offset
        gap = False
    if paragraph:
        yield _text(paragraph, start, original)


def _text(text: str, offset: int, original: Original) -> Text:
    return Text(plain(text), original.find(text.lstrip(f"{HOLE} "), offset))
