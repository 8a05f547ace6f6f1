"""Samples of calls of steps: what the oracle draws is what a call may be."""

from __future__ import annotations

from opwright.load import load_texts
from opwright.oracle.step_sample import samples

SCALED = """op: Scaled
revision: 1
summary: Rows scaled along the axes that a list names.
dims: {rows: {symbol: B, run: true}, cells: {symbol: C, run: true}}
attributes:
  - {name: axes, type: "s64[]", default: "[-1]", locates: cells}
inputs:
  - {name: src, dims: {B: B, C: C}}
  - {name: scale, dims: {C: C}}
outputs:
  - {name: dst, dims: {B: B, C: C}}
dtypes:
  - {src: f64, scale: f64, dst: f64, accumulate: f64}
semantics:
  ranges: {b: B, c: C}
  steps:
    - dst[b, c] = src[b, c] * scale[c]
"""


def test_a_list_of_axes_places_a_run_only_where_the_first_input_has_it_among_the_same_axes():
    op = load_texts({"spec/scaled.yaml": SCALED}).op("scaled")
    drawn = list(samples(op, 20, 1))
    assert len(drawn) == 20
    assert all(sample.call.accepted for sample in drawn)
    assert any(sample.arrays[0].ndim > sample.arrays[1].ndim > 0 for sample in drawn)
