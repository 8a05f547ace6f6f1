"""What workers run: a part of a call, and the joining of parts.

Everything here is a function of its arguments, named in the graph by what it does, and found by its import.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_PACKAGE: Any = importlib.import_module(__name__.rpartition(".")[0].rpartition(".")[0])
_JOIN: dict[str, Any] = {"sum": np.add, "mean": np.add, "product": np.multiply, "max": np.maximum, "min": np.minimum}


@dataclass(frozen=True)
class Computed:
    """Computes the outputs of a part: the array itself where nothing joins it, else all of them."""

    function: str
    attributes: Mapping[str, Any]
    trims: Sequence[Mapping[int, tuple[int, int]]]
    threads: int
    alone: bool

    def __call__(self, *inputs: Any) -> Any:
        arrays = [_assembled(value) for value in inputs]
        found = getattr(_PACKAGE, self.function)(*arrays, threads=self.threads, **self.attributes)
        results = found if isinstance(found, tuple) else (found,)
        trimmed = tuple(_trimmed(array, trim) for array, trim in zip(results, self.trims))
        return trimmed[0] if self.alone else trimmed


def _assembled(value: Any) -> Any:
    """An array from nested lists of pieces, each level an axis; a tuple has several arrays."""
    if isinstance(value, tuple):
        return [_assembled(part) for part in value]
    whole = value
    while isinstance(whole, list) and len(whole) == 1:
        whole = whole[0]
    return np.block(whole) if isinstance(whole, list) else whole


def _trimmed(array: Any, trim: Mapping[int, tuple[int, int]]) -> Any:
    """The cells of a result that are used, with no others behind them."""
    for axis, (start, stop) in trim.items():
        array = array[(slice(None),) * axis + (slice(start, stop),)]
    return np.ascontiguousarray(array) if trim else array


@dataclass(frozen=True)
class Combined:
    """Joins parts by a reduction, in their order; `at` is the output of each that is meant, -1 the whole of it."""

    join: str
    at: int
    shares: tuple[float, ...]

    def __call__(self, parts: Sequence[Any]) -> Any:
        arrays = [part if self.at < 0 else part[self.at] for part in parts]
        if self.shares:
            arrays = [array * np.asarray(share, array.dtype) for array, share in zip(arrays, self.shares)]
        return functools.reduce(_JOIN[self.join], arrays)


def nothing(shape: tuple[int, ...], dtype: str) -> Any:
    """A part of a sum without terms."""
    return np.zeros(shape, np.dtype(dtype))
