"""The rules of calls: the steps that every generated `resolve` is made of, and the wording of their refusals.

In: shapes, dtypes and attribute values. Out: integers, tuples of one integer per spatial axis, words; or a `Refusal`
that names the rule, the argument, what was given and what is expected. Nothing here allocates or writes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from ._arrays import to_array
from ._dtypes import DTYPES
from ._errors import Refusal
from ._numbers import int_list, int_scalar, real_scalar, text
from ._words import describe, literal, shown

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)
# What index arithmetic of kernels may reach: two such sums still fit into int64.
INDEX_LIMIT = 2**62
_DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}

Extent = Any  # int, or a tuple with one int per spatial axis
T = TypeVar("T")


class Described(Protocol):
    """Anything with a shape and a dtype: an array, or the description of one."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> Any: ...


@dataclass(frozen=True)
class Words:
    """What a string attribute may be: every spelling with its meaning, and words that are refused with a reason."""

    spellings: Mapping[str, str]
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Resolution:
    """A call that is legal: its output's shape, every named value, and what its kernel must be made for.

    `terms` counts the terms of the sums, empty ones and those in the padding included.
    """

    shape: tuple[int, ...]
    row: int
    words: Mapping[str, str]
    group_class: str | None
    values: Mapping[str, Extent]
    arrangements: Mapping[str, int]
    terms: int


def exact(a: int, b: int) -> int:
    """a / b, which must not leave a remainder."""
    if b == 0 or a % b:
        raise Refusal("inexact-division", "shape", f"{a} / {b}", "a quotient without remainder")
    return a // b


def modulo(a: int, b: int) -> int:
    """The remainder of a / b in [0, |b|)."""
    _divisor(a, b)
    return a % abs(b)


def floor_div(a: int, b: int) -> int:
    """a / b rounded down."""
    _divisor(a, b)
    return a // b


def ceil_div(a: int, b: int) -> int:
    """a / b rounded up."""
    _divisor(a, b)
    return -(-a // b)


def scaled(whole: int, factor: float) -> int:
    """whole * factor in f32, rounded down."""
    with np.errstate(all="ignore"):
        product = float(np.float32(whole) * np.float32(factor))
    if not math.isfinite(product):
        raise Refusal("inexact-division", "shape", f"{whole} * {factor}", "a finite number of f32")
    return math.floor(product)


def _divisor(a: int, b: int) -> None:
    if b == 0:
        raise Refusal("inexact-division", "shape", f"{a} / 0", "a divisor other than 0")


# Builtins whose names arguments may have.
prod, all_, any_, sum_ = math.prod, all, any, sum


def times(extent: Extent, factor: Extent) -> Extent:
    """extent * factor, axis by axis."""
    return _each(operator.mul, extent, factor)


def divided(extent: Extent, factor: Extent) -> Extent:
    """extent / factor without remainder, axis by axis."""
    return _each(exact, extent, factor)


def less(extent: Extent, term: Extent) -> Extent:
    """extent - term, axis by axis."""
    return _each(operator.sub, extent, term)


def _each(apply: Callable[[int, int], int], extent: Extent, other: Extent) -> Extent:
    if not isinstance(extent, tuple):
        assert not isinstance(other, tuple)
        return apply(extent, other)
    return tuple(map(apply, extent, other if isinstance(other, tuple) else (other,) * len(extent)))


def int64(name: str, value: Extent) -> Extent:
    """A named value, which must fit into 64 bits."""
    for entry in value if isinstance(value, tuple) else (value,):
        if not INT64_MIN <= entry <= INT64_MAX:
            raise Refusal("overflow", name, str(entry), "a value that fits into int64")
    return value


def bounded(what: str, value: Extent) -> None:
    """Refuse sizes with which a kernel's index arithmetic could leave int64."""
    largest = max(value, default=0) if isinstance(value, tuple) else value
    if largest > INDEX_LIMIT:
        raise Refusal("index-overflow", what, f"up to {largest}", "index sums of at most 2**62")


def word(name: str, value: object, words: Words) -> str:
    """The meaning of a word."""
    given = text(name, value)
    found = words.spellings.get(given)
    if found is not None:
        return found
    allowed = ", ".join(repr(spelling) for spelling in words.spellings)
    if given in words.refused:
        raise Refusal(f"{name}-value", name, repr(given), f"one of {allowed}: {words.refused[given]}")
    import difflib  # for the sake of import time, as refusals are rare

    near = difflib.get_close_matches(given[:80].lower(), words.spellings, n=1, cutoff=0.5)
    raise Refusal(
        f"{name}-value", name, literal(given[:80]), f"one of {allowed}", words.spellings[near[0]] if near else None
    )


def _entries(numbers: Sequence[int], count: int) -> str:
    """A list in the words of a refusal for its length; `numbers` are the first of `count`."""
    return f"{shown(numbers, count)} ({count} entries)"


def _limits(minimum: int | None, maximum: int | None) -> str:
    if minimum is not None and maximum is not None:
        return f"within {minimum} to {maximum}"
    return f">= {minimum}" if maximum is None else f"<= {maximum}"


def _clipped(value: float, minimum: int | None, maximum: int | None) -> float:
    low = value if minimum is None else max(value, minimum)
    return low if maximum is None else min(low, maximum)


def integer(name: str, value: object, *, minimum: int | None = None, maximum: int | None = None) -> int:
    """An integer within its range."""
    number = int_scalar(name, value)
    nearest = _clipped(number, minimum, maximum)
    if nearest != number:
        raise Refusal(f"{name}-range", name, str(number), f"an integer {_limits(minimum, maximum)}", nearest)
    return number


def integers(
    name: str,
    value: object,
    length: int | None,
    *,
    minimum: int | None = None,
    maximum: int | None = None,
    surplus: int | None = None,
    default: int | None = None,
) -> tuple[int, ...]:
    """A list of integers within their range; not given, it is filled with `default`.

    A list that is too long is cut where `surplus` allows it and every entry beyond equals it.
    """
    if value is None and default is not None:
        return (default,) * (length or 0)
    numbers = int_list(name, value)
    if length is not None and len(numbers) != length:
        beyond = numbers[length:]
        if surplus is None or len(numbers) < length or any(entry != surplus for entry in beyond):
            also = f", or more when the rest is {surplus}" if surplus is not None else ""
            expected = f"{length} entries, one per spatial axis{also}"
            raise Refusal(f"{name}-length", name, _entries(numbers, len(numbers)), expected)
        numbers = numbers[:length]
    nearest = tuple(_clipped(entry, minimum, maximum) for entry in numbers)
    if nearest != numbers:
        raise Refusal(
            f"{name}-range",
            name,
            shown(numbers, len(numbers)),
            f"every entry {_limits(minimum, maximum)}",
            list(nearest),
        )
    return numbers


def reals(
    name: str,
    value: object,
    length: int,
    *,
    minimum: int | None = None,
    maximum: int | None = None,
    default: float | None = None,
) -> tuple[float, ...]:
    """Real numbers within their range, one per spatial axis, each rounded to f32; not given, all are `default`."""
    if value is None and default is not None:
        return (default,) * length
    if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "iuf":
        value = value.tolist()
    if not isinstance(value, (list, tuple)):
        raise Refusal(f"{name}-kind", name, describe(value), "a list of numbers", wrong_kind=True)
    if len(value) != length:
        raise Refusal(f"{name}-length", name, f"{len(value)} entries", f"{length} entries, one per spatial axis")
    return tuple([real(name, entry, minimum=minimum, maximum=maximum) for entry in value])


def real(name: str, value: object, *, minimum: int | None = None, maximum: int | None = None) -> float:
    """A real number within its range, rounded to f32; what is too large becomes infinite."""
    with np.errstate(over="ignore"):
        number = float(np.float32(real_scalar(name, value)))
    nearest = _clipped(number, minimum, maximum)
    if nearest != number and number == number:
        raise Refusal(f"{name}-range", name, str(number), f"a number {_limits(minimum, maximum)}", nearest)
    return number


def dtype_row(rows: Sequence[Mapping[str, str]], inputs: Mapping[str, Described | None]) -> int:
    """The first row of supported element types that fits every given input."""
    given = {name: dtype_name(tensor.dtype) for name, tensor in inputs.items() if tensor is not None}
    for number, row in enumerate(rows):
        if all(row[name] == dtype for name, dtype in given.items()):
            return number
    nearest = min(rows, key=lambda row: sum(row[name] != dtype for name, dtype in given.items()))
    argument = next(name for name, dtype in given.items() if nearest[name] != dtype)
    expected = " or ".join("(" + ", ".join(f"{name} {row[name]}" for name in given) + ")" for row in rows)
    raise Refusal("dtypes", argument, ", ".join(f"{name} {dtype}" for name, dtype in given.items()), expected)


def dtype_name(dtype: Any) -> str:
    """What rows of data types call an array's dtype."""
    return _DTYPE_NAMES.get(dtype, str(dtype))


def spatial_rank(name: str, tensor: Described, fixed: int, minimum: int, maximum: int) -> int:
    """The number of spatial axes, read off a tensor that has `fixed` other axes."""
    rank = len(tensor.shape) - fixed
    if not minimum <= rank <= maximum:
        expected = f"{minimum + fixed} to {maximum + fixed} axes" if maximum > minimum else f"{minimum + fixed} axes"
        raise Refusal("spatial-rank", name, f"shape {tuple(tensor.shape)} ({len(tensor.shape)} axes)", expected)
    return rank


def axes_count(name: str, tensor: Described, count: int) -> None:
    """A tensor's number of axes must be that of the others."""
    if len(tensor.shape) != count:
        raise Refusal(f"{name}-rank", name, f"shape {tuple(tensor.shape)} ({len(tensor.shape)} axes)", f"{count} axes")


def stated_shape(
    output: str, length: int, tensors: Mapping[str, object], lists: Mapping[str, object]
) -> tuple[str, tuple[int, ...]]:
    """The shape that a call states for its output, and the argument that states it: a tensor before a list."""
    given = {name: int_list(name, value) for name, value in lists.items() if value is not None}
    counts = {name: len(numbers) for name, numbers in given.items()}
    for name, value in tensors.items():
        if value is not None:
            array = to_array(name, value)
            if array.ndim != 1:
                raise Refusal(f"{name}-rank", name, describe(array), "a vector of int32")
            given, counts = {name: tuple(array[: length + 100].tolist())}, {name: array.size}
    for name, numbers in given.items():
        if counts[name] != length:
            expected = f"{length} entries, the shape of {output}"
            raise Refusal(f"{name}-length", name, _entries(numbers, counts[name]), expected)
        if any(entry < 0 for entry in numbers):
            nearest = [max(entry, 0) for entry in numbers]
            raise Refusal(f"{name}-range", name, shown(numbers, length), "every entry >= 0", nearest)
        return name, numbers
    choices = " or ".join([*tensors, *lists])
    raise Refusal(
        f"{output}-shape-missing", next(iter([*tensors, *lists])), "not given", f"the shape of {output}, as {choices}"
    )


def split(shape: Sequence[int], order: Sequence[str], spatial: str | None, rank: int) -> dict[str, Extent]:
    """The extents of a shape by axis; those of the spatial axes together as a tuple."""
    axes: dict[str, Extent] = {}
    at = 0
    for axis in order:
        if axis == spatial:
            axes[axis] = tuple(shape[at : at + rank])
            at += rank
        else:
            axes[axis] = shape[at]
            at += 1
    return axes


def join(order: Sequence[str], axes: Mapping[str, Extent]) -> tuple[int, ...]:
    """The shape with those extents."""
    shape: list[int] = []
    for axis in order:
        extent = axes[axis]
        shape.extend(extent if isinstance(extent, tuple) else (extent,))
    return tuple(shape)


Arrangement = tuple[str, Mapping[str, Callable[[], Extent]], Mapping[str, str]]


def choose(
    name: str, argument: str, order: Sequence[str], axes: Mapping[str, Extent], arrangements: Sequence[Arrangement]
) -> int:
    """Which arrangement a tensor has: the first whose known extents all agree. A plain tensor has one.

    An arrangement is its name, the known extents by axis, and for the others what they are called.
    """
    expected = []
    nearest = None
    for number, (label, known, unknown) in enumerate(arrangements):
        extents = {axis: _extent(extent) for axis, extent in known.items()}
        if all(axes[axis] == extent for axis, extent in extents.items()):
            return number
        terms = [f"{axis} = {unknown[axis] if axis in unknown else _say(extents[axis])}" for axis in order]
        expected.append((f"{label}: " if label else "") + ", ".join(terms))
        if nearest is None and None not in extents.values():
            nearest = join(order, {**axes, **extents})
    got = ", ".join(f"{axis} = {_say(axes[axis])}" for axis in order)
    raise Refusal(f"{name}-shape", argument, f"of shape {join(order, axes)} ({got})", "; or ".join(expected), nearest)


def _extent(value: Callable[[], Extent]) -> Extent | None:
    """An expected extent; None where it would be a fraction, which no tensor fits."""
    try:
        return value()
    except Refusal:
        return None


def _say(extent: Extent | None) -> str:
    if isinstance(extent, tuple):
        return "x".join(map(str, extent))
    return "none that divides" if extent is None else str(extent)


def extent(rule: str, argument: str, role: str, value: Extent, minimum: int) -> None:
    """A size must not be below its minimum."""
    if any(entry < minimum for entry in (value if isinstance(value, tuple) else (value,))):
        shown = list(value) if isinstance(value, tuple) else value
        raise Refusal(rule, argument, f"one that makes {role} {shown}", f"every extent of {role} >= {minimum}")


def broken(
    rule: str, argument: str, say: str, nearest: Callable[[], object] | None = None, /, **values: Extent
) -> Refusal:
    """The refusal of a call that breaks a constraint of the spec."""
    got = ", ".join(f"{name} = {list(value) if isinstance(value, tuple) else value}" for name, value in values.items())
    near = nearest() if nearest is not None else None
    return Refusal(rule, argument, f"such that {got}", say, list(near) if isinstance(near, tuple) else near)


def output_bytes(shape: Sequence[int], dtype: str) -> None:
    """The output's size in bytes must fit into 64 bits."""
    if math.prod(shape) * DTYPES[dtype].itemsize > INT64_MAX:
        raise Refusal("memory", "out", f"an output of shape {tuple(shape)}", "at most 2**63 - 1 bytes")
