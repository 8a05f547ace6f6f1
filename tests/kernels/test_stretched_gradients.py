"""The derived gradients of operations that broadcast: kernels hold against PyTorch's autograd and the interpreter."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import yaml
from opwright.gradients import gradient_text
from opwright.language.library import Library
from opwright.load import load_texts
from opwright.oracle.run_steps import compute_steps
from opwright.oracle.step_sample import samples
from support.draws import FULL
from support.package import package

FOLDER = Path(__file__).parents[2] / "spec" / "onednn_graph" / "gradients"
DRAWN = np.random.default_rng(11)


def one_row(path: Path) -> str:
    """The spec of a gradient for f32 alone, without its relation to an operation that is not there."""
    spec = yaml.safe_load(path.read_text(encoding="utf-8"))
    rows = [row for row in spec["dtypes"] if set(row.values()) <= {"f32", "boolean"}]
    for tensor in (*spec["inputs"], *spec["outputs"]):
        tensor.pop("source", None)
    return yaml.safe_dump({**spec, "dtypes": rows, "relations": []}, sort_keys=False)


NAMES = [path.stem for path in sorted(FOLDER.glob("*.yaml")) if "broadcast_as" in path.read_text(encoding="utf-8")]
BUILT = [name for name in NAMES if FULL or name in ("add_backward", "mat_mul_backward")]
STRETCHED = Path(__file__).parents[1] / "data" / "steps" / "stretched.yaml"
TEXTS = {f"{name}.yaml": one_row(FOLDER / f"{name}.yaml") for name in BUILT}
TEXTS |= {"stretched.yaml": STRETCHED.read_text(encoding="utf-8")}
SPACE = """op: Spread
revision: 1
summary: Cells times a factor that may be one for all along any spatial axis.
spatial_rank: {min: 1, max: 3}
dims:
  samples: {symbol: N, summary: samples}
  space: {symbol: I, per_axis: true, min: 0, summary: extents}
inputs:
  - {name: src, dims: {N: N, X: I}, summary: The cells.}
  - {name: factor, dims: {N: N, X: I}, broadcast: [X], summary: The factor.}
outputs:
  - {name: dst, dims: {N: N, X: I}, summary: The products.}
dtypes:
  - {src: f32, factor: f32, dst: f32, accumulate: f32}
semantics:
  ranges: {n: N, i: I}
  steps:
    - dst[n, i] = src[n, i] * factor[n, i]
"""
GRADIENT, *_ = gradient_text(load_texts({"spread.yaml": SPACE}).ops[0])
TEXTS |= {"spread.yaml": SPACE, "spread_backward.yaml": GRADIENT.split("relations:")[0]}
BINARY = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "maximum": "maximum", "minimum": "minimum",
}  # fmt: skip
# Shapes of two operands: one cell, an axis of 1 on each side, fewer axes, nothing to add up, no axes at all.
SHAPES = (((4, 3), (3,)), ((2, 1, 5), (1, 3, 1)), ((7,), (2, 3, 7)), ((3, 1), (3, 0)), ((), (2, 3)), ((2, 3), (2, 3)))


def drawn(*shape: int) -> Any:
    return np.asarray(DRAWN.normal(size=shape), np.float32)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Library, ModuleType]]:
    folder = tmp_path_factory.mktemp("stretched")
    yield package(TEXTS, folder, "stretched_package")


def cases() -> dict[str, list[tuple[Callable[..., Any], list[Any], dict[str, Any], dict[str, Any]]]]:
    """By operation: what PyTorch computes, real inputs, other inputs, attributes."""
    torch = pytest.importorskip("torch")
    found: dict[str, list[Any]] = {
        f"{name}_backward": [(getattr(torch, other), [drawn(*a), drawn(*b)], {}, {}) for a, b in SHAPES]
        for name, other in BINARY.items()
    }
    found["squared_difference_backward"] = [
        (lambda a, b: (a - b) ** 2, [drawn(*a), drawn(*b)], {}, {}) for a, b in SHAPES
    ]
    cond = DRAWN.random((4, 1, 3)) < 0.5
    found["select_backward"] = [
        (lambda a, b: torch.where(torch.tensor(cond), a, b), [drawn(*a), drawn(*b)], {"cond": cond}, {})
        for a, b in (((4, 5, 3), (4, 5, 3)), ((5, 1), (4, 5, 3)), ((4, 1, 3), (5, 1)), ((), (3,)), ((), ()))
    ]
    found["mat_mul_backward"] = [
        (lambda a, b, c: a @ b + c, [drawn(*a), drawn(*b), drawn(*c)], {}, {})
        for a, b, c in (
            ((2, 3, 4), (2, 4, 5), (5,)), ((3, 4), (2, 4, 5), (1,)), ((2, 1, 3, 4), (1, 3, 4, 5), (5,)),
            ((2, 3, 4), (4, 5), (1,)), ((4,), (2, 4, 5), (5,)),
        )
    ] + [(lambda a, b: a @ b, [drawn(3, 2, 4), drawn(4)], {}, {})]  # fmt: skip

    def normed(x: Any, gamma: Any) -> Any:
        return x / torch.sqrt((x * x).mean((1, 2), keepdim=True) + 1e-5) * gamma

    found["spread_backward"] = [
        (torch.mul, [drawn(*shape), drawn(*factor)], {}, {})
        for shape, factor in (
            ((2, 5), (2, 1)), ((2, 3, 4), (2, 1, 4)), ((2, 3, 4), (2, 3, 1)), ((2, 3, 4, 5), (2, 1, 4, 1)),
            ((3, 2, 1, 2), (3, 1, 1, 1)), ((2, 0, 3), (2, 1, 3)), ((2, 3, 4), (2, 3, 4)),
        )
    ]  # fmt: skip
    found["rms_norm_backward"] = [
        (normed, [drawn(4, 3, 5), drawn(*gamma)], {}, {"begin_norm_axis": 1}) for gamma in ((3, 5), (1, 5), (3, 1))
    ]
    return found


@pytest.mark.parametrize("name", [*BUILT, "spread_backward"])
def test_the_gradient_of_a_stretched_input_has_its_shape_and_is_what_autograd_says(
    made: tuple[Library, ModuleType], name: str
) -> None:
    torch = pytest.importorskip("torch")
    library, kernels = made
    op = library.op(name)
    for forward, arrays, others, attributes in cases()[name]:
        tensors = [torch.tensor(array, dtype=torch.float64, requires_grad=True) for array in arrays]
        result = forward(*tensors)
        seed = drawn(*result.shape)
        result.backward(torch.tensor(seed, dtype=torch.float64))
        wanted = [tensor.grad.numpy() for tensor in tensors]
        names = [output.name.removeprefix("diff_") for output in op.outputs]
        given = {**dict(zip(names, arrays, strict=False)), **others, "diff_dst": seed}
        inputs = [given.get(tensor.name) for tensor in op.inputs]
        views = [[None if a is None else a.T.copy().T for a in inputs], inputs]
        interpreted = list(compute_steps(op, inputs, attributes).values())
        for own, threads in itertools.product(views, (1, 3)):
            found = getattr(kernels, op.function)(*own, **attributes, threads=threads)
            for array, grad, cells in zip(found, wanted, interpreted, strict=False):
                assert array.shape == grad.shape == cells.shape
                np.testing.assert_allclose(array, grad, rtol=2e-4, atol=2e-4)
                np.testing.assert_allclose(cells, grad, rtol=2e-4, atol=2e-4)


def test_every_derived_gradient_of_the_examples_that_broadcasts_agrees_with_autograd() -> None:
    assert {*NAMES, "spread_backward"} == cases().keys()


def test_outputs_with_the_shapes_of_inputs_are_what_the_interpreter_says(made: tuple[Library, ModuleType]) -> None:
    library, kernels = made
    op = library.op("stretched")
    stretched = 0
    for sample in samples(op, 60, extents=(0, 1, 2, 3, 5)):
        wanted = list(compute_steps(op, sample.arrays, sample.attributes).values())
        found = kernels.stretched(*sample.arrays, **sample.attributes)
        stretched += sample.arrays[0].shape != sample.arrays[1].shape
        for array, cells in zip(found, wanted, strict=True):
            assert array.shape == cells.shape
            np.testing.assert_allclose(array, cells, rtol=1e-4, atol=1e-4)
    assert stretched > 10
