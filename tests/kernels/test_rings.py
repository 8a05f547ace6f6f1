"""Indices that go around an axis, `src[(c - S) % C]`: kernels and the interpreter agree from every shift and stride."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from support.draws import FULL, rng
from support.package import package
from support.spec_packages import instruction_set, serving
from support.step_verdicts import first_disagreement

RING = """op: {name}
revision: 1
summary: Cells around an axis.
dims: {{rows: B, cells: {{symbol: C, min: 1}}, after: A}}
attributes:
  - {{name: shift, symbol: S, type: s64, required: true}}
  - {{name: length, symbol: L, type: s64, min: 0, default: "70"}}
inputs:
  - {{name: src, dims: {{B: B, C: C, A: A}}}}
outputs:
  - {{name: dst, dims: {dims}}}
dtypes:
  - {{src: {dtype}, dst: {dtype}, accumulate: f32}}
semantics:
  ranges: {{{ranges}}}
  steps:
    - {step}
"""
SAME, LONG = "{B: B, C: C, A: A}", "{A: A, B: B, L: L}"
STEPS = {
    "Roll": (SAME, "f32", "dst[b, c, a] = src[b, (c - S) % C, a]"),
    "RollBack": (SAME, "bf16", "dst[b, c, a] = src[b, C - 1 - (c + S * A) % C, a]"),
    "CircularPad": (LONG, "s8", "dst[a, b, l] = src[b, (l + S) % C, a]"),
    "CircularSum": (SAME, "f32", "dst[b, c, a] += src[b, (c + k - 1) % C, a] * src[b, (S - c) % C, a]"),
    "RowSum": ("{B: B, A: A}", "f32", "dst[b, a] += src[b, (c + S) % C, a] * src[b, c, a]"),
    "Scatter": (SAME, "f32", "dst[b, (c * S) % C, a] += src[b, c, a]"),
    "Backward": (LONG, "u8", "dst[a, b, l] = src[b, (S - l) % C, a]"),
}
NAMES = [*STEPS] if FULL else ["RollBack", "CircularPad", "Scatter"]
CALLS = 40 if FULL else 10


@pytest.mark.sweep
def test_cells_are_found_around_an_axis(tmp_path: Path) -> None:
    texts = {}
    extents = {"b": "B", "c": "C", "l": "L", "k": "3", "a": "A"}
    for name in NAMES:
        dims, dtype, step = STEPS[name]
        letters = [letter for letter in extents if re.search(rf"\b{letter}\b", step)]
        ranges = ", ".join(f"{letter}: {extents[letter]}" for letter in letters)
        texts[f"{name.lower()}.yaml"] = RING.format(name=name, dims=dims, dtype=dtype, step=step, ranges=ranges)
    seen: Counter[str] = Counter()
    library, module = package(texts, tmp_path, "rings")
    for op in library.ops:
        for isa in serving(module, op)[: None if FULL else 1]:
            with instruction_set(module, isa):
                found = first_disagreement(module, op, rng(op.op, isa), CALLS, seen)
                assert found is None, f"{isa}: {found}"
    assert all(seen[f"{name} legal"] >= CALLS for name in NAMES)
