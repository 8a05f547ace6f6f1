"""What changed between two libraries: operations and documents added, removed or changed, one edit at a time.

In: two libraries. Out: edits, each with its rule and the function that applies it: applying all of them in order
yields exactly the new library.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping

from ..emit.reference import cited_pages
from ..language.library import Library, Page
from ..language.model import Op
from .edit import Edit, Pages
from .tree import rename, same, text_of
from .walk import Walk


def edits(before: Library, after: Library) -> tuple[Edit, ...]:
    """Every edit between two libraries, in the order of application."""
    old, new = ({op.op: op for op in library.every} for library in (before, after))
    found: list[Edit] = []
    pages = _moved_pages(before.pages, after.pages, old, found)
    for gone in [name for name in old if name not in new]:
        for come in [name for name in new if name not in old]:
            renamed = rename(old[gone], gone, come)
            if same(renamed, new[come]):
                found = [dataclasses.replace(edit, op=come) if edit.op == gone else edit for edit in found]
                found.append(_whole("op-renamed", come, old.pop(gone), new[come]))
                renames = functools.partial(rename, old=gone, new=come)
                spelled_differently = [name for name, op in old.items() if not same(renames(op), op)]
                found += [dataclasses.replace(found[-1], op=name, make=renames) for name in spelled_differently]
                old = {name: renames(op) for name, op in old.items()} | {come: renamed}
                break
    for name in sorted({*old, *new}):
        if name not in new:
            found.append(_whole("op-removed", name, old[name], None))
        elif name not in old:
            found.append(_whole("op-added", name, None, new[name]))
        elif (hidden := old[name] in before.gradients) != (new[name] in after.gradients):  # functions, or autograd's
            found.append(_whole("op-added" if hidden else "op-removed", name, old[name], new[name]))
        elif old[name] is not new[name]:
            found += Walk(old[name], new[name]).edits()
    return (*found, *_pages(pages, after.pages, old, new))


def _moved_pages(before: Pages, after: Pages, ops: dict[str, Op], found: list[Edit]) -> Pages:
    """Documents that only changed their short name; citations follow."""
    pages = dict(before)
    for gone in [name for name in before if name not in after]:
        come = next((n for n in after if n not in pages and same(after[n], before[gone])), None)
        if come is None:
            continue
        renames = functools.partial(rename, old=gone, new=come)
        moves = functools.partial(_renamed_page, old=gone, new=come)
        edit = Edit(
            "source-page-renamed", "", f"pages.{come}", gone, come, before[gone].at, after[come].at, renames, moves
        )
        citing = [name for name, op in ops.items() if gone in cited_pages(op)]
        found += [dataclasses.replace(edit, op=name) for name in citing or [""]]
        ops |= {name: renames(ops[name]) for name in citing}
        pages = dict(moves(pages))
    return pages


def _renamed_page(pages: Pages, old: str, new: str) -> Pages:
    return {new if name == old else name: page for name, page in pages.items()}


def _pages(before: Pages, after: Pages, olds: Mapping[str, Op], news: Mapping[str, Op]) -> Iterator[Edit]:
    """Edits of the list of documents: one for each operation that cites the document, or one without an operation."""
    for name in sorted({*before, *after}):
        was, now = before.get(name), after.get(name)
        if not same(was, now):
            rule = f"source-page-{'added' if was is None else 'removed' if now is None else 'changed'}"
            places = (was.at if was else None, now.at if now else None)
            lists = functools.partial(_listed, name=name, page=now)
            edit = Edit(rule, "", f"pages.{name}", text_of(was), text_of(now), *places, lambda op: op, lists)
            ops = (*olds.values(), *news.values())
            citing = dict.fromkeys(op.op for op in ops if name in cited_pages(op) and op.op in news)
            yield from (dataclasses.replace(edit, op=op) for op in citing or [""])


def _listed(pages: Pages, name: str, page: Page | None) -> Pages:
    """The documents with one of them replaced; None removes it."""
    others = {key: value for key, value in pages.items() if key != name}
    return others if page is None else {**others, name: page}


def _whole(rule: str, name: str, old: Op | None, new: Op | None) -> Edit:
    was, now = (op.op if op else "nothing" for op in (old, new))
    return Edit(rule, name, "op", was, now, old.at if old else None, new.at if new else None, lambda _: new)
