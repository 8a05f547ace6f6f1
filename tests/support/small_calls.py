"""Arrays and lists of attributes of small calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def f32(values: object) -> Array:
    return np.array(values, np.float32)


def integers(rng: np.random.Generator, *shape: int) -> Array:
    return rng.integers(-4, 5, shape).astype(np.float32)


def lists(strides: int = 1, begin: int = 0, end: int = 0, dilations: int = 1, **others: object) -> dict[str, object]:
    """The attributes of a call with one spatial axis, channels first."""
    found: dict[str, object] = {
        "strides": [strides],
        "pads_begin": [begin],
        "pads_end": [end],
        "dilations": [dilations],
    }
    return {**found, "data_format": "NCX", **others}
