"""Random specs of products of complex numbers: where their components lie, in which order axes and factors stand, which
side is conjugated, and whether results are one array or two, vary.

In: a random generator, and a name. Out: the text of a spec.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# By the side that is conjugated: the signs of the second term of the first and the second component.
SIGNS = {"": ("-", "+"), "left": ("+", "-"), "both": ("-", "+")}
LETTERS = {"batch": "n", "rows": "i", "columns": "j", "terms": "k"}


def draw(random: np.random.Generator, name: str) -> str:
    """A spec with one product of complex matrices, or of some vector, and what is done with the result."""
    used = {role: letter for role, letter in LETTERS.items() if role == "terms" or random.random() < 0.7}
    if not used.keys() & {"rows", "columns"}:
        used["rows"] = LETTERS["rows"]
    sides = {
        "a": [used[role] for role in ("batch", "rows", "terms") if role in used],
        "c": [used[role] for role in ("batch", "columns", "terms") if role in used],
    }
    result = [used[role] for role in ("batch", "rows", "columns") if role in used]
    for letters in (*sides.values(), result):
        if random.random() < 0.5:
            random.shuffle(letters)
    places = {
        side: len(letters) if random.random() < 0.7 else int(random.integers(3)) for side, letters in sides.items()
    }
    place = len(result) if random.random() < 0.7 else int(random.integers(3))

    def read(array: str, letters: Sequence[str], at: int, cell: object) -> str:
        own = list(letters)
        own.insert(min(at, len(own)), str(cell))
        return f"{array}[{', '.join(own)}]"

    def dims(letters: Sequence[str], at: int) -> str:
        own = [f"{letter.upper()}: {letter.upper()}" for letter in letters]
        own.insert(min(at, len(own)), "X: 2")
        return "{" + ", ".join(own) + "}"

    def product(left: int, right: int) -> str:
        factors = [read("a", sides["a"], places["a"], left), read("c", sides["c"], places["c"], right)]
        return " * ".join(factors if random.random() < 0.7 else factors[::-1])

    signs = SIGNS[str(random.choice([*SIGNS]))]
    pairs = [[(0, 0), (1, 1)], [(0, 1), (1, 0)]]
    values = []
    for sign, terms in zip(signs, pairs, strict=True):
        first, second = terms if random.random() < 0.7 else terms[::-1]
        values.append(f"{product(*first)} {sign} {product(*second)}")
    two, finished = random.random() < 0.3, random.random() < 0.3
    cells = ", ".join(result)
    targets = [f"y{n}[{cells}]" for n in range(2)] if two else [read("y", result, place, n) for n in range(2)]
    sums = [f"s{n}[{cells}]" for n in range(2)] if finished else targets
    steps = [f"{sum_} += {value}" for sum_, value in zip(sums, values, strict=True)]
    if finished:
        steps += [f"{target} = {sum_} * 0.5 + 1" for target, sum_ in zip(targets, sums, strict=True)]
    outputs = [
        f"  - {{name: y{n}, dims: {{{', '.join(f'{x.upper()}: {x.upper()}' for x in result)}}}}}" for n in range(2)
    ]
    outputs = outputs if two else [f"  - {{name: y, dims: {dims(result, place)}}}"]
    kinds = [str(kind) for kind in random.choice(["f32", "bf16", "f64", "f16", "s32"], 2, replace=False)]
    if finished:
        kinds = [kind for kind in kinds if kind != "s32"]
    names = ("a", "c", *(("y0", "y1") if two else ("y",)))
    wide = {"f64": "f64", "s32": "s64"}
    rows = [
        "  - {" + ", ".join(f"{one}: {kind}" for one in names) + f", accumulate: {wide.get(kind, 'f32')}}}"
        for kind in kinds
    ]
    return "\n".join(
        [
            f"op: {name}",
            "revision: 1",
            "summary: Products of complex numbers.",
            f"dims: {{{', '.join(f'{role}: {letter.upper()}' for role, letter in used.items())}}}",
            "inputs:",
            f"  - {{name: a, dims: {dims(sides['a'], places['a'])}}}",
            f"  - {{name: c, dims: {dims(sides['c'], places['c'])}}}",
            "outputs:",
            *outputs,
            "dtypes:",
            *rows,
            "semantics:",
            f"  ranges: {{{', '.join(f'{letter}: {letter.upper()}' for letter in used.values())}}}",
            "  steps:",
            *(f"    - {step}" for step in steps),
            "",
        ]
    )
