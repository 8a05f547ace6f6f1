"""Compiled glue: calls that it knows are still the operator's in every other respect, and without it Python serves."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import opwright_kernels as ok
import pytest
from opwright_kernels import _remember

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from opwright_kernels.torch._glue import GLUE  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

PROGRAM = """
import torch, opwright_kernels.torch
src = torch.arange(-3.0, 3.0)
for _ in range(3):
    assert torch.equal(torch.ops.opwright.relu(src), src.relu())
print(opwright_kernels.torch.report().glue)
"""


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """An operator, and a tensor with which calls of it are known."""
    if not GLUE.start():
        pytest.skip(f"no compiled glue: {GLUE.state}")
    src = torch.randn(4, 8)
    yield warm(src), src


def warm(src: Any) -> Any:
    operator = torch.ops.opwright.tanh
    for _ in range(3):
        operator(src)
    GLUE.hits("opwright", "tanh")
    operator(src)
    assert GLUE.hits("opwright", "tanh") == 1
    return operator


def test_a_known_call_still_records_its_gradient(known: Any) -> None:
    operator, src = known
    asked = src.clone().requires_grad_()
    operator(asked).sum().backward()
    assert torch.allclose(asked.grad, 1 - src.tanh() ** 2, atol=1e-6)
    with torch.no_grad():
        assert not operator(asked).requires_grad
    with torch.inference_mode():
        assert torch.equal(operator(src.clone()), operator(src))


def test_a_known_call_is_seen_by_modes_and_by_tensors_without_data(known: Any) -> None:
    operator, src = known
    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Mode():
        operator(src)
    assert seen == ["opwright.tanh.default"]
    with torch._subclasses.FakeTensorMode() as mode:
        assert operator(mode.from_tensor(src)).shape == src.shape
    assert operator(src.to("meta")).device.type == "meta"
    functional = torch.func.functionalize(lambda one: operator(one.clone()))
    assert torch.equal(functional(src), operator(src))


def test_a_known_call_refuses_what_every_call_refuses(known: Any) -> None:
    operator, src = known
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(src, src)
        with pytest.raises(ok.SpecError, match="src-tangent"):
            operator(dual)
    freed = src.clone()
    freed.untyped_storage().resize_(0)
    with pytest.raises(ok.SpecError, match="src-memory"):
        operator(freed)
    with pytest.raises(ok.SpecError, match="src-transform"):
        torch.func.grad(lambda one: operator(one).sum())(src)
    with pytest.raises(ok.SpecError, match="src-device"):
        operator(src.to_sparse())


def test_a_known_call_reads_the_tensor_and_not_its_memory(known: Any) -> None:
    operator, src = known
    negative = torch.complex(src, src).conj().imag  # a view whose sign is still to be turned
    assert negative.is_neg()
    assert torch.allclose(operator(negative), (-src).tanh(), atol=1e-6)
    strided = torch.randn(8, 4).t()
    for _ in range(3):
        assert torch.allclose(operator(strided), strided.tanh(), atol=1e-6)
    shifted = torch.cat([torch.zeros(1), src.flatten()])[1:].view(4, 8)
    assert torch.equal(operator(shifted), operator(src))


def test_calls_are_known_anew_after_a_setting_has_changed(known: Any) -> None:
    operator, src = known
    warm(src)
    ok.set_num_threads(ok.get_num_threads())
    operator(src)
    assert GLUE.hits("opwright", "tanh") == 0
    warm(src)
    ok.set_specialize(True)
    try:
        operator(src)
        operator(src)
        assert GLUE.hits("opwright", "tanh") == 0
    finally:
        ok.set_specialize(False)
    warm(src)


def test_threads_may_call_while_others_forget(known: Any) -> None:
    operator, _ = known
    failed, stop = [], threading.Event()

    def work(number: int) -> None:
        sources = [torch.full((number + 1, n), 0.5) for n in range(1, 20)]
        while not stop.is_set():
            for src in sources:
                if not torch.allclose(operator(src), src.tanh(), atol=1e-6):
                    failed.append(src.shape)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        ok._operation.forget()
        stop.wait(0.01)
    stop.set()
    for thread in threads:
        thread.join()
    assert not failed


def test_what_python_keeps_for_forgotten_calls_is_freed(known: Any) -> None:
    operator, src = known
    for n in range(1, 60):
        operator(torch.ones(n))
    kept = len(GLUE.kept)
    ok._operation.forget()
    warm(src)
    assert len(GLUE.kept) < min(kept, 10)


def run(**environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def test_python_serves_where_nothing_compiles_glue_and_the_report_says_so(tmp_path: Path) -> None:
    script = tmp_path / "cc"
    without = '\ncase "$*" in *glue.cpp*) echo no C++ here; exit 1;; esac\nexec "$QUICK" "$@"\n'
    script.write_text(f"#!/bin/sh{without}")
    script.chmod(0o755)
    assert "no C++ here" in run(CC=str(script), QUICK=os.environ["CC"], OPWRIGHT_CACHE_DIR=str(tmp_path / "cache"))
    assert run(OPWRIGHT_TORCH_GLUE="0") == "Python, as OPWRIGHT_TORCH_GLUE=0 says"


def leaf(*shape: int) -> Any:
    return torch.randn(*shape, requires_grad=True)


OPTIONS = {"strides": [1, 1], "pads_begin": [1, 0], "pads_end": [0, 1], "dilations": [1, 1], "data_format": "NCX", "weights_format": "OIX"}  # fmt: skip
# A kept result, a bias whose gradient is a sum, results without gradients, absent ones, several inputs, a stated shape.
ASKING: dict[str, tuple[list[tuple[int, ...]], dict[str, Any]]] = {
    "tanh": ([(4, 8)], {}),
    "convolution": ([(2, 3, 5, 5), (4, 3, 3, 3), (4,)], OPTIONS),
    "soft_max": ([(4, 8)], {"axis": 1}),
    "layer_norm": ([(4, 8), (8,), (8,)], {}),
    "group_norm": ([(2, 4, 5), (4,), (4,)], {"groups": 2, "keep_stats": False, "data_format": "NCX"}),
    "mat_mul": ([(4, 8), (8, 3)], {}),
}


@pytest.mark.parametrize("function", ASKING)
def test_gradients_that_glue_notes_are_those_that_python_notes(known: Any, function: str) -> None:
    shapes, attributes = ASKING[function]
    given = [leaf(*shape) for shape in shapes]
    found = []
    _remember.forget()  # other tests call it with such shapes, too
    for _ in range(3):
        results = getattr(torch.ops.opwright, function)(*given, **attributes)
        seeded = [one for one in (results if isinstance(results, tuple) else (results,)) if one.requires_grad]
        total = sum((one * torch.arange(one.numel()).view(one.shape)).sum() for one in seeded)
        found.append((type(seeded[0].grad_fn).__name__, len(seeded), torch.autograd.grad(total, given)))
    (first, count, grads), _, (last, again, others) = found
    assert (first, last) == ("RecordedBackward", "CppFunction")
    assert count == again
    assert all(torch.equal(one, other) for one, other in zip(grads, others, strict=True))


def test_gradients_that_glue_notes_are_autograds_in_every_other_respect(known: Any) -> None:
    operator, src = known
    asked = src.clone().requires_grad_()
    for _ in range(3):
        found = operator(asked)
    assert type(found.grad_fn).__name__ == "CppFunction"
    found.sum().backward(retain_graph=True)
    once = asked.grad.clone()
    found.sum().backward()
    assert torch.equal(asked.grad, 2 * once)
    with pytest.raises(RuntimeError, match="second time"):
        found.sum().backward()
    changed = operator(asked)
    with torch.no_grad():
        changed.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        changed.sum().backward()
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda one: kept.append(one) or one, lambda one: one):
        operator(asked)
    assert [tuple(one.shape) for one in kept] == [tuple(src.shape)]
    asked.grad = None
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
        operator(asked).sum().backward()
    assert torch.allclose(asked.grad, once)
    assert torch.func.vmap(lambda one: operator(asked) + one)(torch.ones(3)).shape == (3, *src.shape)


def test_gradients_of_gradients_run_from_operator_to_operator(known: Any) -> None:
    src, weights = leaf(1, 3, 5, 5), leaf(4, 3, 3, 3)

    def second(made: Any) -> Any:
        (grad,) = torch.autograd.grad(made.pow(2).sum(), weights, create_graph=True)
        return torch.autograd.grad(grad.pow(2).sum(), (src, weights))

    padded = torch.nn.functional.pad(src, (0, 1, 1, 0))
    for _ in range(3):
        ours = second(torch.ops.opwright.convolution(src, weights, **OPTIONS))
        theirs = second(torch.conv2d(padded, weights))
        padded = torch.nn.functional.pad(src, (0, 1, 1, 0))
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-2)


def own_reader(function: str) -> Any:
    """The function that PyTorch has for an operator, which reads every call."""
    return torch._C._jit_get_operation(f"opwright::{function}")[0]


def outcome(call: Any, given: Any, named: Any) -> Any:
    try:
        found = call(*given, **named)
    except Exception as error:
        return type(error), str(error).splitlines()[0]
    parts = found if isinstance(found, tuple) else (found,)
    return len(parts), [(one.dtype, one.stride(), one.requires_grad, one.tolist()) for one in parts]


class Own(torch.Tensor):
    """A tensor whose operators mean something else."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return torch.full((2, 2), 7.0)


# Of each kind of argument: plain values, and such as PyTorch itself has to read, turn into others or refuse.
VALUES = [
    None,
    True,
    2,
    2**70,
    1.5,
    float("nan"),
    np.int64(1),
    np.float32(1.5),
    "NCX",
    "\ud800",
    [1, 1],
    (1, 1),
    [],
    [True, 1],
]
VALUES += [
    [1.0, 2.0],
    [None, 1],
    [2**70, 1],
    torch.zeros(2),
    torch.nn.Parameter(torch.zeros(4, 8)),
    np.zeros((4, 8)),
    object,
]


@pytest.mark.parametrize("function", [*ASKING, "clamp", "concat"])
def test_arguments_are_read_as_pytorch_reads_them(known: Any, function: str) -> None:
    shapes, named = {"clamp": ([(4, 8)], {"least": 0.0, "greatest": 1.0}), "concat": ([], {"axis": 0}), **ASKING}[
        function
    ]
    given: list[Any] = [torch.randn(*shape) for shape in shapes] or [[torch.ones(2, 3), torch.ones(1, 3)]]
    operator, general = getattr(torch.ops.opwright, function), own_reader(function)
    names = [argument.name for argument in operator.default._schema.arguments]
    tensors, plain = dict(zip(names, given, strict=False)), outcome(general, given, named)
    values: list[Any] = [*VALUES, given[0].clone().as_subclass(Own)] if shapes else VALUES
    calls = [(given, named), ([], {**tensors, **named}), ([*given, *named.values()], {}), (given, {**named, "odd": 1})]
    calls += [(given, {**named, names[0]: given[0]}), (given[1:], named), ([*given, *given], named)]
    for at, name in enumerate(names):
        left = {key: value for key, value in named.items() if key != name}
        rest = {key: value for key, value in tensors.items() if key != name}
        calls += [([], {**rest, **left})]
        if at < len(given):
            calls += [([*given[:at], value, *given[at + 1 :]], named) for value in values]
        else:
            calls += [(given, {**left, name: value}) for value in values]
    for one in (operator, operator.default):
        assert type(one._op).__name__ == "Reader"
        assert outcome(one, given, named) == plain
        assert isinstance(plain[0], int)
        for places, words in calls:
            assert repr(outcome(one, places, words)) == repr(outcome(general, places, words)), (places, words)


def test_reading_arguments_changes_nothing_else_about_an_operator(known: Any) -> None:
    operator, src = known
    general, seen = own_reader("tanh"), []

    class Mode(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Mode():
        operator(src)
    assert seen == [operator]
    assert copy.deepcopy(operator) is operator
    assert {operator.default: 1}[torch.ops.opwright.tanh.default] == 1
    assert torch.jit.script(scripted)(src).equal(operator(src))
    assert torch.jit.trace(operator, (src,))(src).equal(operator(src))
    assert operator._op.__name__ == general.__name__
    assert torch.fx.symbolic_trace(lambda one: torch.ops.opwright.tanh(one))(src).equal(operator(src))


def scripted(src: torch.Tensor) -> torch.Tensor:
    return torch.ops.opwright.tanh(src)


def test_the_many_arguments_of_a_convolution_are_read_in_less_time_than_pytorch_takes(known: Any) -> None:
    given = torch.randn(1, 4, 4, 4), torch.randn(4, 4, 1, 1)
    times: dict[Any, list[float]] = {torch.ops.opwright.convolution: [], own_reader("convolution"): []}
    for _ in range(30):
        for call, taken in times.items():
            start = time.perf_counter()
            for _ in range(100):
                call(*given, **OPTIONS)
            taken.append(time.perf_counter() - start)
    ours, theirs = map(min, times.values())
    assert ours < 0.75 * theirs
