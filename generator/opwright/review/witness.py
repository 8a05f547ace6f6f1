"""One concrete call for each finding that callers notice: what the old side does with it, and what the new one does.

In: a Review. Out: the same Review, its findings with witnesses. A call is searched with the spec's interpreter.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..commands.call_text import CallText
from ..commands.witness import ulps
from ..judging import Array
from ..model import Library
from .findings import Finding, Review
from .rules import Rule
from .search import NO_OPERATION, Found, Outcome, Sides, has_calls, search
from .tree import exact

TRIES = 600  # calls for one finding
TOTAL = 4000  # calls for all of them: about four seconds where nothing is ever found
LEAST = 60
UNLIKELY = 4  # of that, for findings that callers could notice by rounding only, which the interpreter does not know

_MAYBE = {"type": ["string", "null"]}
_WORDS = {"type": "array", "items": {"type": "string"}}
_EXTENTS = {"type": ["array", "null"], "items": {"type": "integer", "minimum": 0}}
_OUTCOME = {"accepted": {"type": "boolean"}, "rules": _WORDS, "dtype": _MAYBE, "shape": _EXTENTS}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": ["object", "null"],
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


SCHEMA = _object(
    {
        "call": _MAYBE, "tried": {"type": "integer", "minimum": 0}, "base": _object(_OUTCOME),
        "head": _object(_OUTCOME), "differs": _MAYBE, "notes": _WORDS, "reproduce": _MAYBE,
    }
)  # fmt: skip


@dataclass(frozen=True)
class Witness:
    """A call and what either side does with it; without a call, how many were tried in vain."""

    tried: int
    call: CallText | None = None
    base: Outcome = NO_OPERATION
    head: Outcome = NO_OPERATION
    differs: str = ""
    note: str = ""
    reproduce: str = ""

    def lines(self) -> list[str]:
        """For people: the call first, then what is done with it."""
        if self.call is None:
            return [f"no call found on which they differ, of {self.tried} tried"]
        done = f"before: {self.base}; after: {self.head}{f'; {self.differs}' if self.differs else ''}"
        return [str(self.call), done, *([self.note] if self.note else []), self.reproduce]

    def as_json(self) -> dict[str, Any]:
        """As SCHEMA says."""
        return {
            "call": None if self.call is None else str(self.call),
            "tried": self.tried,
            "base": _outcome(self.base) if self.call else None,
            "head": _outcome(self.head) if self.call else None,
            "differs": self.differs or None,
            "notes": [self.note] if self.note else [],
            "reproduce": self.reproduce or None,
        }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    accepted = outcome.accepted
    return {
        "accepted": accepted,
        "rules": list(outcome.rules),
        "dtype": outcome.dtype if accepted else None,
        "shape": list(outcome.shape) if accepted else None,
    }


def needed(rule: Rule) -> bool:
    """Whether callers can notice it; what only the record tells has no witness."""
    told = rule.contract in ("breaking", "dangerous") or rule.kernel == "numerics"
    return told and not (rule.record and rule.kernel == "none")


def witnessed(review: Review) -> Review:
    """The review with a witness for each finding that needs one."""
    waiting = [finding for finding in review.findings if needed(finding.rule) and finding.edits]
    tries = max(LEAST, min(TRIES, TOTAL // max(len(waiting), 1)))
    found = {id(finding): _witness(review, finding, tries) for finding in waiting}
    return replace(review, findings=tuple(replace(f, witness=found.get(id(f))) for f in review.findings))


def _witness(review: Review, finding: Finding, tries: int) -> Witness:
    """Of the first operation that has one."""
    tried = 0
    for sides, edits in _sides(review.libraries, finding):
        share = len(finding.ops) * (UNLIKELY if finding.rule.contract == "none" else 1)
        shared = max(LEAST, tries // share)
        for alone, note in ((sides.alone, ""), (None, "together with the other changes of the operation")):
            if alone is None and not note:
                continue
            tested = replace(sides, alone=alone)
            found: Found = search(tested, edits, _wanted(finding.rule), shared)
            tried += found.tried
            if found.call is not None:
                return _told(review, tested, found.call, tried, note if sides.alone is not sides.head else "")
            if sides.alone is sides.head:
                break
    return Witness(tried)


def _wanted(rule: Rule) -> Sequence[Sequence[str]]:
    """The kinds of difference that show what a rule says, the best first."""
    if rule.contract not in ("breaking", "dangerous"):
        return (("accepted",), ("refused", "shape", "values"))
    if rule.direction == "out":
        return (("shape", "values"), ("refused",), ("accepted",))
    kinds = (("refused", "shape", "values"), ("accepted",))
    return (*kinds, ("rules",)) if rule.contract == "dangerous" else kinds


def _sides(libraries: tuple[Library, Library], finding: Finding) -> Iterator[tuple[Sides, Sequence[Any]]]:
    """Every operation of a finding with the edits to it, before, after, and with these edits alone."""
    olds, news = ({op.op: op for op in library.ops} for library in libraries)
    for name in finding.ops:
        edits = [edit for edit in finding.edits if edit.op == name]
        was = next((edit.was for edit in edits if edit.rule == "op-renamed" and edit.now == name), name)
        base, head = olds.get(was), news.get(name)
        alone = base
        try:
            for edit in edits:
                alone = edit.make(alone)
        except Exception:  # an edit may need another one to make sense
            alone = None
        if exact(alone) == exact(base):
            continue
        if exact(alone) == exact(head):
            alone = head
        yield Sides(base, head, alone if alone is head or has_calls(alone) else None), edits


def _told(review: Review, sides: Sides, call: CallText, tried: int, note: str) -> Witness:
    base, head = sides.read(call)
    differs = ""
    if base.result is not None and head.result is not None and base.outcome == head.outcome:
        differs = values_differ(base.result, head.result)
    reproduce = shlex.join(["opwright", "diff", *sides_of(review), "--call", str(call)])
    return Witness(tried, call, base.outcome, head.outcome, differs, note, reproduce)


def sides_of(review: Review) -> list[str]:
    return [review.base] if review.head == "the working tree" else [review.base, review.head]


def values_differ(old: Array, new: Array) -> str:
    """Where two results of one shape and type differ, and by how much."""
    wrong = np.argwhere(~((old == new) | (np.isnan(old) & np.isnan(new))))
    if not len(wrong):
        return "the values are the same"
    cell = tuple(map(int, wrong[0]))
    first = f"{list(cell)}: {float(old[cell]):g} -> {float(new[cell]):g}"
    return f"{len(wrong)} of {old.size} values differ, first {first}; largest difference {ulps(old, new)} ulp"
