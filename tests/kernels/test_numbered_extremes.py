"""Steps that number the terms that equal an extreme, made in the pass that finds it, give what the interpreter gives."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import opwright_kernels
import pytest
from opwright.emit.steps.kernels import step_unit
from opwright.language.library import Library
from opwright.load import load
from opwright.oracle.run_steps import compute_steps
from support.draws import rng
from support.package import package
from support.rulings import DTYPES
from support.specs import FOLDER

COUNT = 6  # specs
OPERATORS, NONE = ("max=", "min="), {"max=": "-inf", "min=": "inf"}
SPEC = """op: NumberedNUMBER
revision: 1
summary: Extremes of columns, and where they stand.
dims: {rows: {symbol: R}, cells: {symbol: C}}
attributes:
  - {name: order, type: string, required: true, values: [RC, CR]}
layouts: {order: {RC: [R, C], CR: [C, R]}}
inputs:
  - {name: x, layout: order, dims: {R: R, C: C}}
outputs:
  - {name: y, dims: {C: C}}
  - {name: z, layout: order, dims: {R: R, C: C}}
dtypes:
  - {x: f32, y: f32, z: f32, accumulate: f32}
  - {x: bf16, y: f32, z: bf16, accumulate: f32}
semantics:
  ranges: {r: R, c: C}
  steps:
    - peak[c] PEAK TERM
    - place[c] PLACE select(SIDES, number(r), NONE)
    - y[c] = VALUE
    - z[r, c] = select(number(r) == place[c], x[r, c], 0)
"""
VALUES = ("place[c]", "place[c] + peak[c]", "peak[c]")
SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0])
Made = tuple[Library, ModuleType]


def texts() -> dict[str, str]:
    random, found = rng("numbered extremes"), {}
    for number in range(COUNT):
        term = ("x[r, c]", "x[r, c] - 1")[int(random.integers(2))]
        sides = [f"{term}", "peak[c]"]
        random.shuffle(sides)
        place = OPERATORS[int(random.integers(2))]
        text = SPEC.replace("NUMBER", str(number)).replace("TERM", term).replace("SIDES", " == ".join(sides))
        text = text.replace("PEAK", OPERATORS[int(random.integers(2))]).replace("PLACE", place)
        found[f"numbered{number}.yaml"] = text.replace("NONE", NONE[place]).replace("VALUE", VALUES[number % 3])
    return found


def cells(random: np.random.Generator, extents: tuple[int, ...], dtype: str) -> np.ndarray:
    """Few values, so that many are equal, and some that are not finite."""
    found = random.integers(-2, 3, extents).astype(np.float64)
    rare = random.random(extents) < 0.1
    found[rare] = SPECIAL[random.integers(len(SPECIAL), size=int(rare.sum()))]
    return found.astype(DTYPES[dtype])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    folder = tmp_path_factory.mktemp("numbered")
    yield package(texts(), folder, "numbered_package")


def test_places_of_extremes_are_those_of_the_interpreter(made: Made) -> None:
    library, built = made
    random = rng("numbered extremes calls")
    sizes = [(1, 1), (3, 31), (40, 33), (130, 65), (5, 300), (7, 129), (0, 4), (4, 0)]
    for number, (rows, columns), order, dtype in itertools.product(range(COUNT), sizes, ("RC", "CR"), ("f32", "bf16")):
        x = cells(random, (rows, columns) if order == "RC" else (columns, rows), dtype)
        expected = compute_steps(library.op(f"Numbered{number}"), [x], {"order": order})
        for threads in (1, 3):
            found = getattr(built, f"numbered{number}")(x, order=order, threads=threads)
            for name, one in zip(("y", "z"), found, strict=True):
                np.testing.assert_array_equal(one, expected[name], err_msg=f"{number} {name} {x.shape} {order}")


def test_gradients_of_windows_go_to_the_first_of_equal_cells() -> None:
    op, random = load(FOLDER, FOLDER.parents[1]).op("MaxPoolBackward"), rng("gradients of windows")
    for number in range(24):
        rank, layout, dtype = number % 3 + 1, ("NCX", "NXC")[number // 3 % 2], ("f32", "bf16")[number // 6 % 2]
        channels, taps, stride = (int(random.integers(1, most)) for most in (140, 4, 4))
        space = tuple(int(one) for one in random.integers(taps, 9, rank))
        window = {"kernel": [taps] * rank, "strides": [stride] * rank}
        window |= {"pads_begin": [taps // 2] * rank, "pads_end": [taps // 2] * rank, "data_format": layout}
        out = tuple((one + 2 * (taps // 2) - taps) // stride + 1 for one in space)
        x, d = ((2, channels, *one) if layout == "NCX" else (2, *one, channels) for one in (space, out))
        inputs = [cells(random, x, dtype), random.integers(-3, 4, d).astype(DTYPES[dtype])]
        expected = compute_steps(op, inputs, window)["diff_src"]
        found = opwright_kernels.max_pool_backward(*inputs, **window)
        np.testing.assert_array_equal(found, expected, err_msg=f"{x} {window}")


def test_an_extreme_that_only_its_place_reads_is_not_stored(made: Made) -> None:
    for number in range(COUNT):
        for kernel in step_unit(made[0].op(f"Numbered{number}")).kernels:
            bodies = [str(function.body) for phase in kernel.phases for function in phase.functions]
            stored = any("peak_row_" in body for body in bodies)
            assert stored == ("peak" in VALUES[number % 3]), number
