"""Random specs of sums over windows along two or three axes, with channels before or behind them."""

from __future__ import annotations

import numpy as np


def spec_of_strips(random: np.random.Generator, op: str) -> str:
    """The text of a spec; windows may overlap, leave gaps, leave the axis, be read as an activation, or be added to."""
    axes, added = int(random.integers(2, 4)), random.integers(3) == 0
    dims, target, indices, ranges, shape = ["N: N"], ["n"], ["n"], ["n: N"], list[str]()
    made, sizes = ["N: N"], ["n_samples: N"]
    for number in range(axes):
        out, cell, letter, tap = f"O{number}", f"I{number}", f"o{number}", f"k{number}"
        few, far = (3, 3) if added else (1, 5)  # rows are added to first where windows of many cells overlap
        cells, by, pad = int(random.integers(few, few + 4)), int(random.integers(1, far)), int(random.integers(0, 2))
        spread = int(random.choice([1, 1, 2]))
        dims.append(f"X{number}: {cell}")
        made.append(f"X{number}: {out}")
        sizes += [f"in_{number}: {cell}", f"out_{number}: {out}"]
        target.append(letter)
        indices.append(f"{by} * {letter} + {spread} * {tap} - {pad}")
        ranges += [f"{letter}: {out}", f"{tap}: {cells}"]
        if added:
            shape.append(f"{cell}: 'max(({out} - 1) * {by} + {spread * (cells - 1) + 1 - 2 * pad}, 0)'")
        else:
            shape.append(f"{out}: 'max(floor(({cell} + {2 * pad - spread * (cells - 1) - 1}) / {by}) + 1, 0)'")
    if random.integers(3) == 0:
        for given, more in ((dims, "C: C"), (made, "C: C"), (sizes, "c_channels: C"), (ranges, "c: C")):
            given.append(more)
        target.append("c")
        indices.append("c")
    if added:
        dims, made, target, indices = made, dims, indices, target
    kind = str(random.choice(["f32", "f64", "bf16", "s32", "u8"]))
    read = f"x[{', '.join(indices)}]"
    value = str(random.choice(["{0}", "{0} / 4", "max({0}, 1)", "{0} * 2"] if kind != "s32" else ["{0}", "{0} * 2"]))
    result = "f32" if kind == "u8" else kind
    accumulate = {"f64": "f64", "s32": "s64"}.get(kind, "f32")
    return f"""op: {op}
revision: 1
summary: Sums over windows.
dims: {{{", ".join(sizes)}}}
inputs: [{{name: x, dims: {{{", ".join(dims)}}}}}]
outputs: [{{name: y, dims: {{{", ".join(made)}}}}}]
dtypes: [{{x: {kind}, y: {result}, accumulate: {accumulate}}}]
shape: {{{", ".join(shape)}}}
semantics:
  ranges: {{{", ".join(ranges)}}}
  steps: ["y[{", ".join(target)}] += {value.format(read)}"]
"""
