"""The oracle's reading of numbers that a caller passed.

In: any value of an attribute. Out: plain numbers; None if the value is of another kind. Nothing is refused here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..language.model import Attribute


def whole(value: object) -> int | None:
    integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return int(value) if integer else None  # type: ignore[call-overload]


def wholes(value: object) -> tuple[int, ...] | None:
    if isinstance(value, np.ndarray):
        value = list(value) if value.ndim == 1 else None
    if not isinstance(value, (list, tuple)):
        return None
    entries = [whole(entry) for entry in value]
    return None if None in entries else tuple(entry for entry in entries if entry is not None)


def _real(value: object) -> float | None:
    """The nearest f32; infinite if the value is too large."""
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
        return None
    with np.errstate(over="ignore"):
        try:
            return float(np.float32(value))
        except OverflowError:
            return math.inf if value > 0 else -math.inf


def entries_of(attribute: Attribute, value: object) -> tuple[Any, ...] | None:
    """The value of a number attribute as a tuple; None if it is of another kind."""
    if attribute.type == "s64[]":
        return wholes(value)
    if attribute.type == "f32[]":
        numbers = [_real(entry) for entry in value] if isinstance(value, (list, tuple, np.ndarray)) else [None]
        return None if None in numbers else tuple(numbers)
    single = _real(value) if attribute.type == "f32" else whole(value)
    return None if single is None else (single,)


def default(attribute: Attribute, rank: int | None) -> object:
    text = attribute.default or ""
    if attribute.type in ("string", "bool"):
        return text
    if attribute.type == "f32[]":
        return (float(text),) * (1 if attribute.length is None else rank or 0)
    if attribute.type == "s64[]" and attribute.length is None:
        return tuple(int(entry) for entry in text.strip("[]").split(",") if entry)
    if attribute.type == "s64[]":
        return (int(text),) * (rank or 0)
    return float(text) if attribute.type == "f32" else int(text)
