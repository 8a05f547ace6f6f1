"""Sums of products from their plain semantics: random specs and calls on every instruction set, held against the
interpreter."""

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
from opwright.derive.rewrites.as_steps import as_steps
from opwright.language.library import Library
from opwright.language.model import Op
from opwright.oracle import interpret
from opwright.oracle.run_steps import compute_steps
from support import random_contractions
from support.capping import capped_at
from support.guarded import guarded
from support.package import package
from support.random_contractions import DTYPES, OF_PRODUCTS, Drawn

SPECS = Path(__file__).parents[1] / "data" / "steps"
COUNT = 9
FINISHES = {  # by the number of the spec
    2: "max({0} + {1}, {2})",
    4: "({0} - {1}) * 0.5",
    6: "abs({0}) + {1} * {2}",
    7: "max({0} * 0.5, 1)",
}
ROWS_OF_RUN = """op: RowsOfRun
revision: 1
summary: A product whose rows are any number of axes, and whose result lies the other way.
dims:
  rows: {symbol: B, run: true}
  terms: {symbol: C}
  columns: {symbol: M}
inputs:
  - {name: src, dims: {B: B, C: C}}
  - {name: weights, dims: {M: M, C: C}}
outputs:
  - {name: dst, dims: {M: M, B: B}}
dtypes:
  - {src: f32, weights: f32, dst: f32, accumulate: f32}
semantics:
  ranges: {b: B, c: C, m: M}
  steps:
    - sums[m, b] += src[b, c] * weights[m, c]
    - dst[m, b] = max(sums[m, b], -3) * 2
"""
BATCH_LAST = """op: BatchLast
revision: 1
summary: Products of several matrices, whose cells lie beside each other.
dims: {batch: {symbol: B}, rows: {symbol: M}, terms: {symbol: K}, columns: {symbol: N}}
inputs: [{name: a, dims: {B: B, M: M, K: K}}, {name: b, dims: {K: K, N: N, B: B}}]
outputs: [{name: dst, dims: {M: M, N: N, B: B}}]
dtypes:
  - {a: f32, b: bf16, dst: bf16, accumulate: f32}
  - {a: f32, b: f32, dst: f32, accumulate: f32}
semantics:
  ranges: {p: B, m: M, n: N, k: K}
  steps:
    - sums[m, n, p] += a[p, m, k] * b[k, n, p]
    - dst[m, n, p] = max(sums[m, n, p], 1)
"""
TOLERANCES = {
    "f32": {"rtol": 1e-4, "atol": 1e-3},
    "bf16": {"rtol": 2e-2, "atol": 1e-3},
    "f64": {"rtol": 1e-12, "atol": 1e-11},
}
F64 = "  - {src: f64, weights: f64, bias: f64, dst: f64, accumulate: f64}\n"
REDUCES = (5, 7)  # those of one `reduce`
PARTLY = {1: random_contractions.PARTLY[0], 3: random_contractions.PARTLY[1]}  # those that loops compute in part
Made = tuple[Library, ModuleType, list[Drawn]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    rng = np.random.default_rng(1)
    drawn = [
        random_contractions.draw(rng, f"Product{n}", FINISHES.get(n, ""), steps=n not in REDUCES, letters=PARTLY.get(n))
        for n in range(COUNT)
    ]
    texts = {f"product{n}.yaml": one.text for n, one in enumerate(drawn)}
    mat_mul = (SPECS / "mat_mul.yaml").read_text(encoding="utf-8")
    texts["mat_mul.yaml"] = mat_mul.replace("dtypes:\n", f"dtypes:\n{F64}", 1)
    texts["rows_of_run.yaml"] = ROWS_OF_RUN
    texts["batch_last.yaml"] = BATCH_LAST
    return *package(texts, tmp_path_factory.mktemp("contractions"), "contractions_package"), drawn


def parts_of(kernels: ModuleType) -> tuple[ModuleType, ModuleType]:
    """The package's modules of contractions and of instruction sets."""
    _ = kernels.product0
    return sys.modules[f"{kernels.__name__}._contractions"], sys.modules[f"{kernels.__name__}._isa"]


def forget(kernels: ModuleType) -> None:
    """Calls like ones before are planned again."""
    sys.modules[f"{kernels.__name__}._remember"].CALLS.clear()


@pytest.fixture(params=["avx2", "avx512", "avx512_bf16", "amx_bf16"])
def capped(made: Made, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of an instruction set above which nothing is used."""
    _ = made[1].product0  # loads the modules of the package
    with capped_at(made[1], request.param) as isa:
        yield isa


@pytest.fixture
def counted(made: Made, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The instruction sets of the contractions that calls were planned with."""
    contractions, _ = parts_of(made[1])
    ran: list[str] = []
    put = contractions.Product.put

    def counting(product: Any, *given: Any) -> None:
        ran.append(product.engine.isa.name)
        put(product, *given)

    monkeypatch.setattr(contractions.Product, "put", counting)
    return ran


def products(op: Op) -> int:
    """The contractions of an operation."""
    return sum(phase.contraction is not None for phase in staged(as_steps(op)).phases)


def test_random_products_are_exact_on_every_instruction_set(made: Made, capped: str, counted: list[str]) -> None:
    library, kernels, drawn = made
    rng = np.random.default_rng([2, len(capped)])
    left = 0
    for one, number in itertools.product(drawn, range(6)):
        steps = int(one.op[7:]) not in REDUCES
        rows = OF_PRODUCTS if steps else OF_PRODUCTS[::2]
        read, written = rows[int(rng.integers(len(rows)))]
        attributes = {"made": written} if steps else {}
        inputs = random_contractions.inputs(rng, one, read, 300_000)
        before = len(counted)
        call = f"{one.op} {one.factors} -> {one.out} {read} {written} {[array.shape for array in inputs]} {number}"
        op = library.op(one.op)
        expected = compute_steps(op, inputs, attributes)["out_0"] if steps else interpret.compute(op, inputs, {})
        function = getattr(kernels, library.op(one.op).function)
        found = []
        for threads in (1, 3):
            forget(kernels)
            found.append(function(*inputs, **attributes, threads=threads))
        assert found[0].dtype == DTYPES[written], call
        assert (found[0].astype(np.float64) == expected.astype(np.float64)).all(), call
        assert found[0].tobytes() == found[1].tobytes(), call
        told = str(kernels.explain(op.function, *inputs, **attributes)).count("a contraction for")
        assert len(counted) - before == 3 * told, call  # of both calls, and of what explains them
        left += products(op) - told
    assert left <= 1  # product of all, which the strides of a call leave to loops
    assert {*counted} <= {capped, "avx512"}
    assert capped in counted


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64"])
def test_rows_that_end_within_a_vector_leave_what_lies_behind_them(made: Made, capped: str, dtype: str) -> None:
    _, kernels, _ = made
    rng = np.random.default_rng([len(capped), len(dtype)])
    for rows, columns, terms in ((1001, 20, 24), (333, 9, 30), (97, 33, 16), (515, 47, 70), (30, 25, 8), (211, 1, 40)):
        a, b = (rng.integers(-2, 3, shape).astype(DTYPES[dtype]) for shape in ((rows, terms), (terms, columns)))
        for threads in (1, 3):
            whole = np.full(rows * columns + 64, 7, DTYPES[dtype])
            kernels.mat_mul(a, b, out=whole[: rows * columns].reshape(rows, columns), threads=threads)
            wanted = a.astype(np.float64) @ b.astype(np.float64)
            assert (whole[: rows * columns].reshape(rows, columns).astype(np.float64) == wanted).all(), (rows, columns)
            assert (whole[rows * columns :] == 7).all(), (rows, columns)


def test_an_output_with_gaps_is_written_where_it_is(made: Made) -> None:
    _, kernels, _ = made
    a, b = (np.arange(35).reshape(5, 7) % 4).astype(np.float32), (np.arange(147).reshape(7, 21) % 5).astype(np.float32)
    for order in ("C", "F"):
        whole = np.full((10, 42), -1, np.float32, order=order)
        out = whole[::2, ::2]
        assert kernels.mat_mul(a, b, out=out) is out
        assert (out == a @ b).all()
        assert (whole[1::2] == -1).all()
        assert (whole[:, 1::2] == -1).all()


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64"])
@pytest.mark.parametrize(
    "shape",
    [
        *[(1, 700, 1200), (300, 1, 700), (3, 5, 5000), (8, 67, 4100), (19, 300, 1100), (131, 257, 1100), (700, 33, 2)],
        *[(1500, 100, 130), (1500, 100, 131), (900, 290, 66)],  # of which rows are read in place, or copied
        *[
            (300, 2050, 1100),
            (120, 16, 2048),
            (90, 31, 514),
            (300, 20, 300),
            (64, 96, 400),
            (256, 48, 592),
            (96, 130, 280),
            (37, 64, 1300),
        ],
    ],
    ids=str,
)
def test_all_threads_give_the_same_bits(made: Made, shape: tuple[int, int, int], dtype: str) -> None:
    _, kernels, _ = made
    rng = np.random.default_rng(3)
    rows, columns, terms = shape
    for transpose_a, transpose_b in ((False, False), (True, True)):
        a = rng.normal(size=(terms, rows) if transpose_a else (rows, terms)).astype(DTYPES[dtype])
        b = rng.normal(size=(columns, terms) if transpose_b else (terms, columns)).astype(DTYPES[dtype])
        options = {"transpose_a": transpose_a, "transpose_b": transpose_b}
        found = [kernels.mat_mul(a, b, **options, threads=threads) for threads in (1, 2, 3, 4)]
        wide = (a.T if transpose_a else a).astype(np.float64) @ (b.T if transpose_b else b).astype(np.float64)
        np.testing.assert_allclose(found[0].astype(np.float64), wide, **TOLERANCES[dtype])
        assert len({array.tobytes() for array in found}) == 1


def test_few_rows_of_many_terms_add_up_exactly_with_any_number_of_columns(made: Made) -> None:
    """Rows and columns are taken in fours, the last ones alone; many rows only beside a matrix beyond the caches."""
    rng = np.random.default_rng(8)
    for rows, dtype in itertools.product(range(1, 27), ("f32", "bf16", "f64")):
        columns, terms = rows + int(rng.integers(1, 70)), int(rng.integers(min(rows, 8) * 128, 4200))
        columns = max(columns, (1 << 18) // terms + 5) if rows > 8 else columns
        a, b = (rng.integers(-2, 3, (count, terms)).astype(DTYPES[dtype]) for count in (rows, columns))
        wanted = a.astype(np.float32) @ b.astype(np.float32).T
        for left, right, expected in ((a, b, wanted), (b, a, wanted.T)):
            found = made[1].mat_mul(left, right, transpose_b=True)
            assert (found == expected.astype(found.dtype)).all(), (rows, columns, terms, dtype)


def test_sums_of_few_rows_stay_in_their_rows(made: Made) -> None:
    """Rows of sums have room for 1024 or 4096 columns, and the last of fewer columns are added up alone."""
    rng = np.random.default_rng(10)
    for rows, columns, dtype in itertools.product((1, 2, 3), (1021, 1022, 1023, 2047, 4099), ("f32", "bf16", "f64")):
        a, b = (rng.integers(-2, 3, (count, 19)).astype(DTYPES[dtype]) for count in (rows, columns))
        wanted = a.astype(np.float32) @ b.astype(np.float32).T
        for right in (b.T, np.ascontiguousarray(b.T)):
            found = made[1].mat_mul(a, right, threads=2)
            assert (found == wanted.astype(found.dtype)).all(), (rows, columns, dtype)


def test_any_number_of_rows_that_lie_side_by_side_add_up_exactly(made: Made) -> None:
    """They are read where they are, if they lie close enough; the matrix on the right is packed, or lies in crowded lines."""
    rng = np.random.default_rng(11)
    extents = itertools.product((9, 31, 50, 197), (17, 40, 256), (1, 3, 511, 1030), ("f32", "f64"))
    for rows, columns, terms, dtype in extents:
        a, b = (rng.integers(-2, 3, (terms, count)).astype(DTYPES[dtype]) for count in (rows + 5, columns))
        wanted = a.T @ b
        for left, expected in ((a, wanted), (a[:, 2 : rows + 2], wanted[2 : rows + 2])):
            found = made[1].mat_mul(left, b, transpose_a=True, threads=2)
            assert (found == expected).all(), (rows, columns, terms, dtype)


def test_what_lies_behind_columns_that_are_read_in_place_is_in_no_sum(made: Made) -> None:
    """The last vector of a row ends behind the last column, of short ones behind the next row, too; there may be none of each."""
    rng = np.random.default_rng(13)
    shapes = (
        (1, 33, 17), (3, 9, 65), (2, 100, 21), (1, 9, 11), (2, 6, 5), (3, 1, 3), (1, 10, 43),
        (1, 5, 0), (2, 0, 7), (0, 3, 9),
    )  # fmt: skip
    for (count, rows, columns), terms, gap, dtype in itertools.product(
        shapes, (0, 1, 2, 40, 1030), (0, 20), ("f32", "f64")
    ):
        a = rng.integers(-2, 3, (count, terms, rows)).astype(DTYPES[dtype])
        room = np.full((count, terms, columns + gap), np.nan, DTYPES[dtype])
        room[..., :columns] = rng.integers(-2, 3, (count, terms, columns))
        b = guarded(room, bool(rng.integers(2)))[..., :columns]
        wanted = a.transpose(0, 2, 1) @ b
        for left in (a.transpose(0, 2, 1), np.ascontiguousarray(a.transpose(0, 2, 1))):
            found = [made[1].mat_mul(left, b, threads=threads) for threads in (1, 2)]
            assert (found[0] == wanted).all(), (count, rows, columns, terms, dtype)
            assert found[0].tobytes() == found[1].tobytes(), (count, rows, columns, terms, dtype)


def test_many_products_of_few_cells_are_exact(made: Made) -> None:
    """Neither side need have columns side by side; sums are stored, or a bias is added to them."""
    rng = np.random.default_rng(14)
    for rows, columns, terms, dtype in itertools.product(
        (1, 3, 4), (1, 2, 4), (1, 3, 4, 7, 40), ("f32", "bf16", "f64")
    ):
        a, b = (rng.integers(-2, 3, (30, count, terms)).astype(DTYPES[dtype]) for count in (rows, columns))
        bias = rng.integers(-2, 3, columns).astype(DTYPES[dtype])
        wanted = a.astype(np.float32) @ b.astype(np.float32).swapaxes(1, 2)
        for added, expected in ((None, wanted), (bias, wanted + bias.astype(np.float32))):
            found = made[1].mat_mul(a, b, added, transpose_b=True, threads=2)
            assert (found == expected.astype(found.dtype)).all(), (rows, columns, terms, dtype)


def test_sums_are_exact_whichever_side_fills_vectors_better(made: Made) -> None:
    """Of 31 rows and 33 columns that lie alike, rows become lanes; sums are then turned, whole, part or finished."""
    rng = np.random.default_rng(12)
    extents = itertools.product(((31, 33), (33, 31), (9, 17), (10, 8), (70, 65)), (256, 601), ("f32", "f64", "bf16"))
    for (rows, columns), terms, dtype in extents:
        a, b = (rng.integers(-2, 3, (3, terms, count)).astype(DTYPES[dtype]) for count in (rows, columns))
        wanted = a.astype(np.float32).swapaxes(1, 2) @ b.astype(np.float32)
        for flat in (False, True):
            left, right = (a.swapaxes(1, 2).copy(), b.swapaxes(1, 2).copy()) if flat else (a, b)
            options = {"transpose_a": not flat, "transpose_b": flat}
            for one, other, expected in ((left, right, wanted), (left[1], right[1], wanted[1])):
                found = made[1].mat_mul(one, other, **options, threads=2)
                assert (found == expected.astype(found.dtype)).all(), (rows, columns, terms, dtype, flat)
            if flat and dtype == "f32":
                turned = made[1].rows_of_run(left[0], right[0])
                assert (turned == np.maximum(wanted[0].T, -3) * 2).all(), (rows, columns, terms)


def test_nan_and_inf_stay_in_their_rows_and_columns(made: Made) -> None:
    a, b = np.ones((20, 33), np.float32), np.ones((33, 45), np.float32)
    a[3, 4], b[5, 6] = np.nan, np.inf
    found = made[1].mat_mul(a, b)
    assert np.isnan(found[3]).all()
    assert np.isinf(np.delete(found[:, 6], 3)).all()
    assert (np.delete(np.delete(found, 3, 0), 6, 1) == 33).all()


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_sums_of_which_neighbours_are_of_other_products_are_not_finished_one_by_one(made: Made, dtype: str) -> None:
    _, kernels, _ = made
    rng = np.random.default_rng(9)
    for batch, rows, terms, columns in ((20, 9, 33, 17), (3, 20, 5, 1), (1, 6, 7, 8), (40, 1, 12, 5), (4, 0, 3, 2)):
        a = rng.integers(-2, 3, (batch, rows, terms)).astype(np.float32)
        b = rng.integers(-2, 3, (terms, columns, batch)).astype(DTYPES[dtype])
        found = kernels.batch_last(a, b)
        expected = np.maximum(np.einsum("pmk,knp->mnp", a, b.astype(np.float32)), 1)
        assert (found == expected.astype(found.dtype)).all(), (batch, rows, terms, columns)
        if batch > 1 and columns > 1 and rows:
            assert "finished before" not in str(kernels.explain("batch_last", a, b))


def test_each_product_of_a_sum_is_a_phase_of_its_own(made: Made) -> None:
    library, _, drawn = made
    for number, one in enumerate(drawn):
        op = library.op(one.op)
        if number in PARTLY:
            assert products(op) == 1
            continue
        # a scale is multiplied into another factor, unless each element of some pair is then used only once
        assert products(op) in ((0, len(one.factors) - 2) if one.scaled else (len(one.factors) - 1,))
    assert any(one.scaled and products(library.op(one.op)) for one in drawn)
    for number, one in enumerate(drawn):
        if number in PARTLY:
            continue
        phases = staged(as_steps(library.op(one.op))).phases
        assert sum(phase.copies is not None for phase in phases) == (one.op[7:] not in map(str, FINISHES))


def test_calls_that_differ_in_the_dtype_of_out_alone_are_not_taken_for_each_other(made: Made) -> None:
    _, kernels, drawn = made
    one = drawn[0]
    inputs = [np.ones((3,) * len(factor), DTYPES["bf16"]) for factor in one.factors]
    shape = (3,) * len(one.out)
    for dtype in ("f32", "bf16", "f32", "bf16"):
        out = np.zeros(shape, DTYPES[dtype])
        assert kernels.product0(*inputs, out=out) is out
        assert (out > 0).all()


def test_explain_tells_the_roles_of_letters_and_what_the_engine_is_given(made: Made) -> None:
    spec = made[1].TensorSpec
    explanation = str(made[1].explain("mat_mul", spec((4, 5, 7), "float32"), spec((7, 3), "float32"), threads=1))
    assert (
        "letters of sums[b, m, n] += src[b, m, k] * weights[b, k, n]: b batch, m rows, n columns, k reduced"
        in explanation
    )
    assert "20 rows, 3 columns, 7 terms" in explanation
    assert int(explanation.split("scratch memory: ")[1].split()[0]) > 0


def test_a_build_has_all_that_products_need(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    _ = made[1].product0
    if sys.modules[f"{made[1].__name__}._contraction_engines"].best("f32") is None:
        pytest.skip("no engine for this CPU")
    built = made[1].build_kernels("mat_mul")
    assert any("opwright_contraction_f32" in path for path in built)
    assert any("opwright_contraction_bf16" in path for path in built)


def test_sums_go_to_the_output_itself_where_a_call_adds_no_bias(made: Made) -> None:
    kernels = made[1]
    a, b, bias = (np.ones(shape, np.float32) for shape in ((5, 7), (7, 3), (3,)))
    assert (kernels.mat_mul(a, b) == 7).all()
    assert (kernels.mat_mul(a, b, bias) == 8).all()
    operation = sys.modules[f"{kernels.__name__}._mat_mul"].OPERATION
    out = np.empty((5, 3), np.float32)
    for given in ({}, {"bias": bias}):
        attributes = [operation.defaults[name] for name in operation.attributes]
        resolution = operation.resolve(a, b, given.get("bias"), *attributes)
        plan = operation.planned_steps(resolution, {"src": a, "weights": b, "dst": out, **given})
        assert [product.destination for product in plan.products] == [2 if given else 1]


def test_views_of_the_same_strides_are_planned_once(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = made[1]
    operation = type(sys.modules[f"{kernels.__name__}._mat_mul"].OPERATION)
    planned, plan = [], operation.planned_steps
    monkeypatch.setattr(operation, "planned_steps", lambda *given: planned.append(1) or plan(*given))
    wide = np.arange(240, dtype=np.float32).reshape(12, 20) % 7
    views = [wide[:6, :10], wide[6:, 10:], wide[:6, ::2], wide[::2, 1::2], np.asfortranarray(wide)[:6, :10]]
    for view in [*views, *views]:
        assert (kernels.mat_mul(view, view.T) == view @ view.T).all()
    assert len(planned) == 4


def test_what_follows_a_product_cell_by_cell_needs_no_memory_for_the_sums(made: Made) -> None:
    kernels = made[1]
    explanations = []
    for rows in (256, 4096):
        spec = [kernels.TensorSpec(shape, "float32") for shape in ((rows, 64), (64, 512), (512,))]
        explanations.append(kernels.explain("mat_mul", *spec, threads=1))
    assert "finished before they are stored" in str(explanations[0])
    assert max(one.scratch_bytes for one in explanations) < 256 * 512 * 4


def test_sums_are_finished_where_they_belong_whatever_the_order_of_the_axes_of_a_run(made: Made) -> None:
    kernels, rng = made[1], np.random.default_rng(9)
    for rows in ((2, 47), (3, 5, 4), (94,), ()):
        for order in itertools.permutations(range(len(rows) + 1)):
            shape = (*rows, 5)
            src = rng.integers(-3, 4, [shape[axis] for axis in order]).astype(np.float32).transpose(np.argsort(order))
            weights = rng.integers(-3, 4, (6, 5)).astype(np.float32)
            wanted = np.maximum(np.moveaxis(src @ weights.T, -1, 0), -3) * 2
            out = np.asfortranarray(np.zeros(wanted.shape, np.float32))
            for threads in (1, 3):
                assert (kernels.rows_of_run(src, weights, threads=threads) == wanted).all()
                assert (kernels.rows_of_run(src, weights, threads=threads, out=out) == wanted).all()
