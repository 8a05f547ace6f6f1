"""The witness against examples worked out by hand, against PyTorch, and against itself: each op and its gradients."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.call import Call
from support.ruling_calls import IOX, OIX, TRANSPOSED, accepted, f32, make, pads, reason
from support.rulings import OPERATIONS, Accepted, compute, verdict

BF16 = ml_dtypes.bfloat16
# The six operations on numbers that fit a napkin: x = [1, 2, 3, 4], w = [1, 10], stride 2, one cell of padding before.
# Convolution: [0*1 + 1*10, 2*1 + 3*10] = [10, 32]


def test_convolution_by_hand() -> None:
    call = make("Convolution", f32(1, 2, 3, 4), f32(1, 10), strides=[2], pads_begin=[1], **OIX)
    assert compute(call).tolist() == [[[10, 32]]]


def test_convolution_adds_the_bias_of_each_channel() -> None:
    call = make("Convolution", f32(1, 2, shape=(1, 2, 1)), f32(1, 10, shape=(1, 1, 2)), f32(5, 7, shape=(2,)))
    assert compute(call).tolist() == [[[6, 17], [7, 27]]]


def test_convolution_backward_data_by_hand() -> None:
    call = make(
        "ConvolutionBackwardData", f32(1, 2), f32(1, 10), strides=[2], pads_begin=[1], dst_shape=[1, 1, 4], **OIX
    )
    assert compute(call).tolist() == [[[10, 2, 20, 0]]]  # no tap reaches the last cell


def test_convolution_backward_weights_by_hand() -> None:
    call = make(
        "ConvolutionBackwardWeights", f32(1, 2, 3, 4), f32(1, 2), strides=[2], pads_begin=[1],
        weights_shape=[1, 1, 2], **OIX,
    )  # fmt: skip
    assert compute(call).tolist() == [[[2 * 2, 1 * 1 + 3 * 2]]]


def test_conv_transpose_by_hand() -> None:
    call = make("ConvTranspose", f32(1, 2), f32(1, 10), strides=[2], pads_begin=[1], output_padding=[1], **IOX)
    assert compute(call).tolist() == [[[10, 2, 20, 0]]]


def test_conv_transpose_backward_data_by_hand() -> None:
    call = make("ConvTransposeBackwardData", f32(1, 2, 3, 4), f32(1, 10), strides=[2], pads_begin=[1], **IOX)
    assert compute(call).tolist() == [[[10, 32]]]


def test_conv_transpose_backward_weights_by_hand() -> None:
    call = make(
        "ConvTransposeBackwardWeights", f32(1, 2), f32(1, 2, 3, 4), strides=[2], pads_begin=[1],
        weights_shape=[1, 1, 2], **IOX,
    )  # fmt: skip
    assert compute(call).tolist() == [[[4, 7]]]


def test_the_four_weights_formats_hold_the_same_weights() -> None:
    oix = np.arange(2 * 3 * 2, dtype=np.float32).reshape(2, 3, 2)  # 2 out, 3 in
    x = f32(*range(12), shape=(1, 3, 4))
    plain = compute(make("Convolution", x, oix, **OIX))
    assert plain[0, 0, 0] == sum(x[0, i, k] * oix[0, i, k] for i in range(3) for k in range(2))
    assert (compute(make("Convolution", x, oix.transpose(2, 1, 0), data_format="NCX")) == plain).all()
    iox = oix.transpose(1, 0, 2)
    there = compute(make("ConvTranspose", x, iox, **IOX))
    assert there[0, 1, 0] == sum(x[0, i, 0] * oix[1, i, 0] for i in range(3))
    assert (compute(make("ConvTranspose", x, oix.transpose(2, 0, 1), data_format="NCX")) == there).all()


@pytest.mark.parametrize("op", OPERATIONS)
def test_nxc_is_ncx_with_the_channels_last(op: str) -> None:
    operation = OPERATIONS[op]
    tensors = {"big": f32(1, 2, 3, 4, 5), "small": f32(1, 2, 3, 4), "weights": f32(1, 10)}
    last = {role: x if role == "weights" else np.moveaxis(x, 1, -1) for role, x in tensors.items()}
    results = []
    for layout, given in (("NCX", tensors), ("NXC", last)):
        attributes: dict[str, Any] = {"data_format": layout, "weights_format": "IOX" if operation.transposed else "OIX"}
        if operation.shape_name:
            attributes[operation.shape_name] = list(given[operation.finds].shape)
        results.append(compute(make(op, *(given[role] for role in operation.roles if role in given), **attributes)))
    ncx, nxc = results
    assert (nxc == (ncx if operation.finds == "weights" else np.moveaxis(ncx, 1, -1))).all()


# Sizes, extents, channels


def test_the_convolution_size_is_a_true_floor() -> None:
    assert accepted(make("Convolution", (1, 1, 6), (1, 1, 3), strides=[2], **OIX)).shape == (1, 1, 2)
    assert reason(make("Convolution", (1, 1, 2), (1, 1, 3), strides=[2], **OIX)) == "spatial-extent"  # floor(-1/2) + 1


def test_r14_spatial_extents_of_zero_are_refused() -> None:
    assert reason(make("Convolution", (1, 1, 2), (1, 1, 3), **OIX)) == "spatial-extent"
    assert reason(make("Convolution", (1, 1, 0), (1, 1, 1), pads_end=[3], **OIX)) == "spatial-extent"
    assert reason(make("Convolution", (1, 1, 3), (1, 1, 0), **OIX)) == "spatial-extent"
    assert reason(make("ConvTranspose", (1, 1, 1), (1, 1, 2), pads_begin=[2], **IOX)) == "spatial-extent"
    call = make("ConvolutionBackwardData", (1, 1, 1), (1, 1, 1), pads_end=[1], dst_shape=[1, 1, 0], **OIX)
    assert reason(call) == "spatial-extent"


def test_batch_and_channels_may_be_zero() -> None:
    assert compute(make("Convolution", (0, 1, 3), (1, 1, 2), **OIX)).shape == (0, 1, 2)
    no_inputs = make("Convolution", (1, 0, 3), (2, 0, 2), f32(5, 7, shape=(2,)), **OIX)
    assert compute(no_inputs).tolist() == [[[5, 5], [7, 7]]]
    no_batch = make("ConvolutionBackwardWeights", (0, 1, 3), (0, 2, 2), weights_shape=[2, 1, 2], **OIX)
    assert (compute(no_batch) == np.zeros((2, 1, 2))).all()


@pytest.mark.parametrize("size", [4, 5])
def test_every_size_that_the_forward_rule_takes_back_is_legal(size: int) -> None:
    call = make("ConvolutionBackwardData", (1, 1, 2), (1, 1, 2), strides=[2], dst_shape=[1, 1, size], **OIX)
    assert accepted(call).shape == (1, 1, size)


@pytest.mark.parametrize("shape", [[1, 1, 3], [1, 1, 6], [2, 1, 4], [1, 2, 4]])
def test_a_dst_shape_that_does_not_fit_is_refused(shape: list[int]) -> None:
    call = make("ConvolutionBackwardData", (1, 1, 2), (1, 1, 2), strides=[2], dst_shape=shape, **OIX)
    assert reason(call) == "dst-shape-inconsistent"


def test_channels_must_divide_by_groups() -> None:
    assert reason(make("Convolution", (1, 5, 3), (2, 2, 1), groups=2, **OIX)) == "groups-divide"
    assert reason(make("Convolution", (1, 4, 3), (5, 2, 1), groups=2, **OIX)) == "groups-divide"


def test_the_bias_has_one_entry_for_each_output_channel_with_groups_too() -> None:
    assert accepted(make("ConvTranspose", (1, 4, 1), (4, 3, 1), (6,), groups=2, **IOX)).shape == (1, 6, 1)
    assert reason(make("ConvTranspose", (1, 4, 1), (4, 3, 1), (3,), groups=2, **IOX)) == "bias-shape"


def test_one_to_three_spatial_axes() -> None:
    assert reason(make("Convolution", (1, 1), (1, 1), **OIX)) == "rank"
    assert reason(make("Convolution", (1,) * 6, (1,) * 6, **OIX)) == "rank"
    assert reason(make("Convolution", (1,) * 4, (1,) * 3, **OIX)) == "rank"


# The rulings


LIBRARY = np.arange(1, 13, dtype=np.float32).reshape(4, 3, 1)  # (IC, OC/G, X)
PAGE = f32(1, 2, 3, 7, 8, 9, 4, 5, 6, 10, 11, 12, shape=(2, 6, 1))  # (IC/G, OC, X), the same weights
SMALL = f32(1, 10, 100, 1000, shape=(1, 4, 1))
BIG = [1 + 40, 2 + 50, 3 + 60, 700 + 10000, 800 + 11000, 900 + 12000]


@pytest.mark.parametrize(("weights", "arrangement"), [(LIBRARY, "library"), (PAGE, "page")])
def test_r1_both_arrangements_give_the_same_result(weights: np.ndarray, arrangement: str) -> None:
    forward = make("ConvTranspose", SMALL, weights, groups=2, **IOX)
    assert accepted(forward).arrangement == arrangement
    assert compute(forward).ravel().tolist() == BIG

    data = make("ConvTransposeBackwardData", f32(1, 0, 0, 0, 0, 1, shape=(1, 6, 1)), weights, groups=2, **IOX)
    assert accepted(data).arrangement == arrangement
    assert compute(data).ravel().tolist() == [1, 4, 9, 12]

    big = f32(1, 2, 3, 4, 5, 6, shape=(1, 6, 1))
    gradient = make(
        "ConvTransposeBackwardWeights", SMALL, big, groups=2, weights_shape=list(weights.shape), **IOX
    )  # fmt: skip
    assert accepted(gradient).arrangement == arrangement
    library = [[1, 2, 3], [10, 20, 30], [400, 500, 600], [4000, 5000, 6000]]
    page = [[1, 2, 3, 400, 500, 600], [10, 20, 30, 4000, 5000, 6000]]
    assert compute(gradient)[..., 0].tolist() == (library if arrangement == "library" else page)


def test_r1_shapes_of_neither_arrangement_are_refused() -> None:
    assert reason(make("ConvTranspose", (1, 4, 1), (3, 3, 1), groups=2, **IOX)) == "arrangement"
    assert reason(make("ConvTransposeBackwardData", (1, 6, 1), (4, 4, 1), groups=2, **IOX)) == "arrangement"
    mixed = make("ConvTransposeBackwardWeights", (1, 4, 1), (1, 6, 1), groups=2, weights_shape=[4, 6, 1], **IOX)
    assert reason(mixed) == "arrangement"


def test_r1_the_library_wins_where_both_fit() -> None:
    found = accepted(make("ConvTranspose", (1, 0, 1), (0, 6, 1), groups=2, **IOX))
    assert (found.arrangement, found.shape) == ("library", (1, 12, 1))


def test_r1_the_page_arrangement_is_no_convolution_s() -> None:
    assert reason(make("Convolution", (1, 4, 1), (6, 4, 1), groups=2, **OIX)) == "channels"


@pytest.mark.parametrize("op", OPERATIONS)
def test_r2_each_family_has_its_own_weights_formats(op: str) -> None:
    own = {"IOX", "XOI"} if op in TRANSPOSED else {"OIX", "XIO"}
    inputs = [(1, 1, 1), (1, 1, 1)]
    shape = {OPERATIONS[op].shape_name: [1, 1, 1]} if OPERATIONS[op].shape_name else {}
    for weights_format in ("OIX", "XIO", "IOX", "XOI"):
        found = verdict(make(op, *inputs, weights_format=weights_format, **shape))
        assert isinstance(found, Accepted) == (weights_format in own)


def test_r3_two_spellings_and_no_third() -> None:
    for value in ("none", "same_upper", "same_lower", "valid", "None", "SAME_UPPER", "SAME_LOWER", "VALID"):
        accepted(make("Convolution", (1, 1, 3), (1, 1, 2), auto_pad=value, **OIX))
    for value in ("NONE", "Same_Upper", "same", "", 0):
        assert reason(make("Convolution", (1, 1, 3), (1, 1, 2), auto_pad=value, **OIX)) == "auto-pad-value"


def test_r4_the_odd_cell_goes_to_the_end_for_upper_and_to_the_begin_for_lower() -> None:
    assert pads(make("Convolution", (1, 1, 5), (1, 1, 4), auto_pad="same_upper", **OIX)) == (1, 2)
    assert pads(make("Convolution", (1, 1, 5), (1, 1, 4), auto_pad="SAME_LOWER", **OIX)) == (2, 1)


@pytest.mark.parametrize(
    ("size", "stride", "kernel", "total"),
    [(5, 2, 3, 2), (6, 2, 3, 1), (5, 3, 1, 0), (4, 3, 5, 4)],  # S*(ceil(i/S) - 1) + EK - i
)
def test_r5_same_pads_make_the_size_ceil_of_i_over_s(size: int, stride: int, kernel: int, total: int) -> None:
    call = make("Convolution", (1, 1, size), (1, 1, kernel), strides=[stride], auto_pad="same_upper", **OIX)
    assert sum(pads(call)) == total
    assert accepted(call).shape == (1, 1, -(-size // stride))


def test_r5_dilation_counts() -> None:
    call = make("Convolution", (1, 1, 5), (1, 1, 2), dilations=[3], auto_pad="same_upper", **OIX)
    assert pads(call) == (1, 2)


def test_r5_conv_transpose_does_not_know_its_big_side() -> None:
    call = make("ConvTranspose", (1, 1, 3), (1, 1, 3), strides=[2], auto_pad="same_upper", **IOX)
    assert pads(call) == (0, 1)
    assert accepted(call).shape == (1, 1, 6)


def test_r5_output_padding_counts_for_convolution_backward_data() -> None:
    same = {"strides": [2], "auto_pad": "same_lower", "dst_shape": [1, 1, 5], **OIX}
    assert pads(make("ConvolutionBackwardData", (1, 1, 3), (1, 1, 3), **same)) == (1, 1)
    assert pads(make("ConvolutionBackwardData", (1, 1, 3), (1, 1, 3), output_padding=[1], **same)) == (2, 1)


@pytest.mark.parametrize("output_padding", [0, 1])
def test_r5_the_gradients_of_conv_transpose_have_its_pads(output_padding: int) -> None:
    same = {"strides": [2], "auto_pad": "same_upper", "output_padding": [output_padding], **IOX}
    forward = make("ConvTranspose", (1, 1, 3), (1, 1, 3), **same)
    big = accepted(forward).shape
    assert big == (1, 1, 6 + output_padding)
    data = make("ConvTransposeBackwardData", big, (1, 1, 3), **same)
    weights = make("ConvTransposeBackwardWeights", (1, 1, 3), big, weights_shape=[1, 1, 3], **same)
    assert pads(forward) == pads(data) == pads(weights) == (0, 1)
    assert accepted(data).shape == (1, 1, 3)


def test_r6_pads_are_ignored_in_value_and_checked_all_the_same() -> None:
    same = {"auto_pad": "valid", **OIX}
    assert pads(make("Convolution", (1, 1, 3), (1, 1, 2), pads_begin=[9], pads_end=[9], **same)) == (0, 0)
    assert reason(make("Convolution", (1, 1, 3), (1, 1, 2), pads_begin=[-1], **same)) == "pads-begin-range"
    assert reason(make("Convolution", (1, 1, 3), (1, 1, 2), pads_end=[0, 0], **same)) == "pads-end-length"
    call = make("Convolution", (1, 1, 3), (1, 1, 2), **same)
    del call.attributes["pads_end"]
    assert reason(call) == "pads-end-missing"


def test_r7_output_padding_of_conv_transpose_is_below_stride_or_dilation() -> None:
    wide = {"strides": [2], "dilations": [3], **IOX}
    assert accepted(make("ConvTranspose", (1, 1, 2), (1, 1, 2), output_padding=[2], **wide)).shape == (1, 1, 8)
    assert reason(make("ConvTranspose", (1, 1, 2), (1, 1, 2), output_padding=[3], **wide)) == "output-padding-range"
    assert reason(make("ConvTranspose", (1, 1, 2), (1, 1, 2), output_padding=[-1], **wide)) == "output-padding-range"


def test_r7_a_tail_of_zeros_is_accepted() -> None:
    assert accepted(make("ConvTranspose", (1, 1, 2), (1, 1, 2), output_padding=[0] * 12, **IOX)).shape == (1, 1, 3)
    strided = {"strides": [2], **IOX}
    assert accepted(make("ConvTranspose", (1, 1, 2), (1, 1, 2), output_padding=[1, 0], **strided)).shape == (1, 1, 5)
    call = make("ConvTranspose", (1, 1, 2), (1, 1, 2), output_padding=[0, 1], **strided)
    assert reason(call) == "output-padding-length"
    assert reason(make("ConvTranspose", (1, 1, 2), (1, 1, 2), output_padding=[], **IOX)) == "output-padding-length"


def test_r7_output_padding_of_convolution_backward_data_is_never_compared_with_dst_shape() -> None:
    call = make("ConvolutionBackwardData", (1, 1, 2), (1, 1, 2), output_padding=[50], dst_shape=[1, 1, 3], **OIX)
    assert compute(call).tolist() == [[[1, 2, 1]]]


@pytest.mark.parametrize(("size", "small"), [(5, 2), (4, None), (6, None)])
def test_r7_a_stated_output_padding_leaves_no_remainder(size: int, small: int | None) -> None:
    call = make("ConvTransposeBackwardData", (1, 1, size), (1, 1, 2), strides=[2], output_padding=[1], **IOX)
    if small is None:
        assert reason(call) == "output-padding-remainder"
    else:
        assert accepted(call).shape == (1, 1, small)


def test_r7_an_output_padding_of_zeros_is_unstated_and_leaves_a_remainder() -> None:
    call = make("ConvTransposeBackwardData", (1, 1, 5), (1, 1, 2), strides=[2], output_padding=[0] * 12, **IOX)
    assert accepted(call).shape == (1, 1, 2)


def test_r7_output_padding_is_no_convolution_s() -> None:
    assert reason(make("Convolution", (1, 1, 2), (1, 1, 2), output_padding=[0], **OIX)) == "unknown-attribute"
    call = make("ConvolutionBackwardWeights", (1, 1, 2), (1, 1, 1), weights_shape=[1, 1, 2], output_padding=[0], **OIX)
    assert reason(call) == "unknown-attribute"


def test_r8_the_tensor_wins_over_the_attribute() -> None:
    def shaped(tensor: Any, **attribute: Any) -> Call:
        return make("ConvolutionBackwardData", (1, 1, 2), (1, 1, 2), tensor, strides=[2], **attribute, **OIX)

    five = np.array([1, 1, 5], np.int32)
    assert accepted(shaped(five)).shape == (1, 1, 5)
    assert accepted(shaped(five, dst_shape=[1, 1, 4])).shape == (1, 1, 5)
    assert accepted(shaped(five, dst_shape=[-7])).shape == (1, 1, 5)
    assert accepted(shaped(None, dst_shape=(1, 1, 4))).shape == (1, 1, 4)
    assert reason(shaped(five, dst_shape=[1, 1, 4.0])) == "dst-shape-kind"
    assert reason(shaped(five.astype(np.int64))) == "dtypes"
    assert reason(shaped(five[:2])) == "dst-shape-length"
    assert reason(shaped(None)) == "shape-missing"


def test_r9_f16_works() -> None:
    call = make("Convolution", f32(1, 2, 3).astype(np.float16), f32(1, 10).astype(np.float16), **OIX)
    assert compute(call).dtype == np.float16
    assert compute(call).tolist() == [[[21, 32]]]


def test_r10_groups_on_convolution_backward_data() -> None:
    weights = f32(1, 2, shape=(2, 1, 1))
    call = make("ConvolutionBackwardData", f32(3, 5, shape=(1, 2, 1)), weights, groups=2, dst_shape=[1, 2, 1], **OIX)
    assert compute(call).ravel().tolist() == [3, 10]


def test_r11_dilations_on_conv_transpose_backward_data() -> None:
    call = make("ConvTransposeBackwardData", f32(1, 2, 3, 4), f32(1, 10), dilations=[2], **IOX)
    assert compute(call).tolist() == [[[31, 42]]]


@pytest.mark.parametrize("value", [0, -1, True, 1.0, "1", None, 2**63])
@pytest.mark.parametrize("name", ["strides", "dilations"])
def test_r12_lists_are_of_positive_integers(name: str, value: Any) -> None:
    call = make("Convolution", (1, 1, 3), (1, 1, 2), **{name: [value], **OIX})
    assert reason(call) in (f"{name}-range", f"{name}-kind")


@pytest.mark.parametrize("value", [0, -1, True, 1.0, "1", [1]])
def test_r12_groups_is_a_positive_integer(value: Any) -> None:
    assert reason(make("Convolution", (1, 1, 3), (1, 1, 2), groups=value, **OIX)) in ("groups-range", "groups-kind")


def test_r12_tuples_arrays_and_numpy_integers_are_lists_of_integers() -> None:
    for strides in ((1,), np.array([1]), [np.int8(1)]):
        accepted(make("Convolution", (1, 1, 3), (1, 1, 2), strides=strides, groups=np.int64(1), **OIX))


def test_r13_a_mixed_call_is_refused() -> None:
    for dtype in (np.float16, BF16, np.float64, np.int32):
        assert reason(make("Convolution", (1, 1, 3), np.ones((1, 1, 2), dtype), **OIX)) == "dtypes"
        assert reason(make("Convolution", (1, 1, 3), (1, 1, 2), np.ones(1, dtype), **OIX)) == "dtypes"
    both = [np.ones(shape, np.float64) for shape in ((1, 1, 3), (1, 1, 2))]
    assert reason(make("Convolution", *both, **OIX)) == "dtypes"
