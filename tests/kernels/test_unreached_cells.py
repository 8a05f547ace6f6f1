"""Cells that no step reaches have their initial value, in every data type, however the index misses them: random targets."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.draws import FULL, rng
from support.package import package
from support.spec_packages import instruction_set, serving_one_of_many
from support.step_verdicts import first_disagreement

COUNT = 12 if FULL else 4
SPEC = """\
op: {name}
revision: 1
summary: Cells in places of a larger array.
dims:
  rows: {{symbol: I}}
  columns: {{symbol: J}}
attributes:
  - {{name: rim, symbol: P, type: s64, default: "1", min: 0}}
inputs:
  - {{name: x, dims: {{I: I, J: J}}}}
outputs:
  - {{name: y, dims: {{{dims}}}}}
dtypes:
  - {{x: {dtype}, y: {dtype}, accumulate: f32}}
  - {{x: {other}, y: {dtype}, accumulate: f32}}
semantics:
  ranges: {{i: I, j: J}}
  steps:
    - "y[{indices}] {operator} x[i, j]"
"""
# The extent of an axis, and an index that does not reach all of it; of the letter L of extent E.
FORMS = [
    ("{E} + 2 * P", "{l} + P"),
    ("{E} + P", "{l}"),
    ("2 * {E}", "2 * {l}"),
    ("2 * {E} + 1", "2 * {l} + 1"),
    ("3 * {E} + P", "3 * {l} + P"),
    ("{E} + P", "{E} - 1 - {l}"),
    ("{E}", "{l}"),
]
PLACES = [("2", "1"), ("3", "0")]


def drawn(random: np.random.Generator, name: str, dtype: str) -> str:
    axes = []
    for letter in "ij":
        extent, index = FORMS[int(random.integers(len(FORMS)))]
        axes.append((extent.format(E=letter.upper()), index.format(l=letter, E=letter.upper())))
    if random.random() < 0.4:
        axes.append(PLACES[int(random.integers(len(PLACES)))])
    if random.random() < 0.3:
        axes.append(("max(I, J)", "i"))
    random.shuffle(axes)
    dims = ", ".join(f'Q{number}: "{extent}"' for number, (extent, _) in enumerate(axes))
    other = "u8" if dtype == "f32" else "f32"
    operator = str(random.choice(["=", "=", "+="]))
    indices = ", ".join(index for _, index in axes)
    return SPEC.format(name=name, dims=dims, indices=indices, dtype=dtype, other=other, operator=operator)


@pytest.mark.parametrize("dtype", ["bf16", "f32", "f16", "s8", "f64"])
def test_cells_that_no_step_reaches_are_0(dtype: str, tmp_path: Path) -> None:
    random, seen = rng("unreached", dtype), Counter[str]()
    texts = {f"apart{n}.yaml": drawn(random, f"Apart{n}", dtype) for n in range(COUNT)}
    library, module = package(texts, tmp_path, f"unreached_{dtype}")
    for op in library.ops:
        for isa in serving_one_of_many(module, op):
            with instruction_set(module, isa):
                problem = first_disagreement(module, op, rng(isa, op.op), 6, seen)
                assert problem is None, f"{isa}: {problem}\n{texts[op.op.lower() + '.yaml']}"
    assert sum(count for name, count in seen.items() if name.endswith("legal")) > 2 * COUNT
