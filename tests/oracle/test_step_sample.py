"""Samples of calls of steps: what the oracle draws is what a call may be."""

from __future__ import annotations

from itertools import islice

from opwright.load import load_texts
from opwright.oracle import sample_steps
from opwright.oracle.step_sample import samples
from support.draws import rng

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


# A list of axes beside an input that broadcasts, and so may have fewer of them.
SHORTER = """op: Shorter
revision: 1
summary: Cells beside those of an input with perhaps fewer axes.
dims: {kept: {symbol: K, run: true}, reduced: {symbol: R, run: true}}
attributes:
  - {name: axes, type: "s64[]", default: "[-1]", locates: reduced}
inputs:
  - {name: src, dims: {K: K, R: R}}
  - {name: offset, dims: {K: K, R: R}, broadcast: [K]}
outputs:
  - {name: dst, dims: {K: K, R: R}}
dtypes:
  - {src: f32, offset: f32, dst: f32, accumulate: f32}
semantics:
  ranges: {k: K, r: R}
  steps:
    - dst[k, r] = max(src[k, r], offset[k, r])
"""


def test_calls_are_drawn_whose_lists_of_axes_stand_beside_arrays_that_lack_some() -> None:
    (op,) = load_texts({"shorter.yaml": SHORTER}).ops
    drawn = [sample_steps.arguments(op, setting) for setting in islice(sample_steps.samples(op, rng("shorter")), 300)]
    assert any(len(call.tensors["offset"][1]) < len(call.tensors["src"][1]) for call in drawn)
