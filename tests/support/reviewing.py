"""Reviews of edited specs for tests: the loader's work on what did not change is kept."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar
from unittest import mock

from opwright import load, render
from opwright.model import Op
from opwright.project import find
from opwright.review import impact
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


def reviewed(before: Mapping[str, str], after: Mapping[str, str], **records: str) -> Review:
    """The review of a change; `records` are the texts of waivers and lock on the new side."""
    named = {{"waivers": "waivers.yaml", "lock": "LOCK.yaml"}[name]: text for name, text in records.items()}
    return review(find(), Side("before", before, {}), Side("after", after, named), TODAY)


def unproven(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """The rules of a change's findings, in alphabetical order, without the proof that renders both sides."""
    with mock.patch.object(impact, "impact", return_value=impact.Impact()):
        return sorted(finding.rule.id for finding in reviewed(before, after).findings)


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
    """Meanwhile the same input is worked on once: a text decoded, an operation checked, recorded and rendered.

    What is remembered are functions of values alone, by all of what they read, so that no review sees less.
    """
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

    class Renderer(impact.Renderer):
        """One whose recorded views and rendered bases outlive a review."""

        recorded: ClassVar[dict[str, Any]] = {}
        bases: ClassVar[dict[str, impact.Output]] = {}

        def record(self, op: Op) -> None:
            key = repr(exact(op))
            if key not in self.recorded:
                super().record(op)
                self.recorded[key] = self.units[-1]
            self.units.append(self.recorded[key])

        def rendered(self, op: Op | None, pages: Any, unit: Any = None) -> impact.Output:
            key = repr((exact(op), exact(dict(pages)), unit is None))
            self.made.update(self.bases)
            made = super().rendered(op, pages, unit)
            if repr(exact(op)) in self.recorded:
                self.bases[key] = made
            return made

    with ExitStack() as patches:
        for module, name, instead in (
            (load, "decode", kept_decode),
            (load, "check_op", kept_check),
            (impact, "Renderer", Renderer),
            (impact, "tokens", functools.lru_cache(4096)(impact.tokens)),
            (render, "tidy", functools.lru_cache(4096)(render.tidy)),
            (render, "environment", functools.cache(render.environment)),
        ):
            patches.enter_context(mock.patch.object(module, name, instead))
        yield
