"""Shapes of few channels, columns or taps, whose kernels walk them in ways of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.call import Call
from support.draws import rng
from support.generated import check, run
from support.rulings import DTYPES

PLAIN = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
PLAIN_2D = {name: value * 2 for name, value in PLAIN.items()}

pytestmark = pytest.mark.usefixtures("isa", "specialize")
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


@every_dtype
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_long_rows_of_few_channels_give_what_the_rulings_give(layout: str, dtype: str) -> None:
    """Rows of many vectors, distinguished by their stride, and groups that share vectors, the last of them fewer."""
    random = rng("rows", layout, dtype)
    for groups, big, small in [
        (1, 1, 16),
        (1, 1, 40),
        (1, 3, 20),
        (1, 20, 2),
        (20, 1, 2),
        (19, 2, 1),
        (7, 3, 5),
        (5, 4, 4),
    ]:
        kernel, stride, begin, end = (int(random.integers(*ends)) for ends in [(1, 6), (1, 10), (0, 3), (0, 3)])
        columns = stride * int(random.integers(40, 90)) + kernel
        attributes = PLAIN | {"strides": [stride], "pads_begin": [begin], "pads_end": [end], "groups": groups}
        attributes |= {"data_format": layout, "weights_format": "OIX"}
        channels = groups * big
        shape = (1, channels, columns) if layout == "NCX" else (1, columns, channels)
        src = random.integers(-2, 3, shape).astype(DTYPES[dtype])
        weights = random.integers(-2, 3, (groups * small, big, kernel)).astype(DTYPES[dtype])
        forward = Call("Convolution", (src, weights), attributes)
        check(forward)
        dst = random.integers(-2, 3, run(forward).shape).astype(DTYPES[dtype])
        check(Call("ConvolutionBackwardData", (dst, weights), attributes | {"dst_shape": list(shape)}))
        check(Call("ConvolutionBackwardWeights", (src, dst), attributes | {"weights_shape": list(weights.shape)}))


@every_dtype
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_planes_of_few_channels_give_what_the_rulings_give(layout: str, dtype: str) -> None:
    """To few channels and to many, rows that fill their vectors and rows that do not; with an Inf or NaN beside padding."""
    random = rng("planes", layout, dtype)
    for number, (groups, big, small, columns, rank) in enumerate([
        (1, 2, 3, 70, 2), (1, 3, 5, 40, 2), (1, 4, 7, 33, 1), (2, 2, 3, 50, 2), (2, 1, 11, 35, 2), (1, 6, 2, 60, 3),
        (1, 3, 70, 48, 2), (1, 1, 50, 61, 2), (1, 5, 13, 33, 2), (2, 2, 37, 80, 3), (1, 1, 33, 2100, 1), (1, 4, 64, 17, 2),
    ]):  # fmt: skip
        kernel, dilation, begin, end = random.integers([[1], [1], [0], [0]], [[4], [3], [3], [3]], (4, rank))
        stride = random.integers(1, 4, rank)
        extent = (random.integers(1, 12, rank) if rank < 3 else random.integers(1, 4, rank)) * stride
        extent[-1] = columns * stride[-1]
        extent += (kernel - 1) * dilation
        names = {"strides": stride, "pads_begin": begin, "pads_end": end, "dilations": dilation}
        attributes: dict[str, Any] = {name: value.tolist() for name, value in names.items()}
        attributes |= {"groups": groups, "data_format": layout, "weights_format": "OIX"}
        channels = groups * big
        shape = (2, channels, *extent) if layout == "NCX" else (2, *extent, channels)
        src = random.integers(-2, 3, shape).astype(DTYPES[dtype])
        weights, bias = (
            random.integers(-2, 3, given).astype(DTYPES[dtype])
            for given in [(groups * small, big, *kernel), groups * small]
        )
        forward = Call("Convolution", (src, weights, bias), attributes)
        dst = random.integers(-2, 3, run(forward).shape).astype(DTYPES[dtype])
        data = Call("ConvolutionBackwardData", (dst, weights), attributes | {"dst_shape": list(shape)})
        check(forward, threads=(1, 3))
        check(data, threads=(1, 3))
        [src, weights][number % 2].reshape(-1)[random.integers([src, weights][number % 2].size)] = [np.inf, np.nan][
            number // 2 % 2
        ]
        check(forward)
        check(data)


@every_dtype
@pytest.mark.parametrize(
    ("shape", "weights_shape", "stride"),
    [
        ((3, 2, 9, 70), (40, 2, 3, 5), (1, 1)),  # taps of a row outnumber channels
        ((1, 28, 4, 12295), (12, 28, 4, 1), (1, 3)),  # 17 blocks of columns, three columns more than 16 whole ones
        ((2, 5, 6, 31), (13, 5, 2, 3), (2, 2)),  # a channel more than the highest tile
    ],
)
def test_brief_sums_to_many_planes_give_what_the_rulings_give(
    shape: tuple[int, ...], weights_shape: tuple[int, ...], stride: tuple[int, ...], dtype: str
) -> None:
    random = rng("brief", *shape, dtype)
    src, weights = (random.integers(-1, 2, of).astype(DTYPES[dtype]) for of in (shape, weights_shape))
    attributes = PLAIN_2D | {"strides": list(stride), "data_format": "NCX", "weights_format": "OIX"}
    check(Call("Convolution", (src, weights), attributes), threads=(1, 3))


@every_dtype
@pytest.mark.parametrize("channels", range(20, 140, 8))
def test_columns_that_meet_nothing_but_padding_are_the_bias(channels: int, dtype: str) -> None:
    random = rng("nothing", channels, dtype)
    shapes = [(1, 3, 61), (channels, 3, 1), (channels,)]
    src, weights, bias = (random.integers(-1, 2, shape).astype(DTYPES[dtype]) for shape in shapes)
    pads = {"strides": [3], "pads_begin": [2], "pads_end": [1]}
    attributes = PLAIN | pads | {"data_format": "NCX", "weights_format": "OIX"}
    check(Call("Convolution", (src, weights, bias), attributes))


@every_dtype
def test_an_output_of_several_mebibytes_from_one_channel_is_what_the_rulings_give(dtype: str) -> None:
    """Stored past the caches where rows are whole lines."""
    random = rng("several mebibytes", dtype)
    src, weights = (random.integers(-2, 3, shape).astype(DTYPES[dtype]) for shape in [(1, 1, 96, 192), (140, 1, 3, 3)])
    attributes = PLAIN_2D | {"pads_begin": [1, 1], "pads_end": [1, 1], "data_format": "NCX", "weights_format": "OIX"}
    check(Call("Convolution", (src, weights), attributes), threads=(1, 3))


@every_dtype
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_patches_that_do_not_overlap_give_what_the_rulings_give(layout: str, dtype: str) -> None:
    """Columns that every stride takes as a whole, beside an Inf or NaN in some; with one plane and with more."""
    random = rng("patches", layout, dtype)
    for number, (big, columns, rank) in enumerate([(3, 16, 2), (3, 4, 2), (2, 6, 2), (1, 8, 2), (5, 2, 1), (3, 4, 3)]):
        kernel = [*random.integers(1, 4, rank - 1).tolist(), columns]
        extent = [size * int(random.integers(3, 20)) for size in kernel]
        pads = [0] * (rank - 1) + [columns * (number % 2)]
        attributes = {"strides": kernel, "pads_begin": pads, "pads_end": pads, "dilations": [1] * rank}
        attributes |= {"data_format": layout, "weights_format": "OIX"}
        src = random.integers(-2, 3, (2, big, *extent) if layout == "NCX" else (2, *extent, big)).astype(DTYPES[dtype])
        weights, bias = (random.integers(-2, 3, shape).astype(DTYPES[dtype]) for shape in [(37, big, *kernel), (37,)])
        if number % 2:
            src.reshape(-1)[random.integers(src.size)] = np.inf
            weights.reshape(-1)[random.integers(weights.size)] = np.nan
        forward = Call("Convolution", (src, weights, bias), attributes)
        check(forward)
        dst = random.integers(-2, 3, run(forward).shape).astype(DTYPES[dtype])
        bias = random.integers(-2, 3, big).astype(DTYPES[dtype])
        check(Call("ConvTranspose", (dst, weights, bias), attributes | {"weights_format": "IOX"}))


@every_dtype
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_many_channels_to_few_give_what_the_rulings_give(layout: str, dtype: str) -> None:
    """Strides and dilations on every axis, rows of several blocks, groups, and an Inf or NaN in some."""
    random = rng("many to few", layout, dtype)
    few = [
        (1, 3, 33, 2), (1, 1, 40, 1), (1, 4, 17, 3), (2, 2, 50, 2), (1, 3, 260, 2), (1, 1, 70, 1), (1, 7, 20, 2), (3, 1, 21, 3),
        (1, 6, 9, 1),
    ]  # fmt: skip
    for number, (groups, big, small, rank) in enumerate(few):
        strides, dilations, begin, end, kernel, extent = (
            random.integers(*ends, rank).tolist() for ends in [(1, 5), (1, 4), (0, 3), (0, 3), (1, 6), (3, 13)]
        )
        extent[-1] = int(random.integers(9, 1400 if rank == 1 else 90))
        attributes = {"strides": strides, "dilations": dilations, "pads_begin": begin, "pads_end": end}
        attributes |= {"groups": groups, "data_format": layout, "weights_format": ["IOX", "XOI"][number % 2]}
        channels = groups * small
        src = random.integers(-2, 3, (2, channels, *extent) if layout == "NCX" else (2, *extent, channels))
        shape = (channels, big, *kernel) if number % 2 == 0 else (*kernel, big, channels)
        src, weights, bias = (
            array.astype(DTYPES[dtype])
            for array in (src, random.integers(-2, 3, shape), random.integers(-2, 3, groups * big))
        )
        check(Call("ConvTranspose", (src, weights, bias), attributes))
        for array in (src, weights):
            array.reshape(-1)[random.integers(array.size)] = [np.inf, np.nan][number % 2]
        check(Call("ConvTranspose", (src, weights), attributes), threads=(1, 3))
        forward = attributes | {"strides": [1] * rank, "weights_format": ["XIO", "OIX"][number % 2]}
        axes = [*range(2, 2 + rank), 0, 1] if number % 2 == 0 else [*range(rank, rank + 2), *range(rank)]
        if groups == 1 and all((k - 1) * d < n for k, d, n in zip(kernel, dilations, extent)):
            check(Call("Convolution", (src, np.ascontiguousarray(weights.transpose(axes))), forward))


@every_dtype
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_products_of_few_columns_give_what_the_rulings_give(layout: str, dtype: str) -> None:
    """Kernels of one tap on one small image: threads share out its channels, even and odd numbers of them."""
    random = rng("products", layout, dtype)
    for big, small in [(64, 130), (130, 64), (97, 65), (200, 33), (34, 300)]:
        groups, extent = int(random.integers(1, 3)), random.integers(4, 16, 2)
        attributes = PLAIN | {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
        attributes |= {"groups": groups, "data_format": layout, "weights_format": "OIX" if layout == "NCX" else "XIO"}
        both = [(1, groups * channels, *extent) for channels in (big, small)]
        if layout == "NXC":
            both = [(n, *space, channels) for n, channels, *space in both]
        kernel = (groups * small, big, 1, 1) if layout == "NCX" else (1, 1, big, groups * small)
        weights = random.integers(-2, 3, kernel).astype(DTYPES[dtype])
        src, diff = (random.integers(-2, 3, shape).astype(DTYPES[dtype]) for shape in both)
        check(Call("Convolution", (src, weights), attributes), threads=(1, 3))
        data = Call("ConvolutionBackwardData", (diff, weights), attributes | {"dst_shape": list(src.shape)})
        check(data, threads=(1, 3))


@every_dtype
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_kernels_as_large_as_their_tensor_give_what_the_rulings_give(layout: str, dtype: str) -> None:
    """Products of as many rows as there are images, in chunks of the reduction, with either channel beside."""
    random = rng("whole", layout, dtype)
    for images, groups, big, small, *extent in [
        (1, 1, 33, 70, 4, 4), (2, 1, 1, 19, 3, 30), (3, 2, 40, 17, 2, 7), (5, 1, 16, 300, 1, 1),
        (16, 1, 70, 35, 5, 5), (15, 2, 500, 16, 1, 1), (40, 1, 129, 100, 3, 1), (300, 1, 20, 20, 2, 2),
    ]:  # fmt: skip
        attributes = PLAIN_2D | {"strides": random.integers(1, 4, 2).tolist(), "groups": groups, "data_format": layout}
        source, target = (images, groups * big, *extent), (images, groups * small, 1, 1)
        if layout == "NXC":
            source, target = ((n, *space, channels) for n, channels, *space in (source, target))
        src, dst = (random.integers(-1, 2, shape).astype(DTYPES[dtype]) for shape in (source, target))
        for weights_format, kernel in {
            "XIO": (*extent, big, groups * small), "OIX": (groups * small, big, *extent)
        }.items():  # fmt: skip
            weights = random.integers(-1, 2, kernel).astype(DTYPES[dtype])
            given = attributes | {"weights_format": weights_format}
            bias = [random.integers(-2, 3, groups * channels).astype(DTYPES[dtype]) for channels in (small, big)]
            check(Call("Convolution", (src, weights, bias[0]), given), threads=3)
            check(Call("ConvolutionBackwardData", (dst, weights), given | {"dst_shape": list(src.shape)}), threads=3)
            if groups == 1:
                transposed = given | {"weights_format": weights_format.translate(str.maketrans("IO", "OI"))}
                check(Call("ConvTranspose", (dst, weights, bias[1]), transposed), threads=3)


@every_dtype
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_depthwise_rows_of_many_taps_give_what_the_rulings_give(layout: str, dtype: str) -> None:
    """Odd and even rows of taps, strides and dilations, some with Inf or NaN among the numbers, of few images and many."""
    random = rng("depthwise", layout, dtype)
    for number, kernel in enumerate([(5, 5), (7, 7), (9, 7), (8, 8), (5, 13), (3, 22)]):
        stride, dilation = (1, 1) if number < 3 else (int(n) for n in random.integers(1, 3, 2))
        channels, *extents = (int(n) for n in random.integers([8, 3, 3], [20, 18, 18]))
        pads = [[int(random.integers(k // 2, k)) * dilation for k in kernel] for _ in range(2)]
        attributes = {"strides": [stride] * 2, "dilations": [dilation] * 2, "pads_begin": pads[0], "pads_end": pads[1]}
        attributes |= {"groups": channels, "data_format": layout, "weights_format": ["OIX", "XIO"][number % 2]}
        images = 2 if number < 3 else 8
        shape = (images, channels, *extents) if layout == "NCX" else (images, *extents, channels)

        def tensor(shape: tuple[int, ...], non_finite: bool) -> np.ndarray:
            values = random.integers(-2, 3, shape).astype(DTYPES[dtype])
            if non_finite:
                values.reshape(-1)[random.integers(values.size, size=2)] = [np.inf, np.nan]
            return values

        kernels = (channels, 1, *kernel) if number % 2 == 0 else (*kernel, 1, channels)
        src, weights = tensor(shape, number % 3 == 1), tensor(kernels, number % 3 == 2)
        forward = Call("Convolution", (src, weights), attributes)
        check(forward)
        dst = tensor(run(forward).shape, number % 3 == 1)
        check(Call("ConvolutionBackwardData", (dst, weights), attributes | {"dst_shape": list(shape)}))
        check(Call("ConvolutionBackwardWeights", (src, dst), attributes | {"weights_shape": list(weights.shape)}))


@every_dtype
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_the_weights_of_few_channels_on_both_sides_give_what_the_rulings_give(layout: str, dtype: str) -> None:
    """Rows long enough for lanes of columns: more than a unit has, far apart, and with an Inf beside the padding."""
    random = rng("few", layout, dtype)
    for groups, big, small, columns in [(1, 1, 1, 1050), (1, 2, 3, 70), (1, 7, 4, 50), (3, 3, 2, 40), (1, 9, 7, 35)]:
        kernel, dilation, begin, end = random.integers(
            [[1, 1], [1, 1], [0, 0], [0, 0]], [[4, 8], [3, 4], [3, 5], [3, 5]]
        )
        stride = random.integers(1, 4, 2) if small < 7 else np.array([2, 1])
        extent = stride * [random.integers(1, 12), columns] + (kernel - 1) * dilation
        names = {"strides": stride, "pads_begin": begin, "pads_end": end, "dilations": dilation}
        attributes: dict[str, Any] = {name: value.tolist() for name, value in names.items()}
        attributes |= {"groups": groups, "data_format": layout, "weights_format": "OIX"}
        channels = groups * big
        shape = (2, channels, *extent) if layout == "NCX" else (2, *extent, channels)
        src = random.integers(-2, 3, shape).astype(DTYPES[dtype])
        weights = random.integers(-2, 3, (groups * small, big, *kernel)).astype(DTYPES[dtype])
        dst = random.integers(-2, 3, run(Call("Convolution", (src, weights), attributes)).shape).astype(DTYPES[dtype])
        gradient = Call("ConvolutionBackwardWeights", (src, dst), attributes | {"weights_shape": list(weights.shape)})
        check(gradient)
        for array in (src, dst):
            array.reshape(-1)[random.integers(array.size)] = np.inf
            check(gradient)


@every_dtype
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
@pytest.mark.parametrize(
    ("big", "small"), [(1, 2), (1, 8), (2, 1), (3, 2), (4, 4), (5, 7), (7, 5), (6, 3), (8, 8), (9, 5), (16, 8)]
)
def test_small_groups_give_what_the_rulings_give(big: int, small: int, layout: str, dtype: str) -> None:
    """Groups that share a vector of lanes, of which the last may have fewer; with an Inf beside the padding."""
    random = rng("groups", big, small, layout, dtype)
    for taps in (1, 2, 3, 4, 7):
        groups, kernel = int(random.integers(2, 12)), np.array([random.integers(1, 4), taps])
        stride, dilation, begin, end = random.integers([[1], [1], [0], [0]], [[4], [3], [3], [3]], (4, 2))
        extent = stride * random.integers(1, 12, 2) + (kernel - 1) * dilation
        names = {"strides": stride, "pads_begin": begin, "pads_end": end, "dilations": dilation}
        attributes: dict[str, Any] = {name: value.tolist() for name, value in names.items()}
        attributes |= {"groups": groups, "data_format": layout, "weights_format": str(random.choice(["OIX", "XIO"]))}
        shape = (2, groups * big, *extent) if layout == "NCX" else (2, *extent, groups * big)
        src = random.integers(-2, 3, shape).astype(DTYPES[dtype])
        last = attributes["weights_format"] == "XIO"
        weights_shape = (*kernel, big, groups * small) if last else (groups * small, big, *kernel)
        weights = random.integers(-2, 3, weights_shape).astype(DTYPES[dtype])
        dst = random.integers(-2, 3, run(Call("Convolution", (src, weights), attributes)).shape).astype(DTYPES[dtype])
        weights_of = attributes | {"weights_shape": [int(size) for size in weights_shape]}
        src_of = attributes | {"dst_shape": [int(size) for size in shape]}
        calls = [
            Call("Convolution", (src, weights), attributes),
            Call("ConvolutionBackwardData", (dst, weights), src_of),
            Call("ConvolutionBackwardWeights", (src, dst), weights_of),
        ]
        for call in calls:
            check(call)
        for array in (src, dst):
            array.reshape(-1)[random.integers(array.size)] = np.inf
            for call in calls:
                check(call)


@every_dtype
@pytest.mark.parametrize(
    ("kernel", "big", "small"),
    [(3, 1, 96), (5, 1, 80), (10, 1, 96), (16, 1, 160), (1, 1, 64), (1, 13, 32), (2, 3, 192), (7, 2, 128)],
)
def test_the_weights_of_few_channels_and_many_give_what_the_rulings_give(
    kernel: int, big: int, small: int, dtype: str
) -> None:
    """Without padding, and with channels last, whose gradient is used where it is."""
    random = rng("many", kernel, dtype)
    attributes = PLAIN | {"strides": [5], "data_format": "NXC", "weights_format": "OIX"}
    src = random.integers(-2, 3, (2, 320 + kernel, big)).astype(DTYPES[dtype])
    dst = random.integers(-2, 3, (2, 65, small)).astype(DTYPES[dtype])
    check(Call("ConvolutionBackwardWeights", (src, dst), attributes | {"weights_shape": [small, big, kernel]}))


@every_dtype
@pytest.mark.parametrize(("kernel", "big", "small"), [(12, 40, 48), (9, 70, 37)])
def test_the_weights_of_a_whole_extent_give_what_the_rulings_give(
    kernel: int, big: int, small: int, dtype: str
) -> None:
    """A few outputs and many weights: more than a task holds beside its operands."""
    random = rng("whole", kernel, dtype)
    for layout in ("NXC", "NCX"):
        attributes = PLAIN_2D | {"data_format": layout, "weights_format": "XIO" if layout == "NXC" else "OIX"}
        shape = (3, kernel, kernel, big) if layout == "NXC" else (3, big, kernel, kernel)
        src = random.integers(-2, 3, shape).astype(DTYPES[dtype])
        dst = random.integers(-2, 3, (3, 1, 1, small) if layout == "NXC" else (3, small, 1, 1)).astype(DTYPES[dtype])
        weights = [kernel, kernel, big, small] if layout == "NXC" else [small, big, kernel, kernel]
        check(Call("ConvolutionBackwardWeights", (src, dst), attributes | {"weights_shape": weights}))


@every_dtype
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_the_weights_of_many_outputs_give_what_the_rulings_give(layout: str, dtype: str) -> None:
    """More weights than one task holds, each a sum of outputs that several tasks share."""
    random = rng("outputs", layout, dtype)
    for kernel, stride, big, small in [(1, 1, 300, 240), (2, 2, 130, 150)]:
        attributes = PLAIN_2D | {"strides": [stride] * 2, "data_format": layout, "weights_format": "OIX"}
        extent = (33 * stride, 35 * stride)
        src = random.integers(-2, 3, (2, big, *extent) if layout == "NCX" else (2, *extent, big)).astype(DTYPES[dtype])
        dst = random.integers(-2, 3, (2, small, 33, 35) if layout == "NCX" else (2, 33, 35, small)).astype(
            DTYPES[dtype]
        )
        gradient = Call(
            "ConvolutionBackwardWeights", (src, dst), attributes | {"weights_shape": [small, big, kernel, kernel]}
        )
        check(gradient, threads=(1, 3))


@every_dtype
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_products_of_few_pixels_give_what_the_rulings_give(layout: str, dtype: str) -> None:
    """Images of one pixel, one image of several, and kernels as large as the tensor; rows and columns fill vectors or not."""
    random = rng("products", layout, dtype)
    for number in range(14):
        groups, big, small = (int(random.choice(sizes)) for sizes in ([1, 1, 2, 3], [1, 5, 17, 40], [1, 3, 16, 35, 70]))
        whole = number % 3 == 0
        several = 20 if whole else int(random.choice([20, 2100]))
        images, extent = ((1, 2, 9, 33, 300)[number % 5], 1) if number % 2 else (int(random.choice([1, 3])), several)
        kernel = extent if whole else 1
        attributes = PLAIN | {"groups": groups, "data_format": layout, "weights_format": "OIX"}
        shape = (images, groups * big, extent) if layout == "NCX" else (images, extent, groups * big)
        src = random.integers(-1, 2, shape).astype(DTYPES[dtype])
        weights = random.integers(-1, 2, (groups * small, big, kernel)).astype(DTYPES[dtype])
        bias = random.integers(-1, 2, groups * small).astype(DTYPES[dtype]) if random.random() < 0.7 else None
        forward, threads = Call("Convolution", (src, weights, bias), attributes), 1 + number % 3
        check(forward, threads=threads)
        dst = random.integers(-1, 2, run(forward).shape).astype(DTYPES[dtype])
        check(Call("ConvolutionBackwardData", (dst, weights), attributes | {"dst_shape": list(shape)}), threads=threads)
        gradient = attributes | {"weights_shape": list(weights.shape)}
        check(Call("ConvolutionBackwardWeights", (src, dst), gradient), threads=threads)
        turned = attributes | {"weights_format": "IOX"}
        other = random.integers(-1, 2, groups * big).astype(DTYPES[dtype])
        check(Call("ConvTranspose", (dst, weights, other), turned), threads=threads)
