"""Cells that stand for many others: one for each block of a row, `floor(k / 32)`, and one for each of many short rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.draws import rng
from support.package import package
from support.rulings import DTYPES
from support.spec_packages import instruction_set, usable

HEAD = """revision: 1
summary: Rows times cells that stand for many.
dims: {{rows: N, heads: H, cells: C, blocks: B}}
{attributes}inputs:
  - {{name: src, dims: {{N: N, H: H, C: C}}}}
  - {{name: scale, dims: {{{scale}}}}}
outputs:
  - {{name: dst, dims: {{N: N, H: H, C: C}}}}
dtypes:
  - {{src: s8, scale: f32, dst: f32, accumulate: f32}}
  - {{src: s8, scale: bf16, dst: bf16, accumulate: f32}}
  - {{src: f32, scale: f32, dst: f32, accumulate: f32}}
  - {{src: bf16, scale: f32, dst: f32, accumulate: f32}}
  - {{src: f16, scale: f16, dst: f16, accumulate: f32}}
  - {{src: f64, scale: f64, dst: f64, accumulate: f64}}
semantics:
  ranges: {{n: N, h: H, c: C}}
  steps:
    - "dst[n, h, c] = src[n, h, c] * {read} - 2"
"""
SIZE = """attributes:
  - {name: size, symbol: S, type: s64, required: true, min: 1}
constraints:
  - {id: fits, expr: C <= S * B, say: it fits, argument: src}
"""
SPECS = {
    "BlockScale": HEAD.format(attributes=SIZE, scale="N: N, B: B", read="scale[n, floor(c / S)]"),
    "RowScale": HEAD.format(attributes="", scale="N: N, H: H", read="scale[n, h]").replace(", blocks: B", ""),
    "HeadScale": HEAD.format(attributes="", scale="H: H", read="scale[h]").replace(", blocks: B", ""),
}
KINDS = [("s8", "f32"), ("s8", "bf16"), ("f32", "f32"), ("bf16", "f32"), ("f16", "f16"), ("f64", "f64")]


def laid(random: np.random.Generator, array: Any) -> Any:
    """An array in memory as it stands, with gaps after rows or between cells, or with axes in another order."""
    room = np.zeros([2 * extent + 3 for extent in array.shape], array.dtype)
    form = int(random.integers(5))
    if form == 0:
        room = room[..., : 2 * array.shape[-1] : 2]
    found = room[tuple(slice(extent) for extent in array.shape)]
    if form > 1:
        order = np.arange(array.ndim) if form > 2 else random.permutation(array.ndim)
        found = np.empty([array.shape[axis] for axis in order], array.dtype).transpose(np.argsort(order))
    found[...] = array
    return found


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder: Path = tmp_path_factory.mktemp("repeated")
    texts = {f"{name.lower()}.yaml": f"op: {name}\n{text}" for name, text in SPECS.items()}
    yield package(texts, folder, "repeated_cells")[1]


def types(name: str) -> Any:
    return np.float64 if name == "f64" else np.int8 if name == "s8" else DTYPES[name]


def drawn(random: np.random.Generator, name: str) -> tuple[Any, Any, Any, dict[str, int]]:
    """Small integers, cells for them, what each stands for, and attributes: extents around those of lines and blocks."""
    rows, heads = int(random.integers(1, 9)), int(random.choice([1, 3, 17, 150]))
    cells = int(random.choice([1, 5, 16, 32, 63, 64, 70, 128, 129, 600]))
    size = int(random.choice([1, 2, 3, 5, 7, 8, 16, 31, 32, 64, 200, 700]))
    src = random.integers(-8, 9, (rows, heads, cells))
    if name == "BlockScale":
        scale = random.integers(-4, 5, (rows, -(-cells // size)))
        return src, scale, scale[:, None, np.arange(cells) // size], {"size": size}
    scale = random.integers(-4, 5, (rows, heads) if name == "RowScale" else (heads,))
    return src, scale, scale[..., None], {}


@pytest.mark.parametrize("name", SPECS)
def test_a_cell_stands_for_all_of_its_block_or_row(module: Any, name: str) -> None:
    random = rng("repeated cells", name)
    function = getattr(module, name.replace("Scale", "_scale").lower())
    for isa in [*usable(module)]:
        with instruction_set(module, isa):
            for kind, wide in KINDS * 10:
                src, scale, chosen, attributes = drawn(random, name)
                out = laid(random, np.zeros(src.shape, types(wide)))
                given = (laid(random, src.astype(types(kind))), laid(random, scale.astype(types(wide))))
                for threads in (1, 3):
                    out[...] = 77
                    function(*given, **attributes, out=out, threads=threads)
                    told = isa, kind, wide, src.shape, given[0].strides, given[1].strides, attributes
                    assert (out.astype(np.float64) == src * chosen - 2).all(), told
