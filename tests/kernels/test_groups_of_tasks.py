"""Groups of tasks follow one another along whichever letter has several values; all layouts and extents give the same."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from opwright.language.library import Library
from opwright.oracle.run_steps import compute_steps
from support.draws import FULL, rng
from support.package import package
from support.rulings import DTYPES as RULED

pytestmark = pytest.mark.usefixtures("isa")

SPEC = """op: {name}
revision: 1
summary: Sums of rows, what follows from them, and running sums.
dims: {dims}
attributes: {attributes}
inputs:
  - {{name: x, dims: {axes}}}
  - {{name: d, dims: {axes}}}
outputs:
  - {{name: y, dims: {axes}}}
  - {{name: z, dims: {axes}}}
  - {{name: top, dims: {tops}}}
dtypes:
  - {{x: f32, d: f32, y: f32, z: f32, top: f32, accumulate: f32}}
  - {{x: bf16, d: f32, y: bf16, z: f32, top: bf16, accumulate: f32}}
  - {{x: f64, d: f64, y: f64, z: f64, top: f64, accumulate: f64}}
semantics:
  ranges: {ranges}
  steps:
    - all[{task}] += x[{cell}] * d[{cell}]
    - top[{task}] max= x[{cell}]
    - y[{cell}] = x[{cell}] * (d[{cell}] - top[{task}]) + all[{task}]
    - z[{cell}] += x[{other}]
"""
RUNS = {
    "dims": "{before: {symbol: B, run: true}, cells: C, after: {symbol: A, run: true}}",
    "attributes": "[{name: axis, type: s64, required: true, locates: cells, summary: The axis.}]",
    "axes": "{B: B, C: C, A: A}",
    "tops": "{B: B, A: A}",
    "ranges": "{b: B, c: C, e: C, a: A}",
    "task": "b, a",
    "cell": "b, c, a",
    "other": "b, e, a",
}
LETTERS = {
    "dims": "{samples: N, heads: H, rows: R, cells: C}",
    "attributes": "[]",
    "axes": "{N: N, H: H, R: R, C: C}",
    "tops": "{N: N, H: H, R: R}",
    "ranges": "{n: N, h: H, r: R, c: C, e: C}",
    "task": "n, h, r",
    "cell": "n, h, r, c",
    "other": "n, h, r, e",
}
DTYPES = {**RULED, "f64": np.float64}
KINDS = (("f32", "f32"), ("bf16", "f32"), ("f64", "f64"))
CALLS = 60 if FULL else 20
Made = tuple[Library, ModuleType]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    texts = {}
    for name, parts in (("RunsOfTasks", RUNS), ("LettersOfTasks", LETTERS)):
        text = SPEC.format(name=name, **parts)
        summed = f"    - z[{parts['cell']}] += x[{parts['other']}]"
        scan = f"    - {{do: 'z[{parts['cell']}] += x[{parts['other']}]', where: [e <= c]}}"
        texts[f"{name}.yaml"] = text.replace(summed, scan)
    return package(texts, tmp_path_factory.mktemp("groups"), "groups_of_tasks")


def shapes(random: np.random.Generator) -> Iterator[tuple[tuple[int, ...], int]]:
    """Extents, many of them 1, and the axis of the cells; first rows of one cell, of which blocks have many."""
    yield (90, 17, 3, 1), 3
    for number in range(CALLS):
        rank = 4 if number % 2 else int(random.integers(1, 6))
        extents = [int(random.choice([1, 1, 2, 3, 5, 17])) for _ in range(rank)]
        axis = rank - 1 if rank == 4 or random.random() < 0.6 else int(random.integers(rank))
        extents[axis] = int(random.choice([1, 7, 16, 33, 63, 64, 130]))
        extents[int(random.integers(rank))] *= 1 if math.prod(extents) > 3000 else int(random.choice([1, 18]))
        yield tuple(extents), axis


def laid(random: np.random.Generator, extents: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Small integers whose axes lie in any order, some with gaps."""
    order = random.permutation(len(extents)) if random.random() < 0.5 else np.arange(len(extents))
    wide = [extents[axis] + int(random.random() < 0.2) for axis in order]
    room = random.integers(-2, 3, wide).astype(dtype)
    return room[tuple(slice(extents[axis]) for axis in order)].transpose(np.argsort(order))


@pytest.mark.parametrize("kinds", KINDS, ids=" ".join)
def test_tasks_of_every_layout_give_what_the_interpreter_gives(made: Made, kinds: tuple[str, str]) -> None:
    """Small integers, of which all sums are exact, for every number of threads."""
    library, module = made
    ops, random = {op.op: op for op in library.ops}, rng("groups of tasks", *kinds)
    for extents, axis in shapes(random):
        given = [laid(random, extents, DTYPES[kind]) for kind in kinds]
        calls = [("RunsOfTasks", "runs_of_tasks", {"axis": axis})]
        calls += [("LettersOfTasks", "letters_of_tasks", {})] if (len(extents), axis) == (4, 3) else []
        for name, function, attributes in calls:
            wanted = compute_steps(ops[name], given, attributes)
            for threads in (1, 3):
                results = getattr(module, function)(*given, **attributes, threads=threads)
                for output, found in zip(wanted, results, strict=True):
                    np.testing.assert_array_equal(
                        found.astype(np.float64),
                        wanted[output].astype(np.float64),
                        err_msg=f"{output} {extents} {axis}",
                    )


def test_tasks_do_not_look_for_their_places_one_by_one(made: Made) -> None:
    texts = [path.read_text() for path in (Path(made[1].__file__).parent / "c").glob("*_of_tasks_*.c")]
    assert len(texts) == 6
    for text in texts:
        assert "tasks_" in text
        assert "at__of_" not in text
