"""Sums, extremes and means that a spec writes as one `reduce`: random windows and reductions, on every instruction set."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from opwright.derive.rewrites.as_steps import as_steps
from support.draws import FULL, rng
from support.package import package
from support.spec_packages import first_disagreement, instruction_set, serving_one_of_many

COUNT, CALLS = (16, 16) if FULL else (6, 10)
SPEC = """\
op: {name}
revision: 1
summary: What windows see, in one assignment.
spatial_rank: {{min: 1, max: {rank}}}
dims:
  batch: {{symbol: N}}
  channels: {{symbol: C}}
  src_spatial: {{symbol: I, per_axis: true}}
  dst_spatial: {{symbol: O, per_axis: true}}
attributes:
  - {{name: kernel, symbol: K, type: "s64[]", required: true, length: spatial, min: 1, neutral: 1, summary: cells}}
  - {{name: strides, symbol: S, type: "s64[]", default: "1", length: spatial, min: 1, neutral: 1, summary: steps}}
  - {{name: pads, symbol: P, type: "s64[]", default: "0", length: spatial, min: 0, neutral: 0, summary: in front}}
inputs:
  - {{name: src, dims: {{{src}}}}}
  {bias}
outputs:
  - {{name: dst, dims: {{{dst}}}}}
dtypes:
  - {{src: {kind}, {of_bias}dst: {kind}, accumulate: {accumulate}}}
shape: {{O: floor((I + 2 * P - K) / S) + 1}}
constraints:
  - {{id: fits, expr: 2 * P <= K and I + 2 * P >= K, say: windows fit, argument: kernel}}
semantics:
  ranges: {{n: N, c: C, x: O, k: K}}
  {init}
  {where}
  reduce: dst[{of_dst}] {reduction} {value}
  {finish}
"""
KINDS = ("f32", "bf16", "f16", "f64")


def drawn(random: np.random.Generator, name: str) -> str:
    """A spec with the axes in any order, summed channels now and then, and a mean, a bias or a clamp at the end."""

    def one(items: list[str]) -> str:
        return str(random.choice(items))

    kind, axes = one([*KINDS]), {"N": "n", "C": "c", "X": "x * S + k - P"}
    extents = {"N": "N", "C": "C", "X": "I"}
    order = [str(axis) for axis in random.permutation([*axes])]
    whole = random.random() < 0.3  # channels are summed, too
    kept = [str(axis) for axis in random.permutation(["N", "X"] if whole else [*axes])]
    src, of_src = (", ".join(f"{a}: {extents[a]}" for a in order), ", ".join(axes[a] for a in order))
    dst = ", ".join(f"{a}: {'O' if a == 'X' else extents[a]}" for a in kept)
    own = ", ".join({"X": "x"}.get(a, axes[a]) for a in kept)
    reduction = one(["+=", "+=", "max="])
    init = one(["init: -inf", "init: 0", "init: -inf"]) if reduction == "max=" else ""
    value = f"src[{of_src}]"
    value = one([value, value, f"{value} * {value}", f"max({value}, 0) * 0.5"])
    biased = "" if whole else " + bias[c]"
    ends = ["", f"finish: dst[{own}] * 2{biased}", f"finish: min(dst[{own}], 3)"]
    ends += [f"finish: dst[{own}] / count", f"finish: dst[{own}] / count{biased}"] if reduction == "+=" else []
    where = one(["", "", "where: [k <= x + 1]", "where: [x * S + k - P < I - 1]"])
    finish = one(ends)
    bias = "- {name: bias, optional: true, dims: {C: C}}" if "bias" in finish else ""
    return SPEC.format(
        name=name, rank=one(["1", "2", "3"]), src=src, dst=dst, kind=kind, init=init, where=where, value=value,
        accumulate="f64" if kind == "f64" else "f32", of_dst=own, reduction=reduction, finish=finish, bias=bias,
        of_bias=f"bias: {kind}, " if bias else "",
    )  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(12 if FULL else 1))
def test_what_one_assignment_reduces_gives_what_the_interpreter_gives(seed: int, tmp_path: Path) -> None:
    random, seen = rng("reduced forms", seed), Counter[str]()
    texts = {f"reduced{n}.yaml": drawn(random, f"Reduced{n}") for n in range(COUNT)}
    library, module = package(texts, tmp_path, f"reduced_forms_{seed}")
    # A bound below the extent does not hold along an axis of space that a call lacks: such a spec stays as it is.
    bound = {op.op for op in library.ops if op.spatial_rank.max > 1 and "I - 1" in texts[f"{op.op.lower()}.yaml"]}
    assert {op.op for op in library.ops if not as_steps(op).stepped} == bound
    for op in library.ops:
        for isa in serving_one_of_many(module, op):
            with instruction_set(module, isa):
                problem = first_disagreement(module, op, rng(seed, isa, op.op), CALLS, seen)
                assert problem is None, f"{isa}: {problem}\n{texts[op.op.lower() + '.yaml']}"
    assert all(seen[f"{op.op} legal"] for op in library.ops)


def test_means_of_one_assignment_have_kernels_of_every_instruction_set(tmp_path: Path) -> None:
    """Of 4 x 57 x 59 x 48 f32 by 3 x 3, stride 2, the mean square took 2.5 times as long (Zen 5, gcc 12.2)."""
    text = drawn(rng("mean"), "Mean")
    _, module = package({"mean.yaml": text}, tmp_path, "mean_reduced")
    assert {variant.isa for variant in module.variants("Mean")} >= {"portable", "avx2", "avx512"}
