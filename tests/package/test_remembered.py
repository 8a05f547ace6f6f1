"""Calls of operations of steps that are like one before."""

from __future__ import annotations

import numpy as np
import opwright_kernels as kernels
import pytest
from opwright_kernels import _operation
from opwright_kernels._steps import StepOperation


@pytest.mark.parametrize("with_out", [False, True])
def test_a_call_with_lists_like_one_before_is_not_understood_again(
    with_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    src = np.arange(12, dtype=np.float32).reshape(3, 4)
    given = {"axes": [1], "keep_dims": False, "out": np.empty(3, np.float32) if with_out else None}
    _operation.forget()
    kernels.reduce_sum(src, **given)

    def called(*_: object) -> None:
        raise AssertionError("understood again")

    monkeypatch.setattr(StepOperation, "called", called)
    inner = [1]
    assert kernels.reduce_sum(src, **given).tolist() == [6, 22, 38]
    assert kernels.reduce_sum(src, axes=[1], keep_dims=False).tolist() == [6, 22, 38]
    assert kernels.reduce_sum(src, axes=inner, keep_dims=False).tolist() == [6, 22, 38]


def test_a_call_with_an_array_of_numbers_like_one_before_is_not_understood_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    src = np.arange(12, dtype=np.float32).reshape(3, 4)
    scales = np.array([1, 2, 4], np.float32)
    given = {"qtype": "per_channel", "axis": 0, "zps": [0, 0, 0], "dtype": "u8"}
    _operation.forget()
    wanted = kernels.quantize(src, scales=[1.0, 2.0, 4.0], **given)
    assert (kernels.quantize(src, scales=scales, **given) == wanted).all()
    twice = kernels.quantize(src, scales=np.float32([1, 4, 4]), **given)
    called = StepOperation.called
    again: list[object] = []
    monkeypatch.setattr(StepOperation, "called", lambda *a: again.append(a) or called(*a))
    assert (kernels.quantize(src, scales=scales.copy(), **given) == wanted).all()
    assert not again
    scales[1] = 4
    assert (kernels.quantize(src, scales=scales, **given) == twice).all()
    assert not again
    kernels.quantize(src, scales=np.array([1, 2, 4], np.int64), **given)  # other bytes
    assert len(again) == 1
    assert (kernels.quantize(src, scales=np.float64([1, 2, 4]), **given) == wanted).all()


class Lent:
    """An array of another library."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    @property
    def __array_interface__(self) -> dict[str, object]:
        return dict(self.array.__array_interface__)


def test_a_call_with_arrays_of_others_like_one_before_is_not_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    left, right = random.integers(-4, 5, (2, 6, 6)).astype(np.float32)
    _operation.forget()
    kernels.mat_mul(Lent(left), Lent(right))
    kernels.mat_mul(Lent(left.T), Lent(right))
    run, again = StepOperation.run_steps, list[object]()
    monkeypatch.setattr(StepOperation, "run_steps", lambda *a: again.append(a) or run(*a))
    for a, b in ((left, right), (right, left), (left.T, right), (right.T, left)):
        assert (kernels.mat_mul(Lent(a), Lent(b)) == a @ b).all()
        assert (kernels.mat_mul(Lent(a), b) == a @ b).all()
        out = np.empty((6, 6), np.float32)
        assert kernels.mat_mul(Lent(a), Lent(b), out=out) is out
        assert (out == a @ b).all()
        lent = Lent(np.empty((6, 6), np.float32))
        assert kernels.mat_mul(Lent(a), b, out=lent) is lent
        assert (lent.array == a @ b).all()
    assert len(again) == 2  # the first ones with `out`, whose type could be another, of arrays and of views
    for a, b in ((left, right.T), (left[:5], right)):  # others than before
        assert (kernels.mat_mul(Lent(a), Lent(b)) == a @ b).all()
    assert len(again) == 4
    with pytest.raises(kernels.SpecError):
        kernels.mat_mul(Lent(left), Lent(right), out=left)
    with pytest.raises(kernels.SpecError):
        kernels.mat_mul(Lent(left), Lent(right.astype(np.float64)))


def test_outputs_that_others_lend_are_written_into_without_planning_again(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(6)
    src = random.standard_normal((5, 9)).astype(np.float32)
    _operation.forget()
    wanted = kernels.soft_max(src, axis=1, keep_stats=True)
    run, again = StepOperation.run_steps, list[object]()
    monkeypatch.setattr(StepOperation, "run_steps", lambda *a: again.append(a) or run(*a))
    for rows in (slice(5), slice(None, None, 2)) * 3:
        written = np.full((10, 9), np.nan, np.float32)[rows], np.empty((5, 1), np.float32)
        found = kernels.soft_max(src, axis=1, keep_stats=True, out=tuple(map(Lent, written)))
        for one, own, right in zip(found, written, wanted, strict=True):
            assert np.shares_memory(one, own)
            np.testing.assert_array_equal(own, right)
    assert len(again) == 2  # the first with each kind of strides
    with pytest.raises(kernels.SpecError):
        kernels.soft_max(src, axis=1, out=Lent(src[:, ::-1]))


def test_a_call_with_a_list_of_arrays_like_one_before_is_not_planned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views, counts and extents of the arrays, and views to write into, are told apart."""
    random = np.random.default_rng(7)
    src = random.standard_normal((4, 6, 8)).astype(np.float32)
    lists = [
        [src, src[:, :2]],
        [src[::2], src[1::2, ::-1], src[::2]],
        [src[:, :0], src],
        [src.transpose(0, 2, 1), src.transpose(0, 2, 1)],
        [src],
    ]
    room = np.empty((12, 18, 48), np.float32)
    outs = [
        None,
        lambda shape: np.empty(shape, np.float32),
        lambda shape: room[: shape[0], : shape[1], : 2 * shape[2] : 2],
    ]
    cases = [(parts, axis, out) for parts in lists for axis in (0, 1, 2) for out in outs]
    cases = [case for case in cases if len({np.delete(part.shape, case[1]).tobytes() for part in case[0]}) == 1]
    _operation.forget()
    run, again = StepOperation.run_steps, list[object]()
    monkeypatch.setattr(StepOperation, "run_steps", lambda *a: again.append(a) or run(*a))
    for turn in range(3):
        for parts, axis, out in cases:
            fresh = [part + 1 if turn == 2 and part.size and part.flags.c_contiguous else part for part in parts]
            wanted = np.concatenate(fresh, axis)
            target = None if out is None else out(wanted.shape)
            found = kernels.concat(fresh, axis=axis, out=target)
            assert target is None or found is target
            np.testing.assert_array_equal(found, wanted)
        assert len(again) == len(cases)  # of the first turn
    with pytest.raises(kernels.SpecError):
        kernels.concat([src, src[:, :2]], axis=1, out=np.empty((4, 8, 16), np.float32)[..., :8][:, ::-1][:, :7])
    whole = np.empty((4, 12, 8), np.float32)
    with pytest.raises(kernels.SpecError):
        kernels.concat([whole[:, :6], src], axis=1, out=whole)
    odd = np.empty(src.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(src.shape)
    odd[...] = src
    np.testing.assert_array_equal(kernels.concat([odd, src], axis=1), np.concatenate([src, src], 1))


@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64", "float16", "float64", "bool"])
def test_attributes_that_are_numbers_of_numpy_are_those_of_python(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    src = np.random.default_rng(8).standard_normal((3, 4, 5)).astype(np.float32)
    one = np.dtype(dtype).type(1)
    calls = {
        "i": (lambda one: kernels.soft_max(src, axis=one), lambda one: kernels.reduce_sum(src, axes=[0, one])),
        "f": (lambda one: kernels.elu(src, alpha=one), lambda one: kernels.quantize(src, scales=[one], dtype="u8")),
        "b": (lambda one: kernels.reduce_sum(src, axes=[0], keep_dims=one),),
    }
    for call in calls[one.dtype.kind.replace("u", "i")]:
        _operation.forget()
        call(one)
        with monkeypatch.context() as patch:
            patch.setattr(StepOperation, "run_steps", lambda *_: pytest.fail("planned again"))
            found = call(one)
        assert found.tobytes() == call(one.item()).tobytes()
    with pytest.raises(kernels.SpecError):
        kernels.soft_max(src, axis=np.float32(1))
    with pytest.raises(kernels.SpecError):
        kernels.soft_max(src, axis=np.bool_(True))
