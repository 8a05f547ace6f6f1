"""Random products of floats by bf16 or bytes: letters in any order, in a step or read from an input, and calls of them.

In: a generator of random numbers. Out: a spec's text, and inputs of whole numbers, of which all sums are exact though the
floats need 18 bits: no fewer than three bf16 hold these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from .random_contractions import shuffled, viewed

Rng = np.random.Generator
ROWS = {"bf16": ml_dtypes.bfloat16, "s8": np.int8, "u8": np.uint8, "boolean": np.bool_}
MADE = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
MOST = 2**17  # of a float, by up to 2 and 60 terms: 2**24 at the most


@dataclass(frozen=True)
class Product:
    """A spec: its operation, its text, the letters of floats, of the other factor and of the output."""

    op: str
    text: str
    floats: str
    others: str
    out: str
    rows: tuple[tuple[str, str], ...]  # of the other factor and the output
    two: bool  # whether floats are sums of two inputs

    @property
    def function(self) -> str:
        return self.op.lower()


def draw(rng: Rng, op: str) -> Product:
    """A product with or without batches, of an input of floats or of sums of two, whose sums may be finished."""
    batch = "b" if rng.random() < 0.5 else ""
    floats, others, out = (shuffled(rng, letters + batch) for letters in ("mk", "kn", "mn"))
    by_step, finished, left = (bool(rng.random() < 0.5) for _ in range(3))

    def dims(axes: str) -> str:
        return ", ".join(f"{c.upper()}X: {c.upper()}" for c in axes)

    def cell(array: str, axes: str) -> str:
        return f"{array}[{', '.join(axes)}]"

    pair = [cell("made" if by_step else "one", floats), cell("other", others)]
    value = " * ".join(pair if left else reversed(pair))
    steps = [f"{cell('made', floats)} = {cell('one', floats)} + {cell('two', floats)}"] if by_step else []
    steps += (
        [f"{cell('sums', out)} += {value}", f"{cell('dst', out)} = max({cell('sums', out)}, -8) + m"]
        if finished
        else [f"{cell('dst', out)} += {value}"]
    )
    rows = tuple((read, made) for read in ROWS for made in MADE if rng.random() < 0.5) or (("bf16", "f32"),)
    rows = tuple({read: (read, made) for read, made in rows}.values())
    letters = sorted({*floats, *others})
    second = f"  - {{name: two, dims: {{{dims(floats)}}}}}\n" if by_step else ""
    kind = "two: f32, " if by_step else ""
    text = f"""op: {op}
revision: 1
summary: Products of floats.
dims: {{{", ".join(f"size_{c}: {{symbol: {c.upper()}}}" for c in letters)}}}
inputs:
  - {{name: one, dims: {{{dims(floats)}}}}}
{second}  - {{name: other, dims: {{{dims(others)}}}}}
outputs:
  - {{name: dst, dims: {{{dims(out)}}}}}
dtypes:
{chr(10).join(f"  - {{one: f32, {kind}other: {read}, dst: {made}, accumulate: f32}}" for read, made in rows)}
semantics:
  ranges: {{{", ".join(f"{c}: {c.upper()}" for c in letters)}}}
  steps:
{chr(10).join(f"    - {step}" for step in steps)}
"""
    return Product(op, text, floats, others, out, rows, by_step)


def inputs(rng: Rng, drawn: Product, read: str) -> list[Any]:
    """Arrays anywhere in memory, with extents around those of registers and parts of sums."""
    sizes = {c: int(rng.choice([1, 15, 16, 17, 31, 33, 48, 60])) for c in drawn.floats + drawn.others}
    sizes["b"] = int(rng.integers(1, 4))

    def array(axes: str, least: int, most: int, dtype: Any) -> Any:
        return viewed(rng, rng.integers(least, most, [sizes[c] for c in axes]).astype(dtype))

    whole = [array(drawn.floats, -(MOST // 2), MOST // 2, np.float32) for _ in range(1 + drawn.two)]
    return [*whole, array(drawn.others, 0 if read in ("u8", "boolean") else -2, 2 + (read == "u8"), ROWS[read])]
