"""Random operations of steps that have a gradient: small programs over real numbers, as texts of specs.

In: a random generator. Out: a spec. Values stay where functions are smooth and tame, but for corners that differences
hardly ever meet; steps reduce, choose, multiply, read windows, scatter, guard, and take an attribute's word.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

HEAD = """\
op: Program
revision: 1
summary: A program.
dims:
  rows: {symbol: N}
  columns: {symbol: C}
  taps: {symbol: K}
  run: {symbol: X, run: true}
attributes:
  - {name: mode, type: string, default: plain, values: [plain, other]}
  - {name: alpha, type: f32, default: "0.5"}
inputs:
  - {name: a, dims: {N: N, C: C, X: X}}
  - {name: b, dims: {C: C}}
  - {name: w, dims: {N: N, K: K}}
outputs:
"""
AXES = {"n": "N: N", "c": "C: C", "x": "X: X", "k": "K: K", "2": "C: 2 * C", "p": "P: 2"}
SMOOTH = (
    "exp(0.3 * {u})", "tanh({u})", "erf({u})", "sqrt(1 + {u} * {u})", "rsqrt(2 + {u} * {u})", "log(2 + {u} * {u})",
    "log1p({u} * {u})", "exp2(0.5 * {u})", "abs({u})", "pow({u}, 2)", "pow({u}, 3)", "pow(1 + {u} * {u}, 0.5)",
    "pow(1 + {u} * {u}, {v})", "pow(1.5, {u})", "{u} * {v}", "{u} / (2 + {v} * {v})", "{u} + {v}", "{u} - 2 * {v}",
    "-{u}", "max({u}, {v})", "min({u}, {v}, 0.25)", "max({u}, 0)", "select({u} > {v}, {u} * {v}, {v})",
    "select({u} > 0, {u}, alpha * {v})", "{u} * {u}", "(c + 1) * {u}", "{u} * N", "round(3 * {u})", "sign({u}) * {v}",
    "alpha * {u}", "1 / (1 + {u} * {u})",
)  # fmt: skip


class Programs:
    """Draws programs."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def one(self, items: Sequence[str]) -> str:
        return str(items[int(self.rng.integers(len(items)))])

    def spec(self) -> str:
        """The text of an operation."""
        self.arrays = {"a": "ncx", "b": "c", "w": "nk"}
        self.lines: list[str] = []
        for number in range(int(self.rng.integers(1, 5))):
            self.step(f"t{number}")
        last = list(self.arrays)[-1]
        outputs = {"dst": self.finish("dst", last)}
        if self.rng.random() < 0.4:
            outputs["more"] = self.finish("more", self.one(list(self.arrays)))
        used = " ".join(self.lines)
        for name in [name for name in ("a", "b", "w") if f"{name}[" not in used]:
            index = self.arrays[name]
            outputs[f"of_{name}"] = index
            self.lines.append(f"of_{name}[{self.indices(index)}] = tanh({name}[{self.indices(index)}])")
        tensors = [f"  - {{name: {n}, dims: {{{', '.join(AXES[i] for i in index)}}}}}" for n, index in outputs.items()]
        row = ", ".join(f"{name}: f32" for name in ("a", "b", "w", *outputs))
        letters = [letter for letter in "ncxk" if any(letter in self.walked(line) for line in self.lines)]
        ranges = ", ".join(f"{letter}: {letter.upper()}" for letter in letters)
        body = "\n".join(f"    - {line}" for line in self.lines)
        head = HEAD if "by: mode" in body else HEAD.replace(HEAD.split("\n")[9] + "\n", "")
        head = (
            head if "alpha" in body else head.replace(head[head.index("  - {name: alpha") : head.index("inputs:")], "")
        )
        head = head.replace("attributes:\ninputs:", "inputs:")
        return (
            f"{head}{chr(10).join(tensors)}\ndtypes:\n  - {{{row}, accumulate: f32}}\nsemantics:\n"
            f"  ranges: {{{ranges}}}\n  steps:\n{body}\n"
        )

    def walked(self, line: str) -> str:
        inside = [part.split("]")[0] for part in line.split("[")[1:]]
        return " ".join(inside)

    def indices(self, index: str) -> str:
        return ", ".join(index)

    def read(self, letters: str) -> str:
        """An element at letters that are there, or a number."""
        fitting = [name for name, index in self.arrays.items() if set(index) <= set(letters)]
        if not fitting or self.rng.random() < 0.1:
            return self.one(("0.5", "2", "1.5"))
        name = self.one(fitting)
        indices = list(self.arrays[name])
        if name == "b" and self.rng.random() < 0.25:
            indices = ["C - 1 - c"]
        if name == "a" and "k" in letters and self.rng.random() < 0.6:
            indices[1] = self.one(("c + k - 1", "c + k", "2 * c + k - 1", "c - k"))
        return f"{name}[{', '.join(indices)}]"

    def value(self, letters: str, depth: int = 2) -> str:
        if depth == 0 or self.rng.random() < 0.2:
            return self.read(letters)
        form = self.one([form for form in SMOOTH if "c + 1" not in form or "c" in letters])
        return form.format(u=f"({self.value(letters, depth - 1)})", v=f"({self.read(letters)})")

    def step(self, name: str) -> None:
        """A step that names an array."""
        kind = self.one(("point", "point", "sum", "sum", "max", "min", "product", "words", "guarded", "grown"))
        letters = self.one(("nc", "ncx", "nck", "c", "nk", "ncx"))
        target = letters if kind in ("point", "words") else self.kept(letters)
        cell = f"{name}[{self.indices(target)}]"
        value = self.value(letters)
        if kind == "words":
            self.lines.append(
                f"by: mode\n      cases:\n        plain: {cell} = {value}\n        other: {cell} = {self.value(letters)}"
            )
        elif kind == "guarded":
            guard = "c <= n" if {"c", "n"} <= set(letters) else "k < 2" if "k" in letters else "c < 2"
            self.lines.append(f"do: {cell} += {value}\n      where: [{guard}]")
        elif kind == "grown":
            self.lines += [f"{cell} += {value}", f"{cell} += {self.value(letters, 1)}"]
        else:
            sign = {"point": "=", "sum": "+=", "max": "max=", "min": "min=", "product": "*="}[kind]
            self.lines.append(f"{cell} {sign} {value}")
        self.arrays[name] = target

    def kept(self, letters: str) -> str:
        """Some of the letters, in order; the rest is reduced."""
        return "".join(letter for letter in letters if self.rng.random() < 0.5)

    def finish(self, name: str, source: str) -> str:
        """The step that makes an output of an array, and its letters."""
        index = self.arrays[source]
        other = self.value("ncx", 1)
        letters = "".join(letter for letter in "ncxk" if letter in index + "ncx")
        if "k" in letters or self.rng.random() < 0.3:
            self.lines.append(f"{name}[n, c] += {source}[{self.indices(index)}] * ({other})")
            return "nc"
        if self.rng.random() < 0.3:
            place = self.one(("c + k - 1", "C - 1 - c", "2 * c + k", "c"))
            self.lines.append(f"{name}[n, {place}, x] += {source}[{self.indices(index)}] * ({other})")
            return "ncx"
        self.lines.append(f"{name}[n, c, x] = {source}[{self.indices(index)}] + {other}")
        return "ncx"
