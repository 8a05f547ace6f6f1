"""Convolutions and products with axes that letters count through as digits do, `c * M + m`: random ones, every instruction set."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from opwright.derive.phases import staged
from opwright.language.expr import Name
from opwright.language.model import Op
from opwright.load import load_texts
from support.draws import FULL, rng
from support.package import package
from support.step_verdicts import agree

COUNT = 12 if FULL else 5
SPEC = """\
op: {name}
revision: 1
summary: A convolution of groups.
dims:
  images: {{symbol: N}}
  rows: {{symbol: H, min: 1}}
  groups: {{symbol: G}}
  inputs: {{symbol: A}}
  results: {{symbol: M}}
  taps: {{symbol: K, min: 1}}
  places: {{symbol: O}}
inputs:
  - {{name: w, dims: {{{w}}}}}
  - {{name: x, dims: {{{x}}}}}
outputs:
  - {{name: y, dims: {{{y}}}}}
dtypes:
  - {{x: f32, w: f32, y: f32, accumulate: f32}}
  - {{x: bf16, w: bf16, y: bf16, accumulate: f32}}
shape: {{O: H - K + 1}}
constraints:
  - {{id: fits, expr: K <= H, say: windows fit, argument: x}}
semantics:
  ranges: {{n: N, g: G, o: O, a: A, m: M, k: K, z: G * M}}
  steps:
    - y[{of_sums}] += x[{of_x}] * w[{of_w}]
    - y[{of_y}] = {value}
"""


def ordered(random: np.random.Generator, axes: dict[str, str]) -> tuple[str, str]:
    """The dims of an array whose axes have any order, and its indices."""
    extents = {"Y": "G * A", "Z": "G * M"}
    names = [str(name) for name in random.permutation([*axes])]
    return ", ".join(f"{name}: {extents.get(name, name)}" for name in names), ", ".join(axes[name] for name in names)


def drawn(random: np.random.Generator, name: str) -> str:
    """A spec with groups that are parts of the axis of channels on one side or on both; channels or groups come first."""
    first = bool(random.random() < 0.3)
    channels = {"Y": "a * G + g" if first else "g * A + a"} if random.random() < 0.6 else {"G": "g", "A": "a"}
    x, of_x = ordered(random, {"N": "n", "H": "o + k", **channels})
    w, of_w = ordered(random, {"K": "k", "G": "g", "M": "m", "A": "a"})
    y, of_y = ordered(random, {"N": "n", "O": "o", "Z": "z"})
    of_sums = of_y.replace("z", "m * G + g" if random.random() < 0.3 else "g * M + m")
    value = str(random.choice([f"y[{of_y}]", f"max(y[{of_y}] * 2 - 1, 0)", f"y[{of_y}] + z"]))
    return SPEC.format(name=name, w=w, x=x, y=y, of_sums=of_sums, of_x=of_x, of_w=of_w, of_y=of_y, value=value)


@pytest.mark.parametrize("seed", range(4 if FULL else 1))
def test_axes_that_letters_count_through_give_what_the_interpreter_gives(seed: int, tmp_path: Path) -> None:
    random = rng("counted", seed)
    texts = {f"counted{n}.yaml": drawn(random, f"Counted{n}") for n in range(COUNT)}
    library, module = package(texts, tmp_path, f"counted_{seed}")
    agree(module, library.ops, 8, seed)
    found = [explained(module, op) for op in library.ops]
    assert sum(map(bool, found)) > COUNT / 2, found


def explained(module: ModuleType, op: Op) -> list[str]:
    """The contractions that an engine computes in a call with 3 groups of 4 channels with 5 results each."""
    sizes = {"N": 2, "H": 9, "G": 3, "A": 4, "M": 5, "K": 2, "Y": 12}
    arrays = [np.zeros([sizes[axis] for axis in tensor.dims], np.float32) for tensor in op.inputs]
    return [line for line in str(module.explain(op.function, *arrays)).splitlines() if ": a contraction" in line]


REPEATED = """\
op: Repeated
revision: 1
summary: Each group of rows several times.
dims: {batch: {symbol: B}, groups: {symbol: G}, cells: {symbol: D}}
attributes: [{name: times, symbol: R, type: s64, default: "4", min: 1}]
inputs: [{name: x, dims: {B: B, G: G, D: D}}]
outputs: [{name: y, dims: {B: B, H: G * R, D: D}}]
dtypes: [{x: f32, y: f32, accumulate: f32}]
semantics:
  ranges: {b: B, g: G, r: R, d: D}
  steps:
    - y[b, g * R + r, d] = x[b, g, d]
"""


def test_lanes_of_a_copy_go_along_what_lies_together_though_other_letters_could_be_joined(tmp_path: Path) -> None:
    """16 heads of 512 x 64 made of 4 take 0.03 of the time that they take with lanes along heads (Zen 5, gcc 12.2)."""
    _, module = package({"repeated.yaml": REPEATED}, tmp_path, "repeated_axes")
    x = np.arange(2 * 4 * 64, dtype=np.float32).reshape(2, 4, 64)
    assert "lanes along d" in str(module.explain("repeated", x))
    assert (module.repeated(x, times=3) == x.repeat(3, 1)).all()


PARTED = """\
op: {name}
revision: 1
summary: Axes that letters count through as digits do.
dims: {{{dims}}}
inputs: [{{name: x, dims: {{{x}}}}}]
outputs: [{{name: y, dims: {{{y}}}}}]
dtypes: [{{x: f32, y: f32, accumulate: f32}}, {{x: bf16, y: bf16, accumulate: f32}}]
semantics:
  ranges: {{{ranges}}}
  steps:
    - y[{of_y}] = x[{of_x}]
"""


def digits(letters: list[str], form: str) -> str:
    """The index of a cell of an axis with the extents of some letters, the last one fastest."""
    index = letters[0]
    if form == "number":
        return f"number({', '.join(letters)})" if len(letters) > 1 else index
    for letter in letters[1:]:
        index = f"({index}) * {letter.upper()} + {letter}" if " " in index else f"{index} * {letter.upper()} + {letter}"
    weights = (" * ".join([x, *map(str.upper, letters[n + 1 :])]) for n, x in enumerate(letters))
    return index if form == "nested" else " + ".join(weights)


def parted(random: np.random.Generator, name: str) -> str:
    """A copy of 4 letters, which both arrays have on one to four axes."""

    def axes(word: str) -> tuple[str, str]:
        order = [str(letter) for letter in random.permutation([*"abcd"])]
        ends = sorted({4, *map(int, random.integers(1, 4, 2))})
        groups = [order[begin:end] for begin, end in zip([0, *ends], ends)]
        dims = ", ".join(f"{word}{n}: {' * '.join(map(str.upper, group))}" for n, group in enumerate(groups))
        return dims, ", ".join(digits(group, str(random.choice(["nested", "summed", "number"]))) for group in groups)

    (y, of_y), x = axes("Y"), [str(letter) for letter in random.permutation([*"abcd"])]
    return PARTED.format(
        name=name,
        dims=", ".join(f"size_{x}: {x.upper()}" for x in "abcd"),
        ranges=", ".join(f"{x}: {x.upper()}" for x in "abcd"),
        x=", ".join(f"X{letter}: {letter.upper()}" for letter in x),
        y=y, of_x=", ".join(x), of_y=of_y,
    )  # fmt: skip


def test_axes_of_any_number_of_digits_are_written_once(tmp_path: Path) -> None:
    """Windows of 7 x 7 of 2 x 56 x 56 x 96 took twice as long when their axis of images was cleared first (Zen 5)."""
    random = rng("digits")
    texts = {f"parted{n}.yaml": parted(random, f"Parted{n}") for n in range(COUNT)}
    library, module = package(texts, tmp_path, "parted_axes")
    assert all(len(staged(op).program.parts) == 1 for op in library.ops)
    agree(module, library.ops, 8, "digits")


APART = """\
op: {name}
revision: 1
summary: An axis whose index elements are read at by quotient and remainder.
dims: {{outer: {{symbol: A, min: 1}}, inner: {{symbol: B, min: 1}}, cells: C, whole: {{symbol: L, min: 1}}}}
inputs: [{{name: x, dims: {{{x}}}}}, {{name: z, dims: {{L: L, C: C}}}}]
outputs: [{{name: y, dims: {{{y}}}}}]
dtypes: [{{x: f32, z: f32, y: f32, accumulate: f32}}, {{x: f16, z: f16, y: f16, accumulate: f32}}]
{constraints}
semantics:
  ranges: {{l: L, c: C, d: C}}
  steps:
    {first}
    - y[{of_y}] = {last}
"""
CONSTRAINT = "constraints: [{{id: fits, expr: {expr}, say: it fits, argument: x}}]"


def apart(random: np.random.Generator, name: str) -> tuple[str, bool]:
    """A spec whose letter has the extent A * B or a multiple of B, or any extent; and whether a constraint says so."""

    def one(items: list[str]) -> str:
        return str(random.choice(items))

    fits = one(["L == A * B", "L % B == 0 and L / B == A", "L >= A"])
    inside = {"A": "floor(l / B)", "B": "l % B", "C": "c"}
    order = [str(axis) for axis in random.permutation([*inside])]
    first, last = "", f"x[{', '.join(inside[axis] for axis in order)}] * 2 - l"
    form = one(["read", "summed", "kept"])
    if form != "read":  # sums that a product needs, or that are read again
        value = "+= x[{}] * z[l, d]" if form == "summed" else "= x[{}] + z[l, c]"
        read = ", ".join(inside[axis].replace("c", "d") if form == "summed" else inside[axis] for axis in order)
        first = f"- t[l, {one(['c', 'c']) if form == 'kept' else 'c'}] {value.format(read)}"
        first = first if form == "kept" else f"{first} * z[l, c]"
        last = "t[l, c] - z[l, c]"
    y = [str(axis) for axis in random.permutation(["L", "C"])]
    text = APART.format(
        name=name,
        x=", ".join(f"{axis}: {axis}" for axis in order),
        y=", ".join(f"{axis}: {axis}" for axis in y),
        of_y=", ".join(axis.lower() for axis in y),
        constraints=CONSTRAINT.replace("{{", "{").replace("}}", "}").replace("{expr}", fits),
        first=first, last=last,
    )  # fmt: skip
    return (text if form == "summed" else text.replace(", d: C", "")), fits != "L >= A"


def test_letters_that_indices_take_apart_give_what_the_interpreter_gives(tmp_path: Path) -> None:
    """32 x 57 x 59 f32 as rows of 3363 took 25 times as long by quotients and remainders (Zen 5, gcc 12.2)."""
    random = rng("apart")
    drawn = {f"Apart{n}": apart(random, f"Apart{n}") for n in range(COUNT)}
    texts = {f"{name.lower()}.yaml": text for name, (text, _) in drawn.items()}
    library, module = package(texts, tmp_path, "letters_apart")
    assert all(("l_high_" in staged(op).program.letters) == drawn[op.op][1] for op in library.ops)
    seen = agree(module, library.ops, 12, "apart")
    assert all(seen[f"{op.op} legal"] for op in library.ops)


BLOCKS = """\
op: {name}
revision: 1
summary: Blocks of rows, and rows that are rolled.
dims: {{rows: {{symbol: N}}, blocks: {{symbol: B}}, cells: {{symbol: L, min: 1}}}}
attributes: [{{name: width, symbol: W, type: s64, default: "{width}", min: 1}}, {{name: shift, symbol: S, type: s64, default: "2"}}]
inputs: [{{name: x, dims: {{N: N, C: B * {by}}}}}, {{name: v, dims: {{N: N, L: L}}}}]
outputs: [{{name: y, dims: {{N: N, C: B * {by}}}}}, {{name: of_blocks, dims: {{{of_blocks}}}}}, {{name: z, dims: {{N: N, L: L}}}}]
dtypes: [{{x: {dtype}, v: {dtype}, y: {dtype}, of_blocks: f32, z: {dtype}, accumulate: f32}}]
semantics:
  ranges: {{n: N, b: B, i: {by}, l: L}}
  steps:
    - {reduced}
    - y[n, b * {by} + i] = (x[n, b * {by} + i] - {cell}) * 0.5
    - z[n, {rolled} % L] = {value}
"""


def blocked(random: np.random.Generator, name: str) -> str:
    """A spec of blocks that are reduced and then scaled, the widths numbers or an attribute; and one of rolled rows."""
    one = lambda *items: str(items[int(random.integers(len(items)))])  # noqa: E731
    by = one("3", "16", "24", "40", "W")
    of_blocks = one("n, b", "b, n")
    cell, value = f"of_blocks[{of_blocks}]", one("v[n, l]", "v[n, l] + l", "max(v[n, l], v[n, (l + 1) % L])")
    reduced = one("{} max= abs({})", "{} += {} / 8", "{} min= {}").format(cell, f"x[n, b * {by} + i]")
    rolled, dtype = one("(l + S)", "(S - l)", "(l + 3)", "(l + n)", "(2 * l)"), one("f32", "bf16", "f16")
    dims = ", ".join(f"{letter.upper()}: {letter.upper()}" for letter in of_blocks.split(", "))
    return BLOCKS.format(
        name=name, width=random.integers(1, 20), by=by, of_blocks=dims, dtype=dtype, reduced=reduced, cell=cell,
        rolled=rolled, value=value,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(4 if FULL else 1))
def test_blocks_of_rows_and_rolled_rows_are_what_the_interpreter_gives(seed: int, tmp_path: Path) -> None:
    random = rng("blocked", seed)
    texts = {f"blocked{n}.yaml": blocked(random, f"Blocked{n}") for n in range(COUNT)}
    library, module = package(texts, tmp_path, f"blocked_{seed}")
    agree(module, library.ops, 12, seed)


def test_lanes_go_along_the_cells_of_blocks_and_rolled_rows_are_written_in_order() -> None:
    random = rng("blocked")
    texts = {f"blocked{n}.yaml": blocked(random, f"Blocked{n}") for n in range(20)}
    for text in texts.values():
        (op,) = load_texts({"blocked.yaml": text}).ops
        lanes = {letter for phase in staged(op).phases for letter in phase.lanes}
        assert "i" in lanes, text
        targets = {part.target for phase in staged(op).phases for part in phase.parts if part.target.tensor == "z"}
        indices = {index for target in targets for index in target.indices}
        assert "(2 * l) %" in text or indices == {Name("n"), Name("l")}, text
