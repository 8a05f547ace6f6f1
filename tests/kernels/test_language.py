"""Operations that are no convolutions, from YAML to a called kernel, each held against the interpreter and NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from opwright.language.library import Library
from opwright.oracle import interpret
from support.package import package

HEAD = """\
op: {name}
revision: 1
summary: An operation of a test.
"""
# Each is the body of a spec, its inputs, its attributes, and what NumPy computes.
VECTOR = "dims: {size: {symbol: M, min: 0}}\ninputs: [{name: a, dims: {X: M}}]\noutputs: [{name: b, dims: {X: M}}]\n"
F32 = "dtypes: [{a: f32, b: f32, accumulate: f32}]\n"
A = np.arange(1, 8, dtype=np.float32)
SQUARE = np.arange(35, dtype=np.float32).reshape(5, 7)


def _shifted(a: Any) -> Any:
    return np.concatenate([np.zeros(2), a[:-2]])


CASES: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], Callable[..., Any]]] = {
    "Copy": (VECTOR + F32 + "semantics: {ranges: {m: M}, reduce: 'b[m] += a[m]'}\n", (A,), {}, lambda a: a),
    "Shift": (VECTOR + F32 + "semantics: {ranges: {m: M}, reduce: 'b[m] += a[m - 2]'}\n", (A,), {}, _shifted),
    "Reverse": (
        VECTOR + F32 + "semantics: {ranges: {m: M}, reduce: 'b[M - 1 - m] += a[m]'}\n",
        (A,),
        {},
        lambda a: a[::-1],
    ),
    "Prefix": (
        VECTOR + F32 + "semantics: {ranges: {m: M, j: M}, where: [j <= m], reduce: 'b[m] += a[j]'}\n",
        (A,),
        {},
        np.cumsum,
    ),
    "PrefixMax": (
        VECTOR
        + F32
        + "semantics: {ranges: {m: M, j: M}, init: -inf, where: [j <= m], reduce: 'b[m] max= -1 * a[j]'}\n",
        (A,),
        {},
        lambda a: np.maximum.accumulate(-a),
    ),
    "Autocorrelation": (
        VECTOR
        + F32
        + "semantics: {ranges: {m: M, j: M}, reduce: 'b[m] += a[j] * a[j + m]', finish: 'b[m] / 2 + a[m]'}\n",
        (A,),
        {},
        lambda a: np.correlate(a, a, "full")[len(a) - 1 :] / 2 + a,
    ),
    "Transpose": (
        "dims: {rows: {symbol: M, min: 0}, columns: {symbol: N, min: 0}}\n"
        "inputs: [{name: a, dims: {M: M, N: N}}]\noutputs: [{name: b, dims: {N: N, M: M}}]\n"
        + F32
        + "semantics: {ranges: {m: M, n: N}, reduce: 'b[n, m] += a[m, n]'}\n",
        (SQUARE,),
        {},
        lambda a: a.T,
    ),
    "RowSum": (
        "dims: {rows: {symbol: M, min: 0}, columns: {symbol: N, min: 0}}\n"
        "inputs: [{name: a, dims: {M: M, N: N}}]\noutputs: [{name: b, dims: {M: M}}]\n"
        + F32
        + "semantics: {ranges: {m: M, n: N}, reduce: 'b[m] += a[m, n]'}\n",
        (SQUARE,),
        {},
        lambda a: a.sum(1),
    ),
    "ColumnMax": (
        "dims: {rows: {symbol: M, min: 0}, columns: {symbol: N, min: 0}}\n"
        "inputs: [{name: a, dims: {M: M, N: N}}]\noutputs: [{name: b, dims: {N: N}}]\n"
        + F32
        + "semantics: {ranges: {m: M, n: N}, init: -inf, reduce: 'b[n] max= a[m, n]'}\n",
        (SQUARE,),
        {},
        lambda a: a.max(0),
    ),
    "Interleave": (
        "dims: {rows: {symbol: M, min: 0}, columns: {symbol: N, min: 0}, cells: {symbol: Q, min: 0}}\n"
        "inputs: [{name: a, dims: {M: M, N: N}}]\noutputs: [{name: b, dims: {Q: Q}}]\nshape: {Q: M * N}\n"
        + F32
        + "semantics: {ranges: {m: M, n: N}, reduce: 'b[n * M + m] += a[m, n]'}\n",
        (SQUARE,),
        {},
        lambda a: a.T.reshape(-1),
    ),
    "Diagonals": (
        "dims: {rows: {symbol: M, min: 1}, columns: {symbol: N, min: 1}, cells: {symbol: Q, min: 1}}\n"
        "inputs: [{name: a, dims: {M: M, N: N}}]\noutputs: [{name: b, dims: {Q: Q}}]\nshape: {Q: M + N - 1}\n"
        + F32
        + "semantics: {ranges: {m: M, n: N}, reduce: 'b[n - m + M - 1] += a[m, n]'}\n",
        (SQUARE,),
        {},
        lambda a: np.array([np.trace(a, k) for k in range(-4, 7)]),
    ),
    "PixelShuffle": (
        "dims: {batch: {symbol: N, min: 0}, channels: {symbol: C, min: 0}, rows: {symbol: I, min: 1},"
        " cells: {symbol: O, min: 1}, block: {symbol: B, min: 1}}\n"
        "inputs: [{name: a, dims: {N: N, X: I, R: B, C: C}}]\noutputs: [{name: b, dims: {N: N, X: O, C: C}}]\n"
        "shape: {O: I * B}\n"
        + F32
        + "semantics: {ranges: {n: N, x: I, r: B, c: C}, reduce: 'b[n, x * B + r, c] += a[n, x, r, c]'}\n",
        (np.arange(120, dtype=np.float32).reshape(2, 5, 3, 4),),
        {},
        lambda a: a.reshape(2, 15, 4),
    ),
    "CausalScale": (
        VECTOR.replace(
            "inputs",
            "attributes: [{name: scale, symbol: S, type: f32, default: '0.5'}, {name: reach, symbol: R,"
            " type: s64, min: 0, default: '2'}]\ninputs",
        )
        + F32
        + "semantics: {ranges: {m: M, j: R + 1}, reduce: 'b[m] += a[m - j] * S + R'}\n",
        (A,),
        {"scale": 0.25, "reach": 1},
        lambda a: (a + np.concatenate([[0], a[:-1]])) * 0.25 + np.where(np.arange(7) > 0, 2.0, 1.0),
    ),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Library, ModuleType]]:
    texts = {f"{name}.yaml": HEAD.format(name=name) + body for name, (body, _, _, _) in CASES.items()}
    yield package(texts, Path(tmp_path_factory.mktemp("language")), "language_package")


@pytest.mark.parametrize("name", CASES)
def test_an_operation_of_one_yaml_file_agrees_with_the_interpreter_and_numpy(
    name: str, built: tuple[Library, ModuleType]
) -> None:
    library, module = built
    _, inputs, attributes, expected = CASES[name]
    op = library.op(name)
    result = getattr(module, op.function)(*inputs, **attributes)
    assert (result == expected(*inputs)).all()
    assert (result == interpret.compute(op, inputs, attributes)).all()


@pytest.mark.parametrize("name", CASES)
def test_such_a_kernel_gives_the_same_bits_for_every_number_of_threads(
    name: str, built: tuple[Library, ModuleType]
) -> None:
    library, module = built
    _, inputs, attributes, _ = CASES[name]
    function = getattr(module, library.op(name).function)
    first = function(*inputs, threads=1, **attributes)
    assert all((function(*inputs, threads=threads, **attributes) == first).all() for threads in (2, 3, 8))
