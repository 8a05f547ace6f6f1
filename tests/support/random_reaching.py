"""Random sums of products whose cells may lie outside their arrays: indices moved by numbers, along cells and terms.

In: a generator of random numbers. Out: a spec's text, and inputs for a call, some of them infinite.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

Rng = np.random.Generator
DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}
AXES = {"x": "btd", "w": "de", "v": "de", "g": "bt", "f": "tkde", "h": "kbd"}
MOVED = ("{}", "{}", "{} - 1", "{} + 2", "2 * {} - 1", "3 - {}")


def draw(rng: Rng, op: str) -> str:
    """One step or two that add to the output, the second of them in the place before or behind the first."""

    def cell(name: str) -> str:
        indices = [str(rng.choice(MOVED)).format(c) for c in AXES[name]]
        return f"{name}[{', '.join(indices)}]"

    pairs = [["x", "w"], ["x", "v"]] if rng.random() < 0.5 else [["x", "w", "g"] if rng.random() < 0.5 else ["w", "x"]]
    used = sorted({name for names in pairs for name in names})
    inputs = "\n".join(
        f"  - {{name: {n}, dims: {{{', '.join(f'{c.upper()}X: {c.upper()}' for c in AXES[n])}}}}}" for n in used
    )
    steps = []
    for names in pairs:
        factors = [cell(name) for name in names]
        factors[0] = f"abs({factors[0]})" if rng.random() < 0.25 else factors[0]
        steps.append(f"    - y[b, t, e] += {' * '.join(factors)}")
    if len(steps) == 1 and rng.random() < 0.5:
        steps.append("    - y[b, t, e] = max(y[b, t, e], -2) + e")
    rows = [f"  - {{{', '.join(f'{n}: {dtype}' for n in (*used, 'y'))}, accumulate: f32}}" for dtype in DTYPES]
    return f"""op: {op}
revision: 1
summary: Sums of products of moved cells.
dims: {{{", ".join(f"size_{c}: {{symbol: {c.upper()}}}" for c in "btde")}}}
inputs:
{inputs}
outputs:
  - {{name: y, dims: {{BX: B, TX: T, EX: E}}}}
dtypes:
{chr(10).join(rows)}
semantics:
  ranges: {{b: B, t: T, d: D, e: E}}
  steps:
{chr(10).join(steps)}
"""


def draw_windows(rng: Rng, op: str) -> str:
    """A step whose windows leave their array, with weights that each cell, or each row of some, has of its own."""
    apart, offset = rng.integers(1, 3), rng.integers(3)
    window = str(rng.choice([f"t + k - {offset}", f"t + {apart} * k - {offset}", f"2 * t + k - {offset}", "t + k - P"]))
    moved = str(rng.choice(["d", "d - 1", "d + k - 1"], p=[0.8, 0.1, 0.1]))
    kinds = ["f[t, k, d, e]", "f[t, k, d - 1, e]", "f[t, k, d, e] * h[k, b, d]"]
    weights = str(rng.choice(kinds, p=[0.7, 0.15, 0.15]))
    value = f"x[b, {window}, {moved}] * {weights}"
    used = sorted({name for name in "xfh" if f"{name}[" in value})
    attribute = "attributes: [{name: before, symbol: P, type: s64, default: 1, min: -1, summary: Cells before.}]\n"
    axes = (f"{{{', '.join(f'{c.upper()}X: {c.upper()}' for c in AXES[name])}}}" for name in used)
    tensors = "\n".join(f"  - {{name: {name}, dims: {dims}}}" for name, dims in zip(used, axes, strict=True))
    rows = [f"  - {{{', '.join(f'{n}: {dtype}' for n in (*used, 'y'))}, accumulate: f32}}" for dtype in DTYPES]
    return f"""op: {op}
revision: 1
summary: Sums of products of windows.
dims: {{{", ".join(f"size_{c}: {{symbol: {c.upper()}}}" for c in "btdek")}}}
{attribute if "P" in window else ""}inputs:
{tensors}
outputs:
  - {{name: y, dims: {{BX: B, TX: T, EX: E}}}}
dtypes:
{chr(10).join(rows)}
semantics:
  ranges: {{b: B, t: T, d: D, e: E, k: K}}
  steps:
    - y[b, t, e] += {value}
"""


def inputs(rng: Rng, names: list[str], dtype: str) -> list[Any]:
    """Small whole numbers; some calls have infinite cells."""
    sizes = dict(zip("btde", rng.choice([1, 2, 5, 17, 24], 4), strict=True))
    sizes["k"] = int(rng.choice([0, 1, 3, 4]))
    found = []
    for name in names:
        array = rng.integers(-3, 4, [sizes[c] for c in AXES[name]]).astype(DTYPES[dtype])
        if rng.random() < 0.2 and array.size:
            array.reshape(-1)[int(rng.integers(array.size))] = rng.choice([np.inf, -np.inf, np.nan])
        found.append(array)
    return found
