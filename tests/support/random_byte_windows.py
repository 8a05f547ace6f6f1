"""Random specs of convolutions of bytes with zero points, their axes in any order, and calls of them.

In: a generator of random numbers. Out: a spec's text; the inputs and attributes of a call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Rng = np.random.Generator
BYTES = {"s8": np.int8, "u8": np.uint8}
ROWS = [
    (left, right, sums, made) for left in BYTES for right in BYTES for sums, made in (("s64", "s32"), ("f32", "f32"))
]
CHANNELS = (1, 2, 3, 4, 16, 17, 33)
TILED_CHANNELS = (1, 3, 4, 17, 32, 72)


def draw(rng: Rng, op: str) -> str:
    """A convolution with groups over one axis or two."""
    axes = "hw"[: int(rng.integers(1, 3))]
    sizes = {"src": "ngc", "weights": "gmc", "dst": "ngm"}
    dims, indices = {}, {}
    for name, letters in sizes.items():
        order = [str(axis) for axis in rng.permutation([*letters, *axes])]
        spatial = {"src": "I{}: I{}", "weights": "K{}: K{}", "dst": "O{}: O{}"}[name]
        dims[name] = ", ".join(spatial.format(a, a) if a in axes else f"{a.upper()}: {a.upper()}" for a in order)
        index = {"src": "o{0} * S{0} + k{0} * D{0} - P{0}", "weights": "k{}", "dst": "o{}"}[name]
        indices[name] = ", ".join(index.format(a) if a in axes else a for a in order)
    factors = [f"(src[{indices['src']}] - XZ)", f"(weights[{indices['weights']}] {rng.choice(['-', '+'])} WZ)"]
    factors[1] = factors[1] if rng.random() < 0.7 else f"weights[{indices['weights']}]"
    value = " * ".join(factors[:: int(rng.choice([1, -1]))])
    letters = "ngmc" + axes
    spatial_dims = "\n".join(
        f"  {kind}_{a}: {{symbol: {s}{a}}}" for a in axes for kind, s in (("src", "I"), ("tap", "K"), ("dst", "O"))
    )
    moves = "\n".join(
        f'  - {{name: {kind}_{a}, symbol: {s}{a}, type: s64, default: "{least}", min: {least}}}'
        for a in axes
        for kind, s, least in (("stride", "S", 1), ("dilation", "D", 1), ("pad", "P", 0))
    )
    shapes = ", ".join(f'O{a}: "floor((I{a} + 2 * P{a} - (K{a} - 1) * D{a} - 1) / S{a}) + 1"' for a in axes)
    rows = "\n".join(f"  - {{src: {x}, weights: {w}, dst: {made}, accumulate: {sums}}}" for x, w, sums, made in ROWS)
    ranges = ", ".join([*(f"{a}: {a.upper()}" for a in "ngmc"), *(f"o{a}: O{a}, k{a}: K{a}" for a in axes)])
    finish = str(rng.choice(["{}", "max({}, 0)"]))
    cell = f"dst[{indices['dst']}]"
    sums = f"sums[{indices['dst']}]"
    steps = f"    - {sums} += {value}\n    - {cell} = {finish.format(sums)}"
    return f"""op: {op}
revision: 1
summary: A convolution of bytes.
dims:
{chr(10).join(f"  size_{c}: {{symbol: {c.upper()}}}" for c in letters[:4])}
{spatial_dims}
attributes:
  - {{name: made, type: string, values: [s32, f32], dtype_of: dst, summary: The data type of the sums.}}
  - {{name: src_zero, symbol: XZ, type: s64, default: "0"}}
  - {{name: weights_zero, symbol: WZ, type: s64, default: "0"}}
{moves}
inputs:
  - {{name: src, dims: {{{dims["src"]}}}}}
  - {{name: weights, dims: {{{dims["weights"]}}}}}
outputs:
  - {{name: dst, dims: {{{dims["dst"]}}}}}
dtypes:
{rows}
shape: {{{shapes}}}
semantics:
  ranges: {{{ranges}}}
  steps:
{steps}
"""


def call(
    rng: Rng, inputs: Any, row: tuple[str, str, str, str], *, tiled: bool = False
) -> tuple[list[Any], dict[str, Any]]:
    """The inputs and attributes of a call; `inputs` are the tensors of the spec.

    `tiled`: one that tiles may read where windows are, of one group, without a zero point of the weights.
    """
    axes = [name[1:].lower() for name in inputs[0].dims if name[0] == "I"]
    n, g, pixels, most = int(rng.integers(1, 4)), int(rng.choice([1, 1, 2])), 12, (4, 3, 4, 4)
    if tiled:
        g, pixels, most = 1, 20 + 25 // len(axes) ** 2, (6, int(rng.integers(2, 4)), int(rng.integers(2, 4)), 4)
    channels = TILED_CHANNELS if tiled else CHANNELS
    extents = {"N": n, "G": g, "C": int(rng.choice(channels)), "M": int(rng.choice(channels))}
    attributes: dict[str, Any] = {"made": row[3]}
    for a in axes:
        k, d, s, p = (int(rng.integers(1, limit)) for limit in most)
        extents |= {f"K{a}": k, f"I{a}": int(rng.integers(max(1, (k - 1) * d + 1 - 2 * (p - 1)), pixels))}
        attributes |= {f"stride_{a}": s, f"dilation_{a}": d, f"pad_{a}": p - 1}
    inside = (0, 256) if row[0] == "u8" else (-128, 128)
    attributes["src_zero"] = (
        int(rng.integers(*inside)) if tiled or rng.random() < 0.8 else int(rng.choice([-7000, 300]))
    )
    attributes["weights_zero"] = 0 if tiled else int(rng.choice([0, 5, -131, 4000]))
    arrays = []
    for tensor, dtype in zip(inputs, row):
        limits = np.iinfo(BYTES[dtype])
        shape = [extents[name] for name in tensor.dims]
        arrays.append(rng.integers(limits.min, limits.max, shape, BYTES[dtype], endpoint=True))
    return arrays, attributes
