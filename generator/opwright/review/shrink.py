"""Minimises a call while the two sides still differ on it in the same way.

In: a setting, and a test whether another one is as good. Out: the smallest setting found.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ..language.model import Attribute, Op
from ..oracle.sample import Setting
from .knobs import along, rank_of, with_size

S = TypeVar("S")
EFFORT = 500  # simpler calls that are tried for a found one: one step simpler, then two


def smallest(setting: S, simpler: Callable[[S], Iterator[S]], same: Callable[[S], S | None]) -> S:
    """The call without everything that the difference does not need; `same` may adjust the setting."""
    left = EFFORT
    while left > 0:
        once = list(simpler(setting))
        twice = (two for one in once for two in simpler(one))
        for tried in itertools.islice(itertools.chain(once, twice), left):
            left -= 1
            if (found := same(tried)) is not None:
                setting = found
                break
        else:
            break
    return setting


def simpler(op: Op, setting: Setting) -> Iterator[Setting]:
    """Simpler settings, the greatest simplification first."""
    plain = {attribute.name or "": _plainest(attribute) for attribute in op.attributes}
    required = {attribute.name for attribute in op.attributes if attribute.required}
    ones = {symbol: _all(size, 1) for symbol, size in setting.sizes.items()}
    stated = {name: _all(value, plain.get(name)) for name, value in setting.values.items() if name in required}
    for plainer in (
        Setting(ones, stated, frozenset(), setting.arrangements, op.dtypes[0]),
        dataclasses.replace(setting, sizes=ones),
        dataclasses.replace(setting, values=stated),
    ):
        if plainer != setting:
            yield plainer
    if rank_of(setting) > 1:
        for axis in range(rank_of(setting)):
            yield along(setting, functools.partial(_without, axis=axis))
    for name in sorted(setting.given):
        yield dataclasses.replace(setting, given=setting.given - {name})
    if setting.row is not op.dtypes[0]:
        yield dataclasses.replace(setting, row=op.dtypes[0])
    for name in setting.values:
        yield dataclasses.replace(setting, values={n: v for n, v in setting.values.items() if n != name})
    canonical = {alias: v.value for a in op.attributes for v in a.values or () for alias in v.aliases}
    for name, value in setting.values.items():
        for entry in [canonical[value]] if value in canonical else _lower(value, plain.get(name)):
            yield dataclasses.replace(setting, values={**setting.values, name: entry})
    for symbol, size in setting.sizes.items():
        for entry in _lower(size, 1):
            yield with_size(setting, symbol, entry)


def _all(value: Any, plain: Any) -> Any:
    """Each entry replaced by its plain value, if it has one."""
    return value if plain is None else (plain,) * len(value) if isinstance(value, tuple) else plain


def _plainest(attribute: Attribute) -> Any:
    """The simplest value."""
    if attribute.type == "string":
        return next((value.value for value in attribute.values or ()), None)
    return attribute.neutral if attribute.neutral is not None else attribute.min or 0


def _lower(value: Any, plain: Any) -> Iterator[Any]:
    """Values nearer to the plain one: the plain one itself, then one step towards it."""
    if isinstance(value, tuple):
        for axis, entry in enumerate(value):
            for lower in _lower(entry, plain):
                yield (*value[:axis], lower, *value[axis + 1 :])
    elif plain is not None and value != plain:
        yield plain
        if isinstance(value, int) and isinstance(plain, int):
            if value > plain + 8:
                yield (value + plain) // 2
            if value > plain + 1:
                yield value - 1


def _without(entries: tuple[Any, ...], axis: int) -> tuple[Any, ...]:
    return entries[:axis] + entries[axis + 1 :]
