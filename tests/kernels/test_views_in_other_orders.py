"""Values of arrays that lie in memory in orders of their own are those of the interpreter, whatever is turned for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from opwright.language.dtypes import DTYPES
from opwright.oracle.run_steps import compute_steps
from support.draws import FULL, rng
from support.package import package

Rng = np.random.Generator
TYPES = ("f32", "bf16", "f16", "f64", "u8", "s32")
ACCUMULATE = {"f64": "f64", "s32": "s64"}
EXTENTS = (1, 2, 3, 5, 15, 16, 17, 33, 64, 65, 70)
VALUES = ("{0} + {1}", "{0} * {1} - {0}", "max({0}, {1}) + {2}", "({0} - {1}) * {2}", "select({0} > {1}, {2}, {0})")
CALLS = 30 if FULL else 12


def drawn(random: Rng, letters: str, values: Sequence[str] = VALUES) -> str:
    """A value of two or three arrays, each cell from the same cell of all of them."""
    axes = ", ".join(f"{letter.upper()}: {letter.upper()}" for letter in letters)
    cell = f"[{', '.join(letters)}]"
    value = values[int(random.integers(len(values)))]
    names = [name for number, name in enumerate("xzw") if f"{{{number}}}" in value]
    made = {one: {"u8": "s32"}.get(one, one) for one in random.permutation(TYPES)[:3]}
    rows = [
        f"{{{', '.join(f'{name}: {one}' for name in names)}, y: {to}, accumulate: {ACCUMULATE.get(to, 'f32')}}}"
        for one, to in made.items()
    ]
    return "\n".join((
        "op: Viewed", "revision: 1", "summary: A value of cells in the same place.",
        f"dims: {{{', '.join(f'{letter}: {letter.upper()}' for letter in letters)}}}",
        f"inputs: [{', '.join(f'{{name: {name}, dims: {{{axes}}}}}' for name in names)}]",
        f"outputs: [{{name: y, dims: {{{axes}}}}}]",
        f"dtypes: [{', '.join(rows)}]", "semantics:",
        f"  ranges: {{{', '.join(f'{letter}: {letter.upper()}' for letter in letters)}}}",
        f"  steps: ['y{cell} = {value.format(*(f'{name}{cell}' for name in 'xzw'))}']", "",
    ))  # fmt: skip


def viewed(random: Rng, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Small integers in memory of any order: some axes backwards, some with gaps."""
    order = random.permutation(len(shape))
    gaps = random.integers(1, 3, len(shape)) if random.random() < 0.3 else np.ones(len(shape), int)
    ways = np.where(random.random(len(shape)) < 0.15, -1, 1)
    stored = random.integers(0, 6, [shape[axis] * gaps[axis] for axis in order]).astype(dtype)
    turned = stored.transpose(np.argsort(order))
    return turned[tuple(slice(None, None, way * gap) for way, gap in zip(ways, gaps, strict=True))]


@pytest.mark.parametrize("number", range(24 if FULL else 8))
def test_cells_of_views_in_any_order_are_those_of_the_interpreter(number: int, tmp_path: Path) -> None:
    random = rng(f"views in other orders {number}")
    letters = "abcd"[: int(random.integers(2, 5))]
    text = drawn(random, letters)
    library, module = package({"viewed.yaml": text}, tmp_path, f"views_in_other_orders_{number}")
    (op,) = library.ops
    names = [tensor.name for tensor in op.inputs]
    for _ in range(CALLS):
        row = op.dtypes[int(random.integers(len(op.dtypes)))]
        shape = tuple(int(extent) for extent in random.choice(EXTENTS, len(letters)))
        while np.prod(shape) > 200_000:
            shape = tuple(1 + extent // 2 for extent in shape)
        inputs = [viewed(random, shape, DTYPES[row[name]].numpy) for name in names]
        expected = compute_steps(op, inputs, {})["y"]
        for threads in (1, 2, 3):
            got = module.viewed(*inputs, threads=threads)
            assert got.tobytes() == expected.tobytes(), (
                text,
                row,
                [(one.shape, one.strides) for one in inputs],
                threads,
            )
            out = np.full(shape[::-1], 7, got.dtype).T
            assert module.viewed(*inputs, out=out, threads=threads) is out
            assert np.array_equal(out.view(f"u{out.itemsize}"), expected.view(f"u{out.itemsize}")), (text, shape)


@pytest.mark.parametrize("orders", [("abc", "acb"), ("abc", "bca"), ("bac", "cab"), ("abc", "cba")])
def test_rows_that_lie_across_are_turned_for_several_tasks(orders: tuple[str, str], tmp_path: Path) -> None:
    text = drawn(rng("turned"), "abc", VALUES[:1])
    library, module = package({"viewed.yaml": text}, tmp_path, f"turned_views_{'_'.join(orders)}")
    dtype = DTYPES[library.ops[0].dtypes[0]["x"]].numpy
    x, z = (np.ones([40] * 3, dtype).transpose([order.index(one) for one in "abc"]) for order in orders)
    assert "turned rows" in str(module.explain("viewed", x, z))
