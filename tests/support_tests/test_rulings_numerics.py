"""The rulings round once, and agree with PyTorch and with the adjoint identity."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.call import Call
from support.calls import describe, random_call
from support.ruling_calls import IOX, OIX, accepted, f32, make, reason
from support.rulings import OPERATIONS, compute, exact

BF16 = ml_dtypes.bfloat16

# Numerics


def test_an_inf_weight_at_a_padded_tap_does_not_reach_the_result() -> None:
    call = make("Convolution", f32(1, 2), f32(np.inf, 1), pads_begin=[1], **OIX)
    assert compute(call).tolist() == [[[1, np.inf]]]
    call = make("ConvolutionBackwardWeights", f32(1, 2), f32(np.nan, 1), pads_begin=[1], weights_shape=[1, 1, 2], **OIX)
    assert compute(call)[0, 0, 0] == 1
    assert np.isnan(compute(call)[0, 0, 1])


def test_zero_times_inf_at_a_real_tap_is_nan() -> None:
    assert np.isnan(compute(make("Convolution", f32(0), f32(np.inf), **OIX))).all()


def test_bf16_is_rounded_once() -> None:
    just_above_a_tie = f32(1, 2**-8, 2**-40).astype(BF16)
    call = make("Convolution", just_above_a_tie, np.ones((1, 1, 3), BF16), **OIX)
    assert exact(call)[0, 0, 0] == 1 + 2**-8 + 2**-40
    assert float(compute(call)[0, 0, 0]) == 1 + 2**-7
    tie = make("Convolution", just_above_a_tie[..., :2], np.ones((1, 1, 2), BF16), **OIX)
    assert float(compute(tie)[0, 0, 0]) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16])
def test_overflow_goes_to_inf(dtype: Any) -> None:
    most = np.full((1, 1, 2), ml_dtypes.finfo(dtype).max, dtype)
    assert np.isinf(compute(make("Convolution", most, np.ones((1, 1, 2), dtype), **OIX)).astype(np.float64)).all()


def test_huge_values_do_not_wrap_around() -> None:
    assert accepted(make("Convolution", (1, 1, 3), (1, 1, 2), strides=[2**63 - 1], **OIX)).shape == (1, 1, 1)
    two = make("Convolution", f32(1, 2, 3), f32(1, 10), strides=[2**62], pads_begin=[2**62], **OIX)
    assert compute(two).tolist() == [[[0, 21]]]
    assert reason(make("Convolution", (1, 1, 3), (1, 1, 4), dilations=[2**62], **OIX)) == "spatial-extent"
    assert reason(make("Convolution", (1, 1, 3), (1, 1, 1), strides=[2**62], pads_end=[2**63 - 1], **OIX)) == "int64"
    assert accepted(make("ConvTranspose", (1, 1, 2), (1, 1, 1), strides=[2**60], **IOX)).elements == 2**60 + 1


# Other witnesses


def pairing(a: np.ndarray, b: np.ndarray) -> float:
    """<a, b>: exact on small integers."""
    return float(np.vdot(a.astype(np.float64), b.astype(np.float64)))


@pytest.mark.parametrize("family", ["Convolution", "ConvTranspose"])
def test_the_backward_pair_is_the_adjoint_of_its_forward_op(family: str) -> None:
    for seed in range(150):
        rng = np.random.default_rng(seed)
        call = random_call(rng, family, "f32")
        x, w = call.inputs[:2]
        assert x is not None
        assert w is not None
        if not x.size or not w.size:
            continue
        forward = compute(Call(family, (x, w), call.attributes))
        y = rng.integers(-3, 4, forward.shape).astype(np.float32)
        sized = (np.array(x.shape, np.int32),) if family == "Convolution" else ()
        data = compute(Call(f"{family}BackwardData", (y, w, *sized), call.attributes))
        shape = np.array(w.shape, np.int32)
        weights = compute(Call(f"{family}BackwardWeights", (x, y, shape), call.attributes))
        expected = pairing(forward, y)
        assert pairing(data, x) == expected, describe(call)
        assert pairing(weights, w) == expected, describe(call)


def torch_result(call: Call) -> np.ndarray | None:
    """What PyTorch computes in float64: None where it cannot say the call."""
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    operation, found = OPERATIONS[call.op], accepted(call)
    last = call.attributes.get("data_format", "NXC") == "NXC"
    x_first = call.attributes.get("weights_format", "X")[0] == "X"
    groups, rank = found.groups, len(found.strides)

    tensors = {
        role: x.astype(np.float64) for role, x in zip(operation.roles, call.inputs, strict=False) if x is not None
    }
    tensors[operation.finds] = np.zeros(found.shape)
    for role in ("big", "small"):
        tensors[role] = np.moveaxis(tensors[role], -1, 1) if last else tensors[role]
    weights = tensors["weights"]
    weights = weights.transpose(rank + 1, rank, *range(rank)) if x_first else weights
    if found.arrangement == "page":
        weights = np.concatenate(np.split(weights, groups, axis=1))
    if 0 in (tensors["big"].size, tensors["small"].size, weights.size):
        return None
    given = {**tensors, "weights": weights}
    given = {role: torch.tensor(np.ascontiguousarray(x), requires_grad=True) for role, x in given.items()}

    settings = {"stride": found.strides, "dilation": found.dilations, "groups": groups}
    bias = given.get("bias")
    if operation.transposed:
        if found.pads_begin != found.pads_end:
            return None
        reached = [
            s * (o - 1) + (k - 1) * d + 1 - 2 * p
            for s, o, k, d, p in zip(
                found.strides, tensors["small"].shape[2:], found.kernel, found.dilations, found.pads_begin, strict=True
            )
        ]
        extra = [i - size for i, size in zip(tensors["big"].shape[2:], reached, strict=True)]
        transpose = getattr(functional, f"conv_transpose{rank}d")
        produced = transpose(
            given["small"], given["weights"], bias, padding=found.pads_begin, output_padding=extra, **settings
        )
    else:
        around = [p for pair in zip(found.pads_begin[::-1], found.pads_end[::-1], strict=True) for p in pair]
        convolve = getattr(functional, f"conv{rank}d")
        produced = convolve(functional.pad(given["big"], around), given["weights"], bias, **settings)

    output = "big" if operation.transposed else "small"
    if operation.finds == output:
        result = produced.detach().numpy()
    else:
        result = torch.autograd.grad(produced, given[operation.finds], given[output].detach())[0].numpy()
    if operation.finds != "weights":
        return np.moveaxis(result, 1, -1) if last else result
    if found.arrangement == "page":
        result = np.concatenate(np.split(result, groups), axis=1)
    return result.transpose(*range(2, rank + 2), 1, 0) if x_first else result


@pytest.mark.parametrize("op", OPERATIONS)
def test_the_results_are_those_of_torch(op: str) -> None:
    compared = 0
    for seed in range(150):
        call = random_call(np.random.default_rng(seed), op)
        theirs = torch_result(call)
        if theirs is not None:
            compared += 1
            assert (exact(call) == theirs).all(), describe(call)
    assert compared >= 35
