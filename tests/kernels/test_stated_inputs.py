"""Inputs of steps that state the shape of an output: vectors of integers, which every call gives by name."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from opwright.language.source import SpecInvalid
from opwright.load import load_texts
from opwright.oracle.run_steps import compute_steps
from support.draws import rng
from support.package import package
from support.reviewing import reviewed
from support.step_verdicts import first_disagreement

# The gradient of an interpolation to the nearest cell, which takes the shape of what it returns as an input.
NEAREST = """op: NearestBackward
revision: 1
summary: What each cell gets from those that copied it.
spatial_rank: {min: 1, max: 2}
dims:
  batch: N
  channels: C
  src_spatial: {symbol: I, per_axis: true}
  dst_spatial: {symbol: O, per_axis: true}
inputs:
  - {name: diff_dst, dims: {N: N, C: C, X: O}}
  - {name: src_shape, shape_of: diff_src, summary: The shape of diff_src.}
outputs:
  - {name: diff_src, dims: {N: N, C: C, X: I}}
dtypes:
  - {diff_dst: f32, src_shape: s32, diff_src: f32, accumulate: f32}
  - {diff_dst: bf16, src_shape: s32, diff_src: bf16, accumulate: f32}
semantics:
  ranges: {n: N, c: C, o: O}
  steps:
    - diff_src[n, c, floor(o * I / O)] += diff_dst[n, c, o]
"""
LISTED = (
    NEAREST.replace("  - {name: src_shape, shape_of: diff_src, summary: The shape of diff_src.}\n", "")
    .replace(", src_shape: s32", "")
    .replace(
        "inputs:\n",
        """attributes:
  - {name: src_shape, type: "s64[]", required: true, length: any, shape_of: diff_src, summary: The shape of diff_src.}
inputs:
""",
    )
)


def test_an_input_states_the_shape_of_an_output_of_steps(tmp_path: Path) -> None:
    random = rng("stated inputs")
    library, module = package({"nearest_backward.yaml": NEAREST}, tmp_path, "nearest_backward_kernels")
    (op,) = library.ops
    assert first_disagreement(module, op, random, 20, Counter()) is None
    array = random.integers(-3, 4, (2, 3, 5)).astype(np.float32)
    for shape in ([2, 3, 2], np.array([2, 3, 7], np.int32)):
        wanted = compute_steps(op, [array], {"src_shape": [*map(int, shape)]})["diff_src"]
        np.testing.assert_array_equal(module.nearest_backward(array, src_shape=shape), wanted)
    with pytest.raises(module.SpecError, match="src_shape"):
        module.nearest_backward(array, src_shape=np.array([2, 3], np.int32))


def test_the_input_and_a_list_say_the_same_to_a_review() -> None:
    assert load_texts({"n.yaml": LISTED}).ops[0].dtypes == load_texts({"n.yaml": NEAREST}).ops[0].dtypes
    found = reviewed({"n.yaml": NEAREST}, {"n.yaml": LISTED}).findings
    assert [finding.rule.id for finding in found] == ["format-text-changed"]


@pytest.mark.parametrize(
    ("old", "new", "where", "what"),
    [
        ("shape_of: diff_src,", "shape_of: diff_src, optional: true,", "12:43", "every call gives"),
        ("shape_of: diff_src,", "shape_of: diff_dst,", "12:33", "diff_src"),
        ("src_shape: s32, diff_src: bf16", "src_shape: f32, diff_src: bf16", "15:", "are s32, not f32"),
        ("shape_of: diff_src,", "shape_of: diff_src, dims: {N: N},", "12:43", "it has no `dims`"),
    ],
)  # fmt: skip
def test_what_such_an_input_cannot_have_is_refused_where_it_stands(old: str, new: str, where: str, what: str) -> None:
    with pytest.raises(SpecInvalid) as refused:
        load_texts({"n.yaml": NEAREST.replace(old, new)})
    (problem, *_) = refused.value.problems
    assert f"{problem.mark.line}:{problem.mark.column}".startswith(where), (problem.mark, problem.message)
    assert what in problem.message
