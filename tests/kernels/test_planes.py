"""Cells that change places within planes of few cells, rows that run backwards, and axes that lie as one in memory."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from opwright.oracle.run_steps import compute_steps
from support.draws import FULL, rng
from support.guarded import guarded
from support.package import package
from support.random_planes import spec_of_planes
from support.spec_packages import instruction_set, serving
from support.step_verdicts import first_disagreement

COUNT, CALLS = (40, 12) if FULL else (8, 6)
DTYPES = {"f32": np.float32, "f64": np.float64, "u8": np.uint8, "s32": np.int32, "f16": np.float16}
EXTENTS = (1, 2, 3, 4, 5, 6, 7, 13, 17, 31, 33, 40)


def array(random: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Numbers that lie in any order of axes, some backwards, some apart, beside pages that nobody may touch."""
    order = random.permutation(len(shape))
    made = random.integers(1, 100, [shape[axis] for axis in order]).astype(DTYPES.get(kind, ml_dtypes.bfloat16))
    view = guarded(made, bool(random.integers(2))).transpose(np.argsort(order))
    if random.integers(3) == 0:
        axis = int(random.integers(len(shape)))
        view = np.flip(np.repeat(view, 2, axis)[(*[slice(None)] * axis, slice(None, None, 2))], axis)
    return view


@pytest.mark.sweep
def test_cells_change_places_as_the_interpreter_says_and_nothing_else_is_written(tmp_path: Path) -> None:
    random, seen = rng("planes"), Counter[str]()
    texts = {f"planes{n}.yaml": spec_of_planes(random, f"Planes{n}") for n in range(COUNT)}
    library, module = package(texts, tmp_path, "planes")
    for op in library.ops:
        (row,), text = op.dtypes, texts[op.op.lower() + ".yaml"]
        for isa in serving(module, op):
            with instruction_set(module, isa):
                problem = first_disagreement(module, op, rng(op.op, isa), CALLS, seen)
                assert problem is None, f"{isa}: {problem}\n{text}"
                for _ in range(CALLS):
                    *others, last = (int(extent) for extent in random.choice(EXTENTS, 4))
                    shape = (*others, last + last % 2 if "D / 2" in text else last)
                    x = array(random, shape, row["x"])
                    wanted = compute_steps(op, [x], {})["y"]
                    room = np.zeros([extent + 2 for extent in wanted.shape], x.dtype)
                    out = room[tuple(slice(1, extent + 1) for extent in wanted.shape)]
                    out = out[::-1] if random.integers(3) == 0 else out
                    for made in (out, None):
                        threads = int(random.integers(1, 4))
                        found = getattr(module, op.function)(x, out=made, threads=threads)
                        assert (found == wanted).all(), (isa, op.op, shape, x.strides, threads)
                    assert np.count_nonzero(room.astype(np.float64)) == np.count_nonzero(wanted.astype(np.float64))


PADDED = """op: Padded
revision: 1
summary: Cells in another order, the first of them beside the array.
dims: {a_cells: A, b_cells: B, c_cells: C, d_cells: D}
inputs: [{name: x, dims: {A: A, B: B, C: C, D: D}}]
outputs: [{name: y, dims: {J: D * B, A: A, C: C}}]
dtypes: [{x: f64, y: f64, accumulate: f64}]
semantics:
  ranges: {a: A, b: B, c: C, d: D}
  steps: ["y[d * B + b, a, c] = select(a % 2 == 0 and d < 3, x[a, b - 1, c, d], 1)"]
"""


def test_rows_that_tasks_share_are_read_only_where_they_are(tmp_path: Path) -> None:
    library, module = package({"padded.yaml": PADDED}, tmp_path, "padded")
    x = guarded(rng("padded").integers(1, 100, (17, 8, 5, 2)).astype(np.float64), high=False)
    assert (module.padded(x) == compute_steps(library.ops[0], [x], {})["y"]).all()


SHARED = """op: Shared
revision: 1
summary: Sums, and what few cells of another input make of them.
dims: {a_cells: A, b_cells: B, c_cells: C, taps: K}
inputs: [{name: x, dims: {A: A, B: B, C: C}}, {name: b, dims: {B: B}}, {name: w, dims: {K: K}}]
outputs: [{name: y, dims: {A: A, B: B, C: C}}, {name: z, dims: {A: A, B: B, C: C}}]
dtypes: [{x: f32, b: f32, w: f32, y: f32, z: f32, accumulate: f32}]
semantics:
  ranges: {a: A, r: B, c: C, k: K}
  steps:
    - y[a, r, c] += x[a, r + k - 1, c] * w[k]
    - z[a, r, c] = select(b[r] > 0, y[a, r, c], b[r])
"""


def test_sums_that_several_outputs_have_are_written_in_any_order_of_axes(tmp_path: Path) -> None:
    library, module = package({"shared.yaml": SHARED}, tmp_path, "sums_in_planes")
    inputs = [
        np.arange(cells, dtype=np.float32).reshape(shape) - 2 for cells, shape in ((60, (3, 4, 5)), (4, 4), (3, 3))
    ]
    wanted = compute_steps(library.ops[0], inputs, {})
    out = tuple(np.zeros((5, 3, 4), np.float32).transpose(1, 2, 0) for _ in wanted)
    assert all(
        (one == other).all() for one, other in zip(module.shared(*inputs, out=out), wanted.values(), strict=True)
    )


FAR = """op: Far
revision: 1
summary: Axes in reverse.
dims: {a_cells: A, b_cells: B, c_cells: C}
inputs: [{name: x, dims: {A: A, B: B, C: C}}]
outputs: [{name: y, dims: {C: C, B: B, A: A}}]
dtypes: [{x: u8, y: u8, accumulate: f32}, {x: f32, y: f32, accumulate: f32}]
semantics: {ranges: {a: A, b: B, c: C}, steps: ["y[c, b, a] = x[a, b, c]"]}
"""


def test_planes_of_cells_that_lie_billions_apart_take_no_longer_and_are_right(tmp_path: Path) -> None:
    _, module = package({"far.yaml": FAR}, tmp_path, "far_planes")
    memory = np.zeros(2**31 + 2**20, np.uint8)  # of which few pages are touched
    for dtype in (np.uint8, np.float32):
        cells = memory.view(dtype)
        pitch = (cells.size - 1024) // 5
        x = np.lib.stride_tricks.as_strided(
            cells, (6, 7, 30), (pitch * cells.itemsize, 30 * cells.itemsize, cells.itemsize)
        )
        x[:] = rng("far").integers(1, 100, x.shape)
        module.far(x)
        began = time.perf_counter()
        assert (module.far(x) == x.transpose()).all()
        assert time.perf_counter() - began < 0.5  # of f32, 1.5 s if it grew with how far apart cells lie
