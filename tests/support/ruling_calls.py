"""Short calls for the tests of the rulings, and what a ruling makes of one."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.call import Call
from support.rulings import OPERATIONS, Accepted, Refused, verdict

NCX = {"data_format": "NCX"}
OIX = {"data_format": "NCX", "weights_format": "OIX"}
IOX = {"data_format": "NCX", "weights_format": "IOX"}
TRANSPOSED = [op for op, operation in OPERATIONS.items() if operation.transposed]


def make(op: str, *inputs: Any, **attributes: Any) -> Call:
    """A call on one spatial axis: a tuple stands for a tensor of ones, lists default to what changes nothing."""
    arrays = tuple(np.ones(x, np.float32) if isinstance(x, tuple) else x for x in inputs)
    plain = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    return Call(op, arrays, {**plain, **attributes})


def accepted(call: Call) -> Accepted:
    found = verdict(call)
    assert isinstance(found, Accepted), found
    return found


def reason(call: Call) -> str:
    found = verdict(call)
    assert isinstance(found, Refused), found
    return found.reason


def f32(*values: float, shape: tuple[int, ...] | None = None) -> np.ndarray:
    return np.array(values, np.float32).reshape(shape or (1, 1, -1))


def pads(call: Call) -> tuple[int, int]:
    """Begin and end, of the only axis."""
    found = accepted(call)
    return found.pads_begin[0], found.pads_end[0]
