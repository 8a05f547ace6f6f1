"""Letters that stand side by side in every array become one, where the strides of a call allow it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from opwright.derive.collapsing import collapsible, exchangeable
from opwright.language.library import Library
from opwright.load import load_texts
from support.draws import rng
from support.package import package
from support.spec_packages import instruction_set
from support.user_formulas import FORMULAS

SPEC = (Path(__file__).parents[1] / "data" / "formulas" / "centred_filters.yaml").read_text()
NEXT = "\n    - "
# The sizes that each use does not tell apart.
USES = {
    "y[c, h, w] = x[c, h, w] / max(abs(x[c, h, w]), 1)": ("C", "H", "W"),
    "y[c, h, w] = x[c, h, w] / (H * W)": ("H", "W"),
    "y[c, h, w] = x[c, h, w] / H": ("C", "W"),
    "y[c, h, w] = x[c, h, w] + number(h)": ("C", "W"),
    "y[c, h, w] = x[c, h, w] / H + number(w)": (),
    "y[c, h, w] = x[c, h, (w + 1) % W]": ("C", "H"),
    "y[c, h, w] = x[c, h, 0]": ("C", "H"),
    "m[c] += x[c, h, w] / (H * W); y[c, h, w] = x[c, h, w] - m[c]": ("H", "W"),
    "m[c] += x[c, h, w] / H / W; y[c, h, w] = x[c, h, w] - m[c]": (),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Library, ModuleType]]:
    folder = tmp_path_factory.mktemp("collapsed")
    yield package({"centred_filters.yaml": SPEC}, folder, "collapsed")


def planned(made: tuple[Library, ModuleType], *inputs: Any) -> Any:
    operation = made[1].centred_filters.__globals__["OPERATION"]
    resolution = operation.resolved(inputs, ())
    arrays = {name: value for name, value in zip(("w", "patch", "mask"), inputs, strict=True) if value is not None}
    return operation.planned_steps(resolution, {**arrays, **operation.written(resolution, [None, None])}).sizes


def drawn(random: np.random.Generator, *shape: int) -> Any:
    return random.standard_normal(shape).astype(np.float32)


def test_axes_are_merged_where_all_arrays_go_through_them_as_through_one(made: tuple[Library, ModuleType]) -> None:
    random = rng("merged axes")
    w, patch, mask = drawn(random, 5, 2, 3, 4), drawn(random, 6, 2, 3, 4), drawn(random, 2, 3, 4)
    sizes = planned(made, w, patch, None)
    assert (sizes.I, sizes.K, sizes.L) == (1, 1, 24)
    sizes = planned(made, w, patch, mask[:1, :1, :1])
    assert (sizes.I, sizes.K, sizes.L) == (1, 1, 24)
    sizes = planned(made, w, patch, mask[:1])
    assert (sizes.I, sizes.K, sizes.L) == (2, 1, 12)
    sizes = planned(made, w, patch, mask[:, :, :1])
    assert (sizes.I, sizes.K, sizes.L) == (1, 6, 4)
    sizes = planned(made, w[..., ::-1], patch, mask)
    assert (sizes.I, sizes.K, sizes.L) == (1, 6, 4)
    sizes = planned(made, w[..., :1], patch[..., :1], None)
    assert (sizes.I, sizes.K, sizes.L) == (1, 1, 6)


def test_results_are_those_of_the_formula_for_all_orders_of_memory(made: tuple[Library, ModuleType]) -> None:
    random = rng("orders of memory")
    for order in itertools.permutations(range(4)):
        for extents in ((5, 2, 3, 4), (1, 1, 7, 3), (3, 4, 1, 1), (2, 0, 3, 1)):
            back = np.argsort(order)
            w = drawn(random, *(extents[axis] for axis in order)).transpose(back)
            patch = drawn(random, *(w.shape[axis] if axis else 6 for axis in order)).transpose(back)
            mask = drawn(random, *(1 if random.random() < 0.3 else extent for extent in w.shape[1:]))
            with instruction_set(made[1], str(random.choice(["portable", "avx2"]))):
                found = made[1].centred_filters(w, patch, mask)
            for one, wanted in zip(found, FORMULAS["centred_filters"]([w, patch, mask], {}), strict=True):
                np.testing.assert_allclose(one, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("use", USES)
def test_sizes_that_a_step_tells_apart_stay_apart(use: str) -> None:
    text = f"""
op: Used
revision: 1
summary: Cells.
dims: {{c: {{symbol: C}}, h: {{symbol: H}}, w: {{symbol: W}}}}
inputs: [{{name: x, dims: {{C: C, H: H, W: W}}}}]
outputs: [{{name: y, dims: {{C: C, H: H, W: W}}}}]
dtypes: [{{x: f32, y: f32, accumulate: f32}}]
semantics:
  ranges: {{c: C, h: H, w: W}}
  steps:
    - {use.replace("; ", NEXT)}
"""
    (op,) = load_texts({"used.yaml": text}).ops
    chains = [chain.sizes for chain in collapsible(op)]
    assert chains == ([USES[use]] if USES[use] else [])


RUNS = """
op: Shares
revision: 1
summary: Shares of sums along an axis, and the largest.
dims: {before: {symbol: B, run: true}, classes: {symbol: C}, after: {symbol: A, run: true}}
attributes: [{name: axis, type: s64, default: "-1", locates: classes, summary: The axis.}]
inputs: [{name: x, dims: {B: B, C: C, A: A}}]
outputs: [{name: y, dims: {B: B, C: C, A: A}}, {name: most, dims: {B: B, A: A}}]
dtypes: [{x: f32, y: f32, most: f32, accumulate: f32}]
semantics:
  ranges: {b: B, c: C, a: A}
  steps:
    - STEPS
"""
SHARES = "sum[b, a] += exp(x[b, c, a]); y[b, c, a] = exp(x[b, c, a]) / sum[b, a]; most[b, a] max= x[b, c, a]"
# Whether the runs around an axis may be exchanged.
APART = {
    SHARES: True,
    "y[b, c, a] = x[b, c, a] * 2; most[b, a] += x[b, c, a]": True,
    "y[b, c, a] = x[b, c, a] + number(a); most[b, a] += x[b, c, a]": False,
    "y[b, c, a] = x[b, c, a] / prod(A); most[b, a] += x[b, c, a]": False,
    "sum[b] += x[b, c, a]; y[b, c, a] = x[b, c, a] - sum[b]; most[b, a] += x[b, c, a]": False,
}


def runs(steps: str) -> str:
    return RUNS.replace("STEPS", steps.replace("; ", NEXT))


@pytest.mark.parametrize("steps", APART)
def test_runs_that_a_step_tells_apart_stay_apart(steps: str) -> None:
    (op,) = load_texts({"shares.yaml": runs(steps)}).ops
    assert exchangeable(op) == ((("B", "A"),) if APART[steps] else ())


def test_the_run_before_a_last_axis_is_walked_as_that_behind_it(tmp_path: Path) -> None:
    """Shares of 10 classes have lanes along samples; results are those of the formula, wherever the axis stands."""
    random = rng("runs around an axis")
    _, module = package({"shares.yaml": runs(SHARES)}, tmp_path, "exchanged_runs")
    assert "lanes along a: block through room" in str(module.explain("shares", drawn(random, 300, 10)))
    assert "lanes along c: row" in str(module.explain("shares", drawn(random, 10, 300)))
    for _ in range(60):
        shape = random.choice([1, 2, 3, 5, 17, 40], random.integers(1, 5))
        x = drawn(random, *shape).transpose(random.permutation(len(shape)))
        x = x[tuple(slice(None, None, random.choice([-1, 1, 2])) for _ in shape)]
        axis = int(random.integers(-x.ndim, x.ndim))
        with instruction_set(module, str(random.choice(["portable", "avx2", "avx512"]))):
            y, most = module.shares(x, axis=axis)
        terms = np.exp(x.astype(np.float64))
        np.testing.assert_allclose(y, terms / terms.sum(axis, keepdims=True), rtol=1e-5)
        np.testing.assert_array_equal(most, x.max(axis))


ORDERS = """
op: EitherOrder
revision: 1
summary: Sums over two axes, whose letters go in either order.
dims: {b: B, a: A, c: C}
inputs: [{name: x, dims: {B: B, A: A, C: C}}]
outputs: [{name: y, dims: {C: C}}]
dtypes: [{x: f32, y: f32, accumulate: f32}]
semantics:
  ranges: {RANGES}
  steps:
    - y[c] += x[b, a, c]
"""


@pytest.mark.parametrize("ranges", ["b: B, a: A, c: C", "a: A, b: B, c: C"])
def test_the_axis_that_cells_are_left_on_is_walked_innermost(ranges: str, tmp_path: Path) -> None:
    random = rng("innermost axes", ranges)
    text = ORDERS.replace("RANGES", ranges)
    _, module = package({"either_order.yaml": text}, tmp_path, f"orders_{ranges[0]}")
    (file,) = (Path(module.__file__).parent / "c").glob("either_order_*.c")
    outer, inner = (
        file.read_text().count(f"for (int64_t {letter} = 0; {letter} < {letter.upper()};") for letter in "ba"
    )
    assert outer > inner, "rows are taken one by one"
    for shape in ((3, 5, 33), (7, 40, 70), (1, 300, 5), (300, 1, 18)):
        x = random.integers(-8, 9, shape).astype(np.float32)
        for order in itertools.permutations(range(3)):
            given = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
            np.testing.assert_array_equal(module.either_order(given), x.sum((0, 1)))


SUMS = """
op: Sums
revision: 1
summary: Sums over the second and the last axis.
dims: {a: {symbol: A}, b: {symbol: B}, c: {symbol: C}, d: {symbol: D}}
inputs: [{name: x, dims: {A: A, B: B, C: C, D: D}}]
outputs: [{name: y, dims: {A: A, C: C}}]
dtypes: [{x: f32, y: f32, accumulate: f32}, {x: f64, y: f64, accumulate: f64}]
semantics:
  ranges: {a: A, b: B, c: C, d: D}
  steps:
    - y[a, c] += x[a, b, c, d]
"""


def test_sizes_that_lanes_along_rows_of_two_axes_tell_apart_are_one_for_other_lanes(tmp_path: Path) -> None:
    """Scratch of rows of two axes is of their own extents: sums over merged ones would be written behind it."""
    library, module = package({"sums.yaml": SUMS}, tmp_path, "sums_apart")
    assert [(chain.sizes, chain.apart) for chain in collapsible(library.ops[0])] == [
        (("A", "C"), (0,)),
        (("B", "D"), (0,)),
    ]
    random = rng("sums over reordered axes")
    operation = module.sums.__globals__["OPERATION"]
    for order in itertools.permutations(range(4)):
        for extents in ((3, 5, 4, 7), (3, 30, 4, 19), (2, 1, 40, 3), (5, 21, 17, 40), (1, 6, 1, 90)):
            x = drawn(random, *(extents[axis] for axis in order)).transpose(np.argsort(order))
            x = x if random.random() < 0.5 else x.astype(np.float64)
            with instruction_set(module, str(random.choice(["portable", "avx2"]))):
                y = module.sums(x)
                sizes = operation.planned_steps(operation.resolved((x,), ()), {"x": x, "y": y}).sizes
            np.testing.assert_allclose(y, x.sum((1, 3), dtype=np.float64), rtol=1e-4, atol=1e-4)
            if order[2:] in ((1, 3), (3, 1)) and 1 not in extents:  # rows of both lie side by side
                assert (1, extents[1] * extents[3]) == (sizes.B, sizes.D)
