"""Operations put together of idioms, each of which kernels treat in a way of its own, agree with the interpreter.

What one idiom makes, another reads: scans, groups, windows, products, normalisations, conversions, stretched inputs.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from opwright.language.source import SpecInvalid
from opwright.load import load_texts
from support.draws import FULL, rng
from support.package import package
from support.random_idioms import idioms
from support.spec_packages import instruction_set, serving
from support.step_verdicts import agree, first_disagreement

SPECS = 3 if FULL else 2  # of one package
CALLS = 12 if FULL else 8

# Sums in registers from which two outputs are made, both with a bias.
TWO_ENDINGS = """op: TwoEndings
revision: 1
summary: Two results of one sum of a few terms.
dims:
  rows: {symbol: M}
  columns: {symbol: N}
  terms: {symbol: K}
inputs:
  - {name: a, dims: {M: M, K: K}}
  - {name: b, dims: {K: K, N: N}}
  - {name: bias, dims: {N: N}, optional: true}
outputs:
  - {name: first, dims: {M: M, N: N}}
  - {name: second, dims: {M: M, N: N}}
dtypes:
  - {a: f32, b: f32, bias: f32, first: bf16, second: f32, accumulate: f32}
semantics:
  ranges: {m: M, k: K, n: N}
  steps:
    - away[m, n] += (a[m, k] - b[k, n]) * (a[m, k] - b[k, n])
    - first[m, n] = max(away[m, n] + bias[n], 0)
    - second[m, n] = away[m, n] - 2 * bias[n]
"""
# What a group has is made by one phase, and read by another, whose lanes go along all channels.
GROUPS_APART = """op: GroupsApart
revision: 1
summary: Cells beside the least of their group.
dims:
  samples: {symbol: N}
  channels: {symbol: C}
  cells: {symbol: X, run: true}
attributes:
  - {name: groups, symbol: G, type: s64, default: "1", min: 1}
inputs:
  - {name: src, dims: {N: N, C: C, X: X}}
outputs:
  - {name: most, dims: {}}
  - {name: kept, dims: {N: N, C: C, X: X}}
  - {name: dst, dims: {X: X, N: N, C: C}}
dtypes:
  - {src: f16, most: f16, kept: f16, dst: f16, accumulate: f32}
let: {W: C / G}
constraints:
  - {id: groups-divide, expr: C % G == 0, say: groups divide the channels, argument: groups}
semantics:
  ranges: {n: N, c: C, x: X, g: G, w: W}
  steps:
    - most[] max= src[n, c, x]
    - least[n, g, x] min= src[n, g * W + w, x]
    - kept[n, c, x] = max(src[n, c, x], min(max(least[n, floor(c / W), x], -4), 4))
    - turned[x, n, c] = to_f8_e5m2(src[n, c, x])
    - dst[x, n, c] = max(turned[x, n, c], 0)
"""

# The same of integers, which a phase before makes.
INTEGERS_APART = GROUPS_APART.split("dtypes:")[0].replace("GroupsApart", "IntegersApart")
INTEGERS_APART += """dtypes:
  - {src: s32, most: f32, kept: f32, dst: f32, accumulate: f32}
let: {W: C / G}
constraints:
  - {id: groups-divide, expr: C % G == 0, say: groups divide the channels, argument: groups}
semantics:
  ranges: {n: N, c: C, x: X, g: G, w: W}
  steps:
    - low[n, c, x] = bit_or(bit_and(src[n, c, x], 6), 1)
    - most[] max= low[n, c, x]
    - least[n, g, x] min= low[n, g * W + w, x]
    - kept[n, c, x] = least[n, floor(c / W), x] + low[n, c, x]
    - dst[x, n, c] = low[n, c, x] * most[]
"""

# Rows that several tasks turn at once, where a condition that no lane is in differs from task to task.
CHOSEN_APART = """op: ChosenApart
revision: 1
summary: Rows that lie across lanes, where their column is chosen.
dims: {rows: {symbol: A}, lanes: {symbol: B}, columns: {symbol: C}}
inputs:
  - {name: src, dims: {A: A, B: B, C: C}}
  - {name: mask, dims: {A: A, C: C}}
  - {name: scale, dims: {B: B}}
outputs:
  - {name: dst, dims: {A: A, C: C, B: B}}
dtypes:
  - {src: f32, mask: f32, scale: f32, dst: f32, accumulate: f32}
semantics:
  ranges: {a: A, b: B, c: C}
  steps:
    - dst[a, c, b] = select(mask[a, c] > 0, src[a, b, c] * scale[b], select(mask[a, c] < -1, scale[b], 1))
"""


def accepted(seed: int) -> dict[str, str]:
    random, texts = rng("idioms", seed), dict[str, str]()
    while len(texts) < SPECS:
        text = idioms(random, f"Idiom{len(texts)}")
        if not refused(text):
            texts[f"idiom{len(texts)}.yaml"] = text
    return texts


def refused(text: str) -> str:
    try:
        load_texts({"idiom.yaml": text})
    except SpecInvalid as invalid:
        return str(invalid)
    return ""


def test_hardly_an_operation_of_idioms_is_refused() -> None:
    refusals = [refused(idioms(rng("idiom", number), "Idiom")) for number in range(100)]
    assert sum(map(bool, refusals)) <= 10, [found for found in refusals if found][:3]


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100 if FULL else 1))
def test_kernels_of_idioms_agree_with_the_interpreter(seed: int, tmp_path: Path) -> None:
    texts = accepted(seed)
    library, module = package(texts, tmp_path, f"random_idioms_{seed}")
    seen = agree(module, library.ops, CALLS, seed)
    assert all(seen[f"{op.op} legal"] for op in library.ops)


@pytest.mark.parametrize(
    "text",
    [TWO_ENDINGS, GROUPS_APART, INTEGERS_APART, CHOSEN_APART],
    ids=["two endings", "groups apart", "integers apart", "chosen apart"],
)
def test_rows_of_two_results_of_other_phases_and_of_choices_are_told_apart(text: str, tmp_path: Path) -> None:
    library, module = package({"idiom.yaml": text}, tmp_path, f"idiom_{len(text)}")
    (op,) = library.ops
    for isa in serving(module, op)[: None if FULL else 1]:
        with instruction_set(module, isa):
            assert first_disagreement(module, op, rng(isa, text), 12, Counter[str]()) is None
