"""One operation written in several ways: rows between steps, groups by a quotient, taps from the last on, sums in steps."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from opwright.derive.phases import Staged, staged
from opwright.language import expr
from opwright.load import load_texts
from support.draws import rng
from support.package import package
from support.spec_packages import instruction_set, serving
from support.step_verdicts import first_disagreement

FORMULAS = Path(__file__).parents[1] / "data" / "formulas"
ROWS = """op: Rows
revision: 1
summary: Rows, and what steps make of them.
dims: {{rows: R, width: {{symbol: W, min: 1}}}}
inputs: [{{name: x, dims: {{R: R, W: W}}}}, {{name: turned, dims: {{W: W, R: R}}}}]
outputs: [{{name: y, dims: {{R: R, W: W}}}}]
dtypes: [{{x: f32, turned: f32, y: f32, accumulate: f32}}]
semantics:
  ranges: {{r: R, w: W}}
  steps:
    - mean[r] += x[r, w] / W + turned[w, r]
    - d[r, w] = {value}
    - square[r] += {square}
    - y[r, w] = {last}
"""


def text_of(name: str) -> str:
    return (FORMULAS / f"{name}.yaml").read_text(encoding="utf-8")


def of(text: str) -> Staged:
    (op,) = load_texts({"one.yaml": text}).ops
    return staged(op)


def rows(
    value: str = "x[r, w] - mean[r]", square: str = "d[r, w] * d[r, w]", last: str = "d[r, w] / square[r]"
) -> Staged:
    return of(ROWS.format(value=value, square=square, last=last))


def test_a_row_that_is_cheap_to_make_is_not_stored() -> None:
    assert "d" not in rows().arrays
    assert not {"d", "n"} & of(text_of("ln_two_pass")).arrays.keys()


@pytest.mark.parametrize(
    "changed",
    [
        {"value": "x[r, w] / mean[r]"},  # what divides costs more than a row, if it is read twice
        {"value": "exp(x[r, w])"},
        {"value": "turned[w, r] - mean[r]"},  # in the order of the target, it is turned once
        {"value": "x[r, w - 1] - mean[r]"},  # a cell that nothing reaches is 0, and a term is left out
        {"last": "d[r, W - 1 - w] / square[r]"},
    ],
    ids=str,
)
def test_a_row_that_is_dear_or_read_elsewhere_is_stored(changed: dict[str, str]) -> None:
    assert "d" in rows(**changed).arrays


def test_a_quotient_that_one_step_reads_is_not_stored() -> None:
    assert "d" not in rows("x[r, w] / mean[r]", square="x[r, w]").arrays


def test_a_step_that_finds_groups_by_a_quotient_walks_them_like_the_others() -> None:
    made = of(text_of("group_norm_last"))
    (phase,) = made.phases
    assert {"g", "w"} <= {*phase.parts[-1].letters}
    assert "g" in phase.own


def test_a_window_whose_taps_are_read_from_the_last_one_on_is_a_contraction() -> None:
    text = text_of("conv_flipped")
    assert any(phase.contraction for phase in of(text).phases)
    assert any(phase.contraction for phase in of(text.replace("K - 1 - k", "min(K - 1 - k, 3)")).phases)
    assert not any(phase.contraction for phase in of(text.replace("K - 1 - k", "K - k")).phases)


def test_lanes_go_along_a_letter_that_walks_sums_alone(tmp_path: Path) -> None:
    _, module = package({"attn_bshd.yaml": text_of("attn_bshd")}, tmp_path, "lanes_of_sums")
    spec = module.TensorSpec((1, 64, 2, 32), "float32")
    explanation = str(module.explain("attn_bshd", spec, spec, spec))
    assert "lanes along t: row:" in explanation
    assert "lanes along s" not in explanation


OUTER = """op: Outer
revision: 1
summary: An outer product.
dims: {rows: R, columns: C}
inputs: [{name: x, dims: {R: R}}, {name: y, dims: {C: C}}]
outputs: [{name: z, dims: {R: R, C: C}}]
dtypes: [{x: f32, y: f32, z: f32, accumulate: f32}]
semantics:
  ranges: {r: R, c: C}
  steps:
    - z[r, c] += x[r] * y[c]
"""


def test_a_sum_of_one_term_is_assigned_and_never_minus_zero(tmp_path: Path) -> None:
    assert [part.operator for phase in of(OUTER).phases for part in phase.parts] == ["set"]
    _, module = package({"outer.yaml": OUTER}, tmp_path, "outer_package")
    made = module.outer(np.float32([-1, 0, 2]), np.zeros(40, np.float32))
    assert not np.signbit(made).any()


SUMS = """op: {op}
revision: 1
summary: A product of sums.
dims: {{rows: R, columns: C, inner: K, others: M}}
attributes: [{{name: scale, symbol: S, type: f32, default: "1"}}]
inputs: [{{name: w, dims: {{R: R, K: K}}}}, {{name: v, dims: {{{v}}}}}, {{name: y, dims: {{{y}}}}}]
outputs: [{{name: z, dims: {{R: R, C: C}}}}]
dtypes: [{{w: f32, v: f32, y: f32, z: f32, accumulate: f32}}]
semantics:
  ranges: {{r: R, c: C, k: K, m: M}}
  steps:
    - z[r, c] += {value}
"""
FORMS = {  # the axes of v and y, and the value: letters of one factor, a chain, one with a scale
    "lone": ("M: M", "C: C", "w[r, k] * y[c] * v[m]"),
    "diagonal": ("M: M, M0: M", "C: C", "w[r, k] * y[c] * v[m, m]"),
    "two_left": ("M: M, K: K", "C: C", "w[r, k] * y[c] * v[m, k]"),
    "chained": ("K: K, M: M", "M: M, C: C", "w[r, k] * v[k, m] * y[m, c]"),
    "scaled": ("K: K, M: M", "C: C, M: M", "w[r, k] * v[k, m] * y[c, m] * S"),
}


def test_letters_of_one_factor_are_summed_before_factors_are_multiplied() -> None:
    for name in ("lone", "diagonal"):
        v, y, value = FORMS[name]
        parts = [part for phase in of(SUMS.format(op="Lone", v=v, y=y, value=value)).phases for part in phase.parts]
        assert all(len(part.letters) <= 2 for part in parts)


def test_sums_without_terms_are_zero_beside_infinite_factors(tmp_path: Path) -> None:
    texts = {
        f"{n}.yaml": SUMS.format(op=n.title().replace("_", ""), v=v, y=y, value=x) for n, (v, y, x) in FORMS.items()
    }
    _, module = package(texts, tmp_path, "sums_package")
    for name, (v, y, _) in FORMS.items():
        for extents in itertools.product((2, 3), (2, 3), (0, 2), (0, 3)):
            sizes = dict(zip("RCKM", extents))
            shapes = [[sizes[axis[0]] for axis in dims.split(", ")] for dims in ("R: R, K: K", v, y)]
            for infinite in range(3):
                arrays = [np.full(shape, np.inf if n == infinite else 1, np.float32) for n, shape in enumerate(shapes)]
                scale = np.inf if name == "scaled" else 1.0
                terms = extents[2] * extents[3]
                made = getattr(module, name)(*arrays, scale=scale)
                assert (made == (np.inf if terms else 0)).all(), (name, sizes, infinite)


@pytest.mark.parametrize("name", ["lstm_cell", "bias_first", "block_dct"])
def test_sums_that_steps_add_to_one_array_are_contractions_and_so_are_those_by_blocks(name: str) -> None:
    assert sum(phase.contraction is not None for phase in of(text_of(name)).phases) == {"bias_first": 1}.get(name, 2)


BLOCKS = """op: Blocks
revision: 1
summary: Sums by blocks, read again as they lie.
dims: {blocks: G, each: E, terms: K}
inputs: [{name: x, dims: {G: G, E: E, K: K}}]
outputs: [{name: y, dims: {C: G * E}}, {name: z, dims: {C: G * E}}]
dtypes: [{x: f32, y: f32, z: f32, accumulate: f32}]
let: {C: G * E}
semantics:
  ranges: {g: G, e: E, c: C, k: K}
  steps:
    - y[g * E + e] += abs(x[g, e, k])
    - z[c] = y[c] + 1
"""


def test_a_task_of_a_block_begins_the_sums_of_that_block_alone(tmp_path: Path) -> None:
    _, module = package({"blocks.yaml": BLOCKS}, tmp_path, "blocks_package")
    y, z = module.blocks(np.ones((5, 3, 40), np.float32), threads=2)
    assert (y == 40).all()
    assert (z == 41).all()


def test_the_parts_of_numbers_that_lie_together_are_written_where_they_belong() -> None:
    (phase,) = of(text_of("complex_scale")).phases
    assert {part.target.tensor for part in phase.parts} == {"y"}
    assert phase.lanes == ("f",)
    assert "y_sum_" in of(text_of("complex_scale").replace("y[b, f, 1]", "y[b, f, 0]")).arrays


def test_an_operand_that_would_be_widened_for_one_product_is_left_to_loops(tmp_path: Path) -> None:
    _, module = package({"moe_combine.yaml": text_of("moe_combine")}, tmp_path, "widened_once")
    gate, y, x = (module.TensorSpec(shape, "bfloat16") for shape in ((1024, 8), (8, 1024, 128), (1024, 128)))
    assert "a contraction for" not in str(module.explain("moe_combine", gate, y, x))


@pytest.mark.parametrize("formula", ["H - 2", "floor((H - 3) / 2) + 1"])
def test_an_extent_that_let_names_is_the_same_written_out(formula: str) -> None:
    text = """
op: Threes
revision: 1
summary: Sums of three cells.
dims: {{channels: {{symbol: C}}, rows: {{symbol: H, min: 3}}}}
inputs: [{{name: x, dims: {{C: C, H: H}}}}, {{name: w, dims: {{C: C, K: 3}}}}]
outputs: [{{name: y, dims: {{C: C, P: {extent}}}}}]
dtypes: [{{x: f32, w: f32, y: f32, accumulate: f32}}]
let: {{P: {formula}}}
semantics:
  ranges: {{c: C, p: P, k: 3}}
  steps:
    - y[c, p] += x[c, p + k] * w[c, k]
"""
    written, named = (of(text.format(formula=formula, extent=extent)) for extent in (formula, "P"))
    assert [phase.contraction for phase in written.phases] == [phase.contraction for phase in named.phases]
    assert written.program.arrays == named.program.arrays


GATED = """op: Gated
revision: 1
summary: Cells beside a gate of their channel's mean.
dims: {samples: N, space: X, channels: C}
inputs: [{name: a, dims: {N: N, X: X, C: C}}, {name: w, dims: {C: C}}]
outputs: [{name: y, dims: {N: N, X: X, C: C}}]
dtypes: [{a: f32, w: f32, y: f32, accumulate: f32}, {a: bf16, w: f32, y: bf16, accumulate: f32}]
semantics:
  ranges: {n: N, x: X, c: C}
  steps:
    - level[n, c] += a[n, x, c] * w[c]
    - y[n, x, c] = VALUE
"""


@pytest.mark.parametrize("value", ["a[n, x, c] / (1 + exp(-level[n, c]))", "a[n, x, c] * tanh(level[n, c]) + exp(w[c])",
                                   "(a[n, x, c] - level[n, c]) / sqrt(level[n, c] * level[n, c] + 1)"])  # fmt: skip
def test_costly_values_of_few_letters_are_computed_once_for_all_cells(value: str, tmp_path: Path) -> None:
    library, module = package({"gated.yaml": GATED.replace("VALUE", value)}, tmp_path, f"gated_{abs(hash(value))}")
    called = {"exp", "tanh", "sqrt", "rsqrt"}
    for phase in staged(library.ops[0]).phases:
        for part in phase.parts:
            trees = [node for formula in part.formulas for node in expr.walk(formula.value)]
            costly = any(isinstance(node, expr.Call) and node.function in called for node in trees)
            assert not costly or "x" not in phase.own, part
    for isa in serving(module, library.ops[0])[:2]:
        with instruction_set(module, isa):
            problem = first_disagreement(module, library.ops[0], rng(isa, value), 8, Counter[str]())
            assert problem is None, f"{isa}: {problem}"
