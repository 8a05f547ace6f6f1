"""The phrases that all formats of a review share.

In: a Review, or a Finding of it. Out: text. It contains raw spec text: each format escapes it in its own way.
"""

from __future__ import annotations

from collections import Counter

from ..errors import count, inert
from . import values
from .findings import Finding, Review
from .hunks import hunks
from .rules import CONTRACTS, SEVERITIES

LISTED = 8  # files that are named; the others are counted
SHOWN = 2  # kernels that are named
WITHOUT_EFFECT = "without effect on callers"


def severity(finding: Finding) -> str:
    """The finding's severity, or that it is waived."""
    return "waived" if finding.waived else finding.severity


def ops(finding: Finding) -> str:
    return ", ".join(finding.ops) if len(finding.ops) < 4 else f"{len(finding.ops)} operations"


def change(finding: Finding) -> str:
    """The old and the new value, or what was found."""
    return f"{finding.path}: {finding.was} -> {finding.now}" if finding.now else finding.was


def contracts(review: Review) -> dict[str, int]:
    """The number of findings of each contract, without waived ones."""
    counts = Counter(finding.rule.contract for finding in review.findings if not finding.waived)
    return {contract: counts[contract] for contract in CONTRACTS}


def lead(review: Review) -> str:
    """`2 breaking, 1 dangerous`: the first words of a report."""
    waived = sum(bool(finding.waived) for finding in review.findings)
    names = {**{contract: contract for contract in CONTRACTS}, "none": WITHOUT_EFFECT}
    counts = [f"{count} {names[contract]}" for contract, count in contracts(review).items() if count]
    return ", ".join([*counts, *([f"{waived} waived"] if waived else [])]) or "no findings"


def compared(review: Review) -> str:
    """`base: git:main; head: the working tree`."""
    return f"base: {review.base}; head: {review.head}"


def summary(review: Review) -> str:
    """One line: the number of findings of each severity, and whether the prediction held."""
    counts = Counter(finding.severity for finding in review.findings if not finding.waived)
    counted = ", ".join(f"{counts[s]} {s}{'s' * (counts[s] != 1 and s != 'info')}" for s in SEVERITIES if counts[s])
    waived = sum(bool(finding.waived) for finding in review.findings)
    prediction = "NOT as predicted" if review.impact.unpredicted else "as predicted"
    moved = review.impact.observed
    effect = f"{count(len(moved.files), 'file')} and {count(len(moved.kernels), 'kernel')} change, {prediction}"
    if moved.added or moved.removed:
        effect += f"; {count(len(moved.added), 'kernel')} added, {len(moved.removed)} removed"
    return f"{counted or 'no findings'}{f', {waived} waived' if waived else ''}; {effect}"


def kernels(finding: Finding, review: Review) -> str:
    """How many kernels a finding changes, and the first of them."""
    moved = finding.moved
    parts = []
    if moved.kernels:
        parts.append(f"{len(moved.kernels)} of {review.impact.kernels} change: {_some(moved.kernels)}")
    parts += [f"{len(names)} {word}: {_some(names)}" for word, names in
              (("added", moved.added), ("removed", moved.removed)) if names]  # fmt: skip
    parts += filter(None, [values.summary(review, finding)])
    return "; ".join(parts) or f"none of {review.impact.kernels} changes"


def _some(names: frozenset[str]) -> str:
    shown = sorted(names)[:SHOWN]
    return ", ".join(shown) + (", ..." if len(names) > len(shown) else "")


def files(finding: Finding) -> str:
    """The first files that a finding changes."""
    names = sorted(finding.moved.files)
    rest = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + rest if names else "none"


def witness(finding: Finding) -> list[str]:
    """The lines about a finding's witness; none if none was searched for."""
    first, *rest = finding.witness.lines() if finding.witness else [""]
    return [f"witness: {first}", *(f"         {line}" for line in rest)] if first else []


def code_changes(review: Review) -> list[str]:
    """The changed kernels as hunks; files with the same hunks are listed together above one copy."""
    printed = []
    for hunk in hunks(review.impact):
        names = [f"{path} ({count} times)" if count > 1 else path for path, count in hunk.files.items()]
        printed += [f"@@ {', '.join(names)}", "\n".join(map(inert, hunk.lines)), ""]
    return printed
