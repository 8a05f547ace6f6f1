"""Random chains of contractions: products whose sums the next steps read cell by cell or row by row, as attention's.

In: a generator of numbers. Out: the text of a spec, and extents of its letters for calls of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .random_contractions import shuffled
from .spec_calls import Rng

BATCHES, TASKS, HIDDEN = "bh", "pq", "tuv"
CELLS = ("max({0}, 0)", "{0} * 0.5", "tanh({0})", "abs({0}) + 1", "to_bf16({0})")
ROWS = (
    ("{peak} max= {0}", "{total} += exp({0} - {peak})", "{made} = exp({0} - {peak}) / {total}"),
    ("{total} += {0} * {0}", "{made} = {0} / sqrt({total} + 1)"),
    ("{peak} max= {0}", "{made} = {0} - {peak}"),
)
EXTENTS = (1, 2, 3, 5, 8, 17, 33)
MOST = 30_000  # cells of all letters together, which an interpreter takes a second for
DTYPES = ("f32", "bf16", "f16")

ATTENTION = """op: CausalAttention
revision: 1
summary: Causal attention, several heads of queries to one of keys.
dims:
  batch: {symbol: B, run: true}
  heads: {symbol: H}
  key_heads: {symbol: G}
  queries: {symbol: Q}
  keys: {symbol: T}
  width: {symbol: W}
inputs:
  - {name: query, dims: {B: B, H: H, Q: Q, W: W}}
  - {name: key, dims: {B: B, G: G, T: T, W: W}}
  - {name: value, dims: {B: B, G: G, T: T, W: W}}
outputs:
  - {name: dst, dims: {B: B, H: H, Q: Q, W: W}}
dtypes:
  - {query: f32, key: f32, value: f32, dst: f32, accumulate: f32}
  - {query: bf16, key: bf16, value: bf16, dst: bf16, accumulate: f32}
constraints:
  - {id: heads-in-groups, expr: G > 0 and H % G == 0, say: heads of queries must be a multiple of heads of keys, argument: key}
semantics:
  ranges: {b: B, h: H, q: Q, t: T, w: W}
  steps:
    - do: score[b, h, q, t] += query[b, h, q, w] * key[b, floor(h * G / H), t, w]
      where: [t <= q + T - Q]
    - peak[b, h, q] max= select(t <= q + T - Q, score[b, h, q, t], -inf)
    - total[b, h, q] += select(t <= q + T - Q, exp(score[b, h, q, t] - peak[b, h, q]), 0)
    - share[b, h, q, t] = select(t <= q + T - Q, exp(score[b, h, q, t] - peak[b, h, q]) / total[b, h, q], 0)
    - dst[b, h, q, w] += share[b, h, q, t] * value[b, floor(h * G / H), t, w]
"""

# The second product is one of bf16 by few columns.
NARROWED = """op: Narrowed
revision: 1
summary: Two products, the sums of the first rounded.
dims:
  batch: {symbol: B}
  queries: {symbol: Q}
  keys: {symbol: T}
  width: {symbol: W}
inputs:
  - {name: query, dims: {B: B, Q: Q, W: W}}
  - {name: key, dims: {B: B, T: T, W: W}}
outputs:
  - {name: dst, dims: {B: B, Q: Q, W: W}}
dtypes:
  - {query: bf16, key: bf16, dst: bf16, accumulate: f32}
semantics:
  ranges: {b: B, q: Q, t: T, w: W}
  steps:
    - score[b, q, t] += query[b, q, w] * key[b, t, w]
    - peak[b, q] max= score[b, q, t]
    - share[b, q, t] = to_bf16(max(score[b, q, t] - peak[b, q], -8))
    - dst[b, q, w] += share[b, q, t] * key[b, t, w]
"""


@dataclass(frozen=True)
class Chain:
    """A spec, and the letters of each input."""

    op: str
    text: str
    inputs: tuple[str, ...]


def draw(rng: Rng, op: str) -> Chain:
    """Two or three products; between them steps over cells, over rows, or none."""
    batches = BATCHES[: int(rng.integers(3))]
    tasks = TASKS[-int(rng.integers(1, 3)) :]
    outer = batches + tasks
    inputs, steps, left = list[str](), list[str](), "w"
    count = int(rng.integers(2, 4))
    source, ready = "in_0", f"in_0[{', '.join(first := shuffled(rng, outer + left))}]"
    inputs.append(first)
    for number in range(count):
        made = HIDDEN[number]
        shared = "".join(letter for letter in batches if rng.random() < 0.7)
        other = shuffled(rng, shared + left + made)
        inputs.append(other)
        factors = [ready, f"in_{len(inputs) - 1}[{', '.join(other)}]"]
        cell = f"[{', '.join(outer + made)}]"
        steps.append(f"sums_{number}{cell} += {' * '.join(factors[:: int(rng.choice([1, -1]))])}")
        source, left = f"sums_{number}{cell}", made
        ready = source
        kind, last = rng.random(), number == count - 1
        names = {name: f"{name}_{number}[{', '.join(outer)}]" for name in ("peak", "total")} | {
            "made": f"rows_{number}{cell}"
        }
        if kind < 0.6:
            steps += [line.format(source, **names) for line in ROWS[int(rng.integers(len(ROWS)))]]
            ready = names["made"]
        elif kind < 0.8:
            steps.append(f"cells_{number}{cell} = {str(rng.choice(CELLS)).format(source)}")
            ready = f"cells_{number}{cell}"
        if last:
            steps.append(f"out_0[{', '.join(order := shuffled(rng, outer + made))}] = {ready}")
    used = sorted({*"".join(inputs), *order})
    dims = "\n".join(f"  size_{c}: {{symbol: {c.upper()}}}" for c in used)
    given = "\n".join(f"  - {{name: in_{n}, dims: {_dims(letters)}}}" for n, letters in enumerate(inputs))
    rows = "\n".join(
        f"  - {{{', '.join(f'in_{n}: {dtype}' for n in range(len(inputs)))}, out_0: {dtype}, accumulate: f32}}"
        for dtype in DTYPES
    )
    lines = "\n".join(f"    - {step}" for step in steps)
    text = f"""op: {op}
revision: 1
summary: A chain of products.
dims:
{dims}
inputs:
{given}
outputs:
  - {{name: out_0, dims: {_dims(order)}}}
dtypes:
{rows}
semantics:
  ranges: {{{", ".join(f"{c}: {c.upper()}" for c in used)}}}
  steps:
{lines}
"""
    return Chain(op, text, tuple(inputs))


def _dims(letters: str) -> str:
    return f"{{{', '.join(f'{c.upper()}: {c.upper()}' for c in letters)}}}"


def arrays(rng: Rng, chain: Chain, dtype: np.dtype) -> list[np.ndarray]:
    """Inputs of small integers; sometimes a letter has no values, an input is a view, and some cells are infinite."""
    sizes = {letter: int(rng.choice(EXTENTS)) for letter in sorted({*"".join(chain.inputs)})}
    while np.prod([float(size) for size in sizes.values()]) > MOST:
        sizes[str(rng.choice(sorted(sizes)))] = 2
    if rng.random() < 0.4:  # a product of one column, beside which lanes may go along a letter of the tasks
        sizes[str(rng.choice([letter for letter in HIDDEN if letter in sizes]))] = 1
    if rng.random() < 0.1:
        sizes[str(rng.choice(sorted(sizes)))] = 0
    found = [rng.integers(-2, 3, [sizes[c] for c in letters]).astype(dtype) for letters in chain.inputs]
    if rng.random() < 0.2 and found[0].size:
        found[0].flat[int(rng.integers(found[0].size))] = -np.inf
    if rng.random() < 0.3:
        found = [np.ascontiguousarray(array.T).T for array in found]
    return found
