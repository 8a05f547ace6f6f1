"""Values that kernels make in another way than a spec writes them, and steps that they fuse."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import ml_dtypes
import numpy as np
import opwright_kernels as kernels
import pytest
from opwright.derive.phases import staged
from opwright.language.library import Library
from support.package import package

BODY = """\
op: {name}
revision: 1
summary: An operation of a test.
dims: {{size: {{symbol: M, min: 0}}}}
inputs: [{{name: a, dims: {{X: M}}}}]
outputs: [{{name: b, dims: {{X: M}}}}]
dtypes: [{{a: f32, b: f32, accumulate: f32}}, {{a: f64, b: f64, accumulate: f64}}]
semantics:
  ranges: {{m: M}}
  steps:
    - b[m] = {value}
"""
LEVEL = """\
op: Levelled
revision: 1
summary: Rows over their weighted sums.
dims: {rows: {symbol: M, min: 0}, columns: {symbol: N, min: 0}}
inputs: [{name: a, dims: {X: M, Y: N}}, {name: w, dims: {Y: N}}]
outputs: [{name: b, dims: {X: M, Y: N}}]
dtypes: [{a: f32, w: f32, b: f32, accumulate: f32}]
semantics:
  ranges: {m: M, n: N}
  steps:
    - total[m] += w[n] * a[m, n]
    - b[m, n] = a[m, n] - total[m]
"""
VALUES = {
    "Cube": "pow(a[m], 3)",
    "Fourth": "pow(a[m], 4)",
    "Choice": "select(a[m] >= 0, 1 / (1 + exp(-a[m])), exp(a[m]) / (1 + exp(a[m])))",
    "Other": "select(a[m] >= 0, 2 * exp(-a[m]), exp(3 * a[m]) - 1)",
}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, -3e38, 1.0, -1.0, 2e-13, -2e-13, 1e-38]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Library, ModuleType]]:
    texts = {f"{name}.yaml": BODY.format(name=name, value=value) for name, value in VALUES.items()}
    yield package(texts | {"Levelled.yaml": LEVEL}, Path(tmp_path_factory.mktemp("values")), "values_package")


def samples() -> np.ndarray:
    random = np.random.default_rng(5)
    spread = random.standard_normal(3000) * 2.0 ** random.integers(-40, 30, 3000)
    return np.concatenate([spread, SPECIAL]).astype(np.float32)


@pytest.mark.parametrize(("name", "exponent"), [("Cube", 3), ("Fourth", 4)])
def test_a_power_by_a_small_constant_is_rounded_once_and_takes_every_number(
    name: str, exponent: int, built: tuple[Library, ModuleType]
) -> None:
    library, module = built
    given = samples()
    with np.errstate(all="ignore"):
        expected = (given.astype(np.longdouble) ** exponent).astype(np.float32)
        exact = given.astype(np.longdouble) ** exponent
    found = getattr(module, library.op(name).function)(given)
    tiny = abs(expected) < 2.0**-120
    assert np.array_equal(found[~tiny], expected[~tiny], equal_nan=True)
    assert (abs(found[tiny] - exact[tiny]) <= np.spacing(abs(expected[tiny]))).all()
    assert (np.signbit(found) == np.signbit(expected))[~np.isnan(expected)].all()


@pytest.mark.parametrize(("name", "exponent", "ulp"), [("Cube", 3, 1.5), ("Fourth", 4, 2.0)])
def test_a_power_of_f64_by_a_small_constant_keeps_to_its_bound(
    name: str, exponent: int, ulp: float, built: tuple[Library, ModuleType]
) -> None:
    library, module = built
    given = np.concatenate([samples().astype(np.float64), np.random.default_rng(6).standard_normal(3000) * 1e3])
    with np.errstate(all="ignore"):
        exact = given.astype(np.longdouble) ** exponent
        found = getattr(module, library.op(name).function)(given)
        far = abs(found - exact) <= ulp * np.spacing(abs(exact).astype(np.float64))
    assert (far | (found == exact) | (np.isnan(found) & np.isnan(exact))).all()
    assert (np.signbit(found) == np.signbit(exact))[~np.isnan(exact)].all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_choice_between_calls_of_a_function_is_what_the_chosen_side_gives(
    dtype: type, built: tuple[Library, ModuleType]
) -> None:
    _, module = built
    given = samples().astype(dtype)
    with np.errstate(all="ignore"):
        wide = given.astype(np.longdouble)
        z = np.exp(-abs(wide))
        logistic = np.where(wide >= 0, 1, z) / (1 + z)
        other = np.where(wide >= 0, 2 * z, np.exp(3 * wide) - 1)
        for function, expected in ((module.choice, logistic), (module.other, other)):
            found = function(given)
            scale = np.spacing(np.maximum(abs(expected), 1).astype(dtype))
            close = abs(found - expected) <= 4 * scale
            assert (close | (np.isnan(found) & np.isnan(expected))).all()


def test_a_choice_between_rows_of_bf16_gives_all_bits_of_the_chosen_cell(isa: str) -> None:
    every = np.arange(2**16, dtype=np.uint16)
    random = np.random.default_rng(len(isa))
    one, two = (random.permutation(every).view(ml_dtypes.bfloat16) for _ in range(2))
    for length in (1, 7, 33, 2**16):
        condition = random.integers(0, 2, length).astype(bool)
        found = kernels.select(condition, one[:length], two[:length]).view(np.uint16)
        expected = np.where(condition, one[:length].view(np.uint16), two[:length].view(np.uint16))
        nan = np.isnan(expected.view(ml_dtypes.bfloat16).astype(np.float32))
        assert (found[~nan] == expected[~nan]).all()
        assert np.isnan(found.view(ml_dtypes.bfloat16).astype(np.float32))[nan].all()
        zero = kernels.relu_backward(one[:length], two[:length])
        assert (zero[one[:length].astype(np.float32) <= 0] == 0).all()  # even where the other factor is not finite


def test_a_sum_of_products_that_reads_one_factor_once_is_fused_with_what_follows(
    built: tuple[Library, ModuleType],
) -> None:
    library, module = built
    assert [len(phase.parts) for phase in staged(library.op("Levelled")).phases] == [2]
    random = np.random.default_rng(3)
    for rows, columns in ((5, 70), (40, 3), (0, 4), (4, 0), (33, 129)):
        a, w = (random.integers(-3, 4, shape).astype(np.float32) for shape in ((rows, columns), (columns,)))
        assert (module.levelled(a, w) == a - (a @ w)[:, None]).all()


def test_maxima_and_sums_over_rows_of_any_length_are_those_of_numpy(isa: str) -> None:
    random = np.random.default_rng(len(isa))
    for length in (1, 31, 32, 33, 64, 100, 257):
        a = random.integers(-50, 50, (7, length)).astype(np.float32)
        assert (kernels.reduce_max(a, axes=[1], keep_dims=False) == a.max(1)).all()
        assert (kernels.reduce_min(a, axes=[1], keep_dims=False) == a.min(1)).all()
        assert (kernels.reduce_sum(a, axes=[1], keep_dims=False) == a.sum(1)).all()
        a[3, length // 2] = np.nan
        a[4, length // 3] = np.inf
        assert (np.isnan(kernels.reduce_max(a, axes=[1], keep_dims=False)) == np.isnan(a.max(1))).all()
        assert kernels.reduce_max(a, axes=[1], keep_dims=False)[4] == np.inf


def test_the_greatest_and_least_of_a_row_are_right_whichever_lane_holds_them(isa: str) -> None:
    """One cell of each row stands out, in each lane of a vector and of what remains; no sign of a zero is lost."""
    for length in (32, 75):
        for common, one in ((-2.0, 5.0), (3.0, -7.0), (-np.inf, -3e38), (1.0, np.nan), (np.inf, np.nan), (-0.0, -0.0)):
            rows = np.full((length, length), common, np.float32)
            np.fill_diagonal(rows, one)
            for function, expected in ((kernels.reduce_max, rows.max(1)), (kernels.reduce_min, rows.min(1))):
                found = function(rows, axes=[1], keep_dims=False)
                assert np.array_equal(found, expected, equal_nan=True), (function, length, one)
                assert (np.isnan(expected) | (np.signbit(found) == np.signbit(expected))).all(), (function, length, one)


@pytest.mark.parametrize("beta", [2.0, 3.0, 0.5, -1.0, 0.0, 4.0])
def test_a_power_whose_exponent_a_call_says_keeps_to_its_bound(beta: float) -> None:
    given = samples()
    with np.errstate(all="ignore"):
        expected = np.power(given.astype(np.longdouble), np.longdouble(beta))
        rounded = expected.astype(np.float32)
        found = kernels.power(given, beta=beta)
        assert (np.isnan(found) == np.isnan(rounded)).all()
        assert (np.isinf(found) == np.isinf(rounded)).all()
        finite = np.isfinite(rounded)
        bound = np.where(abs(rounded) < 2.0**-120, 1.0, 0.51)[finite]
        assert (abs(found - expected)[finite] <= bound * np.spacing(abs(rounded[finite]))).all()


def test_values_that_bf16_holds_are_stored_as_they_are_and_others_rounded() -> None:
    """All numbers of bf16: NaN, infinities, both zeros and denormals among them."""
    bf16 = np.dtype(ml_dtypes.bfloat16)
    src = np.arange(2**16, dtype=np.uint16).view(bf16)
    other = src[::-1].copy()
    with np.errstate(invalid="ignore"):
        wide, nan = src.astype(np.float32), np.isnan(src)
        wanted = {
            "relu": (kernels.relu(src), np.where(wide > 0, wide, 0)),
            "absolute": (kernels.absolute(src), np.abs(wide)),
            "maximum": (kernels.maximum(src, other), np.maximum(wide, other.astype(np.float32))),
            "clamp": (kernels.clamp(src, least=0.1, greatest=0.3), np.clip(wide, np.float32(0.1), np.float32(0.3))),
        }
    for name, (got, exact) in wanted.items():
        lost = nan | np.isnan(exact)
        assert got.dtype == bf16, name
        assert np.isnan(got[lost]).all(), name
        assert np.array_equal(got[~lost], exact.astype(bf16)[~lost]), name


def test_powers_are_summed_with_any_exponent_and_choices_in_their_base(tmp_path: Path) -> None:
    spec = LEVEL.replace("Levelled", "Powers").replace("X: M, Y: N}}]\ndtypes", "X: M}}]\ndtypes")
    spec = spec[: spec.index("    - total")] + "    - b[m] += pow(max(a[m, n], 0.5), w[n])\n"
    (op,), module = package({"powers.yaml": spec}, tmp_path, "powers_package")[0].ops, sys.modules["powers_package"]
    random = np.random.default_rng(4)
    for rows, columns in ((3, 1), (5, 31), (4, 33), (2, 700), (3, 0)):
        a = (random.standard_normal((rows, columns)) * 2).astype(np.float32)
        for w in (random.standard_normal(columns), np.full(columns, 2.0), np.full(columns, -1.5)):
            wanted = (np.maximum(a, 0.5).astype(np.float64) ** w.astype(np.float32).astype(np.float64)).sum(1)
            for given in (a, np.asfortranarray(a)):
                found = getattr(module, op.function)(given, w.astype(np.float32))
                assert np.allclose(found, wanted, rtol=1e-5), (rows, columns)


def test_every_number_of_f16_is_widened_exactly_in_rows_of_any_length_and_stride(isa: str) -> None:
    """All numbers of f16, and NaN, which becomes quiet: in whole rows, and from each place of a vector on."""
    src = np.arange(2**16, dtype=np.uint16).view(np.float16)
    nan = np.isnan(src)
    wide = src.astype(np.float32).view(np.uint32)
    for given, wanted, gone in (
        (src, wide, nan),
        (src[::-1], wide[::-1], nan[::-1]),
        (src[1::3], wide[1::3], nan[1::3]),
    ):
        found = kernels.type_cast(given, dtype="f32").view(np.uint32)
        assert np.array_equal(found[~gone], wanted[~gone])
        assert np.isnan(found.view(np.float32)[gone]).all()
        assert (found[gone] & 0x400000).all()
    for length in (*range(1, 40), 511, 513, 1025):
        rows = src[: 7 * length].reshape(7, length)
        with np.errstate(over="ignore"):
            assert np.array_equal(kernels.add(rows, rows[:1]), rows + rows[:1])
            assert np.array_equal(kernels.add(rows, rows[:, :1]), rows + rows[:, :1])
            assert np.array_equal(kernels.relu(rows.T), np.maximum(rows.T, 0))


def test_every_cube_of_bf16_is_rounded_to_f32_and_then_to_bf16() -> None:
    given = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    with np.errstate(all="ignore"):
        expected = (given.astype(np.float64) ** 3).astype(np.float32).astype(ml_dtypes.bfloat16)
    found = kernels.power(given, beta=3.0)
    numbers = ~np.isnan(expected.astype(np.float32))
    assert np.array_equal(found.view(np.uint16)[numbers], expected.view(np.uint16)[numbers])
    assert np.isnan(found.astype(np.float32))[~numbers].all()
