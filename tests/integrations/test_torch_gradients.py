"""Gradients of operators: against differences of the interpreter, against PyTorch's own, in f64, and where one lacks."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import opwright_kernels as ok
import pytest
from opwright.gradients import gradient_text
from opwright.language.model import Op
from opwright.load import load, load_texts
from opwright.oracle.run_steps import compute_steps
from opwright.oracle.slopes import doubled
from support.draws import FULL, rng
from support.package import package
from support.specs import FOLDER

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from opwright_kernels.torch._gradients import gradients  # noqa: E402
from support.torch_calls import legal  # noqa: E402

OPS = load(FOLDER, FOLDER.parents[1]).ops
KNOWN = gradients([known[name] for known in (ok._OPERATIONS, ok._GRADIENTS) for name in known])
SHORT = ("exp",)  # of the derived gradients, which take long to compile
STEPPED = [
    op
    for op in OPS
    if op.stepped and KNOWN[op.function] and not any(tensor.joined for tensor in op.inputs)
    if FULL or op.function in SHORT or f"{op.function}_backward" not in ok._GRADIENTS
]
# Inputs of f32 in which no operation computes a gradient: of derivative 0, of whole numbers, or stated by an attribute.
WITHOUT = {
    "attention": {"mask"},
    "batch_norm_forward_training": {"mean", "variance"},
    "dropout": {"src", "seed", "offset", "probability"},
    "dequantize": {"src"},
    "dynamic_dequantize": {"src", "scales", "zps"},
    "dynamic_quantize": {"src", "scales", "zps"},
    "gen_index": {"src"},
    "greater_equal": {"src_0", "src_1"},
    "quantize": {"src"},
    "round_to_even": {"src"},
    "select": {"cond"},
    "static_transpose": {"src"},
}
COMPARED = 8 if FULL else 2
STEP = 1e-6


@pytest.fixture(scope="module", autouse=True)
def operators(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    import opwright_kernels.torch

    yield getattr(torch.ops, opwright_kernels.torch.NAMESPACE)


def slope(
    op: Op, arrays: Mapping[str, Any], along: Mapping[str, Any], seeds: Mapping[str, Any], attributes: Any
) -> float:
    """How fast the seeded sum of the outputs grows along a direction, by differences in f64."""
    sums = []
    for sign in (1, -1):
        moved = {n: np.asarray(a + sign * STEP * along[n]) if n in along else a for n, a in arrays.items()}
        made = compute_steps(doubled(op), [moved.get(tensor.name) for tensor in op.inputs], attributes)
        sums.append(sum(float((seeds[name] * made[name]).sum()) for name in seeds))
    return (sums[0] - sums[1]) / (2 * STEP)


@pytest.mark.parametrize("op", STEPPED, ids=lambda op: op.function)
def test_the_gradient_of_an_operator_is_what_differences_of_the_interpreter_say(op: Op, operators: Any) -> None:
    random, compared = rng("gradient", op.op), 0
    operator = getattr(operators, op.function)
    dtype_attributes = {a.name for a in op.attributes if a.dtype_of}
    for inputs, attributes in legal(op, random, 60):
        keywords = {name: value for name, value in attributes.items() if name not in dtype_attributes}
        arrays = {
            tensor.name: np.asarray(np.abs(random.normal(size=array.shape)) + 0.3)
            if array.dtype == np.float32
            else array
            for tensor, array in zip(op.inputs, inputs, strict=True)
            if array is not None
        }
        tensors = {
            name: torch.tensor(array, dtype=torch.float32 if array.dtype.kind == "f" else None)
            for name, array in arrays.items()
        }
        asked = [name for name in KNOWN[op.function] if name in tensors and tensors[name].numel()]
        for name in asked:
            tensors[name].requires_grad_()
        try:
            found = operator(*(tensors.get(tensor.name) for tensor in op.inputs), **keywords)
        except ok.SpecError as error:  # a call without an output from which the gradient is computed
            assert error.rule.endswith("-gradient")
            continue
        results = dict(zip((t.name for t in op.outputs), found if isinstance(found, tuple) else (found,), strict=True))
        seeds = {name: random.normal(size=tuple(one.shape)) for name, one in results.items() if one.requires_grad}
        if not asked or not all(torch.isfinite(one).all() for one in results.values()):
            continue
        total = sum((results[name] * torch.tensor(seed, dtype=torch.float32)).sum() for name, seed in seeds.items())
        grads = torch.autograd.grad(total, [tensors[name] for name in asked])
        along = {name: random.normal(size=arrays[name].shape) for name in asked}
        ours = sum(float((grad.double().numpy() * along[name]).sum()) for name, grad in zip(asked, grads, strict=True))
        scale = 1 + sum(
            float(np.abs(grad.numpy() * along[name]).sum()) for name, grad in zip(asked, grads, strict=True)
        )
        assert abs(ours - slope(op, arrays, along, seeds, keywords)) <= 2e-4 * scale
        compared += 1
        if compared == COMPARED:
            return
    assert compared


CALLS = {
    "convolution": (torch.nn.functional.conv2d, (2, 4, 7, 6), (6, 2, 3, 2), "OIX", {}),
    "conv_transpose": (
        torch.nn.functional.conv_transpose2d,
        (2, 4, 5, 4),
        (4, 3, 3, 2),
        "IOX",
        {"output_padding": [1, 0]},
    ),
}


@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last], ids=["rows", "channels_last"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("name", CALLS)
def test_convolutions_have_the_gradients_of_pytorch(operators: Any, name: str, dtype: Any, memory: Any) -> None:
    theirs, src, weights, order, more = CALLS[name]
    torch.manual_seed(7)
    channels = 6
    made = [torch.randn(src).to(memory_format=memory), torch.randn(weights), torch.randn(channels)]
    given = [one.to(dtype).requires_grad_() for one in made]
    again = [one.detach().float().requires_grad_() for one in given]
    steps = {"strides": [2, 1], "pads_begin": [1, 0], "pads_end": [1, 0], "dilations": [1, 2]}
    found = getattr(operators, name)(*given, **steps, groups=2, data_format="NCX", weights_format=order, **more)
    wanted = theirs(*again, stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2, **more)
    seed = torch.randn(wanted.shape)
    found.backward(seed.to(dtype))
    wanted.backward(seed.to(dtype).float())
    assert found.is_contiguous(memory_format=memory)
    near = 1e-4 if dtype is torch.float32 else 4e-2
    for one, other in [(found, wanted), *((a.grad, b.grad) for a, b in zip(given, again, strict=True))]:
        torch.testing.assert_close(one.float(), other, rtol=near, atol=near * float(other.detach().abs().max()))


def test_a_call_that_asks_for_a_gradient_that_is_missing_names_it(operators: Any) -> None:
    with pytest.raises(ok.SpecError) as caught:
        operators.round_to_even(torch.ones(3, requires_grad=True))
    assert (caught.value.rule, caught.value.argument) == ("src-gradient", "src")
    assert "no operation of this package computes the gradient of Round in src, or in any other input" in str(
        caught.value
    )


def test_only_these_inputs_have_no_gradient() -> None:
    forward = [op for op in OPS if not op.function.endswith(("_backward", "_backward_data", "_backward_weights"))]
    lacking = {
        op.function: {t.name for t in op.data_inputs}
        - set(KNOWN[op.function])
        - set(ok._operation_of(op.function).added)
        for op in forward
    }
    assert {name: inputs for name, inputs in lacking.items() if inputs} == WITHOUT


@pytest.mark.parametrize("dtypes", [("float16", "float16"), ("float32", "bfloat16")], ids=str)
def test_data_types_that_no_row_of_a_gradient_has_are_computed_in_f32(operators: Any, dtypes: tuple[str, str]) -> None:
    torch.manual_seed(4)
    left, right = (
        torch.randn(shape).to(getattr(torch, dtype)).requires_grad_()
        for shape, dtype in zip(((3, 4), (4,)), dtypes, strict=True)
    )
    ours = torch.autograd.grad(operators.add(left, right).float().sum(), (left, right))
    theirs = torch.autograd.grad((left + right).float().sum(), (left, right))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("name", CALLS)
def test_gradients_of_gradients_of_convolutions_are_those_of_pytorch(operators: Any, name: str) -> None:
    theirs, src, weights, order, more = CALLS[name]
    torch.manual_seed(8)
    given = [torch.randn(shape, requires_grad=True) for shape in (src, weights)]
    steps = {"strides": [2, 1], "pads_begin": [1, 0], "pads_end": [1, 0], "dilations": [1, 2]}
    found = getattr(operators, name)(*given, **steps, groups=2, data_format="NCX", weights_format=order, **more)
    wanted = theirs(*given, stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2, **more)
    seed, along = torch.randn(wanted.shape, requires_grad=True), [torch.randn(one.shape) for one in given]
    results = []
    for made in (found, wanted):
        first = torch.autograd.grad(made, given, seed, create_graph=True)
        total = sum((one * one * direction).sum() for one, direction in zip(first, along, strict=True))
        results.append(torch.autograd.grad(total, [*given, seed]))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4 * float(other.abs().max()))


def test_a_call_without_an_output_that_its_gradient_needs_says_which(operators: Any) -> None:
    src = torch.randn(2, 3, requires_grad=True)
    with pytest.raises(ok.SpecError, match="without the output mean"):
        operators.layer_norm(src, keep_stats=False)


def test_outputs_on_which_no_gradient_depends_are_not_differentiable(operators: Any) -> None:
    dst, mean, variance = operators.layer_norm(torch.randn(2, 3, requires_grad=True))
    assert [one.requires_grad for one in (dst, mean, variance)] == [True, False, False]
    assert not operators.greater_equal(torch.ones(2, requires_grad=True), torch.ones(2)).requires_grad


def test_autocast_computes_products_in_the_lower_type_and_mixed_types_in_f32(operators: Any) -> None:
    dtype = torch.bfloat16
    a, b = torch.randn(4, 5), torch.randn(5, 3)
    with torch.autocast("cpu", dtype=dtype):
        product = operators.mat_mul(a, b)
        total = operators.add(product, torch.ones(3))
        mean, *_ = operators.layer_norm(product, torch.ones(3), torch.ones(3))
    assert (product.dtype, total.dtype, mean.dtype) == (dtype, torch.float32, dtype)
    torch.testing.assert_close(product.float(), a @ b, rtol=3e-2, atol=3e-2)


SHARES = """
op: Shares
revision: 1
summary: Shares of exponentials.
dims: {rows: M, columns: N}
inputs:
  - {name: src, dims: {M: M, N: N}}
outputs:
  - {name: dst, dims: {M: M, N: N}}
dtypes:
  - {src: f64, dst: f64, accumulate: f64}
semantics:
  ranges: {m: M, n: N}
  steps:
    - peak[m] max= src[m, n]
    - total[m] += exp(src[m, n] - peak[m])
    - dst[m, n] = exp(src[m, n] - peak[m]) / total[m]
relations:
  - {gradient: SharesBackward, of: src, with: {dst: dst, diff_dst: dst, diff_src: src}}
---
op: SharesBackward
revision: 1
summary: The gradient of shares of exponentials.
dims: {rows: M, columns: N}
inputs:
  - {name: diff_dst, dims: {M: M, N: N}}
  - {name: dst, dims: {M: M, N: N}}
outputs:
  - {name: diff_src, dims: {M: M, N: N}}
dtypes:
  - {diff_dst: f64, dst: f64, diff_src: f64, accumulate: f64}
semantics:
  ranges: {m: M, n: N}
  steps:
    - total[m] += diff_dst[m, n] * dst[m, n]
    - diff_src[m, n] = (diff_dst[m, n] - total[m]) * dst[m, n]
"""


def doubles() -> dict[str, str]:
    """A product of f64, and shares of exponentials with a gradient that reads them, with derived gradients of both."""
    product = """
op: Product
revision: 1
summary: A product of matrices.
dims: {rows: M, columns: N, depth: K}
inputs:
  - {name: left, dims: {M: M, K: K}, summary: The left factor.}
  - {name: right, dims: {K: K, N: N}, summary: The right factor.}
outputs:
  - {name: dst, dims: {M: M, N: N}, summary: The product.}
dtypes:
  - {left: f64, right: f64, dst: f64, accumulate: f64}
semantics:
  ranges: {m: M, n: N, k: K}
  steps:
    - dst[m, n] += left[m, k] * right[k, n]
"""
    (op,) = load_texts({"product.yaml": product}).ops
    gradient, backward = gradient_text(op)
    (made,) = load_texts(
        {f"{backward.function}.yaml": gradient.replace("relations:\n  - {gradient_of: Product}\n", "")}
    ).ops
    second, twice = gradient_text(made)
    shares = dict(zip(("shares.yaml", "shares_backward.yaml"), SHARES.split("---\n"), strict=True))
    of_shares, again = gradient_text(next(op for op in load_texts(shares).ops if op.op == "SharesBackward"))
    texts = {"product.yaml": product, f"{backward.function}.yaml": gradient, f"{twice.function}.yaml": second}
    return {**texts, **shares, f"{again.function}.yaml": of_shares}


# Operations whose gradients are derived: a call of each, and PyTorch's.
DERIVED = {
    "add": (lambda call, a, b: call.add(a, b), lambda a, b: a + b, [(3, 4), (4,)]),
    "concat": (lambda call, a, b: call.concat([a, b], axis=1), lambda a, b: torch.cat([a, b], 1), [(3, 4), (3, 2)]),
    "mat_mul": (lambda call, a, b, c: call.mat_mul(a, b, c), lambda a, b, c: a @ b + c, [(2, 3, 4), (4, 5), (5,)]),
    "reduce_mean": (lambda call, a: call.reduce_mean(a, axes=[0, 2]), lambda a: a.mean((0, 2)), [(3, 4, 2)]),
    "bias_add": (lambda call, a, b: call.bias_add(a, b), lambda a, b: a + b, [(2, 3, 4), (4,)]),
}


@pytest.mark.parametrize("name", DERIVED)
def test_derived_gradients_are_those_of_pytorch(operators: Any, name: str) -> None:
    ours, theirs, shapes = DERIVED[name]
    torch.manual_seed(3)
    given = [torch.randn(shape, requires_grad=True) for shape in shapes]
    found, wanted = ours(operators, *given), theirs(*given)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    seed = torch.randn(wanted.shape)
    pairs = zip(torch.autograd.grad(found, given, seed), torch.autograd.grad(wanted, given, seed), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_a_package_of_ones_own_specs_has_gradients_in_f64_and_a_namespace_of_its_own(tmp_path: Path) -> None:
    _, module = package(doubles(), tmp_path, "double_kernels")
    integration = importlib.import_module("double_kernels.torch")
    assert (integration.NAMESPACE, module.__name__) == ("double", "double_kernels")
    left, right = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 4), (4, 2)))
    assert torch.autograd.gradcheck(torch.ops.double.product, (left, right))
    assert torch.autograd.gradgradcheck(torch.ops.double.product, (left, right))
    assert torch.autograd.gradgradcheck(torch.ops.double.shares, (left,))
    assert hasattr(torch.ops.opwright, "convolution")


def test_a_second_package_of_one_namespace_is_refused_by_name(tmp_path: Path) -> None:
    texts = {"product.yaml": doubles()["product.yaml"]}
    for name in ("twin_kernels", "twin"):
        package(texts, tmp_path, name)
    importlib.import_module("twin_kernels.torch")
    with pytest.raises(ImportError, match=r"the namespace torch\.ops\.twin has an owner already"):
        importlib.import_module("twin.torch")


@pytest.mark.parametrize("name", ["conv_transpose_backward_weights", "conv_transpose_backward_data"])
def test_a_gradient_of_another_shape_than_its_input_is_refused_with_the_attribute_to_state(
    operators: Any, name: str
) -> None:
    """Each time: the glue does not note it. Where it is stated, the gradient has the shape of its input."""
    steps = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    steps |= {"data_format": "NCX", "weights_format": "IOX"}
    shape = {"weights_shape": [2, 3, 3, 3]} if name.endswith("weights") else {}
    other = torch.randn(1, 2, 5, 5) if shape else torch.randn(2, 3, 3, 3)
    for stated in ({}, {}, {}, {"output_padding": [1, 1]}):
        seen = torch.randn(1, 3, 12, 12, requires_grad=True)
        found = getattr(operators, name)(*((other, seen) if shape else (seen, other)), **steps, **shape, **stated)
        if stated:
            found.sum().backward()
            assert seen.grad is not None
            assert not seen.grad[..., 11].any()
        else:
            with pytest.raises(ok.SpecError, match=r"shape \[1, 3, 11, 11\].*or a stated output_padding") as refused:
                found.sum().backward()
            assert refused.value.rule == "diff_dst-gradient"
