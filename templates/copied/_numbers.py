"""Turns the arguments of a call that are no arrays into integers, numbers and text, or refuses them.

In: whatever the caller gave. Out: plain Python values. Everything that is refused raises `Refusal`; nothing here knows
which operation asks. Of a list only its memory is read: no method of a subclass is called.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ._errors import Refusal
from ._words import describe

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
# Types that stand for integers not known yet; integrations that trace calls add theirs. They have no limits.
SYMBOLS: list[type[Any]] = []


def wrong_kind(argument: str, got: str, expected: str, nearest: object = None) -> Refusal:
    """The refusal of an argument that is of the wrong kind altogether."""
    return Refusal(f"{argument}-kind", argument, got, expected, nearest, wrong_kind=True)


def snapshot(value: Any) -> Any:
    """A list or tuple as it is now, one level deep; anything else as it is.

    What a call makes of its arguments it makes of this: a signal handler or another thread may change a list meanwhile.
    """
    kind = type(value)
    if issubclass(kind, list):
        return list.copy(value)
    return tuple.__getitem__(value, slice(None)) if issubclass(kind, tuple) else value


def int_list(argument: str, value: object) -> tuple[int, ...]:
    """`value` as integers: a list or tuple of them, or a 1-D integer array.

    Refusal "<argument>-kind" for anything else, "<argument>-int64" for an entry that int64 cannot hold.
    """
    if type(value) is np.ndarray and value.ndim == 1 and value.dtype.kind in "iu":
        entries: Any = value.tolist()
    elif issubclass(type(value), (list, tuple)):
        entries = snapshot(value)
    else:
        raise wrong_kind(argument, describe(value), "a list of integers")
    for entry in entries:
        if type(entry) is not int or not _INT64_MIN <= entry <= _INT64_MAX:
            return tuple([_int_entry(argument, entries, entry) for entry in entries])
    return tuple(entries)


def _int_entry(argument: str, entries: Any, entry: object) -> int:
    """One of `entries` as an integer, for the lists that hold more than plain small ones."""
    integer = _integer(entry)
    if integer is None:
        meant = [_meant(entry) for entry in entries]
        raise wrong_kind(argument, describe(entries), "a list of integers", None if None in meant else meant)
    if type(integer) is int and not _INT64_MIN <= integer <= _INT64_MAX:
        raise Refusal(f"{argument}-int64", argument, describe(entries), "integers that fit into int64")
    return integer


def int_scalar(argument: str, value: object) -> int:
    """`value` as an integer: Python's, NumPy's, or a 0-d integer array. Refusals as of `int_list`."""
    integer = value if type(value) is int else _integer(value)
    if integer is None:
        raise wrong_kind(argument, describe(value), "an integer", _meant(value))
    if type(integer) is int and not _INT64_MIN <= integer <= _INT64_MAX:
        raise Refusal(f"{argument}-int64", argument, describe(value), "an integer that fits into int64")
    return integer


def _integer(value: Any) -> int | None:
    """The integer that `value` is; None where it is not one (a bool, a duration, a float with an integral value)."""
    kind = type(value)
    if issubclass(kind, (bool, np.timedelta64)):
        return None
    if issubclass(kind, int):
        return int.__int__(value)
    if kind is np.ndarray and value.ndim == 0 and value.dtype.kind in "iu":
        return int(value)
    if kind in SYMBOLS:
        symbol: int = value
        return symbol
    return _converted(int, value) if issubclass(kind, np.integer) else None


def _meant(value: Any) -> int | None:
    """What a float with an integral value was meant to be; None for anything that is not an integer."""
    if issubclass(type(value), float):
        number = float.__float__(value)
        return int(number) if number.is_integer() else None
    return _integer(value)


def _converted(kind: type[Any], value: Any) -> Any:
    """`value` as a number of this kind; None where its own class fails to make one of it."""
    try:
        return kind(value)
    except Exception:  # of whatever kind: the class is the caller's
        return None


def real_scalar(argument: str, value: Any) -> float:
    """`value` as a float: a real number of Python or NumPy, or a 0-d array of one.

    Refusal "<argument>-kind" for anything else, "<argument>-range" for an integer beyond float64.
    """
    if type(value) is np.ndarray and value.ndim == 0:
        value = value[()]
    if issubclass(type(value), float):
        return float.__float__(value)
    real = _converted(float, value) if issubclass(type(value), (np.floating, ml_dtypes.bfloat16)) else None
    if real is not None:
        return float(real)
    integer = _integer(value)
    if integer is None:
        raise wrong_kind(argument, describe(value), "a number")
    try:
        return float(integer)
    except OverflowError:
        raise Refusal(f"{argument}-range", argument, describe(value), "a number that fits into float64") from None


def text(argument: str, value: Any) -> str:
    """`value` as text. Refusal "<argument>-kind" for anything but a str."""
    if not issubclass(type(value), str):
        raise wrong_kind(argument, describe(value), "text")
    return str.__str__(value)
