"""Operands of products that lie between steps, and whose cells are those of a narrow data type: they are kept in it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from opwright.language.library import Library
from opwright.oracle.run_steps import compute_steps
from support.package import package
from support.random_contractions import DTYPES as FLOATS

DTYPES = {**FLOATS, "s8": np.int8, "u8": np.uint8, "boolean": np.bool_}
SPECS = Path(__file__).parents[1] / "data" / "formulas"
ROUNDED = """op: Rounded
revision: 1
summary: Two linear layers, what is between them rounded, and rows of bytes.
dims: {rows: {symbol: M}, terms: {symbol: K}, hidden: {symbol: H}, columns: {symbol: N}}
inputs: [{name: x, dims: {M: M, K: K}}, {name: w, dims: {K: K, H: H}}, {name: v, dims: {H: H, N: N}}, {name: b, dims: {H: H, N: N}}]
outputs: [{name: y, dims: {M: M, N: N}}, {name: z, dims: {M: M, N: N}}]
dtypes:
  - {x: bf16, w: bf16, v: bf16, b: s8, y: f32, z: f32, accumulate: f32}
  - {x: f32, w: f32, v: bf16, b: u8, y: f32, z: f32, accumulate: f32}
semantics:
  ranges: {m: M, n: N, k: K, h: H}
  steps:
    - sums[m, h] += x[m, k] * w[k, h]
    - half[m, h] = to_bf16(max(sums[m, h], 0))
    - y[m, n] += half[m, h] * v[h, n]
    - byte[m, h] = to_s8(half[m, h] / 4)
    - z[m, n] += byte[m, h] * b[h, n]
"""
MASKED = """op: Masked
revision: 1
summary: A product by the lower triangle of a matrix.
dims: {rows: {symbol: M}, terms: {symbol: K}, columns: {symbol: N}}
inputs: [{name: a, dims: {M: M, K: K}}, {name: b, dims: {K: K, N: N}}]
outputs: [{name: y, dims: {M: M, N: N}}]
dtypes:
  - {a: bf16, b: bf16, y: f32, accumulate: f32}
  - {a: f32, b: bf16, y: f32, accumulate: f32}
semantics:
  ranges: {m: M, n: N, k: K}
  steps:
    - y[m, n] += select(k <= m, max(a[m, k], 0), 0) * b[k, n]
"""
# A truth value times a number of any type is a number of that type.
KEPT = """op: Kept
revision: 1
summary: A product by a matrix of which some cells are dropped.
dims: {rows: {symbol: M}, terms: {symbol: K}, columns: {symbol: N}}
inputs: [{name: a, dims: {M: M, K: K}}, {name: b, dims: {K: K, N: N}}, {name: kept, dims: {K: K, N: N}}]
outputs: [{name: y, dims: {M: M, N: N}}]
dtypes:
  - {a: bf16, b: bf16, kept: boolean, y: f32, accumulate: f32}
  - {a: f16, b: f16, kept: boolean, y: f32, accumulate: f32}
  - {a: u8, b: s8, kept: boolean, y: f32, accumulate: f32}
  - {a: bf16, b: f32, kept: boolean, y: f32, accumulate: f32}
  - {a: bf16, b: s8, kept: boolean, y: f32, accumulate: f32}
  - {a: bf16, b: u8, kept: boolean, y: bf16, accumulate: f32}
semantics:
  ranges: {m: M, n: N, k: K}
  steps:
    - y[m, n] += a[m, k] * (kept[k, n] * b[k, n])
"""
# What is between the products has the type of the output, which an attribute states.
STATED = """op: Stated
revision: 1
summary: Two linear layers, what is between them of the type of the result.
dims: {rows: {symbol: M}, terms: {symbol: K}, hidden: {symbol: H}, columns: {symbol: N}}
attributes:
  - {name: dtype, type: string, default: v, dtype_of: y, values: [f32, bf16, f16], summary: The data type of y.}
inputs: [{name: x, dims: {M: M, K: K}}, {name: w, dims: {K: K, H: H}}, {name: v, dims: {H: H, N: N}}]
outputs: [{name: y, dims: {M: M, N: N}}]
dtypes:
  - {x: f32, w: f32, v: f32, y: f32, accumulate: f32}
  - {x: bf16, w: bf16, v: bf16, y: bf16, accumulate: f32}
  - {x: bf16, w: bf16, v: bf16, y: f32, accumulate: f32}
  - {x: bf16, w: bf16, v: bf16, y: f16, accumulate: f32}
semantics:
  ranges: {m: M, n: N, k: K, h: H}
  steps:
    - sums[m, h] += x[m, k] * w[k, h]
    - by: dtype
      cases:
        f32: half[m, h] = max(sums[m, h], 0) / 3
        bf16: half[m, h] = to_bf16(max(sums[m, h], 0) / 3)
        f16: half[m, h] = to_f16(max(sums[m, h], 0) / 3)
    - y[m, n] += half[m, h] * v[h, n]
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Library, ModuleType]:
    texts = {"blocked.yaml": (SPECS / "blocked.yaml").read_text(encoding="utf-8"), "rounded.yaml": ROUNDED}
    texts |= {"masked.yaml": MASKED, "kept.yaml": KEPT}
    texts |= {"stated.yaml": STATED, "confused.yaml": STATED.replace("Stated", "Confused").replace("to_f16", "to_bf16")}
    return package(texts, tmp_path_factory.mktemp("narrow"), "narrow_package")


@pytest.mark.parametrize("name", ["Blocked", "Rounded", "Masked", "Kept"])
def test_narrow_operands_between_steps_give_what_the_interpreter_gives(
    made: tuple[Library, ModuleType], name: str
) -> None:
    library, kernels = made
    op, rng = library.op(name), np.random.default_rng(5)
    for row in op.dtypes:
        for sizes in ((5, 3, 17, 33), (64, 16, 40, 20), (1, 1, 1, 1), (3, 0, 4, 2), (2, 5, 0, 3)):
            m, q, n, h = sizes
            shapes = (
                ((m, q * 8), (q, n, 8))
                if name == "Blocked"
                else ((m, q), (q, n), (q, n))
                if name == "Kept"
                else ((m, q), (q, h), (h, n), (h, n))[: len(op.inputs)]
            )
            inputs = [
                rng.integers(0 if row[t.name] in ("u8", "boolean") else -3, 4, shape).astype(DTYPES[row[t.name]])
                for t, shape in zip(op.inputs, shapes, strict=True)
            ]
            expected = compute_steps(op, inputs, {})
            found = [getattr(kernels, op.function)(*inputs, threads=threads) for threads in (1, 3)]
            found = [one if isinstance(one, tuple) else (one,) for one in found]
            for number, tensor in enumerate(op.outputs):
                assert (found[0][number] == expected[tensor.name]).all(), (row, sizes, tensor.name)
                assert found[0][number].tobytes() == found[1][number].tobytes()


def test_a_copy_of_an_input_is_kept_in_its_type(made: tuple[Library, ModuleType]) -> None:
    _, kernels = made
    kept = sys.modules[f"{kernels.__name__}._kept"].OPERATION if kernels.kept else None
    assert [{*kinds.values()} for kinds in kept.narrow] == [
        {"bfloat16"},
        {"float16"},
        {"int8"},
        set(),
        {"int8"},
        {"uint8"},
    ]
    rounded = sys.modules[f"{kernels.__name__}._rounded"].OPERATION if kernels.rounded else None
    assert [sorted(kinds.values()) for kinds in rounded.narrow] == [["bfloat16", "int8"]] * 2


def test_what_lies_between_products_has_the_type_of_the_output_that_an_attribute_states(
    made: tuple[Library, ModuleType],
) -> None:
    library, kernels = made
    rng = np.random.default_rng(7)
    for name, kept in (("stated", ["float32", "bfloat16", "float32", "float16"]), ("confused", None)):
        function, op = getattr(kernels, name), library.op(name.capitalize())
        narrow = sys.modules[f"{kernels.__name__}._{name}"].OPERATION.narrow
        assert kept is None or [next(iter(one.values()), "float32") for one in narrow] == kept
        for row in op.dtypes:
            for m, k, h, n in ((5, 3, 17, 33), (64, 16, 40, 20), (1, 1, 1, 1), (3, 0, 4, 2), (2, 5, 0, 3)):
                shapes = ((m, k), (k, h), (h, n))
                inputs = [
                    rng.integers(-3, 4, shape).astype(DTYPES[row[t.name]])
                    for t, shape in zip(op.inputs, shapes, strict=True)
                ]
                expected = compute_steps(op, inputs, {"dtype": row["y"]})["y"]
                found = [function(*inputs, dtype=row["y"], threads=threads) for threads in (1, 3)]
                assert found[0].tobytes() == found[1].tobytes()
                near = {"f32": 1e-5, "bf16": 1e-2, "f16": 2e-3}[row["y"]]
                far, wanted = found[0].astype(float), expected.astype(float)
                np.testing.assert_allclose(far, wanted, rtol=near, atol=near, err_msg=f"{name} {row} {m, k, h, n}")


@pytest.mark.parametrize("dtype", ["s8", "u8"])
def test_bytes_beside_bf16_are_multiplied_as_bf16(made: tuple[Library, ModuleType], dtype: str) -> None:
    _, kernels = made
    b = np.arange(256).astype(np.uint8).view(DTYPES[dtype])[:, None] * np.ones(20, DTYPES[dtype])
    given = np.eye(256).astype(DTYPES["bf16"]), b, np.ones(b.shape, np.bool_)
    assert (kernels.kept(*given, threads=2).astype(np.float64) == b).all()
    engines = sys.modules[f"{kernels.__name__}._contraction_engines"]
    if (best := engines.best("bf16")) is not None:
        assert f"a contraction for {best.name}" in str(kernels.explain("kept", *given))
