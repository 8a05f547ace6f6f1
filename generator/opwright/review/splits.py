"""What an edit does to the ways in which operations may be split: those that came, went or changed.

In: the operations that changed. Out: edits that follow from edits of specs. A way is known by the role of its size, not
by letters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ..derive.splitting.split import WHOLE, Split
from ..derive.splitting.table import table
from ..emit.split_prose import sentence
from ..language.model import Op
from .edit import Edit


def edits(changed: Iterable[tuple[Op, Op]]) -> Iterator[Edit]:
    """An edit for each way of an operation that both sides have and that may no longer be gone, or that is new."""
    for old, op in changed:
        was, now = _splits(old), _splits(op)
        for role in dict.fromkeys([*was, *now]):
            yield from _edits(old, op, role, was.get(role, {}), now.get(role, {}))


def _splits(op: Op) -> dict[str, dict[str, Split]]:
    """The splits of an operation by the role of the size, then by when they hold."""
    roles = {dim.symbol: role for role, dim in op.dims.items()}
    roles |= {a.symbol or "": a.name or "" for a in op.attributes if a.type == "s64"}
    found: dict[str, dict[str, Split]] = {}
    for split in table(op):
        when = " and ".join(f"{name} is {value}" for name, value in (*split.when.items(), *split.arrangements.items()))
        found.setdefault(roles[split.size], {})[when] = split
    return found


def _edits(old: Op, new: Op, role: str, was: Mapping[str, Split], now: Mapping[str, Split]) -> Iterator[Edit]:
    free = [{when: split for when, split in side.items() if split.kind != WHOLE} for side in (was, now)]
    for when in dict.fromkeys([*free[0], *free[1]]):
        one, other = free[0].get(when), free[1].get(when)
        sentences = (sentence(old, one) if one else "nothing", sentence(new, other) if other else "nothing")
        if other is None and (whole := next(iter(now.values()), None)):
            sentences = (sentences[0], sentence(new, whole))
        change = "added" if one is None else "removed" if other is None else "changed"
        if one is None or other is None or _meaning(one, new) != _meaning(other, old):
            places = (old.semantics.at, new.semantics.at)
            path = f"splits.{role}" + (f" where {when}" if when else "")
            yield Edit(f"split-way-{change}", new.op, path, *sentences, *places, lambda made: made)


def _meaning(split: Split, other: Op) -> tuple[object, ...]:
    """What callers notice, as far as the other side has the same tensors."""
    names = {tensor.name for tensor in other.tensors}
    joins = {name: join for name, join in split.joins.items() if name in names}
    stretched = {name: join for name, join in split.stretched.items() if name in names}
    cut = names & split.axes.keys()
    return split.kind, split.reach, joins, stretched, len(split.rows), cut, sorted(split.attributes.values())
