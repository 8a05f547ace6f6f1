"""Random legal calls of the six operations.

Everything comes from the generator given, so a seed names its call. Legal calls are built legal, from the small side's
size outwards, and never by asking the rulings: the two can be held against each other.

Data are small integers in -3..3, or in -2..2 or -1..1 where more terms would lead the sum out of the integers that the
dtype holds (256 in bf16, 2048 in f16). A sum of more than about 250 bf16 terms can still leave them; it stays below
2**24, so it is exact in f32, and the one rounding that the contract allows gives one answer: `==` always holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from .call import Call
from .rulings import AUTO_PADS, DTYPES, OPERATIONS, Operation

Rng = np.random.Generator
FAMILY = {False: ["XIO", "OIX"], True: ["XOI", "IOX"]}  # the weights formats of each family, the default first
EXACT = {"f32": 2**24, "f16": 2**11, "bf16": 2**8}  # every integer up to here is a value of the dtype


def random_call(rng: Rng, op: str | None = None, dtype: str | None = None, *, values: str = "small_integers") -> Call:
    """One legal call.

    `op` is a page's name, `dtype` one of f32, bf16, f16, `values` 'small_integers' or 'normal'. What is None is drawn.
    """
    op = op or str(rng.choice(list(OPERATIONS)))
    dtype = dtype or str(rng.choice(list(DTYPES)))
    return _legal_call(rng, op, dtype, values)


def describe(call: Call) -> str:
    """The call on one line: shapes, dtypes, attributes, the values of shape tensors."""
    names = {dtype: name for name, dtype in DTYPES.items()}
    inputs = []
    for array in call.inputs:
        if array is None:
            inputs.append("None")
        elif array.dtype == np.int32:
            inputs.append(f"s32:{array.tolist()}")
        else:
            inputs.append(f"{names.get(array.dtype, array.dtype)}{list(array.shape)}")
    attributes = [f"{name}={value!r}" for name, value in call.attributes.items()]
    return f"{call.op}({', '.join(inputs)}; {', '.join(attributes)})"


@dataclass(frozen=True)
class Drawn:
    """A call and the seed that it came from: prints as one line."""

    seed: int
    call: Call

    def __repr__(self) -> str:
        return f"seed {self.seed}: {describe(self.call)}"


def calls(make: Callable[..., Call] = random_call, **given: str) -> st.SearchStrategy[Drawn]:
    """Random calls for hypothesis, each beside its seed: `make(np.random.default_rng(seed), **given)` repeats it."""

    def draw(seed: int) -> Drawn:
        return Drawn(seed, make(np.random.default_rng(seed), **given))

    return st.integers(0, 2**32 - 1).map(draw)


# Legal calls


@dataclass(frozen=True)
class _Axis:
    """One spatial axis of a legal call."""

    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int
    output_padding: int
    big: int
    small: int


def _legal_call(rng: Rng, op: str, dtype: str, values: str) -> Call:
    operation = OPERATIONS[op]
    auto_pad = _draw_auto_pad(rng)
    pads_output = "output_padding" in operation.adds and rng.random() < 0.5
    rank = int(rng.integers(1, 4))
    axes = [_draw_axis(rng, op, rank, AUTO_PADS.get(auto_pad or "", "none"), pads_output) for _ in range(rank)]
    groups, a, b = _draw_groups(rng)
    batch = 0 if rng.random() < 0.03 else int(rng.integers(1, 4))
    data_format = str(rng.choice(["NCX", "NXC"]))
    weights_format = str(rng.choice(FAMILY[operation.transposed]))

    shapes = {
        "big": _data_shape(batch, groups * b, [axis.big for axis in axes], data_format),
        "small": _data_shape(batch, groups * a, [axis.small for axis in axes], data_format),
        "weights": _weights_shape(rng, op, groups, a, b, [axis.kernel for axis in axes], weights_format),
        "bias": (groups * (a if operation.finds == "small" else b),),
    }
    terms = {"small": b, "big": a, "weights": batch * math.prod(axis.small for axis in axes)}[operation.finds]
    if operation.finds != "weights":
        terms *= math.prod(axis.kernel for axis in axes)
    largest = next((m for m in (3, 2) if terms * m * m + m <= EXACT[dtype]), 1)

    inputs: list[np.ndarray | None] = []
    for role in operation.roles:
        if role == "shape" or (role == "bias" and rng.random() < 0.4):
            inputs.append(None)
        elif values == "normal":
            inputs.append(rng.standard_normal(shapes[role]).astype(DTYPES[dtype]))
        else:
            inputs.append(rng.integers(-largest, largest + 1, shapes[role]).astype(DTYPES[dtype]))

    attributes: dict[str, Any] = {
        "strides": [axis.stride for axis in axes],
        "pads_begin": [axis.begin for axis in axes],
        "pads_end": [axis.end for axis in axes],
        "dilations": [axis.dilation for axis in axes],
    }
    if auto_pad is not None:
        attributes["auto_pad"] = auto_pad
    if pads_output:
        attributes["output_padding"] = [axis.output_padding for axis in axes]
    elif "output_padding" in operation.adds and rng.random() < 0.2:
        attributes["output_padding"] = [0] * int(rng.choice([rank, 12]))
    for name, value, default in (
        ("groups", groups, 1), ("data_format", data_format, "NXC"),
        ("weights_format", weights_format, FAMILY[operation.transposed][0]),
    ):  # fmt: skip
        if value != default or rng.random() < 0.5:
            attributes[name] = value
    if "shape" in operation.roles:
        _state_shape(rng, operation, list(shapes[operation.finds]), inputs, attributes)
    if inputs[-1] is None and rng.random() < 0.3:
        inputs.pop()
    return Call(op, tuple(inputs), attributes)


def _draw_auto_pad(rng: Rng) -> str | None:
    return None if rng.random() < 0.45 else str(rng.choice(list(AUTO_PADS)))


def _draw_axis(rng: Rng, op: str, rank: int, auto_pad: str, pads_output: bool) -> _Axis:
    """An axis that fits: the size of one side is drawn, the other follows."""
    transposed = OPERATIONS[op].transposed
    k, s, d = (int(rng.integers(1, most + 1)) for most in (4, 3, 3))
    if rng.random() < 0.1:
        s = int(rng.integers(4, 9))
    if rank < 3 and rng.random() < 0.1:
        k = int(rng.integers(5, 12))
    ek = (k - 1) * d + 1
    most = ek + 4 if rng.random() < 0.15 else k
    begin, end = (int(rng.integers(0, most + 1)) for _ in range(2))
    op_limit = max(s, d) if transposed else 4
    output_padding = int(rng.integers(0, op_limit)) if pads_output else 0
    small = int(rng.integers(1, 10 if rank < 3 else 5))
    if rank == 1 and rng.random() < 0.1:
        small = int(rng.integers(10, 70))

    forward = op == "ConvTranspose" or (transposed and pads_output)  # nothing is left over
    if auto_pad.startswith("same") and not forward:
        big = small * s - int(rng.integers(0, s))
        total = max(s * (-(-big // s) - 1) + ek - big + (0 if transposed else output_padding), 0)
        small = (big + total - ek) // s + 1
    else:
        total = {"none": begin + end, "valid": 0}.get(auto_pad, max(ek - s, 0))
        extra = output_padding if forward else int(rng.integers(0, s))
        while s * (small - 1) + ek - total + extra < 1:
            small += 1
        big = s * (small - 1) + ek - total + extra
    return _Axis(k, s, d, begin, end, output_padding, big, small)


def _draw_groups(rng: Rng) -> tuple[int, int, int]:
    """Groups, and the channels of one group on the small and on the big side."""
    kind = rng.choice(["one", "wide", "grouped", "depthwise", "empty"], p=[0.35, 0.05, 0.34, 0.22, 0.04])
    if kind == "one":
        a, b = rng.integers(1, 21, 2)
        return 1, int(a), int(b)
    if kind == "wide":
        a, b = rng.integers(1, 101, 2)
        return 1, int(a), int(b)
    if kind == "grouped":
        groups, a, b = rng.integers([2, 1, 1], [5, 6, 6])
        return int(groups), int(a), int(b)
    if kind == "depthwise":
        pair = [1, int(rng.choice([1, 1, 2, 3]))]
        rng.shuffle(pair)
        return int(rng.integers(2, 21)), pair[0], pair[1]
    pair = [0, int(rng.integers(0, 4))]
    rng.shuffle(pair)
    return int(rng.integers(1, 4)), pair[0], pair[1]


def _data_shape(batch: int, channels: int, spatial: list[int], data_format: str) -> tuple[int, ...]:
    return (batch, channels, *spatial) if data_format == "NCX" else (batch, *spatial, channels)


def _weights_shape(
    rng: Rng, op: str, groups: int, a: int, b: int, kernel: list[int], weights_format: str
) -> tuple[int, ...]:
    """The library's arrangement or, where the shapes can say so, the page's (R1)."""
    small, big = groups * a, b
    channels = {"ConvTranspose": a, "ConvTransposeBackwardData": b, "ConvTransposeBackwardWeights": a + b}.get(op, 0)
    if channels and rng.random() < 0.5:
        small, big = a, groups * b
    return (small, big, *kernel) if weights_format[-1] == "X" else (*kernel, big, small)


def _state_shape(
    rng: Rng, operation: Operation, shape: list[int], inputs: list[np.ndarray | None], attributes: dict[str, Any]
) -> None:
    """By attribute, by tensor, or by both, where a wrong attribute does no harm (R8)."""
    how = rng.choice(["attribute", "tensor", "both"])
    if how != "attribute":
        inputs[-1] = np.array(shape, np.int32)
    if how != "tensor":
        decoy = how == "both" and rng.random() < 0.5
        attributes[operation.shape_name] = [extent + 1 for extent in shape] if decoy else shape
