"""Operators in graphs that PyTorch traces, with sizes that are symbols, and calls that operators refuse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import opwright_kernels as ok
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

STEPS = {"strides": [2, 2], "pads_begin": [1, 1], "pads_end": [1, 1]}
LAYOUT = {"data_format": "NCX"}


@pytest.fixture(scope="module", autouse=True)
def operators(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    import opwright_kernels.torch

    yield getattr(torch.ops, opwright_kernels.torch.NAMESPACE)


class Net(torch.nn.Module):
    """A convolution, a pool, and a norm of what is left."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.weights = torch.nn.Parameter(torch.randn(6, 3, 3, 3))
        self.bias = torch.nn.Parameter(torch.randn(6))

    def forward(self, src: Any) -> Any:
        call = torch.ops.opwright
        made = call.convolution(src, self.weights, self.bias, dilations=[1, 1], weights_format="OIX", **STEPS, **LAYOUT)
        pooled = call.max_pool(call.relu(made), kernel=[3, 3], **STEPS, **LAYOUT)
        dst, _, _ = call.layer_norm(pooled.flatten(2))
        return call.soft_max(dst, axis=-1)[0]


def reference(net: Net, src: Any) -> Any:
    functional = torch.nn.functional
    made = functional.relu(functional.conv2d(src, net.weights, net.bias, stride=2, padding=1))
    pooled = functional.max_pool2d(made, 3, 2, 1).flatten(2)
    return torch.softmax(functional.layer_norm(pooled, pooled.shape[-1:]), -1)


def test_a_compiled_graph_has_no_breaks_and_serves_other_sizes_without_being_traced_again() -> None:
    traced = []

    def backend(graph: Any, inputs: Any) -> Any:
        traced.append(graph)
        return torch._dynamo.backends.registry.lookup_backend("aot_eager")(graph, inputs)

    net = Net()
    compiled = torch.compile(net, fullgraph=True, dynamic=True, backend=backend)
    for batch, height, width in ((2, 17, 12), (3, 21, 14), (5, 33, 19)):
        src = torch.randn(batch, 3, height, width)
        found, wanted = compiled(src), reference(net, src)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        seed = torch.randn_like(wanted)
        ours = torch.autograd.grad((found * seed).sum(), [net.weights, net.bias])
        theirs = torch.autograd.grad((wanted * seed).sum(), [net.weights, net.bias])
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
    assert len(traced) == 1


def test_an_exported_program_holds_the_operators_and_keeps_sizes_open() -> None:
    batch, height, width = (torch.export.Dim(name, min=8, max=64) for name in ("batch", "height", "width"))
    net = Net()
    program = torch.export.export(net, (torch.randn(9, 3, 18, 20),), dynamic_shapes=({0: batch, 2: height, 3: width},))
    called = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert {
        f"opwright.{name}.default" for name in ("convolution", "relu", "max_pool", "layer_norm", "soft_max")
    } <= called
    src = torch.randn(11, 3, 31, 26)
    torch.testing.assert_close(program.module()(src), reference(net, src), rtol=1e-4, atol=1e-5)


def test_a_graph_refuses_what_a_call_refuses() -> None:
    compiled = torch.compile(lambda a, b: torch.ops.opwright.add(a, b), fullgraph=True, backend="eager")
    with pytest.raises(Exception, match="rule src_1-shape"):
        compiled(torch.ones(2, 3), torch.ones(2, 4))


# Calls that are refused: the rule, the argument, and the call.
SPARSE = torch.ones(2, 2).to_sparse()
QUANTISED = torch._empty_affine_quantized([2, 2], scale=0.1, zero_point=0, dtype=torch.qint8)
NESTED = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
FREED = torch.ones(3, 2)
FREED_VIEW = FREED[1:]
FREED.untyped_storage().resize_(0)
LAST = torch.ones(1, 3, 5, 5).to(memory_format=torch.channels_last)
REFUSED = {
    "a sparse tensor": ("src-device", "src", lambda call: call.relu(SPARSE)),
    "a nested tensor": ("src-device", "src", lambda call: call.relu(NESTED)),
    "a nested tensor as second input": ("src_1-device", "src_1", lambda call: call.add(torch.ones(2), NESTED)),
    "a tensor whose memory is freed": ("src-memory", "src", lambda call: call.relu(FREED)),
    "a view of memory that is freed": ("src-memory", "src", lambda call: call.relu(FREED_VIEW)),
    "a gradient under torch.func": (
        "src-transform",
        "src",
        lambda call: torch.func.grad(lambda src: call.relu(src).sum())(torch.ones(2)),
    ),
    "tensors of two devices": ("device", "src_0", lambda call: call.add(torch.ones(2), torch.ones(2, device="meta"))),
    "a data type without a row": ("dtypes", "src", lambda call: call.relu(torch.ones(2, dtype=torch.float64))),
    "a complex tensor": ("dtypes", "src", lambda call: call.relu(torch.ones(2, dtype=torch.complex64))),
    "mixed data types": ("dtypes", "weights", lambda call: call.mat_mul(torch.ones(2, 2), torch.ones(2, 2).half())),
    "shapes that do not fit": ("src_1-shape", "src_1", lambda call: call.add(torch.ones(2, 3), torch.ones(2, 4))),
    "a quantised tensor": ("src-device", "src", lambda call: call.relu(QUANTISED)),
    "a memory format of other axes": (
        "weights-shape",
        "weights",
        lambda call: call.convolution(
            LAST, torch.ones(4, 3, 2, 2), dilations=[1, 1], data_format="NXC", weights_format="OIX", **STEPS
        ),
    ),
    "a tangent of forward mode": (
        "src-tangent",
        "src",
        lambda call: torch.func.jvp(call.relu, (torch.ones(2),), (torch.ones(2),)),
    ),
    "a gradient that is missing": (
        "src-gradient",
        "src",
        lambda call: call.static_transpose(torch.ones(2, 2, requires_grad=True), order=[1, 0]),
    ),
    "no tensor at all": ("src-kind", "src", lambda call: call.concat([], axis=0)),
    "data of no tensor": ("dtypes", "src", lambda call: call.relu(torch.ones(2, dtype=torch.float64, device="meta"))),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_call_that_is_refused_names_the_rule_and_the_argument(operators: Any, name: str) -> None:
    rule, argument, call = REFUSED[name]
    with pytest.raises(ok.SpecError) as caught:
        call(operators)
    assert (caught.value.rule, caught.value.argument) == (rule, argument)


def test_memory_of_every_kind_is_read_as_it_is(operators: Any) -> None:
    whole = torch.randn(4, 6, 5)
    for src in (
        whole.transpose(0, 2),
        whole[:, ::2],
        whole[1:, :, 1].T,
        torch.view_as_real(torch.randn(3, 2, dtype=torch.complex64)),
        whole.expand(2, 4, 6, 5),
        torch._neg_view(whole),
    ):
        torch.testing.assert_close(operators.relu(src), torch.relu(src))
        torch.testing.assert_close(operators.reduce_sum(src, axes=[0]), src.sum(0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_channels_last_goes_in_and_comes_out_without_copies(operators: Any, dtype: Any) -> None:
    src = torch.randn(2, 8, 6, 5).to(dtype).to(memory_format=torch.channels_last)
    weights = torch.randn(8, 8, 3, 3).to(dtype)
    made = operators.convolution(src, weights, dilations=[1, 1], weights_format="OIX", **STEPS, **LAYOUT)
    assert made.is_contiguous(memory_format=torch.channels_last)
    assert operators.relu(made).stride() == made.stride()
    wanted = torch.nn.functional.conv2d(src.float(), weights.float(), stride=2, padding=1)
    torch.testing.assert_close(made.float(), wanted, rtol=2e-2, atol=2e-1 if dtype is torch.bfloat16 else 1e-3)


def test_the_code_of_the_page_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "TORCH.md").read_text(encoding="utf-8")
    found = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    assert len(found) >= 2
    for code in found:
        exec(code, {})
