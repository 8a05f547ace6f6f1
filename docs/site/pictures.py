"""Pictures of benchmark results: a dot for each row, by group, on a logarithmic axis of ratios.

In: the tables of a page of results, in Markdown. Out: SVG, whose dots show their row and ratio where the pointer is,
with a field that filters them (picture.js).
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterator
from html import escape

Dot = tuple[str, str, float]  # a row's group, its name, its ratio

LOW, HIGH = 0.25, 16.0  # ratios beyond are drawn at the edge
LEFT, WIDTH, HEIGHT = 240, 660, 34  # of the names, of the axis, of a group
CELL = re.compile(r"(?:[\d.]+|refused|-) · ([\d.]+)")


def convolutions(page: str) -> Iterator[Dot]:
    """The ratios to PyTorch in the tables of every row."""
    for title, table in re.findall(r"^## Every row, (\d threads?)$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL):
        heads, *rows = _cells(table)
        for shape, op, *cells in rows:
            for head, cell in zip(heads[2:], cells):
                if found := CELL.fullmatch(cell):
                    yield op, f"{shape}, {head}, {title}", float(found[1])


def operations(page: str) -> Iterator[Dot]:
    """The ratios to PyTorch in the tables of matrix products and of operations of steps."""
    for title in ("Matrix products", "Operations of steps"):
        for section in re.findall(rf"^## {title}$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL):
            *_, table = re.findall(r"(?:^\|.*\n)+", section + "\n", re.MULTILINE)
            heads, *rows = _cells(table)
            at = heads.index("PyTorch")
            yield from ((row[0].partition("/")[0], row[0], float(row[at])) for row in rows if row[at])


def _cells(table: str) -> list[list[str]]:
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines() if line[:1] == "|"]
    return [rows[0], *rows[2:]] if rows else [[]]


def picture(dots: list[Dot]) -> str:
    """The SVG and its field, as HTML."""
    groups = list(dict.fromkeys(group for group, _, _ in dots))
    height = HEIGHT * len(groups) + 30
    lines = [
        f'<div class="picture"><label>Rows that hold: <input type="search" placeholder="f32 1 thread"></label>'
        f'<svg viewBox="0 0 {LEFT + WIDTH + 20} {height}" role="img" aria-label="PyTorch\'s time divided by ours">'
    ]
    ratio = LOW
    while ratio <= HIGH:
        x, kind = _place(ratio), ' class="one"' if ratio == 1 else ""
        lines.append(f'<line x1="{x}" x2="{x}" y1="0" y2="{height - 24}"{kind}/>')
        lines.append(f'<text x="{x}" y="{height - 6}" text-anchor="middle">{ratio:g}</text>')
        ratio *= 2
    for number, group in enumerate(groups):
        middle = HEIGHT * number + HEIGHT / 2
        lines.append(f'<text x="{LEFT - 14}" y="{middle + 5:g}" text-anchor="end">{escape(group)}</text>')
        for _, name, value in (dot for dot in dots if dot[0] == group):
            y = middle + (zlib.crc32(name.encode()) % 21 - 10)
            shown = f"<title>{escape(name)}: {value:g}</title>"
            lines.append(f'<circle cx="{_place(value)}" cy="{y:g}" r="3">{shown}</circle>')
    return "".join([*lines, "</svg></div>"])


def _place(ratio: float) -> str:
    share = math.log2(min(max(ratio, LOW), HIGH) / LOW) / math.log2(HIGH / LOW)
    return f"{LEFT + WIDTH * share:.1f}"
