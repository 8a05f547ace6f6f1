"""Random specs of sums of products that read arrays at multiples of letters, at fixed cells, backwards, or with an axis

that several letters share, as heads share channels. In: a generator of random numbers. Out: a spec's text.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Rng = np.random.Generator
ROWS = (
    ("f32", "f32", "f32", "f32"), ("bf16", "bf16", "f32", "f32"), ("bf16", "f32", "bf16", "f32"),
    ("f64", "f64", "f64", "f64"), ("u8", "s8", "f32", "f32"), ("s32", "s32", "s64", "s64"),
)  # fmt: skip
SHARED = (2, 3, 5)  # cells of the inner of two letters that share an axis


@dataclass
class _Drawn:
    """What a spec has come to have: sizes, and the extents of letters."""

    rng: Rng
    sizes: list[str]
    letters: dict[str, str]

    def size(self) -> str:
        self.sizes.append(f"Z{len(self.sizes)}")
        return self.sizes[-1]

    def axes(self, own: str) -> list[tuple[str, str]]:
        """The axes of an array that some letters read: extent and index, in any order."""
        rest, axes = [str(letter) for letter in self.rng.permutation([*own])], list[tuple[str, str]]()
        while rest:
            letter = rest.pop()
            whole = self.letters[letter]
            kind = int(self.rng.integers(8))
            if kind < 2 and rest:  # two letters along an axis, the inner of which may leave gaps
                inner = rest.pop()
                each = int(self.rng.choice(SHARED)) if self.rng.random() < 0.5 else self.letters[inner]
                first = self.rng.choice(["", " + 1", f" + {whole}"])
                extent = self.rng.choice([f"{whole} * {each}", f"2 * {whole} * {each} + 1", ""]) or self.size()
                axes.append((str(extent), f"{letter} * {each} + {inner}{first}"))
            elif kind == 2:
                step, first = int(self.rng.integers(1, 4)), int(self.rng.integers(1, 3))
                axes.append((f"{step} * {whole} + {first}", f"{step} * {letter} + {first}"))
            elif kind == 3:
                axes.append((whole, f"{whole} - 1 - {letter}"))
            elif kind == 4:
                axes.append((self.size(), f"{letter}{self.rng.choice(['', ' + 1'])}"))
            else:
                axes.append((whole, letter))
        if self.rng.random() < 0.3:
            axes.insert(int(self.rng.integers(len(axes) + 1)), (self.size(), str(self.rng.integers(0, 2))))
        return axes


def _read(name: str, axes: list[tuple[str, str]]) -> str:
    return f"{name}[{', '.join(index for _, index in axes)}]"


def _dims(name: str, axes: list[tuple[str, str]]) -> str:
    return f"  - {{name: {name}, dims: {{{', '.join(f'A{n}: {extent}' for n, (extent, _) in enumerate(axes))}}}}}"


def draw(rng: Rng, op: str) -> str:
    """A sum of one product or of the difference of two; its cells may share an axis, be scaled, or be read again."""
    batch, rows, columns, terms = "ab"[: int(rng.integers(3))], "mn"[: int(rng.integers(1, 3))], "pq"[:1], "kl"
    terms = terms[: int(rng.integers(1, 3))]
    letters = {letter: letter.upper() for letter in batch + rows + columns + terms}
    for letter in letters:
        if rng.random() < 0.2:
            letters[letter] = str(rng.choice([2, 3, 8]))
    drawn = _Drawn(rng, [], letters)
    arrays = {"x": drawn.axes(batch + rows + terms), "y": drawn.axes(batch + columns + terms)}
    value = " * ".join(_read(name, axes) for name, axes in arrays.items())
    if rng.random() < 0.3:
        back = [
            (extent, f"{extent} - 1 - {index}") if index in letters and extent == letters[index] else (extent, index)
            for extent, index in arrays["x"]
        ]
        value += f" - {_read('x', back)} * {_read('y', arrays['y'])}"
    elif rng.random() < 0.4:
        value += " * 2"
    out = [(letters[letter], letter) for letter in rng.permutation([*batch, *rows, *columns])]
    if len(out) > 1 and rng.random() < 0.4:
        (one, outer), (other, inner), *rest = out
        out = [(f"{one} * {other}", f"{outer} * {other} + {inner}"), *rest]
    cell = _read("dst", out)
    steps = [f"{cell} += {value}"]
    if all(index in letters for _, index in out) and rng.random() < 0.5:
        sums = cell.replace("dst", "sums")
        steps = [f"{sums} += {value}", f"{cell} = max({sums}, -1)"]
    extents = [extent for axes in arrays.values() for extent, _ in axes]
    beside = {word for extent in extents if " " in extent for word in extent.split()}
    named = [extent for extent in letters.values() if not extent.isdigit()]
    told = [size for size in dict.fromkeys(named) if size in beside or size not in extents]  # no axis tells them
    sizes = [size for size in dict.fromkeys([*named, *drawn.sizes]) if size not in told]
    if not sizes:
        return draw(rng, op)
    types = "\n".join(
        f"  - {{x: {x}, y: {y}, dst: {made}, accumulate: {accumulate}}}" for x, y, made, accumulate in ROWS
    )
    ranges = ", ".join(f"{letter}: {extent}" for letter, extent in letters.items())
    nl = "\n"
    attributes = nl.join(
        f"  - {{name: n_{size.lower()}, symbol: {size}, type: s64, required: true, min: 0, max: 9}}" for size in told
    )
    return f"""op: {op}
revision: 1
summary: Sums of products of elements that lie apart.
dims:
{nl.join(f"  of_{size.lower()}: {{symbol: {size}}}" for size in sizes)}
{f"attributes:{nl}{attributes}{nl}" if told else ""}inputs:
{nl.join(_dims(name, axes) for name, axes in arrays.items())}
outputs:
{_dims("dst", out)}
dtypes:
{types}
semantics:
  ranges: {{{ranges}}}
  steps:
{nl.join(f"    - {step}" for step in steps)}
"""
