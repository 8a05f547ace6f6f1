"""Sums over the same letters, which are made in one pass over the rows that they read, give what the interpreter gives."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from opwright.emit.nodes import For, Stmt
from opwright.emit.steps.kernels import step_unit
from opwright.language.library import Library
from opwright.oracle.run_steps import compute_steps
from support.draws import rng
from support.package import package
from support.rulings import DTYPES

# What is summed up, of rows and of columns; the last does not read what the others do.
TERMS = {"x[r, c] * d[r, c]": "+=", "d[r, c] - w[c]": "+=", "x[r, c] + w[c]": "max=", "w[c] * m[r]": "+="}
COUNT = 4  # specs
SPEC = """op: SumsNUMBER
revision: 1
summary: Several sums of rows and of columns.
dims: {rows: {symbol: R}, cells: {symbol: C}}
attributes:
  - {name: some, type: bool, default: "true"}
  - {name: order, type: string, required: true, values: [RC, CR]}
layouts: {order: {RC: [R, C], CR: [C, R]}}
inputs:
  - {name: x, layout: order, dims: {R: R, C: C}}
  - {name: d, layout: order, dims: {R: R, C: C}}
  - {name: w, dims: {C: C}}
  - {name: m, dims: {R: R}}
outputs:
  - {name: y, layout: order, dims: {R: R, C: C}}
  - {name: first, dims: {C: C}}
  - {name: second, dims: {C: C}, when: some}
  - {name: third, dims: {C: C}, when: some}
dtypes:
  - {x: f32, d: f32, w: f32, m: f32, y: f32, first: f32, second: f32, third: f32, accumulate: f32}
  - {x: bf16, d: bf16, w: bf16, m: bf16, y: bf16, first: bf16, second: bf16, third: bf16, accumulate: f32}
semantics:
  ranges: {r: R, c: C}
  steps:
    - first[c] OP0 TERM0
    - second[c] OP1 TERM1
    - third[c] OP2 TERM2
    - one[r] OP3 TERM3
    - two[r] OP4 TERM4
    - y[r, c] = x[r, c] + one[r] - two[r]
"""
SHIFTED = """op: ShiftedNUMBER
revision: 1
summary: Sums beside each other, of which a later step reads those of another row.
dims: {rows: {symbol: R}, terms: {symbol: K}, cells: {symbol: C}}
inputs:
  - {name: x, dims: {R: R, K: K, C: C}}
  - {name: w, dims: {R: R, K: K, C: C}}
outputs:
  - {name: y, dims: {R: R, C: C}}
dtypes:
  - {x: f32, w: f32, y: f32, accumulate: f32}
semantics:
  ranges: {r: R, k: K, c: C}
  steps:
    - one[r, c] += x[r, k, c]
    - two[r, c] += x[r, k, c] * w[r, k, c]
    - y[r, c] = one[FIRST, c] + two[SECOND, c]
"""
ROWS = ("r", "R - 1 - r")
Made = tuple[Library, ModuleType]


def texts() -> dict[str, str]:
    random, found = rng("sums beside"), {}
    for number in range(COUNT):
        text = SPEC.replace("NUMBER", str(number))
        for place in range(5):
            term = list(TERMS)[int(random.integers(len(TERMS)))]
            text = text.replace(f"TERM{place}", term).replace(f"OP{place}", TERMS[term])
        found[f"sums{number}.yaml"] = text
    for number, (first, second) in enumerate(itertools.product(ROWS, ROWS)):
        text = SHIFTED.replace("NUMBER", str(number)).replace("FIRST", first).replace("SECOND", second)
        found[f"shifted{number}.yaml"] = text
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    folder = tmp_path_factory.mktemp("beside")
    yield package(texts(), folder, "beside_package")


def test_sums_in_one_pass_give_what_the_interpreter_gives(made: Made) -> None:
    library, built = made
    random = rng("sums beside calls")
    sizes = [(1, 1), (3, 31), (40, 33), (130, 65), (5, 300), (300, 129), (0, 4), (4, 0)]
    for number, (rows, cells), order, some in itertools.product(range(COUNT), sizes, ("RC", "CR"), (True, False)):
        dtype = DTYPES["bf16" if random.integers(2) else "f32"]
        matrix = (rows, cells) if order == "RC" else (cells, rows)
        inputs = [random.integers(-2, 3, extents).astype(dtype) for extents in (matrix, matrix, (cells,), (rows,))]
        call = getattr(built, f"sums{number}")
        found = [call(*inputs, some=some, order=order, threads=threads) for threads in (1, 3)]
        expected = compute_steps(library.op(f"Sums{number}"), inputs, {"some": some, "order": order})
        for one in found:
            for name, cells_of in zip(("y", "first", "second", "third"), one, strict=False):
                if name in expected:
                    np.testing.assert_array_equal(cells_of, expected[name], err_msg=f"{name} {matrix} {order}")


def test_steps_after_sums_in_one_pass_may_read_those_of_other_rows(made: Made) -> None:
    library, built = made
    random = rng("sums of other rows")
    for number, extents in itertools.product(range(len(ROWS) ** 2), [(5, 7, 33), (4, 3, 64), (3, 200, 20), (1, 1, 1)]):
        inputs = [random.integers(-2, 3, extents).astype(np.float32) for _ in range(2)]
        expected = compute_steps(library.op(f"Shifted{number}"), inputs, {})["y"]
        found = getattr(built, f"shifted{number}")(*inputs)
        np.testing.assert_array_equal(found, expected, err_msg=f"{number} {extents}")


def loops(body: tuple[Stmt, ...]) -> Iterator[For]:
    for stmt in body:
        if isinstance(stmt, For):
            yield stmt
        yield from loops(getattr(stmt, "body", ()))


def test_both_sums_of_a_gradient_of_scale_and_shift_stand_in_one_loop(made: Made) -> None:
    """Some loop over rows adds to a tile of each."""
    (kernel, *_) = step_unit(made[0].op("Sums0")).kernels
    bodies = [function.body for phase in kernel.phases for function in phase.functions]
    arrays = [str(loop.body) for body in bodies for loop in loops(body)]
    assert any("tile_1_" in text and "'tile_'" in text for text in arrays)
