"""Sizes that a spec leaves to calls: where axes end as indices do, calls take a program that is made for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from opwright.derive.rewrites.fitting import fitting
from opwright.language.model import Op
from support import random_fitting, random_strided_reads
from support.generated import FULL, rng
from support.package import package
from support.step_calls import StepCaller
from support.step_verdicts import disagreement, first_disagreement

pytestmark = pytest.mark.usefixtures("quickly")

SPECS, CALLS = (60, 16) if FULL else (4, 6)


def as_called(op: Op) -> Op | None:
    """The operation for sizes that fit, by the name that callers know."""
    fits = fitting(op)
    return fits and replace(fits, function_=op.function)


def test_both_programs_give_what_the_interpreter_gives(tmp_path: Path) -> None:
    texts = {}
    for number in range(SPECS):
        for kind in (random_fitting, random_strided_reads):
            name = f"{kind.__name__.rsplit('_', 1)[1].title()}{number}"
            texts[f"{name}.yaml"] = kind.draw(np.random.default_rng([11, number]), name)
    library, module = package(texts, tmp_path, "fitting_sizes")
    fitted = 0
    for op in library.ops:
        assert first_disagreement(module, op, rng("sizes", op.function), CALLS, Counter()) is None, op.function
        fits = as_called(op)
        for number, call in enumerate(StepCaller(fits, rng("fit", op.function)).legal(CALLS) if fits else ()):
            assert disagreement(module, op, call, 1 + number % 3) is None, f"{op.function}: {call}"
            fitted += "sizes that fit" in str(module.explain(op.function, *call.inputs, **call.attributes))
    assert fitted > SPECS * CALLS // 2


def test_explain_says_whether_sizes_fit(tmp_path: Path) -> None:
    module = package({"scale.yaml": random_fitting.SCALE}, tmp_path, "fitting_scale")[1]
    scales = np.ones((5, 3), np.float32)
    assert "sizes that fit: D = 4 * G" in str(module.explain("scale", np.ones((5, 12), np.float32), scales))
    for cells in (11, 13, 0):
        assert "sizes that fit" not in str(module.explain("scale", np.ones((5, cells), np.float32), scales))
