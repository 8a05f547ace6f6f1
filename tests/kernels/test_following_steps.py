"""Steps that follow a contraction cell by cell: their intermediates stand in the formula that writes the output."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from opwright.derive.phases import staged
from support.draws import FULL, rng
from support.package import package
from support.spec_packages import instruction_set, serving
from support.step_verdicts import first_disagreement

HEAD = """op: Following
revision: 1
summary: A product, and steps that follow it.
dims: {rows: {symbol: B}, inputs: {symbol: K}, outputs: {symbol: M}}
inputs:
  - {name: src, dims: {B: B, K: K}}
  - {name: weights, dims: {M: M, K: K}}
  - {name: bias, dims: {M: M}}
  - {name: residual, dims: {B: B, M: M}}
outputs: [{name: dst, dims: {B: B, M: M}}]
dtypes:
  - {src: f32, weights: f32, bias: f32, residual: f32, dst: f32, accumulate: f32}
  - {src: bf16, weights: bf16, bias: bf16, residual: bf16, dst: bf16, accumulate: f32}
semantics:
  ranges: {b: B, m: M, k: K}
  steps:
    - sums[b, m] += src[b, k] * weights[m, k]
"""
FOLLOWING = {
    "gelu": ["level[b, m] = sums[b, m] + bias[m]",
             "dst[b, m] = residual[b, m] + 0.5 * level[b, m] * (1 + erf(level[b, m] * 0.75))"],
    "clamp": ["level[b, m] = max(sums[b, m] * bias[m], residual[b, m])", "dst[b, m] = min(level[b, m], 4)"],
    "chain": ["one[b, m] = sums[b, m] + bias[m]", "two[b, m] = one[b, m] * residual[b, m]",
              "dst[b, m] = select(two[b, m] > 0, two[b, m], 0.125 * two[b, m])"],
}  # fmt: skip
APART = {
    "a row": ["level[b, m] = sums[b, m] + bias[m]", "total[b] += level[b, m]",
              "dst[b, m] = level[b, m] * residual[b, m] + total[b]"],
}  # fmt: skip


def text(steps: list[str]) -> str:
    return HEAD + "".join(f'    - "{step}"\n' for step in steps)


@pytest.mark.parametrize("name", [*FOLLOWING, *APART])
def test_steps_that_follow_a_product_agree_with_the_interpreter(name: str, tmp_path: Path) -> None:
    steps = {**FOLLOWING, **APART}[name]
    library, module = package({"following.yaml": text(steps)}, tmp_path, f"following_{name.replace(' ', '_')}")
    (op,) = library.ops
    found = staged(op)
    assert found.phases[0].contraction is not None
    if name in FOLLOWING:
        assert [*found.program.arrays.keys() - {tensor.name for tensor in (*op.inputs, *op.outputs)}] == ["sums"]
        assert found.phases[1].finishes == "sums"
    for isa in serving(module, op)[: None if FULL else 1]:
        with instruction_set(module, isa):
            problem = first_disagreement(module, op, rng(isa, name), 10, Counter[str]())
            assert problem is None, f"{isa}: {problem}"
