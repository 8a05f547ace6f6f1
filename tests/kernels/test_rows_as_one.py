"""Steps of short rows that follow one another, which know numbers of their rows, give what each row gives by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from opwright.language.library import Library
from opwright.oracle.run_steps import compute_steps
from support.draws import rng
from support.package import package
from support.rulings import DTYPES

pytestmark = pytest.mark.usefixtures("isa")

# What is summed up of a row, what of it then, and what becomes of its cells.
FIRST = ("x[q, r, c] * d[q, r, c]", "abs(x[q, r, c])", "x[q, r, c]")
SECOND = ("(x[q, r, c] - one[q, r]) * d[q, r, c]", "d[q, r, c] * d[q, r, c]", "max(d[q, r, c], one[q, r])")
CELLS = (
    "d[q, r, c] * (x[q, r, c] - two[q, r])",
    "x[q, r, c] - exp(min(d[q, r, c], 0)) * one[q, r] + two[q, r]",
    "(x[q, r, c] + two[q, r]) * rsqrt(1 + one[q, r] * one[q, r])",
)
SPEC = """op: RowsNUMBER
revision: 1
summary: Sums of rows, and rows that are made of them.
dims: {blocks: {symbol: Q}, rows: {symbol: R}, cells: {symbol: C}}
inputs:
  - {name: x, dims: {Q: Q, R: R, C: C}}
  - {name: d, dims: {Q: Q, R: R, C: C}}
outputs:
  - {name: y, dims: {Q: Q, R: R, C: C}}
dtypes:
  - {x: f32, d: f32, y: f32, accumulate: f32}
  - {x: bf16, d: bf16, y: bf16, accumulate: f32}
  - {x: f16, d: f16, y: f16, accumulate: f32}
  - {x: f64, d: f64, y: f64, accumulate: f64}
semantics:
  ranges: {q: Q, r: R, c: C}
  steps:
    - one[q, r] += FIRST
    - two[q, r] += SECOND
    - y[q, r, c] = THIRD
"""
Made = tuple[Library, ModuleType]


def texts() -> dict[str, str]:
    """Every sum and every cell stands in one spec at least."""
    random, found = rng("rows as one"), {}
    orders = [random.permutation(len(CELLS)) for _ in range(3)]
    for number, (first, second, third) in enumerate(zip(*orders, strict=True)):
        text = SPEC.replace("NUMBER", str(number)).replace("FIRST", FIRST[first])
        found[f"rows_{number}.yaml"] = text.replace("SECOND", SECOND[second]).replace("THIRD", CELLS[third])
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    yield package(texts(), tmp_path_factory.mktemp("rows_as_one"), "rows_as_one")


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "f64"])
def test_short_rows_give_what_each_gives_by_itself(made: Made, dtype: str) -> None:
    """The same bits where rows have gaps behind them, in which nothing is written, alone, and for every thread count."""
    library, module = made
    random = rng("rows as one", dtype)
    for op in library.ops:
        call = getattr(module, op.op.lower())
        for cells in (0, 1, 16, 17, 31, 32, 33, 48, 63, 64, 70):
            extents = (int(random.integers(1, 4)), int(random.integers(1, 41)), cells)
            x, d = (random.standard_normal(extents).astype(DTYPES[dtype]) for _ in range(2))
            wanted = call(x, d, threads=1)
            room = np.full((*extents[:2], cells + 3), 77, DTYPES[dtype])
            room[..., :cells] = x
            out = room.copy()
            for threads in (1, 2, 5):
                assert (call(x, d, threads=threads) == wanted).all(), (op.op, extents, threads)
                call(room[..., :cells], d, out=out[..., :cells], threads=threads)
                assert (out[..., :cells] == wanted).all(), (op.op, extents, threads)
                assert (out[..., cells:] == 77).all(), (op.op, extents, threads)
            for q, r in np.ndindex(extents[:2]):
                alone = (slice(q, q + 1), slice(r, r + 1))
                assert (call(x[alone], d[alone], threads=1) == wanted[alone]).all(), (op.op, extents, q, r)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64"])
def test_short_rows_give_what_the_interpreter_gives(made: Made, dtype: str) -> None:
    library, module = made
    random = rng("rows as one", "interpreter", dtype)
    for op in library.ops:
        for extents in ((2, 17, 5), (1, 40, 1), (1, 35, 9), (1, 20, 17), (3, 5, 33), (0, 3, 17), (3, 4, 0)):
            x, d = (random.integers(-3, 4, extents).astype(DTYPES[dtype]) for _ in range(2))
            found = getattr(module, op.op.lower())(x, d)
            wanted = compute_steps(op, [x, d], {})["y"]
            np.testing.assert_allclose(
                found.astype(np.float64), wanted.astype(np.float64), rtol=1e-2 if dtype == "bf16" else 1e-5, atol=1e-5
            )


def test_sums_and_cells_of_short_rows_go_through_all_rows_of_a_group(made: Made) -> None:
    for path in (Path(str(made[1].__file__)).parent / "c").glob("rows?_f32.c"):
        text = path.read_text()
        assert re.search(r"opwright_sum_rows_f32_f32\(terms_\d_, C, C, tasks_, two_of_\);", text), path.name
        row = r"opwright_repeated_f32\(same_\d_of_, 1, 0, C, tasks_ \* C, same_\d_room_\);"
        assert re.search(row, text), path.name
