"""Intermediates of which only named cells count: steps that read them look up, add where it belongs, or compute cells."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from opwright.derive.phases import staged
from opwright.derive.picking import gathers
from opwright.language.model import Op
from opwright.load import load_texts
from opwright.oracle.run_steps import compute_steps
from support.draws import FULL, rng
from support.package import package
from support.spec_packages import instruction_set, serving_one_of_many

SPECS = 60 if FULL else 10
LETTERS = {"n": "N", "j": "N", "k": "K", "l": "K", "c": "C", "m": "M"}
CELLS = {"at": "n", "to": "n", "v": "n", "x": "kc", "u": "nc", "s": "nk", "w": "mc", "p": "k"}
ONES = (
    "select(at[n] == k, 1, 0)",
    "select(k == at[n], v[n], 0)",
    "select(at[n] == k and to[n] != 1, 2, 0)",
    "-select(at[n] - 1 == k, 1, 0) * v[n]",
    "select(to[n] != 1, 1, 0) * select(at[n] == k, v[n], 0) / 4",
)
MORE = ("two[n, k] = hot[n, k] * v[n]", "two[n, k] = -hot[n, k]", "two[n, k] = hot[n, k] / 2")
SUMS = (
    "y[n, c] += {0} * x[k, c]",
    "y[n, c] += -x[k, c] * {0} / 2",
    "y[n] += select(v[n] > 0, {0} * s[n, k], 0)",
    "y[k, c] += u[n, c] * {0}",
    "y[k] += {0}",
    "y[n, m] += {0} * x[k, c] * w[m, c]",
    "y[k, l] += {0} * {1}",
    "y[n, j] += {0} * {2}",
    "y[n] += {0} * -row[n, k]",
    "y[n] += {0} * exp(row[n, k]) * row[n, k]",
)
OTHERS = ("z[n, k] = {0} + p[k]", "z[n] max= {0} * p[k]", "z[n, k] = {0} * s[n, k]")
ROW = ("top[n] max= s[n, k]", "row[n, k] = (s[n, k] - top[n]) * p[k]")
ANY = (-(2**63), -1, 2**24 + 1, 2**31, 2**63 - 1)


def text(name: str, steps: list[str], kind: str, optional: bool = False) -> str:
    """A spec of steps; what they read of `CELLS` are inputs, what they write as y and z outputs."""
    letters = [*dict.fromkeys(letter for step in steps for letter in re.findall(r"\b[njklcm]\b", step))]
    read = [one for one in CELLS if any(re.search(rf"\b{one}\[", step) for step in steps)]
    put = [re.match(r"([yz])\[(.*?)\]", step) for step in steps]
    outputs = {found[1]: found[2].replace(", ", "") for found in put if found}
    sizes = dict.fromkeys(LETTERS[letter] for letter in letters)
    given = {letter for one in read for letter in CELLS[one]}
    more = [size for size in sizes if size not in {LETTERS[letter] for letter in given}]
    assert not more, more

    def tensor(one: str, axes: str) -> str:
        dims = ", ".join(f"{letter.upper()}{letter}: {LETTERS[letter]}" for letter in axes)
        rest = ", optional: true" if one == "v" and optional else ""
        return f"{{name: {one}, dims: {{{dims}}}{rest}}}"

    types = {one: "s64" if one in ("at", "to") else kind for one in [*read, *outputs]}
    order = sorted(read, key=lambda one: one == "v")
    lines = "".join(f'    - "{step}"\n' for step in steps)
    return f"""op: {name}
revision: 1
summary: Intermediates at named cells.
dims: {{{", ".join(f"{size.lower()}_cells: {size}" for size in sizes)}}}
inputs: [{", ".join(tensor(one, CELLS[one]) for one in order)}]
outputs: [{", ".join(tensor(one, axes) for one, axes in outputs.items())}]
dtypes: [{{{", ".join(f"{one}: {own}" for one, own in types.items())}, accumulate: f32}}]
semantics:
  ranges: {{{", ".join(f"{letter}: {LETTERS[letter]}" for letter in letters)}}}
  steps:
{lines}"""


def drawn(random: np.random.Generator) -> list[str]:
    """Steps: an intermediate that is 0 but where an index names its cell, perhaps another of it, and their readers."""

    def one(items: tuple[str, ...]) -> str:
        return str(random.choice(items))

    turned = random.random() < 0.3
    steps = [f"hot[n, k] = {one(ONES)}", *([one(MORE)] if random.random() < 0.4 else [])]
    name = steps[-1].split("[")[0]
    factors = [f"{name}[n, k]", f"{name}[n, l]", f"{name}[j, k]"]
    readers = [one(SUMS).format(*factors)]
    if random.random() < 0.3:
        readers.append(one(OTHERS).format(*factors))
    if "row[" in readers[0]:
        steps = [*ROW, *steps]
    if turned:
        steps, readers = (
            [re.sub(r"\b(hot|two)\[(\w), (\w)\]", r"\1[\3, \2]", step) for step in some] for some in (steps, readers)
        )
    return [*steps, *readers]


def sized(steps: list[str]) -> list[str]:
    """The steps, where an input must give each size: k has one of p where nothing else has."""
    reads = [one for one in CELLS if any(re.search(rf"\b{one}\[", step) for step in steps)]
    known = {LETTERS[letter] for one in reads for letter in CELLS[one]}
    return steps if "K" in known else [*steps, "z[k] = p[k]"]


def cells(random: np.random.Generator, name: str, shape: list[int], kind: str) -> np.ndarray:
    """Indices inside and outside of axes, many of them alike; numbers, some of which are infinite, NaN or -0."""
    if name in ("at", "to"):
        return np.where(random.random(shape) < 0.7, random.integers(0, 7, shape), random.choice(ANY, shape))
    numbers = np.where(
        random.random(shape) < 0.1, random.choice((np.inf, np.nan, -0.0), shape), random.integers(-3, 4, shape)
    )
    return numbers.astype(np.float32 if kind == "f32" else ml_dtypes.bfloat16)


@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_intermediates_at_named_cells_are_those_of_the_interpreter(tmp_path: Path, kind: str) -> None:
    random = rng(f"named intermediates {kind}")
    programs = [drawn(random) for _ in range(SPECS)]
    programs = [sized(steps) if not any(step.startswith("z") for step in steps) else steps for steps in programs]
    texts = {
        f"at{number}.yaml": text(f"At{number}", steps, kind, number % 2 == 0) for number, steps in enumerate(programs)
    }
    library, module = package(texts, tmp_path, f"named_intermediates_{kind}")
    for op in library.ops:
        for isa in serving_one_of_many(module, op):
            with instruction_set(module, isa):
                for extents in ((3, 8), (17, 40), (0, 2)):
                    sizes = {one: int(random.integers(*extents)) for one in "CKMN"}
                    given = [
                        cells(random, one.name, [sizes[LETTERS[axis[-1]]] for axis in one.dims], kind)
                        for one in op.data_inputs
                    ]
                    if op.data_inputs[-1].optional and random.random() < 0.4:
                        given.pop()
                    agrees(module, op, given, texts[f"{op.op.lower()}.yaml"], isa)


def agrees(module: object, op: Op, given: list[np.ndarray], spec: str, isa: str) -> None:
    expected = compute_steps(op, given, {})
    found = getattr(module, op.function)(*given, threads=2)
    for output, cells_of in zip(op.outputs, found if isinstance(found, tuple) else (found,), strict=True):
        want = expected[output.name].astype(np.float64)
        np.testing.assert_allclose(cells_of.astype(np.float64), want, rtol=1e-2, err_msg=f"{spec}{isa}")


@pytest.mark.parametrize("form", ONES)
@pytest.mark.parametrize("reader", SUMS[:5])
def test_a_step_that_reads_a_mark_goes_to_the_cells_that_it_names(form: str, reader: str) -> None:
    steps = sized([f"hot[n, k] = {form}", MORE[1], reader.format("two[n, k]")])
    (op,) = load_texts({"marks.yaml": text("Marks", steps, "f32")}).ops
    program = staged(op).program
    assert not program.arrays.keys() & {"hot", "two"}
    named = [part for part in program.parts if any(gathers(read) for read in (part.target, *part.reads))]
    assert named
    assert all("k" not in part.letters for part in named), "all terms are tried"


@pytest.mark.parametrize("reader", SUMS[-2:])
def test_a_row_of_which_one_cell_is_read_is_not_stored(reader: str) -> None:
    steps = [*ROW, "hot[n, k] = select(at[n] == k, 1, 0)", reader.format("hot[n, k]")]
    (op,) = load_texts({"rows.yaml": text("Rows", steps, "f32")}).ops
    assert [array.name for array in staged(op).program.between()] == ["top"]


@pytest.mark.parametrize(
    ("steps", "finite"),
    [
        (["hot[n, k] = select(at[n] == k, 1, 0)", "y[n, c] += hot[n, k] * x[k, c]"], True),
        (["hot[n, k] = select(at[n] == k, 1, 0) + 1", "y[n, c] += hot[n, k] * x[k, c]"], False),  # nowhere 0
        (["hot[n, k] = select(at[n] == k, 1, 0)", "y[n, k] = hot[n, k] * s[n, k]"], False),  # no sum
    ],
)
def test_infinite_cells_count_beside_named_ones_unless_a_sum_has_a_mark_as_a_factor(
    steps: list[str], finite: bool
) -> None:
    (op,) = load_texts({"beside.yaml": text("Beside", steps, "f32")}).ops
    given = [np.array([1, 5]), np.array([[np.inf, 1], [2, 3]], np.float32)]
    assert np.isfinite(compute_steps(op, given, {})["y"]).all() == finite
