"""Existing models on the kernels of the package: their results, what ran here and what fell back, and what is restored."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import opwright_kernels as ok
import pytest
from support.draws import FULL

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from opwright_kernels.torch._glue import GLUE  # noqa: E402
from support.torch_models import ResNet, UNet, trained, transformer  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count  # noqa: E402

functional = torch.nn.functional
ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"
# How much further from the results in f64 than those of PyTorch they may be, as a factor and as a part of a tensor's norm.
FACTOR, NEAR = 1.3, {torch.float32: 1e-3, torch.bfloat16: 2e-2}
# By model: what makes it, its input, and how often each operator runs here in a step of training.
MODELS: dict[str, tuple[Callable[[], Any], tuple[int, ...], dict[str, int]]] = {
    "resnet50": (
        lambda: ResNet() if FULL else ResNet(8, classes=10),
        (4, 3, 64, 64),
        {"convolution": 53, "convolution_backward": 53, "addmm": 1, "mm": 2},
    ),
    "unet": (
        lambda: UNet() if FULL else UNet(8, 2),
        (2, 3, 32, 32),
        {"convolution": 19, "convolution_backward": 19} if FULL else {"convolution": 13, "convolution_backward": 13},
    ),
    "transformer": (
        lambda: transformer() if FULL else transformer(64),
        (3, 24, 256) if FULL else (3, 12, 64),
        {"addmm": 9, "mm": 18, "gelu": 2, "gelu_backward": 2, ATTENTION: 2, f"{ATTENTION}_backward": 2},
    ),
}
MIN_SHARE = 0.95  # of the multiply-adds of a step
# What PyTorch does not count by itself: fused attention of the CPU.
COUNTED = {
    getattr(torch.ops.aten, ATTENTION): lambda *shapes, **_: sdpa_flop_count(*shapes[:3]),
    getattr(torch.ops.aten, f"{ATTENTION}_backward"): lambda *shapes, **_: sdpa_backward_flop_count(*shapes[:4]),
}


@pytest.fixture(scope="module", autouse=True)
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    import opwright_kernels.torch

    if FULL:
        yield opwright_kernels.torch
        return
    yield opwright_kernels.torch


def drawn(name: str, dtype: Any = torch.float32, memory: Any = torch.contiguous_format) -> tuple[Any, Any]:
    torch.manual_seed(5)
    model, shape, _ = MODELS[name]
    src = torch.randn(shape)
    made = model()
    if len(shape) == 4:
        made, src = made.to(memory_format=memory), src.to(memory_format=memory)
    return made.to(dtype), src.to(dtype)


def distance(one: Any, exact: Any) -> float:
    """How far a tensor is from the exact one, in parts of its norm."""
    return float((one.double() - exact).norm() / exact.norm().clamp_min(1e-6))


def agree(model: Any, src: Any, found: list[Any], theirs: list[Any]) -> None:
    """That a step of training is as near to that in f64 as PyTorch's is."""
    exact = trained(copy.deepcopy(model).double(), src.double())
    for one, other, wanted in zip(found, theirs, exact, strict=True):
        assert distance(one, wanted) <= FACTOR * distance(other, wanted) + NEAR[src.dtype]


def strides(one: Any) -> list[int]:
    """The strides of a tensor that count: axes of one cell may have any."""
    return [stride for stride, extent in zip(one.stride(), one.shape, strict=True) if extent > 1]


def ran(report: Any) -> dict[str, int]:
    assert report.back == {}
    return dict(report.here)


@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last], ids=["rows", "channels_last"])
@pytest.mark.parametrize("name", MODELS)
def test_a_step_of_training_finds_what_pytorch_finds_and_runs_here(kernels: Any, name: str, memory: Any) -> None:
    model, src = drawn(name, memory=memory)
    with FlopCounterMode(display=False, custom_mapping=COUNTED) as counted:
        wanted = trained(copy.deepcopy(model), src)
    with kernels.enabled():
        found = trained(copy.deepcopy(model), src)
    agree(model, src, found, wanted)
    assert [strides(one) for one in found] == [strides(one) for one in wanted]
    assert ran(kernels.report()) == MODELS[name][2]
    work = {str(operator).removeprefix("aten."): n for operator, n in counted.get_flop_counts()["Global"].items()}
    here = sum(n for operator, n in work.items() if operator in kernels.report().here)
    assert here >= MIN_SHARE * sum(work.values()) > 0


@pytest.mark.parametrize("name", MODELS)
def test_a_step_in_bf16_is_as_near_to_f64_as_that_of_pytorch(kernels: Any, name: str) -> None:
    model, src = drawn(name, torch.bfloat16)
    theirs = trained(copy.deepcopy(model), src)
    with kernels.enabled():
        found = trained(copy.deepcopy(model), src)
    assert ran(kernels.report()) == MODELS[name][2]
    agree(model, src, found, theirs)


@pytest.mark.parametrize("name", MODELS if FULL else ["unet", "transformer"])
def test_a_compiled_model_runs_here_too(kernels: Any, name: str) -> None:
    model, src = drawn(name)
    wanted = trained(copy.deepcopy(model), src)
    compiled = torch.compile(model, fullgraph=True, backend="inductor" if FULL else "aot_eager")
    with kernels.enabled():
        found = trained(model, src, compiled)
    model, src = drawn(name)
    torch._dynamo.reset()
    here = {operator.removesuffix(".out"): count for operator, count in ran(kernels.report()).items()}
    expected = {k: v for k, v in MODELS[name][2].items() if not FULL or k in ("convolution", "convolution_backward")}
    assert expected.items() <= here.items()
    agree(model, src, found, wanted)


def test_autocast_hands_the_lower_type_to_these_kernels(kernels: Any) -> None:
    model, src = drawn("unet")
    with torch.autocast("cpu", dtype=torch.bfloat16), kernels.enabled():
        assert model(src).dtype is torch.bfloat16
    assert ran(kernels.report()) == {"convolution": MODELS["unet"][2]["convolution"]}


def test_hooks_of_modules_run_as_ever(kernels: Any) -> None:
    seen = []
    model, src = torch.nn.Conv2d(3, 4, 3), torch.randn(1, 3, 6, 6, requires_grad=True)
    model.register_forward_pre_hook(lambda module, given: seen.append("before"))
    model.register_forward_hook(lambda module, given, found: seen.append("after"))
    model.register_full_backward_hook(lambda module, given, found: seen.append("backward"))
    with kernels.enabled():
        model(src).sum().backward()
    assert seen == ["before", "after", "backward"]
    assert ran(kernels.report()) == {"convolution": 1, "convolution_backward": 1}


def test_a_call_that_a_spec_refuses_falls_back_to_pytorch_and_the_report_says_why(kernels: Any) -> None:
    src, weights = torch.randn(1, 2, 5, dtype=torch.float64), torch.randn(3, 2, 2, dtype=torch.float64)
    with kernels.enabled(watch=True):
        found = functional.conv1d(src, weights)
        torch.addmm(torch.ones(2), torch.ones(2, 2), torch.ones(2, 2), beta=2)
        torch.cos(src)
    assert torch.equal(found, functional.conv1d(src, weights))
    report = kernels.report()
    assert report.here == {}
    assert report.back == {("convolution", "dtypes"): 1, ("addmm", "no operation stands for these arguments"): 1}
    assert report.others["cos"] == 1
    assert str(report).startswith("back to PyTorch: 1 addmm: no operation stands for these arguments, 1 convolution: ")


@pytest.mark.parametrize("bias", [False, True])
def test_calls_of_a_layer_like_one_before_do_not_run_python(kernels: Any, bias: bool) -> None:
    if not GLUE.start():
        pytest.skip(f"no compiled glue: {GLUE.state}")
    layer, src = torch.nn.Conv2d(3, 4, 3, bias=bias), torch.randn(1, 3, 6, 6)
    with kernels.enabled():
        for _ in range(3):
            layer(src).sum().backward()
        assert GLUE.hits("aten", "convolution") >= 2


def test_what_was_enabled_ends_with_the_block_also_by_an_error(kernels: Any) -> None:
    def product() -> None:
        torch.mm(torch.ones(2, 2), torch.ones(2, 2))

    def stopped() -> None:
        with kernels.enabled():
            with kernels.enabled():
                product()
            product()
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        stopped()
    product()
    assert kernels.report().here == {"mm": 2}
    assert torch.backends.mha.get_fastpath_enabled()


# Calls of each operator that a spec names. The last is one that it does not stand for, if there is such.
SQUARE = torch.arange(12.0).reshape(3, 4) / 7
HEADS = (torch.arange(360.0).reshape(3, 2, 3, 5, 4) % 7 / 7).unbind()
CALLS: dict[str, Callable[[], Any]] = {
    "convolution": lambda: functional.conv3d(torch.ones(1, 2, 3, 4, 5), torch.ones(4, 1, 2, 2, 2), groups=2, stride=2),
    "convolution_backward": lambda: torch.ops.aten.convolution_backward(
        torch.ones(1, 4, 10), torch.ones(1, 2, 5), torch.ones(2, 4, 2), [4], [2], [0], [1], True, [0], 1,
        [False, True, False],
    )[1],
    "mm": lambda: torch.mm(SQUARE, SQUARE.T),
    "mm.out": lambda: torch.mm(SQUARE, SQUARE.T, out=torch.empty(3, 3)),
    "bmm": lambda: torch.bmm(SQUARE.expand(2, 3, 4), SQUARE.T.expand(2, 4, 3)),
    "bmm.out": lambda: torch.bmm(SQUARE.expand(2, 3, 4), SQUARE.T.expand(2, 4, 3), out=torch.empty(2, 3, 3)),
    "addmm": lambda: torch.addmm(torch.ones(3), SQUARE, SQUARE.T),
    "addmm.out": lambda: torch.addmm(torch.ones(3), SQUARE, SQUARE.T, out=torch.empty(3, 3)),
    "_softmax": lambda: torch.softmax(SQUARE, 0),
    "_safe_softmax": lambda: torch._safe_softmax(SQUARE, 1),
    "_log_softmax": lambda: torch.log_softmax(SQUARE, -1),
    "gelu": lambda: functional.gelu(SQUARE, approximate="tanh"),
    "tanh": lambda: torch.tanh(SQUARE),
    "tanh_backward": lambda: torch.ops.aten.tanh_backward(SQUARE, SQUARE / 2),
    "exp": lambda: torch.exp(SQUARE),
    "log": lambda: torch.log(SQUARE + 1),
    "sqrt": lambda: torch.sqrt(SQUARE),
    "mish": lambda: functional.mish(SQUARE),
    "mish_backward": lambda: torch.ops.aten.mish_backward(SQUARE, SQUARE - 1),
    "softplus": lambda: functional.softplus(SQUARE * 30 - 20, beta=2),
    "softplus_backward": lambda: torch.ops.aten.softplus_backward(SQUARE, SQUARE * 30 - 20, 1.5, 20),
    "gelu_backward": lambda: torch.ops.aten.gelu_backward(SQUARE, SQUARE * 2),
    ATTENTION: lambda: getattr(torch.ops.aten, ATTENTION)(*HEADS)[1],
    f"{ATTENTION}_backward": lambda: getattr(torch.ops.aten, f"{ATTENTION}_backward")(
        HEADS[0], *HEADS, HEADS[2], torch.ones(2, 3, 5), 0.0, False
    )[2],
}  # fmt: skip


def test_the_calls_are_those_of_all_operators_that_specs_name() -> None:
    named = {aten.name for operation in ok._OPERATIONS.values() for aten in operation.torch}
    assert named == set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_an_operator_that_a_spec_names_gives_what_pytorch_gives(kernels: Any, name: str) -> None:
    wanted = CALLS[name]()
    with kernels.enabled():
        found = CALLS[name]()
    assert ran(kernels.report()) == {name: 1}
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    assert strides(found) == strides(wanted)


def test_queries_that_may_see_nothing_get_zeros(kernels: Any) -> None:
    query, key, value = torch.randn(3, 2, 4, 5, 8).unbind()
    seen = torch.rand(5, 5) > 0.5
    seen[2] = False
    wanted = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
    with sdpa_kernel([SDPBackend.MATH]), kernels.enabled():
        found = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
    assert ran(kernels.report()) == {"bmm": 2, "_safe_softmax": 1}
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    assert (found[..., 2, :] == 0).all()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("orders", [(a, b) for a in (False, True) for b in (False, True)], ids=str)
def test_results_are_ordered_in_memory_as_those_of_pytorch(
    kernels: Any, orders: tuple[bool, bool], transposed: bool
) -> None:
    formats = [torch.channels_last if last else torch.contiguous_format for last in orders]
    src = torch.randn(2, 4, 6, 5).to(memory_format=formats[0]).requires_grad_()
    weights = torch.randn(4, 4, 3, 2).to(memory_format=formats[1]).requires_grad_()
    call = functional.conv_transpose2d if transposed else functional.conv2d

    def results() -> list[Any]:
        made = call(src, weights)
        seed = torch.ones_like(made) if number else torch.ones(made.shape)  # of the result's order, and not
        return [made, *torch.autograd.grad(made, [src, weights], seed)]

    for number in range(4):
        with torch.no_grad():
            src.copy_(torch.randn(src.shape)), weights.copy_(torch.randn(weights.shape))
        wanted = results()
        with kernels.enabled():
            found = results()
            if number == 3 and GLUE.start():  # copies of weights, and of their gradients, are remembered, too
                hits = [GLUE.hits("aten", name) for name in ("convolution", "convolution_backward")]
                assert hits == [int(orders[0] or not orders[1])] * 2
                continue
        assert ran(kernels.report()) == {"convolution": 1, "convolution_backward": 1}
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
            assert strides(one) == strides(other)


def attention_backward_of_complex_keys(query: Any) -> Any:
    backward = getattr(torch.ops.aten, f"{ATTENTION}_backward")
    return backward(query, query.to(torch.complex64), query, query, query, torch.ones(1, 2, 3), 0.0, False)


@pytest.mark.parametrize(
    ("call", "shapes"),
    [
        (torch.mm, [(2, 3, 4), (4, 5)]),
        (torch.mm, [(3, 4), (4,)]),
        (torch.bmm, [(2, 3, 4), (1, 4, 5)]),
        (lambda bias, a, b: torch.addmm(bias, a, b), [(3,), (2, 3, 4), (4, 3)]),
        (lambda a, b: functional.conv2d(a, b, stride=0), [(1, 2, 4, 4), (3, 2, 2, 2)]),
        (attention_backward_of_complex_keys, [(1, 2, 3, 8)]),
    ],
)
def test_a_call_that_pytorch_refuses_is_refused_by_pytorch(kernels: Any, call: Any, shapes: Any) -> None:
    tensors = [torch.ones(shape) for shape in shapes]
    with pytest.raises((RuntimeError, IndexError)) as wanted:
        call(*tensors)
    with kernels.enabled(), pytest.raises((RuntimeError, IndexError)) as found:
        call(*tensors)
    assert str(found.value) == str(wanted.value)


def test_a_result_of_another_shape_is_resized_as_pytorch_does(kernels: Any) -> None:
    results = []
    for block in (nullcontext, kernels.enabled):
        out = torch.empty(3, 3)
        with block():
            for _ in range(2):
                torch.mm(SQUARE, torch.ones(4, 5), out=out)
        results.append(out)
    assert torch.equal(*results)
    assert results[1].untyped_storage().nbytes() >= 60


# Memory for a product, given that of its first factor, whose cells stand among others.
PLACES: dict[str, Callable[[Any], Any]] = {
    "alone": lambda room: torch.full((6, 4), torch.nan),
    "with gaps": lambda room: torch.full((12, 9), torch.nan)[::2, 1:5],
    "turned": lambda room: torch.full((4, 6), torch.nan).t(),
    "beside a factor": lambda room: room[6:, :4],
    "within the columns of a factor": lambda room: room[:6, 4:],
}


@pytest.mark.parametrize("place", PLACES)
def test_calls_that_write_into_memory_like_one_before_do_not_run_python(kernels: Any, place: str) -> None:
    if not GLUE.start():
        pytest.skip(f"no compiled glue: {GLUE.state}")
    room, factor = torch.zeros(12, 8), torch.randn(4, 4)
    source, out = room[:6, :4], PLACES[place](room)
    beside = room[6:, 4:].clone()
    with kernels.enabled():
        for number in range(4):
            source.copy_(torch.randn(6, 4))
            wanted, kept = (source[:, :, None] * factor).sum(1), source.clone()
            assert torch.mm(source, factor, out=out) is out
            torch.testing.assert_close(out, wanted, rtol=1e-5, atol=1e-5)
            assert torch.equal(source, kept)
            if number == 1:
                GLUE.hits("aten", "mm.out")
        # Rows of both lie between each other's: Python tells whether they share cells.
        assert GLUE.hits("aten", "mm.out") == (0 if place == "within the columns of a factor" else 2)
    assert kernels.report().back == {}
    assert torch.equal(room[6:, 4:], beside)


def test_a_call_like_one_before_may_not_write_over_its_factors(kernels: Any) -> None:
    square = torch.randn(4, 4)
    with kernels.enabled():
        for _ in range(3):
            torch.mm(square, square, out=torch.empty(4, 4))
        assert kernels.report().here == {"mm.out": 3}
        torch.mm(square, square.clone(), out=square)
        assert kernels.report().back == {("mm.out", "out-overlap"): 1}


@pytest.mark.parametrize("call", [torch.softmax, torch.log_softmax])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_result_of_a_turned_tensor_is_ordered_as_that_of_pytorch(kernels: Any, call: Any, axis: int) -> None:
    turned = torch.randn(4, 3).t()
    wanted = call(turned, axis)
    with kernels.enabled():
        for _ in range(3):
            found = call(turned, axis)
            assert strides(found) == strides(wanted)
            torch.testing.assert_close(found, wanted)


def test_an_interrupt_while_kernels_are_enabled_leaves_them_off(kernels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    models = kernels.enabled.__self__
    install = models.install

    def interrupted() -> None:
        install()
        raise KeyboardInterrupt

    monkeypatch.setattr(models, "install", interrupted)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt), kernels.enabled():
            pass
    monkeypatch.undo()
    assert torch.backends.mha.get_fastpath_enabled()
    torch.mm(SQUARE, torch.ones(4, 5))
    assert not kernels.report().here
    with kernels.enabled():
        torch.mm(SQUARE, torch.ones(4, 5))
    assert kernels.report().here == {"mm": 1}


def test_torchscript_traces_convolutions_of_enabled_models(kernels: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.GELU())
    images = torch.randn(1, 2, 6, 6)
    with kernels.enabled():
        for _ in range(3):
            model(images)
        traced = torch.jit.trace(model, images)
    torch.testing.assert_close(traced(2 * images), model(2 * images))
