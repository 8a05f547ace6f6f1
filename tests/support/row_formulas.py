"""More of what the operations of tests/data/formulas compute, in NumPy: bits, chains of products, rows, stencils.

As in `formulas`: each function takes widened inputs and attributes, and reads no spec. FORMULAS has those of all modules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .formulas import Attributes, formula, softmax
from .window_formulas import FORMULAS

__all__ = ["FORMULAS"]


@formula
def bitwise_chosen(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    a, b = (array.astype(np.int64) for array in inputs)
    at = b % 64
    operators = {
        "and_": lambda: a & b,
        "or_": lambda: a | b,
        "xor_": lambda: a ^ b,
        "left": lambda: a << at,
        "right": lambda: a >> at,
    }
    return [operators[attributes["operation"]]()]


@formula
def flip_run(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    return [np.flip(inputs[0], attributes["axis"])]


@formula
def einsum_chain(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    return [np.moveaxis(inputs[0] @ inputs[1] @ inputs[2], -1, 0)]


@formula
def einsum_diagonal(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    found = np.einsum("bnn,nm->bm", *inputs)
    return [found, found.sum()]


@formula
def mean_absolute_deviation(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    axes = tuple(attributes["axes"])
    deviations = np.abs(inputs[0] - inputs[0].mean(axes, keepdims=True))
    return [deviations.mean(axes, keepdims=attributes["keep_dims"])]


@formula
def gru_cell(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    x, h, w, u, bias = inputs
    bias = np.zeros((4, h.shape[-1])) if bias is None else bias
    (r, z, c), (hr, hz, hc) = (x @ part.T for part in w), (h @ part.T for part in u)
    reset = 1 / (1 + np.exp(-(r + hr + bias[0])))
    update = 1 / (1 + np.exp(-(z + hz + bias[1])))
    return [(1 - update) * np.tanh(c + bias[2] + reset * (hc + bias[3])) + update * h]


@formula
def moving_average(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    (src,), window = inputs, attributes["window"]
    means, least = np.zeros_like(src), np.zeros_like(src)
    for at in range(src.shape[-1]):
        seen = src[..., max(at + 1 - window, 0) : at + 1]
        means[..., at], least[..., at] = seen.mean(-1), seen.min(-1)
    return [means, least]


@formula
def matrix_vector_lack(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    a, w, bias = inputs
    return [a @ (w.swapaxes(-1, -2) if attributes["transpose_b"] else w) + (0 if bias is None else bias)]


@formula
def linear_attention_scan(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    q, k, value = inputs
    return [np.tril(q @ k.swapaxes(-1, -2)) @ value]


@formula
def alibi_attention(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    query, key, value, slopes, mask = inputs
    distance = np.arange(query.shape[2])[:, None] + key.shape[2] - query.shape[2] - np.arange(key.shape[2])
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1]) - slopes[:, None, None] * np.abs(distance)
    scores = scores + (0 if mask is None else mask)
    scores = np.where(attributes["causal"] & (distance < 0), -np.inf, scores)
    return [np.nan_to_num(softmax(scores)) @ value]


@formula
def total_variation(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    (src,) = inputs
    return [np.abs(np.diff(src, axis=-2)).sum((-2, -1)) + np.abs(np.diff(src, axis=-1)).sum((-2, -1))]


@formula
def swap_halves(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    (src,) = inputs
    found = np.roll(src, src.shape[-1] // 2, -1)
    found[..., 1::2] *= -1
    return [found]


@formula
def entropy_of_rows(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    (src,), axes = inputs, tuple(attributes["axes"])
    shares = np.exp(src - src.max(axes, keepdims=True, initial=-np.inf))
    shares = shares / shares.sum(axes, keepdims=True)
    nats = -(shares * np.log(shares)).sum(axes)
    nats = np.where(np.prod([src.shape[at] for at in axes]) == 0, np.nan, nats)
    return [nats / np.log(2) if attributes["base_two"] else nats, np.exp(nats)]


@formula
def popcount(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    counts = np.bitwise_count(inputs[0].astype(np.int64).view(np.uint64))
    return [counts, counts % 2 == 1]


@formula
def pad_chosen(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    mode = {"constant": "constant", "replicate": "edge", "reflect": "reflect", "circular": "wrap"}[attributes["mode"]]
    width = [(0, 0)] * (inputs[0].ndim - 1) + [(attributes["front"], attributes["back"])]
    if not inputs[0].size:
        return [np.zeros((*inputs[0].shape[:-1], inputs[0].shape[-1] + sum(width[-1])))]
    chosen = {"constant_values": attributes["value"]} if mode == "constant" else {}
    return [np.pad(inputs[0], width, mode=mode, **chosen)]  # type: ignore[call-overload]


@formula
def window_partition(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    size, shift = attributes["size"], attributes["shift"]
    batch, rows, columns, channels = inputs[0].shape
    src = np.roll(inputs[0], (-shift, -shift), (1, 2))
    cut = src.reshape(batch, rows // size, size, columns // size, size, channels).transpose(0, 1, 3, 2, 4, 5)
    return [cut.reshape(batch * (rows // size) * (columns // size), size * size, channels)]


@formula
def hat_interpolate(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    src, places = inputs
    away = np.abs(np.broadcast_to(places, (*src.shape[:-1], places.shape[-1]))[..., None] - np.arange(src.shape[-1]))
    return [(src[..., None, :] * np.maximum(0, 1 - away)).sum(-1)]


@formula
def polynomial(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    x, coefficients = inputs[0] / 4, inputs[1]
    dst, slope = np.zeros(x.shape), np.zeros(x.shape)
    for power, coefficient in enumerate(coefficients):
        dst += coefficient * x**power
        slope += power * coefficient * x ** max(power - 1, 0)
    return [dst, slope]


@formula
def running_extremes(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    src = np.moveaxis(inputs[0], attributes["axis"], -1)
    high, positive = np.maximum.accumulate(src, -1), np.minimum.accumulate(src > 0, -1)
    low = np.flip(np.minimum.accumulate(np.flip(src, -1), -1), -1)
    at = [src[..., : cell + 1].argmax(-1) for cell in range(src.shape[-1])]
    found = [high, low, positive, np.stack(at, -1) if at else np.zeros(src.shape)]
    return [np.moveaxis(array, -1, attributes["axis"]) for array in found]


@formula
def quantile_by_rank(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    axis, place = attributes["axis"], attributes["place"]
    at = np.take(np.argsort(inputs[0], axis, kind="stable"), [place], axis)
    found = [np.take_along_axis(inputs[0], at, axis), at]
    return found if attributes["keep_dims"] else [array.squeeze(axis) for array in found]


@formula
def confusion(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    labels, guesses, weights = inputs
    classes, counts = attributes["classes"], np.zeros([attributes["classes"]] * 2)
    for number, (label, guess) in enumerate(zip(labels.astype(int), guesses.astype(int), strict=True)):
        if 0 <= label < classes and 0 <= guess < classes and label != attributes["ignore"]:
            counts[label, guess] += 1 if weights is None else weights[number]
    return [counts, np.asarray(np.trace(counts) / counts.sum() if counts.sum() > 0 else 0.0)]


@formula
def pack_bits(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    return [np.packbits(inputs[0] != 0, -1, bitorder=attributes["bit_order"])]


@formula
def group_gain(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    (src,), groups = inputs, attributes["groups"]
    power = (src * src).reshape(len(src), groups, src.shape[1] // groups).sum(-1)
    return [src * np.repeat(power[::-1], src.shape[1] // groups, -1)]


@formula
def offset_each(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    src, factor, offset = inputs
    found = (src + offset).sum(tuple(range(src.ndim - 1)))
    return [src * factor + offset, found if factor.shape == found.shape else found.sum(keepdims=True)]
