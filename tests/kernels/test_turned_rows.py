"""Rows that lie across lanes are turned in squares, whatever their direction, their offset, and the size of their cells."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
from support.draws import FULL, rng
from support.guarded import guarded
from support.package import package
from support.spec_packages import instruction_set, serving

KINDS = {"f32": np.float32, "bf16": np.dtype(ml_dtypes.bfloat16), "u8": np.uint8, "s64": np.int64}
SPEC = """op: {name}
revision: 1
summary: A matrix whose axes change places.
dims: {{rows: {{symbol: A, min: 6}}, columns: {{symbol: B, min: 5}}}}
inputs: [{{name: x, dims: {{X: A, Y: B}}}}]
outputs: [{{name: y, dims: {{{dims}}}}}]
dtypes: [{rows}]
semantics: {{ranges: {{a: A - 3, b: B - 2}}, steps: ["y[b, a] = x[{index}]"]}}
"""
FILLED = "X: B - 2, Y: A - 3"
PLACES = {
    "Turned": ("a + 1, B - 1 - b", FILLED, lambda x: x[1:-2, 2:][:, ::-1].T),
    "Back": ("A - 1 - a, b", FILLED, lambda x: x[3:, :-2][::-1].T),
    "Across": ("A - 2 - a, B - 2 - b", FILLED, lambda x: x[2:-1, 1:-1][::-1, ::-1].T),
    "Within": ("a + 1, B - 1 - b", "X: B, Y: A", lambda x: np.pad(x[1:-2, 2:][:, ::-1].T, ((0, 2), (0, 3)))),
}


def test_turned_rows_have_the_cells_of_numpy_in_any_view(tmp_path: Path) -> None:
    rows = ", ".join(f"{{x: {d}, y: {d}, accumulate: {'s64' if d == 's64' else 'f32'}}}" for d in KINDS)
    texts = {
        f"{n}.yaml": SPEC.format(name=n, rows=rows, index=index, dims=dims) for n, (index, dims, _) in PLACES.items()
    }
    library, module = package(texts, tmp_path, "turned_rows")
    for isa in serving(module, library.ops[0])[: None if FULL else 1]:
        with instruction_set(module, isa):
            for name, (_, _, wanted) in PLACES.items():
                random = rng(isa, name)
                for kind in KINDS.values():
                    for shape in ((6, 5), (19, 21), (83, 34), (40, 150)):
                        x = random.integers(0, 100, (2 * shape[0], 2 * shape[1])).astype(kind)
                        views = (x[: shape[0], : shape[1]], x[::-2, ::-1][:, : shape[1]], x.T.copy().T[::2, ::-2])
                        for view in views:
                            for threads in (1, 3):
                                found = getattr(module, name.lower())(view, threads=threads)
                                assert np.array_equal(found, wanted(view)), (name, kind, shape, view.strides)
    for name in ("Turned", "Back", "Across"):
        made = (tmp_path / "turned_rows" / "c" / f"{name.lower()}_u8.c").read_text()
        assert "opwright_across_u8" in made, name


COPY = """op: Copied
revision: 1
summary: A matrix as it stands.
dims: {a: A, b: B}
inputs: [{name: x, dims: {X: A, Y: B}}]
outputs: [{name: y, dims: {X: A, Y: B}}]
dtypes: [{x: u8, y: u8, accumulate: f32}, {x: bf16, y: bf16, accumulate: f32}, {x: f32, y: f32, accumulate: f32}]
semantics: {ranges: {a: A, b: B}, steps: ["y[a, b] = x[a, b]"]}
"""
JOINED = """op: Joined
revision: 1
summary: Rows beside rows.
dims: {n: N, h: H, a: A, b: B}
inputs: [{name: x, dims: {X: N, Y: H, Z: A}}, {name: z, dims: {X: N, Y: H, Z: B}}]
outputs: [{name: y, dims: {X: N, Y: H, Z: A + B}}]
dtypes: [{x: u8, z: u8, y: u8, accumulate: f32}, {x: f32, z: f32, y: f32, accumulate: f32}]
semantics: {ranges: {n: N, h: H, a: A, b: B}, steps: ["y[n, h, a] = x[n, h, a]", "y[n, h, A + b] = z[n, h, b]"]}
"""
PLACED = """op: Placed
revision: 1
summary: Rows of which one cell is not 0.
dims: {n: N, m: M}
inputs: [{name: i, dims: {X: N, Y: M}}, {name: x, dims: {X: N, Y: M}}]
outputs: [{name: y, dims: {X: N, Y: M, Z: 37}}]
dtypes: [{i: s64, x: u8, y: u8, accumulate: f32}, {i: s8, x: f32, y: f32, accumulate: f32}]
semantics: {ranges: {n: N, m: M, k: 37}, steps: ["y[n, m, k] = select(i[n, m] == k, x[n, m], 0)"]}
"""


def test_rows_of_one_cell_that_is_not_0_have_it_where_its_number_says(isa: str, tmp_path: Path) -> None:
    _, module = package({"placed.yaml": PLACED}, tmp_path, "placed_cells")
    random = rng("placed cells", isa)
    for index, kind in ((np.int64, np.uint8), (np.int8, np.float32)):
        for shape in ((0, 3), (1, 1), (3, 65), (2, 200)):
            i, x = random.integers(-3, 40, shape).astype(index), random.integers(1, 99, shape).astype(kind)
            if index is np.int64 and i.size:
                i.flat[0] = 2**32 + 5
            wanted = np.where(i[..., None] == np.arange(37), x[..., None], 0)
            for threads in (1, 3):
                out = np.full((*shape, 80), 7, kind)
                assert np.array_equal(module.placed(i, x, threads=threads), wanted), (isa, kind, shape)
                assert np.array_equal(module.placed(i, x, out=out[..., 2:39], threads=threads), wanted)
                assert np.array_equal(module.placed(i, x, out=out[..., 1:75:2], threads=threads), wanted)
                assert (out[..., 76:] == 7).all()


def test_cells_apart_are_copied_and_nothing_beside_them_is_touched(tmp_path: Path) -> None:
    library, module = package({"copied.yaml": COPY, "joined.yaml": JOINED}, tmp_path, "copied_cells")
    isas = [isa for isa in serving(module, library.ops[0]) if isa in ("avx512", "avx2")] or ["portable"]
    for isa in isas:
        random = rng("cells apart", isa)
        with instruction_set(module, isa):
            for kind in (np.uint8, KINDS["bf16"], np.float32):
                for step in (2, 3, 4, 5, 8, 9, -1, -2, -3, -4, -8):
                    for cells in (1, 16, 31, 33, 150):
                        high = bool(random.integers(2))
                        whole = random.integers(0, 200, (3 * cells - 1) * abs(step) + 1).astype(kind)
                        given = guarded(whole, high)[::step]
                        x = np.lib.stride_tricks.as_strided(
                            given, (3, cells), (cells * given.strides[0], given.strides[0])
                        )
                        assert np.array_equal(module.copied(x), x), (isa, kind, step, cells)
                        room = guarded(np.zeros_like(whole), high)
                        out = np.lib.stride_tricks.as_strided(room[::step], x.shape, x.strides)
                        module.copied(np.ascontiguousarray(x), out=out)
                        wanted = np.zeros_like(whole)
                        wanted[::step] = whole[::step]
                        assert np.array_equal(room, wanted), (isa, kind, step, cells)
            for kind in (np.uint8, np.float32):
                for shape, a, b in (((1, 3), 1, 2), ((2, 70), 33, 40), ((5, 131), 65, 7), ((1, 9), 300, 200)):
                    x, z = (random.integers(0, 200, (*shape, 2 * cells)).astype(kind) for cells in (a, b))
                    for p, q in (
                        (x[..., :a], z[..., :b]),
                        (x[..., ::2].copy(), z[..., :b].copy()),
                        (x[::-1, ::-1, ::-2], z[..., ::2]),
                    ):
                        for threads in (1, 3):
                            found = module.joined(p, q, threads=threads)
                            assert np.array_equal(found, np.concatenate((p, q), 2)), (isa, kind, shape, a, b)
