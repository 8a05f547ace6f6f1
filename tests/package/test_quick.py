"""Calls of steps like one before: the short way, what it refuses to take, and what it leaves out."""

from __future__ import annotations

import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import opwright_kernels as ok
import pytest
from opwright_kernels import _quick, _steps

Array = np.ndarray[Any, Any]
F32 = np.float32
WIDE, ROW = np.linspace(-3, 3, 48, dtype=F32).reshape(6, 8), np.linspace(0.5, 1, 8, dtype=F32)
CALLS: dict[str, tuple[tuple[Array, ...], dict[str, Any]]] = {
    "relu": ((WIDE,), {}),
    "gelu": ((WIDE.astype(ml_dtypes.bfloat16),), {"mode": "gelu_tanh"}),
    "add": ((WIDE, ROW), {}),
    "mat_mul": ((WIDE, ROW.reshape(8, 1)), {}),  # whose third input is left out
    "multiply": ((WIDE.astype(ml_dtypes.bfloat16), WIDE.astype(ml_dtypes.bfloat16)), {}),
    "soft_max": ((WIDE,), {"axis": 1}),
    "layer_norm": ((WIDE, ROW, ROW), {"keep_stats": True}),
    "batch_norm_forward_training": ((WIDE, ROW, ROW, ROW, ROW), {"epsilon": 1e-5, "data_format": "NXC"}),
    "reduce_sum": ((WIDE,), {"axes": [1]}),
}


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of operations whose calls take the long way."""
    taken: list[str] = []
    called = _steps.StepOperation.called
    monkeypatch.setattr(
        _steps.StepOperation, "called", lambda self, *a: (taken.append(self.function), called(self, *a))[1]
    )
    return taken


def results(made: Any) -> tuple[Array, ...]:
    return made if isinstance(made, tuple) else (made,)


@pytest.mark.parametrize("name", CALLS)
def test_a_repeated_call_takes_the_short_way_whoever_owns_the_output(name: str, prepared: list[str]) -> None:
    inputs, attributes = CALLS[name]
    function = getattr(ok, name)
    wanted = results(function(*inputs, **attributes))
    out = tuple(np.full_like(one, 7) for one in wanted)
    options: tuple[dict[str, Any], ...] = ({}, {"threads": 1}, {"threads": 2}, {"out": out if len(out) > 1 else out[0]})
    for given in options:
        function(*inputs, **attributes, **given)
    prepared.clear()
    for given in options:
        made = results(function(*inputs, **attributes, **given))
        assert all(np.array_equal(a.view(np.uint8), b.view(np.uint8)) for a, b in zip(made, wanted, strict=True))
        assert "out" not in given or all(a is b for a, b in zip(made, out, strict=True))
    assert prepared == []


def test_a_call_that_was_first_made_with_an_output_is_remembered_for_outputs_of_its_type(prepared: list[str]) -> None:
    src = np.linspace(-1, 1, 95, dtype=F32).reshape(5, 19)  # of no other test
    halves = np.empty_like(src, np.float16), np.empty((5, 1), F32)
    for out in (np.empty_like(src), halves[0]):
        ok.soft_max(src, axis=1, out=out)
    ok.soft_max(src, axis=1, keep_stats=True, out=halves)
    prepared.clear()
    wanted = ok.soft_max(src.copy(), axis=1, dtype="f32")
    prepared.clear()
    whole = ok.soft_max(src, axis=1, out=np.empty_like(src))
    half = ok.soft_max(src, axis=1, out=np.empty_like(src, np.float16))
    ok.soft_max(src, axis=1, keep_stats=True, out=halves)
    assert prepared == []
    assert np.array_equal(whole, wanted)
    assert half.dtype == np.float16
    assert np.array_equal(half, wanted.astype(np.float16))
    assert np.array_equal(halves[0], half)


def test_an_operation_in_place_takes_the_short_way(prepared: list[str]) -> None:
    src = WIDE.copy()
    wanted = ok.relu(src)
    prepared.clear()
    assert ok.relu(src, out=src) is src
    assert np.array_equal(src, wanted)
    assert prepared == []


def test_an_output_may_lie_between_inputs_or_be_either(prepared: list[str]) -> None:
    memory = np.arange(24, dtype=F32).reshape(3, 8)
    wanted = ok.add(memory[0], memory[2])
    prepared.clear()
    for numbers in ((0, 2, 1), (2, 0, 1)):
        rows = memory.copy()
        made = ok.add(rows[numbers[0]], rows[numbers[1]], out=rows[numbers[2]])
        assert np.array_equal(made, wanted)
    one = memory[0].copy()
    assert np.array_equal(ok.add(one, memory[2], out=one), wanted)
    other = memory[2].copy()
    assert np.array_equal(ok.add(memory[0], other, out=other), wanted)
    assert prepared == []


def test_the_short_way_takes_no_output_that_shares_memory() -> None:
    memory = np.zeros((7, 8), F32)
    ok.relu(memory[:6])
    with pytest.raises(ok.SpecError, match="shares memory with src"):
        ok.relu(memory[:6], out=memory[1:])
    ok.soft_max(memory[:6], axis=1)
    with pytest.raises(ok.SpecError, match="shares memory with src"):
        ok.soft_max(memory[:6], axis=1, out=memory[:6])
    ok.add(memory[:3], memory[3:6])
    for out in (memory[1:4], memory[2:5], memory[4:7]):
        with pytest.raises(ok.SpecError, match="shares memory with src_"):
            ok.add(memory[:3], memory[3:6], out=out)
    outputs = [np.zeros((6, 8), F32), np.zeros(6, F32)]
    ok.layer_norm(WIDE, ROW, ROW)
    with pytest.raises(ok.SpecError, match="shares memory with another output"):
        ok.layer_norm(WIDE, ROW, ROW, out=(outputs[0], outputs[1], outputs[1]))


def test_steps_for_an_output_that_the_call_lacks_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Array] = []

    def filled(shape: tuple[int, ...], dtype: Any) -> Array:
        made.append(np.full(shape, 77, dtype))
        return made[-1]

    monkeypatch.setattr(_quick, "empty", filled)
    src = np.linspace(-1, 1, 85, dtype=F32).reshape(5, 17)  # of no other test: the plan is made here
    ok.soft_max(src, axis=1)
    dst = ok.soft_max(src, axis=1)
    stats = made[-1]
    assert dst is made[-2]
    assert stats.shape == (5, 1)
    assert (stats == 77).all()
    assert abs(dst.sum(axis=1) - 1).max() < 1e-6


def test_arrays_that_are_read_only_are_not_copied() -> None:
    src, weights = np.ones((1, 2, 2, 256), F32), np.ones((1, 1, 256, 2048), F32)
    lists = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    wanted = ok.convolution(src, weights, **lists)
    weights.flags.writeable = False
    for _ in range(2):
        ok.convolution(src, weights, **lists)
    tracemalloc.start()
    try:
        found = ok.convolution(src, weights, **lists)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert np.array_equal(found, wanted)
    assert peak < weights.nbytes / 4
