"""The phrases of a review that its forms share.

In: a Review, or a Finding of it. Out: text. Spec text stands in it as it is: each form makes it inert in its own way.
"""

from __future__ import annotations

from collections import Counter

from ..errors import inert
from . import values
from .findings import Finding, Review
from .hunks import hunks
from .rules import CONTRACTS, SEVERITIES

LISTED = 8  # files that are named; the rest is counted
SHOWN = 2  # kernels that are named
WITHOUT_EFFECT = "without effect on callers"


def severity(finding: Finding) -> str:
    """The finding's severity, or that it is waived."""
    return "waived" if finding.waived else finding.severity


def ops(finding: Finding) -> str:
    return ", ".join(finding.ops) if len(finding.ops) < 4 else f"{len(finding.ops)} operations"


def change(finding: Finding) -> str:
    """What was and what is, or what is found."""
    return f"{finding.path}: {finding.was} -> {finding.now}" if finding.now else finding.was


def contracts(review: Review) -> dict[str, int]:
    """How many findings there are of each contract, those that are waived left out."""
    counts = Counter(finding.rule.contract for finding in review.findings if not finding.waived)
    return {contract: counts[contract] for contract in CONTRACTS}


def lead(review: Review) -> str:
    """`2 breaking, 1 dangerous`: what a report starts with."""
    waived = sum(bool(finding.waived) for finding in review.findings)
    names = {**{contract: contract for contract in CONTRACTS}, "none": WITHOUT_EFFECT}
    said = [f"{count} {names[contract]}" for contract, count in contracts(review).items() if count]
    return ", ".join([*said, *([f"{waived} waived"] if waived else [])]) or "no findings"


def compared(review: Review) -> str:
    """`base: git:main; head: the working tree`."""
    return f"base: {review.base}; head: {review.head}"


def summary(review: Review) -> str:
    """One line: how many findings of each severity, and whether the prediction held."""
    counts = Counter(finding.severity for finding in review.findings if not finding.waived)
    said = ", ".join(f"{counts[s]} {s}{'s' * (counts[s] != 1 and s != 'info')}" for s in SEVERITIES if counts[s])
    waived = sum(bool(finding.waived) for finding in review.findings)
    prediction = "NOT as predicted" if review.impact.unpredicted else "as predicted"
    moved = review.impact.observed
    effect = f"{len(moved.files)} files and {len(moved.kernels)} kernels change, {prediction}"
    if moved.added or moved.removed:
        effect += f"; {len(moved.added)} kernels added, {len(moved.removed)} removed"
    return f"{said or 'no findings'}{f', {waived} waived' if waived else ''}; {effect}"


def kernels(finding: Finding, review: Review) -> str:
    """How many kernels a finding moves, and the first of them."""
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
    """The first files that a finding moves."""
    names = sorted(finding.moved.files)
    rest = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + rest if names else "none"


def witness(finding: Finding) -> list[str]:
    """The lines about a finding's witness; none where none was searched."""
    first, *rest = finding.witness.lines() if finding.witness else [""]
    return [f"witness: {first}", *(f"         {line}" for line in rest)] if first else []


def code_changes(review: Review) -> list[str]:
    """The changed kernels as hunks; files with the same hunks stand together over one print of them."""
    printed = []
    for hunk in hunks(review.impact):
        names = [f"{path} ({count} times)" if count > 1 else path for path, count in hunk.files.items()]
        printed += [f"@@ {', '.join(names)}", "\n".join(map(inert, hunk.lines)), ""]
    return printed
