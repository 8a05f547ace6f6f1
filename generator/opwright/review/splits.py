"""What an edit does to the ways in which operations may be split: those that came, went or changed.

In: the operations that changed. Out: edits that follow from edits of specs. A way is known by the role of its size, not
by letters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ..derive.splitting.split import WHOLE, Split, Window
from ..derive.splitting.table import table
from ..emit.split_prose import sentence
from ..language.model import Op
from ..language.types import symbol_of
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
        if one is None or other is None or _meaning(one, old, new) != _meaning(other, new, old):
            places = (old.semantics.at, new.semantics.at)
            path = f"splits.{role}" + (f" where {when}" if when else "")
            yield Edit(f"split-way-{change}", new.op, path, *sentences, *places, lambda made: made)


def _meaning(split: Split, own: Op, other: Op) -> tuple[object, ...]:
    """What callers notice, as far as the other side has the same tensors and attributes."""
    names = {tensor.name for tensor in other.tensors}
    joins = {name: join for name, join in split.joins.items() if name in names}
    stretched = {name: join for name, join in split.stretched.items() if name in names}
    cut = {name: sorted(axes.values()) for name, axes in split.axes.items() if name in names}
    once = names & {*split.once}
    beside = (bool(split.beside), split.alone, split.reach)
    own_rules = _window(split.window, own, other) if split.window else ()
    return (
        split.kind,
        beside,
        joins,
        stretched,
        len(split.rows),
        cut,
        once,
        sorted(split.attributes.values()),
        own_rules,
    )


def _window(window: Window, own: Op, other: Op) -> tuple[object, ...]:
    """How windows lie and what a part of them states: attributes by name, or by '' if one side lacks them."""
    shared = {a.name for a in own.attributes} & {a.name for a in other.attributes}
    named = {symbol_of(a): a.name if a.name in shared else "" for a in own.attributes}
    named |= {symbol: symbol if symbol in other.lets else "" for symbol in own.lets}
    lie = [named.get(symbol, symbol) for symbol in (window.stride, window.dilation, window.pad)]
    states = [name if name in shared else bool(name) for name in (window.begin, window.end, window.extra, *window.zero)]
    words = {name: word for name, word in window.words.items() if name in shared}
    return (*lie, *states, words, window.kept)
