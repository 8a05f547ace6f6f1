"""Specs at random whose steps are convolutions or their gradients, written out with letters of their own, and calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .random_contractions import DTYPES, viewed

Rng = np.random.Generator
SOLVED = ("small", "big", "weights")
ROWS = (("f32", "f32"), ("bf16", "f32"), ("bf16", "bf16"))


@dataclass(frozen=True)
class Drawn:
    """A spec: its text, the letters of each tensor, the one that it computes, and how letters move big's indices."""

    op: str
    text: str
    axes: dict[str, str]
    solved: str
    moves: dict[str, tuple[str, str, int, int, int]]  # by letter of big: two letters, their factors, the rest
    finished: bool


def index(move: tuple[str, str, int, int, int]) -> str:
    """An index of big as a spec says it."""
    o, k, stride, dilation, rest = move
    tap = f"{'- ' if dilation < 0 else '+ '}{k}{f' * {abs(dilation)}' if abs(dilation) > 1 else ''}"
    return f"{o}{f' * {stride}' if stride > 1 else ''} {tap}" + (
        f" {'+' if rest > 0 else '-'} {abs(rest)}" if rest else ""
    )


def moves_of(rng: Rng, count: int) -> dict[str, tuple[str, str, int, int, int]]:
    """Strides, dilations and offsets of `count` spatial axes."""
    moves = {}
    for n in range(count):
        stride, dilation = int(rng.choice([1, 1, 2, 3])), int(rng.choice([1, 1, 2, -1]))
        moves["xyz"[n]] = ("opq"[n], "klm"[n], stride, dilation, int(rng.integers(-3, 2)))
    return moves


def axes_of(rng: Rng, count: int) -> dict[str, str]:
    """The letters of each tensor: images, groups and channels where the draw has them, its spatial axes together."""
    images, groups, small, big = (letter if rng.random() < p else "" for letter, p in zip("ngab", (0.8, 0.4, 0.8, 0.8)))
    space = {"small": "opq"[:count], "weights": "klm"[:count], "big": "xyz"[:count]}
    channels_of = {"small": images + groups + small, "weights": groups + small + big, "big": images + groups + big}
    axes = {}
    for side in SOLVED:
        channels = [*channels_of[side]]
        rng.shuffle(channels)
        place = int(rng.integers(len(channels) + 1))
        axes[side] = "".join((*channels[:place], *space[side], *channels[place:]))
    return axes


def draw(rng: Rng, op: str, solved: str) -> Drawn:
    """Of one to three axes, with or without images, groups and channels, each tensor's axes in any order.

    Sometimes weights are read from their last tap on.
    """
    count = int(rng.choice([1, 2, 2, 3]))
    moves = moves_of(rng, count)
    axes = axes_of(rng, count)
    finished = solved != "big" and bool(rng.integers(2))
    inputs = [side for side in SOLVED if side != solved]
    letters = {*"".join(axes.values())}
    back = {c for c in "klm"[:count] if solved != "weights" and rng.random() < 0.25}

    def read(name: str, side: str) -> str:
        indices = (f"{c.upper()} - 1 - {c}" if side == "weights" and c in back else c for c in axes[side])
        return f"{name}[{', '.join(index(moves[c]) if c in moves else c for c in indices)}]"

    def dims(side: str) -> str:
        return ", ".join(f"{c.upper()}: {c.upper()}" for c in axes[side])

    own = [c for c in axes[solved] if not any(c in axes[side] for side in inputs)]
    value = " * ".join(read(f"in_{side}", side) for side in inputs)
    steps = [f"{read('out_0', solved)} += {value}"]
    bias = axes[solved][: int(rng.integers(1, len(axes[solved]) + 1))]
    if finished:
        sums = read("sums", solved)
        steps = [f"{sums} += {value}", f"{read('out_0', solved)} = max({sums} * 0.5 + bias[{', '.join(bias)}], 0)"]
    tensors = "\n".join(f"  - {{name: in_{side}, dims: {{{dims(side)}}}}}" for side in inputs)
    extra = (
        f"\n  - {{name: bias, dims: {{{', '.join(f'{c.upper()}: {c.upper()}' for c in bias)}}}}}" if finished else ""
    )
    attributes = "\n".join(
        f"  - {{name: extent_{c}, symbol: {c.upper()}, type: s64, required: true, min: 1, summary: An extent.}}"
        for c in own
    )
    rows = "\n".join(
        f"  - {{{', '.join(f'in_{side}: {kind}' for side in inputs)}{f', bias: {kind}' if finished else ''}, "
        f"out_0: {made}, accumulate: f32}}"
        for kind, made in ROWS
    )
    text = f"""op: {op}
revision: 1
summary: Sums over windows.
dims:
{chr(10).join(f"  size_{c}: {{symbol: {c.upper()}}}" for c in sorted(letters - {*own}))}
attributes:
  - {{name: made, type: string, values: [f32, bf16], dtype_of: out_0, summary: The data type of the sums.}}
{attributes}
inputs:
{tensors}{extra}
outputs:
  - {{name: out_0, dims: {{{dims(solved)}}}}}
dtypes:
{rows}
semantics:
  ranges: {{{", ".join(f"{c}: {c.upper()}" for c in dict.fromkeys("".join((*axes.values(),))) if c not in "xyz")}}}
  steps:
{chr(10).join(f"    - {step}" for step in steps)}
"""
    found = Drawn(op, text, axes, solved, moves, finished)
    return found if not finished else Drawn(op, text, {**axes, "bias": bias}, solved, moves, True)


def call(rng: Rng, drawn: Drawn, kind: str) -> tuple[list[Any], dict[str, Any]]:
    """Arrays of small integers in any place of memory, and attributes."""
    sizes = {c: int(rng.choice([1, 2, 3, 5, 8, 17])) for c in sorted({*"".join(drawn.axes.values())})}
    for letter, (o, k, stride, _, _) in drawn.moves.items():
        sizes[k] = int(rng.choice([1, 2, 3, 4]))
        sizes[o] = int(rng.choice([1, 4, 9, 20] if len(drawn.moves) < 3 else [1, 4, 7]))
        sizes[letter] = max(1, sizes[o] * stride + int(rng.integers(-3, 5)))
    sides = [side for side in SOLVED if side != drawn.solved] + (["bias"] if drawn.finished else [])
    arrays = [rng.integers(-2, 3, [sizes[c] for c in drawn.axes[side]]).astype(DTYPES[kind]) for side in sides]
    own = [c for c in drawn.axes[drawn.solved] if not any(c in drawn.axes[side] for side in sides[:2])]
    views = [viewed(rng, array) if rng.integers(3) == 0 else array for array in arrays]
    return views, {f"extent_{c}": sizes[c] for c in own}
