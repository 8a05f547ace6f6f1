"""Running sums, products, maxima and minima along any axis, from either end: kernels and the interpreter agree."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from opwright.derive.phases import staged
from support.draws import FULL, rng
from support.package import package
from support.spec_packages import instruction_set, serving
from support.step_verdicts import first_disagreement

SPECS, CALLS = (40, 30) if FULL else (4, 6)
OPERATORS = {"+=": "f32 bf16 s32", "*=": "f64", "max=": "f32 s32 bf16", "min=": "f16 s8"}
GUARDS = (
    "d <= c", "d < c", "c >= d", "c > d", "d >= c", "c < d", "d - 1 >= c", "d <= c - 1", "not d > c",
    "d < c or not EX and d == c", "d > c or c == d and EX", "RV and d >= c or not RV and d <= c",
    "(d < c and not RV or d > c and RV) or (not EX and d == c)", "A > 1 and d <= c", "d <= c and (EX or A > 2)",
)  # fmt: skip
VALUES = ("src[{t}]", "max(src[{t}], 1)", "src[{t}] * scale[d]", "select(d > 1, src[{t}], 1)", "src[{t}] + d")
SUMS = {"s8": "s64", "s32": "s64", "f64": "f64"}
DECAYS = ("pow(0.9, {n})", "pow(scale[d], {n})", "exp(-({n}) / 8)", "exp2(0.1 * ({n} - 2))", "pow(A + 1, ({n}) / 9)")


def drawn(random: np.random.Generator, name: str, decays: bool = False, plain: bool = False) -> str:
    """A spec: a letter of cells and one of terms before or behind them, on any axis, with terms of any kind.

    Some add up another axis, too. Those of plain ones are cells of an input of the type in which they are added up, in all calls.
    """

    def one(items: list[str]) -> str:
        return str(random.choice(items))

    operator = "+=" if decays else one([*OPERATORS])
    kind = one(["f32", "f64", "bf16"] if decays else ["f32", "f64"] if plain else OPERATORS[operator].split())
    axes = ["C"] if plain and one(["row", "rows"]) == "row" else [str(axis) for axis in random.permutation([*"BCA"])]
    cells = ", ".join({"B": "b", "C": "c", "A": "a"}[axis] for axis in axes)
    value = one([*VALUES[: 1 if plain else None]])
    factor = one([*DECAYS]).format(n=one(["c - d", "d - c", "c - d + 1"])) if decays else ""
    value = value.format(t=cells.replace("c", "d")) if not decays else f"src[{cells.replace('c', 'd')}] * {factor} / 2"
    guard = one([*GUARDS[: 9 if plain else None]])
    gone = one(["", "", "b", "a"])
    dims, kept = (
        "{" + ", ".join(f"{axis}: {axis}" for axis in some) + "}"
        for some in (axes, [axis for axis in axes if axis.lower() != gone])
    )
    target = ", ".join(letter for letter in cells.split(", ") if letter != gone)
    scaled = "scale" in value
    scale, kinds = ("\n  - {name: scale, dims: {C: C}}", f" scale: {kind},") if scaled else ("", "")
    sizes = {"B": f"before: {one(['{symbol: B, run: true}', 'B'])}", "C": "cells: C", "A": "after: A"}
    ranges = {"B": "b: B", "C": "c: C, d: C", "A": "a: A"}
    return f"""op: {name}
revision: 1
summary: What the cells so far make.
dims: {{{", ".join(sizes[axis] for axis in sizes if axis in axes)}}}
attributes:
  - {{name: exclusive, symbol: EX, type: bool, default: "false"}}
  - {{name: reverse, symbol: RV, type: bool, default: "false"}}
inputs:
  - {{name: src, dims: {dims}}}{scale}
outputs:
  - {{name: dst, dims: {kept}}}
dtypes:
  - {{src: {kind},{kinds} dst: {kind}, accumulate: {SUMS.get(kind, "f32")}}}
semantics:
  ranges: {{{", ".join(ranges[axis] for axis in ranges if axis in axes)}}}
  steps:
    - {{do: "dst[{target}] {operator} {value}", where: ["{guard}"]}}
"""


@pytest.mark.parametrize("decays", [False, True])
def test_every_cell_has_what_the_cells_so_far_make(decays: bool, tmp_path: Path) -> None:
    random = rng("scans", decays)
    names = [f"Running{number}" for number in range(SPECS)]
    texts = {
        f"running{number}.yaml": drawn(random, name, decays, not decays and number % 2 == 0)
        for number, name in enumerate(names)
    }
    seen: Counter[str] = Counter()
    library, module = package(texts, tmp_path, f"scans_{decays}")
    for op in library.ops:
        (first, *_) = staged(op).phases
        summed = any(part.where and len(part.letters) > 3 for part in first.parts)
        other = decays and "scale" in texts[f"{op.op.lower()}.yaml"]  # a factor of its own for each term
        assert other or not summed, "terms are added for each cell"
        for isa in serving(module, op):
            with instruction_set(module, isa):
                found = first_disagreement(module, op, rng(op.op, isa), CALLS, seen)
                assert found is None, f"{texts[f'{op.op.lower()}.yaml']}{isa}: {found}"
    assert all(seen[f"{name} legal"] >= CALLS for name in names)


READS = {
    "x[a, a, d]": "A, Y: A, X: C", "x[d, 0]": "C, X: A", "x[a, 2 * d]": "A, X: 2 * C", "x[a, C - 1 - d]": "A, X: C",
    "x[A - 1 - a, d]": "A, X: C", "x[2 * a, d]": "2 * A, X: C", "x[d, a]": "C, X: A", "x[floor(a / 2), d]": "A, X: C",
}  # fmt: skip


FURTHEST = """op: Furthest
revision: 1
summary: The greatest cell so far, and the number of the last one that was it.
dims: {rows: A, cells: C}
inputs:
  - {name: x, dims: {A: A, C: C}}
outputs:
  - {name: y, dims: {A: A, C: C}}
  - {name: at, dims: {A: A, C: C}}
dtypes:
  - {x: f32, y: f32, at: s64, accumulate: f32}
semantics:
  ranges: {a: A, c: C, d: C}
  steps:
    - {do: "y[a, c] max= x[a, d]", where: ["d <= c"]}
    - seen[a, d] = select(x[a, d] == y[a, d], number(d), -1)
    - {do: "at[a, c] max= seen[a, d]", where: ["d <= c"]}
"""


def test_terms_may_be_what_others_so_far_make(tmp_path: Path) -> None:
    library, module = package({"furthest.yaml": FURTHEST}, tmp_path, "furthest")
    assert first_disagreement(module, library.ops[0], rng("furthest"), 6, Counter()) is None


def test_terms_may_lie_in_other_places_than_what_they_make(tmp_path: Path) -> None:
    random, texts = rng("places of terms"), {}
    for number, (read, dims) in enumerate(READS.items()):
        choices = ["+=", "max="], ["d <= c", "d >= c"], ["f32", "f64"]
        operator, guard, kind = (str(random.choice(some)) for some in choices)
        texts[f"of{number}.yaml"] = f"""op: Of{number}
revision: 1
summary: What the cells so far make.
dims: {{rows: A, cells: C}}
inputs:
  - {{name: x, dims: {{Z: {dims}}}}}
outputs:
  - {{name: y, dims: {{A: A, C: C}}}}
dtypes:
  - {{x: {kind}, y: {kind}, accumulate: {kind}}}
semantics:
  ranges: {{a: A, c: C, d: C}}
  steps:
    - {{do: "y[a, c] {operator} {read}", where: ["{guard}"]}}
"""
    seen: Counter[str] = Counter()
    library, module = package(texts, tmp_path, "terms_elsewhere")
    for op in library.ops:
        found = first_disagreement(module, op, rng(op.op), 12, seen)
        assert found is None, f"{texts[f'{op.op.lower()}.yaml']}: {found}"
