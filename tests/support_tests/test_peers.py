"""The witnesses of the conformance tests agree with each other, survive, and disagree with the pages as was ruled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support import onednn_peer, torch_peer
from support.call import Call
from support.calls import random_call
from support.make_graph_dumps import FOLDER, GRAPHS
from support.onednn_peer import Died, OneDnn, Oracle, Unsupported
from support.peer_geometry import OPERANDS, problem, to_library, to_page

CALLS_PER_OP = 18
BF16 = ml_dtypes.bfloat16
PLAIN = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}

needs_torch = pytest.mark.skipif(not torch_peer.available(), reason="PyTorch is not installed")
needs_onednn = pytest.mark.skipif(not onednn_peer.available(), reason="oneDNN is not installed")


@pytest.fixture(scope="module")
def onednn() -> Iterator[OneDnn]:
    """OneDNN as its users have it."""
    with OneDnn() as peer:
        yield peer


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    """OneDNN where it can be believed."""
    with Oracle() as peer:
        yield peer


def integers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Small integers, the same ones for every call with the same shape."""
    return np.random.default_rng(7).integers(-3, 4, shape).astype(dtype)


def call(op: str, *shapes: tuple[int, ...], dtype: Any = np.float32, **attributes: Any) -> Call:
    """A 2-D call on small integers, plain but for the attributes given."""
    return Call(op, tuple(integers(*shape, dtype=dtype) for shape in shapes), PLAIN | attributes)


@needs_torch
@needs_onednn
@pytest.mark.parametrize("op", OPERANDS)
def test_the_witnesses_agree_on_random_legal_calls(op: str, oracle: Oracle) -> None:
    """Exactly, for most calls: the ones that one of the two can't be asked stay few."""
    rng, compared = np.random.default_rng(list(op.encode())), 0
    for _ in range(CALLS_PER_OP):
        posed = random_call(rng, op)
        if torch_peer.expressible(posed) is not None:
            continue
        expected, answer = torch_peer.compute(posed), oracle.compute(posed)
        if answer is None:
            continue
        assert isinstance(answer, np.ndarray), (posed, answer)
        assert (answer.dtype, answer.shape) == (expected.dtype, expected.shape)
        assert np.array_equal(answer, expected), posed
        compared += 1
    assert compared > CALLS_PER_OP // 2


@needs_torch
@pytest.mark.parametrize("op", OPERANDS)
def test_pytorch_follows_the_definition_tap_by_tap(op: str) -> None:
    """The relation behind all six ops, written as loops over one spatial axis, without any of the peers' geometry."""
    big, small, weights = integers(2, 4, 9), integers(2, 6, 4), integers(6, 2, 3)
    stride, dilation, begin, end, groups = 2, 2, 1, 1, 2
    found = {"big": np.zeros_like(big), "small": np.zeros_like(small), "weights": np.zeros_like(weights)}
    for row in range(6):
        for column in range(2):
            group = row // 3
            for tap in range(3):
                for out in range(4):
                    cell = out * stride + tap * dilation - begin
                    if not 0 <= cell < 9:
                        continue
                    x, y, w = big[:, 2 * group + column, cell], small[:, row, out], weights[row, column, tap]
                    found["small"][:, row, out] += x * w
                    found["big"][:, 2 * group + column, cell] += y * w
                    found["weights"][row, column, tap] += x @ y
    attributes: dict[str, Any] = {
        "strides": [stride],
        "dilations": [dilation],
        "pads_begin": [begin],
        "pads_end": [end],
        "groups": groups,
        "data_format": "NCX",
        "weights_format": "IOX" if op.startswith("ConvTranspose") else "OIX",
        "dst_shape": list(big.shape),
        "weights_shape": list(weights.shape),
    }
    arrays = {"big": big, "small": small, "weights": weights}
    inputs = tuple(arrays[name] for name in OPERANDS[op])
    posed = Call(op, inputs, attributes)
    assert np.array_equal(torch_peer.compute(posed), found[problem(posed).finds])


@needs_torch
def test_pytorch_says_what_it_cannot_express() -> None:
    """Empty batches, and values that padding would spoil."""
    empty = call("Convolution", (0, 5, 5, 4), (3, 3, 4, 2))
    padded = call("Convolution", (1, 5, 5, 4), (3, 3, 4, 2), pads_begin=[1, 1])
    padded.inputs[1][0, 0, 0, 0] = np.inf
    assert "batch" in torch_peer.expressible(empty)
    assert "Inf" in torch_peer.expressible(padded)
    assert torch_peer.expressible(Call("Convolution", padded.inputs, PLAIN)) is None


def test_the_two_arrangements_of_grouped_weights_are_each_other_s_inverse() -> None:
    """R1: entry (i, g*O + o) of the page's is entry (g*I + i, o) of the library's."""
    library = integers(6, 4, 3)
    page = to_page(library, 2)
    assert page.shape == (3, 8, 3)
    assert np.array_equal(page[1, 4 + 2], library[3 + 1, 2])
    assert np.array_equal(to_library(page, 2), library)


@needs_onednn
def test_onednn_starts_again_after_it_died(onednn: OneDnn) -> None:
    """R12: a stride of 0 ends its process, not ours."""
    legal = call("Convolution", (1, 5, 5, 4), (3, 3, 4, 2))
    assert isinstance(onednn.run(legal), np.ndarray)
    assert onednn.run(call("Convolution", (1, 5, 5, 4), (3, 3, 4, 2), strides=[0, 0])) == Died("SIGFPE")
    assert isinstance(onednn.run(legal), np.ndarray)


@needs_onednn
def test_onednn_is_given_up_after_the_time_limit() -> None:
    """Whatever it does meanwhile."""
    with OneDnn(seconds=0) as peer:
        assert peer.run(call("Convolution", (1, 5, 5, 4), (3, 3, 4, 2))) == Died("no answer within 0 s")


KILLING = {
    "R1: the page's weights in ConvTranspose": call("ConvTranspose", (1, 5, 6, 4), (3, 3, 6, 2), groups=2),
    "R1: the page's weights in ConvTransposeBackwardWeights": call(
        "ConvTransposeBackwardWeights", (1, 3, 4, 4), (1, 5, 6, 6), groups=2, weights_shape=[3, 3, 6, 2]
    ),
    "R7: output padding below the dilation": call(
        "ConvTranspose", (1, 3, 3, 4), (3, 3, 6, 4), dilations=[2, 2], output_padding=[1, 1]
    ),
    "R11: dilations that change the size": call(
        "ConvTransposeBackwardData", (1, 8, 8, 4), (3, 3, 4, 2), dilations=[2, 2]
    ),
    "R12: no dilation": call("Convolution", (1, 5, 5, 4), (3, 3, 4, 2), dilations=[0, 0]),
    "channels that groups do not divide": call("Convolution", (1, 5, 6, 5), (3, 3, 2, 2), groups=2),
}
REFUSED = {
    "R1: the page's weights in ConvTransposeBackwardData": (
        call("ConvTransposeBackwardData", (1, 5, 6, 6), (3, 3, 6, 2), groups=2),
        "invalid_shape",
    ),
    "R3: a spelling of nobody's": (
        call("Convolution", (1, 5, 5, 4), (3, 3, 4, 2), auto_pad="Same_Upper"),
        "invalid_graph_op",
    ),
    "R7: output padding": (
        call("ConvTransposeBackwardData", (1, 8, 8, 4), (3, 3, 4, 2), strides=[2, 2], output_padding=[1, 1]),
        "invalid_graph_op",
    ),
    "R8: a shape as an input": (
        Call("ConvolutionBackwardData", (integers(1, 3, 3, 4), integers(3, 3, 6, 4), np.int32([1, 5, 5, 6])), PLAIN),
        "unimplemented",
    ),
    "R10: groups": (
        call("ConvolutionBackwardData", (1, 3, 3, 4), (3, 3, 3, 4), groups=2, dst_shape=[1, 5, 5, 6]),
        "invalid_shape",
    ),
    "R12: a negative pad": (
        call("Convolution", (1, 5, 5, 4), (3, 3, 4, 2), pads_begin=[-1, 0]),
        "invalid_graph_op",
    ),
}
WRONG = {
    "R5: the wrong tensor's size": call(
        "ConvTransposeBackwardWeights",
        (1, 3, 3, 4),
        (1, 6, 5, 6),
        strides=[2, 2],
        auto_pad="same_upper",
        weights_shape=[3, 3, 6, 4],
    ),
    "R7: output padding ignored": call(
        "ConvolutionBackwardData",
        (1, 3, 3, 4),
        (3, 3, 6, 4),
        strides=[2, 2],
        auto_pad="same_upper",
        output_padding=[1, 1],
        dst_shape=[1, 6, 6, 6],
    ),
    "R11: dilations that leave the size alone": call(
        "ConvTransposeBackwardData", (1, 8, 8, 4), (3, 3, 4, 2), strides=[3, 3], dilations=[2, 2]
    ),
}


@needs_onednn
@pytest.mark.parametrize("reason", KILLING)
def test_onednn_dies_where_the_rulings_say_so(reason: str, onednn: OneDnn) -> None:
    """On legal calls as well as on illegal ones."""
    assert onednn.run(KILLING[reason]) == Died("SIGABRT")


@needs_onednn
@pytest.mark.parametrize("reason", REFUSED)
def test_onednn_refuses_where_the_rulings_say_so(reason: str, onednn: OneDnn) -> None:
    """With a status of its C API."""
    posed, status = REFUSED[reason]
    answer = onednn.run(posed)
    assert isinstance(answer, Unsupported)
    assert answer.status == status


@needs_torch
@needs_onednn
@pytest.mark.parametrize("reason", WRONG)
def test_onednn_is_silently_wrong_where_the_rulings_say_so(reason: str, onednn: OneDnn, oracle: Oracle) -> None:
    """And right when its twin op, with explicit pads, is asked instead."""
    expected, answer = torch_peer.compute(WRONG[reason]), onednn.run(WRONG[reason])
    assert isinstance(answer, np.ndarray)
    assert answer.shape == expected.shape
    assert not np.array_equal(answer, expected)
    assert np.array_equal(oracle.compute(WRONG[reason]), expected)


@needs_onednn
def test_onednn_returns_size_1_where_the_kernel_does_not_fit(onednn: OneDnn) -> None:
    """Its division truncates towards zero: (2 - 3) / 2 + 1 is 1."""
    answer = onednn.run(call("Convolution", (1, 2, 2, 4), (3, 3, 4, 2), strides=[2, 2]))
    assert isinstance(answer, np.ndarray)
    assert answer.shape == (1, 1, 1, 2)


@needs_torch
@needs_onednn
@pytest.mark.skipif(
    "avx512_bf16" not in (Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""),
    reason="this CPU has no AVX512-BF16, whose kernels are the ones at fault",
)
def test_onednn_is_silently_wrong_with_one_channel_and_a_strided_output_of_width_1(
    onednn: OneDnn, oracle: Oracle
) -> None:
    """Why the oracle is capped at AVX2: this call is as plain as can be."""
    posed = call("Convolution", (3, 6, 4, 1), (3, 3, 1, 1), dtype=BF16, strides=[1, 3], pads_begin=[2, 1])
    expected, answer = torch_peer.compute(posed), onednn.run(posed)
    assert isinstance(answer, np.ndarray)
    assert not np.array_equal(answer, expected)
    assert np.array_equal(oracle.compute(posed), expected)


@needs_onednn
def test_a_graph_dump_is_what_onednn_writes_today(tmp_path: Path) -> None:
    """Its version aside."""
    with OneDnn(directory=tmp_path, ONEDNN_GRAPH_DUMP="graph") as peer:
        peer.ask({"ops": GRAPHS["conv_transpose_grouped"]})
    written, recorded = (
        json.loads(path.read_text())
        for path in (tmp_path / "graph-100001.json", FOLDER / "conv_transpose_grouped.json")
    )
    assert written | {"version": ""} == recorded | {"version": ""}


def test_the_graph_dumps_show_all_six_ops() -> None:
    """And one that is not ours."""
    dumps = [json.loads(path.read_text()) for path in FOLDER.glob("*.json")]
    assert {op["kind"] for dump in dumps for op in dump["graph"]} == {*OPERANDS, "ReLU"}
