"""A matrix product, pools and a guarded product: one YAML file each, nothing changed in the generator or the templates.

Each generates, builds and validates, and agrees with the interpreter; test_interpret.py holds that against NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from opwright.language.library import Library
from opwright.oracle import interpret
from opwright.oracle.validate import NUMPY, validate
from support.package import ROOT, package

Maker = Callable[[np.random.Generator], tuple[tuple[Any, ...], dict[str, Any]]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Library, ModuleType]:
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests" / "data").glob("*.yaml"))}
    return package(texts, Path(tmp_path_factory.mktemp("others")), "other_operations")


def _integers(rng: np.random.Generator, *shape: int) -> Any:
    return rng.integers(-4, 5, shape).astype(np.float32)


def _product(rng: np.random.Generator) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rows, inner, columns = (int(extent) for extent in rng.integers(0, 90, 3))
    return (_integers(rng, rows, inner), _integers(rng, inner, columns)), {"alpha": float(rng.integers(-2, 3)) / 2}


def _triangle(rng: np.random.Generator) -> tuple[tuple[Any, ...], dict[str, Any]]:
    size, columns, step = (int(extent) for extent in rng.integers(1, 9, 3))
    return (_integers(rng, size, size), _integers(rng, size, columns)), {"step": step}


def _pool(rng: np.random.Generator) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rank = int(rng.integers(1, 4))
    kernel = rng.integers(1, 4, rank)
    attributes = {
        "kernel": kernel.tolist(),
        "strides": rng.integers(1, 4, rank).tolist(),
        "pads_begin": rng.integers(0, 3, rank).tolist(),
        "pads_end": rng.integers(0, 3, rank).tolist(),
        "data_format": str(rng.choice(["NCX", "NXC"])),
    }
    extents = [int(extent) for extent in rng.integers(3, 8, rank)]
    batch, channels = (int(extent) for extent in rng.integers(0, 20, 2))
    shape = (batch, channels, *extents) if attributes["data_format"] == "NCX" else (batch, *extents, channels)
    return (_integers(rng, *shape),), attributes


MAKERS: dict[str, Maker] = {
    "MatrixProduct": _product,
    "TriangularProduct": _triangle,
    "AveragePool": _pool,
    "AveragePoolInside": _pool,
    "MaxPool": _pool,
}


def test_every_file_of_these_operations_is_tested(built: tuple[Library, ModuleType]) -> None:
    assert {op.op for op in built[0].ops} == MAKERS.keys()


@pytest.mark.parametrize("name", MAKERS)
def test_the_kernels_agree_with_the_interpreter(name: str, built: tuple[Library, ModuleType]) -> None:
    library, module = built
    op = library.op(name)
    rng = np.random.default_rng(sorted(MAKERS).index(name))
    for _ in range(40):
        inputs, attributes = MAKERS[name](rng)
        attributes = {key: value for key, value in attributes.items() if key in {a.name for a in op.attributes}}
        for row in op.dtypes:
            typed = [array.astype(NUMPY[row[tensor.name]]) for array, tensor in zip(inputs, op.inputs)]
            result = getattr(module, op.function)(*typed, **attributes)
            expected = interpret.compute(op, typed, attributes)
            assert result.dtype == expected.dtype
            # Means of integers are quotients: f32 and float64 round them alike to a last bit.
            assert np.allclose(
                result.astype(float), expected.astype(float), rtol=1e-2 if result.itemsize == 2 else 1e-6, atol=0
            )
            if name != "AveragePool" and name != "AveragePoolInside":
                assert (result == expected).all()


@pytest.mark.parametrize("name", MAKERS)
def test_their_validators_agree_with_the_interpreter(name: str, built: tuple[Library, ModuleType]) -> None:
    library, module = built
    op = library.op(name)
    rng = np.random.default_rng(sorted(MAKERS).index(name))
    verdicts = set()
    for _ in range(200):
        inputs, attributes = MAKERS[name](rng)
        attributes = {key: value for key, value in attributes.items() if key in {a.name for a in op.attributes}}
        if rng.random() < 0.5:
            at = int(rng.integers(len(inputs)))
            extents = list(inputs[at].shape)
            extents[int(rng.integers(len(extents)))] += int(rng.choice([-1, 1, 40]))
            changed = np.zeros([max(extent, 0) for extent in extents], np.float32)
            inputs = (*inputs[:at], changed, *inputs[at + 1 :])
        for key, value in attributes.items():
            if isinstance(value, list) and rng.random() < 0.2:
                attributes[key] = [entry - 2 for entry in value]
        validation = validate(op, inputs, attributes)
        verdicts.add(validation.accepted)
        try:
            assert module.infer_shape(name, *inputs, **attributes) == validation.shape
        except module.SpecError as error:
            assert error.rule in validation.violations
    assert True in verdicts
    assert False in verdicts or name == "Nothing is ever refused"
