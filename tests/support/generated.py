"""The generated package, asked as the witnesses are asked: with a `Call`.

In: a `Call`. Out: what the package makes of it; `check` compares it with the rulings.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import opwright_kernels as ok

from . import rulings
from .call import Call
from .calls import describe

PACKAGE = Path(ok.__file__).parent


def function(op: str) -> str:
    """The function of an operation: snake_case of its name."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", op).lower()


def run(call: Call, **options: Any) -> Any:
    """The package's answer, or its refusal."""
    return getattr(ok, function(call.op))(*call.inputs, **call.attributes, **options)


def attempt(call: Call, **options: Any) -> Any:
    """The package's answer, or the SpecError that refuses the call, or the TypeError of an unknown attribute."""
    try:
        return run(call, **options)
    except (ok.SpecError, TypeError) as error:
        return error


def variant(call: Call) -> ok.VariantInfo:
    """The kernel that the package chooses."""
    return ok.explain(call.op, *call.inputs, **call.attributes).variant


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal values, dtypes and shapes; a NaN equals every NaN."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    bits = np.dtype(f"u{a.itemsize}")
    if np.array_equal(np.ascontiguousarray(a).view(bits), np.ascontiguousarray(b).view(bits)):
        return True
    return bool(np.array_equal(a.astype(np.float64), b.astype(np.float64), equal_nan=True))


def check(call: Call, threads: int | tuple[int, ...] | None = None) -> None:
    """The package gives what the rulings give, on one number of threads or on each of several."""
    expected = rulings.compute(call)
    for count in threads if isinstance(threads, tuple) else (threads,):
        assert same(run(call, threads=count), expected), (count, describe(call))
