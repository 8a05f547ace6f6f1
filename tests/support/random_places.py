"""Random operations of steps that read and write at places of all kinds, as texts of specs.

In: a random generator, and the operation's name. Out: a spec of real numbers. Indices count back, go around, are
rounded, shifted by an attribute of any sign, or clamped; two letters walk axes of one size; targets are reached once,
several times or not at all; the numbers of letters are values.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

SIZES = {"a": "A", "a2": "A", "b": "B", "b2": "B", "c": "C"}
ATTRIBUTES = {
    "Q": '{name: shift, symbol: Q, type: s64, default: "-1"}',
    "S": '{name: stride, symbol: S, type: s64, default: "2", min: 1}',
}
READ = (
    "{i} + Q", "{i} + 1", "{i} - 1", "{i} * S", "2 * {i} + 1", "{e} - 1 - {i}", "({i} + 1) % {e}", "({i} + Q) % {e}", "floor({i} / 2)",
    "{i} % 2", "0", "min({i} + 1, {e} - 1)", "max({i} - 1, 0)", "{i} * S + {j} - 1", "{i} - {j}", "floor(({i} + {j}) / 3)",
)  # fmt: skip
WRITTEN = (
    "{i} + 1",
    "{i} - 1",
    "2 * {i}",
    "{e} - 1 - {i}",
    "floor({i} / 2)",
    "{i} % 2",
    "({i} + 1) % {e}",
    "{i} + {j}",
)
VALUES = (
    "{u} * {v}", "{u} * {v}", "{u} + {v}", "{u} - {v}", "max({u}, {v})", "select({u} > {v}, {u}, 2 * {v})", "abs({u})",
    "select({g}, {u}, {v})", "{u} * number({i}, {j})", "{u} * (number({i}) + 1)", "tanh({u})", "{u} / (2 + {v} * {v})",
)  # fmt: skip
GUARDS = ("{i} <= {j}", "{i} % 2 == 0", "{i} + Q >= {j}", "{i} == floor({j} / 2)", "{i} != {j}")


class Places:
    """Draws steps."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.arrays = {"x": ("A", "B"), "y": ("B", "C"), "w": ("A",)}

    def one(self, items: Sequence[str]) -> str:
        return str(items[int(self.rng.integers(len(items)))])

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def put(self, form: str, letter: str, letters: Sequence[str]) -> str:
        """A form with a letter and another one in their places."""
        other = self.one([one for one in letters if one != letter] or [letter])
        return form.replace("{i}", letter).replace("{j}", other).replace("{e}", SIZES[letter])

    def read(self, letters: Sequence[str]) -> str:
        name = self.one([*self.arrays])
        indices = []
        for size in self.arrays[name]:
            letter = self.one([one for one in letters if SIZES[one] == size] or letters)
            indices.append(self.put(self.one(READ), letter, letters) if self.chance(0.35) else letter)
        return f"{name}[{', '.join(indices)}]"

    def value(self, letters: Sequence[str]) -> str:
        form = self.put(self.one(VALUES), self.one(letters), letters)
        guard = self.put(self.one(GUARDS), self.one(letters), letters)
        return form.replace("{g}", guard).replace("{u}", self.read(letters)).replace("{v}", self.read(letters))

    def step(self, name: str, output: bool) -> str:
        """A step, which makes an array; an output is written at places of all kinds."""
        letters = [str(one) for one in self.rng.permutation([*SIZES])[: int(self.rng.integers(2, 5))]]
        kept = letters[: int(self.rng.integers(1, min(len(letters), 3) + 1))]
        operator = self.one(("=", "+=", "+=", "max=", "min=", "*="))
        letters = kept if operator == "=" else letters
        value = self.value(letters)
        written = [self.put(self.one(WRITTEN), x, letters) if output and self.chance(0.4) else x for x in kept]
        reached = " ".join(written)
        if operator == "=" and not all(re.search(rf"\b{x}\b", reached) for x in re.findall(r"\b[abc]2?\b", value)):
            operator = "+="
        self.arrays[name] = tuple(SIZES[one] for one in kept)
        step = f"{name}[{', '.join(written)}] {operator} {value}"
        if not self.chance(0.25):
            return f"    - {step}"
        return f'    - do: {step}\n      where: ["{self.put(self.one(GUARDS), self.one(letters), letters)}"]'


def places(rng: np.random.Generator, op: str) -> str:
    """The text of a spec."""
    made = Places(rng)
    steps = [made.step(f"t{number}", False) for number in range(int(rng.integers(0, 3)))]
    steps.append(made.step("dst", True))
    body = "\n".join(steps)
    unread = [name for name in ("x", "y", "w") if f"{name}[" not in body]
    letters = {"A": "a", "B": "b", "C": "c"}
    ends = [f"    - of_{n}[] += {n}[{', '.join(letters[size] for size in made.arrays[n])}]" for n in unread]
    body = "\n".join([*steps, *ends])
    axes = {"dst": made.arrays["dst"], **{f"of_{name}": () for name in unread}}
    dims = {n: ", ".join(f"X{at}: {s}" for at, s in enumerate(e)) for n, e in {**made.arrays, **axes}.items()}
    inputs, outputs = (", ".join(f"{{name: {n}, dims: {{{dims[n]}}}}}" for n in own) for own in (("x", "y", "w"), axes))
    ranges = ", ".join(f"{x}: {e}" for x, e in SIZES.items() if re.search(rf"\b{x}\b", body))
    attributes = [text for symbol, text in ATTRIBUTES.items() if re.search(rf"\b{symbol}\b", body)]
    row = ", ".join(f"{name}: f32" for name in ("x", "y", "w", *axes))
    return f"""op: {op}
revision: 1
summary: Cells at places of all kinds.
dims: {{a_cells: A, b_cells: B, c_cells: C}}
{f"attributes: [{', '.join(attributes)}]" if attributes else ""}
inputs: [{inputs}]
outputs: [{outputs}]
dtypes: [{{{row}, accumulate: f32}}]
semantics:
  ranges: {{{ranges}}}
  steps:
{body}
"""
