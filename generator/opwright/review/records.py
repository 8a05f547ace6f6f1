"""What changed besides the specs: the lock, the waivers, and the tool that is stored with them.

In: both sides. Out: edits that belong to no operation. A branch cannot waive its own findings: its edits of these
records are findings, and the severities of its base apply.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Iterator, Mapping

from ..derive.contract import contract_hash
from ..language.hashing import digest
from ..language.library import Library
from ..language.schema import place
from ..language.source import Mark, SpecInvalid
from .edit import Edit
from .sides import Side, SideInvalid
from .waivers import HASH, Lock, Waivers, read_lock, read_waivers

LOCK, WAIVERS = "LOCK.yaml", "waivers.yaml"
TOOLS = {"templates": "template-files-changed", "generator": "generator-code-changed"}
NAMED = 3  # files of a tool that a finding names; the others are counted


def waivers_of(side: Side, today: datetime.date) -> Waivers:
    """The waivers and severities of a side. Raises SideInvalid if they are invalid."""
    try:
        return read_waivers(side.records.get(WAIVERS), side.place(WAIVERS), today)
    except SpecInvalid as invalid:
        raise SideInvalid(side.name, invalid) from None


def lock_of(side: Side) -> Lock:
    """The lock of a side. Raises SideInvalid if it is invalid."""
    try:
        return read_lock(side.records.get(LOCK), side.place(LOCK))
    except SpecInvalid as invalid:
        raise SideInvalid(side.name, invalid) from None


def revisions(before: Library, after: Library, old: Lock, new: Lock) -> list[Edit]:
    """Operations that changed meaning under a released revision, and revisions missing from the lock."""
    given = {f"{op.op}@{op.revision}": contract_hash(op) for op in before.ops}
    known = _comparable(new) | _comparable(old) | given
    places = {op.op: op.at.key("revision") for op in before.ops}
    hashes = {f"{op.op}@{op.revision}": contract_hash(op) for op in after.ops}
    changed = [release for release, found in hashes.items() if known.get(release, found) != found]
    meaning = digest([(release, known[release], hashes[release]) for release in changed])[:16]
    found = []
    for op, release in zip(after.ops, hashes):
        at = (places.get(op.op), op.at.key("revision"), op.op)
        if release in changed:
            found.append(_edit("op-revision-kept", "revision", _listed(changed), f"another meaning, {meaning}", *at))
        elif _comparable(new) and release not in known:
            found.append(_edit("op-revision-unlocked", "revision", release, "", *at))
    return [*found, *_entries(old, new, changed)]


def _comparable(lock: Lock) -> dict[str, str]:
    """The entries with the current hash definition."""
    return lock.revisions if lock.hash == HASH else {}


def _entries(old: Lock, new: Lock, reported: Collection[str]) -> Iterator[Edit]:
    """What changed in the lock itself, except the revisions reported as operations (`reported`)."""
    if old.hash != new.hash and old.revisions:
        change = "raised" if new.hash > old.hash else "lowered"
        yield _edit(f"lock-hash-{change}", "hash", str(old.hash), str(new.hash), old.at.key("hash"), new.at.key("hash"))
        return
    was, now = old.revisions, new.revisions
    changes = {
        "added": [release for release in now if release not in was],
        "removed": [release for release in was if release not in now],
        "changed": [name for name in now if name in was and was[name] != now[name] and name not in reported],
    }
    for change, releases in changes.items():
        if releases:
            marks = (_first(old, releases), _first(new, releases))
            yield _edit(
                f"lock-entry-{change}",
                _listed(releases),
                _hashes_text(was, releases),
                _hashes_text(now, releases),
                *marks,
            )


def _hashes_text(side: Mapping[str, str], releases: Iterable[str]) -> str:
    found = [side[release] for release in releases if release in side]
    return (found[0] if len(found) == 1 else digest(*found))[:16] if found else "nothing"


def _first(lock: Lock, releases: Iterable[str]) -> Mark | None:
    return next((place(key, lock.at) for release in releases for key in lock.revisions if key == release), None)


def waived(old: Waivers, new: Waivers) -> Iterator[Edit]:
    """Waivers added, removed or changed, and severities that apply from the next change on."""
    was, now = ({(w.rule, w.fingerprint): w for w in side.waivers} for side in (old, new))
    for rule, fingerprint in dict.fromkeys([*was, *now]):
        one, other = was.get((rule, fingerprint)), now.get((rule, fingerprint))
        if one != other:
            change = "added" if one is None else "removed" if other is None else "changed"
            before, instead = (f"until {w.expires}: {w.reason}" if w else "nothing" for w in (one, other))
            marks = (one.at if one else None, other.at if other else None)
            yield _edit(f"waiver-entry-{change}", f"{rule} {fingerprint}", before, instead, *marks)
    for axis in sorted({*old.severity, *new.severity}):
        before, instead = (side.severity.get(axis, "as is") for side in (old, new))
        if before != instead:
            marks = (_severity(old, axis), _severity(new, axis))
            yield _edit("waiver-severity-changed", f"severity.{axis}", before, instead, *marks)


def _severity(side: Waivers, axis: str) -> Mark | None:
    return next((place(key, side.at) for key in side.severity if key == axis), None)


def tools(base: Side, head: Side) -> Iterator[Edit]:
    """Changes of templates and generator, if both sides are states of a repository that contains them."""
    for name in base.tools.keys() & head.tools.keys():
        was, now = base.tools[name], head.tools[name]
        files = sorted(file for file in {*was, *now} if was.get(file) != now.get(file))
        if files:
            path = _listed([f"{name}/{file}" for file in files])
            yield _edit(TOOLS[name], path, digest(was)[:16], digest(now)[:16])


def _listed(names: list[str]) -> str:
    rest = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + rest


def _edit(
    rule: str, path: str, was: str, now: str, old: Mark | None = None, new: Mark | None = None, op: str = ""
) -> Edit:
    return Edit(rule, op, path, was, now, old, new, lambda made: made)
