"""Where the axes of a call's arrays stand: runs of axes, broadcasting, places that attributes say.

In: shapes, and what a generated `resolve` knows of an operation. Out: places, as positions in an array by the name of
an axis, and extents; or a `Refusal`. A run is a tuple of axes, which may be none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._errors import Refusal
from ._numbers import int_list, real_scalar, snapshot
from ._rules import INDEX_LIMIT, Described, Extent, Words, dtype_name, word
from ._words import describe

Places = Mapping[str, tuple[int, ...]]
MAX_AXES = 64  # of an array of NumPy
# The words by which attributes state data types, and what rows of data types call these.
DTYPE_OF = {
    "f32": "float32",
    "f64": "float64",
    "f16": "float16",
    "bf16": "bfloat16",
    "s32": "int32",
    "s64": "int64",
    "u64": "uint64",
    "s8": "int8",
    "u8": "uint8",
    "boolean": "bool_",
    "f8_e4m3": "float8_e4m3fn",
    "f8_e5m2": "float8_e5m2",
    "s4": "int4",
    "u4": "uint4",
}


@dataclass(frozen=True)
class Several:
    """Arrays that are joined along an axis, as one; its shape is that of the first until the axis is known."""

    parts: Sequence[Described]
    shape: tuple[int, ...]
    dtype: Any


@dataclass(frozen=True)
class Shaped:
    """An output whose shape the call states."""

    shape: tuple[int, ...]
    dtype: Any = None


def several(name: str, parts: Sequence[Described]) -> Several:
    """A list of arrays of one data type and one number of axes."""
    first = parts[0]
    for number, part in enumerate(parts):
        if part.dtype != first.dtype:
            got = f"array {number} of {dtype_name(part.dtype)}"
            raise Refusal("dtypes", name, got, f"{dtype_name(first.dtype)}, as array 0")
        if len(part.shape) != len(first.shape):
            got = f"array {number} with {len(part.shape)} axes"
            raise Refusal(f"{name}-rank", name, got, f"{len(first.shape)}, as array 0")
    return Several(parts, tuple(first.shape), first.dtype)


def concatenated(name: str, arrays: Several, spot: int) -> Several:
    """The arrays as one, joined along an axis: the others have the same extents in all of them."""
    first = list(arrays.shape)
    for number, part in enumerate(arrays.parts):
        wanted = [*first[:spot], part.shape[spot], *first[spot + 1 :]]
        if list(part.shape) != wanted:
            got = f"array {number} of shape {tuple(part.shape)}"
            expected = f"{tuple(first)}, as array 0, in all axes but {spot}"
            raise Refusal(f"{name}-shape", name, got, expected, tuple(wanted))
    whole = sum(part.shape[spot] for part in arrays.parts)
    return Several(arrays.parts, (*first[:spot], whole, *first[spot + 1 :]), arrays.dtype)


def truth(name: str, value: object) -> bool:
    """A truth value: Python's or NumPy's, and nothing else that is true or false."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise Refusal(f"{name}-kind", name, describe(value), "True or False", wrong_kind=True)


def reals(name: str, value: object) -> tuple[float, ...]:
    """A list of real numbers, each rounded to f32."""
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "iuf":
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        raise Refusal(f"{name}-kind", name, describe(value), "a list of numbers", wrong_kind=True)
    entries = snapshot(value)
    plain = {*map(type, entries)} <= {float}
    numbers = entries if plain else [real_scalar(name, entry) for entry in entries]
    with np.errstate(over="ignore"):
        return tuple(np.array(numbers, np.float32).tolist())


def per(name: str, entries: Sequence[Any], extent: int) -> None:
    """A list with an entry for each cell of a size, or with one for all."""
    if len(entries) not in (1, extent):
        expected = f"1 entry, or {extent}" if extent != 1 else "1 entry"
        raise Refusal(f"{name}-length", name, f"{list(entries)[:8]} ({len(entries)} entries)", expected)


def blocks(name: str, value: object, tensor: str, places: Places, axis: str, extent: int) -> None:
    """A list of extents of blocks, one for each axis of a tensor: `extent` on one axis, 1 on all others; or none."""
    entries = int_list(name, value)
    own = places[axis][0]
    wanted = [extent if spot == own else 1 for spot in range(sum(map(len, places.values())))]
    if entries and list(entries) != wanted:
        expected = f"{wanted}: blocks of {extent} along axis {own} of {tensor}, or [] for any"
        raise Refusal(f"{name}-value", name, str(list(entries)), expected, wanted)


def dtype_row(
    rows: Sequence[Mapping[str, str]], inputs: Mapping[str, Described | None], stated: Mapping[str, tuple[str, str]]
) -> int:
    """The first row that fits every given input, and what attributes state of outputs: their names and words."""
    given = {name: dtype_name(tensor.dtype) for name, tensor in inputs.items() if tensor is not None}
    fitting = [n for n, row in enumerate(rows) if all(row[name] == dtype for name, dtype in given.items())]
    for number in fitting:
        if all(rows[number][output] == dtype for output, (_, dtype) in stated.items()):
            return number
    if fitting:
        attribute, dtype = next(iter(stated.values()))
        output = next(iter(stated))
        expected = " or ".join(dict.fromkeys(rows[number][output] for number in fitting))
        raise Refusal(f"{attribute}-value", attribute, repr(dtype), f"{expected}, with these inputs")
    nearest = min(rows, key=lambda row: sum(row[name] != dtype for name, dtype in given.items()))
    argument = next(name for name, dtype in given.items() if nearest[name] != dtype)
    choices = dict.fromkeys("(" + ", ".join(f"{name} {row[name]}" for name in given) + ")" for row in rows)
    raise Refusal("dtypes", argument, ", ".join(f"{n} {d}" for n, d in given.items()), " or ".join(choices))


def dtype_of(tensor: Described) -> str:
    """The word of a tensor's data type; that of another one where there is no such word."""
    own = dtype_name(tensor.dtype)
    return next((word for word, dtype in DTYPE_OF.items() if dtype == own), own)


def dtype_word(name: str, value: object, words: Words, default: str | None) -> str:
    """A word that states a data type, which `out` may say where the attribute does not."""
    if value is None and default is not None:  # of an input that no row takes: that is refused with the rows
        value = default if default in words.spellings else next(iter(words.spellings))
    if value is None:
        raise Refusal(f"{name}-missing", name, "not given", "the data type of the output, given here or by `out`")
    return word(name, value, words)


def position(name: str, value: int, tensor: str, axes: int, *, end: bool = False) -> int:
    """The axis that a number says, from the end where it is negative; `end` allows the place behind the last."""
    maximum = axes if end else axes - 1
    if not -axes <= value <= maximum:
        expected = (
            f"within {-axes} to {maximum}: {tensor} has {axes} axes" if axes else f"{tensor} with at least one axis"
        )
        raise Refusal(
            f"{name}-range", name, str(value), expected, min(max(value, -axes), maximum) if maximum >= 0 else None
        )
    return value + axes if value < 0 else value


def positions(name: str, value: object, tensor: str, axes: int) -> tuple[int, ...]:
    """The axes that a list says, in their order; each at most once."""
    entries = int_list(name, value)
    found = tuple(sorted(position(name, entry, tensor, axes) for entry in entries))
    if len(set(found)) != len(found):
        raise Refusal(f"{name}-range", name, str(list(entries)), "each axis at most once", sorted(set(found)))
    return found


def distinct_axes(name: str, places: tuple[int, ...], other: str, others: tuple[int, ...]) -> None:
    """Two lists that say axes of one tensor share none of them."""
    both = [place for place in places if place in others]
    if both:
        raise Refusal(f"{name}-range", name, f"axis {both[0]}", f"axes that {other} does not name")


def before(name: str, place: int, fixed: int) -> int:
    """How many axes the run in front of a place has, where `fixed` others stand there too."""
    if place < fixed:
        raise Refusal(f"{name}-range", name, f"axis {place}", f"at least {fixed}, the number of axes before it", fixed)
    return place - fixed


def agrees(name: str, place: int, expected: int) -> None:
    """A place that the shapes have already determined."""
    if place != expected:
        raise Refusal(f"{name}-range", name, f"axis {place}", f"axis {expected}", expected)


def rest(name: str, tensor: Described, fixed: int) -> int:
    """How many axes a run has, where `fixed` others stand beside it."""
    if len(tensor.shape) < fixed:
        got = f"shape {tuple(tensor.shape)} ({len(tensor.shape)} axes)"
        raise Refusal(f"{name}-rank", name, got, f"at least {fixed} axes")
    return len(tensor.shape) - fixed


def placed(order: Sequence[str], counts: Mapping[str, int], spots: Mapping[str, tuple[int, ...]]) -> Places:
    """Where axes stand that follow on each other, except those whose `spots` are stated."""
    taken = {spot for axis in order for spot in spots.get(axis, ())}
    free = iter(spot for spot in range(sum(counts[axis] for axis in order)) if spot not in taken)
    return {axis: spots[axis] if axis in spots else tuple([next(free) for _ in range(counts[axis])]) for axis in order}


def present(tensor: Described, fixed: int) -> int:
    """1 where a tensor has an axis that it may lack, 0 where not; `fixed` others it has at least."""
    return 1 if len(tensor.shape) > fixed else 0


def ordered(name: str, value: object, tensor: str, places: Places) -> Places:
    """The places with the axes in the order that a list says: its first entry is the number of the first axis."""
    axes = sum(map(len, places.values()))
    entries = int_list(name, value)
    if len(entries) != axes:
        raise Refusal(f"{name}-length", name, f"{len(entries)} entries", f"{axes}, one for each axis of {tensor}")
    order = [position(name, entry, tensor, axes) for entry in entries]
    if len(set(order)) != axes:
        raise Refusal(f"{name}-range", name, str(list(entries)), "each axis once")
    return {axis: tuple([order.index(spot) for spot in spots]) for axis, spots in places.items()}


def split(shape: Sequence[int], places: Places, vectors: Sequence[str]) -> dict[str, Extent]:
    """The extents of a shape by axis; those of a run, or of spatial axes, as a tuple. An axis that is lacking has 1."""
    return {
        axis: tuple([shape[spot] for spot in spots]) if axis in vectors else shape[spots[0]] if spots else 1
        for axis, spots in places.items()
    }


def join(places: Places, extents: Mapping[str, Extent]) -> tuple[int, ...]:
    """The shape with those extents."""
    cells: dict[int, int] = {}
    for axis, spots in places.items():
        extent = extents[axis]
        cells.update(zip(spots, extent if isinstance(extent, tuple) else (extent,)))
    return tuple(cells[spot] for spot in range(len(cells)))


def fits(name: str, shape: Sequence[int], found: Mapping[str, Extent], known: Mapping[str, Extent]) -> None:
    """The extents of a tensor must be those that are known; an axis that its layout leaves out has none."""
    if any(found.get(axis, extent) != extent for axis, extent in known.items()):
        expected = ", ".join(f"{axis} = {_say(extent)}" for axis, extent in known.items())
        got = ", ".join(f"{axis} = {_say(extent)}" for axis, extent in found.items())
        raise Refusal(f"{name}-shape", name, f"of shape {tuple(shape)} ({got})", expected)


def broadcast_extent(symbol: str, parts: Sequence[tuple[str, Extent | None, bool]]) -> Extent:
    """The size that inputs broadcast to: each is the name of a tensor, its extents, and whether it may be stretched.

    Extents are matched from the last; one of 1, or one that is missing, goes with any.
    """
    given = [part for part in parts if part[1] is not None]
    wide = {name: extent if isinstance(extent, tuple) else (extent,) for name, extent, _ in given}
    rank = max(map(len, wide.values()), default=0)
    whole = [1] * rank
    for extents in wide.values():
        for at, extent in enumerate(extents, start=rank - len(extents)):
            whole[at] = extent if whole[at] == 1 else whole[at]
    for name, extents, stretches in ((name, wide[name], stretches) for name, _, stretches in given):
        tail = whole[rank - len(extents) :]
        fitting = all(mine == theirs or (mine == 1 and stretches) for mine, theirs in zip(extents, tail))
        if not fitting or (len(extents) != rank and not stretches):
            expected = f"{symbol} = {_say(tuple(whole))}" + (", or 1 where it is stretched" if stretches else "")
            raise Refusal(f"{name}-shape", name, f"such that {symbol} = {_say(extents)}", expected)
    return tuple(whole) if isinstance(given[0][1], tuple) else whole[0]


def stretched(whole: Extent, parts: Sequence[Extent | None]) -> tuple[int, ...]:
    """Of each axis of a size, which inputs are stretched along it: a bit for each; None is one that is left out."""
    extents = whole if isinstance(whole, tuple) else (whole,)
    marks = [0] * len(extents)
    for bit, part in enumerate(parts):
        own = extents if part is None else part if isinstance(part, tuple) else (part,)
        padded = (1,) * (len(extents) - len(own)) + own
        for at, (mine, theirs) in enumerate(zip(padded, extents)):
            if mine != theirs:
                marks[at] |= 1 << bit
    return tuple(marks)


def part(whole: Extent, marks: Sequence[int], number: int) -> Extent:
    """The part of a size that has a number: those of its axes, or all of its one extent or 1."""
    if isinstance(whole, tuple):
        return tuple([extent for extent, mark in zip(whole, marks) if mark == number])
    return whole if marks[0] == number else 1


def parted(places: Places, marks: Mapping[str, tuple[Sequence[int], int]]) -> Places:
    """Where the parts of axes stand; of each such axis the marks of its size, and how many parts that has."""
    found: dict[str, tuple[int, ...]] = {}
    for axis, spots in places.items():
        if axis not in marks:
            found[axis] = spots
            continue
        whole, count = marks[axis]
        own = whole[len(whole) - len(spots) :]
        for number in range(count):
            found[f"{axis}_p{number}_"] = tuple([spot for spot, mark in zip(spots, own) if mark == number])
    return found


def presence(name: str, value: object, wanted: bool, say: str, *, optional: bool) -> None:
    """An input that only some calls have."""
    if value is not None and not wanted:
        raise Refusal(f"{name}-unwanted", name, "given", f"omitted, unless {say}")
    if value is None and wanted and not optional:
        raise Refusal(f"{name}-missing", name, "not given", f"an array, since {say}", wrong_kind=True)


def stated(name: str, value: object, whole: tuple[int, ...] | None = None, keeps: bool = False) -> tuple[int, ...]:
    """The extents that a list says. Where they must have as many cells as `whole`, one of -1 is what is left of them.

    With `keeps` an entry of 0 is the extent of `whole` at its place.
    """
    entries = int_list(name, value)
    if any(entry < (0 if whole is None else -1) for entry in entries):
        raise Refusal(f"{name}-range", name, str(list(entries)), f"extents of at least {0 if whole is None else -1}")
    if whole is not None and keeps and any(entry == 0 for entry in entries[len(whole) :]):
        got = f"{list(entries)}, with a 0 behind the last axis of {_say(whole)}"
        raise Refusal(f"{name}-range", name, got, "0 only where there is an extent to keep")
    if len(entries) > MAX_AXES:
        raise Refusal(f"{name}-length", name, f"{len(entries)} entries", f"at most {MAX_AXES}")
    if whole is None:
        return entries
    found = [whole[at] if keeps and entry == 0 else entry for at, entry in enumerate(entries)]
    cells = math.prod(whole)
    others = math.prod(entry for entry in found if entry != -1)
    if found.count(-1) == 1 and others and cells % others == 0:
        found[found.index(-1)] = cells // others
    if -1 in found or math.prod(found) != cells:
        raise Refusal(f"{name}-range", name, str(list(entries)), f"extents of {cells} cells, as {_say(whole)} has")
    return tuple(found)


def counted(value: int, dtype: str) -> None:
    """Numbers below `value` must be exact in the type in which values are made."""
    limit = {"float32": 2**24, "float64": 2**53}.get(dtype, INDEX_LIMIT)
    if value > limit:
        raise Refusal("index-overflow", "shape", f"{value} cells to number", f"at most {limit}, exact in {dtype}")


def divisor(value: Extent, say: str) -> None:
    """What an index divides by must be at least 1."""
    if any(entry < 1 for entry in (value if isinstance(value, tuple) else (value,))):
        raise Refusal("inexact-division", "shape", f"a divisor {say} = {_say(value)}", "a divisor of at least 1")


def not_negative(value: Extent, say: str) -> None:
    """An extent that a formula gives must be at least 0."""
    if any(entry < 0 for entry in (value if isinstance(value, tuple) else (value,))):
        raise Refusal("negative-extent", "shape", f"an extent {say} = {_say(value)}", "an extent of at least 0")


def _say(extent: Extent) -> str:
    if isinstance(extent, tuple):
        return "x".join(map(str, extent)) or "no axes"
    return str(extent)
