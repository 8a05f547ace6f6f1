"""The interpreter: what it computes, against hand-made numbers, NumPy and PyTorch; what it refuses, rule by rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from opwright.derive.bounds import index_magnitudes
from opwright.derive.call_plan import plan
from opwright.derive.variants import expand
from opwright.emit import lowerable
from opwright.load import load
from opwright.oracle import interpret
from opwright.oracle.interpret import compute, validate
from opwright.oracle.run_steps import compute_steps
from support.small_calls import Array, f32, integers, lists

ROOT = Path(__file__).parents[2]
OPS = {op.op: op for op in (*load(ROOT / "spec" / "onednn_graph").ops, *load(ROOT / "tests" / "data").ops)}
BEYOND = ("AveragePool", "AveragePoolInside", "MatrixProduct", "MaxPool", "TriangularProduct")


# The six operations by hand, one channel and one axis: a kernel of 1 and 10 shows which tap met which cell.


@pytest.mark.parametrize(
    ("name", "inputs", "attributes", "expected"),
    [
        ("Convolution", ([1, 2, 3], [1, 10]), lists(weights_format="OIX"), [21, 32]),
        ("Convolution", ([1, 2, 3], [1, 10]), lists(begin=1, end=1, weights_format="OIX"), [10, 21, 32, 3]),
        ("ConvolutionBackwardData", ([1, 2], [1, 10]), lists(weights_format="OIX", dst_shape=[1, 1, 3]), [1, 12, 20]),
        (
            "ConvolutionBackwardWeights",
            ([1, 2, 3], [1, 10]),
            lists(weights_format="OIX", weights_shape=[1, 1, 2]),
            [21, 32],
        ),
        ("ConvTranspose", ([1, 2], [1, 10]), lists(strides=2, weights_format="IOX"), [1, 10, 2, 20]),
        ("ConvTranspose", ([1, 2], [1, 10]), lists(dilations=3, weights_format="IOX"), [1, 2, 0, 10, 20]),
        ("ConvTransposeBackwardData", ([1, 2, 3, 4], [1, 10]), lists(strides=2, weights_format="IOX"), [21, 43]),
        (
            "ConvTransposeBackwardWeights",
            ([1, 10], [1, 2, 3, 4]),
            lists(strides=2, weights_format="IOX", weights_shape=[1, 1, 2]),
            [31, 42],
        ),
    ],
)
def test_an_operation_gives_the_numbers_worked_out_by_hand(
    name: str, inputs: tuple[list[int], ...], attributes: dict[str, object], expected: list[int]
) -> None:
    result = compute(OPS[name], [f32([[values]]) for values in inputs], attributes)
    assert result.dtype == np.float32
    assert result.tolist() == [[expected]]


def test_powers_follow_annex_f_of_c() -> None:
    src = np.array([-0.0, -np.inf, np.inf, 4], np.float32)
    found = compute_steps(OPS["Pow"], [src], {"beta": 0.5})["dst"]
    assert found.tolist() == [0, np.inf, np.inf, 2]
    assert not np.signbit(found).any()


# The six operations against PyTorch. Big, small and weights stand in one relation; autograd gives the other solves.


def torch_solves(
    big: Array, small: Array, weights: Array, pads: list[tuple[int, int]], **steps: Any
) -> dict[str, Array]:
    """y, x and w of one relation: a convolution of the padded big tensor, and its gradients at small."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x, w = (torch.tensor(array, dtype=torch.float64, requires_grad=True) for array in (big, weights))
    padded = torch.nn.functional.pad(x, [pad for pair in reversed(pads) for pad in pair])
    y = getattr(torch.nn.functional, f"conv{big.ndim - 2}d")(padded, w, **steps)
    y.backward(torch.tensor(small, dtype=torch.float64))
    return {"y": y.detach().numpy(), "x": x.grad.numpy(), "w": w.grad.numpy()}


def moved(array: Array, word: str) -> Array:
    """A tensor with its channel-like axes first, in the order of a layout word."""
    axes = {"NCX": "NCX", "NXC": "NXC", "OIX": "OIX", "XIO": "XIO", "IOX": "OIX", "XOI": "XIO"}[word]
    spatial = range(2, array.ndim)
    places = {"N": [0], "O": [0], "C": [1], "I": [1], "X": list(spatial)}
    return np.ascontiguousarray(array.transpose([place for axis in axes for place in places[axis]]))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", [name for name in OPS if name.startswith("Conv")])
def test_an_operation_equals_pytorch_on_a_random_call(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank, groups = 1 + seed % 3, int(rng.integers(1, 4))
    stride, dilation, kernel_size, count = (rng.integers(1, 4, rank) for _ in range(4))
    begin, end, extra = (rng.integers(0, 3, rank) for _ in range(3))
    extra = np.minimum(extra, stride - 1)
    span = (kernel_size - 1) * dilation + 1
    extents = np.maximum(stride * (count - 1) + span - begin - end + extra, 1)
    if name.startswith("ConvTranspose"):  # its big size must be the one that follows from the small one
        begin = end = np.zeros(rank, int)
        extents = stride * (count - 1) + span + (extra if name == "ConvTranspose" else 0)
    count = (extents + begin + end - span) // stride + 1
    a, b = (int(channels) for channels in rng.integers(1, 4, 2))
    big, small = integers(rng, 2, groups * b, *extents), integers(rng, 2, groups * a, *count)
    weights = integers(rng, groups * a, b, *kernel_size)
    steps = {"stride": stride.tolist(), "dilation": dilation.tolist(), "groups": groups}
    pads = list(zip(begin.tolist(), end.tolist(), strict=True))
    solved = torch_solves(big, small, weights, pads, **steps)

    transposed = name.startswith("ConvTranspose")
    data, kernel_format = (
        str(rng.choice(words)) for words in (["NCX", "NXC"], ["IOX", "XOI"] if transposed else ["OIX", "XIO"])
    )
    attributes = {"strides": stride, "pads_begin": begin, "pads_end": end, "dilations": dilation, "groups": groups}
    attributes |= {"data_format": data, "weights_format": kernel_format}
    big, small, weights = moved(big, data), moved(small, data), moved(weights, kernel_format)
    form = OPS[name].normal_form
    assert form is not None
    solve = form.solve
    expected = moved(solved[solve], kernel_format if solve == "w" else data)
    inputs = {"y": [big, weights], "x": [small, weights], "w": [small, big] if transposed else [big, small]}[solve]
    if solve == "w":
        attributes["weights_shape"] = weights.shape
    elif name == "ConvolutionBackwardData":
        attributes["dst_shape"] = big.shape
    elif name == "ConvTranspose":
        attributes["output_padding"] = extra
    result = compute(OPS[name], inputs, attributes)
    assert result.shape == expected.shape
    assert (result == expected).all()


# What lies beyond convolutions.


@pytest.mark.parametrize("name", BEYOND)
def test_an_operation_that_is_no_convolution_has_a_plan_and_kernels(name: str) -> None:
    assert plan(OPS[name])
    assert index_magnitudes(OPS[name])
    assert not [*lowerable.problems(OPS[name])]
    assert len({variant.name for variant in expand(OPS[name])}) == len(expand(OPS[name]))


def test_a_matrix_product_equals_numpy() -> None:
    rng = np.random.default_rng(1)
    a, b = integers(rng, 5, 7), integers(rng, 7, 3)
    assert (compute(OPS["MatrixProduct"], [a, b], {}) == a @ b).all()
    assert (compute(OPS["MatrixProduct"], [a, b], {"alpha": -0.5}) == -0.5 * (a @ b)).all()


def test_a_real_attribute_is_a_number_of_32_bits() -> None:
    a = np.ones((1, 1), np.float32)
    for given, stored in ((0.1, float(np.float32(0.1))), (2, 2.0), (np.float64(1e300), np.inf), (-(10**400), -np.inf)):
        validation = validate(OPS["MatrixProduct"], [a, a], {"alpha": given})
        assert validation.accepted
        assert validation.values["alpha"] == stored
    assert validate(OPS["MatrixProduct"], [a, a], {"alpha": True}).violations == ("alpha-kind",)


def test_a_product_over_nothing_is_zeros() -> None:
    assert (
        compute(OPS["MatrixProduct"], [np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32)], {}).tolist()
        == [[0] * 3] * 2
    )


@pytest.mark.parametrize("step", [1, 2, 3])
def test_guards_choose_the_terms_of_a_triangular_product(step: int) -> None:
    rng = np.random.default_rng(2)
    a, b = integers(rng, 6, 6), integers(rng, 6, 4)
    distance = np.arange(6)[:, None] - np.arange(6)
    expected = np.where((distance >= 0) & (distance % step == 0), a, 0) @ b
    assert (compute(OPS["TriangularProduct"], [a, b], {"step": step}) == expected).all()


def test_a_term_that_a_guard_leaves_out_does_not_reach_the_sum() -> None:
    a = f32([[1, np.inf], [1, 1]])
    assert compute(OPS["TriangularProduct"], [a, np.zeros((2, 1), np.float32)], {}).tolist() == [[0], [0]]


def windows(src: Array, kernel_size: list[int], strides: list[int], fill: float) -> Array:
    """Every window of a source padded by one cell on all sides, flattened."""
    spatial = tuple(range(2, src.ndim))
    padded = np.pad(src, [(0, 0), (0, 0), *[(1, 1)] * len(spatial)], constant_values=fill)
    seen = np.lib.stride_tricks.sliding_window_view(padded, kernel_size, spatial)
    seen = seen[(slice(None), slice(None), *(slice(None, None, step) for step in strides))]
    return seen.reshape(*seen.shape[: src.ndim], -1)


@pytest.mark.parametrize("word", ["NCX", "NXC"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_pools_equal_numpy(rank: int, word: str) -> None:
    rng = np.random.default_rng(rank)
    src = integers(rng, 2, 3, *range(5, 5 + rank))
    shape: dict[str, object] = {"kernel": [2, 4, 3][:rank], "strides": [2, 1, 3][:rank]}
    given = {**shape, "pads_begin": [1] * rank, "pads_end": [1] * rank, "data_format": word}
    size, steps = [2, 4, 3][:rank], [2, 1, 3][:rank]
    there = windows(np.ones_like(src), size, steps, 0).sum(-1)
    sums = windows(src, size, steps, 0).sum(-1, dtype=np.float64)
    expected = {
        "AveragePool": (sums / np.prod(size)).astype(np.float32),
        "AveragePoolInside": (sums / there).astype(np.float32),
        "MaxPool": windows(src, size, steps, -np.inf).max(-1),
    }
    for name, result in expected.items():
        assert (compute(OPS[name], [moved(src, word)], given) == moved(result, word)).all()


def test_a_window_in_the_padding_keeps_the_initial_value() -> None:
    given = {"kernel": [1], "strides": [1], "pads_begin": [1], "data_format": "NCX"}
    assert compute(OPS["MaxPool"], [f32([[[5, np.nan]]])], given)[0, 0, :2].tolist() == [-np.inf, 5]
    assert np.isnan(compute(OPS["MaxPool"], [f32([[[5, np.nan]]])], given)[0, 0, 2])
    assert compute(OPS["AveragePoolInside"], [f32([[[5, 6]]])], given).tolist() == [[[0, 5, 6]]]


# Numerics.


def test_a_weight_at_a_padded_tap_does_not_reach_the_result() -> None:
    given = lists(begin=1, weights_format="OIX")
    assert compute(OPS["Convolution"], [f32([[[1, 2]]]), f32([[[np.inf, 3]]])], given)[0, 0, 0] == 3


def test_an_empty_reduction_leaves_the_bias() -> None:
    src, weights = np.zeros((1, 0, 2), np.float32), np.zeros((2, 0, 1), np.float32)
    result = compute(OPS["Convolution"], [src, weights, f32([3, 4])], lists(weights_format="OIX"))
    assert result.tolist() == [[[3, 3], [4, 4]]]


def test_bf16_is_rounded_once() -> None:
    just_above_a_tie = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8, np.inf, 1e300, -1e300])
    found = interpret.rounded(just_above_a_tie, "bf16")
    assert found.astype(float).tolist() == [1 + 2.0**-7, 1, np.inf, np.inf, -np.inf]
    assert np.isnan(interpret.rounded(np.array([np.nan]), "bf16").astype(float)).all()
    bits = np.arange(2**16, dtype=np.uint16)
    every = bits[(bits & 0x7F80) != 0x7F80].view(ml_dtypes.bfloat16).astype(np.float64)
    rounded = interpret.rounded(every, "bf16").astype(np.float64)
    assert (rounded == every).all()


def test_the_result_does_not_depend_on_the_length_of_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    call = [integers(rng, 2, 3, 5), integers(rng, 3, 2, 3), integers(rng, 2)], lists(2, 1, 0, weights_format="IOX")
    whole = compute(OPS["ConvTranspose"], *call)
    monkeypatch.setattr(interpret, "CHUNK", 7)
    assert (compute(OPS["ConvTranspose"], *call) == whole).all()


# Validation.

SRC, WEIGHTS, BIAS = np.ones((2, 4, 5), np.float32), np.ones((4, 3, 3), np.float32), np.ones(6, np.float32)
CALL = lists(strides=2, begin=1, end=1, weights_format="IOX", groups=2)
CASES: dict[str, tuple[dict[str, object], set[str]]] = {
    "a zero stride": ({"strides": [0]}, {"strides-range"}),
    "a long list": ({"strides": [1, 1]}, {"strides-length"}),
    "two faults in one list": ({"dilations": [1, -1]}, {"dilations-length", "dilations-range"}),
    "a truth value": ({"pads_begin": [True]}, {"pads_begin-kind"}),
    "a real": ({"pads_begin": [1.0]}, {"pads_begin-kind"}),
    "an array of reals": ({"pads_begin": np.ones(1)}, {"pads_begin-kind"}),
    "no list": ({"pads_begin": 1}, {"pads_begin-kind"}),
    "None for a list": ({"pads_begin": None}, {"pads_begin-kind"}),
    "text for a number": ({"groups": "2"}, {"groups-kind"}),
    "beyond 64 bits": ({"pads_end": [2**63]}, {"pads_end-int64"}),
    "no word of the format": ({"data_format": "NCHW"}, {"data_format-value"}),
    "a refused word": ({"weights_format": "OIX"}, {"weights_format-value"}),
    "a number for a word": ({"auto_pad": 0}, {"auto_pad-kind"}),
    "a stranger": ({"padding": 1}, {"unknown-attribute"}),
    "output padding too large": ({"output_padding": [2]}, {"output-padding-range"}),
    "output padding with a rest": ({"output_padding": [1, 1]}, {"output_padding-length"}),
    "pads that leave nothing": ({"pads_begin": [10], "pads_end": [10]}, {"dst-spatial-extent"}),
    "a size beyond 64 bits": ({"strides": [2**62]}, {"overflow", "index-overflow", "memory"}),
    "indices beyond 62 bits": ({"pads_begin": [2**62], "pads_end": [0], "strides": [2**60]}, {"index-overflow"}),
    "groups that divide neither": ({"groups": 3}, {"groups-divide-in-channels", "inexact-division", "bias-shape"}),
}


@pytest.mark.parametrize("case", CASES)
def test_an_attribute_breaks_these_rules_and_no_others(case: str) -> None:
    change, rules = CASES[case]
    validation = validate(OPS["ConvTranspose"], [SRC, WEIGHTS, BIAS], {**CALL, **change})
    assert set(validation.violations) == rules
    assert not validation.accepted


@pytest.mark.parametrize(
    ("inputs", "rules"),
    [
        ([SRC, WEIGHTS], set()),
        ([SRC, WEIGHTS, None], set()),
        ([None, WEIGHTS], {"src-missing"}),
        ([SRC], {"weights-missing"}),
        ([SRC.tolist(), WEIGHTS], {"src-kind"}),
        ([SRC, WEIGHTS, BIAS, BIAS], {"unknown-input"}),
        ([SRC.astype(np.float16), WEIGHTS], {"dtypes"}),
        ([SRC[0], WEIGHTS, BIAS[:, None]], {"spatial-rank", "bias-rank"}),
        ([SRC, WEIGHTS[..., None]], {"weights-rank"}),
        ([SRC, WEIGHTS, BIAS[:5]], {"bias-shape"}),
        ([SRC, WEIGHTS[:3]], {"src-shape", "weights-shape"}),
        ([SRC[:, :3], WEIGHTS[:3]], {"groups-divide-in-channels", "inexact-division"}),
        ([SRC[..., :0], WEIGHTS], {"src-spatial-extent", "dst-spatial-extent"}),
        ([SRC[:0], WEIGHTS], set()),
    ],
)
def test_inputs_break_these_rules_and_no_others(inputs: list[Any], rules: set[str]) -> None:
    assert set(validate(OPS["ConvTranspose"], inputs, CALL).violations) == rules


def test_a_missing_attribute_is_named() -> None:
    given = {name: value for name, value in CALL.items() if name != "strides"}
    assert validate(OPS["ConvTranspose"], [SRC, WEIGHTS], given).violations == ("strides-missing",)
    with pytest.raises(ValueError, match="strides-missing"):
        compute(OPS["ConvTranspose"], [SRC, WEIGHTS], given)


def test_a_validation_tells_what_the_call_means() -> None:
    given = {**CALL, "output_padding": [1] + [0] * 11, "strides": np.array([2]), "groups": np.int8(2)}
    validation = validate(OPS["ConvTranspose"], [SRC, WEIGHTS, BIAS], given)
    assert validation.accepted
    assert validation.shape == (2, 6, 10)
    assert validation.arrangements == {"weights": "library"}
    assert validation.layouts == {"data_format": "NCX", "weights_format": "IOX"}
    assert validation.group_class == "grouped"
    assert validation.row is not None
    assert validation.row["dst"] == "f32"
    expected = {"N": 2, "IC": 4, "OC": 6, "G": 2, "I": (5,), "O": (10,), "K": (3,), "EK": (3,), "PB": (1,), "OP": (1,)}
    assert {symbol: validation.values[symbol] for symbol in expected} == expected


@pytest.mark.parametrize(
    ("channels", "weights", "arrangement"),
    [(4, (4, 3), "library"), (4, (2, 6), "page"), (0, (0, 3), "library"), (4, (3, 6), None)],
)
def test_the_shape_tells_the_arrangement_of_grouped_weights(
    channels: int, weights: tuple[int, int], arrangement: str | None
) -> None:
    inputs = [np.ones((1, channels, 5), np.float32), np.ones((*weights, 3), np.float32)]
    validation = validate(OPS["ConvTranspose"], inputs, CALL)
    assert validation.arrangements.get("weights") == arrangement
    assert validation.accepted == (arrangement is not None)
    if arrangement and channels:
        assert validation.shape == (1, 6, 9)


def test_a_bias_does_not_decide_the_arrangement() -> None:
    inputs = [np.ones((1, 0, 5), np.float32), np.ones((0, 4, 3), np.float32), np.ones(4, np.float32)]
    assert validate(OPS["ConvTranspose"], inputs, CALL).violations == ("bias-shape",)


@pytest.mark.parametrize(("word", "begin", "end"), [("same_upper", 1, 2), ("SAME_LOWER", 2, 1), ("valid", 0, 0)])
def test_automatic_padding_puts_the_odd_cell_where_the_word_says(word: str, begin: int, end: int) -> None:
    inputs = [np.ones((1, 1, 6), np.float32), np.ones((1, 1, 4), np.float32)]
    values = validate(OPS["Convolution"], inputs, lists(auto_pad=word, weights_format="OIX")).values
    assert (values["PB"], values["PE"]) == ((begin,), (end,))
