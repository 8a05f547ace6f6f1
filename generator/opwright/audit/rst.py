"""reStructuredText to blocks. docutils parses the tables; of the rest only the paragraphs are needed.

docutils does not get the whole document: a published page cites roles, directives and files that only its
own project has, and an untrusted page must not make this program read files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .page import Block, Cell, Line, Original, Table, Text, plain
from .unflow import unflow

BORDER = re.compile(r"\+[-=]+(\+[-=]+)*\+")
GRID_LINE = re.compile(r"[+|].*[+|]")
RULE = re.compile(r"=+( +=+)+")
UNDERLINE = re.compile(r"([=\-~*#^\"'`+.:_])\1{2,}\s*")
DIRECTIVE = re.compile(r"\s*\.\.(\s|$)|\s*:\w+:\s*$")
NOTE = re.compile(
    r"\s*(\.\. (note|warning|important|attention|seealso|tip|hint)::|[@\\]note\b|\*\*Note\*\*)\s*", re.IGNORECASE
)
# Limits of a table: docutils takes time for every corner of a grid.
MAX_LINES = 500
MAX_AREA = 1_000_000
MAX_CORNERS = 20


def read(lines: list[Line], original: Original) -> Iterator[Block]:
    """The blocks of a page's lines, in order."""
    at = 0
    while at < len(lines):
        size, block = _table(lines, at, original) or _text(lines, at, original)
        if block is not None:
            yield block
        at += size


def _table(lines: list[Line], at: int, original: Original) -> tuple[int, Block | None] | None:
    if BORDER.fullmatch(lines[at].text.strip()):
        end = next((n for n in range(at, len(lines)) if not GRID_LINE.fullmatch(lines[n].text.strip())), len(lines))
    elif RULE.fullmatch(lines[at].text.strip()):
        rules = [n for n in range(at, min(at + MAX_LINES, len(lines))) if RULE.fullmatch(lines[n].text.strip())]
        end = rules[min(len(rules), 3) - 1] + 1
    else:
        return None
    block = lines[at:end]
    table = _parsed(block, original) or _parsed(_again(block, original), original)
    return end - at, table or Text(plain(" ".join(line.text for line in block)), original.mark(block[0].offset))


def _again(lines: list[Line], original: Original) -> list[Line]:
    """The lines of a table that docutils refuses, laid out again from its words."""
    start, last = lines[0].offset, lines[-1]
    return [
        Line(line.text, line.offset + start)
        for line in unflow(original.text[start : last.offset + len(last.text)])
        if line.text
    ]


def _parsed(lines: list[Line], original: Original) -> Table | None:
    """The table that docutils reads from some lines; None if it refuses them."""
    from docutils.parsers.rst.tableparser import GridTableParser, SimpleTableParser, TableMarkupError
    from docutils.statemachine import StringList

    if not 3 <= len(lines) <= MAX_LINES:
        return None
    margin = min(len(line.text) - len(line.text.lstrip()) for line in lines)
    texts = [line.text[margin:].rstrip() for line in lines]
    width = max(map(len, texts))
    if width * len(lines) > MAX_AREA or sum(text.count("+") for text in texts) > MAX_CORNERS * len(texts):
        return None
    parser = GridTableParser() if texts[0].startswith("+") else SimpleTableParser()
    try:
        _, head, body = parser.parse(StringList(texts, source="page"))
    except (TableMarkupError, AssertionError, IndexError, ValueError):
        return None

    def cell(found: tuple[int, int, int, list[str]] | None) -> Cell:
        offset = lines[min(found[2], len(lines) - 1)].offset if found else lines[0].offset
        return original.cell(" ".join(found[3]), offset) if found else Cell("", original.mark(offset))

    header = [[cell(part) for part in row] for row in head]
    heads = tuple(Cell(" ".join(c.text for c in column).strip(), column[0].at) for column in zip(*header, strict=True))
    return Table(heads, tuple(tuple(map(cell, row)) for row in body), original.mark(lines[0].offset))


def _text(lines: list[Line], at: int, original: Original) -> tuple[int, Block | None]:
    """The paragraph that starts here, or the heading; None for an empty line or a directive."""
    first = lines[at].text
    if not first.strip() or UNDERLINE.fullmatch(first):
        return 1, None
    place = original.mark(lines[at].offset + len(first) - len(first.lstrip()))
    if at + 1 < len(lines) and UNDERLINE.fullmatch(lines[at + 1].text) and not first[0].isspace():
        return 2, Text(plain(first), place, heading=True)
    note = NOTE.match(first)
    if note is None and DIRECTIVE.match(first):
        return 1, None
    end = at + 1
    while end < len(lines) and (lines[end].text.strip() or (note and end == at + 1)) and not _starts(lines[end].text):
        end += 1
    text = plain(" ".join([first[note.end() :] if note else first, *(line.text for line in lines[at + 1 : end])]))
    return end - at, Text(text, place) if text else None


def _starts(line: str) -> bool:
    """Whether a line starts a block of its own, whatever is above it."""
    return is_border(line) or bool(NOTE.match(line) or DIRECTIVE.match(line))


def is_border(line: str) -> bool:
    """Whether a line is a border of a grid table or a rule of a simple one."""
    return any(pattern.fullmatch(line.strip()) for pattern in (BORDER, RULE))
