"""Legal calls whose strides, dilations and pads are huge, near the 2**62 that validators let index sums reach.

Everything comes from the generator given. The tensors stay small: one side spans little, or lies in the padding.
"""

from __future__ import annotations

import numpy as np

from .call import Call
from .calls import Rng
from .rulings import OPERATIONS

HUGE = [2**20 + 1, 2**31, 2**32 + 1, 2**40, 2**40 + 1, 2**59, 2**60 - 1, 2**61 - 3, 3 * 2**60 + 1, 2**62 - 9]


def huge_call(rng: Rng, op: str) -> Call:
    """One f32 call, legal but for the limits of 64 bits."""
    operation = OPERATIONS[op]
    channels, batch = int(rng.choice([1, 2, 3, 8])), int(rng.integers(1, 3))
    groups = channels if rng.random() < 0.5 else 1
    inside = channels // groups
    axes = [_axis(rng) for _ in range(int(rng.integers(1, 4)))]
    strides, dilations, kernel, big, small, begin, end = (list(column) for column in zip(*axes, strict=True))
    last = rng.random() < 0.5
    order = "IOX" if operation.transposed else "OIX"
    shapes = {
        "big": (batch, *big, channels) if last else (batch, channels, *big),
        "small": (batch, *small, channels) if last else (batch, channels, *small),
        "weights": (*kernel, inside, channels) if last else (channels, inside, *kernel),
    }
    arrays = {role: rng.integers(-3, 4, shape).astype(np.float32) for role, shape in shapes.items()}
    attributes = {
        "strides": strides, "pads_begin": begin, "pads_end": end, "dilations": dilations,
        "groups": groups, "data_format": "NXC" if last else "NCX", "weights_format": "X" + order[1::-1] if last else order,
    }  # fmt: skip
    if operation.shape_name:
        attributes[operation.shape_name] = list(shapes[operation.finds])
    return Call(op, tuple(arrays[role] for role in operation.roles[:2]), attributes)


def _axis(rng: Rng) -> tuple[int, int, int, int, int, int, int]:
    """Stride, dilation, kernel, big and small extents, pads: padding makes up for what the big side does not span."""
    stride, dilation = (int(rng.choice(HUGE)) if rng.random() < 0.5 else int(rng.integers(1, 4)) for _ in range(2))
    kernel, small = (int(rng.integers(1, 4)) for _ in range(2))
    span = stride * (small - 1) + (kernel - 1) * dilation + 1
    big = min(int(rng.integers(1, 7)), span)
    pads = span - big
    begin = [0, pads, pads // 2, min(pads, dilation), min(pads, stride)][int(rng.integers(5))]
    return stride, dilation, kernel, big, small, begin, pads - begin
