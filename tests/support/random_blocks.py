"""Random operations whose outputs hold blocks along a diagonal, as texts of specs.

In: a random generator, and the operation's name. Letters walk axes alone, counting back, and two together, as in
`y[g * R + r, g * C + c]`: some of them two axes at once.
"""

from __future__ import annotations

import numpy as np

KINDS = ("f32", "bf16", "f16", "u8", "f64", "s32")


def blocks(random: np.random.Generator, name: str) -> str:
    """The text of a spec."""

    def one(items: list[str]) -> str:
        return str(random.choice(items))

    letters, shared = "grc", one([*"grc"])
    axes, indices = list[str](), list[str]()
    for number in range(int(random.integers(2, 4))):
        first, second = (str(x) for x in random.permutation([*letters])[:2])
        first = shared if number < 2 and shared != second else first
        kind = one(["one", "back", "digits", "digits"])
        axes.append(f"{first.upper()} * {second.upper()}" if kind == "digits" else first.upper())
        together, back = f"{first} * {second.upper()} + {second}", f"{first.upper()} - 1 - {first}"
        indices.append({"one": first, "back": back, "digits": together}[kind])
    walked = {x for index in indices for x in letters if x in index}
    operator = one(["=", "=", "+=", "max=", "*="] if len(walked) == 3 else ["+=", "+=", "min="])
    dims = ", ".join(f"Y{number}: '{axis}'" for number, axis in enumerate(axes))
    kind = one([*KINDS])
    return f"""op: {name}
revision: 1
summary: Blocks along a diagonal.
dims: {{g_cells: G, r_cells: R, c_cells: C}}
inputs: [{{name: x, dims: {{G: G, R: R, C: C}}}}]
outputs: [{{name: y, dims: {{{dims}}}}}]
dtypes: [{{x: {kind}, y: {kind}, accumulate: {"f64" if kind == "f64" else "f32"}}}]
semantics:
  ranges: {{g: G, r: R, c: C}}
  steps: ["y[{", ".join(indices)}] {operator} x[g, r, c]"]
"""
