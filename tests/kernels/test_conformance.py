"""The generated kernels give what the rulings, the interpreter, PyTorch and oneDNN give.

Every comparison is `==`: data are small integers, whose sums are exact in f32, or values whose one rounding is known.
No test here can be skipped but those of the peers, so a run in which no kernel executed fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import opwright_kernels as ok
import pytest
from hypothesis import HealthCheck, given, settings
from opwright.load import load
from opwright.oracle import interpret
from support import onednn_peer, rulings, torch_peer
from support.call import Call
from support.calls import Drawn, calls, describe, random_call
from support.generated import FULL, attempt, rng, run, same, variant
from support.huge_calls import huge_call
from support.onednn_peer import Oracle
from support.package import ROOT, SPEC
from support.rulings import DTYPES, OPERATIONS

BF16, F16, F32 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16), np.dtype(np.float32)
LIBRARY = load(SPEC, ROOT)
PLAIN = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
PLAIN_2D = {name: value * 2 for name, value in PLAIN.items()}

pytestmark = pytest.mark.usefixtures("isa", "specialize")
every_op = pytest.mark.parametrize("op", OPERATIONS)
every_dtype = pytest.mark.parametrize("dtype", DTYPES)
quickly = settings(deadline=None, suppress_health_check=list(HealthCheck))


def check(call: Call, **options: Any) -> None:
    assert same(run(call, **options), rulings.compute(call)), describe(call)


# Against the witnesses


@settings(quickly, max_examples=10_000 if FULL else 1000)
@given(calls())
def test_random_calls_give_what_the_rulings_give(drawn: Drawn) -> None:
    check(drawn.call)


@every_dtype
@every_op
def test_random_calls_reach_every_kernel(op: str, dtype: str, isa: str) -> None:
    random = rng(op, dtype)
    serving = variant(random_call(random, op, dtype)).isa
    every = {v.name for v in ok.variants(op) if (v.dtype, v.isa) == (dtype, serving)}
    assert serving == isa or not any((v.dtype, v.isa) == (dtype, isa) for v in ok.variants(op))
    reached: set[str] = set()
    for _ in range(3000):
        call = random_call(random, op, dtype)
        if (name := variant(call).name) not in reached:
            check(call)
            reached.add(name)
        if reached == every:
            break
    assert reached == every != set()


@pytest.mark.sweep
@every_dtype
@every_op
def test_a_sweep_of_random_calls_gives_what_the_rulings_give(op: str, dtype: str) -> None:
    random = rng("sweep", op, dtype)
    for number in range(20_000 if FULL else 200):
        check(random_call(random, op, dtype), threads=[None, 1, 2, 3][number % 4])


@every_dtype
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_long_rows_of_few_channels_give_what_the_rulings_give(layout: str, dtype: str) -> None:
    """Rows of many vectors, told apart by their stride, and groups that share vectors, the last of them fewer."""
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
        for threads in (1, 3):
            check(forward, threads=threads)
            check(data, threads=threads)
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
    for threads in (1, 3):
        check(Call("Convolution", (src, weights), attributes), threads=threads)


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
    for threads in (1, 3):
        check(Call("Convolution", (src, weights), attributes), threads=threads)


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
        for threads in (1, 3):
            check(Call("ConvTranspose", (src, weights), attributes), threads=threads)
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
        for threads in (1, 3):
            check(Call("Convolution", (src, weights), attributes), threads=threads)
            data = Call("ConvolutionBackwardData", (diff, weights), attributes | {"dst_shape": list(src.shape)})
            check(data, threads=threads)


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
        for threads in (1, 3):
            check(gradient, threads=threads)


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
        for threads in (1, 3):
            assert run(call, threads=threads).shape == shape
            check(call, threads=threads)
            check(data, threads=threads)


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
        for threads in (1, 3):
            check(Call("Convolution", (src, weights), attributes | {"strides": [1] * rank}), threads=threads)
            data = attributes | {"strides": stride, "dst_shape": shape}
            check(Call("ConvolutionBackwardData", (src, turned), data), threads=threads)


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
            for threads in (1, 3):
                check(forward, threads=threads)
                data = Call("ConvolutionBackwardData", (dst, weights), attributes | {"dst_shape": list(shape)})
                check(data, threads=threads)


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
            for threads in (1, 3):
                check(forward, threads=threads)
                data = Call("ConvolutionBackwardData", (dst, weights), attributes | {"dst_shape": list(shape)})
                check(data, threads=threads)


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
        for threads in (1, 2):
            check(Call("Convolution", (src, weights, bias), attributes), threads=threads)


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


@every_op
def test_calls_of_huge_numbers_give_what_the_rulings_give(op: str) -> None:
    random, accepted = rng("huge", op), 0
    for _ in range(300):
        call = huge_call(random, op)
        answer = attempt(call)
        if isinstance(answer, ok.SpecError):
            assert answer.rule.endswith(("overflow", "-int64"))
            continue
        assert same(answer, rulings.compute(call)), describe(call)
        accepted += 1
    assert accepted > 100


@every_op
def test_random_calls_give_what_the_interpreter_gives(op: str) -> None:
    spec, random = LIBRARY.op(op), rng(op)
    for _ in range(400 if FULL else 60):
        call = random_call(random, op)
        assert same(run(call), interpret.compute(spec, call.inputs, call.attributes)), describe(call)


@pytest.mark.skipif(not torch_peer.available(), reason="PyTorch is not installed")
@every_op
def test_random_calls_give_what_pytorch_gives(op: str) -> None:
    random, compared = rng("torch", op), 0
    for _ in range(2000 if FULL else 80):
        call = random_call(random, op)
        if torch_peer.expressible(call) is None:
            assert same(run(call), torch_peer.compute(call)), describe(call)
            compared += 1
    assert compared > 50


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    """OneDNN where it can be believed."""
    with Oracle(60) as peer:
        yield peer


@pytest.mark.skipif(not onednn_peer.available(), reason="oneDNN is not installed")
@every_op
def test_random_calls_give_what_onednn_gives(op: str, oracle: Oracle) -> None:
    random, compared = rng("onednn", op), 0
    for _ in range(1000 if FULL else 60):
        call = random_call(random, op)
        answer = oracle.compute(call)
        if answer is not None:
            assert isinstance(answer, np.ndarray), (describe(call), answer)
            assert same(run(call), answer), describe(call)
            compared += 1
    assert compared > 30


# Adjoint identities: the three operations of a family are one trilinear form


def inner(a: np.ndarray, b: np.ndarray) -> int:
    return int((a.astype(np.int64) * b.astype(np.int64)).sum())


@pytest.mark.parametrize("forward", ["Convolution", "ConvTranspose"])
def test_the_gradients_are_the_adjoints_of_the_forward_operation(forward: str) -> None:
    random = rng("adjoint", forward)
    for _ in range(150):
        call = random_call(random, forward, "f32")
        src, weights = call.inputs[:2]
        if 0 in weights.shape:  # both arrangements of R1 may fit, and each operation asks other tensors which does
            continue
        shape = run(replace(call, inputs=(src, weights))).shape
        dst = random.integers(-2, 3, shape).astype(np.float32)
        attributes = dict(call.attributes)
        stated = {"dst_shape": list(src.shape)} if forward == "Convolution" else {}
        back = run(Call(f"{forward}BackwardData", (dst, weights), attributes | stated))
        stated = {"weights_shape": list(weights.shape)}
        gradient = run(Call(f"{forward}BackwardWeights", (src, dst), attributes | stated))
        forth = run(replace(call, inputs=(src, weights)))
        assert inner(forth, dst) == inner(src, back) == inner(weights, gradient), describe(call)


# Padding, Inf and NaN


def test_an_infinite_weight_at_a_tap_in_the_padding_does_not_reach_the_result() -> None:
    src = np.array([[[1, 2]]], np.float32)
    weights = np.array([[[np.nan, 3, np.inf]]], np.float32)
    attributes = PLAIN | {"data_format": "NCX", "weights_format": "OIX"}
    padded = attributes | {"strides": [2], "pads_begin": [1]}  # outputs: taps 1 and 2 on 1, 2
    assert run(Call("Convolution", (src, weights), padded)).tolist() == [[[np.inf]]]
    only = attributes | {"strides": [9], "pads_begin": [1], "pads_end": [1], "dilations": [2]}
    assert run(Call("Convolution", (src[..., :1] * 7, weights), only | {"dilations": [1]})).tolist() == [[[21]]]


@every_dtype
@every_op
def test_inf_and_nan_reach_exactly_the_cells_that_their_taps_reach(op: str, dtype: str) -> None:
    random, kept, spoiled = rng("inf", op, dtype), 0, 0
    for _ in range(60):
        call = random_call(random, op, dtype)
        for array in call.inputs[:2]:
            assert array is not None
            if array.size and random.random() < 0.7:
                cells = random.integers(0, array.size, 1 + array.size // 20)
                array.reshape(-1)[cells] = random.choice([np.inf, -np.inf, np.nan], cells.size)
        answer = run(call)
        assert same(answer, rulings.compute(call)), describe(call)
        finite = np.isfinite(answer.astype(np.float32))
        kept, spoiled = kept + finite.sum(), spoiled + (~finite).sum()
    assert kept > 0 < spoiled


@every_dtype
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
def test_inf_and_nan_beside_the_taps_of_few_channels_do_not_reach_the_result(layout: str, dtype: str) -> None:
    """An odd number of channels: what pairs the channels of neighbouring taps has one neighbour too many."""
    random = rng("few", layout, dtype)
    for number, (big, small) in enumerate([(1, 16), (3, 16), (3, 40), (5, 33), (1, 70), (3, 100)] * 2):
        strides, pads_begin, pads_end, kernel = (
            [int(i) for i in random.integers(*ends, 2)] for ends in [(1, 4), (0, 3), (0, 3), (1, 6)]
        )
        attributes = PLAIN | {"strides": strides, "pads_begin": pads_begin, "pads_end": pads_end, "dilations": [1, 1]}
        attributes |= {"data_format": layout, "weights_format": ["OIX", "XIO"][number % 2]}
        space = [int(i) for i in random.integers(6, 40, 2)]
        src = random.integers(-2, 3, (2, big, *space) if layout == "NCX" else (2, *space, big)).astype(DTYPES[dtype])
        shape = (small, big, *kernel) if attributes["weights_format"] == "OIX" else (*kernel, big, small)
        weights = random.integers(-2, 3, shape).astype(DTYPES[dtype])
        check(Call("Convolution", (src, weights), attributes))
        for array, count in [(src, 9), (weights, 1)][: 1 + number % 2]:
            array.reshape(-1)[random.integers(0, array.size, count)] = random.choice([np.inf, -np.inf, np.nan], count)
        check(Call("Convolution", (src, weights), attributes))
        back, axes = ("IOX", (0, 1)) if number % 2 == 0 else ("XOI", (2, 3))
        check(
            Call(
                "ConvTranspose",
                (src, weights.swapaxes(*axes)),
                attributes | {"strides": [1, 1], "weights_format": back},
            )
        )


# One rounding


def sum_of(dtype: np.dtype[Any], terms: list[float], bias: float | None = None) -> np.ndarray:
    """The sum of terms as a Convolution makes it, and rounds it."""
    src = np.array(terms).astype(dtype).reshape(1, len(terms), 1)
    inputs = (src, np.ones((len(terms), 1, 1), dtype), None if bias is None else np.array([bias]).astype(dtype))
    return run(Call("Convolution", inputs, PLAIN)).reshape(())


@pytest.mark.parametrize(("dtype", "edge"), [(BF16, 256), (F16, 2048)])
def test_sums_and_bias_are_rounded_once_at_the_end(dtype: np.dtype[Any], edge: int) -> None:
    assert sum_of(dtype, [edge, 1, 1]) == edge + 2  # edge + 1 alone would fall back to edge
    assert sum_of(dtype, [edge, 1], bias=1) == edge + 2
    assert sum_of(dtype, [edge, 1]) == edge  # half way: to even
    assert sum_of(dtype, [edge, 3]) == edge + 4


@every_op
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_sums_beyond_the_integers_of_the_dtype_are_rounded_once(op: str, dtype: str) -> None:
    random, rounded = rng("round", op, dtype), 0
    for _ in range(40):
        call = random_call(random, op, dtype)
        wide = tuple(x if x is None or x.dtype == np.int32 else (x * 13).astype(x.dtype) for x in call.inputs)
        call = replace(call, inputs=wide)
        check(call)
        exact = rulings.exact(call)
        rounded += (exact != rulings.compute(call).astype(np.float64)).sum()
    assert rounded > 100


@pytest.mark.parametrize(("dtype", "large"), [(BF16, 2.0**127), (F16, 2.0**15), (F32, 2.0**127)])
def test_overflow_goes_to_infinity(dtype: np.dtype[Any], large: float) -> None:
    assert sum_of(dtype, [large, large]) == np.inf
    assert sum_of(dtype, [-large, -large]) == -np.inf
    assert sum_of(dtype, [large]) == large


@pytest.mark.parametrize(("dtype", "tiny"), [(BF16, 2.0**-133), (F16, 2.0**-24), (F32, 2.0**-149)])
def test_denormals_are_kept_but_where_products_are_made_in_pairs(dtype: np.dtype[Any], tiny: float, isa: str) -> None:
    if (isa, dtype) == ("avx512_bf16", BF16):  # its hardware knows no denormals; API.md says so
        assert sum_of(dtype, [tiny]) in (0, tiny)
        assert sum_of(dtype, [tiny, tiny]) in (0, 2 * tiny)
        return
    assert sum_of(dtype, [tiny]) == tiny
    assert sum_of(dtype, [tiny, tiny], bias=tiny) == 3 * tiny


@pytest.mark.parametrize(("dtype", "bits"), [(BF16, 0x7F81), (F16, 0x7C01), (F32, 0x7F800001)])
def test_a_nan_of_the_smallest_payload_stays_nan(dtype: np.dtype[Any], bits: int) -> None:
    integer = f"u{dtype.itemsize}"
    src = np.full((1, 1, 1), bits, integer).view(dtype)
    for sign in (1, -1):
        answer = run(Call("Convolution", (src, np.full((1, 1, 1), sign, dtype)), PLAIN))
        assert np.isnan(answer.astype(np.float64)).all()


# Threads


@every_dtype
@every_op
def test_every_number_of_threads_gives_the_same_bits(op: str, dtype: str) -> None:
    random = rng("threads", op, dtype)
    for _ in range(100):
        call = random_call(random, op, dtype, values="normal")
        alone = run(call, threads=1).tobytes()
        assert {run(call, threads=threads).tobytes() for threads in (1, 2, 3, 8)} == {alone}, describe(call)


@every_op
def test_rounded_sums_are_near_the_exact_ones(op: str) -> None:
    random = rng("normal", op)
    for _ in range(40):
        call = random_call(random, op, "f32", values="normal")
        assert np.allclose(run(call), rulings.exact(call), rtol=1e-4, atol=1e-4), describe(call)
