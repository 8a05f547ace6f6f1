"""Products of which a comparison leaves out terms, of matrices that a remainder reads, and sums of which an index of the
result is a number: contractions, whose results are those of loops where cells are infinite or no numbers, too."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from opwright.derive.phases import staged
from opwright.load import load_texts
from support.capping import capped_at
from support.package import package

SPEC = """op: {op}
revision: 1
summary: A product of a matrix that is made of another.
dims: {{batch: {{symbol: B}}, rows: {{symbol: I, min: 1}}, terms: {{symbol: J, min: 1}}, columns: {{symbol: N}}}}
inputs:
  - {{name: a, dims: {{{a}}}}}
  - {{name: b, dims: {{B: B, J: J, N: N}}}}
outputs:
  - {{name: y, dims: {{{y}}}}}
dtypes:
  - {{a: f32, b: f32, y: f32, accumulate: f32}}
  - {{a: bf16, b: bf16, y: bf16, accumulate: f32}}
semantics:
  ranges: {{g: B, i: I, j: J, n: N}}
  steps:
{steps}
"""
COMPARED = {"<=": operator.le, "<": operator.lt, ">=": operator.ge, ">": operator.gt}
SHAPES = ((2, 33, 33, 17), (1, 7, 70, 33), (3, 64, 5, 1), (1, 1, 1, 1), (2, 40, 40, 0))
TYPES = (np.float32, ml_dtypes.bfloat16)
Made = tuple[ModuleType, list["Case"]]


@dataclass(frozen=True)
class Case:
    """A spec, and the matrix that it multiplies by `b`: of `a`, and which of its cells have no term."""

    op: str
    text: str
    turned: bool
    matrix: Callable[[Any, Any, Any], tuple[Any, Any]]  # of a, the numbers of rows, and those of terms
    parts: int = 1  # of the result's last axis: cells for the product, then for its negative
    beside: bool = False  # whether rows are the result's last axis


def drawn(number: int) -> Case:
    """A condition with a random comparison and distance, either factor first, the matrix turned or not."""
    rng = np.random.default_rng([13, number])
    op, apart, turned = str(rng.choice([*COMPARED])), int(rng.integers(-3, 4)), bool(rng.integers(2))
    factors = ["a[g, j, i]" if turned else "a[g, i, j]", "b[g, j, n]"]
    if rng.integers(2):
        factors.reverse()
    value = " * ".join(factors) + (" / 2" if (halved := bool(rng.integers(2))) else "")
    step = f'    - {{do: "y[g, i, n] += {value}", where: ["j {op} i + {apart}"]}}'
    return Case(
        f"Masked{number}",
        SPEC.format(
            op=f"Masked{number}",
            a="B: B, J: J, I: I" if turned else "B: B, I: I, J: J",
            y="B: B, I: I, N: N",
            steps=step,
        ),
        turned,
        lambda a, i, j: (a / (1 + halved), ~COMPARED[op](j, i + apart)),
    )


def others() -> Iterator[Case]:
    yield Case(
        "Beside",
        SPEC.format(
            op="Beside",
            a="B: B, I: I, J: J",
            y="B: B, N: N, I: I",
            steps='    - {do: "y[g, n, i] += a[g, i, j] * b[g, j, n]", where: [j < i]}',
        ),
        False,
        lambda a, i, j: (a, j >= i),
        beside=True,
    )
    around = "    - y[g, i, n] += a[g, (i - j) % I] * b[g, j, n]"
    yield Case(
        "Around",
        SPEC.format(op="Around", a="B: B, I: I", y="B: B, I: I, N: N", steps=around),
        False,
        lambda a, i, j: (a[:, (i - j) % a.shape[1]], (i < 0) & (j < 0)),
    )
    pieces = "    - y[g, i, n, 0] += a[g, i, j] * b[g, j, n]\n    - y[g, i, n, 1] += a[g, i, j] * b[g, j, n] + b[g, j, n] * a[g, i, j]"
    yield Case(
        "Pieces",
        SPEC.format(op="Pieces", a="B: B, I: I, J: J", y="B: B, I: I, N: N, Z: 2", steps=pieces),
        False,
        lambda a, i, j: (a, (i < 0) & (j < 0)),
        2,
    )


CASES = [*map(drawn, range(4)), *others()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op)
def test_they_are_contractions(case: Case) -> None:
    (op,) = load_texts({f"{case.op.lower()}.yaml": case.text}).ops
    assert any(phase.contraction is not None for phase in staged(op).phases)


def test_sums_are_looked_at_along_the_last_axis() -> None:
    """Lanes go along it: other rows would leave out none."""
    for case in CASES:
        program = staged(load_texts({"case.yaml": case.text}).ops[0]).program
        found = [array for name, array in program.arrays.items() if name.startswith("unsure")]
        assert all(["g", "n" if case.beside else "i"] == [axis.name for axis in array.axes] for array in found)
        assert found or "where" not in case.text


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    texts = {f"{case.op.lower()}.yaml": case.text for case in CASES}
    folder = tmp_path_factory.mktemp("masked")
    yield package(texts, folder, "masked_package")[1], CASES


def test_lanes_go_along_rows_of_the_result_whatever_is_read_only_where_sums_are_no_numbers(made: Made) -> None:
    kernels, _ = made
    a, b = np.zeros((2, 70, 33), np.float32), np.zeros((2, 33, 90), np.float32)
    lanes = [name for name, _ in kernels.explain("Beside", a, b).schedules if name.startswith("lanes")]
    assert lanes[-1] == "lanes along i"


@pytest.fixture(params=["portable", "avx2", "avx512", "avx512_bf16"])
def capped(made: Made, request: pytest.FixtureRequest) -> Iterator[str]:
    _ = made[0].masked0  # loads the modules of the package
    with capped_at(made[0], request.param) as isa:
        yield isa


def expected(case: Case, a: Any, b: Any) -> Any:
    """Term by term, without those that the spec leaves out."""
    wide, right = a.astype(np.float32), b.astype(np.float32)
    if case.turned:
        wide = wide.swapaxes(1, 2)
    rows = wide.shape[1]
    matrix, left_out = case.matrix(wide, np.arange(rows)[:, None], np.arange(right.shape[1]))
    terms = matrix[..., None] * right[:, None]
    terms = np.where(np.broadcast_to(left_out, terms.shape[1:3])[None, ..., None], 0, terms)
    total = terms.sum(2).swapaxes(1, 1 + case.beside)
    return total if case.parts == 1 else np.stack([total, 2 * total], -1)


def test_terms_that_are_left_out_change_nothing_even_if_they_are_infinite(made: Made, capped: str) -> None:
    kernels, cases = made
    for number, case in enumerate(cases):
        for shape in SHAPES:
            rng = np.random.default_rng([17, number, *shape])
            batch, rows, terms, columns = shape
            for dtype in TYPES:
                b = rng.integers(-3, 4, (batch, terms, columns)).astype(np.float32)
                sizes = (
                    (batch, rows)
                    if case.op == "Around"
                    else (batch, terms, rows)
                    if case.turned
                    else (batch, rows, terms)
                )
                a = rng.integers(-3, 4, sizes).astype(np.float32)
                for array in (a, b) if rng.integers(3) else ():
                    spots = rng.random(array.shape) < 0.05
                    array[spots] = rng.choice([np.inf, -np.inf, np.nan], array.shape)[spots]
                found = [getattr(kernels, case.op.lower())(a.astype(dtype), b.astype(dtype), threads=n) for n in (1, 3)]
                with np.errstate(invalid="ignore"):
                    wanted = expected(case, a, b).astype(dtype)
                np.testing.assert_array_equal(
                    found[0].astype(np.float32), wanted.astype(np.float32), f"{case.text} {shape}"
                )
                assert found[0].tobytes() == found[1].tobytes()
