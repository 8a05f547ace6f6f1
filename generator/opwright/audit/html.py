"""HTML to blocks, by Beautiful Soup: headings, paragraphs, list items and tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..language.source import Mark
from .page import Block, Cell, Original, Table, Text, plain

if TYPE_CHECKING:
    from bs4 import Tag

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
BLOCKS = ("table", "p", "li", "pre", "dt", "dd", "blockquote", *HEADINGS)
HIDDEN = ("script", "style", "nav", "header", "footer")


def read(original: Original) -> Iterator[Block]:
    """The blocks of a page, in order."""
    from bs4 import BeautifulSoup

    for tag in _tags(BeautifulSoup(original.text, "html.parser")):
        place = _place(tag, original)
        if tag.name != "table":
            if text := _tag_text(tag):
                yield Text(text, place, tag.name in HEADINGS)
        elif rows := [
            tuple(Cell(_tag_text(cell), _place(cell, original)) for cell in row(["th", "td"])) for row in tag("tr")
        ]:
            yield Table(rows[0], tuple(rows[1:]), place)


def _tags(soup: Tag) -> Iterator[Tag]:
    """Tables and the innermost blocks of text, in order; each part of the page is visited once."""
    from bs4 import Tag

    stack = [soup]
    while stack:
        tag = stack.pop()
        if tag.name == "table" or (tag.name in BLOCKS and tag.find(BLOCKS) is None):
            yield tag
        elif tag.name not in HIDDEN:
            stack.extend(child for child in reversed(tag.contents) if isinstance(child, Tag))


def _place(tag: Tag, original: Original) -> Mark:
    return Mark(original.file, tag.sourceline or 1, (tag.sourcepos or 0) + 1)


def _tag_text(tag: Tag) -> str:
    return plain(tag.get_text(" ").replace("\u00b6", ""))
