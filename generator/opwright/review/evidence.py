"""Evidence from calls: the outcome on each side, a witness for a finding, how far a kernel's values moved.

Types only, with their JSON and its schema; witness.py and values.py fill them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..calls.call_text import CallText, TensorText

SAME = "the values are the same"
ERROR = "AN ERROR OF OPWRIGHT"  # a package and its spec disagree

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


WITNESS_SCHEMA = _object(
    {
        "call": _MAYBE, "tried": {"type": "integer", "minimum": 0}, "base": _object(_OUTCOME),
        "head": _object(_OUTCOME), "differs": _MAYBE, "executed": {"type": "boolean"},
        "notes": _WORDS, "reproduce": _MAYBE,
    }
)  # fmt: skip
VALUE_SCHEMA = {
    "type": "object",
    "properties": {
        "kernel": {"type": "string"}, "calls": {"type": "integer", "minimum": 0},
        "ulp": {"type": "integer", "minimum": 0}, "call": {"type": "string"}, "note": {"type": "string"},
    },
    "required": ["kernel", "calls", "ulp", "call", "note"],
    "additionalProperties": False,
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """The result of a call on one side: the rules that refuse it, or the returned type and shape."""

    rules: tuple[str, ...] = ()
    dtype: str = ""
    shape: tuple[int, ...] = ()
    others: tuple[tuple[str, tuple[int, ...]], ...] = ()  # of further outputs

    @property
    def accepted(self) -> bool:
        return not self.rules

    def __str__(self) -> str:
        if not self.accepted:
            return f"refused: {', '.join(self.rules)}"
        return f"returns {', '.join(str(TensorText(*output)) for output in ((self.dtype, self.shape), *self.others))}"


NO_OPERATION = Outcome(("op-missing",))


@dataclass(frozen=True)
class Witness:
    """A call and its outcome on each side; without a call, how many were tried.

    `executed`: both packages were generated, built and called; otherwise the outcomes are the interpreter's.
    """

    tried: int
    call: CallText | None = None
    base: Outcome = NO_OPERATION
    head: Outcome = NO_OPERATION
    differs: str = ""
    executed: bool = False
    notes: tuple[str, ...] = ()
    reproduce: str = ""

    def lines(self) -> list[str]:
        """Lines to read: the call, then its outcomes."""
        if self.call is None:
            return [f"no call found on which they differ ({self.tried} tried)", *self.notes]
        done = [f"before: {self.base}; after: {self.head}", self.differs, "executed" if self.executed else ""]
        return [str(self.call), "; ".join(filter(None, done)), *self.notes, self.reproduce]

    @property
    def same(self) -> bool:
        """Whether no difference between the sides was observed."""
        return self.base == self.head and self.differs in ("", SAME)

    @property
    def wrong(self) -> bool:
        """Whether a package departed from its spec."""
        return any(note.startswith(ERROR) for note in self.notes)

    def as_json(self) -> dict[str, Any]:
        """As WITNESS_SCHEMA says."""
        return {
            "call": None if self.call is None else str(self.call),
            "tried": self.tried,
            "base": _outcome(self.base) if self.call else None,
            "head": _outcome(self.head) if self.call else None,
            "differs": self.differs or None,
            "executed": self.executed,
            "notes": list(self.notes),
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


@dataclass(frozen=True)
class Value:
    """A kernel's results on `calls` calls: the largest distance in ulp, on `call`.

    Without a call, the note says why it was not run.
    """

    kernel: str
    calls: int = 0
    ulp: int = 0
    call: str = ""
    note: str = ""
