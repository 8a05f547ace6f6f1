"""The independent witness: what a call must give, written by hand from the rulings on the six operations.

In goes a `Call`. `verdict` says whether it is legal and what it resolves to, `compute` gives its result. Nothing here
may import the generator or the package that it generates. Integers are Python's, so nothing wraps around.

The letters: N batch, G groups, S strides, D dilations, K kernel extents, EK = (K - 1) * D + 1, PB and PE pads.
Every operation finds one of three tensors from the other two. The strides walk over the *big* one, which has G * B
channels; the *small* one has G * A. Tap k joins

    big[n, g*B + b, o*S + k*D - PB]   with   small[n, g*A + a, o]   through   W[g, a, b, k]
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from .call import Call
from .ruling_layouts import Ints, ceil, flat, grouped, join_data, reached, split_data, split_weights, taps
from .six_operations import AUTO_PADS, COMMON, DTYPES, INT64_MAX, INT64_MIN, LISTS, OPERATIONS, Operation


@dataclass(frozen=True)
class Accepted:
    """A legal call, resolved. The lists have one entry per spatial axis."""

    shape: Ints  # of the output, in its own layout
    pads_begin: Ints
    pads_end: Ints
    arrangement: str  # 'library' or 'page' (R1); 'library' wherever the two are one
    strides: Ints
    dilations: Ints
    kernel: Ints
    groups: int

    @property
    def elements(self) -> int:
        """Cells of the output, an extent of 0 counted as 1, as NumPy limits them: a legal call may ask for too many."""
        return math.prod(max(extent, 1) for extent in self.shape)


@dataclass(frozen=True)
class Refused:
    """A call that must be refused.

    `reason` is `int64` where every rule is met but a size on the way (the effective kernel, the padded extent, the
    output's bytes) leaves int64: a package may then refuse, or be right.
    """

    reason: str


class _Refusal(Exception):  # noqa: N818
    """Carries a reason out of the checks."""


@dataclass(frozen=True)
class _Attributes:
    """A call's attributes, checked one by one and completed with the defaults."""

    strides: Ints
    pads_begin: Ints
    pads_end: Ints
    dilations: Ints
    output_padding: Ints
    auto_pad: str
    groups: int
    data_format: str
    weights_format: str
    shape: Ints | None  # the output's shape as stated: the input, else the attribute


def verdict(call: Call) -> Accepted | Refused:
    """Whether the rulings allow `call`, and what it resolves to or why not."""
    try:
        return _validate(call)
    except _Refusal as refusal:
        return Refused(str(refusal))


def compute(call: Call) -> np.ndarray:
    """The result of a legal call: summed in float64, rounded once to the call's dtype."""
    return _round(exact(call), _dtype(call))


def exact(call: Call) -> np.ndarray:
    """The result of a legal call in float64, before the rounding."""
    found = verdict(call)
    if isinstance(found, Refused):
        raise ValueError(f"refused: {found.reason}")
    operation = OPERATIONS[call.op]
    tensors = {role: array.astype(np.float64) for role, array in _given(call).items() if role not in ("shape", "bias")}
    tensors[operation.finds] = out = np.zeros(found.shape)
    data_format, weights_format = _formats(call)
    groups = found.groups
    big = grouped(tensors["big"], data_format, groups)
    small = grouped(tensors["small"], data_format, groups)
    weights = taps(tensors["weights"], weights_format, found)
    with np.errstate(invalid="ignore", over="ignore"):  # an Inf or a NaN at a real tap counts as IEEE 754 says
        for tap in itertools.product(*map(range, found.kernel)):
            cells = [
                reached(k * d - p, s, i, o)
                for k, d, p, s, i, o in zip(
                    tap, found.dilations, found.pads_begin, found.strides, big.shape[3:], small.shape[3:], strict=True
                )
            ]
            at_big: tuple[Any, ...] = (..., *(pair[0] for pair in cells))
            at_small: tuple[Any, ...] = (..., *(pair[1] for pair in cells))
            w: tuple[Any, ...] = (..., *tap)
            if operation.finds == "small":
                small[at_small] += (weights[w] @ flat(big[at_big])).reshape(small[at_small].shape)
            elif operation.finds == "big":
                big[at_big] += (weights[w].swapaxes(1, 2) @ flat(small[at_small])).reshape(big[at_big].shape)
            else:
                weights[w] += (flat(small[at_small]) @ flat(big[at_big]).swapaxes(2, 3)).sum(0)
        if "bias" in _given(call):
            channels_last = out if data_format == "NXC" else np.moveaxis(out, 1, -1)
            channels_last += _given(call)["bias"].astype(np.float64)
    return out


# Reading the call


def _refuse(reason: str) -> NoReturn:
    raise _Refusal(reason)


def _require(condition: bool, reason: str) -> None:
    if not condition:
        _refuse(reason)


def _given(call: Call) -> dict[str, np.ndarray]:
    """The inputs that are there, by role."""
    pairs = zip(OPERATIONS[call.op].roles, call.inputs, strict=False)
    return {role: array for role, array in pairs if array is not None}


def _dtype(call: Call) -> np.dtype[Any]:
    return next(array.dtype for role, array in _given(call).items() if role != "shape")


def _formats(call: Call) -> tuple[str, str]:
    """data_format and weights_format, as given or by default."""
    default = "XOI" if OPERATIONS[call.op].transposed else "XIO"
    return _value(call, "data_format", "NXC"), _value(call, "weights_format", default)


def _value(call: Call, name: str, default: Any = None) -> Any:
    """An attribute's value; None is as good as absent."""
    value = call.attributes.get(name)
    return default if value is None else value


def _integer(name: str, value: Any) -> int:
    """An exact integer that fits s64."""
    _require(isinstance(value, (int, np.integer)) and not isinstance(value, bool), f"{name}-kind")
    _require(INT64_MIN <= int(value) <= INT64_MAX, f"{name}-range")
    return int(value)


def _integers(name: str, value: Any) -> Ints:
    """A list of exact integers."""
    is_list = isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim == 1)
    _require(is_list, f"{name}-kind")
    return tuple(_integer(name, entry) for entry in value)


def _choice(name: str, value: Any, choices: Any) -> str:
    _require(isinstance(value, str) and value in choices, f"{name}-value")
    return str(value)


# Validating it


def _validate(call: Call) -> Accepted:
    _require(call.op in OPERATIONS, "op")
    operation = OPERATIONS[call.op]
    tensors = _check_inputs(call, operation)
    spatial_rank = next(iter(tensors.values())).ndim - 2
    attributes = _read_attributes(call, operation, spatial_rank)

    shapes = {role: array.shape for role, array in tensors.items() if role not in ("shape", "bias")}
    if operation.finds == "weights":
        assert attributes.shape is not None
        shapes["weights"] = attributes.shape
    data = {role: split_data(shape, attributes.data_format) for role, shape in shapes.items() if role != "weights"}
    letters, kernel = split_weights(shapes["weights"], attributes.weights_format)
    for extents in (kernel, *(spatial for _, _, spatial in data.values())):
        _require(min(extents) >= 1, "spatial-extent")
    if operation.finds == "weights":
        _require(data["big"][0] == data["small"][0], "batch")

    channels = {role: c for role, (_, c, _) in data.items()}
    arrangement = _arrange(operation, attributes.groups, letters, channels)
    spatial = {role: x for role, (_, _, x) in data.items()}
    if call.op == "ConvolutionBackwardData":
        assert attributes.shape is not None
        stated = split_data(attributes.shape, attributes.data_format)
        _require(stated[:2] == (data["small"][0], channels["big"]), "dst-shape-inconsistent")
        spatial["big"] = stated[2]
        _require(min(stated[2]) >= 1, "spatial-extent")
    begin, end = _pads(operation, attributes, kernel, spatial.get("big"))
    _fit(operation, attributes, kernel, begin, end, spatial)

    if operation.finds == "weights":
        shape = shapes["weights"]
    else:
        batch = next(iter(data.values()))[0]
        shape = join_data(batch, channels[operation.finds], spatial[operation.finds], attributes.data_format)
        if "bias" in tensors:
            _require(tensors["bias"].shape == (channels[operation.finds],), "bias-shape")
    spans = [i + pb + pe for i, pb, pe in zip(spatial["big"], begin, end, strict=True)]
    found = Accepted(
        shape, begin, end, arrangement, attributes.strides, attributes.dilations, kernel, attributes.groups
    )
    _require(max(found.elements * _dtype(call).itemsize, *spans) <= INT64_MAX, "int64")
    return found


def _check_inputs(call: Call, operation: Operation) -> dict[str, np.ndarray]:
    """The tensors by role, of the right number, dtypes and ranks."""
    _require(len(call.inputs) <= len(operation.roles), "input-count")
    tensors = _given(call)
    for role in operation.roles:
        _require(role in tensors or role in ("bias", "shape"), "input-missing")
    dtypes = {array.dtype for role, array in tensors.items() if role != "shape"}
    _require(len(dtypes) == 1 and dtypes <= set(DTYPES.values()), "dtypes")
    ranks = {array.ndim for role, array in tensors.items() if role not in ("bias", "shape")}
    _require(len(ranks) == 1 and 3 <= min(ranks) <= 5, "rank")
    if "bias" in tensors:
        _require(tensors["bias"].ndim == 1, "bias-shape")
    if "shape" in tensors:
        _require(tensors["shape"].dtype == np.int32, "dtypes")
        _require(tensors["shape"].ndim == 1, "shape-tensor-rank")
    return tensors


def _read_attributes(call: Call, operation: Operation, spatial_rank: int) -> _Attributes:
    """Every attribute checked by itself, defaults filled in."""
    _require(set(call.attributes) <= {*COMMON, *operation.adds}, "unknown-attribute")
    lists = {}
    for name in LISTS:
        rule = name.replace("_", "-")
        _require(_value(call, name) is not None, f"{rule}-missing")
        lists[name] = _integers(rule, _value(call, name))
        _require(len(lists[name]) == spatial_rank, f"{rule}-length")
        _require(min(lists[name]) >= (0 if name.startswith("pads") else 1), f"{rule}-range")

    padding = _integers("output-padding", _value(call, "output_padding", (0,) * spatial_rank))
    _require(len(padding) >= spatial_rank and not any(padding[spatial_rank:]), "output-padding-length")
    padding = padding[:spatial_rank]
    _require(min(padding) >= 0, "output-padding-range")
    if operation.transposed:
        limits = map(max, lists["strides"], lists["dilations"])
        _require(all(op < limit for op, limit in zip(padding, limits, strict=True)), "output-padding-range")

    groups = _integer("groups", _value(call, "groups", 1))
    _require(groups >= 1, "groups-range")
    auto_pad = AUTO_PADS[_choice("auto-pad", _value(call, "auto_pad", "none"), AUTO_PADS)]
    data_format, weights_format = _formats(call)
    _choice("data-format", data_format, ("NCX", "NXC"))
    _choice("weights-format", weights_format, ("IOX", "XOI") if operation.transposed else ("OIX", "XIO"))
    shape = _stated_shape(call, operation, spatial_rank)
    return _Attributes(
        **lists, output_padding=padding, auto_pad=auto_pad, groups=groups,
        data_format=data_format, weights_format=weights_format, shape=shape,
    )  # fmt: skip


def _stated_shape(call: Call, operation: Operation, spatial_rank: int) -> Ints | None:
    """dst_shape or weights_shape: the input wins over the attribute, of which only the kind then counts (R8)."""
    if not operation.shape_name:
        return None
    rule = operation.shape_name.replace("_", "-")
    attribute = _value(call, operation.shape_name)
    shape = None if attribute is None else _integers(rule, attribute)
    if "shape" in (given := _given(call)):
        shape = tuple(map(int, given["shape"]))
    if shape is None:
        _refuse("shape-missing")
    _require(len(shape) == spatial_rank + 2, f"{rule}-length")
    _require(min(shape) >= 0, f"{rule}-range")
    return shape


def _arrange(operation: Operation, groups: int, letters: dict[str, int], channels: dict[str, int]) -> str:
    """Which arrangement the weights have (R1), and into `channels` the ones that they alone tell."""
    for count in channels.values():
        _require(count % groups == 0, "groups-divide")
    small, big = (letters["I"], letters["O"]) if operation.transposed else (letters["O"], letters["I"])
    fits = {"library": {"small": small, "big": big * groups}}
    if operation.transposed and groups > 1:
        fits["page"] = {"small": small * groups, "big": big}
    for arrangement, fit in fits.items():
        if all(fit[role] == count for role, count in channels.items()):
            for role, count in fit.items():
                _require(count % groups == 0, "groups-divide")
                channels[role] = count
            return arrangement
    return _refuse("arrangement" if len(fits) == 2 else "channels")


def _pads(operation: Operation, attributes: _Attributes, kernel: Ints, big: Ints | None) -> tuple[Ints, Ints]:
    """Pads as given, or as auto_pad decides (R4, R5)."""
    if attributes.auto_pad == "none":
        return attributes.pads_begin, attributes.pads_end
    totals = [0] * len(kernel)
    if attributes.auto_pad.startswith("same"):
        for axis, (s, ek, op) in enumerate(
            zip(attributes.strides, _effective(kernel, attributes.dilations), attributes.output_padding, strict=True)
        ):
            if big is None:  # ConvTranspose
                totals[axis] = max(ek - s, 0)
            elif operation.transposed:  # the forward op's big tensor, before its output padding
                i = big[axis] - op
                totals[axis] = max(s * (ceil(i, s) - 1) + ek - i, 0)
            else:
                totals[axis] = max(s * (ceil(big[axis], s) - 1) + ek - big[axis] + op, 0)
    less, more = tuple(t // 2 for t in totals), tuple(t - t // 2 for t in totals)
    return (more, less) if attributes.auto_pad == "same_lower" else (less, more)


def _fit(
    operation: Operation, attributes: _Attributes, kernel: Ints, begin: Ints, end: Ints, spatial: dict[str, Ints]
) -> None:
    """The size rule on every axis: checks `spatial`, and adds the side that the operation finds."""
    stated = operation.transposed and any(attributes.output_padding)
    axes = zip(
        attributes.strides, _effective(kernel, attributes.dilations), begin, end, attributes.output_padding, strict=True
    )
    sizes = []
    for axis, (s, ek, pb, pe, op) in enumerate(axes):
        if "big" not in spatial:
            size = s * (spatial["small"][axis] - 1) + ek - pb - pe + op
            _require(size >= 1, "spatial-extent")
        else:
            padded = spatial["big"][axis] - (op if stated else 0) + pb + pe
            size = (padded - ek) // s + 1
            _require(not stated or (padded - ek) % s == 0, "output-padding-remainder")
            _require(size >= 1, "spatial-extent")
        sizes.append(size)
    if "big" not in spatial:
        spatial["big"] = tuple(sizes)
    elif "small" not in spatial:
        spatial["small"] = tuple(sizes)
    else:
        _require(spatial["small"] == tuple(sizes), f"{operation.shape_name.replace('_', '-')}-inconsistent")


def _effective(kernel: Ints, dilations: Ints) -> Ints:
    """EK, the extent that the dilated kernel spans."""
    return tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))


def _round(values: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """To the nearest, ties to even. To bfloat16 ml_dtypes goes through float32 and would round twice: make that odd."""
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype != DTYPES["bf16"]:
            return values.astype(dtype)
        single = values.astype(np.float32)
        towards_zero = np.where(np.abs(single) > np.abs(values), np.nextafter(single, np.float32(0)), single)
        inexact = np.isfinite(values) & (towards_zero != values)
        odd = np.where(inexact, towards_zero.view(np.uint32) | 1, towards_zero.view(np.uint32)).astype(np.uint32)
        return odd.view(np.float32).astype(dtype)
