"""From a file to a `Page`: detect the format of the text and call its reader.

In: a path or an untrusted text. Out: a Page, or PageError. Sizes are bounded; text that a parser cannot read
makes a less complete page, never a crash.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import UsageError
from . import html, markdown, rst, scraped
from .page import Line, Original, Page, lines_of
from .unflow import is_flat, unflow

MAX_BYTES = 512 * 1024
MAX_LINES = 20_000
HTML = re.compile(r"<!doctype html|<html[\s>]|<table[\s>]", re.IGNORECASE)


class PageError(UsageError):
    """A page that cannot be read; the message says why."""


def read_page(path: Path) -> Page:
    """The page in a file."""
    try:
        if not path.is_file():
            raise PageError(f"{path}: this is not a regular file")
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise PageError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from None
    if len(data) > MAX_BYTES:
        raise PageError(f"{path}: a page has at most {MAX_BYTES} bytes")
    return read(data.decode("utf-8-sig", errors="replace"), path.as_posix())


def read(text: str, file: str) -> Page:
    """The page of a text."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.count("\n") > MAX_LINES:
        raise PageError(f"{file}: a page has at most {MAX_LINES} lines")
    original = Original(file, text)
    if HTML.search(text):
        return Page(file, "HTML", tuple(html.read(original)))
    flat = is_flat(text)
    lines = unflow(text) if flat else lines_of(text)
    form, reader = FORMS[form_of(lines)]
    return Page(file, form + ", line breaks lost" * flat, tuple(reader(lines, original)))


FORMS = {
    "rst": ("reStructuredText", rst.read),
    "markdown": ("Markdown", markdown.read),
    "scraped": ("scraped text", scraped.read),
}


def form_of(lines: list[Line]) -> str:
    """rst, markdown or scraped: by the pipe tables, if any, and whether their rows are on one line."""
    above = ""
    for line in lines:
        if markdown.is_separator(line.text):
            return "markdown" if above.count("|") + 1 >= line.text.count("-|") else "scraped"
        above = line.text if line.text.strip() else above
    return "rst" if any(rst.is_border(line.text) for line in lines) else "markdown"
