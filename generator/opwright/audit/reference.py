"""Compares a reference page that this project printed with the one that it prints now, block by block.

In: an operation, a page, and the current reference page. Out: findings for every row and every paragraph of either.
The same readers read both pages, so their format does not matter. The words of our own pages are known exactly:
a cell that differs is a contradiction, a removed entry is silent, an added one is a contradiction.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..emit import render
from ..language.library import Library
from ..language.model import Op
from ..language.source import Mark
from ..project import Project
from .finding import Finding
from .forms import read
from .page import Cell, Page, Table, Text

# The sections whose rows are entries of the spec, and the key of those entries.
ENTRIES = {name: name for name in ("attributes", "inputs", "outputs", "dtypes")} | {"rules": "constraints"}
SUMMARY = "summary"  # the part above the first section


@dataclass(frozen=True)
class Section:
    """The blocks below one heading."""

    name: str
    at: Mark
    tables: tuple[Table, ...]
    texts: tuple[Text, ...]


def today(op: Op, library: Library, project: Project) -> Page:
    """The current reference page of an operation."""
    outputs = render.outputs(library, project.templates, project.spec.relative_to(project.root).as_posix())
    path = f"docs/{op.function}.md"
    return read(render.tidy(path, outputs[path].text(render.environment(project.templates))), path)


def is_reference(page: Page, now: Page) -> bool:
    """Whether a page is one of ours: most tables of the current page have a table there with the same header."""
    theirs = {_header(table) for table, _ in page.tables()}
    ours = [_header(table) for table, _ in now.tables()]
    return 2 * sum(header in theirs for header in ours) > len(ours)


def against(op: Op, page: Page, now: Page) -> tuple[Finding, ...]:
    """Compare every row and paragraph of a reference page with the current one."""
    theirs, ours = _sections(page), _sections(now)
    found: list[Finding] = []
    for name, section in ours.items():
        if name not in theirs:
            found.append(Finding("silent", name, "", f"a section {name}", page.at, op.at))
        found += _section(op, theirs.get(name, Section(name, page.at, (), ())), section)
    for name, section in theirs.items():
        if name not in ours:
            at = section.at
            found.append(Finding("contradiction", name, f"a section {name}", "no such section", at, op.at))
    return tuple(found)


def _sections(page: Page) -> dict[str, Section]:
    parts: list[tuple[str, Mark, list[Table], list[Text]]] = [(SUMMARY, page.at, [], [])]
    for block in page.blocks:
        if isinstance(block, Table):
            parts[-1][2].append(block)
        elif block.heading and len(parts) + len(parts[0][3]) > 1:
            parts.append((_slug(block.text), block.at, [], []))
        else:
            parts[-1][3].append(block)
    seen: Counter[str] = Counter()
    made = {}
    for name, at, tables, texts in parts:
        seen[name] += 1
        unique = name if seen[name] == 1 else f"{name}-{seen[name]}"
        made[unique] = Section(unique, at, tuple(tables), tuple(texts))
    return made


def _slug(text: str) -> str:
    return "-".join(text.casefold().split())


def _header(table: Table) -> tuple[str, ...]:
    return tuple(cell.text for cell in table.header)


def _section(op: Op, theirs: Section, ours: Section) -> Iterator[Finding]:
    for number, table in enumerate(ours.tables):
        same = [other for other in theirs.tables if _header(other) == _header(table)]
        other = same[0] if same else theirs.tables[number] if number < len(theirs.tables) else None
        yield from _table(op, other or Table((), (), theirs.at), table, ours.name)
    for extra in theirs.tables[len(ours.tables) :]:
        header = " | ".join(_header(extra))
        yield Finding("contradiction", ours.name, f"a table {header}", "no such table", extra.at, op.at)
    yield from _texts(op, theirs, ours)


def _texts(op: Op, theirs: Section, ours: Section) -> Iterator[Finding]:
    field = f"{ours.name}.text"
    found, expected = ([text.text for text in section.texts] for section in (theirs, ours))
    matcher = difflib.SequenceMatcher(None, found, expected, autojunk=False)
    for action, a, b, c, d in matcher.get_opcodes():
        for n in range(max(b - a, d - c)):
            there = theirs.texts[a + n] if a + n < b else None
            wanted = expected[c + n] if c + n < d else ""
            status = "agree" if action == "equal" else "contradiction" if there else "silent"
            text, at = (there.text, there.at) if there else ("", theirs.at)
            note = "" if wanted else "the current page does not say it"
            yield Finding(status, field, text, wanted, at, op.at, note if there else "the page does not say it")


def _table(op: Op, theirs: Table, ours: Table, section: str) -> Iterator[Finding]:
    entries = ENTRIES.get(section, section)
    if _header(theirs) != _header(ours):
        status, found = ("contradiction", " | ".join(_header(theirs))) if theirs.header else ("silent", "")
        yield Finding(status, f"{entries}.header", found, " | ".join(_header(ours)), theirs.at, op.at)
    columns = _key_columns(ours)
    rows = {_key(row, columns): row for row in theirs.rows}
    expected = [_key(row, columns) for row in ours.rows]
    order = [key for key in rows if key in expected]
    for key, row in zip(expected, ours.rows, strict=True):
        field = f"{entries}.{'.'.join(filter(None, key))}"
        there = rows.pop(key, None)
        if there is None:
            yield Finding(
                "silent", field, "", _row_text(row), theirs.at, _at(op, entries, key), "the page has no such row"
            )
        else:
            yield from _row(op, there, row, (field, ours.header, _at(op, entries, key)))
    for key, extra in rows.items():
        field = f"{entries}.{'.'.join(filter(None, key))}"
        yield Finding("contradiction", field, _row_text(extra), "no such row", extra[0].at, op.at.key(entries))
    if order != [key for key in expected if key in order]:
        found, wanted = ("; ".join(map(" ".join, keys)) for keys in (order, expected))
        yield Finding("contradiction", f"{entries}.order", found, wanted, theirs.at, op.at.key(entries))


def _row(
    op: Op, there: Sequence[Cell], row: Sequence[Cell], about: tuple[str, Sequence[Cell], Mark]
) -> Iterator[Finding]:
    field, header, at = about
    differ = [n for n in range(max(len(there), len(row))) if _cell(there, n) != _cell(row, n)]
    for n in differ:
        column = _slug(_cell(header, n)) or str(n + 1)
        status = "contradiction" if _cell(there, n) else "lost"
        place = there[n].at if n < len(there) else there[0].at
        yield Finding(status, f"{field}.{column}", _cell(there, n), _cell(row, n), place, at)
    if not differ:
        yield Finding("agree", field, _row_text(there), _row_text(row), there[0].at, at)


def _cell(row: Sequence[Cell], n: int) -> str:
    return row[n].text if n < len(row) else ""


def _row_text(row: Sequence[Cell]) -> str:
    return " | ".join(cell.text for cell in row)


def _key_columns(table: Table) -> Sequence[int]:
    """The columns that identify a row: the names, else as many of the first columns as needed."""
    header = _header(table)
    maximum = max((len(row) for row in table.rows), default=1)
    named = [[header.index("name")]] if "name" in header else []
    tried = [*named, *(range(n) for n in range(1, maximum))]
    return next((c for c in tried if len({_key(row, c) for row in table.rows}) == len(table.rows)), range(maximum))


def _key(row: Sequence[Cell], columns: Sequence[int]) -> tuple[str, ...]:
    return tuple(_cell(row, n) for n in columns)


def _at(op: Op, entries: str, key: Sequence[str]) -> Mark:
    """The place of a row's entry in the spec."""
    found = {
        "attributes": {str(attribute.name): attribute.at for attribute in op.attributes},
        "constraints": {str(constraint.id): constraint.at for constraint in op.constraints},
    }.get(entries, {})
    return next((found[word] for word in key if word in found), op.at.key(entries))
