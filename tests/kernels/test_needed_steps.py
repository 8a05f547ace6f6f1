"""Steps that no output needs: kernels do not compute them, and all else stays as it is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from opwright.derive.phases import staged
from support.draws import rng
from support.package import package
from support.step_verdicts import first_disagreement

SPEC = """op: Needless
revision: 1
summary: Sums of rows, of which only some are returned.
dims: {rows: {symbol: X, run: true}, columns: C}
inputs:
  - {name: src, dims: {X: X, C: C}}
outputs:
  - {name: dst, dims: {X: X, C: C}}
  - {name: sums, dims: {C: C}}
dtypes:
  - {src: f32, dst: bf16, sums: f32, accumulate: f32}
  - {src: s8, dst: s32, sums: s32, accumulate: s64}
semantics:
  ranges: {x: X, c: C}
  steps:
    - total[x] += src[x, c]
    - wasted[x] = total[x] * 2
    - most[x] max= src[x, c]
    - wasted[x] += most[x]
    - dst[x, c] = max(src[x, c] - most[x], -100)
    - sums[c] += dst[x, c]
    - last[c] = sums[c] * 2
"""


def test_steps_that_no_output_needs_are_not_computed(tmp_path: Path) -> None:
    library, module = package({"needless.yaml": SPEC}, tmp_path, "needless_kernels")
    (op,) = library.ops
    written = {part.target.tensor for phase in staged(op).phases for part in phase.parts}
    assert {"most", "dst"} <= written
    assert not {"total", "wasted", "last"} & written
    assert first_disagreement(module, op, rng("needless"), 12, Counter()) is None
