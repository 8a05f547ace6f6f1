"""More of what the operations of tests/data/formulas compute, in NumPy: one operation spelled in several ways, losses.

As in `formulas`: each function takes widened inputs and attributes, and reads no spec. FORMULAS has those of all modules.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .formulas import Attributes, formula, normalised, softmax
from .row_formulas import FORMULAS

__all__ = ["FORMULAS"]


@formula
def group_norm_last(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    src, gamma = inputs
    groups = attributes["groups"]
    cells = int(np.prod(src.shape[1:-1]))
    split = src.reshape(src.shape[0], cells, groups, src.shape[-1] // groups)
    return [normalised(split, (1, 3), 0.001).reshape(src.shape) * gamma]


@formula
def conv_flipped(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    x, w = inputs
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2], -1)
    return [np.einsum("ncok,fck->nfo", windows, w[..., ::-1])]


@formula
def attn_bshd(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    query, key, value = inputs
    seen = np.arange(key.shape[1]) <= np.arange(query.shape[1])[:, None] + key.shape[1] - query.shape[1]
    scores = np.where(seen, np.einsum("bshd,bthd->bhst", query, key) * 0.125, -10000)
    peak = scores.max(-1, keepdims=True, initial=-np.inf)
    total = np.exp(scores - peak).sum(-1)
    mixed = np.einsum("bhst,bthd->bshd", np.exp(scores - peak), value)
    return [mixed / np.moveaxis(total, 1, 2)[..., None], np.log(total) + peak[..., 0]]


@formula
def ln_two_pass(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    x, gamma, beta = inputs
    return [normalised(x, (x.ndim - 1,), attributes["eps"]) * gamma + beta]


@formula
def cummax_index(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    x = np.moveaxis(inputs[0], attributes["axis"], -1)
    most = np.maximum.accumulate(x, -1)
    at = np.maximum.accumulate(np.where(x == most, np.arange(x.shape[-1]), -1), -1)
    return [np.moveaxis(found, -1, attributes["axis"]) for found in (most, at)]


@formula
def per_token_quantise(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    x, w, scales = inputs
    scale = np.maximum(np.abs(x).max(-1, keepdims=True), 1e-5) / 127
    whole = np.clip(np.round(x.astype(np.float32) / scale.astype(np.float32)), -127, 127)
    return [whole @ w.T * scale * scales, whole, scale[..., 0]]


@formula
def eca(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    src, taps = inputs
    means = src.mean(tuple(range(2, src.ndim)))
    before = len(taps) // 2
    wide = np.pad(means, ((0, 0), (before, len(taps) - 1 - before)))
    mixed = np.lib.stride_tricks.sliding_window_view(wide, len(taps), -1) @ taps
    return [src / (1 + np.exp(-mixed)).reshape(*mixed.shape, *[1] * (src.ndim - 2))]


@formula
def dice_loss(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    prob, labels = inputs
    space = tuple(range(2, prob.ndim))
    hot = labels[:, None] == np.arange(prob.shape[1]).reshape(-1, *[1] * len(space))
    shared = (prob * hot).sum(space)
    return [1 - (2 * shared + 1) / (prob.sum(space) + hot.sum(space) + 1), hot.sum(space)]


@formula
def ordered_dither(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    picture, tile = inputs
    (height, width), (rows, columns) = picture.shape[-2:], tile.shape
    bits = picture > np.tile(tile, (-(-height // rows), -(-width // columns)))[:height, :width]
    return [bits, bits.sum((-2, -1))]


@formula
def gray_code(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    byte = inputs[0].astype(np.uint8)
    bits = np.unpackbits(byte[..., None], axis=-1)
    turned = np.packbits(bits[..., ::-1], axis=-1)[..., 0]
    return [byte ^ (byte >> 1), bits.sum(-1) % 2, turned]


@formula
def grn(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    x, gamma, beta = inputs
    length = np.sqrt((x * x).sum(tuple(range(1, x.ndim - 1)), keepdims=True))
    return [gamma * (x * (length / (length.mean(-1, keepdims=True) + 1e-6))) + beta + x]


def shares(rows: Any) -> Any:
    return np.log(softmax(rows))


@formula
def nt_xent(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    a, b = (array / np.sqrt((array**2).sum(1, keepdims=True) + 1e-6) for array in inputs)
    logits = a @ b.T / attributes["temperature"]
    return [-(np.diag(shares(logits)) + np.diag(shares(logits.T))).mean() / 2, logits]


@formula
def light_conv(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    x, taps = inputs
    share, count, times = softmax(taps), taps.shape[1], x.shape[1]
    whole = np.pad(x, [(0, 0), (count - 1, 0), (0, 0), (0, 0)])
    return [sum(whole[:, k : k + times] * share[:, k, None] for k in range(count))]


@formula
def circular_conv(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    x, w = inputs
    taps = w.shape[2]
    return [sum(np.einsum("nct,oc->not", np.roll(x, taps // 2 - k, 2), w[:, :, k]) for k in range(taps))]


@formula
def replicate_conv(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    x, w = inputs
    stride = attributes["stride"]
    whole = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(whole, (3, 3), (2, 3))[:, :, ::stride, ::stride]
    return [np.einsum("ncyxkl,ockl->noyx", windows, w)]


@formula
def spectral_mix(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    x, w = (array[..., 0] + 1j * array[..., 1] for array in inputs)
    mixed = np.einsum("bixy,ioxy->boxy", x, w)
    return [mixed.real, mixed.imag]


@formula
def centred_filters(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    w, patch, mask = inputs
    mean = w.sum((1, 2, 3), keepdims=True) / max(w[0].size if len(w) else 1, 1)
    masked = (w - mean) * (1 if mask is None else mask)
    return [np.moveaxis(masked, 0, -1), np.einsum("pikl,oikl->po", patch, w)]


@formula
def grouped_scales(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    x, w, scale = inputs
    split = w.reshape(len(w), scale.shape[1], w.shape[1] // scale.shape[1]) * scale[:, :, None]
    return [x @ split.reshape(w.shape).T]


@formula
def block_dct(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    x, d = inputs
    rows, columns = x.shape
    blocks = x.reshape(rows // 8, 8, columns // 8, 8).swapaxes(1, 2)
    return [(d @ blocks @ d.T).swapaxes(1, 2).reshape(x.shape)]


@formula
def lstm_cell(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    x, h, c, wi, wh, b = inputs
    into, forget, cell, out = np.moveaxis(np.tensordot(x, wi, (1, 2)) + np.tensordot(h, wh, (1, 2)) + b, 1, 0)
    state = c / (1 + np.exp(-forget)) + np.tanh(cell) / (1 + np.exp(-into))
    return [np.tanh(state) / (1 + np.exp(-out)), state]


@formula
def gated_channels(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    src, gate, variance = inputs
    cells = tuple(range(1, src.ndim - 1))
    return [src / (1 + np.exp(-np.expand_dims(gate, cells))), (src - 1) / np.sqrt(abs(variance) + 1)]


@formula
def complex_scale(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    x, h = (array[..., 0] + 1j * array[..., 1] for array in inputs)
    return [np.stack([(x * h).real, (x * h).imag], -1)]


@formula
def affine_points(inputs: Sequence[Any], attributes: Attributes) -> Sequence[Any]:
    m, p, t = inputs
    return [p @ m.swapaxes(1, 2) + t[:, None]]
