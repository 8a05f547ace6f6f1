"""Indices by min and max, such as borders that mirror or repeat cells: kernels and the interpreter agree."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from opwright.oracle.run_steps import compute_steps
from support.draws import FULL, rng
from support.package import package
from support.spec_packages import instruction_set, serving
from support.step_calls import Rng
from support.step_verdicts import first_disagreement

BENT = """op: {name}
revision: 1
summary: Cells at an index that bends.
dims: {{rows: B, cells: {{symbol: C, min: {least}}}, wide: {{symbol: L}}}}
attributes:
  - {{name: pad, symbol: P, type: s64, required: true, min: 0, max: 9}}
  - {{name: shift, symbol: S, type: s64, default: "0"}}
inputs:
  - {{name: src, dims: {{B: B, C: C}}}}
outputs:
  - {{name: dst, dims: {{B: B, L: L}}}}
dtypes:
  - {{src: {dtype}, dst: {dtype}, accumulate: f32}}
shape: {{L: C + {times} * P}}
{constraints}semantics:
  ranges: {{b: B, l: L}}
  steps:
    - {step}
"""
INSIDE = "constraints:\n  - {id: inside, expr: P < C, say: pads are less than the cells, argument: pad}\n"
BORDERS = {
    "mirrored": "min(max(l - P, P - l), 2 * (C - 1) + P - l)",
    "repeated": "min(max(l - P, 0), C - 1)",
    "backwards": "C - 1 - min(max(l - P, 0), C - 1)",
}
SOME = {  # which are inside if there are cells, or enough of them
    "reflected": "min(max(l - P, P - l), 2 * (C - 1) - max(l - P, P - l))",
    "scaled": "floor(l * C / L)",
}

ADDED = """op: {name}
revision: 1
summary: Cells that are added where an index bends.
dims: {{rows: B, wide: L, cells: {{symbol: C, min: 0}}}}
attributes: [{{name: pad, symbol: P, type: s64, required: true, min: 0, max: 9}}]
inputs: [{{name: src, dims: {{B: B, L: L}}}}]
outputs: [{{name: dst, dims: {{B: B, C: C}}}}]
dtypes:
  - {{src: f32, dst: f32, accumulate: f32}}
  - {{src: bf16, dst: bf16, accumulate: f32}}
  - {{src: f64, dst: f64, accumulate: f64}}
shape: {{C: L - 2 * P}}
semantics: {{ranges: {{b: B, l: L}}, steps: ["dst[b, {index}] += src[b, l]"]}}
"""
SUMS = {
    "Repeated": BORDERS["repeated"],
    "Backwards": BORDERS["backwards"],
    "Reflected": SOME["reflected"],
    "Around": "(l - P) % C",
    "Ahead": "(P + l) % C",
}
AROUND = {"around": "(l - P) % C", "against": "C - 1 - (l + S) % C"}


def linear(source: Rng) -> str:
    """A linear function of the lane."""
    factor, rest = source.choice(["l", "-l", "2 * l", "C - l", "0"]), source.choice(["0", "P", "S", "C - 1", "3"])
    return f"{factor} {source.choice(['+', '-'])} {rest}"


def bent(source: Rng, depth: int = 2) -> str:
    """An index of min and max, which may leave its axis."""
    if depth == 0 or source.random() < 0.2:
        return linear(source)
    function = source.choice(["min", "max"])
    return f"{function}({bent(source, depth - 1)}, {bent(source, depth - 1)})"


def spec(source: Rng, name: str) -> str:
    border = str(source.choice([*BORDERS, *SOME, "drawn"]))
    index = (BORDERS | SOME).get(border) or f"min(max({bent(source)}, {source.choice(['0', 'P'])}), C - 1)"
    value = source.choice(["src[b, {0}]", "src[b, {0}] + src[min(b + 1, B - 1), {0}]", "max(src[b, {0}], 0)"])
    dtype = source.choice(["f32", "bf16", "s8", "f16"])
    step = f"dst[b, l] = {value.format(index)}"
    constraints, times = (INSIDE, 2) if border == "mirrored" else ("", int(source.integers(1, 4)))
    times = 2 if border == "reflected" else times
    least = int(source.integers(0, 2))
    return BENT.format(name=name, dtype=dtype, step=step, constraints=constraints, times=times, least=least)


@pytest.mark.sweep
def test_cells_are_found_where_an_index_bends(tmp_path: Path) -> None:
    source, count, calls = rng("bends"), 60 if FULL else 6, 30 if FULL else 12
    texts = {f"bent_{n}.yaml": spec(source, f"Bent{n}") for n in range(count)}
    seen: Counter[str] = Counter()
    library, module = package(texts, tmp_path, "bends")
    for op in library.ops:
        for isa in serving(module, op)[: None if FULL else 1]:
            with instruction_set(module, isa):
                found = first_disagreement(module, op, rng(op.op, isa), calls, seen)
                assert found is None, f"{isa}: {found}\n{texts[f'bent_{op.op[4:]}.yaml']}"
    assert sum(seen[f"{op.op} legal"] for op in library.ops) > count * calls / 2


def test_borders_are_copied_in_pieces_without_a_test_of_each_cell(tmp_path: Path) -> None:
    texts = {
        f"{name}.yaml": BENT.format(
            name=name.title(),
            dtype="f32",
            step=f"dst[b, l] = src[b, {index}]",
            constraints=INSIDE,
            times=2,
            least=1,
        )
        for name, index in BORDERS.items()
    }
    package(texts, tmp_path, "borders")
    for name in BORDERS:
        text = (tmp_path / "borders" / "c" / f"{name}_f32.c").read_text(encoding="utf-8")
        assert "opwright_copied_f32" in text
        assert "dst_sum_" not in text


def test_cells_of_indices_that_need_room_are_copied_without_a_test_of_each(tmp_path: Path) -> None:
    texts = {
        f"{name}.yaml": BENT.format(
            name=name.title(), dtype="f32", step=f"dst[b, l] = src[b, {index}]", constraints="", times=2, least=0
        )
        for name, index in SOME.items()
    }
    library, module = package(texts, tmp_path, "room")
    for op in library.ops:  # of axes without cells, with few, and with enough
        assert first_disagreement(module, op, rng(op.op), 24, Counter()) is None
    for name, (call, holds) in {
        "reflected": ("opwright_copied_f32", "C >= 16"),
        "scaled": ("opwright_picked_f32", "C - 1 >= 0"),
    }.items():
        text = (tmp_path / "room" / "c" / f"{name}_f32.c").read_text(encoding="utf-8")
        assert text.index(f"if (!({holds}))") < text.index(f"if ({holds})") < text.index(call)


FAR = """op: FarBorders
revision: 1
summary: Borders of CELLS cells that mirror.
dims: {rows: B, cells: C}
inputs: [{name: src, dims: {B: B, C: C}}]
outputs: [{name: dst, dims: {B: B, L: C + 2 * CELLS}}]
dtypes: [{src: f32, dst: f32, accumulate: f32}]
semantics:
  ranges: {b: B, l: C + 2 * CELLS}
  steps: ["dst[b, l] = src[b, min(max(l - CELLS, CELLS - l), 2 * (C - 1) + CELLS - l)]"]
"""


@pytest.mark.parametrize(("cells", "enough"), [(9, 16), (40, 64), (100, 256), (300, 1024)])
def test_wide_borders_are_copied_in_pieces_where_axes_have_the_cells(cells: int, enough: int, tmp_path: Path) -> None:
    library, module = package({"far.yaml": FAR.replace("CELLS", str(cells))}, tmp_path, f"far_{cells}")
    text = (tmp_path / f"far_{cells}" / "c" / "far_borders_f32.c").read_text(encoding="utf-8")
    assert text.index(f"if (C >= {enough})") < text.index("opwright_copied_f32")
    for extent in (1, cells // 2, cells, cells + 1, enough - 1, enough, enough + 1):
        src = rng("far", cells, extent).normal(size=(3, extent)).astype("f4")
        expected = compute_steps(library.ops[0], [src], {})["dst"]
        np.testing.assert_array_equal(module.far_borders(src), expected)


def test_cells_are_added_in_pieces_where_an_index_bends_or_goes_around(tmp_path: Path) -> None:
    texts = {f"{name}.yaml": ADDED.format(name=name, index=index) for name, index in SUMS.items()}
    seen: Counter[str] = Counter()
    library, module = package(texts, tmp_path, "added")
    for op in library.ops:
        for isa in serving(module, op)[: None if FULL else 1]:
            with instruction_set(module, isa):
                assert first_disagreement(module, op, rng(op.op, isa), 18, seen) is None, op.op
    assert sum(seen[f"{name} legal"] for name in SUMS) > 60
    for name in SUMS.keys() - {"Reflected"}:  # whose pads may be too wide
        for dtype, call in (("f32", "f32_f32"), ("bf16", "f32_bf16"), ("f64", "f64_f64")):
            text = (tmp_path / "added" / "c" / f"{name.lower()}_{dtype}.c").read_text(encoding="utf-8")
            assert f"opwright_added_{call}" in text, name


def test_one_number_of_a_task_is_added_where_an_index_goes_around(tmp_path: Path) -> None:
    """Its kernel took the number for an array, and did not compile."""
    steps = '"whole[b] += src[b, l]", "dst[b, (P + l) % C] += whole[b]"'
    text = ADDED.format(name="Whole", index="l").replace('"dst[b, l] += src[b, l]"', steps)
    seen: Counter[str] = Counter()
    library, module = package({"whole.yaml": text}, tmp_path, "whole_added")
    with instruction_set(module, serving(module, library.ops[0])[0]):
        assert first_disagreement(module, library.ops[0], rng("whole added"), 18, seen) is None
    assert seen["Whole legal"] > 10


def test_rows_that_go_around_an_axis_are_copied_to_where_they_are_stored(tmp_path: Path) -> None:
    texts = {
        f"{name}_{dtype}.yaml": BENT.format(
            name=f"{name.title()}Of{dtype.title()}", dtype=dtype, step=f"dst[b, l] = src[b, {index}]", constraints="",
            times=2, least=1,
        )
        for name, index in AROUND.items()
        for dtype in ("f32", "u8")
    }  # fmt: skip
    library, module = package(texts, tmp_path, "around")
    for op in library.ops:
        for isa in serving(module, op)[: None if FULL else 1]:
            with instruction_set(module, isa):
                assert first_disagreement(module, op, rng(op.op, isa), 16, Counter()) is None
    kernels = [path.read_text(encoding="utf-8") for path in (tmp_path / "around" / "c").glob("*.c")]
    assert sum("past_ ? src_room_ : dst_row_, " in text for text in kernels) == len(texts)
