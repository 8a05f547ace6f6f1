"""Calls like one before: the key that tells them, and what was found out about them.

In: the inputs and attributes of a call. Out: a key of all that understanding a call looks at, and the attributes as the
key holds them: nobody else can change these meanwhile. What is remembered under a key is the caller's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from marshal import dumps, loads
from typing import Any

from numpy import dtype, frombuffer, ndarray

MAX_CALLS = 512  # that are remembered
MAX_BYTES = 65536  # of the attributes of a call that is remembered: numbers for about 8,000 channels
MAX_EXTENTS = 16  # of a vector that states a shape
MIN_INPUTS = 3  # in a key: what a call has fewer counts as absent

_PLAIN = {int, float, bool, str, type(None)}
_NUMBERS = {dtype(char).type for char in "?bhilqBHILQefd"}  # of NumPy that Python has, too; none derived from them
CALLS: dict[Any, Any] = {}
# What others remember of calls is asked after here: called where a setting of calls changes, and by `forget`.
CHANGED: list[Callable[[], None]] = []


def key(function: Any, stating: Sequence[int], inputs: Sequence[Any], attributes: tuple[Any, ...]) -> Any:
    """A hashable key, or None where an argument is not of the plainest kind. `stating`: see Description.stating.

    marshal writes a number with its type, so that 1, True and 1.0 make three keys, and a list as it is at one moment.
    What it meets a second time it writes as a reference: a list that holds itself ends, and equal calls may have a few
    keys. Of what else has a buffer it writes the bytes alone: nothing is remembered under such a key.
    """
    arrays: list[Any] = []
    for value in inputs:
        if type(value) is ndarray:
            arrays += value.dtype, value.shape
        elif value is None:
            arrays += None, None
        else:
            return None
    arrays += (None, None) * (MIN_INPUTS - len(inputs))
    try:
        states = [stated(inputs[position]) for position in stating if inputs[position] is not None]
        return (function, dumps(frozen(attributes)), *arrays, b"".join(states))
    except Exception:  # of whatever kind: an entry may be anything
        return None


def frozen(attributes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Attributes with arrays of numbers as their dtypes and bytes; the same object where there are none."""
    if ndarray not in map(type, attributes):
        return attributes
    return tuple(
        [
            (a.dtype.str, a.tobytes()) if type(a) is ndarray and a.dtype.kind in "iuf" and a.ndim == 1 else a
            for a in attributes
        ]
    )


def plain(attributes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Attributes with numbers of NumPy as Python's of the same value; the same object where there are none."""
    found = [_plain(attribute) for attribute in attributes]
    return attributes if all(one is own for one, own in zip(found, attributes)) else tuple(found)


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind in (list, tuple):
        found = [one.item() if type(one) in _NUMBERS else one for one in value]
        return value if all(one is own for one, own in zip(found, value)) else kind(found)
    return value.item() if kind in _NUMBERS else value


def stated(vector: Any) -> bytes:
    """What a vector that states a shape adds to a key. ValueError where it is too long to be remembered."""
    if vector.size > MAX_EXTENTS:
        raise ValueError(f"{vector.size} extents")
    content: bytes = vector.tobytes()
    return content


def attributes_of(key: Any) -> tuple[Any, ...] | None:
    """The attributes in a key under which a call may be remembered; None where they are not all Python's own, or many.

    Of numbers and texts of Python, lists of numbers, and arrays as `frozen` has them, no two have the same bytes.
    """
    if key is None or len(key[1]) > MAX_BYTES:
        return None
    attributes: tuple[Any, ...] = loads(key[1])
    given, attributes = attributes, tuple([() if _is_frozen(a) else a for a in attributes])
    lists = [attribute for attribute in attributes if type(attribute) in (list, tuple)]
    plain = {*map(type, attributes)} <= _PLAIN | {list, tuple}
    if not plain or not {type(entry) for entries in lists for entry in entries} <= {int, float}:
        return None
    return tuple([frombuffer(a[1], a[0]) if _is_frozen(a) else a for a in given])


def _is_frozen(value: Any) -> bool:
    return type(value) is tuple and [*map(type, value)] == [str, bytes]


def remember(key: Any, found: Any) -> None:
    """Remember what was found out about a call; all is forgotten where there are too many."""
    if len(CALLS) >= MAX_CALLS:
        CALLS.clear()
    CALLS[key] = found


def changed() -> None:
    """Tell whoever remembers more than plans that calls like one before may now run otherwise."""
    for tell in CHANGED:
        tell()


def forget() -> None:
    """Forget all calls."""
    CALLS.clear()
    changed()
