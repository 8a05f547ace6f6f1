"""Searches for a call on which two states of an operation differ, with the spec's interpreter.

In: the operation before and after, and the edits under test. Out: a small call, or how many were
tried. Legal calls of both sides are changed in one to three places, most often where the edits apply; a call
that is found is then minimised. Every run tries the same calls, and none is large,
whatever a spec says.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..calls.call_text import CallText, TensorText
from ..emit.python_signature import parameter_name
from ..language.expr import Inexact
from ..language.model import Op
from ..language.source import INCONSISTENT
from ..oracle import sample
from ..oracle.extents import each
from ..oracle.sample import Setting
from .edit import Edit
from .knobs import knobs_of, levels, named, repaired
from .places import Place
from .readings import Difference, Reading, Sides
from .shrink import simpler, smallest
from .step_places import StepPlace, step_settings

CELLS = 2**22  # rank limit of each tensor of a call, as in packages
PLAIN = 40  # the sum of sizes above which all sizes of a call shrink at once
LEVELS = 0.4  # how often several sizes get nearly the same value
FOCUS = 0.75  # how often a change targets the edits


@dataclass(frozen=True)
class Found:
    """A call or None, how many were tried, how the sides differ on it, and whether other edits contribute."""

    call: CallText | None
    tried: int
    kind: str = ""
    shared: bool = False
    failed: int = 0  # calls that neither reading could evaluate


def search(sides: Sides, edits: Sequence[Edit], wanted: Sequence[Sequence[str]], tries: int) -> Found:
    """A call on which the sides differ in a wanted way; the first group of kinds is preferred."""
    rng = np.random.default_rng(sample.SEED)
    places = [place for op, other in _origins(sides) if (place := place_of(op, other, edits)).seeds]
    ranks = {kind: rank for rank, kinds in enumerate(wanted) for kind in kinds}
    best: tuple[float, Place[Any], Any, Difference] | None = None
    tried, turn, echoes = 0, 0, list[tuple[Place[Any], Any]]()  # what differs is tried as a call of the other side, too
    while places and tried < tries and not (best and (best[0] == 0 or tried > tries // 2)):
        if echoes:
            place, setting = echoes.pop()
        else:
            place = places[turn % len(places)]
            setting, turn = place.setting(rng, turn // len(places)), turn + 1
        difference = place.differ(sides, setting)
        if difference.kind == "rules":
            place.keep(setting, difference.broken)
        rank = ranks.get(difference.kind, len(wanted)) + (difference.shared and difference.kind in ranks) / 2
        if rank < (best[0] if best else len(wanted)):
            best = (rank, place, setting, difference)
            echoes = [(other, setting) for other in places if other is not place]
        tried += 1
    failed = sum(place.failed for place in places)
    if best is None:
        return Found(None, tried, failed=failed)
    _, place, setting, difference = best
    found = smallest(setting, place.simpler, lambda smaller: place.like(sides, smaller, difference))
    if _size(found) > PLAIN:  # dependent sizes shrink together
        found = smallest(found, place.simpler, lambda smaller: place.like(sides, place.mended(smaller), difference))
    return Found(place.call(found), tried, difference.kind, difference.shared, failed)


def place_of(op: Op, other: Op, edits: Sequence[Edit]) -> Place[Any]:
    """The calls of one side."""
    return StepPlace(op, other, edits) if op.stepped else _Place(op, other, edits)


def _origins(sides: Sides) -> Iterator[tuple[Op, Op]]:
    after = sides.alone or sides.head
    if sides.base is not None:
        yield sides.base, after or sides.base
    if after is not None and after is not sides.base:
        yield after, sides.base or after


@functools.lru_cache(maxsize=64)
def legal_settings(op: Op) -> tuple[Setting, ...]:
    """Legal calls, the smallest first; none if the operation is incomplete."""
    try:
        return tuple(sorted((setting for setting, *_ in sample.legal(op)), key=_size))
    except INCONSISTENT:  # the caller then searches the other side, and says so
        return ()


def _size(setting: Any) -> int:
    return sum(entry for size in setting.sizes.values() for entry in each(size))


def call_of(op: Op, setting: Setting, unnamed: bool = False) -> CallText | None:
    """The call of a setting; None if the sizes give no shapes or too large ones. Tensors may be named by position."""
    try:
        made = sample.arguments(op, setting)
    except (Inexact, KeyError, TypeError, ValueError):
        return None
    if any(min(shape, default=0) < 0 or math.prod(shape) > CELLS for _, shape in made.tensors.values()):
        return None
    names = {tensor.name: parameter_name(tensor) for tensor in op.inputs}
    if unnamed:
        names |= {tensor.name: str(place) for place, tensor in enumerate(op.inputs, 1) if tensor.name in made.tensors}
    order = {attribute.name: number for number, attribute in enumerate(op.attributes)}
    stated = sorted(made.values.items(), key=lambda item: order.get(item[0], len(order)))
    return CallText(
        op.function,
        {names[n]: TensorText(dtype, shape) for n, (dtype, shape) in made.tensors.items() if n in names},
        {**{names[n]: shape for n, shape in made.vectors.items()}, **{n: _plain(value) for n, value in stated}},
    )


def has_calls(op: Op | None) -> bool:
    """Whether an operation can be called at all; a partly edited one may be inconsistent."""
    return op is not None and bool(step_settings(op) if op.stepped else legal_settings(op))


class _Place(Place[Setting]):
    """The calls of one side, and the ways to change them."""

    def __init__(self, op: Op, other: Op, edits: Sequence[Edit]) -> None:
        super().__init__(op, legal_settings(op), edits)
        names, constants = named(op, edits)
        knobs = list(knobs_of(op, other, constants, self.seeds[0].sizes if self.seeds else {}))
        self.knobs = [knob for _, knob in knobs]
        self.focused = [knob for about, knob in knobs if about & names] or self.knobs
        self.interdependent = list(levels(op, names, constants))

    def call(self, setting: Setting) -> CallText | None:
        return call_of(self.op, setting, self.unnamed)

    def simpler(self, setting: Setting) -> Iterator[Setting]:
        return simpler(self.op, setting)

    def setting(self, rng: np.random.Generator, number: int) -> Setting:
        """First the legal calls themselves, then changed ones."""
        if number < len(self.seeds):
            return self.seeds[number]
        near = bool(self.near) and rng.random() < 0.5
        known = self.near if near else self.seeds
        found = known[int(rng.integers(len(known)))]
        count = int(rng.integers(1, 4))
        if self.interdependent and not near and rng.random() < LEVELS:
            found = self.interdependent[0](rng, self.seeds[0] if rng.random() < 0.5 else found)
            count -= 1
        for _ in range(count):
            knobs = self.focused if not near and rng.random() < FOCUS else self.knobs
            found = knobs[int(rng.integers(len(knobs)))](rng, found)
        return found if rng.random() < 0.5 else self.mended(found)

    def mended(self, setting: Setting) -> Setting:
        """The setting with sizes adjusted to the conditions, if it violates them."""
        call = call_of(self.op, setting)
        try:
            if call is None:  # for example sizes that do not divide
                return repaired(self.op, setting, sample.facts(self.op, setting))
            self.known = Reading(self.op, call)
            validation = self.known.validation
            return setting if validation.accepted else repaired(self.op, setting, validation.values)
        except INCONSISTENT:  # the setting stays, and its call is tried as it is
            return setting


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
