"""A review as one page of HTML for people: it needs no network and no script, and is readable on paper and on a phone.

In: a Review. Out: text. It contains spec text, so the template escapes everything, and unprintable characters are
spelled out.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from .. import __version__
from ..errors import inert
from ..language.source import Mark
from . import values, words
from .advice import advice
from .findings import Finding, Review
from .hunks import hunks
from .impact import Moved
from .rules import SEVERITIES

WAIVED = "waived"
EXITS = {
    0: "Exit code 0: nothing reaches the threshold.",
    1: "Exit code 1: findings reach the threshold.",
    5: "Exit code 5: the rendered files did not change as predicted.",
    6: "Exit code 6: kernels and spec disagree on a witness: an error of opwright.",
}
_PIECE = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True)
class Span:
    """A piece of a value; `changed` if the other side differs there."""

    text: str
    changed: bool


Side = tuple[str, str, "Mark | None", tuple[Span, ...]]  # HTML element of a difference, label, place, value


@dataclass(frozen=True)
class Card:
    """A finding as the page shows it."""

    anchor: str
    severity: str
    finding: Finding
    sides: tuple[Side, ...]
    kernels: tuple[tuple[str, tuple[str, ...]], ...]  # kind of change, names
    values: str  # whether the changed kernels compute the same values
    action: str


@dataclass(frozen=True)
class Group:
    """The findings of the same operations, the most severe first."""

    anchor: str
    title: str
    ops: tuple[str, ...]
    tally: tuple[tuple[str, int], ...]
    cards: tuple[Card, ...]


@dataclass(frozen=True)
class Effect:
    """One row of the proof."""

    what: str
    foreseen: int
    observed: tuple[str, ...]
    holds: bool


def spans(was: str, now: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Both values in pieces, with the differing pieces marked."""
    sides: tuple[list[str], list[str]] = (_PIECE.findall(was), _PIECE.findall(now))
    matcher = difflib.SequenceMatcher(None, sides[0], sides[1], autojunk=False)
    made: tuple[list[Span], list[Span]] = ([], [])
    for action, *bounds in matcher.get_opcodes():
        for side, pieces, start, end in zip(made, sides, bounds[::2], bounds[1::2], strict=True):
            if start < end:
                side.append(Span("".join(pieces[start:end]), action != "equal"))
    return tuple(made[0]), tuple(made[1])


def _card(number: int, finding: Finding, review: Review) -> Card:
    sides: tuple[Side, ...] = (("", "found", finding.new, (Span(finding.was, False),)),)
    if finding.now:
        was, now = spans(finding.was, finding.now)
        sides = (("del", "was", finding.old, was), ("ins", "is", finding.new, now))
    moved = finding.moved
    lists = (("change", moved.kernels), ("added", moved.added), ("removed", moved.removed))
    kernels = tuple((word, tuple(sorted(names))) for word, names in lists if names)
    summary = values.summary(review, finding)
    return Card(f"finding-{number}", words.severity(finding), finding, sides, kernels, summary, advice(finding))


def _tally(severities: Iterable[str]) -> tuple[tuple[str, int], ...]:
    counts = Counter(severities)
    return tuple((word, counts[word]) for word in (*SEVERITIES, WAIVED) if counts[word])


def _groups(review: Review) -> tuple[Group, ...]:
    by_ops: dict[tuple[str, ...], list[Card]] = {}
    for number, finding in enumerate(review.findings, 1):
        by_ops.setdefault(finding.ops, []).append(_card(number, finding, review))
    return tuple(
        Group(f"group-{number}", _title(ops), ops, _tally(card.severity for card in cards), tuple(cards))
        for number, (ops, cards) in enumerate(by_ops.items(), 1)
    )


def _title(ops: Sequence[str]) -> str:
    return (ops[0] if len(ops) == 1 else f"{len(ops)} operations") if ops else "The specs as a whole"


def _effects(foreseen: Moved, observed: Moved) -> tuple[Effect, ...]:
    rows = (("Files that change", "files"), ("Kernels that change", "kernels"), ("Kernels added", "added"),
            ("Kernels removed", "removed"))  # fmt: skip
    sets = ((what, getattr(foreseen, name), getattr(observed, name)) for what, name in rows)
    return tuple(Effect(what, len(one), tuple(sorted(other)), one == other) for what, one, other in sets)


def _verdict(review: Review) -> str:
    if review.impact.unpredicted:
        return "The change does not match the prediction"
    failing = len(review.failing(review.threshold))
    if failing:
        return f"{failing} {'finding blocks' if failing == 1 else 'findings block'} the change"
    return "Nothing blocks the change" if review.findings else "No findings"


def _printed(value: Any) -> Any:
    """Spell out unprintable characters in every text of the page; the template's own markup stays."""
    return value if isinstance(value, Markup) else inert(str(value))


def rendered(template: str, **parameters: Any) -> str:
    """A page of a template of this folder; every text in it is escaped and printable."""
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        finalize=_printed,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = env.get_template(template).render(version=__version__, **parameters)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def as_html(review: Review, with_code: bool = False) -> str:
    """The page."""
    counts = Counter(words.severity(finding) for finding in review.findings)
    return rendered(
        "page.html.j2",
        review=review,
        lead=words.lead(review),
        verdict=_verdict(review),
        exit=EXITS[review.exit_code],
        counts=[(word, counts[word]) for word in (*SEVERITIES, WAIVED)],
        groups=_groups(review),
        effects=_effects(review.impact.foreseen, review.impact.observed),
        hunks=hunks(review.impact) if with_code else [],
    )
