"""Products whose cells lie side by side along an axis of all arrays, and products whose rows and columns alternate in
the output: random calls on every instruction set, held against NumPy."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from opwright.derive.phases import staged
from opwright.language.expr import Name
from opwright.load import load_texts
from support.capping import capped_at
from support.package import package
from support.random_contractions import DTYPES, viewed

PRODUCTS = {  # by einsum's notation, whether something follows the sums
    "pairs_of_channels": ("ikc,jkc->ijc", True),
    "mixed_frequencies": ("bixy,ioxy->boxy", False),
    "of_each_channel": ("bkc,kc->bc", False),
    "outer_product_mean": ("sia,sjb->ijab", True),
    "split_heads": ("bsf,fhd->bhsd", False),
    "many_matrices": ("bik,bkj->bij", False),
    "scaled_matrices": ("bkj,bik->bij", True),
    "counted_last": ("gik,gkj->ijg", True),
    "heads_last": ("bihd,bjhd->bijh", False),
}
EXTENTS = (1, 2, 3, 5, 17, 20, 33, 70)


def spec(name: str) -> str:
    notation, follows = PRODUCTS[name]
    left, right, out = notation.replace("->", ",").split(",")
    letters = sorted({*notation} - {*",->"})

    def dims(axes: str) -> str:
        return ", ".join(f"{c.upper()}: {c.upper()}" for c in axes)

    def cell(array: str, axes: str) -> str:
        return f"{array}[{', '.join(axes)}]"

    finish = f"\n    - {cell('dst', out)} = max({cell('total', out)} * 0.5, -3)" if follows else ""
    target = cell("total" if follows else "dst", out)
    title = "".join(word.capitalize() for word in name.split("_"))
    return f"""op: {title}
revision: 1
summary: A product of cells that lie in an order of their own.
dims: {{{", ".join(f"size_{c}: {{symbol: {c.upper()}}}" for c in letters)}}}
inputs: [{{name: left, dims: {{{dims(left)}}}}}, {{name: right, dims: {{{dims(right)}}}}}]
outputs: [{{name: dst, dims: {{{dims(out)}}}}}]
dtypes:
  - {{left: f32, right: f32, dst: f32, accumulate: f32}}
  - {{left: bf16, right: bf16, dst: bf16, accumulate: f32}}
semantics:
  ranges: {{{", ".join(f"{c}: {c.upper()}" for c in letters)}}}
  steps:
    - {target} += {cell("left", left)} * {cell("right", right)}{finish}
"""


@pytest.mark.parametrize(
    ("name", "order"), [("counted_last", "gij"), ("heads_last", "bhij"), ("pairs_of_channels", "ijc")]
)
def test_products_that_the_last_axis_counts_lie_one_after_the_other(name: str, order: str) -> None:
    (op,) = load_texts({f"{name}.yaml": spec(name)}).ops
    found = staged(op)
    (sums,) = (part.target for phase in found.phases if phase.contraction for part in phase.parts)
    assert "".join(index.id for index in sums.indices if isinstance(index, Name)) == order


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    texts = {f"{name}.yaml": spec(name) for name in PRODUCTS}
    return package(texts, tmp_path_factory.mktemp("layouts"), "layouts_package")[1]


@pytest.fixture(params=["avx2", "avx512", "avx512_bf16"])
def capped(kernels: ModuleType, request: pytest.FixtureRequest) -> Iterator[str]:
    _ = kernels.split_heads  # loads the modules of the package
    with capped_at(kernels, request.param) as isa:
        yield isa


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_in_any_order_of_its_axes_is_exact_with_any_number_of_threads(
    kernels: ModuleType, capped: str, name: str
) -> None:
    notation, follows = PRODUCTS[name]
    left, right, _ = notation.replace("->", ",").split(",")
    rng = np.random.default_rng([len(capped), len(name)])
    for number in range(8):
        dtype = ("f32", "bf16")[number % 2]
        sizes = {c: int(rng.choice(EXTENTS)) for c in sorted({*notation} - {*",->"})}
        while np.prod([*sizes.values()]) > 3_000_000:
            sizes[max(sizes, key=lambda c: sizes[c])] = 3
        wide = [rng.integers(-2, 3, [sizes[c] for c in axes]).astype(DTYPES[dtype]) for axes in (left, right)]
        given = [viewed(rng, array) for array in wide] if number % 4 == 3 else wide
        wanted = np.einsum(notation, *(array.astype(np.int64) for array in given))
        expected = (np.maximum(wanted * 0.5, -3) if follows else wanted).astype(np.float32).astype(DTYPES[dtype])
        found = []
        for threads in (1, 3):
            sys.modules[f"{kernels.__name__}._remember"].CALLS.clear()
            found.append(getattr(kernels, name)(*given, threads=threads))
        assert (found[0] == expected).all(), (name, sizes, dtype)
        assert found[0].tobytes() == found[1].tobytes(), (name, sizes, dtype)
