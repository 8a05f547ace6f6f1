"""What execution tells apart though a review calls it harmless: calls that break, found by the interpreter on both sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from unittest import mock

from opwright.language.library import Library
from opwright.oracle import sample
from opwright.review import compare
from opwright.review.readings import Sides
from opwright.review.rules import RULES
from opwright.review.search import Found, search
from opwright.review.tree import said
from opwright.review.walk import Edit
from opwright.review.witness import BREAKS, MIN_TRIES, claimed

HARMLESS = ("none", "compatible")


def broken(base: Library, head: Library, seed: int, calls: int) -> Iterator[str]:
    """For each operation of which every edit is called harmless, a call that breaks, if one is found."""
    edits = compare.edits(base, head)
    olds, news = ({op.op: op for op in library.ops} for library in (base, head))
    for name in olds.keys() & news.keys():
        own = [edit for edit in edits if edit.op == name]
        told = {RULES[edit.rule] for edit in own}
        if not own or any(rule.contract not in HARMLESS for rule in told):
            continue
        sides = Sides(olds[name], news[name], news[name])
        found = _apart(sides, own, seed, calls)
        doubted = any(claimed(rule) for rule in told) and search(sides, own, (BREAKS,), MIN_TRIES).call
        if found.call and not doubted:
            yield f"{name}: {sorted(rule.id for rule in told)}: {found.call} {found.kind}"


def _apart(sides: Sides, own: Sequence[Edit], seed: int, calls: int) -> Found:
    """A call near what the edits speak of, or else one anywhere, its tensors without names."""
    anywhere = Edit("input-order-changed", "", "", said(sides.base), said(sides.head), None, None, lambda op: op)
    with mock.patch.object(sample, "SEED", seed):
        found = search(sides, own, (BREAKS,), calls)
        return found if found.call else search(sides, [anywhere], (BREAKS,), calls)
