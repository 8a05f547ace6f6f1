"""Random einsums of two or three factors: letters in any order, some of them twice in one factor, and calls of them.

In: a generator of random numbers. Out: a spec's text, and inputs of small integers, of which all sums are exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .random_contractions import DTYPES as FLOATS
from .random_contractions import shuffled, viewed

Rng = np.random.Generator
DTYPES: dict[str, Any] = {**FLOATS, "f64": np.float64, "s8": np.int8, "u8": np.uint8, "s32": np.int32, "s64": np.int64}
# of the factors, of the result and of sums
ROWS = (
    ("f32", "f32", "f32"),
    ("bf16", "bf16", "f32"),
    ("f16", "f16", "f32"),
    ("f64", "f64", "f64"),
    ("s8", "s32", "s64"),
    ("s32", "s64", "s64"),
    ("s64", "s32", "s64"),
)
SHARE = {"twice": 0.15, "unsummed": 0.35, "three": 0.2, "own": 0.3}


@dataclass(frozen=True)
class Einsum:
    """A spec: its operation, its text, the letters of each factor and of the output."""

    op: str
    text: str
    factors: tuple[str, ...]
    out: str
    mean: str = ""  # the letter whose extent divides all terms

    @property
    def notation(self) -> str:
        return f"{','.join(self.factors)}->{self.out}"

    @property
    def function(self) -> str:
        return "".join(f"_{c.lower()}" if c.isupper() else c for c in self.op).lstrip("_")

    @property
    def letters(self) -> list[str]:
        return sorted({*"".join(self.factors)})


def draw(rng: Rng, op: str) -> Einsum:
    """Up to six letters, each in one factor or more, and in the output unless it is summed."""
    letters = "abcdef"[: int(rng.integers(1, 7))]
    count = 3 if rng.random() < SHARE["three"] else 2
    factors = [""] * count
    for letter in letters:
        chosen = rng.random(count) < 0.5
        chosen[int(rng.integers(count))] = True
        factors = [f + letter if has else f for f, has in zip(factors, chosen, strict=True)]
    for number, factor in enumerate(factors):
        if not factor:
            factors[number] = str(rng.choice([*letters]))
    if rng.random() < SHARE["twice"]:
        number = int(rng.integers(count))
        factors[number] += str(rng.choice([*factors[number]]))
    summed = 0.0 if rng.random() < SHARE["unsummed"] else 0.5
    out = "".join(letter for letter in letters if rng.random() >= summed) or letters[0]
    return einsum(
        op, [shuffled(rng, factor) for factor in factors], shuffled(rng, out), own=rng.random() < SHARE["own"]
    )


def einsum(op: str, factors: list[str], out: str, *, own: bool = False, mean: str = "") -> Einsum:
    """The spec of an einsum, as a user would write it; with sizes of its output's `own` that are those of the inputs, or

    all terms divided by the extent of a letter, as in a `mean` along it.
    """
    letters = sorted({*"".join(factors)})
    extents = {c: f"{'O' if own and c in out else ''}{c.upper()}" for c in letters}
    stated = [(extent, c.upper()) for c, extent in extents.items() if extent != c.upper()]

    def dims(axes: str, named: Mapping[str, str] | None = None) -> str:
        return ", ".join(f"{c.upper()}{number}: {(named or {}).get(c, c.upper())}" for number, c in enumerate(axes))

    def cell(array: str, axes: str) -> str:
        return f"{array}[{', '.join(axes)}]"

    inputs = "\n".join(f"  - {{name: in_{n}, dims: {{{dims(factor)}}}}}" for n, factor in enumerate(factors))
    value = " * ".join(cell(f"in_{n}", factor) for n, factor in enumerate(factors)) + (
        f" / {mean.upper()}" if mean else ""
    )
    sign = "+=" if {*letters} - {*out} else "="
    rows = "\n".join(
        f"  - {{{', '.join(f'in_{n}: {read}' for n in range(len(factors)))}, dst: {made}, accumulate: {sums}}}"
        for read, made, sums in ROWS
        if not (mean and sums == "s64")
    )
    text = f"""op: {op}
revision: 1
summary: Sums of products, {",".join(factors)}->{out}.
dims: {{{", ".join(f"size_{size.lower()}: {{symbol: {size}}}" for size in [*map(str.upper, letters), *(one for one, _ in stated)])}}}
inputs:
{inputs}
outputs:
  - {{name: dst, dims: {{{dims(out, extents)}}}}}
dtypes:
{rows}
shape: {{{", ".join(f"{one}: {size}" for one, size in stated)}}}
semantics:
  ranges: {{{", ".join(f"{c}: {extent}" for c, extent in extents.items())}}}
  steps:
    - {cell("dst", out)} {sign} {value}
"""
    return Einsum(op, text, tuple(factors), out, mean)


def sizes(rng: Rng, drawn: Einsum, most: float, longest: int = 2000) -> dict[str, int]:
    """Extents of letters, from 1 to thousands; no array and no loop over all letters has more than `most` cells."""
    found = {c: round(math.exp(rng.uniform(0, math.log(longest)))) for c in drawn.letters}

    def cells(axes: str) -> float:
        return math.prod(float(found[c]) for c in axes)

    while cells("".join(drawn.letters)) > most or max(map(cells, drawn.factors)) > most:
        letter = str(rng.choice(drawn.letters))
        found[letter] = max(1, found[letter] // 2)
    return found


def inputs(rng: Rng, drawn: Einsum, dtype: str, most: float, longest: int = 70) -> list[Any]:
    """Arrays for a call, small integers anywhere in memory; sometimes an extent is 0."""
    found = sizes(rng, drawn, most, longest)
    if rng.random() < 0.05:
        found[str(rng.choice(drawn.letters))] = 0
    return [
        viewed(rng, rng.integers(-2, 3, [found[c] for c in factor]).astype(DTYPES[dtype])) for factor in drawn.factors
    ]
