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
