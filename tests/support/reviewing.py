"""Reviews of edited specs for tests: the loader's work on what did not change is kept."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

from opwright import load
from opwright.project import find
from opwright.review.findings import Review, review
from opwright.review.sides import Side
from opwright.review.tree import exact

from . import checkout

FOLDER = "spec/onednn_graph"
TODAY = datetime.date(2030, 1, 1)


def specs() -> dict[str, str]:
    """The texts of the project's own specs."""
    paths = sorted((checkout.ROOT / FOLDER).glob("*.yaml"))
    return {f"{FOLDER}/{path.name}": path.read_text(encoding="utf-8") for path in paths}


def by_semantics(file: str) -> dict[str, str]:
    """The same, one operation without its normal form, so that an edit of its semantics contradicts nothing."""
    texts = specs()
    name = f"{FOLDER}/{file}"
    lines = texts[name].splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith("normal_form:")]
    assert len(kept) == len(lines) - 1
    return {**texts, name: "".join(kept)}


def reviewed(before: Mapping[str, str], after: Mapping[str, str], **records: str) -> Review:
    """The review of a change; `records` are the texts of waivers and lock on the new side."""
    named = {{"waivers": "waivers.yaml", "lock": "LOCK.yaml"}[name]: text for name, text in records.items()}
    return review(find(), Side("before", before, {}), Side("after", after, named), TODAY)


def edited(texts: Mapping[str, str], file: str, *edits: tuple[str, str]) -> dict[str, str]:
    """Texts with pieces of one file replaced, each of which must be there."""
    name = f"{FOLDER}/{file}"
    text = texts[name]
    for old, new in edits:
        assert old in text, f"{old!r} is not in {file}"
        text = text.replace(old, new)
    return {**texts, name: text}


@contextmanager
def kept_loading() -> Iterator[None]:
    """Meanwhile a file is decoded and an operation checked once, however often either is loaded."""
    decode, check = load.decode, load.check_op
    decoded: dict[tuple[Any, ...], Any] = {}
    right: set[str] = set()

    def kept_decode(cls: Any, text: str, name: str, problems: Any) -> Any:
        before = len(problems)
        if (cls, text, name) not in decoded:
            found = decode(cls, text, name, problems)
            if len(problems) > before:
                return found
            decoded[cls, text, name] = found
        return decoded[cls, text, name]

    def kept_check(op: Any, pages: Any, problems: Any) -> None:
        key = repr((exact(op), sorted(pages)))
        if key not in right:
            check(op, pages, problems)
            if not problems:
                right.add(key)

    with mock.patch.object(load, "decode", kept_decode), mock.patch.object(load, "check_op", kept_check):
        yield


Edit = Callable[[str], str]
