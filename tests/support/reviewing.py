"""Reviews of edited specs for tests: the loader's work on what did not change is kept."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from opwright import load
from opwright.emit import render
from opwright.oracle import prove
from opwright.project import find
from opwright.review import findings, impact
from opwright.review.findings import Review, review
from opwright.review.sides import Side
from opwright.review.tree import exact

from .specs import real_texts

FOLDER = "spec/onednn_graph"
TODAY = datetime.date(2030, 1, 1)


def specs() -> dict[str, str]:
    """The texts of the project's convolutions."""
    return {f"{FOLDER}/{name}": text for name, text in real_texts().items()}


def by_semantics(file: str) -> dict[str, str]:
    """The same, one operation without its normal form, so that an edit of its semantics contradicts nothing."""
    texts = specs()
    name = f"{FOLDER}/{file}"
    lines = texts[name].splitlines(keepends=True)
    remaining = [line for line in lines if not line.startswith("normal_form:")]
    assert len(remaining) == len(lines) - 1
    return {**texts, name: "".join(remaining)}


def reviewed(before: Mapping[str, str], after: Mapping[str, str], **records: str) -> Review:
    """The review of a change; `records` are the texts of waivers and lock: `lock` the new one, `old_lock` that before."""
    named: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for name, text in records.items():
        file = {"waivers": "waivers.yaml", "lock": "LOCK.yaml"}[name.removeprefix("old_")]
        named[not name.startswith("old_")][file] = text
    return review(find(), Side("before", before, named[0]), Side("after", after, named[1]), TODAY)


def unproven(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """The rules of a change's findings, in alphabetical order."""
    with nothing_rendered():
        return sorted(finding.rule.id for finding in reviewed(before, after).findings)


@contextmanager
def nothing_rendered() -> Iterator[None]:
    """Meanwhile no side is rendered, and no normal form held against anything."""
    unasked = mock.patch.object(Side, "prove"), mock.patch.object(impact, "impact", return_value=impact.Impact())
    with unasked[0], unasked[1]:
        yield


def edited(texts: Mapping[str, str], file: str, *edits: tuple[str, str]) -> dict[str, str]:
    """Texts with pieces of one file replaced, each of which must be there."""
    name = f"{FOLDER}/{file}"
    text = texts[name]
    for old, new in edits:
        assert old in text, f"{old!r} is not in {file}"
        text = text.replace(old, new)
    return {**texts, name: text}


@contextmanager
def remembered() -> Iterator[None]:
    """Meanwhile the same input is worked on once: a text decoded, an operation checked, recorded, viewed and rendered.

    What is remembered are functions of values alone, by all of what they read, so that no review sees less.
    """
    with ExitStack() as patches:
        for module, name, instead in _remembering():
            patches.enter_context(mock.patch.object(module, name, instead))
        yield


@functools.cache
def _remembering() -> list[tuple[Any, str, Any]]:
    decode, check, complete, carried = load.decode, load.check_op, load._complete, impact.Carried
    texts: _Latest = _Latest()
    right: _Latest = _Latest()
    completed: _Latest = _Latest()
    bases: _Latest = _Latest()
    agreed: _Latest = _Latest()
    agrees = prove.agrees

    def remembered_decode(cls: Any, text: str, name: str, problems: Any) -> Any:
        own = load.Problems()
        found = texts.get((cls, text, name)) or decode(cls, text, name, own)
        problems.extend(own)
        return found if own else texts.keep((cls, text, name), found)

    def remembered_complete(draft: Any, common: Any, problems: Any) -> Any:
        own = load.Problems()
        memo = completed.get((id(draft), id(common)))
        if memo is not None:
            return memo[0]
        found = complete(draft, common, own)
        problems.extend(own)
        return found if own else completed.keep((id(draft), id(common)), (found, draft, common))[0]

    def remembered_check(op: Any, pages: Any, problems: Any) -> None:
        key = (id(op), *sorted(pages))
        own = load.Problems()
        if right.get(key) is None:
            check(op, pages, own)
            problems.extend(own)
            if not own:
                right.keep(key, op)

    def remembered_agrees(op: Any) -> str | None:
        key = repr(exact(op))
        return (agreed.get(key) or agreed.keep(key, (agrees(op),)))[0]

    def remembered_carried(op: Any, pages: Any, *others: Any) -> impact.Carried:
        key = repr((op and op.at.file, exact(op), exact(dict(pages))))
        return bases.get(key) or bases.keep(key, carried(op, pages, *others))

    return [
        (load, "decode", remembered_decode),
        (load, "_complete", remembered_complete),
        (load, "check_op", remembered_check),
        (findings, "plain", functools.lru_cache(64)(findings.plain)),
        (prove, "agrees", remembered_agrees),
        (impact, "Carried", remembered_carried),
        (impact, "watching", functools.cache(impact.watching)),
        (impact, "tokens", functools.lru_cache(1024)(impact.tokens)),
        (render, "tidy", functools.lru_cache(1024)(render.tidy)),
    ]


class _Latest(dict[Any, Any]):
    """What was asked for of late."""

    MAX_ENTRIES = 64

    def get(self, key: Any, default: Any = None) -> Any:
        if key in self:
            self[key] = self.pop(key)
        return super().get(key, default)

    def keep(self, key: Any, value: Any) -> Any:
        self[key] = value
        if len(self) > self.MAX_ENTRIES:
            del self[next(iter(self))]
        return value
