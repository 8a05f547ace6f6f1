"""Gradients that are derived from semantics: what they read like, and that differences and PyTorch agree with them."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from opwright.derive.gradient.rules import OF_ONE
from opwright.derive.gradient.shared import shared
from opwright.derive.gradient.statements import Statement, Underivable
from opwright.derive.gradient.versions import forward
from opwright.gradients import gradient_text, why_none
from opwright.language.expr import parse
from opwright.language.model import Op
from opwright.language.spelling import spell
from opwright.load import load_texts, load_with_gradients
from opwright.oracle.slopes import disagreement, tied
from support.draws import FULL, rng
from support.random_places import places
from support.random_programs import Programs
from support.random_rewrites import Rewrites
from support.specs import FOLDER

SPECS = Path(__file__).parents[1] / "data" / "steps"
TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted(SPECS.glob("*.yaml"))}
SHIPPED = load_with_gradients(FOLDER, FOLDER.parents[1])
SECOND = sorted(op.function for op in SHIPPED.every if op.stepped and "Backward" in op.op)
PROGRAMS = 400 if os.environ.get("OPWRIGHT_SWEEP") == "full" else 8


def loaded(text: str) -> Op:
    (op,) = load_texts({"op.yaml": text}).ops
    return op


def steps(text: str) -> list[str]:
    """The lines of a spec's steps."""
    lines = text[text.index("  steps:\n") + len("  steps:\n") : text.index("relations:")]
    return [line.strip().removeprefix("- ") for line in lines.splitlines()]


READS: tuple[tuple[str, list[str]], ...] = (
    ("add", ["diff_src_0[x] += diff_dst[x]", "diff_src_1[x] += diff_dst[x]"]),
    ("mat_mul", [
        "diff_src[b, m, k] += diff_dst[b, m, n] * weights[b, k, n]",
        "diff_weights[b, k, n] += diff_dst[b, m, n] * src[b, m, k]",
        "diff_bias[n] += diff_dst[b, m, n]",
    ]),
    ("soft_max", [
        "total_sum[b, a] += diff_dst[b, c, a] * dst[b, c, a]",
        "diff_src[b, c, a] = dst[b, c, a] * (diff_dst[b, c, a] - total_sum[b, a])",
    ]),
    ("reduce_sum", ["diff_src[k, r] = diff_dst[k, 0]"]),
    ("select", [
        "diff_src_0[x] += select(cond[x] != 0, diff_dst[x], 0)",
        "diff_src_1[x] += select(cond[x] != 0, 0, diff_dst[x])",
    ]),
    ("spread", ["diff_src[n, i] += diff_dst[n, i * S + k]"]),
    ("nearest", ["diff_src[n, floor(o * I / T)] += diff_dst[n, o]"]),
    ("max_pool", [
        "dst_first[n, c, o] min= select(src[n, c, o * S + k * D - P] == dst[n, c, o], number(k), inf)",
        "diff_src[n, c, o * S + k * D - P] += select(number(k) == dst_first[n, c, o], diff_dst[n, c, o], 0)",
    ]),
    ("layer_norm", [
        "total[b] += src[b, c]",
        "mean[b] = total[b] / prod(C)",
        "square[b] += (src[b, c] - mean[b]) * (src[b, c] - mean[b])",
        "variance[b] = square[b] / prod(C)",
        "variance_sum[b] += diff_dst[b, c] * gamma[c] * (src[b, c] - mean[b])",
        "rsqrt_of_variance[b] = rsqrt(variance[b] + epsilon)",
        "diff_square[b] = (diff_variance[b] - 0.5 * pow(rsqrt_of_variance[b], 3) * variance_sum[b]) / prod(C)",
        "mean_sum[b] += diff_dst[b, c] * gamma[c]",
        "diff_total[b] = (diff_mean[b] - rsqrt_of_variance[b] * mean_sum[b]) / prod(C)",
        "diff_src[b, c] = diff_dst[b, c] * rsqrt_of_variance[b] * gamma[c]"
        " + 2 * diff_square[b] * (src[b, c] - mean[b]) + diff_total[b]",
        "diff_gamma[c] += diff_dst[b, c] * rsqrt_of_variance[b] * (src[b, c] - mean[b])",
        "diff_beta[c] += diff_dst[b, c]",
    ]),
)  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), READS, ids=lambda part: part if isinstance(part, str) else "")
def test_a_derived_gradient_reads_as_a_person_would_write_it(name: str, expected: list[str]) -> None:
    text, _ = gradient_text(loaded(TEXTS[name]))
    assert steps(text) == expected


NONE = {
    "greater_equal": "real numbers both in its inputs and in its outputs",
    "quantize": "real numbers both in its inputs and in its outputs",
    "static_transpose": "orders the axes of 'dst'",
    "stretched": "'gain' has the shape of an input that broadcasts, and is no sum that no step reads",
}
NO_SECOND = {"attention_backward": "there is no string or truth attribute 'dtype'"}  # which chooses a step
REASONS = ("real numbers", "orders the axes", "gradient is 0 everywhere")


@pytest.mark.parametrize("name", TEXTS)
def test_every_operation_has_a_gradient_that_differences_agree_with_or_a_reason(name: str) -> None:
    op = loaded(TEXTS[name])
    if name in NONE:
        assert NONE[name] in why_none(op)
        return
    if reason := why_none(op):
        assert any(phrase in reason for phrase in REASONS), reason
        return
    _, backward = gradient_text(op)
    assert disagreement(op, backward, tied(op, backward)) is None


@pytest.mark.parametrize("name", SECOND if FULL else rng("second").choice(SECOND, 8, replace=False))
def test_a_gradient_of_a_gradient_is_derived_and_differences_agree(name: str) -> None:
    (backward,) = (op for op in SHIPPED.every if op.function == name)
    if name in NO_SECOND:
        assert NO_SECOND[name] in why_none(backward)
        return
    _, second = gradient_text(backward)
    assert disagreement(backward, second, tied(backward, second)) is None


def test_a_function_that_several_words_choose_in_one_step_is_no_step_of_its_own() -> None:
    """One of them is computed: sharing it would never end."""
    (op,) = (op for op in SHIPPED.every if op.op == "Exp")
    found, value = forward(op), parse("exp(src[x])")
    statement = Statement(found.parts[0].target, "set", {"one": value, "other": value}, "mode")
    assert shared([statement], found) == [statement]


def test_gradients_are_named_otherwise_where_a_tensor_has_such_a_name() -> None:
    (backward,) = (op for op in SHIPPED.every if op.op == "SoftMaxBackward")
    _, second = gradient_text(backward)
    assert [tensor.name for tensor in second.inputs] == ["diff_dst", "dst", "grad_diff_src"]
    assert [tensor.name for tensor in second.outputs] == ["grad_diff_dst", "grad_dst"]
    _, third = gradient_text(second)
    assert disagreement(second, third, tied(second, third)) is None


@pytest.mark.parametrize("name", ["add", "mat_mul", "layer_norm", "soft_max", "max_pool", "spread", "statistics"])
def test_a_gradient_holds_on_extents_of_0_and_1(name: str) -> None:
    op = loaded(TEXTS[name])
    _, backward = gradient_text(op)
    assert disagreement(op, backward, tied(op, backward), count=8, extents=(0, 1, 1, 5)) is None


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_the_gradient_of_a_random_program_is_what_differences_say(seed: int) -> None:
    text = Programs(np.random.default_rng(seed)).spec()
    op = loaded(text)
    written, backward = gradient_text(op)
    assert disagreement(op, backward, tied(op, backward), count=3) is None, f"{text}\n{written}"


@pytest.mark.parametrize("seed", range(0, 600 if FULL else 60, 20))
def test_gradients_of_steps_at_places_of_all_kinds_are_what_differences_say(seed: int) -> None:
    """Gradients were wrong of extremes at places that several letters reach, of shifts by an attribute below 0, and of

    what two letters of one size name; the numbers of letters that others stand for were refused.
    """
    derived = 0
    for number in range(seed, seed + 20):
        op = loaded(places(np.random.default_rng(number), "Placed"))
        try:
            _, backward = gradient_text(op)
        except Underivable as reason:
            assert "invalid" not in str(reason), number
            continue
        derived += 1
        found = disagreement(op, backward, tied(op, backward), 2)
        assert found is None or found.startswith("no legal call"), (number, found)
    assert derived > 5


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_arrays_that_are_written_again_or_in_pieces_have_the_gradient_of_differences(seed: int) -> None:
    text = Rewrites(np.random.default_rng(1000 + seed)).spec()
    op = loaded(text)
    try:
        written, backward = gradient_text(op)
    except Underivable as reason:
        assert "more than 500 characters" in str(reason), f"{text}\n{reason}"
        return
    assert disagreement(op, backward, tied(op, backward), count=3) is None, f"{text}\n{written}"


WRITTEN_AGAIN = """\
op: Unpool
revision: 1
summary: A convolution that spreads, and its activation, in place.
dims: {cells: I, taps: {symbol: K, min: 1}, places: O}
inputs:
  - {name: src, dims: {I: I}}
  - {name: weights, dims: {K: K}}
outputs:
  - {name: dst, dims: {O: O}}
shape: {O: 2 * (I - 1) + K}
constraints: [{id: some, expr: I >= 1, say: there is a cell, argument: src}]
dtypes:
  - {src: f32, weights: f32, dst: f32, accumulate: f32}
semantics:
  ranges: {i: I, k: K, o: O}
"""
AGAIN = (
    (
        "  steps:\n    - dst[2 * i + k] += src[i] * weights[k]\n    - dst[o] = tanh(dst[o])\n",
        [
            "diff_dst_before[o] = diff_dst[o] * (1 - dst[o] * dst[o])",
            "diff_src[i] += diff_dst_before[2 * i + k] * weights[k]",
            "diff_weights[k] += diff_dst_before[2 * i + k] * src[i]",
        ],
    ),
    (
        "  reduce: dst[2 * i + k] += src[i] * weights[k]\n",
        ["diff_src[i] += diff_dst[2 * i + k] * weights[k]", "diff_weights[k] += diff_dst[2 * i + k] * src[i]"],
    ),
    (
        "  steps:\n    - peak[i] max= src[i + k]\n    - dst[2 * i + k] += peak[i + 1 - k] * weights[k]\n",
        [
            "peak[i] max= src[i + k]",
            "do: diff_peak[i] += diff_dst[2 * (i + k - 1) + k] * weights[k]",
            "where: [i + k - 1 >= 0, i + k - 1 < I]",
            "peak_first[i] min= select(src[i + k] == peak[i], k, inf)",
            "diff_src[i + k] += select(k == peak_first[i], diff_peak[i], 0)",
            "diff_weights[k] += diff_dst[2 * i + k] * peak[i + 1 - k]",
        ],
    ),
)


@pytest.mark.parametrize(("semantics", "expected"), AGAIN)
def test_values_before_an_assignment_have_a_name_and_windows_are_solved(semantics: str, expected: list[str]) -> None:
    op = loaded((WRITTEN_AGAIN if "[o]" in semantics else WRITTEN_AGAIN.replace(", o: O", "")) + semantics)
    written, backward = gradient_text(op)
    assert steps(written) == expected
    assert disagreement(op, backward, tied(op, backward)) is None


def test_cells_that_a_step_overwrites_and_others_keep_have_no_gradient_if_both_depend_on_inputs() -> None:
    kept = "  steps:\n    - dst[o] = weights[0]\n    - dst[i + 1] = src[i]\n"
    text = WRITTEN_AGAIN.replace(", k: K", "") + kept
    assert "step 2 writes cells of 'dst' anew" in why_none(loaded(text))
    _, backward = gradient_text(op := loaded(text.replace("weights[0]", "1")), ("src",))
    assert disagreement(op, backward, tied(op, backward)) is None


POINTWISE = """\
op: Pointwise
revision: 1
summary: A value.
dims:
  cells: {symbol: X, run: true}
attributes:
  - {name: beta, type: f32, default: "2"}
inputs:
  - {name: src, dims: {X: X}}
  - {name: other, dims: {X: X}}
outputs:
  - {name: dst, dims: {X: X}}
dtypes:
  - {src: f32, other: f32, dst: f32, accumulate: f32}
semantics:
  ranges: {x: X}
  steps:
    - dst[x] = other[x] * VALUE
"""
VALUES = [f"{name}(src[x])" for name in OF_ONE] + [
    "pow(src[x], other[x])", "pow(src[x], beta)", "pow(src[x], 3)", "max(src[x], other[x], 0.5)",
    "min(0.75, src[x])", "src[x] / other[x]", "select(src[x] > other[x], src[x], -other[x])", "floor(src[x] * 1.0)",
    "(src[x] - other[x]) * (src[x] + other[x])",
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_the_rule_of_every_function_is_what_differences_say(value: str) -> None:
    text = POINTWISE.replace("VALUE", value)
    op = loaded(text if "beta" in value else text[: text.index("attributes:")] + text[text.index("inputs:") :])
    _, backward = gradient_text(op)
    assert disagreement(op, backward, tied(op, backward), count=6) is None


def row_product(*, zeros: int) -> tuple[np.ndarray, np.ndarray]:
    """Two rows of which the first has some zeros, and the gradient of their products."""
    src = np.arange(1.0, 9.0).reshape(2, 4).astype(np.float32)
    src[0, :zeros] = 0
    expected = np.array([[np.prod(np.delete(row, at)) for at in range(4)] for row in src], np.float32)
    return src, expected


@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_the_gradient_of_a_product_is_right_where_factors_are_0(zeros: int) -> None:
    from opwright.oracle.run_steps import compute_steps

    text = TEXTS["reduce_sum"].replace("dst[k, 0] += src[k, r]", "dst[k, 0] *= src[k, r]")
    text = text[: text.index("  - {src: s8")] + text[text.index("semantics:") :]
    _, backward = gradient_text(loaded(text))
    src, expected = row_product(zeros=zeros)
    given = {"src": src, "dst": np.prod(src, 1), "diff_dst": np.ones(2, np.float32)}
    found = compute_steps(backward, [given[tensor.name] for tensor in backward.inputs], {"axes": [1]})
    np.testing.assert_array_equal(found["diff_src"], expected)


def test_the_first_cell_that_attains_a_maximum_has_its_gradient() -> None:
    from opwright.oracle.run_steps import compute_steps

    op = loaded(TEXTS["max_pool"])
    _, backward = gradient_text(op)
    src = np.array([2, 7, 7, 1, 7, 7], np.float32).reshape(1, 6, 1)
    attributes = {"kernel": [3], "strides": [3]}
    dst = compute_steps(op, [src], attributes)["dst"]
    found = compute_steps(backward, [src, dst, np.array([[[1], [10]]], np.float32)], attributes)
    assert found["diff_src"].ravel().tolist() == [0, 1, 0, 0, 10, 0]


DIFFERENCE = """op: Difference
revision: 1
summary: The square of a difference of two numbers.
dims: {}
inputs: [{name: a, dims: {}}, {name: b, dims: {}}]
outputs: [{name: dst, dims: {}}]
dtypes: [{a: f64, b: f64, dst: f64, accumulate: f64}]
semantics: {ranges: {}, steps: ["dst[] = (a[] - b[]) * (a[] - b[])"]}
"""
SIDES = """op: Sides
revision: 1
summary: Whole parts of some numbers, and the sum of others.
dims: {rows: {symbol: A}, columns: {symbol: B}}
inputs: [{name: x, dims: {B: B, C: B}}, {name: y, dims: {A: A, B: B}}]
outputs: [{name: dst, dims: {B: B}}, {name: total, dims: {}}]
dtypes: [{x: f64, y: f64, dst: f64, total: f64, accumulate: f64}]
semantics: {ranges: {a: A, b: B}, steps: ["dst[b] = floor(x[b, b])", "total[] += y[a, b]"]}
"""


def test_an_operation_without_sizes_has_a_gradient() -> None:
    op = loaded(DIFFERENCE)
    _, backward = gradient_text(op)
    assert not backward.dims
    assert disagreement(op, backward, tied(op, backward)) is None


def test_a_gradient_takes_no_input_for_a_size_that_another_one_tells_too() -> None:
    """`x` was taken for its columns, then `y` for rows and columns; no step read `x`, and the spec was refused."""
    op = loaded(SIDES)
    _, backward = gradient_text(op)
    assert [tensor.name for tensor in backward.inputs] == ["y", "diff_total"]
    assert disagreement(op, backward, tied(op, backward)) is None


AROUND = """op: Around
revision: 1
summary: Cells times {what} of the row that comes next, around the end.
dims: {{rows: {{symbol: A}}, columns: {{symbol: B}}}}
attributes: [{{name: shift, symbol: Q, type: s64, default: "1"}}]
inputs: [{{name: x, dims: {{A: A, B: B}}}}]
outputs: [{{name: dst, dims: {{A: A, B: B}}}}]
dtypes: [{{x: f64, dst: f64, accumulate: f64}}]
semantics: {{ranges: {{a: A, b: B}}, steps: ["made[a] {sign} x[a, b] * x[a, b]", "dst[a, b] = x[a, b] * made[{index}]"]}}
"""


@pytest.mark.parametrize("index", ["(a + 1) % A", "(a + Q) % A", "(Q - a) % A"])
@pytest.mark.parametrize(("what", "sign"), [("the sum", "+="), ("the greatest", "max=")])
def test_what_is_read_around_an_axis_has_a_gradient(what: str, sign: str, index: str) -> None:
    op = loaded(AROUND.format(what=what, sign=sign, index=index))
    _, backward = gradient_text(op)
    assert disagreement(op, backward, tied(op, backward)) is None


def test_only_the_inputs_that_are_asked_for_have_a_gradient() -> None:
    text, backward = gradient_text(loaded(TEXTS["mat_mul"]), ["weights"])
    assert backward.op == "MatMulBackwardWeights"
    assert [tensor.name for tensor in backward.outputs] == ["diff_weights"]
    assert "--of weights" in text
    with pytest.raises(Underivable, match="'axis' is not an input"):
        gradient_text(loaded(TEXTS["soft_max"]), ["axis"])


def test_the_gradient_of_a_gradient_is_derived_too() -> None:
    _, first = gradient_text(loaded(TEXTS["joined_rows"].replace("abs(src", "tanh(src")))
    _, second = gradient_text(first)
    assert disagreement(first, second, tied(first, second)) is None


SPELLED = (
    "a + b * (c - d) / -e", "(a + b) * c", "a - (b - c)", "a / (b * c)", "a / b * c", "-(a + b)", "not (a == b) or c < d",
    "select(a == 0 and b >= 0, 0, y * log(a))", "floor(a / b) % 3", "src[n, c * 2 + k - 1] == inf", "1.5 + 0.00001", "-a * -b",
    "(a and b or c) == d",
)  # fmt: skip


@pytest.mark.parametrize("text", SPELLED)
def test_what_is_spelled_is_parsed_to_the_same_tree(text: str) -> None:
    assert parse(spell(parse(text))) == parse(text)
