"""What the operations of tests/data/formulas compute, written once more in NumPy, from their names alone.

Each function takes the inputs of a call, widened to float64, and its attributes with their defaults; it gives the
outputs. Nothing here reads a spec.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Attributes = Mapping[str, Any]
Formula = Callable[[Sequence[Any], Attributes], Sequence[Any]]
FORMULAS: dict[str, Formula] = {}
_erf = np.vectorize(math.erf, otypes=[np.float64])


def formula(function: Formula) -> Formula:
    FORMULAS[function.__name__] = function
    return function


def softmax(scores: Any) -> Any:
    raised = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    return raised / raised.sum(-1, keepdims=True)


def normalised(array: Any, axes: tuple[int, ...], epsilon: float) -> Any:
    return (array - array.mean(axes, keepdims=True)) / np.sqrt(array.var(axes, keepdims=True) + epsilon)


def along(vector: Any, axis: int, ndim: int) -> Any:
    """A vector that stretches over all axes but one."""
    return np.asarray(vector).reshape([-1 if at == axis % ndim else 1 for at in range(ndim)])


# Rows.


@formula
def cumulative_sum(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    (src,) = inputs
    return [np.cumsum(src, attributes["axis"]) - (src if attributes["exclusive"] else 0)]


@formula
def top_margin(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    ordered = np.sort(inputs[0], -1)
    second = ordered[..., -2] if ordered.shape[-1] > 1 else -np.inf
    return [ordered[..., -1] - second, inputs[0].argmax(-1)]


@formula
def l2_normalize(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    (src,) = inputs
    length = np.sqrt((src * src).sum(tuple(attributes["axes"]), keepdims=True))
    return [src / np.maximum(length, attributes["epsilon"])]


@formula
def weighted_average(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    src, weights = inputs
    axes, keep = tuple(attributes["axes"]), attributes["keep_dims"]
    return [(src * weights).sum(axes, keepdims=keep) / weights.sum(axes, keepdims=keep)]


@formula
def reduce_product(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    return [inputs[0].prod(tuple(attributes["axes"]), keepdims=attributes["keep_dims"])]


@formula
def any_all(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    return [inputs[0].any(-1), inputs[0].all(-1)]


@formula
def rank_median(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    (src,) = inputs
    places = np.argsort(np.argsort(src, -1, kind="stable"), -1, kind="stable")
    return [places, np.sort(src, -1)[..., src.shape[-1] // 2]]


@formula
def row_norms(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    size = np.abs(inputs[0])
    if attributes["order"] == "one":
        return [size.sum(-1)]
    return [size.max(-1, initial=0) if attributes["order"] == "inf" else np.sqrt((size * size).sum(-1))]


@formula
def moments(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    (src,) = inputs
    mean = src.mean(-1)
    centred = src - mean[..., None]
    variance = (centred**2).sum(-1) / (src.shape[-1] - attributes["correction"])
    return [mean, variance, (centred**3).mean(-1)] if attributes["want_skew"] else [mean, variance]


@formula
def masked_softmax(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    src, mask = inputs
    scores = src / attributes["temperature"]
    return [softmax(scores if mask is None else np.where(mask != 0, scores, -np.inf))]


@formula
def causal_softmax(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    queries, keys = inputs[0].shape[-2:]
    seen = np.arange(keys) <= np.arange(queries)[:, None] + keys - queries
    return [softmax(np.where(seen, inputs[0], -np.inf))]


@formula
def kl_divergence(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    logq, p = inputs
    return [np.where(p > 0, p * (np.log(np.where(p > 0, p, 1)) - logq), 0).sum(-1)]


@formula
def roll(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    axis = attributes["axis"]
    src = np.flip(inputs[0], axis) if attributes["flip"] else inputs[0]
    return [np.roll(src, attributes["shift"], axis)]


@formula
def pad(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    mode = {"zero": "constant", "edge": "edge", "reflect": "reflect"}[attributes["mode"]]
    width = [(0, 0)] * (inputs[0].ndim - 1) + [(attributes["before"], attributes["after"])]
    shape = (*inputs[0].shape[:-1], inputs[0].shape[-1] + sum(width[-1]))
    return [np.pad(inputs[0], width, mode=mode) if inputs[0].size else np.zeros(shape)]  # type: ignore[call-overload]


@formula
def repeat(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    times = attributes["times"]
    return [np.repeat(inputs[0], times, -1), np.concatenate([inputs[0]] * times, -1)]


@formula
def trace(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    found = np.diagonal(inputs[0], axis1=-2, axis2=-1)
    return [found.sum(-1), found]


@formula
def triangle(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    rows, columns = inputs[0].shape[-2:]
    distance = np.arange(columns) - np.arange(rows)[:, None] - attributes["diagonal"]
    return [np.where(distance >= 0 if attributes["upper"] else distance <= 0, inputs[0], 0)]


# Channels.


@formula
def instance_norm(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    src, gamma, beta = inputs
    channel = 1 if attributes["data_format"] == "NCX" else src.ndim - 1
    space = tuple(at for at in range(1, src.ndim) if at != channel)
    found = normalised(src, space, attributes["epsilon"])
    found = found if gamma is None else found * along(gamma, channel, src.ndim)
    return [found if beta is None else found + along(beta, channel, src.ndim)]


@formula
def batch_scale(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    src, mean, variance = inputs
    channel = 1 if attributes["data_format"] == "NCX" else src.ndim - 1
    found = (src - along(mean, channel, src.ndim)) / np.sqrt(along(variance, channel, src.ndim) + 0.001)
    return [np.where(found < 0, 0, found) if attributes["relu"] else found]


@formula
def quantize_channels(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    (src,) = inputs
    scales, zeros = (along(attributes[name], attributes["axis"], src.ndim) for name in ("scales", "zps"))
    least, most = (-128, 127) if attributes["dtype"] == "s8" else (0, 255)
    return [np.clip(np.round(src / scales) + zeros, least, most)]


@formula
def clip_channels(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    return [np.minimum(np.maximum(inputs[0], np.array(attributes["low"])), np.array(attributes["high"]))]


@formula
def depth_to_space(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    (src,), block = inputs, attributes["block_size"]
    batch, deep, height, width = src.shape
    channels = deep // block**2
    if attributes["mode"] == "DCR":
        split = src.reshape(batch, block, block, channels, height, width).transpose(0, 3, 4, 1, 5, 2)
    else:
        split = src.reshape(batch, channels, block, block, height, width).transpose(0, 1, 4, 2, 5, 3)
    return [split.reshape(batch, channels, height * block, width * block)]


@formula
def space_to_depth(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    (src,), block = inputs, attributes["block_size"]
    batch, channels, height, width = src.shape
    split = src.reshape(batch, channels, height // block, block, width // block, block).transpose(0, 1, 3, 5, 2, 4)
    return [split.reshape(batch, channels * block * block, height // block, width // block)]


# Products.


@formula
def dot(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    product = inputs[0] * inputs[1]
    return [product.sum(), product.max(initial=-np.inf), (product != 0).sum()]


@formula
def outer_product(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    return [inputs[0][..., :, None] * inputs[1][..., None, :]]


@formula
def bilinear(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    x, w, y, bias = inputs
    return [np.einsum("...i,oij,...j->...o", x, w, y) + (0 if bias is None else bias)]


@formula
def kronecker(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    a, b = inputs
    product = a[:, None, :, None] * b[None, :, None, :]
    return [product.reshape(a.shape[0] * b.shape[0], a.shape[1] * b.shape[1])]


@formula
def toeplitz(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    vector, diagonals = inputs
    return [np.convolve(vector, diagonals)[len(vector) - 1 : len(diagonals)]]


@formula
def byte_product(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    return [(inputs[0] - attributes["zero_a"]) @ (inputs[1] - np.array(attributes["zeros_b"], np.float64))]


@formula
def cosine_similarity(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    a, b = inputs
    lengths = np.sqrt((a * a).sum(-1)) * np.sqrt((b * b).sum(-1))
    return [(a * b).sum(-1) / np.maximum(lengths, 1e-8)]


@formula
def pairwise_distances(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    return [np.sqrt(((inputs[0][:, None] - inputs[1][None]) ** 2).sum(-1))]


@formula
def attention(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    query, key, value = inputs
    shared = query.shape[-3] // key.shape[-3]
    key, value = np.repeat(key, shared, -3), np.repeat(value, shared, -3)
    scores = np.einsum("...qd,...kd->...qk", query, key) / np.sqrt(query.shape[-1])
    later = np.arange(key.shape[-2]) > np.arange(query.shape[-2])[:, None]
    scores = np.where(later, -np.inf, scores) if attributes["causal"] else scores
    return [np.einsum("...qk,...kv->...qv", softmax(scores), value)]


@formula
def linear_gelu(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    x, w, bias, residual = inputs
    made = x @ w.T + (0 if bias is None else bias)
    cubed = np.tanh(np.sqrt(2 / np.pi) * (made + 0.044715 * made**3))
    bent = _erf(made / np.sqrt(2)) if attributes["approximate"] == "none" else cubed
    return [0.5 * made * (1 + bent) + (0 if residual is None else residual)]


# Cells.


@formula
def logical_xor(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    a, b = (array != 0 for array in inputs)
    return [a ^ b, ~(a | b)]


@formula
def where_op(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    return [np.where(inputs[0] != 0, inputs[1], inputs[2])]


@formula
def huber(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    distance, delta = np.abs(inputs[0] - inputs[1]), attributes["delta"]
    return [np.where(distance <= delta, distance**2 / 2, delta * (distance - delta / 2))]


@formula
def complex_product(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    product = (inputs[0] + 1j * inputs[1]) * (inputs[2] + 1j * inputs[3])
    return [product.real, product.imag]


@formula
def cross_product(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    return [np.cross(inputs[0], inputs[1])]


@formula
def life(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    (src,) = inputs
    around = sum(np.roll(src, (down, right), (0, 1)) for down in (-1, 0, 1) for right in (-1, 0, 1))
    return [(around == 3) | ((around == 4) & (src == 1))]


@formula
def hinge_loss(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    lost = np.maximum(0, 1 - inputs[0] * inputs[1])
    return [lost.sum() / np.float64(lost.size)]


@formula
def distance_transform(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    (marked,) = inputs
    rows, columns = np.indices(marked.shape)
    found = np.full(marked.shape, 1_000_000.0)
    for row, column in zip(*np.nonzero(marked), strict=True):
        found = np.minimum(found, (rows - row) ** 2 + (columns - column) ** 2)
    return [np.where(marked.size, found, np.iinfo(np.int32).max)]
