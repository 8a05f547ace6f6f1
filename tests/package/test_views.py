"""Calls with views: what a result's memory looks like, and calls like one before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import opwright_kernels as ok
import pytest
from opwright_kernels import _remember, _steps
from support.draws import rng

Array = np.ndarray[Any, Any]
Rng = np.random.Generator
F32 = np.float32


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of operations whose calls take the long way."""
    taken: list[str] = []
    called = _steps.StepOperation.called
    monkeypatch.setattr(
        _steps.StepOperation, "called", lambda self, *a: (taken.append(self.function), called(self, *a))[1]
    )
    return taken


def view(random: Rng, shape: Sequence[int], gaps: bool) -> Array:
    """A view of that shape: axes in any order, with gaps, backwards."""
    order = random.permutation(len(shape))
    steps = [int(random.choice([-2, -1, 1, 2, 3])) if gaps else 1 for _ in shape]
    whole = random.standard_normal([shape[axis] * abs(steps[axis]) for axis in order]).astype(F32)
    cut = tuple(slice(None, None, steps[axis]) for axis in order)
    return whole[cut].transpose(np.argsort(order))


def drawn(random: Rng) -> tuple[int, ...]:
    return tuple(int(extent) for extent in random.integers(1, 7, int(random.integers(1, 6))))


def order(array: Array) -> list[int]:
    """The axes of more than one cell, as they lie in memory."""
    axes = [axis for axis in range(array.ndim) if array.shape[axis] > 1]
    return sorted(axes, key=lambda axis: -abs(array.strides[axis]))


def has_no_gaps(array: Array) -> bool:
    return array.transpose(np.argsort([-step for step in array.strides], kind="stable")).flags.c_contiguous


def test_what_is_made_of_a_view_lies_as_the_view_does_and_is_right() -> None:
    random, turned = rng("views"), 0
    for number in range(150):
        src = view(random, drawn(random), gaps=number % 2 > 0)
        other = view(random, src.shape, gaps=number % 3 > 0)
        for made, wanted in (
            (ok.relu(src), np.maximum(src, 0)),
            (ok.add(src, other), src + other),
            (ok.soft_max(src, axis=src.ndim - 1), None),
            (ok.type_cast(src, dtype="f16"), src.astype(np.float16)),
        ):
            assert wanted is None or (made == wanted).all()
            assert order(made) == order(src)
            assert has_no_gaps(made)
            turned += not made.flags.c_contiguous
        axes = sorted(int(axis) for axis in random.choice(src.ndim, int(random.integers(1, src.ndim + 1)), False))
        sums = ok.reduce_sum(src, axes=axes, keep_dims=True)
        np.testing.assert_allclose(sums, src.sum(tuple(axes), keepdims=True), rtol=1e-5, atol=1e-5)
        assert order(sums) == [axis for axis in order(src) if axis not in axes]
        assert ok.static_transpose(src, order=[*reversed(range(src.ndim))]).flags.c_contiguous or src.ndim < 2
    assert turned > 200


def test_one_cell_for_all_has_no_order_and_the_larger_input_decides() -> None:
    row, square = np.ones((1, 5), F32), np.arange(20, dtype=F32).reshape(5, 4).T
    assert ok.relu(np.broadcast_to(row, (4, 5))).flags.c_contiguous
    assert order(ok.add(row, square)) == order(ok.add(square, row)) == [1, 0]
    assert ok.add(np.ones((4, 5), F32), square).flags.c_contiguous
    assert ok.relu(np.asfortranarray(np.ones((3, 0, 2), F32))).shape == (3, 0, 2)


def test_a_repeated_call_with_views_takes_the_short_way_and_sees_other_strides(prepared: list[str]) -> None:
    random = rng("repeated views")
    for _ in range(40):
        _remember.forget()  # it keeps 512 calls
        shape = drawn(random)
        calls = [(view(random, shape, True), view(random, shape, True), view(random, shape, True)) for _ in range(3)]
        for src, other, out in calls:
            ok.multiply(src, other)
            ok.multiply(src, other, out=out)
        prepared.clear()
        for src, other, out in calls:
            out.fill(7)
            assert (ok.multiply(src, other, threads=2) == src * other).all()
            assert ok.multiply(src, other, out=out) is out
            assert (out == src * other).all()
        assert prepared == []
        src, other = (array.copy(order="K") for array in calls[0][:2])
        assert (ok.multiply(src, other) == src * other).all()


def test_what_was_right_before_is_refused_where_it_is_not() -> None:
    whole = np.arange(200, dtype=F32).reshape(10, 20)
    src, out = whole[:, :10].T, np.zeros((10, 20), F32)[:, ::2].T
    for _ in range(2):
        ok.relu(src, out=out)
    before = out.copy()
    out.flags.writeable = False
    with pytest.raises(ok.SpecError, match="out-read-only"):
        ok.relu(src, out=out)
    with pytest.raises(ok.SpecError, match="out-overlap"):
        ok.relu(src, out=whole[:, 1:].T[:19:2])
    with pytest.raises(ok.SpecError, match="out-dtype"):
        ok.relu(src, out=np.zeros((10, 20), np.float64)[:, ::2].T)
    assert (out == before).all()
    raw = np.zeros(10 * 20 * 4 + 1, np.uint8)[1:].view(F32).reshape(10, 20)[:, :10].T  # whose cells are not aligned
    raw[...] = src
    assert not raw.flags.aligned
    assert (ok.relu(raw) == src).all()
    assert ok.relu(src, out=src) is src  # in place
    assert (src == np.arange(200, dtype=F32).reshape(10, 20)[:, :10].T).all()
