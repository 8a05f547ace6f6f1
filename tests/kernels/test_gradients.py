"""Derived gradients as kernels: built, held against the interpreter, and against what PyTorch's autograd says."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from opwright.gradients import Underivable, gradient_text
from opwright.language.library import Library
from opwright.language.model import Op
from opwright.load import load_texts
from opwright.oracle.run_steps import compute_steps
from opwright.oracle.step_sample import Sample, samples
from support.draws import FULL
from support.package import package
from support.random_programs import Programs

SPECS = Path(__file__).parents[1] / "data" / "steps"
REAL = np.random.default_rng(3)
PROGRAMS = 60 if FULL else 1
# What the short form builds: sums, words, windows that scatter, optional inputs, several outputs.
SHORT = ("gelu", "layer_norm", "max_pool", "reduce_sum", "soft_max")
FLOATS = ("f32", "bf16", "f16", "f64")


def derived() -> dict[str, str]:
    """The gradients of all specs of the tests, as texts of specs with their operations."""
    texts = {}
    for path in (path for path in sorted(SPECS.glob("*.yaml")) if not path.stem.endswith("_backward")):
        if not FULL and path.stem not in SHORT:
            continue
        text = path.read_text(encoding="utf-8")
        (op,) = load_texts({path.name: text}).ops
        try:
            written, backward = gradient_text(op)
        except Underivable:
            continue
        texts |= {path.name: text, f"{backward.function}.yaml": written}
    for seed in range(PROGRAMS):
        text = Programs(np.random.default_rng(100 + seed)).spec().replace("op: Program", f"op: Program{seed}")
        (op,) = load_texts({"program.yaml": text}).ops
        written, backward = gradient_text(op)
        texts |= {f"{op.function}.yaml": text, f"{backward.function}.yaml": written}
    return texts


TEXTS = derived()
GRADIENTS = sorted(name.removesuffix(".yaml") for name in TEXTS if name.endswith("_backward.yaml"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Library, ModuleType]]:
    folder = tmp_path_factory.mktemp("gradients")
    yield package(TEXTS, folder, "gradients_package")


def outputs(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def listed(op: Op, arrays: Mapping[str, Any]) -> list[Any]:
    """The inputs of an operation, those that are joined as lists."""
    found = [(tensor, arrays.get(tensor.name)) for tensor in op.inputs]
    return [[array] if tensor.joined and array is not None else array for tensor, array in found]


def arguments(origin: Op, backward: Op, sample: Sample) -> tuple[list[Any], dict[str, Any]]:
    """A call of a gradient that follows a call of its operation."""
    arrays = {tensor.name: array for tensor, array in zip(origin.inputs, sample.arrays, strict=True)}
    made = compute_steps(origin, listed(origin, arrays), sample.attributes)
    arrays |= made | {
        f"diff_{name}": np.asarray(REAL.normal(size=array.shape), array.dtype) for name, array in made.items()
    }
    names = {attribute.name for attribute in backward.attributes}
    return listed(backward, arrays), {name: value for name, value in sample.attributes.items() if name in names}


@pytest.mark.parametrize("name", GRADIENTS)
def test_the_kernel_of_a_derived_gradient_computes_what_the_interpreter_does(
    made: tuple[Library, ModuleType], name: str
) -> None:
    library, kernels = made
    op = library.op(name)
    (relation,) = op.relations
    origin = library.op(str(relation.gradient_of))
    real = [tensor for tensor in (*op.inputs, *op.outputs) if tensor.name.startswith("diff_")]
    rows = [row for row in origin.dtypes if all(row[t.name.removeprefix("diff_")] in FLOATS for t in real)]
    compared = 0
    for sample in samples(
        dataclasses.replace(origin, dtypes=tuple(rows if FULL else rows[:1])), 4, extents=(0, 1, 2, 3, 5)
    ):
        given, attributes = arguments(origin, op, sample)
        expected = compute_steps(op, given, attributes)
        found = outputs(getattr(kernels, op.function)(*given, **attributes))
        for array, wanted in zip(found, expected.values(), strict=True):
            assert (array.shape, array.dtype) == (wanted.shape, wanted.dtype)
            near = 3e-2 if array.itemsize < 4 else 1e-4
            np.testing.assert_allclose(array.astype(np.float64), wanted.astype(np.float64), rtol=near, atol=near)
        compared += 1
    assert compared


# What PyTorch computes of the inputs, the inputs, the attributes.
Torch = Callable[..., Any]


def peers() -> dict[str, tuple[Torch, list[Any], dict[str, Any]]]:
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional

    def real(*shape: int) -> Any:
        return REAL.normal(size=shape).astype(np.float32)

    def rank_norm(x: Any, g: Any, b: Any) -> Any:
        return functional.layer_norm(x, x.shape[1:], g, b, 1e-5)

    return {
        "soft_max": (lambda x: torch.softmax(x, 1), [real(3, 5, 2)], {"axis": 1}),
        "mat_mul": (lambda a, b, c: a @ b + c, [real(2, 3, 4), real(2, 4, 5), real(5)], {}),
        "gelu": (lambda x: functional.gelu(x, approximate="tanh"), [real(3, 40)], {"mathematical": "gelu_tanh"}),
        "layer_norm": (rank_norm, [real(4, 3, 5), real(3, 5), real(3, 5)], {"begin_norm_axis": 1, "keep_stats": False}),
        "reduce_sum": (lambda x: x.sum((0, 2)), [real(3, 4, 5)], {"axes": [0, 2]}),
        "max_pool": (lambda x: functional.max_pool1d(x, 3, 2, 1), [real(2, 3, 9)],
                     {"kernel": [3], "strides": [2], "pads": [1], "data_format": "NCX"}),
        "add": (lambda a, b: a + b, [real(3, 4), real(3, 4)], {}),
        "statistics": (lambda x: (x - x.min()) / (x.max() - x.min()), [real(3, 7)], {}),
    }  # fmt: skip


@pytest.mark.parametrize("name", [name for name in peers() if FULL or name in SHORT])
def test_autograd_of_pytorch_says_the_same(made: tuple[Library, ModuleType], name: str) -> None:
    torch = pytest.importorskip("torch")
    library, kernels = made
    forward, arrays, attributes = peers()[name]
    tensors = [torch.tensor(array, dtype=torch.float64, requires_grad=True) for array in arrays]
    result = forward(*tensors)
    seed = REAL.normal(size=tuple(result.shape)).astype(np.float32)
    result.backward(torch.tensor(seed, dtype=torch.float64))
    op = library.op(name)
    given = dict(zip((tensor.name for tensor in op.inputs), arrays, strict=False))
    given |= {"dst": result.detach().numpy().astype(np.float32), "diff_dst": seed}
    backward = library.op(f"{name}_backward")
    own_attributes = {a.name: attributes[a.name] for a in backward.attributes if a.name in attributes}
    found = outputs(
        getattr(kernels, backward.function)(*(given.get(tensor.name) for tensor in backward.inputs), **own_attributes)
    )
    for array, tensor in zip(found, tensors, strict=True):
        np.testing.assert_allclose(array, tensor.grad.numpy(), rtol=2e-4, atol=2e-4)
