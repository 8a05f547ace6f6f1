"""Random steps around marks, `select(at[n] == k, value, 0)`: as factors, in intermediates, beside masks and digits.

In: a random generator. Out: the text of a spec over real numbers whose sizes one input has; `cells` draws its arrays.
Indices may leave their axes by one, letters count through an axis of H * W, and conditions come in any order.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
from opwright.language.model import Op

Rng = np.random.Generator
EXTENTS = {"n": "N", "j": "N", "k": "K", "l": "K", "c": "C", "d": "C", "m": "M", "i": "I", "h": "H", "w": "W", "z": "H * W"}  # fmt: skip
FIRST = {"N": "n", "K": "k", "C": "c", "M": "m", "I": "i", "H": "h", "W": "w"}
INDICES = {"at": "n", "to": "n", "beside": "ni", "by_cell": "z", "by_row": "h"}
NUMBERS = {"v": "n", "x": "kc", "turned": "ck", "s": "nk", "u": "nc", "x2": "mc", "x3": "cd", "p": "k", "q": "c",
           "b": "m", "f": "z", "e": "hw", "g": "hk", "t3": "nkc", "r": "zk", "one": ""}  # fmt: skip
AXES = INDICES | NUMBERS
ANY = (-1, 2**31 - 1, -(2**31))


class Marks:
    """A spec in the making."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.steps: list[str] = []
        self.between: dict[str, str] = {}
        self.outputs: dict[str, str] = {}

    def one(self, items: Any) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def index(self, letter: str) -> str:
        """A letter along an axis of these cells, or digits of one; now and then it leaves the axis."""
        if self.chance(0.3) and letter in "zhw":
            return {"z": "h * W + w", "h": "floor(z / W)", "w": "z % W"}[letter]
        letter = self.one({"n": "nnnj", "k": "kkkl", "c": "cccd"}.get(FIRST.get(EXTENTS[letter], letter), letter))
        if self.chance(0.05) and letter != "z":
            return str(self.one([f"{letter} + 1", f"{letter} - 1", f"{EXTENTS[letter]} - 1 - {letter}"]))
        return letter

    def read(self, names: Any = tuple(NUMBERS)) -> str:
        name = self.one(tuple(names))
        return f"{name}[{', '.join(map(self.index, (AXES | self.between)[name]))}]"

    def place(self) -> str:
        """What names a cell."""
        read = self.read(INDICES)
        forms = (f"{read} - 1", f"{read} + i", f"{read} * 2", f"2 - {read}", f"abs({read})", f"{read} / 2", f"max({read}, 1)")  # fmt: skip
        return read if self.chance(0.75) else str(self.one(forms))

    def condition(self) -> str:
        letter = self.one("kkklczhnmw")
        named = self.one([f"{self.place()} == {letter}", f"{letter} == {self.place()}"])
        other = self.one([
            f"{self.place()} != 1", f"{letter} > 0", f"{letter} != {self.place()}", f"{self.read()} > 0", "i < 2",
            f"{self.place()} == {self.one('kcln')}", f"n == {self.one('kj')}",
        ])  # fmt: skip
        both = (f"{named} and {other}", f"{other} and {named}", f"({named} or {other})")
        return str(named if self.chance(0.55) else self.one((*both, both[0], both[1])))

    def factor(self) -> str:
        read = self.read(self.between if self.between and self.chance(0.3) else NUMBERS)
        forms = (self.one(["2", "-1", "0.5"]), f"({read} - {self.read()})", f"number({self.one('kncl')})", f"-{read}",
                 f"max({read}, 0)", f"select({self.read()} > 0, {read}, {self.one('01')})")  # fmt: skip
        return read if self.chance(0.7) else str(self.one(forms))

    def mark(self, depth: int = 0) -> str:
        if depth > 2 or self.chance(0.5):
            return f"select({self.condition()}, {self.one(['1', '2', self.factor()])}, 0)"
        inner = self.mark(depth + 1)
        forms = (f"-({inner})", f"{inner} * {self.factor()}", f"{self.factor()} * {inner}", f"{inner} / 2", f"{inner} / W",
                 f"select({self.read()} > 0, {inner}, 0)", f"{inner} * {self.mark(depth + 1)}",
                 f"({inner} + {self.factor()})")  # fmt: skip
        return str(self.one(forms))

    def step(self, output: bool) -> None:
        value = self.mark()
        for _ in range(int(self.rng.integers(4))):
            value = self.one([f"{value} * {self.factor()}", f"{self.factor()} * {value}"])
        operator = self.one(["+=", "+=", "+=", "=", "max="] if output else ["+=", "="])
        if operator == "max=" and self.chance(0.6):
            value = f"select({self.condition()}, {self.factor()}, -inf)"
        letters = _letters(value)
        kept = letters if operator == "=" else [letter for letter in letters if self.chance(0.45)]
        kept = [kept[at] for at in self.rng.permutation(len(kept))] if self.chance(0.4) else kept
        if len(kept) > 4:
            return
        found, name = (self.outputs, f"y{len(self.outputs)}") if output else (self.between, f"t{len(self.between)}")
        step = f'"{name}[{", ".join(kept)}] {operator} {value}"'
        guarded = letters and operator != "=" and self.chance(0.12)
        guard = f'\n      where: ["{self.one(letters)} {self.one(["> 0", "% 2 == 0"])}"]' if guarded else ""
        self.steps.append(f"do: {step}{guard}" if guard else step)
        found[name] = "".join(kept)

    def text(self, types: str) -> str:
        """Intermediates, and outputs that may read them; `types` are those of indices."""
        for _ in range(int(self.rng.integers(4))):
            self.step(False)
        while not self.outputs or self.chance(0.3):
            self.step(True)
        body = "\n    - ".join(self.steps)
        read = [name for name in AXES if re.search(rf"\b{name}\[", body)]
        letters = {*_letters(body), *(letter for name in read for letter in AXES[name])}
        named = {*re.findall(r"\b[NKCMIHW]\b", body), *(size for one in letters for size in EXTENTS[one].split(" * "))}
        sizes = [size for size in FIRST if size in named]
        ranges = [letter for letter in EXTENTS if letter in {*_letters(body), *(FIRST[size] for size in sizes)}]

        def dims(axes: str) -> str:
            return ", ".join(f"D{number}{letter.upper()}: {EXTENTS[letter]}" for number, letter in enumerate(axes))

        inputs = {"sizes": "".join(FIRST[size] for size in sizes), **{name: AXES[name] for name in read}}
        row = {name: types if name in INDICES else "f64" for name in (*inputs, *self.outputs)}
        return f"""op: Mark
revision: 1
summary: Marks.
dims: {{{", ".join(f"{size.lower()}_cells: {{symbol: {size}, min: {int(size == 'W')}}}" for size in sizes)}}}
inputs: [{", ".join(f"{{name: {name}, dims: {{{dims(axes)}}}}}" for name, axes in inputs.items())}]
outputs: [{", ".join(f"{{name: {name}, dims: {{{dims(axes)}}}}}" for name, axes in self.outputs.items())}]
dtypes: [{{{", ".join(f"{name}: {one}" for name, one in row.items())}, accumulate: f64}}]
semantics:
  ranges: {{{", ".join(f"{letter}: {EXTENTS[letter]}" for letter in ranges)}}}
  steps:
    - "first[] max= sizes[{", ".join(inputs["sizes"])}]"
    - {body}
"""


def cells(random: Rng, op: Op, wild: bool) -> tuple[dict[str, int], dict[str, Any]]:
    """Sizes, and arrays by name: indices inside and outside of axes; small integers, or some that are not finite."""
    sizes = {dim.symbol: int(random.choice([1, 1, 2, 3] if dim.min else [0, 1, 2, 2, 3])) for dim in op.dims.values()}
    found: dict[str, Any] = {}

    def known(size: str) -> int:
        return int(size) if size.isdigit() else sizes[size]

    for tensor in op.data_inputs:
        extents = [[term.split(" * ") for term in extent.text.split(" + ")] for extent in tensor.dims.values()]
        shape = [sum(math.prod(map(known, some)) for some in terms) for terms in extents]
        numbers = random.integers(-3, 4, shape).astype(np.float64)
        some = random.choice((np.inf, -np.inf, np.nan, -0.0), shape)
        found[tensor.name] = np.where(random.random(shape) < 0.3 * wild, some, numbers)
        if tensor.name in INDICES:
            real, outside = op.dtypes[0][tensor.name] == "f64", random.random(shape) < 0.2
            numbers = np.where(outside, random.choice(ANY, shape), random.integers(0, 4, shape)).astype(np.int64)
            found[tensor.name] = (
                numbers.astype(np.float64) + random.choice((0, 0, 0.5, np.nan), shape) if real else numbers
            )
    return sizes, found


def _letters(text: str) -> list[str]:
    return [letter for letter in EXTENTS if re.search(rf"\b{letter}\b", text)]
