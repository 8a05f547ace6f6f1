"""What a caller gave, in words for a message.

In: any value whatever, a stranger's object included. Out: text of one line, bounded in length and in the time that it
takes. Never an exception, and no code of the value's own: neither its `repr` nor its `len`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

import ml_dtypes
import numpy as np

MAX_LETTERS = 500  # characters of one piece of a message
_SHORT = 80  # characters of a value, and of the name of a type
_ENTRIES = 12  # of a list
_DEPTH = 2  # of lists inside of each other
_BITS = 256  # of an integer that is written out
# Types whose repr is short, and NumPy's or Python's own.
_PLAIN = {type(None), bool, float, complex, ml_dtypes.bfloat16}
_PLAIN |= {np.dtype(code).type for code in np.typecodes["All"] if code not in "SUVO"}


def shortened(words: str, maximum: int = MAX_LETTERS) -> str:
    """`words`, cut where they are longer than `maximum` characters."""
    return words if len(words) <= maximum else words[: maximum - 3] + "..."


def quoted(text: str) -> str:
    """`text`, a stranger's, as a literal that is never long."""
    return repr(text if len(text) <= 80 else text[:77] + "...")


def name_of(kind: type) -> str:
    """The name of a type."""
    try:
        return shortened(" ".join(str(kind.__name__).split()), _SHORT)
    except Exception:  # what a metaclass makes of it
        return "object"


def describe(value: Any) -> str:
    """`value` in a few words, for the `got` of an error."""
    kind = type(value)
    if issubclass(kind, np.ndarray):
        array = np.ndarray.view(value, np.ndarray)
        words = shortened(f"a {array.dtype} array of shape {array.shape}")
        return words if kind is np.ndarray else f"{words} ({name_of(kind)})"
    if value is None:
        return "None"
    if issubclass(kind, type):
        return f"the type {name_of(value)}"
    words = literal(value)
    return f"{shortened(words, _SHORT)} ({name_of(kind)})" if words else f"an object of type {name_of(kind)}"


def literal(value: Any, depth: int = 0) -> str:
    """`value` as Python would write it, a long one in part; "" for an object of which only the type can be shown."""
    kind = type(value)
    if kind is int:
        return str(value) if value.bit_length() <= _BITS else f"an integer of {value.bit_length()} bits"
    if kind is str or kind is bytes:
        return repr(value[:MAX_LETTERS])
    if kind is list or kind is tuple:
        if depth == _DEPTH:
            return "[...]"
        entries = [literal(entry, depth + 1) or f"<{name_of(type(entry))}>" for entry in value[:_ENTRIES]]
        return _bracketed(entries, len(value), "[]" if kind is list else "()")
    return repr(value) if kind in _PLAIN else ""


def shown(entries: Iterable[int], count: int) -> str:
    """`count` integers as a list, the first of them where there are many."""
    return _bracketed([literal(entry) for entry in islice(entries, _ENTRIES)], count, "[]")


def _bracketed(entries: list[str], count: int, brackets: str) -> str:
    more = ", ..." if count > len(entries) else "," if count == 1 and brackets == "()" else ""
    return f"{brackets[0]}{', '.join(entries)}{more}{brackets[1]}"


def brief(error: BaseException) -> str:
    """What an exception says, or its type where it says nothing."""
    try:
        words = " ".join(str(error)[: 2 * MAX_LETTERS].split())
    except Exception:  # of whatever kind: its own __str__ may fail
        words = ""
    return shortened(words, 200) or name_of(type(error))
