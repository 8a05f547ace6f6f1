"""Rows whose cells follow one another are taken in vectors; all others, and all lengths, give the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.draws import rng
from support.package import package
from support.rulings import DTYPES

pytestmark = pytest.mark.usefixtures("isa")

SPEC = """
op: RowsInVectors
revision: 1
summary: Rows less their sums with others, and what rows of all tasks add up to.
dims: {rows: {symbol: N}, cells: {symbol: C}}
inputs:
  - {name: a, dims: {N: N, C: C}}
  - {name: b, dims: {N: N, C: C}}
  - {name: w, dims: {C: C}}
outputs:
  - {name: y, dims: {N: N, C: C}}
  - {name: z, dims: {C: C}}
dtypes:
  - {a: f32, b: f32, w: f32, y: f32, z: f32, accumulate: f32}
  - {a: bf16, b: bf16, w: f32, y: bf16, z: f32, accumulate: f32}
  - {a: f16, b: f16, w: f16, y: f16, z: f32, accumulate: f32}
  - {a: f32, b: bf16, w: f16, y: f32, z: f32, accumulate: f32}
semantics:
  ranges: {n: N, c: C}
  steps:
    - t[n] += a[n, c] * b[n, c]
    - u[n] += (a[n, c] - w[c]) * 0.5
    - z[c] += a[n, c] - b[n, c]
    - y[n, c] = -b[n, c] * (w[c] - 3) - t[n] + u[n] / 2
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return package({"RowsInVectors.yaml": SPEC}, tmp_path_factory.mktemp("vectors"), "rows_in_vectors")[1]


def laid(values: np.ndarray, form: str) -> tuple[np.ndarray, np.ndarray]:
    """Values in memory as they stand, with gaps behind rows or between cells, or side by side; and these gaps."""
    rows, cells = values.shape
    room = np.full((rows, 2 * cells + 3), 7, values.dtype)
    places: dict[str, tuple[Any, Any]] = {
        "plain": (np.empty(values.shape, values.dtype), room),
        "gap": (room[:, :cells], room[:, cells:]),
        "apart": (room[:, : 2 * cells : 2], room[:, 1::2]),
        "turned": (np.empty(values.T.shape, values.dtype).T, room),
    }
    found, gaps = places[form]
    found[...] = values
    return found, gaps


def test_rows_that_are_written_and_summed_are_vectors(module: Any) -> None:
    texts = [path.read_text() for path in (Path(module.__file__).parent / "c").glob("rows_in_vectors_*.c")]
    assert len(texts) == 4
    for text in texts:
        assert "opwright_put_lanes_" in text
        assert "opwright_sum_lanes_f32" in text


@pytest.mark.parametrize(
    "kinds", [("f32",) * 4, ("bf16", "bf16", "f32", "bf16"), ("f16",) * 4, ("f32", "bf16", "f16", "f32")]
)
def test_rows_of_every_length_and_layout_give_what_numpy_gives(module: Any, kinds: tuple[str, ...]) -> None:
    """Small integers, of which all sums are exact, in rows around the bounds of vectors, for every number of threads."""
    random = rng("rows in vectors", *kinds)
    first, second, weights, stored = (DTYPES[kind] for kind in kinds)
    for cells in (1, 2, 7, 8, 15, 16, 17, 24, 31, 32, 33, 48, 49, 63, 64, 65, 100, 127, 128, 530):
        rows = int(random.choice([1, 3, 16, 33, 70]))
        forms = [str(random.choice(["plain", "plain", "plain", "gap", "apart", "turned"])) for _ in range(3)]
        a, b = (random.integers(-2, 3, (rows, cells)).astype(np.float32) for _ in range(2))
        w = (2 * random.integers(-1, 2, cells)).astype(np.float32)
        wanted = -b * (w - 3) - (a * b).sum(1, keepdims=True) + ((a - w) * 0.5).sum(1, keepdims=True) / 2
        for threads in (1, 3):
            out, gaps = laid(np.full((rows, cells), 5, stored), forms[2])
            given = (laid(a.astype(first), forms[0])[0], laid(b.astype(second), forms[1])[0], w.astype(weights))
            y, z = module.rows_in_vectors(*given, out=(out, None), threads=threads)
            assert y is out
            assert (y.astype(np.float32) == wanted.astype(stored).astype(np.float32)).all(), (rows, cells, forms)
            assert (gaps == 7).all(), (rows, cells, forms)
            assert (z == (a - b).sum(0)).all(), (rows, cells, forms)
