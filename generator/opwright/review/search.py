"""Searches for a call on which two states of an operation differ, with the spec's interpreter.

In: the operation before and after, and the edits between them that are looked at. Out: a small call, or how many were
tried. Legal calls of both sides are changed in one to three places, most often in what the edits are about; a call
that is found is made as short and small as it may be. The same calls are tried at every run, and none is large,
whatever a spec says.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..calls.call_text import CallText, TensorText
from ..emit.python_module import parameter_name
from ..language import expr
from ..language.expr import Inexact
from ..language.model import Attribute, Op
from ..language.types import formulas, symbol_of
from ..oracle import sample
from ..oracle.interpret import compute
from ..oracle.sample import Setting
from ..oracle.validate import NUMPY, Array, Judgement, each, judge
from .evidence import NO_OPERATION, Outcome
from .tree import exact
from .walk import Edit

TERMS = 2**16  # index tuples that the interpreter visits for one call
LARGEST = 16  # the greatest extent that a spec's own constants put into a call
FOCUS = 0.75  # how often a change hits what the edits are about
EFFORT = 500  # simpler calls that are tried once one is found: one step simpler, then two
_NAME = re.compile(r"[A-Za-z][\w-]*")
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,18}(?![\w.])")
Knob = Callable[[np.random.Generator, Setting], Setting]


class Reading:
    """What one side makes of a call; what it computes, only when asked, and None where that is too much."""

    def __init__(self, op: Op | None, call: CallText, tensors: Mapping[str, Array]) -> None:
        self.outcome, self.op = NO_OPERATION, op
        if op is None or op.function != call.function:
            return
        self.inputs, self.attributes = taken(op, call, tensors)
        self.judged = judge(op, self.inputs, self.attributes)
        self.outcome = Outcome(self.judged.violations)
        if self.judged.accepted and self.judged.row is not None:
            self.outcome = Outcome((), self.judged.row[op.output.name], self.judged.shape or ())

    @functools.cached_property
    def result(self) -> Array | None:
        if self.op is None or not self.outcome.accepted or math.prod(self.outcome.shape) > sample.MOST:
            return None
        return compute(self.op, self.inputs, self.attributes) if terms(self.op, self.judged) <= TERMS else None

    def computes_as(self, other: Reading) -> bool:
        """Whether nothing that a result follows from is another; the reverse does not hold."""
        return self.op is other.op or (
            self.op is not None
            and other.op is not None
            and _meaning(self.op) == _meaning(other.op)
            and all(
                getattr(self.judged, name) == getattr(other.judged, name)
                for name in ("values", "arrangements", "layouts", "row")
            )
        )


@functools.lru_cache(maxsize=64)
def _meaning(op: Op) -> str:
    """What a result follows from, beside the values of a call."""
    return repr(exact((op.semantics, op.layouts, op.inputs, op.outputs)))


DATA: Mapping[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "integers": lambda rng, shape: rng.integers(-4, 5, shape),
    "normal": lambda rng, shape: rng.standard_normal(shape),
}


def data(call: CallText, values: str = "integers") -> dict[str, Array]:
    """The tensors of a call: numbers that follow from each tensor's name and shape, exact unless `normal` are asked."""
    found = {}
    for name, tensor in call.tensors.items():
        rng = np.random.default_rng(zlib.crc32(f"{name}{tensor.shape}".encode()))
        found[name] = DATA[values](rng, tensor.shape).astype(NUMPY[tensor.dtype])
    return found


def taken(op: Op, call: CallText, tensors: Mapping[str, Array]) -> tuple[list[Array | None], dict[str, Any]]:
    """The inputs and attributes of a call as an operation takes them; what it has no name for is an attribute."""
    arguments: dict[str, Any] = dict(tensors)
    names = [parameter_name(tensor) for tensor in op.inputs]
    for name, value in call.values.items():
        arguments[name] = np.array(value, np.int32) if name in names and isinstance(value, list) else value
    return [arguments.pop(name, None) for name in names], arguments


def terms(op: Op, judged: Judgement) -> int:
    """How many index tuples the semantics visit."""
    return math.prod(
        e for extent in op.semantics.ranges.values() for e in each(expr.evaluate(extent.tree, judged.values))
    )


@dataclass(frozen=True)
class Difference:
    """What each side does, and how that differs.

    `kind` is `refused` (now, and was not), `accepted` (now, and was not), `shape`, `values`, `rules` (refused by both,
    by other rules), or nothing where the sides do the same.
    """

    kind: str = ""
    base: Outcome = NO_OPERATION
    head: Outcome = NO_OPERATION

    @property
    def broken(self) -> int:
        return len(self.base.rules) + len(self.head.rules)


def difference(base: Reading, head: Reading) -> Difference:
    old, new = base.outcome, head.outcome
    if old.accepted != new.accepted:
        kind = "refused" if old.accepted else "accepted"
    elif old != new:
        kind = "shape" if old.accepted else "rules"
    elif old.accepted and not base.computes_as(head) and _values_differ(base.result, head.result):
        kind = "values"
    else:
        kind = ""
    return Difference(kind, old, new)


def _values_differ(old: Array | None, new: Array | None) -> bool:
    if old is None or new is None:
        return False
    return not np.array_equal(old.astype(float), new.astype(float), equal_nan=True)


@dataclass(frozen=True)
class Sides:
    """An operation before and after a change; `alone` is the base with only those edits that are looked at."""

    base: Op | None
    head: Op | None
    alone: Op | None

    def read(self, call: CallText) -> tuple[Reading, Reading]:
        """The call as either side has it."""
        tensors = data(call)
        return Reading(self.base, call, tensors), Reading(self.head, call, tensors)

    def differ(self, call: CallText) -> Difference:
        """How a call's meaning changes by these edits; of no kind where others share in it."""
        base, head = self.read(call)
        found = difference(base, head)
        if not found.kind or self.alone is self.head or self.alone is None:
            return found
        return found if found == difference(base, Reading(self.alone, call, data(call))) else Difference()


@dataclass(frozen=True)
class Found:
    """A call, or none, and how many were tried."""

    call: CallText | None
    tried: int


def search(sides: Sides, edits: Sequence[Edit], wanted: Sequence[Sequence[str]], tries: int) -> Found:
    """A call on which the sides differ, of a kind that is wanted, the first group of kinds before the others."""
    rng = np.random.default_rng(sample.SEED)
    places = [place for op, other in _origins(sides) if (place := _Place(op, other, edits)).seeds]
    ranks = {kind: rank for rank, kinds in enumerate(wanted) for kind in kinds}
    best: tuple[int, _Place, Setting, Difference] | None = None
    tried = 0
    while places and tried < tries and not (best and (best[0] == 0 or tried > tries // 2)):
        place = places[tried % len(places)]
        setting = place.setting(rng, tried // len(places))
        told = place.differ(sides, setting)
        if told.kind == "rules":
            place.keep(setting, told.broken)
        rank = ranks.get(told.kind, len(wanted))
        if rank < (best[0] if best else len(wanted)):
            best = (rank, place, setting, told)
        tried += 1
    if best is None:
        return Found(None, tried)
    _, place, setting, told = best
    return Found(call_of(place.op, _least(place, sides, setting, told)), tried)


def _origins(sides: Sides) -> Iterator[tuple[Op, Op]]:
    after = sides.alone or sides.head
    if sides.base is not None:
        yield sides.base, after or sides.base
    if after is not None and after is not sides.base:
        yield after, sides.base or after


@functools.lru_cache(maxsize=64)
def legal_settings(op: Op) -> tuple[Setting, ...]:
    """Legal calls, the smallest first; none of an operation that lacks a part."""
    try:
        return tuple(sorted((setting for setting, *_ in sample.legal(op)), key=_size))
    except Exception:  # an operation between two sides need not make sense
        return ()


def _size(setting: Setting) -> int:
    return sum(entry for size in setting.sizes.values() for entry in each(size))


def call_of(op: Op, setting: Setting) -> CallText | None:
    """The call of a setting; None where the sizes make no shapes, or too large ones."""
    try:
        made = sample.arguments(op, setting)
    except (Inexact, KeyError, TypeError, ValueError):
        return None
    if any(min(shape, default=0) < 0 or math.prod(shape) > sample.MOST for _, shape in made.tensors.values()):
        return None
    names = {tensor.name: parameter_name(tensor) for tensor in op.inputs}
    order = {attribute.name: number for number, attribute in enumerate(op.attributes)}
    stated = sorted(made.values.items(), key=lambda item: order.get(item[0], len(order)))
    return CallText(
        op.function,
        {names[n]: TensorText(dtype, shape) for n, (dtype, shape) in made.tensors.items() if n in names},
        {**{names[n]: shape for n, shape in made.vectors.items()}, **{n: _plain(value) for n, value in stated}},
    )


def has_calls(op: Op | None) -> bool:
    """Whether an operation can be called at all; one between two sides need not make sense."""
    return op is not None and bool(legal_settings(op))


class _Place:
    """Calls as one side would write them, and the ways in which they can be changed."""

    def __init__(self, op: Op, other: Op, edits: Sequence[Edit]) -> None:
        self.op, self.seeds = op, legal_settings(op)
        self.near: list[Setting] = []
        self.broken = 0
        names, constants = _about(op, edits)
        knobs = list(_knobs(op, other, constants))
        self.knobs = [knob for _, knob in knobs]
        self.focused = [knob for about, knob in knobs if about & names] or self.knobs

    def keep(self, setting: Setting, broken: int) -> None:
        """A call that both sides refuse, not for the same reasons, nearly tells; the fewer reasons the better."""
        if not self.near or broken < self.broken:
            self.near, self.broken = [], broken
        if broken == self.broken:
            self.near.append(setting)

    def setting(self, rng: np.random.Generator, number: int) -> Setting:
        """First the legal calls themselves, then changed ones."""
        if number < len(self.seeds):
            return self.seeds[number]
        near = bool(self.near) and rng.random() < 0.5
        known = self.near if near else self.seeds
        found = known[int(rng.integers(len(known)))]
        for _ in range(int(rng.integers(1, 4))):
            knobs = self.focused if not near and rng.random() < FOCUS else self.knobs
            found = knobs[int(rng.integers(len(knobs)))](rng, found)
        return found

    def differ(self, sides: Sides, setting: Setting) -> Difference:
        call = None if sample.too_big(setting) else call_of(self.op, setting)
        try:
            return sides.differ(call) if call else Difference()
        except Exception:  # an operation between two sides need not make sense
            return Difference()


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


# What edits are about.


def _about(op: Op, edits: Sequence[Edit]) -> tuple[set[str], set[int]]:
    """The names and the numbers that edits speak of, and the names that decide whether those matter."""
    text = " ".join(f"{edit.path.replace('.', ' ')} {edit.was} {edit.now}" for edit in edits)
    names = set(_NAME.findall(text))
    lets, changed = op.lets, {symbol for symbol in op.lets if any(symbol in e.path.split(".") for e in edits)}
    for _ in lets:  # what is computed from a changed value, and the word that chooses it
        changed |= {s for s, let in lets.items() if any(expr.names(f.tree) & changed for f in formulas(let))}
    for symbol in changed:
        names |= {lets[symbol].by or symbol}.union(*(expr.names(f.tree) for f in formulas(lets[symbol])))
    return names, {int(number) for number in _NUMBER.findall(text)}


def _knobs(op: Op, other: Op, constants: set[int]) -> Iterator[tuple[set[str], Knob]]:
    """Every way to change a setting, with the names that it goes by."""
    near = {number + step for number in constants for step in (-1, 0, 1, 2)}
    for name in dict.fromkeys(a.name or "" for a in (*op.attributes, *other.attributes)):
        both = [a for side in (op, other) for a in side.attributes if a.name == name]
        spoken = {name, *(symbol_of(a) for a in both), *(word for a in both for word in _words(a))}
        listed = both[0].type == "s64[]"
        yield spoken, functools.partial(_stated, name=name, choices=_choices(both, near), listed=listed)
    extents = sorted({0, 1, 2, 3, 4, *(number for number in near if 0 <= number <= LARGEST)})
    for role, dim in op.dims.items():
        yield {role, dim.symbol}, functools.partial(_sized, symbol=dim.symbol, choices=extents)
    for tensor in op.tensors:
        if tensor.optional:
            yield {tensor.name}, functools.partial(_toggled, name=tensor.name)
        ways = list(tensor.ways)
        if len(ways) > 1:
            yield {tensor.name, *ways}, functools.partial(_arranged, name=tensor.name, choices=ways)
    rows = [row for row in (*op.dtypes, *other.dtypes) if op.output.name in row]
    yield {"dtypes"}, functools.partial(_typed, choices=rows)
    if any(isinstance(size, tuple) for seed in legal_settings(op)[:1] for size in seed.sizes.values()):
        yield {"spatial_rank"}, _reranked


def _words(attribute: Attribute) -> list[str]:
    allowed = [word for value in attribute.values or () for word in (value.value, *value.aliases)]
    return [*allowed, *(refused.value for refused in attribute.refuse or ())]


def _choices(sides: Sequence[Attribute], near: set[int]) -> list[Any]:
    """Values of an attribute that one of its declarations knows, and those next to its bounds; None leaves it out."""
    if sides[0].shape_of:  # its value follows from the sizes
        return [None]
    if sides[0].type == "string":
        return [None, *dict.fromkeys(word for a in sides for word in _words(a))]
    bounds = {b + step for a in sides for b in (a.min, a.max) if b is not None for step in (-1, 0, 1)}
    defaults = {float(a.default) for a in sides if a.default is not None}
    found: list[Any] = sorted({0.0, 1.0, 2.0, 3.0} | {float(n) for n in bounds | near} | defaults)
    return [None, *(found if sides[0].type == "f32" else map(int, found))]


def _stated(rng: np.random.Generator, setting: Setting, name: str, choices: Sequence[Any], listed: bool) -> Setting:
    """An attribute given otherwise: another value, a list with one entry more or less, or not at all."""
    values = dict(setting.values)
    value = choices[int(rng.integers(len(choices)))]
    if value is None:
        values.pop(name, None)
    elif not listed:
        values[name] = value
    else:
        entries = [*values.get(name, (value,) * _rank(setting))]
        at = int(rng.integers(len(entries) + 1))  # behind the last entry: one more
        values[name] = (*entries[:at], value, *entries[at + 1 :])
    return dataclasses.replace(setting, values=values)


def _rank(setting: Setting) -> int:
    return next((len(size) for size in setting.sizes.values() if isinstance(size, tuple)), 0)


def _sized(rng: np.random.Generator, setting: Setting, symbol: str, choices: Sequence[int]) -> Setting:
    size, value = setting.sizes.get(symbol), choices[int(rng.integers(len(choices)))]
    if isinstance(size, tuple):
        if not size:
            return setting
        axis = int(rng.integers(len(size)))
        return _with_size(setting, symbol, (*size[:axis], value, *size[axis + 1 :]))
    return _with_size(setting, symbol, value)


def _with_size(setting: Setting, symbol: str, size: Any) -> Setting:
    return dataclasses.replace(setting, sizes={**setting.sizes, symbol: size})


def _toggled(rng: np.random.Generator, setting: Setting, name: str) -> Setting:
    return dataclasses.replace(setting, given=setting.given ^ {name})


def _arranged(rng: np.random.Generator, setting: Setting, name: str, choices: Sequence[str]) -> Setting:
    return dataclasses.replace(setting, ways={**setting.ways, name: choices[int(rng.integers(len(choices)))]})


def _typed(rng: np.random.Generator, setting: Setting, choices: Sequence[Mapping[str, str]]) -> Setting:
    return dataclasses.replace(setting, row=choices[int(rng.integers(len(choices)))])


def _reranked(rng: np.random.Generator, setting: Setting) -> Setting:
    """One spatial axis more, a copy of the first, or one less."""
    more = rng.random() < 0.5
    return _along(setting, lambda entries: (entries[0], *entries) if more else entries[1:])


def _along(setting: Setting, change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Setting:
    """Every value per spatial axis changed in the same way."""
    if _rank(setting) == 0:
        return setting

    def each_of(values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: change(value) if isinstance(value, tuple) and value else value for name, value in values.items()}

    return dataclasses.replace(setting, sizes=each_of(setting.sizes), values=each_of(setting.values))


def _without(entries: tuple[Any, ...], axis: int) -> tuple[Any, ...]:
    return entries[:axis] + entries[axis + 1 :]


# A call as short and small as it may be.


def _least(place: _Place, sides: Sides, setting: Setting, told: Difference) -> Setting:
    """The call with everything taken away that its difference does not need."""

    def same(smaller: Setting) -> bool:
        now = place.differ(sides, smaller)
        pairs = ((now.base, told.base), (now.head, told.head))
        return now.kind == told.kind and all({*found.rules} <= {*old.rules} for found, old in pairs)

    left = EFFORT
    while left > 0:
        once = list(_smaller(place.op, setting))
        twice = (two for one in once for two in _smaller(place.op, one))
        for simpler in itertools.islice(itertools.chain(once, twice), left):
            left -= 1
            if same(simpler):
                setting = simpler
                break
        else:
            break
    return setting


def _smaller(op: Op, setting: Setting) -> Iterator[Setting]:
    """Simpler settings, the greatest simplification first."""
    plain = {attribute.name or "": _plainest(attribute) for attribute in op.attributes}
    required = {attribute.name for attribute in op.attributes if attribute.required}
    ones = {symbol: _all(size, 1) for symbol, size in setting.sizes.items()}
    least = {name: _all(value, plain.get(name)) for name, value in setting.values.items() if name in required}
    for simpler in (
        Setting(ones, least, frozenset(), setting.ways, op.dtypes[0]),
        dataclasses.replace(setting, sizes=ones),
        dataclasses.replace(setting, values=least),
    ):
        if simpler != setting:
            yield simpler
    if _rank(setting) > 1:
        for axis in range(_rank(setting)):
            yield _along(setting, functools.partial(_without, axis=axis))
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
            yield _with_size(setting, symbol, entry)


def _all(value: Any, plain: Any) -> Any:
    """The plain value in place of each entry; what has none stays."""
    return value if plain is None else (plain,) * len(value) if isinstance(value, tuple) else plain


def _plainest(attribute: Attribute) -> Any:
    """The value that says least."""
    if attribute.type == "string":
        return next((value.value for value in attribute.values or ()), None)
    return attribute.neutral if attribute.neutral is not None else attribute.min or 0


def _lower(value: Any, plain: Any) -> Iterator[Any]:
    """Values nearer to the plain one: that itself, then one step towards it."""
    if isinstance(value, tuple):
        for axis, entry in enumerate(value):
            for lower in _lower(entry, plain):
                yield (*value[:axis], lower, *value[axis + 1 :])
    elif plain is not None and value != plain:
        yield plain
        if isinstance(value, int) and isinstance(plain, int) and value > plain + 1:
            yield value - 1
