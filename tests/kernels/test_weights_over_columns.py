"""Gradients of weights of few channels and of groups with one, over lanes of columns: exact, whatever lies between columns."""

from __future__ import annotations

import numpy as np
import opwright_kernels as ok
import pytest

Pair = tuple[int, int]


def sums(
    big: np.ndarray, small: np.ndarray, groups: int, taps: Pair, stride: Pair, dilation: Pair, pad: Pair
) -> np.ndarray:
    """By the definition, in f64; terms outside `big` do not exist. Channels come first."""
    per_small, per_big = small.shape[1] // groups, big.shape[1] // groups
    total = np.zeros((small.shape[1], per_big, *taps))
    for m, b, i, j in np.ndindex(*total.shape):
        rows = np.arange(small.shape[2]) * stride[0] + i * dilation[0] - pad[0]
        columns = np.arange(small.shape[3]) * stride[1] + j * dilation[1] - pad[1]
        some, other = (rows >= 0) & (rows < big.shape[2]), (columns >= 0) & (columns < big.shape[3])
        x = big[:, m // per_small * per_big + b][:, rows[some]][:, :, columns[other]].astype(np.float64)
        total[m, b, i, j] = (small[:, m][:, some][:, :, other].astype(np.float64) * x).sum()
    return total


@pytest.mark.parametrize("layout", ["NXC", "NCX"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_weights_of_few_channels_have_exactly_their_terms(dtype: str, layout: str) -> None:
    """Channels, groups, strides up to 5, kernels of whole blocks and not; in some, an Inf or NaN beside padding."""
    rng = np.random.default_rng(31)
    for case in range(24):
        groups, per_small, per_big = (
            (int(rng.integers(2, 12)), 1, 1) if case % 3 == 0 else (1, *map(int, rng.integers(1, 5, 2)))
        )
        taps, stride = (
            (int(rng.integers(1, 6)), int(rng.choice([1, 2, 3, 5, 7, 9, 10]))),
            tuple(map(int, rng.integers(1, 6, 2))),
        )
        dilation, pad = tuple(map(int, rng.integers(1, 3, 2))), tuple(map(int, rng.integers(0, 4, 2)))
        cells = (int(rng.integers(1, 8)), int(rng.integers(1, 60)))
        extents = [
            max(1, (c - 1) * s + (t - 1) * d + 1 - 2 * p) for c, s, t, d, p in zip(cells, stride, taps, dilation, pad)
        ]
        cells = tuple(
            (e + 2 * p - (t - 1) * d - 1) // s + 1 for e, s, t, d, p in zip(extents, stride, taps, dilation, pad)
        )
        big = rng.integers(-3, 4, (2, groups * per_big, *extents)).astype(dtype)
        small = rng.integers(-3, 4, (2, groups * per_small, *cells)).astype(dtype)
        if case % 4 == 0:
            small[tuple(rng.integers(0, small.shape))] = (np.inf, np.nan)[case % 8 == 0]
        with np.errstate(invalid="ignore"):
            expected = sums(big, small, groups, taps, stride, dilation, pad).astype(dtype)
        given = [np.ascontiguousarray(np.moveaxis(x, 1, -1)) if layout == "NXC" else x for x in (big, small)]
        found = ok.convolution_backward_weights(
            *given,
            weights_shape=list(expected.shape),
            strides=stride,
            pads_begin=pad,
            pads_end=pad,
            dilations=dilation,
            groups=groups,
            data_format=layout,
            weights_format="OIX",
        )
        np.testing.assert_array_equal(
            found, expected, err_msg=f"{case}: {groups} {taps} {stride} {dilation} {pad} {extents}"
        )
