"""A published page in any format: texts and tables, each with its place in the file.

Nothing here knows an operation. A cell without text is lost; in a text `HOLE` marks where
the page has lost a formula.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..language.source import Mark

HOLE = "\u2026"
MAX_TEXT = 4000

# Markup, and its replacement. Every repetition is bounded, so that matching takes linear time.
MARKUP = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\f[$\[\]]|\\[()]", " "),  # Doxygen and MathJax: formula
        (r"\{#\w{1,100}\}", " "),  # Doxygen: anchor of a heading
        (r":[a-z]{1,20}:`([^`<]{0,300})(?:<[^`>]{0,300}>)?`", r"\1"),  # reStructuredText: role
        (r"`([^`<]{1,300})<[^`>]{0,300}>`_{0,2}", r"\1"),  # reStructuredText: link
        (r"\[([^\[\]]{0,300})\]\([^()]{0,300}\)", r"\1"),  # Markdown: link
        (r"(?<![\w|\\])\|(?:attr_)?([A-Za-z]\w{0,60})\|(?![\w|])", r"\1"),  # reStructuredText: substitution
        (r"\\operatorname\{(\w{1,60})\}", r"\1"),  # LaTeX: name
        (r"[`*]{1,3}", ""),  # literal, emphasis
        (r"\\([^\w\s])|\\_", lambda found: found[1] or "_"),  # escape
        (r"\\([A-Za-z]{1,60})", r"\1"),  # LaTeX: macro
        (r"\\", ""),
    )
)


def plain(text: str) -> str:
    """A text without its markup, on one line, safe to print."""
    for pattern, replacement in MARKUP:
        text = pattern.sub(replacement, text[:MAX_TEXT])
    text = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(text.split())


@dataclass(frozen=True)
class Cell:
    """A cell of a table; lost if it has no text."""

    text: str
    at: Mark

    @property
    def lost(self) -> bool:
        return not self.text


@dataclass(frozen=True)
class Text:
    """A paragraph, a note or a heading."""

    text: str
    at: Mark
    heading: bool = False

    @property
    def holes(self) -> int:
        return self.text.count(HOLE)


@dataclass(frozen=True)
class Table:
    """A table; rows are shorter than the header if cells were lost without a trace."""

    header: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    at: Mark


Block = Text | Table


@dataclass(frozen=True)
class Page:
    """A page after reading."""

    file: str
    form: str
    blocks: tuple[Block, ...]

    @property
    def at(self) -> Mark:
        return Mark(self.file)

    @property
    def texts(self) -> Iterator[Text]:
        return (block for block in self.blocks if isinstance(block, Text))

    def tables(self) -> Iterator[tuple[Table, str]]:
        """Every table, with the text above it."""
        above = ""
        for block in self.blocks:
            if isinstance(block, Table):
                yield block, above
            else:
                above = block.text


@dataclass(frozen=True)
class Original:
    """The original text of a page; turns offsets into places."""

    file: str
    text: str
    starts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "starts", [0, *(found.end() for found in re.finditer("\n", self.text))])

    def mark(self, offset: int) -> Mark:
        line = bisect.bisect_right(self.starts, offset)
        return Mark(self.file, line, offset - self.starts[line - 1] + 1)

    def find(self, words: str, offset: int) -> Mark:
        """The place of the first of some words shortly after an offset."""
        word = next(iter(words.split()), "")
        found = self.text.find(word, offset, offset + MAX_TEXT) if word else -1
        return self.mark(max(found, offset))

    def cell(self, raw: str, offset: int) -> Cell:
        return Cell(plain(raw), self.find(raw, offset))


@dataclass(frozen=True)
class Line:
    """A line of a page, or of its restored text, and the offset in the original where it starts."""

    text: str
    offset: int


def lines_of(text: str) -> list[Line]:
    result, offset = [], 0
    for raw in text.split("\n"):
        result.append(Line(raw, offset))
        offset += len(raw) + 1
    return result
