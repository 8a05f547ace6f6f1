"""What is refused of an entry that names a node of ONNX, and what its operands mean."""

from __future__ import annotations

import pytest
from opwright.language.onnx_nodes import Given, Term, output_of, terms
from support.specs import OTHERS, problems_of

ARGUMENTS = "arguments: {src: X, kernel: kernel_shape, strides: 'strides or 1 per X.shape[2:]'}"
ENTRIES = {
    "{node: MaxPool, " + ARGUMENTS + "}": [],
    "{node: MaxPool, since: 3, until: 2, " + ARGUMENTS + "}": ["onnx-opset"],
    "{node: MaxPool, arguments: {src: X}}": ["onnx-missing"],
    "{node: MaxPool, arguments: {src: X, kernel: k, strides: s, left: X}}": ["onnx-argument"],
    "{node: MaxPool, arguments: {src: X, strides: s}, words: {left: one, kernel: one}}": ["onnx-argument"],
    "{node: MaxPool, " + ARGUMENTS + ", words: {kernel: one}}": ["onnx-argument"],
    "{node: MaxPool, " + ARGUMENTS + ", gives: [left]}": ["onnx-output"],
    "{node: MaxPool, " + ARGUMENTS + ", gives: [rsqrt(left + strides)]}": ["onnx-output", "onnx-output"],
    "{node: MaxPool, " + ARGUMENTS + ", gives: [sqrt(dst)]}": ["name"],
    "{node: MaxPool, " + ARGUMENTS + "}, {node: MaxPool, " + ARGUMENTS + "}": ["onnx-duplicate"],
    "{node: MaxPool, " + ARGUMENTS + "}, {node: MaxPool, since: 8, " + ARGUMENTS + "}": [],
    "{node: MaxPool, when: {'X.shape[0]': '1'}, " + ARGUMENTS + "}": [],
    "{node: MaxPool, when: {'X.shape[0]': 'none or > 1 or X.shape[1]'}, " + ARGUMENTS + "}": [],
    "{node: MaxPool, when: {'X.shape[0]': '> X'}, " + ARGUMENTS + "}": ["name"],
    "{node: MaxPool, " + ARGUMENTS + ", gives: [dst * alpha + C * beta]}": [],
    "{node: MaxPool, when: {'X.rows': '1'}, " + ARGUMENTS + "}": ["name"],
    "{node: MaxPool, arguments: {src: 'X)', kernel: k}}": ["name"],
    "{node: MaxPool, arguments: {src: X, kernel: 'k[1:2:3]'}}": ["name"],
    "{node: MaxPool, " + ARGUMENTS + ", mirrors: 'X.axes[2:]'}": [],
    "{node: MaxPool, " + ARGUMENTS + ", mirrors: 'X.axes[2:'}": ["name"],
    "{node: 'Max Pool', " + ARGUMENTS + "}": ["name"],
    "{" + ARGUMENTS + "}": ["missing-key"],
}


@pytest.mark.parametrize("entries", ENTRIES)
def test_an_entry_of_onnx_names_what_is_there_and_says_all_that_is_required(entries: str) -> None:
    text = OTHERS["max_pool.yaml"] + f"onnx: [{entries}]\n"
    assert [problem.rule for problem in problems_of({"max_pool.yaml": text})] == ENTRIES[entries]


def test_an_operand_is_a_list_of_alternatives() -> None:
    assert terms("X") == (Term(None, "X"),)
    assert terms("pads[half:] or 0 per X.shape[2:]") == (
        Term(None, "pads", "", ("half", None)),
        Term(0.0, "X", "shape", (2, None)),
    )
    assert terms("perm or X.axes[::-1]")[1] == Term(None, "X", "axes", (None, None, -1))
    assert terms("min or -inf")[1] == Term(float("-inf"))
    assert terms("slope like X")[0] == Term(None, "slope", relation="like", other=Term(None, "X"))
    assert terms("sizes / X.shape")[0] == Term(None, "sizes", relation="/", other=Term(None, "X", "shape"))
    assert terms("x.shape[axis]") == (Term(None, "x", "shape", ("axis",)),)
    assert terms("scale like x.axes[:1]")[0].other == Term(None, "x", "axes", (None, 1))
    assert terms("data_0[1]") == (Term(None, "data_0", "", (1,)),)


def test_what_is_given_is_an_output_or_a_formula_of_one() -> None:
    assert output_of("dst") == Given("dst")
    assert output_of("dst * alpha + C * beta") == Given("dst", "alpha", "C", "beta")
    assert output_of("dst + C") == Given("dst", added="C")
    assert output_of("rsqrt(variance + epsilon)") == Given("variance", rooted="epsilon")
