"""Windows and reductions of views: lanes go along letters that walk no last axis, and results lie as the views do."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from opwright.derive.phases import staged
from support.draws import rng
from support.package import package
from support.spec_packages import instruction_set, serving

BF16 = np.dtype(ml_dtypes.bfloat16)
HEAD = """op: {name}
revision: 1
summary: Rows of views.
dims: {dims}
inputs: [{{name: x, dims: {{{x}}}}}]
outputs: [{{name: y, dims: {{{y}}}}}]
dtypes: [{{x: f32, y: f32, accumulate: f32}}, {{x: bf16, y: bf16, accumulate: f32}}]
{shape}semantics:
  ranges: {ranges}
  steps: {steps}
"""
POOL = HEAD.format(
    name="Pool", dims="{n: N, c: C, h: H, w: W, p: P, q: Q}", x="N: N, C: C, H: H, W: W", y="N: N, C: C, P: P, Q: Q",
    shape="shape: {P: floor((H - 2) / 2) + 1, Q: floor((W - 3) / 2) + 1}\n",
    ranges="{n: N, c: C, p: P, q: Q, u: 2, v: 3}", steps="['y[n, c, p, q] max= x[n, c, 2 * p + u, 2 * q + v]']",
)  # fmt: skip
SHARES = HEAD.format(
    name="Shares", dims="{n: N, c: C}", x="N: N, C: C", y="N: N, C: C", shape="", ranges="{n: N, c: C}",
    steps="['peak[n] max= x[n, c]', 'total[n] += x[n, c] - peak[n]', 'y[n, c] = total[n] + x[n, c]']",
)  # fmt: skip

MIDDLE = HEAD.format(
    name="Middle", dims="{n: N, m: M, c: C}", x="N: N, M: M, C: C", y="N: N, C: C", shape="",
    ranges="{n: N, m: M, c: C}", steps="['y[n, c] += x[n, m, c]']",
)  # fmt: skip

NORMS = HEAD.format(
    name="Norms", dims="{b: B, h: H, w: W, c: C}", x="B: B, H: H, W: W, C: C", y="B: B, H: H, W: W, C: C", shape="",
    ranges="{b: B, h: H, w: W, c: C}",
    steps="['m[b, h, w] += x[b, h, w, c]', 'v[b, h, w] += (x[b, h, w, c] - m[b, h, w]) * (x[b, h, w, c] - m[b, h, w])', "
    "'top[b, h, w] max= x[b, h, w, c]', 'low[b, h, w] min= x[b, h, w, c] - top[b, h, w]', "
    "'y[b, h, w, c] = x[b, h, w, c] - low[b, h, w] + v[b, h, w]']",
)  # fmt: skip


def normed(x: np.ndarray) -> np.ndarray:
    apart = x - x.sum(3, keepdims=True)
    return x - (x - x.max(3, keepdims=True)).min(3, keepdims=True) + (apart * apart).sum(3, keepdims=True)


def pooled(x: np.ndarray) -> np.ndarray:
    p, q = (x.shape[2] - 2) // 2 + 1, (x.shape[3] - 3) // 2 + 1
    taps = [x[:, :, u : u + 2 * p - 1 : 2, v : v + 2 * q - 1 : 2] for u in range(2) for v in range(3)]
    return np.max(taps, axis=0)


def shares(x: np.ndarray) -> np.ndarray:
    return (x - x.max(1, keepdims=True)).sum(1, keepdims=True) + x


def middle(x: np.ndarray) -> np.ndarray:
    return x.sum(1)


@pytest.mark.parametrize(
    ("text", "wanted", "extents"), [(POOL, pooled, 4), (SHARES, shares, 2), (MIDDLE, middle, 3), (NORMS, normed, 4)]
)
def test_lanes_along_letters_of_views_agree_with_numpy(text: str, wanted, extents: int, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    library, module = package({"viewed.yaml": text}, tmp_path, f"viewed_{wanted.__name__}")
    op, random = library.ops[0], rng("views of letters", extents)
    (phase,) = staged(op).phases
    assert phase.views
    call, along = getattr(module, op.function), set[str]()
    for isa in serving(module, op):
        with instruction_set(module, isa):
            for _ in range(12):
                shape = [int(random.choice((3, 5, 17, 33))) for _ in range(extents)]
                order = random.permutation(extents)
                made = random.integers(-8, 8, [shape[axis] for axis in order]).astype(np.float32)
                x = made.transpose(np.argsort(order))
                expected = wanted(x)
                out = np.empty(expected[..., ::-1].T.shape, np.float32).T[..., ::-1] if random.integers(2) else None
                found = call(x, out=out, threads=int(random.integers(1, 3)))
                assert (found == expected).all(), (isa, shape, order)
                narrow = call(x.astype(BF16))
                assert (narrow.astype(np.float32) == expected.astype(BF16).astype(np.float32)).all()
                along |= {
                    line.split(":")[0] for line in str(module.explain(op.function, x)).splitlines() if "lanes" in line
                }
    assert len(along) > 1
    axes = np.zeros((3, 25, 33, 7)[:extents], np.float32)
    view = np.moveaxis(np.ascontiguousarray(np.moveaxis(axes, 1, -1)), -1, 1)
    assert call(view).strides[1] == 4
    if wanted is normed:
        channels_last = np.zeros((3, 25, 33, 7), np.float32).transpose(0, 2, 3, 1)
        assert "lanes along w: block" in str(module.explain(op.function, channels_last))
    if wanted is middle:
        assert "lanes along m" in str(module.explain(op.function, view))


@pytest.mark.parametrize(
    ("extents", "step", "goes"),
    [
        ("A: N, B: M", "y[n, m] = x[n, m] + 1", True),
        ("A: M, B: N", "y[m, n] = x[n, m] + 1", False),
        ("A: N, B: N", "y[n, k] += x[n, m] * x[m, k]", False),
    ],
)
def test_a_result_lies_as_a_view_only_where_its_axes_go_with_the_views(
    extents: str, step: str, goes: bool, tmp_path: Path
) -> None:
    """Axes of two arrays may have the same names and be of other letters, as rows and columns of matrices are."""
    square = extents == "A: N, B: N"
    ranges = "{n: N, m: N, k: N}" if square else "{n: N, m: M}"
    text = HEAD.format(
        name="Lies", dims="{n: N}" if square else "{n: N, m: M}", x="A: N, B: N" if square else "A: N, B: M",
        y=extents, shape="", ranges=ranges, steps=f"['{step}']",
    )  # fmt: skip
    library, module = package({"lies.yaml": text}, tmp_path, f"lies_{'square' if square else goes}")
    x = np.arange(36 if square else 42, dtype=np.float32).reshape(6, -1).T
    found = getattr(module, library.ops[0].function)(x)
    assert (found == (x @ x if square else x + 1 if goes else x.T + 1)).all()
    assert found.flags.f_contiguous == goes


def test_lanes_of_views_serve_where_neighbours_lie_close() -> None:
    from opwright_kernels._schedules import Candidate, Lanes, chosen, nearest

    own = Lanes("q", True, ())
    far = (((1, 1), 64, 8, 1), ((1, 7), 64, 8, 1), ((1, 8), 64, 8, 0), ((1, 30), 64, 8, 0), ((1, 1), 8, 8, 0))
    for steps, extent, close, taken in (*far, ((1, 2), 64, 3, 1), ((1, 3), 64, 3, 0)):
        view = Lanes("c", True, (), views=close)
        candidates = [Candidate(own, 60, (30, 30), apart=30), Candidate(view, extent, steps, apart=max(steps))]
        assert chosen(nearest(candidates))[0] == taken


def test_rows_of_few_cells_that_only_add_up_are_folded(tmp_path: Path) -> None:
    """Of two cells, lanes go along what they add up, as they do where cells are read again after sums."""
    _, module = package({"middle.yaml": MIDDLE}, tmp_path, "folded_middle")
    random = rng("folded rows")
    for cells in (2, 3, 5, 7, 9):
        for rows in (17, 133, 1000):
            x = random.integers(-9, 10, (9, rows, cells)).astype(random.choice([np.float32, BF16]))
            y = module.middle(x)
            np.testing.assert_array_equal(y.astype(np.float32), x.astype(np.float32).sum(1).astype(x.dtype))
            assert ("lanes along m" in str(module.explain("middle", x))) == (cells == 2), (cells, rows)
