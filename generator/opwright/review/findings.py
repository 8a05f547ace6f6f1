"""The findings of a review: edits grouped, judged, and combined with their effects.

In: two sides. Out: a Review. One edit of a spec gives one finding, even if many operations share it.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

import yaml

from ..derive.signature import header_path
from ..language.library import Library
from ..language.model import Op
from ..language.source import Mark
from ..project import Project
from . import c_calls, compare, impact, lint, records, splits
from .edit import Edit, changed
from .evidence import Value, Witness
from .impact import Impact, Moved
from .rules import RULES, SEVERITIES, SEVERITY, Rule
from .sides import Side
from .waivers import Waivers, expired


@dataclass(frozen=True)
class Finding:
    """One difference between two sides, and everything known about it."""

    rule: Rule
    severity: str
    ops: tuple[str, ...]
    path: str
    was: str
    now: str
    old: Mark | None
    new: Mark | None
    moved: Moved
    fingerprint: str
    reproduce: str
    edits: tuple[Edit, ...] = ()
    witness: Witness | None = None
    waived: str = ""

    @property
    def place(self) -> str:
        """`file:line (was :line)`, with the parts that exist."""
        if self.new is None:
            return f"was {self.old}" if self.old else ""
        if self.old is None:
            return str(self.new)
        same = self.old.file == self.new.file
        return f"{self.new} (was {f':{self.old.line}:{self.old.column}' if same else self.old})"


@dataclass(frozen=True)
class Review:
    """All findings, the most severe first, and the proof of their effect."""

    base: str
    head: str
    findings: tuple[Finding, ...]
    impact: Impact
    libraries: tuple[Library, Library]
    values: Mapping[str, Value] | None = None
    threshold: str = "error"
    breaking: str = "error"  # the severity of a witness that shows a break

    @property
    def exit_code(self) -> int:
        """The exit code: 6 if a package and its spec disagree on a call, 5 if a prediction does not
        hold, 1 if a finding reaches the threshold, else 0."""
        if any(finding.witness and finding.witness.wrong for finding in self.findings):
            return 6
        return 5 if self.impact.unpredicted else int(bool(self.failing(self.threshold)))

    def failing(self, threshold: str) -> list[Finding]:
        """The findings at a threshold or above it."""
        limit = SEVERITIES.index(threshold)
        return [f for f in self.findings if not f.waived and SEVERITIES.index(f.severity) <= limit]


def review(project: Project, base: Side, head: Side, today: datetime.date) -> Review:
    """Compare two sides. Raises SideInvalid where one cannot be used."""
    before = base.library()
    after = before if base.texts == head.texts else head.library()
    base.prove(before, after)
    head.prove(after, before)
    old, new = (records.waivers_of(side, today) for side in (base, head))
    waivers = replace(new, severity=old.severity)  # a branch cannot waive its own findings
    edits = _under_review(compare.edits(before, after), base.only or head.only)
    edits += _files(base, head, before, after, edits)
    edits += records.revisions(before, after, records.lock_of(base), records.lock_of(head))
    edits += [*records.waived(old, new), *records.tools(base, head)]
    effect = impact.impact(project, before, after, edits)
    reproduce = f"opwright diff {base.name} {head.name if head.name != 'the working tree' else ''}".rstrip()
    found = _gathered(edits, effect, waivers, reproduce)
    found += _declared(after, effect, waivers, reproduce)
    found += _following(before, after, waivers, reproduce)
    found += [_noted(note, waivers, reproduce) for note in lint.lint(after)]
    found += [_alone("impact-unpredicted", text, waivers, reproduce) for text in effect.unpredicted]
    found = _waived(found, waivers, today, reproduce)
    found.sort(key=lambda f: (SEVERITIES.index(f.severity), f.ops, f.rule.id, f.path))
    worst = {**SEVERITY, **waivers.severity}["breaking"]
    return Review(base.name, head.name, tuple(found), effect, (before, after), breaking=worst)


def _under_review(edits: Sequence[Edit], only: str | None) -> list[Edit]:
    """The edits of one file, if a single file is under review."""
    return [e for e in edits if not only or any(m and PurePosixPath(m.file).name == only for m in (e.old, e.new))]


def _declared(after: Library, effect: Impact, waivers: Waivers, reproduce: str) -> list[Finding]:
    """One finding for all C declarations that changed but kept their names."""
    changed = {name: sides for symbols in effect.declared.values() for name, sides in symbols.items()}
    if not changed:
        return []
    first = min(changed, key=lambda name: (not name.endswith("_sizes"), name))
    path = first if len(changed) == 1 else f"{first} and {len(changed) - 1} more"
    ops = tuple(op for op, symbols in effect.declared.items() if symbols)
    edit = Edit("symbol-declaration-changed", "", path, *changed[first], None, None, lambda op: op)
    headers = frozenset(header_path(op) for op in after.every if op.op in ops)
    return [_finding(RULES[edit.rule], ops, edit, Moved(headers), waivers, reproduce)]


def _following(before: Library, after: Library, waivers: Waivers, reproduce: str) -> list[Finding]:
    """What follows for ways to split operations, which their pages show, and for programs that call them in C."""
    pairs = [*changed(before, after)]
    pages = {op.op: frozenset({f"docs/{op.function}.md"} if op in after.ops else ()) for _, op in pairs}
    found = []
    for edit in splits.edits(pairs):
        moved = Moved(pages[edit.op] | {"SHARDING.json"})
        found.append(_finding(RULES[edit.rule], (edit.op,), edit, moved, waivers, reproduce))
    for edit in c_calls.edits(pairs):
        found.append(_finding(RULES[edit.rule], (edit.op,), edit, Moved(), waivers, reproduce))
    return found


def _noted(note: lint.Note, waivers: Waivers, reproduce: str) -> Finding:
    """The linter's notes on the new side."""
    edit = Edit(note.rule, "", note.path, note.message, "", None, note.at, lambda op: op)
    return _finding(RULES[note.rule], note.ops, edit, Moved(), waivers, reproduce)


def _files(base: Side, head: Side, before: Library, after: Library, edits: Sequence[Edit]) -> list[Edit]:
    """Files that moved, and files in which only notation changed."""
    olds = {op.op: op.at.file for op in before.every}
    found = []
    for op in after.every:
        was = olds.get(op.op, op.at.file)
        if PurePosixPath(was).name != PurePosixPath(op.at.file).name:
            make = functools.partial(_moved, file=op.at.file)
            found.append(Edit("op-file-moved", op.op, "file", was, op.at.file, Mark(was), op.at, make))
    touched = {PurePosixPath(mark.file).name for edit in edits for mark in (edit.old, edit.new) if mark}
    texts = {PurePosixPath(name).name: text for name, text in base.texts.items()}
    for name, text in head.texts.items():
        stem = PurePosixPath(name).name
        same = texts.get(stem, text) != text and (not edits or plain(texts[stem]) == plain(text))
        if same and stem not in touched and stem in {base.only or stem, head.only or stem}:
            line = next((n for n, (a, b) in enumerate(_lines(texts[stem], text), 1) if a != b), 1)
            was, now = (hashlib.sha256(side.encode()).hexdigest()[:16] for side in (texts[stem], text))
            at = Mark(name, line)
            found.append(Edit("format-text-changed", "", stem, was, now, at, at, lambda made: made))
    return found


def _moved(op: Op | None, file: str) -> Op | None:
    return op and replace(op, at=replace(op.at, file=file))


def plain(text: str) -> Any:
    """YAML as maps, lists and texts, without spacing, comments and notation."""
    # The text has been loaded before, so its size is bounded; libyaml is ten times as fast.
    return yaml.load(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))


def _lines(old: str, new: str) -> list[tuple[str, str]]:
    """Pairs of lines of two texts, the shorter one padded."""
    olds, news = old.splitlines(), new.splitlines()
    return [*zip(olds, news, strict=False), ("", "\n")]


def _subject(edit: Edit) -> str:
    """What an edit is about: a word together with its case, a parameter together with its default."""
    parts = edit.path.split(".")
    if edit.rule.startswith("attribute-need"):
        return ".".join(parts[:2])
    if edit.rule in ("attribute-value-added", "attribute-value-removed", "layout-word-added", "layout-word-removed"):
        return parts[-1]
    return ""


def _places(edit: Edit) -> tuple[Mark | None, ...]:
    """What distinguishes edits with the same words: their places on the sides that have one."""
    if edit.rule in ("op-renamed", "op-revision-kept"):
        return ()
    sides = ((edit.was, edit.old), (edit.now, edit.new))
    return tuple(mark for text, mark in sides if text != "nothing")


def _gathered(edits: Sequence[Edit], effect: Impact, waivers: Waivers, reproduce: str) -> list[Finding]:
    """One finding for each group of edits that a reader takes for one."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for number, edit in enumerate(edits):
        subject = _subject(edit)
        places = _places(edit)
        key = (edit.rule, edit.op, subject) if subject else (edit.rule, edit.was, edit.now, *places)
        groups.setdefault(key, []).append(number)
    merged: dict[tuple[object, ...], list[int]] = {}
    for group in groups.values():  # edits of several operations that share one line
        first = edits[group[0]]
        merged.setdefault((first.rule, first.was, first.now, *_places(first)), []).extend(group)
    found = []
    for numbers in merged.values():
        first = edits[numbers[0]]
        total = Moved()
        for number in numbers:
            total |= effect.predicted.get(number, Moved())
        ops = tuple(dict.fromkeys(edits[number].op for number in numbers if edits[number].op))
        finding = _finding(RULES[first.rule], ops, first, total, waivers, reproduce)
        found.append(replace(finding, edits=tuple(edits[number] for number in numbers)))
    return found


def _finding(rule: Rule, ops: tuple[str, ...], edit: Edit, total: Moved, waivers: Waivers, reproduce: str) -> Finding:
    values = json.dumps([rule.id, ops, edit.path, edit.was, edit.now])
    return Finding(
        rule, rule.severity(waivers.severity), ops, edit.path, edit.was, edit.now, edit.old, edit.new, total,
        hashlib.sha256(values.encode()).hexdigest()[:16], reproduce,
    )  # fmt: skip


def _alone(rule: str, text: str, waivers: Waivers, reproduce: str, at: Mark | None = None) -> Finding:
    """A finding about no edit."""
    edit = Edit(rule, "", "", text, "", None, at, lambda op: op)
    return _finding(RULES[rule], (), edit, Moved(), waivers, reproduce)


def _waived(found: list[Finding], waivers: Waivers, today: datetime.date, reproduce: str) -> list[Finding]:
    """The findings with waived ones marked, and a finding for each waiver that waives nothing."""
    for waiver in waivers.waivers:
        name = f"{waiver.rule} {waiver.fingerprint}"
        matching = [f for f in found if f.fingerprint == waiver.fingerprint and f.rule.id == waiver.rule]
        if expired(waiver, today):
            found.append(
                _alone("waiver-entry-expired", f"{name}: expired {waiver.expires}", waivers, reproduce, waiver.at)
            )
        elif not matching:
            found.append(_alone("waiver-entry-unused", name, waivers, reproduce, waiver.at))
        else:
            found = [replace(f, waived=waiver.reason) if f in matching else f for f in found]
    return found
