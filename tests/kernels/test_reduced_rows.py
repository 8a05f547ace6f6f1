"""Rows that are reduced as they stand: in registers, the last cells under a mask."""

from __future__ import annotations

import itertools
from pathlib import Path

import ml_dtypes
import numpy as np
import opwright_kernels as kernels
import pytest
from support.compilers import STRICT, compile_with
from support.package import package
from support.spec_packages import instruction_set, serving

DTYPES = {"f32": np.dtype(np.float32), "bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16)}
LENGTHS = (1, 2, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 200)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_cells_behind_a_row_are_no_part_of_its_sum(isa: str, dtype: str) -> None:
    random = np.random.default_rng(len(isa) + len(dtype))
    for length in LENGTHS:
        rows = np.full((19, length + 40), np.nan, DTYPES[dtype])
        rows[:, 3 : 3 + length] = random.integers(-1, 2, (19, length))
        found = kernels.reduce_sum(rows[:, 3 : 3 + length], axes=[1])
        assert (found == rows[:, 3 : 3 + length].astype(np.float64).sum(1)).all(), length


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_the_maximum_of_a_row_is_nan_wherever_a_nan_stands(isa: str, dtype: str) -> None:
    random = np.random.default_rng(len(isa) * 3 + len(dtype))
    for length in LENGTHS:
        rows = random.integers(-9, 9, (length + 2, length)).astype(DTYPES[dtype])
        rows[np.arange(length), np.arange(length)] = np.nan
        rows[length] = -np.inf
        found = kernels.reduce_max(rows, axes=[1])
        assert np.isnan(found[:length]).all(), length
        assert found[length] == -np.inf
        assert found[length + 1] == rows[length + 1].max()


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_sums_of_several_rows_have_the_bits_of_each_row_alone(isa: str, dtype: str) -> None:
    """Rows that follow one another, that lie a gap apart, or begin anew at a plane; one of them with a NaN, one with Inf."""
    random = np.random.default_rng(len(isa) * 5 + len(dtype))
    for length in LENGTHS:
        for planes, rows, gap in ((1, 1, 0), (1, 3, 5), (1, 37, 0), (5, 7, 0), (4, 18, 3), (3, 1, 2)):
            room = random.standard_normal((planes, rows + 2, length + gap)).astype(DTYPES[dtype])
            given = room[:, :rows, :length]
            given[random.integers(planes), random.integers(rows), random.integers(length)] = np.nan
            given[random.integers(planes), random.integers(rows), random.integers(length)] = np.inf
            alone = [kernels.reduce_sum(row[None], axes=[1]) for row in given.reshape(-1, length)]
            for threads in (1, 3):
                found = kernels.reduce_sum(given, axes=[2], threads=threads).reshape(-1)
                assert found.tobytes() == np.concatenate([one.reshape(-1) for one in alone]).tobytes(), (length, rows)


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_columns_of_many_rows_have_each_cell_once(isa: str, dtype: str) -> None:
    """Rounds of 128 rows, and tiles of columns of which the last has some that another tile has, too."""
    random = np.random.default_rng(len(isa) * 11 + len(dtype))
    for rows, columns in itertools.product((127, 128, 129, 300), (3, 31, 33, 63, 64, 95, 97, 350)):
        given = random.integers(0, 2, (rows, columns)).astype({"f64": np.float64, **DTYPES}[dtype])
        total = given.astype(np.float64).sum(0)
        root = np.sqrt(total.astype(np.float64 if dtype == "f64" else np.float32))
        for threads in (1, 3):
            found = kernels.reduce_sum(given, axes=[0], threads=threads)
            assert (found == total.astype(given.dtype)).all(), (rows, columns)
            found = kernels.reduce_l2(given, axes=[0], threads=threads)
            assert (found == root.astype(given.dtype)).all(), (rows, columns)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_what_is_made_of_the_end_of_a_row_is_the_row_alone(isa: str, dtype: str) -> None:
    """Rows of every length among NaN, stored among cells that stay, have the bits of rows with zeros behind."""
    random = np.random.default_rng(len(isa) * 13 + len(dtype))
    for length in LENGTHS:
        given = np.full((2, 9, length + 40), np.nan, DTYPES[dtype])
        y, g = given[:, :, 3 : 3 + length]
        y[...], g[...] = random.random((9, length)), random.standard_normal((9, length))
        stored = np.full((9, length + 40), 7, DTYPES[dtype])
        kernels.soft_max_backward(g, y, axis=1, out=stored[:, 3 : 3 + length])
        longer = [np.pad(one, ((0, 0), (0, 256 - length))) for one in (g, y)]
        alone = kernels.soft_max_backward(*longer, axis=1)[:, :length]
        assert np.pad(alone, ((0, 0), (3, 37)), constant_values=7).tobytes() == stored.tobytes(), length


def test_the_last_cells_of_f16_are_made_together() -> None:
    """With zeros behind them, and copies of the ends of rows of f32: no cell is stored before a vector reads it."""
    for name, copy in (("soft_max_backward_f16", "opwright_from_end_f16"), ("soft_max_f16_f16_f32", "opwright_end_4")):
        code = (Path(kernels.__file__).parent / "c" / f"{name}.c").read_text()
        before = [end[-600:] for end in code.split("opwright_to_row_f16(wide_, ")[:-1]]
        assert any("j_ < opwright_padded(" in end and copy in end for end in before), name


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_a_function_of_a_row_is_summed_over_its_cells_alone(isa: str, dtype: str) -> None:
    """Rows of every length with NaN behind them, one with a NaN and one of -inf but for a cell."""
    random = np.random.default_rng(len(isa) * 7 + len(dtype))
    for length in LENGTHS:
        room = np.full((9, length + 40), np.nan, DTYPES[dtype])
        given = room[:, 3 : 3 + length]
        given[...] = random.standard_normal((9, length))
        given[1, -1], given[2], given[2, length // 2] = np.nan, -np.inf, 1
        found = kernels.log_softmax(given, axis=1)
        exact = given.astype(np.float64)
        exact -= np.log(np.exp(exact - exact.max(1, keepdims=True)).sum(1, keepdims=True)) + exact.max(1, keepdims=True)
        assert np.isnan(found[1].astype(np.float32)).all(), length
        rest = [0, *range(2, 9)]
        np.testing.assert_allclose(
            found[rest].astype(np.float64), exact[rest], rtol=2e-2 if dtype == "bf16" else 1e-5, atol=1e-6
        )
        assert kernels.log_softmax(given, axis=1, threads=2).tobytes() == found.tobytes()


ENDS = """op: RowEnds
revision: 1
summary: Sums and extremes of what rows of several types make together.
dims: {rows: N, cells: C}
inputs: [{name: src, dims: {N: N, C: C}}, {name: other, dims: {N: N, C: C}}]
outputs: [{name: squares, dims: {N: N}}, {name: low, dims: {N: N}}, {name: high, dims: {N: N}}]
dtypes:
  - {src: f32, other: bf16, squares: f32, low: f32, high: f32, accumulate: f32}
  - {src: f16, other: s8, squares: f32, low: f32, high: f32, accumulate: f32}
  - {src: f64, other: s32, squares: f64, low: f64, high: f64, accumulate: f64}
  - {src: s32, other: u8, squares: s64, low: s64, high: s64, accumulate: s64}
semantics:
  ranges: {n: N, c: C}
  steps:
    - squares[n] += (src[n, c] + 2) * (other[n, c] + 1)
    - low[n] min= src[n, c] + other[n, c]
    - high[n] max= other[n, c]
"""
PAIRS = (("f4", ml_dtypes.bfloat16), ("f2", "i1"), ("f8", "i4"), ("i4", "u1"))


def test_the_last_cells_of_rows_of_any_types_are_reduced_alone(tmp_path: Path) -> None:
    library, module = package({"ends.yaml": ENDS}, tmp_path, "row_ends")
    random = np.random.default_rng(3)
    for isa in serving(module, library.ops[0]):
        with instruction_set(module, isa):
            for length, kinds in itertools.product((0, *LENGTHS), PAIRS):
                rows = [random.integers(3, 9, (19, length + 40)).astype(kind) for kind in kinds]
                rows[0][:, length + 3 :] = rows[0][:, :3] = 100
                given = [array[:, 3 : 3 + length] for array in rows]
                src, other = (array.astype(np.float64) for array in given)
                squares, low, high = module.row_ends(*given)
                assert (squares == ((src + 2) * (other + 1)).sum(1)).all(), (isa, length, kinds)
                if length:
                    assert (low == (src + other).min(1)).all(), (isa, length, kinds)
                    assert (high == other.max(1)).all(), (isa, length, kinds)


STANDING = """op: StandingRows{wide}
revision: 1
summary: What rows of planes make as they stand.
dims: {{planes: P, rows: N, cells: C}}
inputs: [{{name: src, dims: {{P: P, N: N, C: C}}}}]
outputs: [{{name: total, dims: {{P: P, N: N}}}}, {{name: product, dims: {{P: P, N: N}}}}, {{name: low, dims: {{P: P, N: N}}}},
  {{name: high, dims: {{P: P, N: N}}}}]
dtypes:
{rows}
semantics:
  ranges: {{p: P, n: N, c: C}}
  steps:
    - total[p, n] += src[p, n, c]
    - product[p, n] *= src[p, n, c]
    - low[p, n] min= src[p, n, c]
    - high[p, n] max= src[p, n, c]
"""
STAND = {
    "f32": ("f4", ml_dtypes.bfloat16, "f2", "i1", "u1", "i4"),
    "f64": ("f8", "f4", "i1", "u1", "i4"),
    "s64": ("i1", "u1", "i4", "i8"),
}
NAMES = {
    "f4": "f32",
    "f2": "f16",
    "f8": "f64",
    "i1": "s8",
    "u1": "u8",
    "i4": "s32",
    "i8": "s64",
    ml_dtypes.bfloat16: "bf16",
}


def test_rows_of_any_type_are_reduced_as_they_stand(tmp_path: Path) -> None:
    """Rows that follow one another, that lie a gap apart, or begin anew at a plane, between cells that are none of theirs."""
    row = "  - {{src: {0}, total: {1}, product: {1}, low: {1}, high: {1}, accumulate: {1}}}"
    texts = {
        f"{wide}.yaml": STANDING.format(wide=wide, rows="\n".join(row.format(NAMES[kind], wide) for kind in kinds))
        for wide, kinds in STAND.items()
    }
    library, module = package(texts, tmp_path, "standing_rows")
    random = np.random.default_rng(11)
    ops = {op.function: op for op in library.ops}
    for wide, kinds in STAND.items():
        name = f"standing_rows{wide}"
        for isa in serving(module, ops[name]):
            with instruction_set(module, isa):
                for length, kind in itertools.product((0, 1, 3, 4, 5, 7, 8, 9, *LENGTHS[2:]), kinds):
                    planes, rows, gap = ((1, 1, 0), (1, 3, 5), (1, 37, 0), (5, 7, 0), (4, 18, 3))[random.integers(5)]
                    room = np.full((planes, rows + 2, length + gap), 77).astype(kind)
                    given = room[:, :rows, :length]
                    given[...] = 1
                    exact = given.astype(np.float64)
                    if length:
                        given[..., random.integers(length)] = random.integers(1, 5, (planes, rows))
                        given[..., random.integers(length)] = random.integers(
                            0 if kind == "u1" else -3, 4, (planes, rows)
                        )
                        exact = given.astype(np.float64)
                        np.testing.assert_array_equal(getattr(module, name)(given)[2:], (exact.min(2), exact.max(2)))
                    for threads in (1, 3):
                        found = getattr(module, name)(given, threads=threads)
                        np.testing.assert_array_equal(
                            found[:2], (exact.sum(2), exact.prod(2)), str((isa, length, kind))
                        )
                    if length and wide == "f64" and kind == "f8":
                        given[0, rows // 2, random.integers(length)] = np.nan
                        for one in getattr(module, name)(given):
                            assert np.isnan(one[0, rows // 2]), (isa, length)
                            assert np.isnan(one).sum() == 1, (isa, length)


BYTES = """op: {name}
revision: 1
summary: Extremes of the columns of bytes.
dims: {{rows: N, columns: C}}
inputs: [{{name: src, dims: {{N: N, C: C}}}}]
outputs: [{{name: dst, dims: {{C: C}}}}]
dtypes:
  - {{src: s8, dst: s8, accumulate: f32}}
  - {{src: u8, dst: u8, accumulate: f32}}
semantics:
  ranges: {{n: N, c: C}}
  steps:
    - dst[c] {operator}= src[n, c]
"""


def test_extremes_of_columns_of_bytes_are_held_in_bytes(tmp_path: Path) -> None:
    texts = {f"{name}.yaml": BYTES.format(name=name.title(), operator=name[:3]) for name in ("minima", "maxima")}
    library, module = package(texts, tmp_path, "byte_columns")
    random = np.random.default_rng(17)
    folder = tmp_path / "byte_columns"
    text = folder / "c" / "maxima_s8.c"
    assert "int8_t tile_[256];" in text.read_text()
    flags = (*STRICT, "-std=c11", "-O1", f"-I{folder / 'include'}")
    compile_with("gcc", *flags, "-c", text, "-o", tmp_path / "maxima.o")  # whose last tile has no whole line
    for isa in serving(module, library.ops[0]):
        with instruction_set(module, isa):
            for kind, (rows, columns) in itertools.product(
                ("i1", "u1"), ((0, 300), (1, 31), (40, 97), (5, 256), (3, 777))
            ):
                least, greatest = np.iinfo(kind).min, np.iinfo(kind).max
                room = random.integers(least, greatest + 1, (rows, 2 * columns)).astype(kind)
                for given in (room[:, :columns], room[:, ::2]):
                    assert (module.minima(given) == given.min(0, initial=greatest)).all(), (isa, kind, rows, columns)
                    assert (module.maxima(given) == given.max(0, initial=least)).all(), (isa, kind, rows, columns)
