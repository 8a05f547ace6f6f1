"""Attributes that say where axes stand and which type an output has, where a call may contradict itself or lack something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from opwright.language.model import Op
from support.draws import rng
from support.package import package
from support.spec_packages import instruction_set
from support.step_verdicts import first_disagreement

FORMULAS = Path(__file__).parents[1] / "data" / "formulas"
SRC = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Op, ModuleType]]:
    folder = tmp_path_factory.mktemp("places")
    text = (FORMULAS / "two_reductions.yaml").read_text()
    library, module = package({"two_reductions.yaml": text}, folder, "places")
    with instruction_set(module, "portable"):
        yield library.ops[0], module


def test_two_lists_never_name_the_same_axis(made: tuple[Op, ModuleType]) -> None:
    _, module = made
    with pytest.raises(module.SpecError, match="axis 2, expected axes that sum_axes does not name") as refused:
        module.two_reductions(SRC, sum_axes=[0, -1], extreme_axes=[2], dtype="f32")
    assert (refused.value.rule, refused.value.argument) == ("extreme_axes-range", "extreme_axes")
    assert np.array_equal(module.two_reductions(SRC, sum_axes=[0], extreme_axes=[2], dtype="f32"), SRC.sum(0))


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_the_array_to_write_into_states_the_type_of_its_output_in_calls_that_lack_another(
    made: tuple[Op, ModuleType], dtype: type
) -> None:
    _, module = made
    sums = np.empty((2, 3), dtype)
    assert module.two_reductions(SRC, out=sums) is sums
    assert np.array_equal(sums, SRC.sum(-1))
    peaks = np.empty((2, 4), module.two_reductions(SRC, extremes=True, dtype="f32")[0].dtype)
    module.two_reductions(SRC, extremes=True, extreme_axes=[1], sum_axes=[2], out=(peaks, np.empty((2, 3), dtype)))
    assert np.array_equal(peaks.astype(np.float32), SRC.max(1))


def test_such_calls_are_judged_as_the_interpreter_judges_them(made: tuple[Op, ModuleType]) -> None:
    op, module = made
    seen: Counter[str] = Counter()
    assert first_disagreement(module, op, rng("places"), 40, seen) is None
    assert seen[f"{op.op} legal"] >= 40
