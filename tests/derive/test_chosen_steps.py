"""Sums that only some words of an attribute need are computed for these words alone."""

from __future__ import annotations

import pytest
from opwright.derive.needs import chosen_by
from opwright.derive.program import program
from opwright.load import load_texts

SPEC = """op: Norms
revision: 1
summary: Norms of rows.
dims: {rows: B, width: C}
attributes:
  - {name: order, type: string, required: true, values: [one, two, inf], summary: The order.}
inputs:
  - {name: src, dims: {B: B, C: C}}
outputs:
  - {name: dst, dims: {B: B}}
dtypes:
  - {src: f32, dst: f32, accumulate: f32}
semantics:
  ranges: {b: B, c: C}
  steps:
    - one[b] += abs(src[b, c])
    - two[b] += src[b, c] * src[b, c]
    - root[b] = sqrt(two[b])
    - peak[b] max= abs(src[b, c])
    - {by: order, cases: {one: FIRST, two: "dst[b] = root[b]", inf: "dst[b] = peak[b]"}}
"""
ALONE = {"two": {"two"}, "root": {"two"}, "peak": {"inf"}}


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ("dst[b] = one[b]", ALONE | {"one": {"one"}}),
        ("dst[b] = one[b] + peak[b]", ALONE | {"one": {"one"}, "peak": {"one", "inf"}}),
        ("dst[b] = root[b] * one[b]", ALONE | {"one": {"one"}, "two": {"one", "two"}, "root": {"one", "two"}}),
    ],
)
def test_arrays_know_the_words_that_need_them(first: str, words: dict[str, set[str]]) -> None:
    (op,) = load_texts({"norms.yaml": SPEC.replace("FIRST", f'"{first}"')}).ops
    found = chosen_by(program(op))
    assert {name: {*needed} for name, (by, needed) in found.items() if by == "order" and name != "src"} == words


def test_an_array_that_a_later_step_reads_is_always_needed() -> None:
    later = SPEC.replace("FIRST", '"dst[b] = one[b]"').replace(
        "{B: B}}\n", "{B: B}}\n  - {name: every, dims: {B: B}}\n", 1
    )
    later = later.replace("dst: f32,", "dst: f32, every: f32,") + "    - every[b] = one[b]\n"
    (op,) = load_texts({"norms.yaml": later}).ops
    assert "one" not in chosen_by(program(op))
