"""More of what the operations of tests/data/formulas compute, in NumPy: windows, rims, bytes, attention, places.

As in `formulas`: each function takes widened inputs and attributes, and reads no spec.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .formulas import FORMULAS, Attributes, along, formula, softmax

__all__ = ["FORMULAS"]


def each(value: Any, count: int) -> list[int]:
    """A list with an entry per spatial axis, of which a call may give one for all."""
    return [int(entry) for entry in (list(value) * count if len(value) == 1 else value)]


def cells_of(*shape: int) -> Any:
    return np.ndindex(*shape)


@formula
def im2col(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    (src,) = inputs
    outer, space = src.shape[:2], src.shape[2:]
    names = ("kernel", "strides", "dilations", "pads")
    kernel, strides, dilations, pads = (each(attributes[name], len(space)) for name in names)
    outs = []
    for extent, k, s, d, p in zip(space, kernel, strides, dilations, pads, strict=True):
        steps = (extent + 2 * p - d * (k - 1) - 1) / s
        outs.append((math.floor(steps) if attributes["rounding"] == "floor" else math.ceil(steps)) + 1)
    found = np.zeros((*outer, *kernel, *outs))
    for tap in cells_of(*kernel):
        for cell in cells_of(*outs):
            at = [o * s + k * d - p for o, s, k, d, p in zip(cell, strides, tap, dilations, pads, strict=True)]
            if all(0 <= place < extent for place, extent in zip(at, space, strict=True)):
                found[(slice(None), slice(None), *tap, *cell)] = src[(slice(None), slice(None), *at)]
    return [found.reshape(outer[0], outer[1] * math.prod(kernel), math.prod(outs))]


@formula
def adaptive_avg_pool(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    last = attributes["data_format"] == "NXC"
    src = np.moveaxis(inputs[0], -1, 1) if last else inputs[0]
    outs, space = attributes["output_size"], src.shape[2:]
    found = np.empty((*src.shape[:2], *outs))
    for cell in cells_of(*outs):
        inside = [slice(o * n // m, -(-(o + 1) * n // m)) for o, n, m in zip(cell, space, outs, strict=True)]
        found[(..., *cell)] = src[(..., *inside)].mean(tuple(range(2, src.ndim)))
    return [np.moveaxis(found, 1, -1) if last else found]


@formula
def pad_modes(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    (src,) = inputs
    rims = zip(*(each(attributes[name], src.ndim - 2) for name in ("before", "after")), strict=True)
    width = [(0, 0), (0, 0), *rims]
    if attributes["mode"] == "constant":
        return [np.pad(src, width, constant_values=attributes["fill"])]
    return [np.pad(src, width, mode=attributes["mode"])]


@formula
def local_peaks(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    (src,) = inputs
    radius, found = each(attributes["radius"], src.ndim - 1), np.zeros(src.shape, bool)
    for cell in cells_of(*src.shape):
        near = [slice(max(0, at - r), at + r + 1) for at, r in zip(cell[1:], radius, strict=True)]
        found[cell] = src[cell] >= src[(cell[0], *near)].max() and src[cell] > attributes["threshold"]
    return [found, found.sum(tuple(range(1, src.ndim)))]


@formula
def rolling_statistics(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    (src,), step, dilation = inputs, attributes["step"], attributes["dilation"]
    length = dilation * (attributes["window"] - 1) + 1
    starts = range(0, src.shape[-1] - length + 1, step)
    windows = np.stack([src[..., at : at + length : dilation] for at in starts], -2)
    return [windows.mean(-1), windows.var(-1), windows.min(-1), windows.max(-1)]


@formula
def top_one(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    (src,), axis, keep_dims = inputs, attributes["axis"], attributes["keep_dims"]
    sign = 1 if attributes["largest"] else -1
    best = (sign * src).max(axis, keepdims=True, initial=-np.inf)
    at = np.where((sign * src) == best, along(np.arange(src.shape[axis]), axis, src.ndim), np.inf)
    found = [sign * best, at.min(axis, keepdims=True, initial=np.inf)]
    return found if keep_dims else [array.squeeze(axis) for array in found]


@formula
def swiglu(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    gate, other = np.split(inputs[0], 2, attributes["axis"])
    return [gate / (1 + np.exp(-attributes["beta"] * gate)) * other]


@formula
def byte_dot(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    a, w, bias = inputs
    product = (a - attributes["a_zero"]) @ (w - np.reshape(attributes["w_zeros"], (-1, 1))).T
    return [product + (0 if bias is None else bias), a.sum(-1)]


@formula
def fake_quantize(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    (src,), axis = inputs, attributes["axis"]
    scale, zero = (along(attributes[name], axis, src.ndim) for name in ("scale", "zero_point"))
    whole, least = np.rint(src / scale) + zero, int(attributes["narrow_range"])
    return [(np.clip(whole, least, 255) - zero) * scale, (whole >= least) & (whole <= 255)]


@formula
def nll_loss(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    logs, labels, weight = inputs
    own = (labels[:, None] == np.arange(logs.shape[1])) & (np.arange(logs.shape[1]) != attributes["ignore_index"])
    own = own * (1 if weight is None else weight)
    losses = -(own * logs).sum(1)
    return [losses.sum() / np.float64(own.sum()), *([losses] if attributes["per_row"] else [])]


@formula
def masked_attention(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    query, key, value, mask = inputs
    score = np.einsum("bthre,sbhe->bhrts", query, key) * attributes["scale"]
    score = score if mask is None else np.where(mask[:, None, None] != 0, score, -np.inf)
    peak = score.max(-1, initial=-np.inf)
    raised = np.where(np.isinf(peak)[..., None], 0, np.exp(score - peak[..., None]))
    mass = raised.sum(-1)
    mixed = np.einsum("bhrts,sbhe->bthre", raised, value)
    below = np.moveaxis(mass, 3, 1)[..., None]
    return [np.where(below > 0, mixed / below, 0), peak + np.log(mass)]


@formula
def free_names(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    src, lane = inputs
    rows, terms = len(src), attributes["filter"]
    task = src.sum(tuple(range(1, src.ndim)))[:, None] * np.arange(terms)
    inside = np.add.outer(np.arange(rows), np.arange(terms)) < rows
    most = np.where(inside, task + attributes["hash"], -np.inf).max(1, initial=-np.inf)
    lane = np.zeros(rows) if lane is None else lane
    count = most + lane if attributes["format"] == "bytes" else most * lane
    rest = src * attributes["hash"] - terms
    return [count, rest, *([rest + along(task[:, 0], 0, src.ndim)] if attributes["id"] else [])]


@formula
def stated_shape(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    src, more = inputs
    return [src[..., None] * np.arange(attributes["dst_shape"][-1]) + more[..., None]]


@formula
def col_to_im(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    (src,) = inputs
    space, kernel, strides = (each(attributes[name], 2) for name in ("output_size", "kernel", "stride"))
    outs = [(i - k) // s + 1 for i, k, s in zip(space, kernel, strides, strict=True)]
    found, times = np.zeros((*src.shape[:2], *space)), np.zeros(space)
    for row, tap in enumerate(cells_of(*kernel)):
        for column, cell in enumerate(cells_of(*outs)):
            at = tuple(o * s + k for o, s, k in zip(cell, strides, tap, strict=True))
            found[(..., *at)] += src[:, :, row, column]
            times[at] += 1
    return [found, times]


@formula
def rope_interleaved(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    x, cosines, sines = inputs
    first, found, count = int(attributes["offset"]), x.copy(), cosines.shape[1]
    cosines, sines = (table[first : first + x.shape[-3], None] for table in (cosines, sines))
    near = attributes["pairs"] == "neighbours"
    left, right = (
        slice(start, 2 * count, 2) if near else slice(start * count, (start + 1) * count) for start in (0, 1)
    )
    found[..., left] = x[..., left] * cosines - x[..., right] * sines
    found[..., right] = x[..., left] * sines + x[..., right] * cosines
    return [found]


@formula
def hamming(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    a, b = (np.unpackbits(codes.astype(np.uint8), -1) for codes in inputs)
    distance = (a[:, None] != b[None]).sum(-1)
    return [distance, distance.argmin(1)]


@formula
def group_dequant_matmul(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    x, w, scales, zeros, bias = inputs
    group = np.arange(len(w)) // attributes["group_size"]
    full = (w - (0 if zeros is None else zeros[group])) * scales[group]
    return [x @ full + (0 if bias is None else bias)]


# Rows that others pick.


@formula
def attention_sinks(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    query, key, value, sinks = inputs
    scores = np.einsum("...qghw,...tgw->...ghqt", query, key) / np.sqrt(query.shape[-1])
    if attributes["cap"] > 0:
        scores = attributes["cap"] * np.tanh(scores / attributes["cap"])
    queries, keys = scores.shape[-2:]
    distance = np.arange(queries)[:, None] + keys - queries - np.arange(keys)
    scores = np.where((distance >= 0) & (distance < attributes["window"]), scores, -np.inf)
    sunk = np.full(query.shape[-3:-1], -np.inf) if sinks is None else sinks
    columns = np.broadcast_to(sunk[:, :, None, None], (*scores.shape[:-1], 1))
    shares = softmax(np.concatenate([scores, columns], -1))
    return [np.einsum("...ghqt,...tgv->...qghv", shares[..., :-1], value)]


@formula
def segment_sum(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    src, segment = inputs
    rows = [src[segment == number] for number in range(attributes["segments"])]
    shape = (len(rows), *src.shape[1:])
    sums = np.array([part.sum(0) for part in rows]).reshape(shape)
    sizes = np.array([len(part) for part in rows], np.float64)
    most = np.array([part.max(0, initial=-np.inf) for part in rows]).reshape(shape)
    return [sums, sums / np.maximum(sizes, 1).reshape(-1, *[1] * (src.ndim - 1)), most, sizes]


@formula
def top_k(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    (src,), axis = inputs, attributes["axis"]
    order = np.argsort(-src if attributes["largest"] else src, axis, kind="stable")
    found = np.take(order, range(attributes["k"]), axis)
    return [np.take_along_axis(src, found, axis), found]


@formula
def partial_rotary(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    src, cosines, sines = inputs
    half = cosines.shape[-1]
    one, other, rest = src[..., :half], src[..., half : 2 * half], src[..., 2 * half :]
    cosines, sines = cosines[:, None], sines[:, None]
    return [np.concatenate([one * cosines - other * sines, other * cosines + one * sines, rest], -1)]


@formula
def causal_depthwise(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    src, weights, bias, state = inputs
    behind = attributes["data_format"] == "NXC"
    src = src.swapaxes(1, 2) if behind else src
    (_, taps), times, dilation = weights.shape, src.shape[2], attributes["dilation"]
    before = np.zeros((*src.shape[:2], (taps - 1) * dilation)) if state is None else state
    whole = np.concatenate([before, src], -1)
    found = sum(whole[:, :, k * dilation : k * dilation + times] * weights[:, k, None] for k in range(taps))
    found = found if bias is None else found + bias[:, None]
    found = found / (1 + np.exp(-found)) if attributes["activate"] else found
    return [found.swapaxes(1, 2) if behind else found, whole[:, :, times:]]


@formula
def max_pool_at(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    behind = attributes["data_format"] == "NXC"
    src = np.moveaxis(inputs[0], -1, 1) if behind else inputs[0]
    space = src.shape[2:]
    kernel, strides, pads = (each(attributes[name], len(space)) for name in ("kernel", "strides", "pads"))
    extents = [
        -((cells + 2 * pad - window) // -stride) + 1
        for cells, window, stride, pad in zip(space, kernel, strides, pads, strict=True)
    ]
    numbers, top = np.arange(math.prod(space)).reshape(space), np.zeros((*src.shape[:2], *extents))
    at = np.zeros(top.shape)
    for cell in cells_of(*extents):
        starts = [spot * stride - pad for spot, stride, pad in zip(cell, strides, pads, strict=True)]
        window = tuple(slice(max(start, 0), start + cells) for start, cells in zip(starts, kernel, strict=True))
        seen = src[(..., *window)].reshape(*src.shape[:2], numbers[window].size)
        top[(..., *cell)] = seen.max(-1)
        at[(..., *cell)] = numbers[window].ravel()[seen.argmax(-1)] if src.size else 0
    return [np.moveaxis(array, 1, -1) if behind else array for array in (top, at)]
