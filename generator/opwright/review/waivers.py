"""What a project waives, and what it has released: spec/waivers.yaml and spec/LOCK.yaml.

In: the texts of these files. Out: waivers, remapped severities, and the hash of every released revision.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

from ..derive.contract import contract_hash
from ..language.library import Library
from ..language.schema import Integer, ListOf, MapOf, OneOf, Problems, Text, Word, place
from ..language.source import Mark, SpecInvalid, suggestion
from ..language.structs import Node, Struct, key
from ..load import decode
from .rules import RULES, SEVERITIES, SEVERITY

MAX_DAYS = 180
HASH = 2  # the version of the definition of contract_hash; version 1 hashed only what reaches kernels
_HEX = Word(r"[0-9a-f]{16,64}", "a hash of hexadecimal digits")
_DATE = Word(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", "a date, as 2030-01-31")
_AXIS = Word(r"[a-z]+(-[a-z]+)*", "a value of an axis, or the id of a rule")
_RELEASE = Word(r"[A-Z][A-Za-z0-9]*@[0-9]+", "an operation and its revision, as Convolution@1")


def _mark() -> Mark:
    return field(default_factory=Mark, compare=False, repr=False)


@dataclass(frozen=True)
class Waiver(Node):
    """One finding that is waived for a limited time."""

    rule: str = key(OneOf(tuple(RULES)), "the rule of the finding", required=True, default="")
    fingerprint: str = key(_HEX, "the finding's fingerprint", required=True, default="")
    reason: str = key(Text(), "why it is acceptable", required=True, default="")
    expires: str = key(_DATE, f"the last day, at most {MAX_DAYS} days ahead", required=True, default="")
    at: Mark = _mark()


@dataclass(frozen=True)
class Waivers(Node):
    """The file waivers.yaml."""

    waivers: tuple[Waiver, ...] = key(ListOf(Struct(Waiver)), "the waived findings", default=())
    severity: dict[str, str] = key(
        MapOf(_AXIS, OneOf(SEVERITIES)), "a severity for a value of an axis, or for a rule", default={}
    )
    at: Mark = _mark()


@dataclass(frozen=True)
class Lock(Node):
    """The file LOCK.yaml."""

    hash: int = key(Integer(1), "the number of the hash, which counts its definitions", default=1)
    revisions: dict[str, str] = key(MapOf(_RELEASE, _HEX), "the hash of each revision", default={})
    at: Mark = _mark()


def read_waivers(text: str | None, name: str, today: datetime.date) -> Waivers:
    """The waivers. Raises SpecInvalid if one is invalid or expires too late, or a severity names nothing."""
    if not text:
        return Waivers()
    problems = Problems()
    found = decode(Waivers, text, name, problems) or Waivers()
    if problems:
        raise SpecInvalid(problems)
    known = {*SEVERITY, *RULES}
    for axis in found.severity:
        if axis not in known:
            message = f"'{axis}' is neither a value of an axis nor a rule{suggestion(axis, known)}"
            problems.note(place(axis, found.at), "severity-axis", message)
    seen: set[tuple[str, str]] = set()
    for waiver in found.waivers:
        if (waiver.rule, waiver.fingerprint) in seen:
            problems.note(waiver.at, "waiver-twice", f"{waiver.rule} {waiver.fingerprint} is waived twice")
        seen.add((waiver.rule, waiver.fingerprint))
        try:
            ahead = datetime.date.fromisoformat(waiver.expires) - today
        except ValueError:
            problems.note(waiver.at.key("expires"), "waiver-date", f"{waiver.expires!r} is not a date")
            continue
        if ahead.days > MAX_DAYS:
            problems.note(waiver.at.key("expires"), "waiver-date", f"a waiver must expire within {MAX_DAYS} days")
    if problems:
        raise SpecInvalid(problems)
    return found


def expired(waiver: Waiver, today: datetime.date) -> bool:
    return datetime.date.fromisoformat(waiver.expires) < today


def read_lock(text: str | None, name: str) -> Lock:
    """The released revisions, each with the hash of its contract."""
    problems = Problems()
    found = decode(Lock, text, name, problems) if text else Lock()
    if problems or found is None:
        raise SpecInvalid(problems)
    return found


def locked(library: Library, known: Lock) -> str:
    """The text of LOCK.yaml with every revision of a library; released entries with the same hash definition stay."""
    revisions = known.revisions if known.hash == HASH else {}
    hashes = {f"{op.op}@{op.revision}": contract_hash(op) for op in library.ops} | revisions
    lines = [f"  {release}: {found}" for release, found in sorted(hashes.items())]
    comment = "# The hash of the contract of every released revision. Written by: opwright diff --update-lock"
    return "\n".join([comment, f"hash: {HASH}", "revisions:", *lines]) + "\n"
