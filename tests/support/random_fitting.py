"""Random specs in which an axis and the groups of its cells have sizes that nothing relates.

In: a generator of random numbers. Out: a spec's text. Each call says how long the axis D of `x` is, whatever the number
G of groups, and how many cells of `t` there are for those of a group.
"""

from __future__ import annotations

from collections.abc import Callable

from .calls import Rng

Cell = Callable[[str, str], str]
# Of x and dst at a row and an index: `at` is the index of cell k of group g.
FORMS: tuple[Callable[[Cell, Cell, str], str], ...] = (
    lambda x, dst, at: f"{dst('n', at)} = {x('n', at)} * s[n, g] + t[k]",
    lambda x, dst, at: f"{dst('n', at)} = max({x('n', at)} * s[n, g], 0)|{dst('n', at)} += t[k]",
    lambda x, dst, at: f"p[n, g] max= {x('n', at)} * t[k]|{dst('n', at)} = {x('n', at)} * s[n, g] - p[n, g]",
    lambda x, dst, at: f"{dst('n', at)} += s[n, g] * s[m, g] * {x('m', at)} * t[k]",
    lambda x, dst, at: f"q[n, g] += {x('n', at)} * t[k]|{dst('n', at)} = q[n, g] * s[n, g] + {x('n', at)}",
    lambda x, dst, at: (
        f"q[n, g, k] = {x('n', at)} * t[k]|{dst('n', at)} += s[m, g] * q[m, g, k]|{dst('n', at)} += s[n, g]"
    ),
)
HALVES: tuple[Callable[[Cell, Cell, str], str], ...] = (
    lambda x, dst, at: f"{dst('n', 'g')} = {x('n', 'g')} * max({x('n', 'g + G')}, 0) * s[n, g]",
    lambda x, dst, at: f"{dst('n', 'g')} += {x('n', '2 * g')} * s[n, g] - {x('n', '2 * g + 1')} * t[k]",
    lambda x, dst, at: f"{dst('n', 'g')} += {x('n', 'g')} + {x('n', 'g + G + 1')} * t[k] + s[n, g]",
)
QUOTIENTS: tuple[Callable[[Cell, Cell, str], str], ...] = (
    lambda x, dst, at: f"{dst('n', 'd')} = {x('n', 'd')} * s[n, {at}]",
    lambda x, dst, at: f"{dst('n', 'd')} = max({x('n', 'd')} - s[n, {at}], 0) * s[n, {at}]",
    lambda x, dst, at: f"q[n, d] = {x('n', 'd')} * s[n, {at}]|{dst('n', 'd')} = q[n, d] + s[n, {at}] + d",
    lambda x, dst, at: f"p[n] max= {x('n', 'd')} * s[n, {at}]|{dst('n', 'd')} = {x('n', 'd')} - p[n]",
)
ROWS = (
    ("f32", "f32", "f32"), ("bf16", "bf16", "f32"), ("bf16", "f32", "f32"), ("f64", "f64", "f64"), ("s8", "f32", "f32"),
)  # fmt: skip


def draw(rng: Rng, op: str) -> str:
    """A spec of one of the forms, whose groups have E cells, or a number of them, in either order of axes."""
    halves, turned = rng.random() < 0.3, rng.random() < 0.4
    each = str(rng.choice(["E", "2", "3", "8", "16", "17"]))
    at = "k * G + g" if rng.random() < 0.2 else f"g * {each} + k"
    forms = HALVES if halves else FORMS
    if not halves and rng.random() < 0.3:
        forms, at = QUOTIENTS, f"floor(d / {rng.choice([2, 3, 16, 17, 32])})"

    def pair(one: str, other: str) -> str:
        return f"{other}, {one}" if turned else f"{one}, {other}"

    def cell(name: str) -> Cell:
        return lambda row, index: f"{name}[{pair(row, index)}]"

    steps = forms[int(rng.integers(len(forms)))](cell("x"), cell("dst"), at).split("|")
    text = " ".join(steps)
    ranges = {"n": "N", "m": "N", "d": "D", "g": "G", "k": each}
    used = {letter: extent for letter, extent in ranges.items() if f"{letter}]" in text or f"{letter}," in text}
    of_t = "" if "t[k]" not in text else "\n  - {name: t, dims: {K: E}}"
    size = ", each: {symbol: E}" if of_t else ""
    long = "G" if halves else "D"
    rows = [{"x": x, "s": s, **({"t": "f32"} if of_t else {}), "dst": s, "accumulate": sums} for x, s, sums in ROWS]
    nl = "\n"
    return f"""op: {op}
revision: 1
summary: Groups of cells of an axis.
dims: {{rows: {{symbol: N}}, columns: {{symbol: D}}, groups: {{symbol: G}}{size}}}
inputs:
  - {{name: x, dims: {{{pair("A: N", "B: D")}}}}}
  - {{name: s, dims: {{A: N, B: G}}}}{of_t}
outputs:
  - {{name: dst, dims: {{{pair("A: N", f"B: {long}")}}}}}
dtypes:
{nl.join(f"  - {{{', '.join(f'{name}: {dtype}' for name, dtype in row.items())}}}" for row in rows)}
semantics:
  ranges: {{{", ".join(f"{letter}: {extent}" for letter, extent in used.items())}}}
  steps:
{nl.join(f"    - {step}" for step in steps)}
"""


SCALE = """op: Scale
revision: 1
summary: Groups of four cells times their scales.
dims: {rows: {symbol: N}, columns: {symbol: D}, groups: {symbol: G}}
inputs: [{name: x, dims: {A: N, B: D}}, {name: s, dims: {A: N, B: G}}]
outputs: [{name: dst, dims: {A: N, B: D}}]
dtypes:
  - {x: f32, s: f32, dst: f32, accumulate: f32}
semantics:
  ranges: {n: N, g: G, k: 4}
  steps:
    - dst[n, g * 4 + k] = x[n, g * 4 + k] * s[n, g]
"""
