"""Ways to change a call that are likely to expose an edit: the names and constants in it, and neighbouring values.

In: an operation and the edits under test. Out: functions from a setting to another one.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..language import expr
from ..language.evaluate import evaluate
from ..language.expr import Binary, Expr, Inexact, Name
from ..language.model import Attribute, Op
from ..language.types import formulas, symbol_of
from ..oracle.extents import Facts
from ..oracle.sample import Setting
from .edit import Edit

LARGEST = 2**16  # the maximum extent that constants of a spec put into a call
LONGER = 0.15  # how often a list gets one more entry
_NAME = re.compile(r"[A-Za-z][\w-]*")
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,18}(?![\w.])")
Knob = Callable[[np.random.Generator, Setting], Setting]


def named(op: Op, edits: Sequence[Edit]) -> tuple[set[str], set[int]]:
    """The names and numbers in the edits, and the names that decide whether these matter."""
    text = " ".join(f"{edit.path.replace('.', ' ')} {edit.was} {edit.now}" for edit in edits)
    names = set(_NAME.findall(text))
    for tensor in op.tensors:  # the sizes that split a tensor
        if any(f".{tensor.name}.arrangements" in edit.path for edit in edits):
            names |= {
                name
                for dims in tensor.dims_by_arrangement.values()
                for size in dims.values()
                for name in expr.names(size.tree)
            }
    lets, changed = op.lets, {symbol for symbol in op.lets if any(symbol in e.path.split(".") for e in edits)}
    for _ in lets:  # values computed from a changed value, and the word that selects it
        changed |= {s for s, let in lets.items() if any(expr.names(f.tree) & changed for f in formulas(let))}
    waiting = [*changed, *(names & lets.keys())]
    while waiting:  # the inputs of a value
        let = lets[symbol := waiting.pop()]
        made = frozenset[str]().union(*(expr.names(f.tree) for f in formulas(let)))
        waiting += [name for name in made - names if name in lets and name != symbol]
        names |= {let.by or symbol, *made}
    return names, {int(number) for number in _NUMBER.findall(text)}


def knobs_of(op: Op, other: Op, constants: set[int], sizes: Mapping[str, Any]) -> Iterator[tuple[set[str], Knob]]:
    """Every way to change a setting, with the names that it affects."""
    near = {number + step for number in constants for step in (-1, 0, 1, 2)}
    for name in dict.fromkeys(a.name or "" for a in (*op.attributes, *other.attributes)):
        both = [a for side in (op, other) for a in side.attributes if a.name == name]
        spoken = {name, *(symbol_of(a) for a in both), *(word for a in both for word in _words(a))}
        listed = both[0].type == "s64[]"
        yield spoken, functools.partial(_stated, name=name, choices=_choices(both, near), listed=listed)
    extents = sorted({0, 1, 2, 3, 4, *(number for number in near if 0 <= number <= LARGEST)})
    for role, dim in op.dims.items():
        yield {role, dim.symbol}, functools.partial(_sized, symbol=dim.symbol, choices=extents)
    for tensor in op.inputs:
        if tensor.optional or tensor.shape_of:
            yield {tensor.name}, functools.partial(_toggled, name=tensor.name)
    for tensor in op.tensors:
        arrangements = list(tensor.dims_by_arrangement)
        if len(arrangements) > 1:
            yield {tensor.name, *arrangements}, functools.partial(_arranged, name=tensor.name, choices=arrangements)
    rows = [row for row in (*op.dtypes, *other.dtypes) if op.output.name in row]
    yield {"dtypes"}, functools.partial(_typed, choices=rows)
    if any(isinstance(size, tuple) for size in sizes.values()):
        yield {"spatial_rank"}, _reranked


def _words(attribute: Attribute) -> list[str]:
    allowed = [word for value in attribute.values or () for word in (value.value, *value.aliases)]
    return [*allowed, *(refused.value for refused in attribute.refuse or ())]


def _choices(sides: Sequence[Attribute], near: set[int]) -> list[Any]:
    """Values of an attribute from either declaration, and those next to its bounds; None leaves it out."""
    if sides[0].shape_of:  # its value follows from the sizes
        return [None]
    if sides[0].type == "string":
        return [None, *dict.fromkeys(word for a in sides for word in _words(a))]
    bounds = {b + step for a in sides for b in (a.min, a.max) if b is not None for step in (-1, 0, 1)}
    defaults = {float(a.default) for a in sides if a.default is not None}
    found: list[Any] = sorted({0.0, 1.0, 2.0, 3.0} | {float(n) for n in bounds | near} | defaults)
    return [None, *(found if sides[0].type == "f32" else map(int, found))]


def _stated(rng: np.random.Generator, setting: Setting, name: str, choices: Sequence[Any], listed: bool) -> Setting:
    """An attribute passed differently: another value, a list with one entry more or fewer, or left out."""
    values = dict(setting.values)
    value = choices[int(rng.integers(len(choices)))]
    if value is None:
        values.pop(name, None)
    elif not listed:
        values[name] = value
    else:
        entries = [*values.get(name, (value,) * rank_of(setting))]
        longer = not entries or rng.random() < LONGER
        at = len(entries) if longer else int(rng.integers(len(entries)))
        values[name] = (*entries[:at], value, *entries[at + 1 :])
    return dataclasses.replace(setting, values=values)


def rank_of(setting: Setting) -> int:
    return next((len(size) for size in setting.sizes.values() if isinstance(size, tuple)), 0)


def _sized(rng: np.random.Generator, setting: Setting, symbol: str, choices: Sequence[int]) -> Setting:
    size, value = setting.sizes.get(symbol), choices[int(rng.integers(len(choices)))]
    if isinstance(size, tuple):
        if not size:
            return setting
        axis = int(rng.integers(len(size)))
        return with_size(setting, symbol, (*size[:axis], value, *size[axis + 1 :]))
    return with_size(setting, symbol, value)


def with_size(setting: Setting, symbol: str, size: Any) -> Setting:
    return dataclasses.replace(setting, sizes={**setting.sizes, symbol: size})


def _toggled(rng: np.random.Generator, setting: Setting, name: str) -> Setting:
    return dataclasses.replace(setting, given=setting.given ^ {name})


def _arranged(rng: np.random.Generator, setting: Setting, name: str, choices: Sequence[str]) -> Setting:
    return dataclasses.replace(
        setting, arrangements={**setting.arrangements, name: choices[int(rng.integers(len(choices)))]}
    )


def _typed(rng: np.random.Generator, setting: Setting, choices: Sequence[Mapping[str, str]]) -> Setting:
    return dataclasses.replace(setting, row=choices[int(rng.integers(len(choices)))])


def _reranked(rng: np.random.Generator, setting: Setting) -> Setting:
    """One more spatial axis, a copy of the first, or one fewer."""
    more = rng.random() < 0.5
    return along(setting, lambda entries: (entries[0], *entries) if more else entries[1:])


def along(setting: Setting, change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Setting:
    """Every value per spatial axis changed in the same way."""
    if rank_of(setting) == 0:
        return setting

    def each_of(values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: change(value) if isinstance(value, tuple) and value else value for name, value in values.items()}

    return dataclasses.replace(setting, sizes=each_of(setting.sizes), values=each_of(setting.values))


def _without(entries: tuple[Any, ...], axis: int) -> tuple[Any, ...]:
    return entries[:axis] + entries[axis + 1 :]


def levels(op: Op, names: set[str], constants: set[int]) -> Iterator[Knob]:
    """Several sizes and numbers set near one value: exposes differences for equal or jointly large values."""
    near = sorted({number for number in constants if 1 < number <= LARGEST} | {2, 3, 5, 9, 17, 40, 100})
    numbers = [a for a in op.attributes if a.type in ("s64", "s64[]") and not a.shape_of]
    symbols = names | {symbol_of(a) for a in numbers if a.name in names}
    bound = (expr.names(c.expr.tree) for c in op.constraints if c.expr)
    names = symbols.union(*(constrained for constrained in bound if constrained & symbols))
    sizes = [dim.symbol for role, dim in op.dims.items() if {role, dim.symbol} & names]
    given = [a.name or "" for a in numbers if {a.name, symbol_of(a)} & names]
    lists = {a.name or "" for a in numbers if a.type == "s64[]"}
    if len(sizes) + len(given) > 1:
        yield functools.partial(_levelled, sizes=sizes, given=given, lists=lists, near=near)


def _levelled(
    rng: np.random.Generator, setting: Setting, sizes: list[str], given: list[str], lists: set[str], near: list[int]
) -> Setting:
    level = near[int(rng.integers(len(near)))]
    axis = int(rng.integers(max(rank_of(setting), 1)))
    levelled, stated = dict(setting.sizes), dict(setting.values)
    for number in rng.permutation(len(sizes) + len(given))[: int(rng.integers(2, 5))]:
        value = level + int(rng.integers(-1, 2))
        if number < len(sizes):
            symbol = sizes[number]
            levelled[symbol] = _at(levelled.get(symbol, value), axis, value)
        else:
            name = given[number - len(sizes)]
            empty = (value,) * rank_of(setting) if name in lists else value
            stated[name] = _at(stated.get(name, empty), axis, value)
    return dataclasses.replace(setting, sizes=levelled, values=stated)


def _at(entries: Any, axis: int, value: int) -> Any:
    """Replace a value, or the entry of one axis."""
    return (*entries[:axis], value, *entries[axis + 1 :]) if isinstance(entries, tuple) else value


def repaired(op: Op, setting: Setting, facts: Facts) -> Setting:
    """The setting with sizes adjusted to the simple equations among the operation's conditions."""
    sizes = dict(setting.sizes)
    for constraint in op.constraints:
        for tree in _demands(constraint.expr.tree) if constraint.expr else ():
            try:
                for name, other in ((tree.left, tree.right), (tree.right, tree.left)):
                    if isinstance(name, Name) and name.id in sizes:
                        sizes[name.id] = evaluate(other, {**facts, **sizes})
                        break
                    if isinstance(name, Binary) and name.op == "%" and isinstance(name.left, Name):
                        unit = evaluate(name.right, {**facts, **sizes})
                        size = sizes.get(name.left.id)
                        if isinstance(unit, int) and unit > 0 and isinstance(size, int):
                            sizes[name.left.id] = -(-size // unit) * unit
            except (Inexact, KeyError, TypeError):
                continue
    return dataclasses.replace(setting, sizes=sizes)


def _demands(tree: Expr) -> Iterator[Binary]:
    """The equations in a conjunction."""
    if isinstance(tree, Binary) and tree.op == "and":
        yield from (*_demands(tree.left), *_demands(tree.right))
    elif isinstance(tree, Binary) and tree.op == "==":
        yield tree
