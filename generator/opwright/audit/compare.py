"""Compares a page with a spec, field by field.

In: an operation and a page. Out: findings, in the order of the spec's fields. Findings do not depend on the wording of
a ruling: a contradiction is ruled if a discrepancy of the operation lists its field under `concerns`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from ..language.model import Attribute, Op, Tensor
from ..language.source import Mark, suggestion
from . import facts
from .dtype_rows import says_several, several, tensors_of
from .finding import STATUSES, Finding
from .identify import identify, misdescribed, spec_facts
from .page import Page
from .sentences import extent, sentences

# The facts of an attribute, and the columns of a page that state them.
FIELDS = {
    "type": ("type", "values"),
    "min": ("values",),
    "values": ("values",),
    "default": ("values",),
    "required": ("optional",),
}


def audit(op: Op, page: Page) -> tuple[Finding, ...]:
    """Compare every field that the page and the spec share."""
    parts = (attributes, arguments, arrangements, sentences, dtypes, prose)
    return tuple(_ruled(op, finding) for finding in chain.from_iterable(part(op, page) for part in parts))


def _ruled(op: Op, finding: Finding) -> Finding:
    """The finding, with the discrepancy that rules on its field.

    Where the spec lists the words that a discrepancy refuses, its ruling covers these words and no others.
    """
    if finding.status != "contradiction":
        return finding
    refused = {bad.value: bad.discrepancy for attribute in op.attributes for bad in attribute.refuse or ()}
    for discrepancy in op.discrepancies:
        covered = {word for word, by in refused.items() if by == discrepancy.id}
        if any(_covers(path, finding.field) for path in discrepancy.concerns) and (
            not covered or covered.issuperset(finding.words)
        ):
            return replace(finding, status="ruled", ruling=discrepancy)
    return finding


def _covers(path: str, field: str) -> bool:
    parts, found = path.split("."), field.split(".")
    return len(parts) == len(found) and all(part in ("*", word) for part, word in zip(parts, found, strict=True))


def attributes(op: Op, page: Page) -> Iterator[Finding]:
    """The attributes in the page's table, and those missing from it."""
    table = facts.attributes(page)
    yield from _headers("attributes", table, op.at.key("attributes"))
    found = identify(table.rows, op)
    for row, attribute, how in found:
        if attribute is None:
            hint = suggestion(row.name, [a.page_name or str(a.name) for a in op.attributes])
            name, at = row.name or f"row {row.number + 1}", op.at.key("attributes")
            path = f"attributes.{row.name or row.number + 1}"
            yield Finding("contradiction", path, name, f"no such attribute{hint}", row.at, at, how, (row.name,))
        else:
            name = attribute.page_name or str(attribute.name)
            yield _named(f"attributes.{attribute.name}", row, attribute.at, name, how)
            yield from _facts(row, attribute)
            yield from _description(row, attribute, op)
    for attribute in op.attributes:
        if all(attribute is not other for _, other, _ in found):
            yield _missing(
                f"attributes.{attribute.name}", bool(attribute.required), page, attribute.at, bool(table.rows)
            )


def _headers(field: str, table_rows: facts.Rows, spec_at: Mark) -> Iterator[Finding]:
    """A finding for every table whose header lost words: its columns are then identified by their content."""
    for table in table_rows.damaged:
        header = " | ".join(cell.text or "\u2026" for cell in table.header)
        note = "the header is cut; the columns were identified by their content"
        yield Finding("lost", field, f"header: {header}", "", table.at, spec_at, note)


def _named(field: str, row: facts.Row, spec_at: Mark, name: str, how: str) -> Finding:
    return Finding("agree" if row.name else "lost", field, row.name, name, row.at, spec_at, how)


def _missing(field: str, required: bool, page: Page, spec_at: Mark, listed: bool) -> Finding:
    """An entry of the spec that the page does not list: a contradiction if it makes the page's own calls illegal."""
    status = "contradiction" if required and listed else "silent"
    return Finding(
        status, field, "", "required" if required else "optional", page.at, spec_at, "the page does not list it"
    )


def _facts(row: facts.Row, attribute: Attribute) -> Iterator[Finding]:
    page_facts, holds = facts.attribute_facts(row), spec_facts(attribute)
    for field, columns in FIELDS.items():
        page, spec = page_facts[field], holds[field]
        if page is None and spec is None:
            continue
        lost = any(row.cells[column].lost for column in columns)
        words = _differing(page or "", spec or "", attribute)
        status = "lost" if lost else "silent" if page is None else "contradiction" if words else "agree"
        at = row.cells[columns[-1]].at if not lost else row.at
        yield Finding(
            status,
            f"attributes.{attribute.name}.{field}",
            page or "",
            spec or "",
            at,
            attribute.at.key(field),
            words=words,
        )


def _description(row: facts.Row, attribute: Attribute, op: Op) -> Iterator[Finding]:
    """A finding for the description of another attribute."""
    other = misdescribed(row, attribute, op)
    if other is not None:
        field, description = f"attributes.{attribute.name}.summary", row.cells["description"]
        spec, at = attribute.summary or "", attribute.at.key("summary")
        yield Finding("contradiction", field, description.text, spec, description.at, at, f"it describes {other.name}")


def _differing(page: str, spec: str, attribute: Attribute) -> tuple[str, ...]:
    """The page's words that the spec lacks (aliases count as the spec's); else the spec's words that the page lacks."""
    means = {alias: allowed.value for allowed in attribute.values or () for alias in allowed.aliases}
    there = [means.get(word, word) for word in page.split()]
    return tuple(word for word in there if word not in spec.split()) or tuple(w for w in spec.split() if w not in there)


def arguments(op: Op, page: Page) -> Iterator[Finding]:
    """Inputs and outputs: index, name and optionality."""
    for side, tensors in (("inputs", op.inputs), ("outputs", op.outputs)):
        table = facts.arguments(page, side)
        yield from _headers(side, table, op.at.key(side))
        seen: set[int] = set()
        for row in table.rows:
            index = _index_of(row, tensors)
            if index is None:
                listed = suggestion(row.name, [tensor.name for tensor in tensors])
                name = row.name or str(row.number)
                yield Finding(
                    "contradiction", f"{side}.{name}", name, f"no such tensor{listed}", row.at, op.at.key(side)
                )
            else:
                seen.add(index)
                yield from _argument(f"{side}.{tensors[index].name}", row, index, tensors[index])
        for index, tensor in enumerate(tensors):
            if index not in seen:
                yield _missing(
                    f"{side}.{tensor.name}", not (tensor.optional or tensor.when), page, tensor.at, bool(table.rows)
                )


def _index_of(row: facts.Row, tensors: Sequence[Tensor]) -> int | None:
    """The tensor of a row: by name, or by index if the name is lost."""
    if row.name:
        named = tensors_of(row.name.casefold().partition("(")[0])
        return next((n for n, tensor in enumerate(tensors) if tensor.name in named), None)
    index = row.cells["index"].text
    place = int(index) if index.isascii() and index.isdigit() else row.number
    return place if place < len(tensors) else None


def _argument(field: str, row: facts.Row, index: int, tensor: Tensor) -> Iterator[Finding]:
    how = "" if row.name else f"the name is lost; taken by its index {index}"
    yield _named(field, row, tensor.at.key("name"), tensor.name, how)
    stated = (
        ("index", str(index), tensor.at),
        ("optional", "optional" if tensor.optional or tensor.when else "required", tensor.at.key("optional")),
    )
    for column, spec, at in stated:
        cell = row.cells[column]
        meaning = {"true": "required", "false": "optional"}.get(facts.YES.get(cell.text.casefold(), ""), cell.text)
        status = "lost" if cell.lost else "agree" if meaning == spec else "contradiction"
        yield Finding(status, f"{field}.{column}", cell.text, spec, cell.at, at, words=(cell.text,))


def arrangements(op: Op, page: Page) -> Iterator[Finding]:
    """Compare the shapes that a page gives for each word of a layout attribute with every arrangement."""
    for side, tensors in (("inputs", op.inputs), ("outputs", op.outputs)):
        for tensor in tensors:
            if tensor.arrangements and tensor.layout:
                yield from _arrangements(f"{side}.{tensor.name}", op, tensor, tensor.layout, page)


def _arrangements(field: str, op: Op, tensor: Tensor, layout: str, page: Page) -> Iterator[Finding]:
    orders = op.layouts[layout]
    legal = [allowed.value for allowed in op.attribute(layout).values or ()]
    shapes = [shape for shape in facts.shapes(page) if shape.word in orders]
    known = [shape for shape in shapes if shape.word in legal]
    for shape in shapes:
        if shape.word not in legal:
            at = op.attribute(layout).at.key("values")
            path, shape_text, words = f"attributes.{layout}.values", f"a shape for {shape.word}", (shape.word,)
            yield Finding("contradiction", path, shape_text, " ".join(legal), shape.at, at, words=words)
    for name, arrangement in tensor.arrangements.items():
        spec = {word: [arrangement.dims[axis] for axis in orders[word]] for word in legal}
        differ = [
            s for s in known if s.extents and [extent(part, op) for part in s.extents] != [e.tree for e in spec[s.word]]
        ]
        lost = {shape.word for shape in known if shape.extents is None}
        status = "contradiction" if differ else "lost" if lost else "agree" if known else "silent"
        yield Finding(
            status,
            f"{field}.arrangements.{name}",
            _shapes({s.word: s.extents or ("\u2026",) for s in known}),
            _shapes({word: [extent.text for extent in extents] for word, extents in spec.items()}),
            known[0].at if known else page.at,
            arrangement.at,
            "the shapes are lost" if status == "lost" else arrangement.summary or "",
        )


def _shapes(shapes: dict[str, Sequence[str]]) -> str:
    return ", ".join(f"{word} ({', '.join(extents)})" for word, extents in shapes.items())


def dtypes(op: Op, page: Page) -> Iterator[Finding]:
    """The rows of data types."""
    tensors = [tensor.name for tensor in (*op.inputs, *op.outputs)]
    rows = [{name: dtype for name, dtype in row.items() if name in tensors} for row in op.dtypes]
    at = op.at.key("dtypes")
    order = list(rows[0])
    for table in facts.dtype_tables(page):
        header = [cell.text.casefold() for cell in table.header]
        if "" in header or not header:
            header_text = " | ".join(cell.text or "\u2026" for cell in table.header)
            yield Finding(
                "lost",
                "dtypes",
                f"header: {header_text}",
                " | ".join(order),
                table.at,
                at,
                "the columns are taken in the spec's order",
            )
        for name in header:
            if name and not set(tensors_of(name)) & set(tensors):
                yield Finding(
                    "contradiction", "dtypes", f"a column {name}", " | ".join(order), table.at, at, words=(name,)
                )
    page_rows = facts.dtype_rows(page)
    for found in page_rows:
        yield from several(found, rows, at) if says_several(found, tensors) else _dtype_row(found, rows, order, at)
    for row in rows:
        if page_rows and not any(found.dtypes[0] == row[order[0]] for found in page_rows):
            yield Finding(
                "silent",
                f"dtypes.{row[order[0]]}",
                "",
                " | ".join(row.values()),
                page.at,
                at,
                "the page has no such row",
            )


def _dtype_row(
    stated: facts.DtypeRow, rows: Sequence[dict[str, str]], order: Sequence[str], at: Mark
) -> Iterator[Finding]:
    named = len(stated.header) == len(set(stated.header)) and set(stated.header) <= set(order)
    names = stated.header if named and stated.header else tuple(order)
    field, text = f"dtypes.{stated.dtypes[0]}", " | ".join(stated.dtypes)
    note = "" if stated.inside else "the row is outside the table"
    if len(stated.dtypes) != len(names):
        status = "contradiction" if len(stated.dtypes) > len(names) else "lost"
        yield Finding(
            status, field, text, f"{len(names)} tensors: {', '.join(names)}", stated.at, at, note, stated.dtypes
        )
        return
    dtypes = dict(zip(names, stated.dtypes, strict=True))
    row = next((row for row in rows if row[names[0]] == dtypes[names[0]]), None)
    if row is None:
        known = ", ".join(row[order[0]] for row in rows)
        yield Finding("contradiction", "dtypes", text, f"rows for {known}", stated.at, at, note, stated.dtypes)
        return
    different = [name for name in names if dtypes[name] != row[name]]
    if not different:
        yield Finding("agree", field, text, " | ".join(row[name] for name in names), stated.at, at, note)
    for name in different:
        yield Finding("contradiction", f"{field}.{name}", dtypes[name], row[name], stated.at, at, note, (dtypes[name],))
    for name in order:
        if name not in names:
            yield Finding("silent", f"{field}.{name}", "", row[name], stated.at, at, "the page has no such column")


def prose(op: Op, page: Page) -> Iterator[Finding]:
    """Formulas that the page lost: in its sentences, and in tables other than those of attributes and arguments."""
    for text in facts.gaps(page):
        if not facts.SHAPE.search(text.text) and text.holes:
            words = [
                w for a in op.attributes for v in a.values or () for w in [v.value] if re.search(rf"\b{w}\b", text.text)
            ]
            field = f"padding.{words[0]}" if len(words) == 1 else "text"
            yield Finding(
                "lost",
                field,
                text.text[:160],
                "",
                text.at,
                op.at.key("padding" if words else "summary"),
                _counted(text.holes),
            )
    for table in facts.other_tables(page):
        for row in table.rows:
            empty = sum(cell.lost for cell in row)
            if empty and row[0].text:
                yield Finding("lost", "text", row[0].text, "", row[0].at, op.at.key("summary"), _counted(empty))


def _counted(number: int) -> str:
    return "a formula is lost" if number == 1 else f"{number} formulas are lost"


def counts(findings: Iterable[Finding]) -> dict[str, int]:
    statuses = [finding.status for finding in findings]
    return {status: statuses.count(status) for status in STATUSES}
