"""Sums of products by the engines of contractions, in place of a phase of loops.

In: what a contraction reads and writes, letter by letter, and the arrays of a call. Out: a `Product` to run, or None
where no engine has a kernel: for these dtypes, on this CPU. Nothing here knows an operation.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from . import _byte_windows, _windows
from ._arrays import Array
from ._contraction_engines import (
    BYTE_SUMS,
    BYTE_TYPES,
    BYTE_WINDOWS,
    BYTES,
    CHANNELWISE,
    HALF,
    LABELS,
    MAX_BYTE_SUM,
    MAX_ZERO,
    OWN,
    TAPS,
    WIDENED,
    WIDEST,
    WITHOUT_WINDOWS,
    Engine,
    engine,
    label_of,
    splits,
)
from ._contraction_shapes import Shape, Walk, beside, halved, members, once, scattered, shaped, splittable
from ._dtypes import DTYPES
from ._windows import Placed, Slide, Window

STORED, OUTPUT, FINISHED = range(3)  # where sums go: opwright_product.h
BY_PIECES, BY_TASKS = 1, 2  # how sums of windows are finished: c/engine/window.c
# Windows of what is written, from which on they are rows that overlap, if nothing need be copied: 101 frames of 400
# cells by 201 filters, f32, take 0.4 of the time, two threads 0.3; 201 lags of 2000 cells by 20 signals 0.35. Five lags
# take 1.1, three 1.3 (Intel Xeon with AVX-512, gcc 12.2).
MANY_TAPS = 16


@dataclass(frozen=True)
class Accessed:
    """An array, and the letter that walks each of its axes."""

    array: str
    letters: Mapping[str, str]


@dataclass(frozen=True)
class Contraction:
    """A phase that adds up products; `copy` is the phase that copies its sums to `output`, -1 where none does."""

    phase: int
    copy: int
    unless: str  # the input that the copy adds, '' where it adds none: only without it the sums are the output
    output: Accessed | None
    target: Accessed
    left: Accessed
    right: Accessed
    finish: tuple[str, ...]  # the letters of the phase after it, where that can take the sums as they come
    unless_empty: tuple[str, ...] = ()  # letters: nothing is added where one of them has no values
    term: str = ""  # what is summed of each pair of elements, if not their product: an engine's name


@dataclass(frozen=True)
class Product:
    """A contraction of a call: its problem for an engine, the `destination` of its sums, and both in words."""

    engine: Engine
    problem: Any  # of the engine's ffi
    left: str
    right: str
    destination: int
    words: str

    def put(self, ffi: Any, member: Any, shared: int, task: int) -> None:
        """Fill in an `opwright_product` of another ffi; the memory of steps is `shared` bytes and `task` a worker."""
        own = self.engine.library.ffi
        member.run = ffi.cast("opwright_product_function *", int(own.cast("uintptr_t", self.engine.function)))
        member.problem = ffi.cast("void *", int(own.cast("uintptr_t", self.problem)))
        member.destination, member.shared, member.task = self.destination, shared, task
        if self.engine.blocks:
            member.pack = ffi.cast("opwright_pack_function *", self.engine.address("pack"))
            member.block = ffi.cast("opwright_block_function *", self.engine.address("block"))

    def described(self) -> str:
        """What the engine makes of it, in words."""
        copies = [name for name in ("left", "right") if getattr(self.problem, name).wanted]
        copied = f", {' and '.join(copies)} copied first" if copies else ""
        finished = ", finished before they are stored" if self.destination == FINISHED else ""
        return f"{self.words}{copied}{finished}"

    def bytes(self, workers: int) -> int:
        """Of the memory that a run needs beside its arrays, copies of operands among it."""
        return int(self.engine.scratch(self.problem, workers))


@dataclass(frozen=True)
class Call:
    """What a call says of all its contractions: extents, slides, arrays that lie between no steps, and their places."""

    letters: Mapping[str, tuple[int, ...]]
    slides: Mapping[str, Slide]
    zeros: Mapping[int, tuple[Any, Any]]  # of phases: what is subtracted from the elements of left and right
    arrays: Mapping[str, Array]
    places: Mapping[str, Mapping[str, tuple[int, ...]]]
    accumulate: np.dtype[Any]
    narrow: Mapping[str, np.dtype[Any]]  # of arrays between steps that are not of it

    def dtype(self, access: Accessed) -> np.dtype[Any]:
        array = self.arrays.get(access.array)
        return self.narrow.get(access.array, self.accumulate) if array is None else array.dtype

    def placed(self, access: Accessed) -> Placed | None:
        """Where an array's cells stand; None where an axis that letters move along together is not as the spec says."""
        array, places = self.arrays.get(access.array), self.places.get(access.array, {})
        axes: list[tuple[str, int, int, int]] = []  # a letter or a slide, the number of its axis, extent, distance
        if array is None:
            cells = 1
            for axis, letter in reversed([*access.letters.items()]):
                extents = self.letters[axis if letter in self.slides else letter]
                for number in reversed(range(len(extents))):
                    axes.append((letter, number, extents[number], cells))
                    cells *= extents[number]
        else:
            for axis, letter in access.letters.items():
                spots = places.get(axis, ())
                first = 0 if letter in self.slides else len(self.letters[letter]) - len(spots)
                for number, spot in enumerate(spots):
                    step = 0 if array.shape[spot] == 1 else array.strides[spot] // array.itemsize
                    axes.append((letter, first + number, array.shape[spot], step))
        steps: dict[tuple[str, int], int] = {}
        windows, first = [], 0
        for letter, number, extent, step in axes:
            if letter not in self.slides:
                steps[letter, number] = step
                continue
            factors, offset, whole = self.slides[letter]
            if _entry(whole, number) != extent:
                return None
            moved = tuple(((name, number), _entry(factor, number)) for name, factor in factors)
            window = Window(extent, step, moved, _entry(offset, number))
            lengths = {spot: self.letters[spot[0]][number] for spot, _ in moved}
            if window.counted(lengths) or (len(moved) <= 1 and window.inside(lengths)):
                first += window.offset * step
                steps |= {spot: steps.get(spot, 0) + factor * step for spot, factor in moved}
            else:
                windows.append(window)
        return Placed(steps, tuple(windows), first)


def _entry(value: int | tuple[int, ...], number: int) -> int:
    return value if isinstance(value, int) else value[number]


def prepared(contraction: Contraction, call: Call, given: Container[str], lane: str) -> Product | None:
    """A contraction of a call, of which the arrays in `given` are not left out; None where loops are to compute it.

    Arrays between steps lie in the order of their axes. Sums that are finished as they come are counted in that of the
    phase which does so, whose lanes go along the letter `lane`.
    """
    left, right, target = contraction.left, contraction.right, contraction.target
    dtypes = {call.dtype(left), call.dtype(right)}
    label = label_of(dtypes, call.accumulate, contraction.term)
    if not label or (contraction.phase in call.zeros and label != BYTES):
        return None
    if any(0 in call.letters[letter] for letter in contraction.unless_empty):
        return None
    output = contraction.output if contraction.unless not in given else None
    finished = Accessed(target.array, {n: n for n in sorted(contraction.finish, key=lambda letter: letter == lane)})
    destinations = {OUTPUT: output, FINISHED: finished if contraction.finish else None, STORED: target}
    for destination, access in destinations.items():
        if access is None:
            continue
        placed = {"left": call.placed(left), "right": call.placed(right), "target": call.placed(access)}
        if None in placed.values():
            return None
        made = call.arrays[access.array].dtype if destination == OUTPUT else call.accumulate
        known = {side: place for side, place in placed.items() if place}
        one = _One(contraction, call, label, destination, made, known)
        if one.slid and _windows.spread(known, one.extents(), destination == FINISHED):
            continue
        product = one.window() or (one.stored and (one.byte_window() or one.product())) or None
        if splits(dtypes, label) and (product is not None or not one.stored) and not one.slid:
            product = one.in_parts() or product
        if product is not None or (one.stored and not (one.slid or one.scattered)):
            return product
    return None


def _stored(label: str, accumulate: np.dtype[Any]) -> tuple[np.dtype[Any], ...]:
    """The dtypes in which an engine writes sums to an output itself."""
    return (DTYPES["int32"] if label == BYTES else accumulate, OWN.get(label, accumulate))


@dataclass(frozen=True)
class _One:
    """A contraction of a call with one destination of its sums, as cells of the dtype `made`."""

    contraction: Contraction
    call: Call
    label: str
    destination: int
    made: np.dtype[Any]
    placed: Mapping[str, Placed]
    split: str = ""  # the side of floats that an engine of bf16 takes as they are

    @property
    def stored(self) -> bool:
        """Whether the engine stores cells of this dtype, where it stores them itself."""
        return self.destination != OUTPUT or self.made in _stored(self.label, self.call.accumulate)

    @property
    def slid(self) -> bool:
        return any(place.windows for place in self.placed.values())

    def extents(self) -> dict[tuple[str, int], int]:
        """Of each axis of each letter that stands in any of the three."""
        used = {spot for place in self.placed.values() for spot in place.steps}
        used |= {spot for place in self.placed.values() for window in place.windows for spot, _ in window.factors}
        return {
            (letter, number): extents[number]
            for letter, extents in self.call.letters.items()
            for number in range(len(extents))
            if (letter, number) in used
        }

    def kinds(self, label: str) -> dict[str, int]:
        """The engine's flag for copying either operand: as it is, or widened."""
        own = {*BYTE_TYPES} if label == BYTES else {OWN[label]}
        return {side: 1 if dtype in own else WIDENED[dtype] for side, dtype in self.dtypes.items()}

    @property
    def dtypes(self) -> dict[str, np.dtype[Any]]:
        """Those of both operands."""
        return {"left": self.call.dtype(self.contraction.left), "right": self.call.dtype(self.contraction.right)}

    @property
    def widened(self) -> tuple[str, ...]:
        return tuple(side for side, kind in self.kinds(self.label).items() if kind != 1 and side != self.split)

    def opened(self) -> list[Placed]:
        """Left, right and target with windows as axes like others; none where one leaves its array."""
        extents = self.extents()
        found = [self.placed[side].opened(extents) for side in ("left", "right", "target")]
        return [] if None in found or self.placed["target"].windows else [place for place in found if place is not None]

    def shape(self, places: Sequence[Placed]) -> Shape | None:
        extents = self.extents()
        walks = tuple(Walk(extent, *(place.steps.get(spot, 0) for place in places)) for spot, extent in extents.items())
        return shaped(walks, tuple(spot not in places[2].steps for spot in extents), self.widened)

    @property
    def scattered(self) -> bool:
        """Whether sums would be finished one by one: they are stored, and the next phase takes them as rows."""
        places = self.opened() if self.destination == FINISHED else []
        shape = self.shape(places) if places else None
        return shape is not None and scattered(shape)

    def in_parts(self) -> Product | None:
        """By the engine of products of bf16, for which each float of one operand is three of them."""
        side = "left" if self.dtypes["left"] == WIDEST else "right"
        halves = replace(self, label=LABELS[HALF], split=side)
        return halves.product() if halves.stored else None

    def product(self) -> Product | None:
        """By the engine of products; windows are axes like others where they stay inside."""
        found, places = engine(self.label), self.opened()
        shape = self.shape(places) if found is not None and places else None
        if found is None or shape is None or self.scattered or beside(shape) or once(shape, self.widened):
            return None
        kinds = self.kinds(self.label)
        if self.label == BYTES and not self.fits(shape.terms.extent):
            return None
        if self.split and not splittable(shape):
            return None
        values = {
            **members(shape, kinds, {"left": places[0].first, "right": places[1].first}),
            "elements": int(self.made != self.call.accumulate),
            "finished": int(self.destination == FINISHED),
        }
        if self.label == BYTES:
            values |= self.of_bytes()
        if self.split:
            values |= halved(values, self.split)
        times = "".join(f"{walk.extent} x " for walk in shape.batches)
        sizes = f"{times}{shape.rows.extent} rows, {shape.columns.extent} columns, {shape.terms.extent} terms"
        return self.made_by(found, "opwright_contraction *", values, f"a contraction for {found.isa.name}: {sizes}")

    def in_place(self) -> Product | None:
        """By the engine of products, if it copies neither operand."""
        direct = self.product()
        return None if direct is None or direct.problem.left.wanted or direct.problem.right.wanted else direct

    @property
    def zeros(self) -> tuple[Any, Any]:
        return self.call.zeros.get(self.contraction.phase, (0, 0))

    def fits(self, terms: int) -> bool:
        """Whether zero points are integers, and sums of so many terms those of 32 bits."""
        if not all(isinstance(zero, int) and abs(zero) <= MAX_ZERO for zero in self.zeros):
            return False
        x, y = self.zeros
        return bool(terms * (255 + abs(x)) * (255 + abs(y)) <= MAX_BYTE_SUM)

    def of_bytes(self, *, exchanged: bool = False) -> dict[str, int]:
        """The members of the engine of bytes, with left and right `exchanged` or not."""
        accesses = (self.contraction.left, self.contraction.right)
        values = {"elements": 0, "sums": BYTE_SUMS[self.made], "finished": int(self.destination == FINISHED)}
        values["swapped"] = int(exchanged)
        for number, side in enumerate(("right", "left") if exchanged else ("left", "right")):
            values[f"{side}_signed"] = BYTE_TYPES[self.call.dtype(accesses[number])]
            values[f"{side}_zero"] = self.zeros[number]
        return values

    def byte_window(self) -> Product | None:
        """Of bytes with windows, by the engine of products."""
        found = engine(self.label)
        slid = [side for side in ("left", "right") if self.placed[side].windows]
        if found is None or self.label != BYTES or len(slid) != 1:
            return None
        direct = self.in_place()
        if direct is not None:
            return direct
        exchanged = slid == ["right"]
        one, other = (self.placed[side] for side in (("right", "left") if exchanged else ("left", "right")))
        access, zero = (self.contraction.right if exchanged else self.contraction.left), self.zeros[exchanged]
        if not self.fits(1) or not 0 <= zero + 128 * BYTE_TYPES[self.call.dtype(access)] <= 255:
            return None
        signed = BYTE_TYPES[self.call.dtype(self.contraction.left if exchanged else self.contraction.right)]
        tiled = bool(signed and not self.zeros[not exchanged] and not found.isa.matrices)
        tiles = engine(self.label, BYTE_WINDOWS) if tiled else None
        places = (one, other, self.placed["target"], self.extents(), zero)
        values = None if tiles is None else _byte_windows.problem_of(*places, tiled=True)
        how = "gathered" if values is None else "read by tiles"
        if values is None or tiles is None:
            values, tiles = _byte_windows.problem_of(*places, tiled=False), found
        if values is None or not self.fits(values["terms"]):
            return None
        sizes = f"{values['rows']} rows, {values['columns']} columns, {values['terms']} terms, {how}"
        words = f"a contraction with windows for {tiles.isa.name}: {sizes}"
        values |= self.of_bytes(exchanged=exchanged)
        return self.made_by(tiles, "opwright_contraction *", values, words)

    def window(self) -> Product | None:
        """By the engine of convolutions, where operands and sums are related as theirs."""
        problem = (
            _windows.problem_of(self.placed, self.extents())
            if self.slid and self.label not in WITHOUT_WINDOWS
            else None
        )
        if problem is None:
            return None
        many = problem.solve == _windows.W and math.prod(axis.taps for axis in problem.axes) >= MANY_TAPS
        direct = self.in_place() if many and self.stored else None
        if direct is not None:
            return direct
        channelwise = "channelwise_" if _windows.channelwise(problem) else ""
        group = f"window_{channelwise}{'weights' if problem.solve == _windows.W else 'data'}"
        label = self.label
        data = self.dtypes.get(problem.data, WIDEST)
        narrow = group == CHANNELWISE and data in LABELS and data != WIDEST
        if narrow and (self.made == WIDEST or (self.made == data and label != LABELS[data])):
            label, group = LABELS[data], "window_taps_wide" if self.made == WIDEST else "window_taps"
        elif self.made == WIDEST and label != LABELS[WIDEST] and group == "window_data":
            group = "window_wide"
        elif LABELS.get(self.made) != label:
            label = LABELS[WIDEST]
        if self.made != WIDEST and LABELS.get(self.made) != label:
            return None
        kinds = self.kinds(label)
        if group in TAPS:
            kinds[problem.weights] = WIDENED[self.dtypes[problem.weights]]
        finished, whole = self.destination == FINISHED, _windows.is_dense(problem, "target")
        found = engine(label, group) if finished or whole else None
        if found is None:
            return None
        words = f"a contraction with windows for {found.isa.name}: {problem.words()}"
        values = {**_windows.members_of(problem, kinds), "finished": BY_TASKS if finished else 0}
        if finished and not (whole and found.finishes(found.library.ffi.new("opwright_window *", values))):
            pieced = _windows.cut(problem)
            if pieced is None:
                return None
            values = {**_windows.members_of(pieced[0], kinds), "finished": BY_PIECES, **pieced[1]}
        return self.made_by(found, "opwright_window *", values, words)

    def made_by(self, found: Engine, kind: str, values: Mapping[str, Any], words: str) -> Product:
        """The product, as the arguments of an engine."""
        problem = found.library.ffi.new(kind, values)
        left, right = self.contraction.left.array, self.contraction.right.array
        return Product(found, problem, left, right, self.destination, words)
