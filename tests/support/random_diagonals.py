"""Random steps that write cells, or blocks of cells, along a diagonal of an output.

In: a generator of random numbers. Out: a spec's text, and whether a letter walks an axis in front of the diagonal.
"""

from __future__ import annotations

import numpy as np

Rng = np.random.Generator
ROWS = ("f32", "bf16", "u8")


def spec_of_diagonal(rng: Rng, op: str) -> tuple[str, bool]:
    """Axes that `g` walks alone, before a letter of their own, or together with one behind it; other axes anywhere."""
    own = iter("rctuv")
    diagonal, letters = list[tuple[str, str]](), ["g"]
    for _ in range(int(rng.integers(2, 4))):
        kind = rng.choice(["alone", "block", "turns"], p=[0.3, 0.55, 0.15])
        if kind == "alone":
            diagonal.append(("g", "G"))
            continue
        letters.append(letter := next(own))
        size = letter.upper()
        index = f"g * {size} + {letter}" if kind == "block" else f"{letter} * G + g"
        diagonal.append((index, f"G * {size}"))
    axes = list(diagonal)
    for letter in "nm":
        if rng.random() < 0.3:
            letters.append(letter)
            axes.insert(int(rng.integers(len(axes) + 1)), (letter, letter.upper()))
    read = [letter for letter in letters if rng.random() < 0.9] or ["g"]
    value = f"w[{', '.join(read)}]"
    value = str(rng.choice([value, f"{value} * s[g]", f"max({value}, s[g]) + 1"]))
    steps = []
    if rng.random() < 0.4:
        steps.append(f"y[{', '.join(f'z{n}' for n in range(len(axes)))}] = 0")
    zeros = {f"z{n}": extent for n, (_, extent) in enumerate(axes)} if steps else {}
    steps.append(f"y[{', '.join(index for index, _ in axes)}] = {value}")
    scaled = "s[g]" in value
    names = ["w", *(["s"] if scaled else []), *(["e"] if {*letters} - {*read} else []), "y"]
    unread = sorted(letter.upper() for letter in {*letters} - {*read})
    extra = ["  - {name: s, dims: {G: G}}"] if scaled else []
    extra += [f"  - {{name: e, dims: {{{', '.join(f'{size}: {size}' for size in unread)}}}}}"] if unread else []
    if unread:  # sizes are those of inputs
        steps[-1] += f" + e[{', '.join(size.lower() for size in unread)}]"
    rows = [f"  - {{{', '.join(f'{name}: {kind}' for name in names)}, accumulate: f32}}" for kind in ROWS]
    ranges = {**{letter: letter.upper() for letter in letters}, **zeros}
    text = [
        f"op: {op}",
        "revision: 1",
        "summary: Cells along a diagonal.",
        "dims:",
        *(f"  size_{x}: {{symbol: {x.upper()}, min: {rng.integers(0, 2)}}}" for x in letters),
        "inputs:",
        f"  - {{name: w, dims: {{{', '.join(f'{x.upper()}: {x.upper()}' for x in read)}}}}}",
        *extra,
        "outputs:",
        f"  - {{name: y, dims: {{{', '.join(f'X{n}: {extent}' for n, (_, extent) in enumerate(axes))}}}}}",
        "dtypes:",
        *rows,
        "semantics:",
        f"  ranges: {{{', '.join(f'{x}: {size}' for x, size in ranges.items())}}}",
        "  steps:",
        *(f'    - "{step}"' for step in steps),
        "",
    ]
    return "\n".join(text), axes[0] in diagonal
