"""Short rows beside a row that is the same for all, and cells of their own, in specs that name their letters."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import ml_dtypes
import numpy as np
import pytest
from support.draws import rng
from support.package import package

SPEC = """
op: {name}
revision: 1
summary: A value of a matrix and a vector or two.
dims:
  rows: {{symbol: B}}
  cells: {{symbol: C}}
inputs:
  - {{name: x, dims: {{X: B, Y: C}}, summary: The matrix.}}
  - {{name: w, dims: {{X: C}}, summary: A row.}}
  - {{name: k, dims: {{X: B}}, summary: A column.}}
outputs: [{{name: y, dims: {{X: B, Y: C}}, summary: The values.}}]
dtypes:
  - {{x: f32, w: f32, k: f32, y: f32, accumulate: f32}}
  - {{x: bf16, w: bf16, k: f32, y: bf16, accumulate: f32}}
  - {{x: f16, w: f16, k: f32, y: f16, accumulate: f32}}
  - {{x: s8, w: f32, k: f32, y: f32, accumulate: f32}}
semantics:
  ranges: {{b: B, c: C}}
  steps:
    - y[b, c] = {value}
"""
VALUES = {"Alone": "(x[b, c] + 3) * w[c]", "Beside": "x[b, c] * w[c] + k[b]", "Column": "x[b, c] - k[b]"}
KINDS = {"f32": np.float32, "f16": np.float16, "bf16": np.dtype(ml_dtypes.bfloat16), "s8": np.int8}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    texts = {f"{name}.yaml": SPEC.format(name=name, value=value) for name, value in VALUES.items()}
    column = ("  - {name: k, dims: {X: B}, summary: A column.}\n", "k: f32, ")
    texts["Alone.yaml"] = texts["Alone.yaml"].replace(column[0], "").replace(column[1], "")
    row = ("  - {name: w, dims: {X: C}, summary: A row.}\n", *(f"w: {dtype}, " for dtype in ("f32", "bf16", "f16")))
    for text in row:
        texts["Column.yaml"] = texts["Column.yaml"].replace(text, "")
    return package(texts, Path(tmp_path_factory.mktemp("joined_rows")), "joined_rows_package")[1]


@pytest.mark.parametrize("dtype", KINDS)
def test_short_rows_beside_one_row_have_the_values_of_single_rows(built: ModuleType, dtype: str, isa: str) -> None:
    random, kind = rng("joined rows", dtype), np.dtype(KINDS[dtype])
    other = kind if dtype in ("bf16", "f16") else np.dtype(np.float32)
    for cells in (0, 1, 2, 3, 10, 15, 16, 17, 31, 33, 64, 127, 128, 129):
        for rows in (1, 63, 1000):
            x = random.integers(-8, 9, (rows, 2 * cells)).astype(kind)
            w, k = (
                random.integers(-4, 5, count).astype(made) for count, made in ((2 * cells, other), (rows, np.float32))
            )
            for a, b in ((x[:, :cells].copy(), w[:cells]), (x[:, :cells], w[:cells]), (x[:, ::2].copy(), w[::-2])):
                wide, row = a.astype(np.float32), b.astype(np.float32)
                for threads in (1, 2):
                    found = built.alone(a, b, threads=threads).astype(np.float32)
                    assert np.array_equal(found, (wide + 3) * row), (cells, rows)
                    both = built.beside(a, b, k, threads=threads).astype(np.float32)
                    assert np.array_equal(both, wide * row + k[:, None]), (cells, rows)
                    less = built.column(a, k, threads=threads).astype(np.float32)
                    assert np.array_equal(less, wide - k[:, None]), (cells, rows)


def test_rows_that_fill_no_vector_are_one_where_they_follow_one_another(built: ModuleType) -> None:
    x, k = np.ones((100, 20), np.float32), np.ones(100, np.float32)
    cases = [(x[:, :10].copy(), "short rows"), (x[:, :10], "block through room"), (x[:, :1].copy(), "block")]
    cases += [(x.astype(np.float16)[:, :10].copy(), "block through room"), (x, "block")]
    for given, name in cases:
        assert f": {name}: " in str(built.explain("column", given, k)), name


EACH = """
op: EachOwn
revision: 1
summary: Rows beside a row that many of them share.
dims: {a_tasks: A, b_rows: B, c_cells: C}
inputs: [{name: x, dims: {A: A, B: B, C: C}}, {name: w, dims: {A: A, C: C}}, {name: v, dims: {B: B, C: C}}]
outputs: [{name: y, dims: {A: A, B: B, C: C}}, {name: z, dims: {A: A, B: B, C: C}}]
dtypes:
  - {x: f32, w: f32, v: f32, y: f32, z: f32, accumulate: f32}
  - {x: bf16, w: bf16, v: bf16, y: bf16, z: bf16, accumulate: f32}
  - {x: s8, w: f64, v: f64, y: f64, z: f64, accumulate: f64}
semantics:
  ranges: {a: A, b: B, c: C}
  steps: ["y[a, b, c] = (x[a, b, c] + 3) * w[a, c]"]
"""
BOTH = EACH.replace("EachOwn", "EachBoth").replace('w[a, c]"', 'w[a, c] - v[b, c]"')


def test_short_rows_beside_a_row_of_their_task_have_the_values_of_single_rows(tmp_path: Path, isa: str) -> None:
    texts = {"own.yaml": EACH.replace("{name: v, dims: {B: B, C: C}}", ""), "both.yaml": BOTH}
    unused = (", {name: z, dims: {A: A, B: B, C: C}}", ", z: f32", ", z: bf16", ", z: f64")
    for text in unused:
        texts = {name: given.replace(text, "") for name, given in texts.items()}
    for text in (", ]", ", v: f32", ", v: bf16", ", v: f64"):
        texts["own.yaml"] = texts["own.yaml"].replace(text, "]" if text == ", ]" else "")
    made = package(texts, tmp_path, f"each_rows_{isa}")[1]
    random = rng("each row", isa)
    for kind, other in ((np.float32, np.float32), (KINDS["bf16"], KINDS["bf16"]), (np.int8, np.float64)):
        for cells in (1, 2, 3, 11, 15, 16, 17, 33, 64, 129):
            for tasks, rows in ((1, 70), (5, 130), (40, 3), (3, 1000)):
                x = random.integers(-8, 9, (tasks, rows, cells)).astype(kind)
                w = random.integers(-4, 5, (tasks, 2 * cells)).astype(other)[:, :: random.integers(1, 3)][:, :cells]
                v = random.integers(-4, 5, (rows, cells)).astype(other)
                wanted = (x.astype(np.float64) + 3) * w.astype(np.float64)[:, None]
                for threads in (1, 2):
                    found = made.each_own(x, w, threads=threads).astype(np.float64)
                    assert np.array_equal(found, wanted), (kind, cells, tasks, rows)
                    found = made.each_both(x, w, v, threads=threads).astype(np.float64)
                    assert np.array_equal(found, wanted - v.astype(np.float64)), (kind, cells, tasks, rows)


@pytest.mark.parametrize("cell", ["u8", "s8", "boolean", "bf16"])
def test_rows_beside_cells_of_a_narrow_type_are_as_long_as_beside_those_of_their_own(cell: str, tmp_path: Path) -> None:
    text = SPEC.format(name="Masked", value="x[b, c] * k[b]").replace(
        "  - {name: w, dims: {X: C}, summary: A row.}\n", ""
    )
    begin, end = text.index("dtypes:"), text.index("semantics:")
    text = f"{text[:begin]}dtypes:\n  - {{x: f32, k: {cell}, y: f32, accumulate: f32}}\n{text[end:]}"
    _, module = package({"masked.yaml": text}, tmp_path, f"masked_{cell}")
    (source,) = (tmp_path / f"masked_{cell}" / "c").glob("masked_f32*.c")
    assert "parts_, OPWRIGHT_FEW)" in source.read_text(encoding="utf-8")
    random, kind = rng("masked rows", cell), {**KINDS, "u8": np.uint8, "boolean": np.bool_}[cell]
    for rows, cells in ((1000, 3), (300, 16), (64, 45), (7, 129)):
        x, k = random.integers(-8, 9, (rows, cells)).astype("f4"), random.integers(0, 2, rows).astype(kind)
        np.testing.assert_array_equal(module.masked(x, k), x * k.astype("f4")[:, None])
