"""Random specs that add up products of two reads to four, with axes in any order, and calls of them.

In: a generator of random numbers. Out: a spec's text, and inputs of small integers, of which all sums are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Rng = np.random.Generator
DTYPES: dict[str, Any] = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "f64": np.float64}
ROWS = (("f32", "f32"), ("bf16", "f32"), ("bf16", "bf16"), ("f16", "f32"), ("f16", "f16"))
OF_PRODUCTS = (*ROWS, ("f32", "f64"), ("f64", "f64"))  # with those that add up in f64
SUMS = {"f64": "f64"}  # by the type of the output; others are summed in f32
EXTENTS = (1, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 19, 33)


# Factors and output of sums in which only one pair is a contraction.
PARTLY = ((["ab", "bc", "ca"], "a"), (["ad", "bd", "cd"], "abc"))


@dataclass(frozen=True)
class Drawn:
    """A spec: its operation, its text, the letters of each factor, of the output, and of what else is read."""

    op: str
    text: str
    factors: tuple[str, ...]
    out: str
    others: tuple[str, ...] = ()
    scaled: bool = False  # whether the last factor has letters of one other alone


def shuffled(rng: Rng, letters: str) -> str:
    return "".join(rng.permutation([*letters])) if letters else ""


def _letters(rng: Rng, count: int) -> tuple[list[str], str]:
    """The letters of each factor and of the output: batches first, then what is free, then what is reduced."""
    names = iter("abcdefghijk")
    factors, out = [""] * count, ""

    def letters(most: int, least: int = 0) -> str:
        return "".join(next(names) for _ in range(int(rng.integers(least, most + 1))))

    batch = letters(2)
    factors = [factor + batch for factor in factors]
    out += batch
    for number in range(count):
        free = letters(2 if count == 2 else 1, int(number == 0))
        factors[number] += free
        out += free
    for number in range(count - 1):
        summed = letters(2 if count == 2 else 1, 1)
        factors[number] += summed
        factors[number + 1] += summed
    return factors, out


def draw(
    rng: Rng,
    op: str,
    finish: str = "",
    *,
    steps: bool = True,
    letters: tuple[list[str], str] | None = None,
    term: str = "",
) -> Drawn:
    """A product of two factors or three: batches, rows, columns and reduced letters, of each none, one or two.

    Sometimes a further factor has some letters of another, as a scale of rows, of columns or of terms has. Instead,
    `letters` are those of each factor and of the output. With `term`, that of two reads {0} and {1} is added up in place
    of their product.

    `finish` is what becomes of a sum {0}; {1} and {2} are cells of further inputs, whose letters are some of the
    output's in any order. Without `steps` the spec has one `reduce`.
    """
    factors, out = letters or _letters(rng, 2 if term else int(rng.choice([2, 2, 2, 3])))
    scaled = letters is None and not term and rng.random() < 0.4
    if scaled:
        whole = shuffled(rng, str(rng.choice(factors)))
        factors.append(whole[: int(rng.integers(1, len(whole) + 1))])
    count = len(factors)
    factors = [shuffled(rng, factor) for factor in factors]
    out = shuffled(rng, out)
    used = sorted({*"".join(factors), *out})
    others = [shuffled(rng, out)[: int(rng.integers(1, len(out) + 1))] for n in (1, 2) if f"{{{n}}}" in finish]
    inputs = "\n".join(
        f"  - {{name: in_{n}, dims: {{{', '.join(f'{c.upper()}: {c.upper()}' for c in factor)}}}}}"
        for n, factor in enumerate([*factors, *others])
    )
    cells = [f"in_{n}[{', '.join(factor)}]" for n, factor in enumerate(factors)]
    value = term.format(*cells) if term else " * ".join(cells)
    cell = f"out_0[{', '.join(out)}]"
    sums = f"sums[{', '.join(out)}]"
    more = [f"in_{count + n}[{', '.join(letters)}]" for n, letters in enumerate(others)]
    blocks = f"  steps:\n    - {cell} += {value}"
    if not steps:
        blocks = f"  reduce: {cell} += {value}" + (f"\n  finish: {finish.format(cell, *more)}" if finish else "")
    elif finish:
        blocks = f"  steps:\n    - {sums} += {value}\n    - {cell} = {finish.format(sums, *more)}"
    own = ROWS if term else OF_PRODUCTS
    read_from = [f"in_{n}" for n in range(count + len(others))]
    rows = "\n".join(
        f"  - {{{', '.join(f'{n}: {read}' for n in read_from)}, out_0: {made}, accumulate: {SUMS.get(made, 'f32')}}}"
        for read, made in (own if steps else own[::2])
    )
    words = ", ".join(dict.fromkeys(made for _, made in own))
    attributes = f"""attributes:
  - {{name: made, type: string, values: [{words}], dtype_of: out_0, summary: The data type of the sums.}}
"""
    text = f"""op: {op}
revision: 1
summary: Sums of products.
dims:
{chr(10).join(f"  size_{c}: {{symbol: {c.upper()}}}" for c in used)}
{attributes if steps else ""}inputs:
{inputs}
outputs:
  - {{name: out_0, dims: {{{", ".join(f"{c.upper()}: {c.upper()}" for c in out)}}}}}
dtypes:
{rows}
semantics:
  ranges: {{{", ".join(f"{c}: {c.upper()}" for c in used)}}}
{blocks}
"""
    return Drawn(op, text, tuple(factors), out, tuple(others), scaled)


def inputs(rng: Rng, drawn: Drawn, dtype: str, most: int = 20_000_000) -> list[Any]:
    """Arrays for a call: small integers in C order, in another order of memory, with gaps, backwards or stretched."""
    used = sorted({*"".join(drawn.factors)})
    sizes = {letter: int(rng.choice(EXTENTS)) for letter in used}
    while np.prod([float(size) for size in sizes.values()]) > most:
        sizes[used[int(rng.integers(len(used)))]] = 2
    if rng.random() < 0.1:
        sizes[used[int(rng.integers(len(used)))]] = 0
    read = [*drawn.factors, *drawn.others]
    return [viewed(rng, rng.integers(-2, 3, [sizes[c] for c in f]).astype(DTYPES[dtype])) for f in read]


def viewed(rng: Rng, array: Any) -> Any:
    """The same cells, or cells like them, in some other place of memory."""
    kind = int(rng.integers(5))
    if kind == 1:
        order = rng.permutation(array.ndim)
        return array.transpose(order).copy().transpose(np.argsort(order))
    if kind == 2:
        gaps = np.zeros([2 * extent for extent in array.shape], array.dtype)
        gaps[tuple(slice(None, None, 2) for _ in array.shape)] = array
        return gaps[tuple(slice(None, None, 2) for _ in array.shape)]
    if kind == 3:
        return array[tuple(slice(None, None, -1) for _ in array.shape)]
    if kind == 4 and array.ndim:
        axis = int(rng.integers(array.ndim))
        return np.broadcast_to(np.take(array, [0], axis) if array.shape[axis] else array, array.shape)
    return array
