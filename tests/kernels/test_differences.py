"""Sums over pairs of rows, of squares of differences or of their absolute values: random specs and calls on every
instruction set, held against the interpreter."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from opwright.derive.phases import staged
from opwright.language.library import Library
from opwright.oracle.run_steps import compute_steps
from support import random_contractions
from support.capping import capped_at
from support.package import package
from support.random_contractions import DTYPES, ROWS, Drawn

TERMS = ("({0} - {1}) * ({0} - {1})", "abs({0} - {1})", "pow({1} - {0}, 2)")
FINISHES = {1: "max({0} + {1}, {2})", 3: "{0} * 0.5", 5: "min({0}, {1})"}
NEAREST = """op: Nearest
revision: 1
summary: The least squared distance of each row to those of another array.
dims: {rows: {symbol: M}, others: {symbol: N}, cells: {symbol: K}}
inputs: [{name: a, dims: {M: M, K: K}}, {name: b, dims: {N: N, K: K}}]
outputs: [{name: least, dims: {M: M}}]
dtypes: [{a: f32, b: f32, least: f32, accumulate: f32}]
semantics:
  ranges: {m: M, n: N, k: K}
  steps:
    - far[m, n] += (a[m, k] - b[n, k]) * (a[m, k] - b[n, k])
    - least[m] min= far[m, n]
"""
WHICH = NEAREST.replace("op: Nearest", "op: NearestOf").replace("}}]\ndtypes", "}}, {name: at, dims: {M: M}}]\ndtypes")
WHICH = WHICH.replace("least: f32,", "least: f32, at: s32,")
WHICH += "    - at[m] min= select(far[m, n] == least[m], number(n), inf)\n"
COUNT = 6
Made = tuple[Library, ModuleType, list[Drawn]]


def over_pairs(library: Library, op: str) -> list[str]:
    """The terms of the sums that an engine makes."""
    return [phase.contraction.term for phase in staged(library.op(op)).phases if phase.contraction is not None]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    rng = np.random.default_rng(11)
    drawn = [
        random_contractions.draw(rng, f"Difference{n}", FINISHES.get(n, ""), term=TERMS[n % len(TERMS)])
        for n in range(COUNT)
    ]
    texts = {f"difference{n}.yaml": one.text for n, one in enumerate(drawn)} | {"nearest.yaml": NEAREST}
    texts["nearest_of.yaml"] = WHICH
    return *package(texts, tmp_path_factory.mktemp("differences"), "differences_package"), drawn


@pytest.fixture(params=["avx2", "avx512"])
def capped(made: Made, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of an instruction set above which nothing is used."""
    _ = made[1].difference0  # loads the modules of the package
    with capped_at(made[1], request.param) as isa:
        yield isa


def test_random_sums_of_differences_are_exact_on_every_instruction_set(
    made: Made, capped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, kernels, drawn = made
    ran: list[str] = []
    contractions = sys.modules[f"{kernels.__name__}._contractions"]
    put = contractions.Product.put

    def counting(product: Any, *given: Any) -> None:
        ran.append(product.engine.isa.name)
        put(product, *given)

    monkeypatch.setattr(contractions.Product, "put", counting)
    rng = np.random.default_rng(12)
    for one, _ in itertools.product(drawn, range(10)):
        read, written = ROWS[int(rng.integers(len(ROWS)))]
        inputs = random_contractions.inputs(rng, one, read, 200_000)
        call = f"{one.op} {one.factors} -> {one.out} {read} {written} {[array.shape for array in inputs]}"
        expected = compute_steps(library.op(one.op), inputs, {"made": written})["out_0"]
        found = []
        for threads in (1, 3):
            sys.modules[f"{kernels.__name__}._remember"].CALLS.clear()
            found.append(getattr(kernels, library.op(one.op).function)(*inputs, made=written, threads=threads))
        assert (found[0].astype(np.float64) == expected.astype(np.float64)).all(), call
        assert found[0].tobytes() == found[1].tobytes(), call
    assert {*ran} == {capped}
    assert {term for one in drawn for term in over_pairs(library, one.op)} == {"squares", "distances"}


@pytest.mark.parametrize("shape", [(300, 200, 1100), (3, 5000, 70), (2000, 7, 33), (9, 40, 0)], ids=str)
def test_all_threads_give_the_same_bits(made: Made, shape: tuple[int, int, int]) -> None:
    library, kernels, drawn = made
    rng = np.random.default_rng(13)
    one = next(one for one in drawn if over_pairs(library, one.op) == ["squares"])
    sizes = dict(zip(sorted({*"".join(one.factors)}), itertools.cycle((2, 3, 1, 2))))
    own = [[c for c in one.factors[n] if c not in one.factors[1 - n] and c in one.out] for n in (0, 1)]
    summed = [c for c in one.factors[0] if c not in one.out]
    sizes |= {own[0][0]: shape[0], own[1][0]: shape[1], summed[0]: shape[2]}
    inputs = [
        rng.normal(size=[sizes[c] for c in factor]).astype(DTYPES["f32"]) for factor in (*one.factors, *one.others)
    ]
    found = [
        getattr(kernels, library.op(one.op).function)(*inputs, made="f32", threads=threads) for threads in (1, 2, 3)
    ]
    expected = compute_steps(library.op(one.op), inputs, {"made": "f32"})["out_0"]
    np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-5)
    assert len({array.tobytes() for array in found}) == 1


def test_distances_that_only_their_least_is_read_of_are_not_kept(made: Made) -> None:
    library, kernels, _ = made
    assert over_pairs(library, "Nearest") == []
    rng = np.random.default_rng(14)
    a, b = (rng.integers(-3, 4, (count, 20)).astype(np.float32) for count in (50, 70))
    expected = ((a[:, None] - b) ** 2).sum(2).min(1)
    assert (kernels.nearest(a, b) == expected).all()


def test_distances_that_several_steps_read_are_those_of_the_engine(made: Made) -> None:
    library, kernels, _ = made
    assert over_pairs(library, "NearestOf") == ["squares"]
    rng = np.random.default_rng(16)
    a, b = (rng.integers(-3, 4, (count, 20)).astype(np.float32) for count in (50, 70))
    far = ((a[:, None] - b) ** 2).sum(2)
    least, at = kernels.nearest_of(a, b)
    assert (least == far.min(1)).all()
    assert (at == far.argmin(1)).all()


def test_infinite_and_missing_cells_stay_in_their_rows(made: Made) -> None:
    library, kernels, drawn = made
    one = next(one for one in drawn if over_pairs(library, one.op))
    rng = np.random.default_rng(15)
    inputs = [array.copy() for array in random_contractions.inputs(rng, one, "f32", 200_000)]
    inputs[0].flat[0], inputs[1].flat[-1] = np.nan, np.inf
    expected = compute_steps(library.op(one.op), inputs, {"made": "f32"})["out_0"]
    np.testing.assert_array_equal(getattr(kernels, library.op(one.op).function)(*inputs, made="f32"), expected)


@pytest.mark.parametrize("term", TERMS)
def test_distances_that_no_engine_sums_have_lanes_along_rows_that_are_turned(term: str, tmp_path: Path) -> None:
    """No engine has differences of f64: lanes go along the rows of a side, of which each has few cells."""
    step = f"far[m, n] += {term.format('a[m, k]', 'b[n, k]')}"
    text = NEAREST.replace("outputs: [{name: least, dims: {M: M}}]", "outputs: [{name: far, dims: {M: M, N: N}}]")
    text = text.replace(
        "least: f32, accumulate: f32}", "far: f32, accumulate: f32}, {a: f64, b: f64, far: f64, accumulate: f64}"
    )
    text = text[: text.index("    - far")] + f"    - {step}\n"
    word = "".join(letter for letter in term if letter.isalnum())
    library, kernels = package({"nearest.yaml": text}, tmp_path, f"turned_{word}")
    assert len(over_pairs(library, "Nearest")) == 1
    rng = np.random.default_rng(17)
    shapes = (8, 17, 1), (50, 600, 3), (8, 16, 40), (50, 33, 8), (9, 40, 300)
    for (rows, others, cells), dtype in itertools.product(shapes, (np.float64, np.float32)):
        a, b = (rng.integers(-9, 10, (count, cells)).astype(dtype) for count in (rows, others))
        a, b = (x if rng.random() < 0.7 else x[:, ::-1] for x in (a, b))
        apart = a[:, None] - b
        expected = (abs(apart) if "abs" in term else apart * apart).sum(2)
        for threads in (1, 3):
            np.testing.assert_array_equal(kernels.nearest(a, b, threads=threads), expected)
        assert ("turned" in str(kernels.explain("nearest", a, b))) == (cells <= 256)
