"""Running sums, products, maxima and minima along any axis, from either end: kernels and the interpreter agree."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from opwright.derive.phases import staged
from support.generated import FULL, rng
from support.package import package
from support.spec_packages import instruction_set, quick_compiler, serving
from support.step_verdicts import first_disagreement

SPECS, CALLS = (40, 30) if FULL else (4, 6)
OPERATORS = {"+=": "f32 bf16 s32", "*=": "f64", "max=": "f32 s32 bf16", "min=": "f16 s8"}
GUARDS = (
    "d <= c", "d < c", "c >= d", "c > d", "d >= c", "c < d", "d - 1 >= c", "d <= c - 1", "not d > c",
    "d < c or not EX and d == c", "d > c or c == d and EX", "RV and d >= c or not RV and d <= c",
    "(d < c and not RV or d > c and RV) or (not EX and d == c)", "A > 1 and d <= c", "d <= c and (EX or A > 2)",
)  # fmt: skip
SUMS = {"s8": "s64", "s32": "s64", "f64": "f64"}


def drawn(random: np.random.Generator, name: str) -> str:
    """A spec: a letter of cells and one of terms before or behind them, on any axis, with terms of any kind."""

    def one(items: list[str]) -> str:
        return str(random.choice(items))

    operator = one([*OPERATORS])
    kind = one(OPERATORS[operator].split())
    axes = [str(axis) for axis in random.permutation([*"BCA"])]
    cells = ", ".join({"B": "b", "C": "c", "A": "a"}[axis] for axis in axes)
    value = one(["src[{t}]", "max(src[{t}], 1)", "src[{t}] * scale[d]", "select(d > 1, src[{t}], 1)", "src[{t}] + d"])
    value = value.format(t=cells.replace("c", "d"))
    guard = one([*GUARDS])
    dims = "{" + ", ".join(f"{axis}: {axis}" for axis in axes) + "}"
    scaled = "scale" in value
    scale, kinds = ("\n  - {name: scale, dims: {C: C}}", f" scale: {kind},") if scaled else ("", "")
    runs = one(["{symbol: B, run: true}", "B"])
    return f"""op: {name}
revision: 1
summary: What the cells so far make.
dims: {{before: {runs}, cells: C, after: A}}
attributes:
  - {{name: exclusive, symbol: EX, type: bool, default: "false"}}
  - {{name: reverse, symbol: RV, type: bool, default: "false"}}
inputs:
  - {{name: src, dims: {dims}}}{scale}
outputs:
  - {{name: dst, dims: {dims}}}
dtypes:
  - {{src: {kind},{kinds} dst: {kind}, accumulate: {SUMS.get(kind, "f32")}}}
semantics:
  ranges: {{b: B, c: C, d: C, a: A}}
  steps:
    - {{do: "dst[{cells}] {operator} {value}", where: ["{guard}"]}}
"""


def test_every_cell_has_what_the_cells_so_far_make(tmp_path: Path) -> None:
    random = rng("scans")
    names = [f"Running{number}" for number in range(SPECS)]
    texts = {f"running{number}.yaml": drawn(random, name) for number, name in enumerate(names)}
    seen: Counter[str] = Counter()
    with quick_compiler(tmp_path):
        library, module = package(texts, tmp_path, "scans")
        for op in library.ops:
            (first, *_) = staged(op).phases
            assert not any(part.where and len(part.letters) > 3 for part in first.parts), (
                "terms are added for each cell"
            )
            for isa in serving(module, op)[: None if FULL else 2]:
                with instruction_set(module, isa):
                    found = first_disagreement(module, op, rng(op.op, isa), CALLS, seen)
                    assert found is None, f"{texts[f'{op.op.lower()}.yaml']}{isa}: {found}"
    assert all(seen[f"{name} legal"] >= CALLS for name in names)
