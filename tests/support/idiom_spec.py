"""A spec of steps in the making, for random_idioms.py: its sizes, arrays, outputs, rows of data types and text.

Numbers are exact while a formula is made of small ones; what functions round is only rounded again, never compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Rng = np.random.Generator

LARGE = 300.0  # above it numbers are capped before they are used again
REAL = ("f32", "f32", "f16", "f16", "bf16", "bf16", "f64")
NARROW = ("s8", "u8", "s32", "boolean", "f8_e4m3", "f8_e5m2", "s64")


@dataclass(frozen=True)
class Array:
    """Cells by letters; the greatest of their numbers, about, or None if functions have rounded them."""

    name: str
    letters: tuple[str, ...]
    most: float | None
    whole: bool = True  # no halves


CORES = (
    (("n", "c"), ""), (("c", "n"), ""), (("n", "c", "x"), ""), (("n", "x", "c"), ""), (("n", "h", "c"), ""),
    (("n", "c", "h"), ""), (("c",), ""), (("b", "c", "x"), "axis"), (("b", "c"), ""), (("n", "h", "c", "x"), ""),
    (("k", "r"), "axes"),
)  # fmt: skip
EXTENTS = {"n": "N", "c": "C", "x": "X", "h": "H", "b": "B", "k": "K", "r": "R"}
RUNS = "xbkr"


class IdiomSpec:
    """A spec in the making."""

    def __init__(self, rng: Rng, op: str) -> None:
        self.rng, self.op = rng, op
        self.core, located = CORES[int(rng.integers(len(CORES)))]
        self.ranges = {letter: EXTENTS[letter] for letter in self.core}
        self.dims = [self.dim(letter) for letter in self.core]
        self.attributes: list[str] = []
        self.lets: list[str] = []
        self.constraints: list[str] = []
        self.layouts: list[str] = []
        self.inputs: list[str] = []
        self.fixed: dict[str, str] = {}  # the type of an input in all rows
        self.optional: list[str] = []
        self.steps: list[str] = []
        self.outputs: list[str] = []
        self.stored: dict[str, Array] = {}
        self.arrays: list[Array] = []
        self.names = [f"t{number}" for number in range(40, 0, -1)]
        self.real = False  # whether some number is no integer
        self.types_of_first: tuple[str, ...] = ()  # those of the first output, of which an attribute chooses one
        layout = ""
        self.kept = located == "axes"  # whether the axes that outputs lack may stay with one cell each
        if self.kept:
            self.attributes.append('{name: axes, type: "s64[]", default: "[-1]", locates: of_r}')
            self.attributes.append('{name: keep_dims, type: bool, default: "false"}')
            self.layouts.append('keep_dims: {"true": [K, R], "false": [K]}')
        elif located:
            self.attributes.append('{name: axis, type: s64, default: "-1", locates: of_c}')
        elif len(self.core) > 1 and self.chance(0.25):
            layout = self.layout("src", self.core)
        joined = ", joined: C" if not layout and not located and self.chance(0.1) else ""
        self.inputs.append(f"{{name: src, dims: {{{self.axes(self.core)}}}{layout}{joined}}}")
        self.arrays.append(Array("src", self.core, 3))

    # Small helpers.

    def one(self, items: Sequence[str]) -> str:
        return items[int(self.rng.integers(len(items)))]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def dim(self, letter: str) -> str:
        run = ", run: true" if letter in RUNS else ", min: 0" if self.chance(0.5) else ""
        return f"of_{letter}: {{symbol: {EXTENTS[letter]}{run}}}"

    def axes(self, letters: Sequence[str]) -> str:
        return ", ".join(f"{letter.upper()}: {self.ranges[letter]}" for letter in letters)

    def layout(self, name: str, letters: Sequence[str]) -> str:
        orders = [letters, [letters[at] for at in self.rng.permutation(len(letters))]]
        words = ["one", "two"]
        self.attributes.append(f"{{name: order_of_{name}, type: string, default: one, values: [one, two]}}")
        told = (f"{word}: [{', '.join(x.upper() for x in order)}]" for word, order in zip(words, orders, strict=True))
        self.layouts.append(f"order_of_{name}: {{{', '.join(told)}}}")
        return f", layout: order_of_{name}"

    def shuffled(self, letters: Sequence[str]) -> tuple[str, ...]:
        return tuple(letters[at] for at in self.rng.permutation(len(letters)))

    def some(self, letters: Sequence[str]) -> tuple[str, ...]:
        return tuple(letter for letter in letters if self.chance(0.5))

    def array(self, exact: bool = False) -> Array:
        """One that is there, mostly of the newest."""
        fitting = [array for array in self.arrays if not exact or array.most is not None]
        return fitting[-1 if self.chance(0.6) else int(self.rng.integers(len(fitting)))]

    def cell(self, array: Array, **instead: str) -> str:
        """A cell at the letters of its axes, or at others."""
        read = f"{array.name}[{', '.join(instead.get(letter, letter) for letter in array.letters)}]"
        return read if array.most is not None and array.most < LARGE else f"min(max({read}, -4), 4)"

    def bound(self, array: Array) -> float:
        return min(array.most, LARGE) if array.most is not None and array.most < LARGE else 4

    def made(self, array: Array, step: str) -> Array:
        self.steps.append(step)
        self.arrays.append(array)
        return array

    def name(self) -> str:
        return self.names.pop()

    def extra(self, name: str, letters: Sequence[str], more: str = "") -> Array:
        """A further input over some letters."""
        (self.optional if "optional" in more else self.inputs).append(
            f"{{name: {name}, dims: {{{self.axes(letters)}}}{more}}}"
        )
        return Array(name, tuple(letters), 3)

    def rounded(self, array: Array) -> bool:
        return array.most is None

    def most(self, *arrays: Array, by: float = 1) -> float | None:
        """The greatest number of a formula."""
        if any(map(self.rounded, arrays)):
            return None
        found = by
        for array in arrays:
            found *= self.bound(array)
        return found

    # The whole.

    def store(self, array: Array) -> None:
        """An output of an array, by a last formula or none."""
        name = f"dst{len(self.outputs)}"
        order = array.letters if self.chance(0.6) else self.shuffled(array.letters)
        read = f"{array.name}[{', '.join(array.letters)}]"
        text = self.one((read, read, f"max({read}, 0)", f"{read} * 2", f"{read} - 1"))
        layout = self.layout(name, order) if len(order) > 1 and self.chance(0.15) else ""
        dims, indices = self.axes(order), ", ".join(order)
        if self.kept and order == ("k",) and self.chance(0.7):
            layout, dims, indices = ", layout: keep_dims", "K: K, R: ones(R)", "k, 0"
        self.outputs.append(f"{{name: {name}, dims: {{{dims}}}{layout}}}")
        self.steps.append(f"{name}[{indices}] = {text}")
        self.stored[name] = array
        self.state(name, order)

    def state(self, name: str, order: Sequence[str]) -> None:
        """A list that says the shape of an output, as an attribute or as an input, where nothing else tells a size."""
        if "p" not in order:
            return
        stated = any("shape_of:" in text for text in (*self.inputs, *self.attributes))
        if not stated and self.chance(0.5):
            self.inputs.append(f"{{name: shape_of_{name}, shape_of: {name}}}")
            self.fixed[f"shape_of_{name}"] = "s32"
        elif not stated:
            self.attributes.append(
                f'{{name: shape_of_{name}, type: "s64[]", required: true, length: any, shape_of: {name}}}'
            )

    def first(self) -> str:
        """The first output that is no sum of an input's shape."""
        return next(name for name in self.stored if name.startswith("dst"))

    def rows(self) -> list[str]:
        found: dict[str, str] = {}
        inputs = [text.split(",")[0].partition("name: ")[2] for text in [*self.inputs, *self.optional]]
        first = self.first()
        whole = not self.real and not self.types_of_first and self.chance(0.3)
        for _ in range(2):
            kind = self.one(("s8", "u8", "s32", "s64") if whole else (*REAL, "f16", "bf16"))
            other = self.one((kind, kind, *(("s8", "u8") if whole else ("f32", "s8", "u8", "f8_e4m3"))))
            row = {name: self.fixed.get(name, kind if number == 0 else other) for number, name in enumerate(inputs)}
            for name, array in self.stored.items():
                fitting = (kind, kind, "f32", "f16", "bf16")
                if whole:
                    fitting = ("s32", "s64", "s8", "u8", "boolean")
                elif array.most is not None and array.most < LARGE:
                    fitting = (*fitting, *NARROW)
                row[name] = self.one(fitting)
            wide = "f64" if "f64" in row.values() else self.one(("f32", "f32", "f32", "f64"))
            row["accumulate"] = "s64" if whole else wide
            key = ", ".join(f"{name}: {row[name]}" for name in inputs)
            for other in self.types_of_first or (row[first],):
                told = {**row, first: other}
                found.setdefault(
                    f"{key} {other if self.types_of_first else ''}",
                    f"{{{', '.join(f'{name}: {t}' for name, t in told.items())}}}",
                )
        return list(found.values())

    def text(self) -> str:
        """The spec: the steps that were made, and outputs of the last of their arrays."""
        for array in self.arrays[::-1][: int(self.rng.integers(1, 4))]:
            self.store(array)
        if any("p" in array.letters for array in self.arrays) and "shape_of:" not in "".join(
            (*self.inputs, *self.attributes)
        ):
            self.store(next(array for array in self.arrays if "p" in array.letters))
        if not self.real and self.chance(0.2) and self.stored[self.first()].most is not None:
            self.types_of_first = ("f32", "f16") if self.chance(0.5) else ("bf16", "f32", "f8_e5m2")
            words = ", ".join(self.types_of_first)
            self.attributes.append(
                f"{{name: type_of_first, type: string, default: f32, dtype_of: {self.first()}, values: [{words}]}}"
            )
        unread = [text.partition("name: ")[2].split(",")[0] for text in (*self.inputs, *self.optional)]
        for name in unread:
            if not name.startswith("shape_of_") and not any(f"{name}[" in step for step in self.steps):
                self.store(next(array for array in self.arrays if array.name == name))
        used = {letter for letter in self.ranges if any(_names(letter, step) for step in self.steps)}
        parts = {
            "dims": self.dims, "attributes": self.attributes, "layouts": self.layouts,
            "inputs": [*self.inputs, *self.optional], "outputs": self.outputs, "dtypes": self.rows(), "let": self.lets,
            "constraints": self.constraints,
        }  # fmt: skip
        lines = [f"op: {self.op}", "revision: 1", "summary: Idioms put together."]
        for key, entries in parts.items():
            dash = "" if key in ("dims", "layouts", "let") else "- "
            lines += [f"{key}:", *(f"  {dash}{entry}" for entry in entries)] if entries else []
        ranges = ", ".join(f"{letter}: {extent}" for letter, extent in self.ranges.items() if letter in used)
        lines += ["semantics:", f"  ranges: {{{ranges}}}", "  steps:", *(f"    - {step}" for step in self.steps)]
        return "\n".join(lines) + "\n"


def _names(letter: str, text: str) -> bool:
    return any(word == letter for word in "".join(c if c.isalnum() or c == "_" else " " for c in text).split())
