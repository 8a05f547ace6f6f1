"""Markdown to blocks, by markdown-it-py: headings, paragraphs and pipe tables."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .page import Block, Cell, Line, Original, Table, Text, plain
from .rst import NOTE

if TYPE_CHECKING:
    from markdown_it.token import Token

SEPARATOR = re.compile(r"\|?(:?-+:?\|)+(:?-+:?)?")


def is_separator(line: str) -> bool:
    """Whether a line separates the header from the rows of a pipe table."""
    return bool(SEPARATOR.fullmatch("".join(line.split())))


def read(lines: list[Line], original: Original) -> Iterator[Block]:
    """The blocks of a page's lines, in order."""
    from markdown_it import MarkdownIt

    lines = list(_separated(lines))
    tokens = MarkdownIt("commonmark", {"maxNesting": 20}).enable("table").parse("\n".join(line.text for line in lines))
    offsets = [line.offset for line in lines]
    at = 0
    while at < len(tokens):
        token = tokens[at]
        offset = offsets[min(token.map[0], len(offsets) - 1)] if token.map else 0
        if token.type == "table_open":
            end = next(n for n in range(at, len(tokens)) if tokens[n].type == "table_close")
            yield _table(tokens[at:end], offsets, original)
            at = end
        elif token.type in ("inline", "code_block", "fence", "html_block"):
            text = plain(NOTE.sub("", token.content))
            if text:
                yield Text(text, original.find(token.content, offset), tokens[at - 1].type == "heading_open")
        at += 1


def _separated(lines: list[Line]) -> Iterator[Line]:
    """The lines, with an empty one before a line that would otherwise be read as one more row of a table."""
    inside = False
    for line in lines:
        inside = inside or is_separator(line.text)
        if inside and "|" not in line.text:
            yield Line("", line.offset)
            inside = False
        yield line


def _table(tokens: list[Token], offsets: list[int], original: Original) -> Table:
    rows: list[list[Cell]] = []
    offset = 0
    for token, inner in itertools.pairwise(tokens):
        if token.type == "tr_open":
            offset = offsets[token.map[0]] if token.map else offset
            rows.append([])
        elif token.type in ("th_open", "td_open"):
            rows[-1].append(original.cell(inner.content, offset))
    return Table(tuple(rows[0]), tuple(map(tuple, rows[1:])), rows[0][0].at)
