"""Shipped operations of steps against PyTorch: values at the edges of f32 too, and gradients against its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import opwright_kernels as ok
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
F = torch.nn.functional
RANDOM = np.random.default_rng(3)
EDGES = np.array([0.0, -0.0, 0.5, -0.5, 1.5, 2.5, 3, -3, 20, -20, 90, -90, 3e4, -3e4, np.nan], np.float32)
Torch = Callable[..., Any]


@pytest.fixture(scope="module", autouse=True)
def _quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    yield


def real(*shape: int) -> Any:
    return RANDOM.normal(size=shape).astype(np.float32)


def near(found: Any, expected: Any, precision: float = 2e-5) -> None:
    found, expected = np.asarray(found, np.float64), expected.detach().double().numpy()
    assert found.shape == expected.shape
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=1)
    np.testing.assert_allclose(found, expected, rtol=precision, atol=precision * min(scale, 10), equal_nan=True)


def tensors(*arrays: Any) -> list[Any]:
    return [torch.from_numpy(np.array(array)) for array in arrays]


# The function, its attributes, and what PyTorch calls it.
UNARY: tuple[tuple[str, dict[str, Any], Torch], ...] = (
    ("absolute", {}, torch.abs), ("exp", {}, torch.exp), ("log", {}, torch.log), ("sqrt", {}, torch.sqrt),
    ("square", {}, torch.square), ("reciprocal", {}, torch.reciprocal), ("round_to_even", {}, torch.round),
    ("sigmoid", {}, torch.sigmoid), ("tanh", {}, torch.tanh), ("hard_swish", {}, F.hardswish), ("mish", {}, F.mish),
    ("hard_sigmoid", {"alpha": 1 / 6, "beta": 0.5}, F.hardsigmoid),
    ("soft_plus", {"beta": 2.0}, partial(F.softplus, beta=2.0)),
    ("elu", {"alpha": 1.5}, partial(F.elu, alpha=1.5)),
    ("leaky_relu", {"alpha": 0.1}, partial(F.leaky_relu, negative_slope=0.1)), ("relu", {}, torch.relu),
    ("power", {"beta": 3.0}, partial(torch.pow, exponent=3.0)),
    ("clamp", {"least": -1.0, "greatest": 2.0}, partial(torch.clamp, min=-1.0, max=2.0)),
    ("gelu", {"mode": "gelu_erf"}, F.gelu), ("gelu", {"mode": "gelu_tanh"}, partial(F.gelu, approximate="tanh")),
)  # fmt: skip
# Where the two are 0 and NaN by ruling, or infinities meet in formulas that differ.
FINITE = ("soft_plus", "power", "gelu", "mish", "square")


@pytest.mark.parametrize(("name", "given", "peer"), UNARY, ids=lambda part: part if isinstance(part, str) else "")
def test_a_function_of_cells_is_that_of_pytorch_at_the_edges_too(name: str, given: dict[str, Any], peer: Torch) -> None:
    src = np.concatenate([EDGES, real(300) * 3])
    src = src[np.isfinite(src) & (np.abs(src) < 100)] if name in FINITE else src
    near(getattr(ok, name)(src, **given), peer(*tensors(src)))


# The gradient's function and attributes, the forward one, and whether it may be computed from dst.
BACKWARD: tuple[tuple[str, dict[str, Any], Torch, bool], ...] = (
    ("abs_backward", {}, torch.abs, False), ("relu_backward", {}, torch.relu, True),
    ("sigmoid_backward", {}, torch.sigmoid, True), ("tanh_backward", {}, torch.tanh, True),
    ("sqrt_backward", {}, lambda x: torch.sqrt(torch.abs(x)) * torch.sign(x), True),
    ("elu_backward", {"alpha": 1.5}, partial(F.elu, alpha=1.5), True),
    ("clamp_backward", {"least": -1.0, "greatest": 2.0}, partial(torch.clamp, min=-1.0, max=2.0), True),
    ("hard_sigmoid_backward", {"alpha": 1 / 6, "beta": 0.5}, F.hardsigmoid, False),
    ("hard_swish_backward", {}, F.hardswish, False), ("mish_backward", {}, F.mish, False),
    ("soft_plus_backward", {"beta": 2.0}, partial(F.softplus, beta=2.0), False),
    ("gelu_backward", {"mode": "gelu_erf"}, F.gelu, False),
    ("gelu_backward", {"mode": "gelu_tanh"}, partial(F.gelu, approximate="tanh"), False),
)  # fmt: skip


def gradients(peer: Torch, diff: Any, *inputs: Any) -> tuple[Any, ...]:
    """What PyTorch makes of the gradient of its result, for every input."""
    given = [tensor.requires_grad_() for tensor in tensors(*inputs)]
    found: tuple[Any, ...] = torch.autograd.grad(peer(*given), given, *tensors(diff))
    return found


@pytest.mark.parametrize(("name", "given", "peer", "of_dst"), BACKWARD, ids=lambda p: p if isinstance(p, str) else "")
def test_a_gradient_of_cells_is_that_of_pytorch(name: str, given: dict[str, Any], peer: Torch, of_dst: bool) -> None:
    src, diff = np.concatenate([real(200) * 2, [30, -30, 8, -8]]).astype(np.float32), real(204)
    src = np.abs(src) if name.startswith("sqrt") else src
    (expected,) = gradients(peer, diff, src)
    run = getattr(ok, name)
    near(run(src, diff, **given, **({"use_dst": False} if of_dst else {})), expected)
    if of_dst:
        dst = peer(*tensors(src)).numpy()
        near(run(dst, diff, **given), expected, 2e-4)


def test_sums_and_other_functions_of_two_arrays_are_those_of_pytorch() -> None:
    a, b = real(3, 1, 5), real(4, 5)
    for name, peer in (
        ("add", torch.add), ("subtract", torch.sub), ("multiply", torch.mul), ("divide", torch.div),
        ("maximum", torch.maximum), ("minimum", torch.minimum), ("squared_difference", lambda x, y: (x - y) ** 2),
        ("greater_equal", torch.ge),
    ):  # fmt: skip
        near(getattr(ok, name)(a, b), peer(*tensors(a, b)))
    nan = np.array([np.nan, 1], np.float32)
    assert np.isnan(ok.maximum(nan, nan[::-1])).all()
    near(ok.select(a > 0, a, b), torch.where(torch.from_numpy(a > 0), *tensors(a, b)))
    half = ok.type_cast(a, dtype="f16")
    assert (half == a.astype(np.float16)).all()
    near(ok.bias_add(a, b[0]), torch.add(*tensors(a, b[0])))
    near(ok.bias_add_backward(a), torch.from_numpy(a).sum((0, 1)))


def test_rows_that_add_up_to_1_are_those_of_pytorch() -> None:
    src, diff = real(3, 7, 4) * 20, real(3, 7, 4)
    for axis in (0, 1, -1):
        for name, peer in (("soft_max", F.softmax), ("log_softmax", F.log_softmax)):
            dst = getattr(ok, name)(src, axis=axis)
            near(dst, peer(*tensors(src), dim=axis))
            (expected,) = gradients(partial(peer, dim=axis), diff, src)
            near(getattr(ok, f"{name}_backward")(diff, dst, axis=axis), expected)
    hidden = np.full((2, 3), -np.inf, np.float32)
    assert np.isnan(ok.soft_max(hidden)).all()
    assert (ok.soft_max(hidden, mode="inf_as_zero") == 0).all()
    _, stats = ok.soft_max(src, keep_stats=True)
    near(stats, torch.logsumexp(*tensors(src), dim=1, keepdim=True))


def test_normalised_arrays_and_their_gradients_are_those_of_pytorch() -> None:
    src, gamma, beta, diff = real(4, 3, 6), real(6), real(6), real(4, 3, 6)
    dst, mean, variance = ok.layer_norm(src, gamma, beta)
    near(dst, F.layer_norm(torch.from_numpy(src), (6,), *tensors(gamma, beta)))
    found = ok.layer_norm_backward(src, diff, mean, variance, gamma, beta)
    for ours, theirs in zip(found, gradients(lambda x, g, b: F.layer_norm(x, (6,), g, b), diff, src, gamma, beta)):
        near(ours, theirs, 1e-4)
    near(ok.rms_norm(src, gamma), F.rms_norm(torch.from_numpy(src), (6,), torch.from_numpy(gamma), eps=1e-5))
    near(ok.group_norm(src, gamma, beta, groups=2)[0].transpose(0, 2, 1),
         F.group_norm(torch.from_numpy(src.transpose(0, 2, 1).copy()), 2, *tensors(gamma, beta)))  # fmt: skip
    ncx = {"data_format": "NCX", "epsilon": 1e-5}
    scale, shift = real(3), real(3)
    ran = ok.batch_norm_forward_training(src, real(3), np.abs(real(3)), scale, shift, **ncx)
    normed = partial(F.batch_norm, running_mean=None, running_var=None, training=True)
    near(ran[0], normed(torch.from_numpy(src), weight=torch.from_numpy(scale), bias=torch.from_numpy(shift)))
    near(ok.batch_norm_inference(src, scale, shift, ran[3], ran[4], **ncx), torch.from_numpy(ran[0]))
    found = ok.batch_norm_training_backward(src, diff, ran[3], ran[4], scale, **ncx)
    expected = gradients(lambda x, g, b: normed(x, weight=g, bias=b), diff, src, scale, shift)
    for ours, theirs in zip(found, expected, strict=True):
        near(ours, theirs, 1e-4)


def test_reductions_are_those_of_pytorch() -> None:
    src = real(3, 4, 5)
    for axes in ((1,), (0, 2), (-1, 0, 1)):
        for name, peer in (
            ("reduce_sum", torch.sum), ("reduce_mean", torch.mean), ("reduce_max", torch.amax),
            ("reduce_min", torch.amin), ("reduce_l1", partial(torch.linalg.vector_norm, ord=1)),
            ("reduce_l2", torch.linalg.vector_norm),
        ):  # fmt: skip
            for keep in (False, True):
                near(getattr(ok, name)(src, axes=axes, keep_dims=keep), peer(*tensors(src), dim=axes, keepdim=keep))
    near(ok.reduce_prod(src, axes=[1]), torch.prod(*tensors(src), dim=1))
    assert (ok.reduce_sum(src) == src).all()


def test_products_of_matrices_are_those_of_pytorch() -> None:
    a, b, bias = real(2, 1, 5, 7), real(3, 7, 4), real(4)
    near(ok.mat_mul(a, b, bias), torch.matmul(*tensors(a, b)) + torch.from_numpy(bias))
    near(
        ok.mat_mul(a.swapaxes(2, 3), b.swapaxes(1, 2), transpose_a=True, transpose_b=True), torch.matmul(*tensors(a, b))
    )
    for one, other in ((a[0, 0, 0], b[0, :, 0]), (a, b[0, :, 0]), (a[0, 0, 0], b)):
        near(ok.mat_mul(one, other), torch.matmul(*tensors(one, other)))


def test_pools_and_their_gradient_are_those_of_pytorch() -> None:
    src = real(2, 3, 9, 8)
    lists = {"kernel": [3, 2], "strides": [2, 3], "pads_begin": [1, 0], "pads_end": [1, 0], "data_format": "NCX"}
    windows = {"kernel_size": (3, 2), "stride": (2, 3), "padding": (1, 0)}
    dst = ok.max_pool(src, **lists)
    near(dst, F.max_pool2d(*tensors(src), **windows))
    near(ok.max_pool(src, **lists, rounding_type="ceil"), F.max_pool2d(*tensors(src), **windows, ceil_mode=True))
    for exclude in (True, False):
        expected = F.avg_pool2d(*tensors(src), **windows, count_include_pad=not exclude)
        near(ok.avg_pool(src, **lists, exclude_pad=exclude), expected)
    diff = real(*dst.shape)
    (expected,) = gradients(lambda x: F.max_pool2d(x, **windows), diff, np.round(src))
    near(ok.max_pool_backward(np.round(src), diff, **lists), expected)


def test_stretched_arrays_and_their_gradient_are_those_of_pytorch() -> None:
    src, diff = real(2, 3, 5, 4), real(2, 3, 7, 9)
    for mode, peer, corners in (
        ("nearest", "nearest-exact", False), ("bilinear", "bilinear", False), ("bilinear", "bilinear", True),
    ):  # fmt: skip
        other = {"align_corners": corners} if mode == "bilinear" else {}
        stretched = partial(F.interpolate, size=(7, 9), mode=peer, **other)
        given = {"mode": mode, "extents": [7, 9], "data_format": "NCX"}
        given["coordinate_transformation_mode"] = "align_corners" if corners else "half_pixel"
        near(ok.interpolate(src, **given), stretched(*tensors(src)))
        near(ok.interpolate_backward(src, diff, **given), gradients(stretched, diff, src)[0])


def test_slopes_per_channel_and_their_gradients_are_those_of_pytorch() -> None:
    src, slope, diff = real(2, 3, 5), real(3), real(2, 3, 5)
    near(ok.prelu(src, slope[None, :, None], data_format="NCX"), F.prelu(*tensors(src, slope)))
    found = ok.prelu_backward(src, slope[None, :, None], diff, data_format="NCX")
    expected = gradients(F.prelu, diff, src, slope)
    near(found[0], expected[0])
    near(found[1].ravel(), expected[1])


def test_cells_that_only_move_are_those_of_pytorch() -> None:
    src = real(2, 3, 4)
    assert (ok.concat([src, src[:, :1]], axis=1) == np.concatenate([src, src[:, :1]], 1)).all()
    assert (ok.static_transpose(src, order=[2, 0, -2]) == src.transpose(2, 0, 1)).all()
    assert (ok.static_reshape(src, shape=[0, -1], special_zero=True) == src.reshape(2, -1)).all()
    assert (ok.reorder(src) == src).all()


def test_quantised_numbers_are_those_of_pytorch() -> None:
    src, scales, zps = real(2, 3, 4) * 50, [0.5, 0.25, 2.0], [3, 100, -7]
    quantised = ok.quantize(src, qtype="per_channel", scales=scales, zps=zps, dtype="s8")
    expected = torch.quantize_per_channel(*tensors(src), torch.tensor(scales), torch.tensor(zps), 1, torch.qint8)
    assert (quantised == expected.int_repr().numpy()).all()
    near(ok.dequantize(quantised, qtype="per_channel", scales=scales, zps=zps), expected.dequantize())
    given = np.array(scales, np.float32), np.array(zps, np.int32)
    assert (ok.dynamic_quantize(src, *given, qtype="per_channel", dtype="s8") == quantised).all()
    near(ok.dynamic_dequantize(quantised, *given, qtype="per_channel"), expected.dequantize())
