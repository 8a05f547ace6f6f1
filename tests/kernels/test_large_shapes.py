"""Shapes of many channels, planes or vectors, whose kernels walk them in ways of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support import rulings
from support.call import Call
from support.calls import describe
from support.draws import rng
from support.generated import check, run, same
from support.rulings import DTYPES

PLAIN = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
PLAIN_2D = {name: value * 2 for name, value in PLAIN.items()}

# Blocks are those of the engine, which is not portable.
pytestmark = [pytest.mark.usefixtures("isa", "specialize"), pytest.mark.short(portable=())]
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


@every_dtype
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_outputs_that_meet_no_tap_give_what_the_rulings_give(layout: str, dtype: str) -> None:
    """Strides over the kernel: rows and columns of nothing but the bias, in outputs that caches hold and one they do not."""
    random = rng("gaps", layout, dtype)
    for number, (batch, big, small, extent, kernel, dilation) in enumerate([
        (2, 40, 24, (19, 70), (1, 1), (1, 1)), (1, 33, 17, (2, 9, 33), (1, 2, 1), (1, 1, 1)), (1, 20, 30, (1, 300), (1, 1), (1, 1)),
        (2, 35, 18, (60, 56), (2, 1), (3, 1)), (1, 16, 40, (9, 5), (1, 2), (1, 2)), (1, 64, 20, (31, 41), (2, 3), (2, 2)),
        (3, 48, 5, (141, 151), (1, 1), (1, 1)), (2, 70, 4, (4, 66, 97), (1, 1, 1), (1, 1, 1)),
    ]):  # fmt: skip
        rank = len(extent)
        strides, begin, end = (random.integers(*ends, rank).tolist() for ends in [(2, 6), (0, 2), (0, 2)])
        if number == 3:
            strides = [1, 4]
        attributes: dict[str, Any] = {
            "strides": strides,
            "dilations": list(dilation),
            "pads_begin": begin,
            "pads_end": end,
        }
        attributes |= {"data_format": layout, "weights_format": "OIX"}
        shape = (batch, big, *extent) if layout == "NCX" else (batch, *extent, big)
        room = [e + b + a - (k - 1) * d - 1 for e, b, a, k, d in zip(extent, begin, end, kernel, dilation)]
        grid = [r // stride + 1 for r, stride in zip(room, strides)]
        src, weights, bias = (
            random.integers(-2, 3, given).astype(DTYPES[dtype])
            for given in [
                (batch, small, *grid) if layout == "NCX" else (batch, *grid, small),
                (small, big, *kernel),
                big,
            ]
        )
        rest = [r % stride for r, stride in zip(room, strides)]
        if number % 2:
            src.reshape(-1)[random.integers(src.size)] = [np.inf, np.nan][number // 2 % 2]
        call = Call(
            "ConvTranspose", (src, weights, bias), attributes | {"output_padding": rest, "weights_format": "IOX"}
        )
        data = Call("ConvolutionBackwardData", (src, weights), attributes | {"dst_shape": list(shape)})
        assert run(call).shape == shape
        check(call, threads=(1, 3))
        check(data, threads=(1, 3))


@every_dtype
def test_long_sums_of_channels_to_few_outputs_give_what_the_rulings_give(dtype: str) -> None:
    """Sums over lanes of pixels where they lie, whole vectors of channels and not, of tensors and parts of their rows."""
    random = rng("long sums", dtype)
    for number, (groups, few, many, extent, kernel) in enumerate([
        (1, 1, 512, (103,), 10), (1, 3, 300, (23, 21), 3), (2, 1, 261, (17, 40), 2), (1, 2, 550, (5, 7, 19), 2), (1, 1, 290, (11, 1100), 4),
    ]):  # fmt: skip
        rank = len(extent)
        begin, end, stride = (random.integers(*ends, rank).tolist() for ends in [(0, 3), (0, 3), (1, 4)])
        attributes: dict[str, Any] = {"pads_begin": begin, "pads_end": end, "dilations": [1 + number % 2] * rank}
        attributes |= {"groups": groups, "data_format": "NXC", "weights_format": "OIX"}
        src = random.integers(-1, 2, (2, *extent, groups * many)).astype(DTYPES[dtype])
        weights = random.integers(-1, 2, (groups * few, many, *[kernel] * rank)).astype(DTYPES[dtype])
        turned = random.integers(-1, 2, (groups * many, few, *[kernel] * rank)).astype(DTYPES[dtype])
        if number % 2:
            src.reshape(-1)[random.integers(src.size)] = [np.inf, np.nan][number // 2 % 2]
        rooms = zip(extent, stride, begin, end)
        shape = [2, *((x - 1) * s + (kernel - 1) * (1 + number % 2) + 1 - b - e for x, s, b, e in rooms), groups * few]
        check(Call("Convolution", (src, weights), attributes | {"strides": [1] * rank}), threads=(1, 3))
        data = attributes | {"strides": stride, "dst_shape": shape}
        check(Call("ConvolutionBackwardData", (src, turned), data), threads=(1, 3))


@every_dtype
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_narrow_planes_with_taps_along_one_axis_give_what_the_rulings_give(layout: str, dtype: str) -> None:
    """Rows of less than a vector, which are interleaved in scratch where the layout has them last."""
    random = rng("narrow", layout, dtype)
    for big, small, width, depth in [(20, 35, 5, 1), (33, 16, 2, 1), (17, 40, 3, 2), (64, 18, 7, 1)]:
        kernel, stride, begin, end = (int(random.integers(*ends)) for ends in [(2, 6), (1, 4), (0, 3), (0, 3)])
        extent = (depth, stride * int(random.integers(20, 60)) + kernel, width)
        attributes = PLAIN | {"strides": [1, stride, 1], "pads_begin": [0, begin, 0], "pads_end": [0, end, 0]}
        attributes |= {"dilations": [1, 1, 1], "data_format": layout, "weights_format": "OIX"}
        shape = (2, big, *extent) if layout == "NCX" else (2, *extent, big)
        src = random.integers(-2, 3, shape).astype(DTYPES[dtype])
        weights = random.integers(-2, 3, (small, big, 1, kernel, 1)).astype(DTYPES[dtype])
        weights[small // 2, 0, 0, 0, 0] = np.inf
        forward = Call("Convolution", (src, weights), attributes)
        check(forward)
        finite = Call("Convolution", (src, np.nan_to_num(weights, posinf=0)), attributes)
        dst = random.integers(-2, 3, run(finite).shape).astype(DTYPES[dtype])
        check(Call("ConvolutionBackwardData", (dst, weights), attributes | {"dst_shape": list(shape)}))
        dst.reshape(-1)[random.integers(dst.size)] = np.inf
        check(Call("ConvolutionBackwardWeights", (src, dst), attributes | {"weights_shape": list(weights.shape)}))


@every_dtype
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_rows_of_far_dilated_taps_give_what_the_rulings_give(layout: str, dtype: str) -> None:
    """Rows that the distance of the taps divides into rows, of which the last are shorter on one side or both."""
    random = rng("far", layout, dtype)
    for big, small, dilation, turns, pads in [
        (3, 20, 128, 2, 0),
        (18, 5, 130, 1, 2),
        (17, 33, 150, 3, 1),
        (1, 1, 200, 2, 1),
    ]:
        taps, stated = (
            int(random.integers(2, 4)),
            {"dilations": [dilation], "data_format": layout, "weights_format": "OIX"},
        )
        begin, end = dilation * pads, int(random.integers(dilation))
        columns = max(1, (taps + turns - pads) * dilation - end) + int(random.integers(dilation))
        attributes = PLAIN | stated | {"pads_begin": [begin], "pads_end": [end]}
        shape = (2, big, columns) if layout == "NCX" else (2, columns, big)
        src = random.integers(-2, 3, shape).astype(DTYPES[dtype])
        weights = random.integers(-2, 3, (small, big, taps)).astype(DTYPES[dtype])
        forward = Call("Convolution", (src, weights, random.integers(-2, 3, small).astype(DTYPES[dtype])), attributes)
        dst = random.integers(-2, 3, run(forward).shape).astype(DTYPES[dtype])
        for non_finite in (0, np.inf):
            weights[small // 2, 0, 0] += non_finite
            check(forward, threads=(1, 3))
            data = Call("ConvolutionBackwardData", (dst, weights), attributes | {"dst_shape": list(shape)})
            check(data, threads=(1, 3))


@every_dtype
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_dilated_taps_of_many_channels_give_what_the_rulings_give(layout: str, dtype: str) -> None:
    """Rows of output as far apart as the taps, on images whose input is less than their weights."""
    random = rng("dilated", layout, dtype)
    for big, small, dilation, stride in [
        (65, 100, 2, 1),
        (100, 65, 7, 1),
        (66, 97, 3, 2),
        (200, 34, 20, 1),
        (34, 200, 6, 1),
    ]:
        kernel = random.integers(2, 4, 2)
        begin, end = random.integers(0, dilation + 1, (2, 2))
        extent = stride * random.integers(17, 20, 2) + (kernel - 1) * dilation - begin - end
        names = {
            "strides": [stride] * 2,
            "pads_begin": begin.tolist(),
            "pads_end": end.tolist(),
            "dilations": [dilation] * 2,
        }
        attributes: dict[str, Any] = names | {"data_format": layout, "weights_format": "OIX"}
        shape = (1, big, *extent) if layout == "NCX" else (1, *extent, big)
        src = random.integers(-2, 3, shape).astype(DTYPES[dtype])
        weights = random.integers(-2, 3, (small, big, *kernel)).astype(DTYPES[dtype])
        forward = Call("Convolution", (src, weights), attributes)
        dst = random.integers(-2, 3, run(forward).shape).astype(DTYPES[dtype])
        for non_finite in (0, np.inf):
            weights[small // 2, 0, 0, 0] += non_finite
            check(forward, threads=(1, 3))
            data = Call("ConvolutionBackwardData", (dst, weights), attributes | {"dst_shape": list(shape)})
            check(data, threads=(1, 3))


@every_dtype
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_small_planes_of_many_images_give_what_the_rulings_give(layout: str, dtype: str) -> None:
    """Tiles of one pixel of several images, each with its own taps; the gradient has phases."""
    random = rng("stacked", layout, dtype)
    for images, groups, extent, kernel, stride, dilation in [
        (9, 1, (4, 5), (3, 3), 1, 1), (17, 2, (4, 6), (2, 3), 1, 2), (8, 1, (6, 6), (4, 4), 2, 1),
        (12, 1, (7, 3), (3, 1), 1, 1), (10, 1, (9,), (4,), 3, 1), (11, 1, (4, 7), (1, 3), (1, 2), 1),
    ]:  # fmt: skip
        rank = len(extent)
        begin, end = (random.integers(0, 3, rank).tolist() for _ in range(2))
        names = {
            "strides": list(stride) if isinstance(stride, tuple) else [stride] * rank,
            "dilations": [dilation] * rank,
        }
        attributes: dict[str, Any] = names | {
            "pads_begin": begin,
            "pads_end": end,
            "groups": groups,
            "data_format": layout,
        }
        for big, small in [(66, 259), (290, 64)]:
            weights_format = str(random.choice(["OIX", "XIO"]))
            shape = (images, groups * big, *extent) if layout == "NCX" else (images, *extent, groups * big)
            joined = (groups * small, big, *kernel) if weights_format == "OIX" else (*kernel, big, groups * small)
            src, weights = (random.integers(-1, 2, every).astype(DTYPES[dtype]) for every in (shape, joined))
            bias = random.integers(-2, 3, groups * small).astype(DTYPES[dtype])
            attributes |= {"weights_format": weights_format}
            forward = Call("Convolution", (src, weights, bias), attributes)
            dst = random.integers(-1, 2, run(forward).shape).astype(DTYPES[dtype])
            data = Call("ConvolutionBackwardData", (dst, weights), attributes | {"dst_shape": list(shape)})
            for non_finite, threads in [(0, 3), (np.inf, 1)]:
                weights.reshape(-1)[random.integers(0, weights.size)] += non_finite
                check(forward, threads=threads)
                check(data, threads=threads)


@every_dtype
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
@pytest.mark.parametrize(("channels", "lanes", "dilation"), [(999, 48, 6), (1004, 41, 7)])
def test_rows_of_many_channels_far_apart_give_what_the_rulings_give(
    channels: int, lanes: int, dilation: int, layout: str, dtype: str
) -> None:
    """Rows of input of which few fit into a cache, and weights that do not: some channels after the other."""
    random = rng("long", layout, dtype, channels)
    names = {"pads_begin": [dilation] * 2, "pads_end": [dilation] * 2, "dilations": [dilation] * 2}
    attributes: dict[str, Any] = PLAIN | {"strides": [1, 1]} | names | {"data_format": layout, "weights_format": "OIX"}
    shape = (1, channels, 13, 38) if layout == "NCX" else (1, 13, 38, channels)
    src = random.integers(-1, 2, shape).astype(DTYPES[dtype])
    bias = random.integers(-1, 2, lanes).astype(DTYPES[dtype])
    weights = random.integers(-1, 2, (lanes, channels, 3, 3)).astype(DTYPES[dtype])
    for non_finite in (0, np.inf):
        weights[lanes // 2, channels - 1, 0, 0] += non_finite
        check(Call("Convolution", (src, weights, bias), attributes), threads=(1, 2))


@every_dtype
@pytest.mark.parametrize("taps", [1, 3])
def test_an_output_beyond_the_caches_gives_what_the_rulings_give(taps: int, dtype: str) -> None:
    random = rng("beyond", taps, dtype)
    src = random.integers(-2, 3, (1, 36000, 2)).astype(DTYPES[dtype])
    weights = random.integers(-2, 3, (64, 2, taps)).astype(DTYPES[dtype])
    bias = random.integers(-2, 3, 64).astype(DTYPES[dtype])
    attributes = PLAIN | {
        "data_format": "NXC",
        "weights_format": "OIX",
        "pads_begin": [taps // 2],
        "pads_end": [taps // 2],
    }
    call = Call("Convolution", (src, weights, bias), attributes)
    answer = run(call)
    assert same(answer, rulings.compute(call)), describe(call)
    assert answer.nbytes < 4 * 2**20 or answer.ctypes.data % 64 == 0  # or else it is not stored past them
    weights[5, 1, 0] = np.inf
    check(call)


@every_dtype
@pytest.mark.parametrize("channels", [24, 40, 48, 80, 112, 176, 192, 208])
def test_any_number_of_vectors_of_channels_gives_what_the_rulings_give(channels: int, dtype: str) -> None:
    """They are shared out evenly to panels of one to four, which are wider for narrow rows."""
    random = rng("vectors", channels, dtype)
    weights = random.integers(-2, 3, (channels, 5, 1, 2)).astype(DTYPES[dtype])
    for shape, layout in [
        ((2, 3, 3, 5), "NXC"),
        ((1, 2, 24, 5), "NXC"),
        ((1, 5, 3, 12), "NCX"),
        ((2, 5, 19, 19), "NCX"),
    ]:
        src = random.integers(-2, 3, shape).astype(DTYPES[dtype])
        check(Call("Convolution", (src, weights), {"data_format": layout, "weights_format": "OIX"} | PLAIN_2D))


@every_dtype
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_sums_of_any_length_give_what_the_rulings_give(layout: str, dtype: str) -> None:
    """Matrix registers multiply as many terms at a time as divide a sum; rows and vectors of a tile may be few, too."""
    random = rng("lengths", layout, dtype)
    for number in range(40):
        big, taps = int(random.integers(1, 9) if number % 2 else random.integers(9, 140)), int(random.integers(1, 8))
        small, rows, columns = (int(random.integers(1, end)) for end in (50, 4, 70))
        attributes = PLAIN_2D | {
            "data_format": layout,
            "weights_format": "OIX",
            "strides": [1, int(random.integers(1, 3))],
        }
        attributes |= {"pads_begin": [0, taps // 2], "pads_end": [1, taps // 2]}
        space = (rows, columns)
        src = random.integers(-2, 3, (1, big, *space) if layout == "NCX" else (1, *space, big)).astype(DTYPES[dtype])
        weights = random.integers(-2, 3, (small, big, 2, taps)).astype(DTYPES[dtype])
        forward = Call("Convolution", (src, weights), attributes)
        check(forward)
        dst = random.integers(-2, 3, run(forward).shape).astype(DTYPES[dtype])
        check(Call("ConvolutionBackwardWeights", (src, dst), attributes | {"weights_shape": list(weights.shape)}))


@every_dtype
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_a_few_channels_beyond_whole_vectors_give_what_the_rulings_give(layout: str, dtype: str) -> None:
    """Their sums are over lanes of reduced channels, which end with a part of a vector."""
    random = rng("rest", layout, dtype)
    for number, (small, big, groups) in enumerate(
        [(33, 33, 2), (17, 50, 1), (20, 35, 1), (35, 34, 3), (66, 65, 1)] * 2
    ):
        kernel, strides, begin, end = (
            [int(i) for i in random.integers(*ends, 2)] for ends in [(3, 5), (1, 3), (0, 3), (0, 3)]
        )
        space = [int(i) for i in random.integers(*([6, 12] if number < 5 else [20, 30]), 2)]
        attributes = {"strides": strides, "pads_begin": begin, "pads_end": end, "dilations": [1, 1 + number % 2]}
        attributes |= {"data_format": layout, "weights_format": ["OIX", "XIO"][number % 2], "groups": groups}
        channels = big * groups
        src = random.integers(-2, 3, (2, channels, *space) if layout == "NCX" else (2, *space, channels)).astype(
            DTYPES[dtype]
        )
        shape = (small * groups, big, *kernel) if number % 2 == 0 else (*kernel, big, small * groups)
        weights, bias = (
            random.integers(-2, 3, shape).astype(DTYPES[dtype]),
            np.arange(small * groups).astype(DTYPES[dtype]),
        )
        call = Call("Convolution", (src, weights, bias), attributes)
        check(call)
        dst = random.integers(-2, 3, run(call).shape).astype(DTYPES[dtype])
        for array in [None, src, dst, weights]:
            if array is not None:
                array.reshape(-1)[random.integers(0, array.size)] = random.choice([np.inf, -np.inf, np.nan])
            check(Call("Convolution", (src, weights, bias), attributes))
            check(Call("ConvolutionBackwardData", (dst, weights), attributes | {"dst_shape": list(src.shape)}))


@every_dtype
def test_tall_planes_of_short_rows_give_what_the_rulings_give(dtype: str) -> None:
    """Rows that fill no vector are copied and finished together; those that the next ones share stay in scratch."""
    random = rng("tall", dtype)
    src = random.integers(-2, 3, (16, 512, 130, 3)).astype(DTYPES[dtype])
    weights = random.integers(-2, 3, (16, 512, 3, 2)).astype(DTYPES[dtype])
    attributes = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [0, 1], "dilations": [1, 1]}
    check(Call("Convolution", (src, weights), attributes | {"data_format": "NCX", "weights_format": "OIX"}))


@every_dtype
@pytest.mark.parametrize(("images", "rows", "dilation"), [(24, 37, 1), (12, 41, 2)])
def test_blocks_of_unlike_heights_give_what_the_rulings_give(images: int, rows: int, dilation: int, dtype: str) -> None:
    """Rows that the blocks they are shared out to do not divide, in steps that keep rows of input, or in turns."""
    random = rng("blocks", images, dtype)
    channels = 128 if dtype == "bf16" else 64
    src = random.integers(-1, 2, (images, rows, 64, channels)).astype(DTYPES[dtype])
    weights = random.integers(-1, 2, (16, channels, 3, 2)).astype(DTYPES[dtype])
    attributes = {"strides": [1, 1], "pads_begin": [dilation, 1], "pads_end": [dilation, 1], "dilations": [dilation, 1]}
    check(Call("Convolution", (src, weights), attributes | {"data_format": "NXC", "weights_format": "OIX"}), threads=2)
