"""Named values that follow from one tensor hold for the next: the interpreter asks what a generated package asks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from opwright.load import load_texts
from opwright.oracle.validate_steps import validate_steps

SPEC = Path(__file__).parents[1] / "data" / "formulas" / "doubly_normalised.yaml"


@pytest.mark.parametrize(("channels", "rules"), [(4, ()), (3, ("gamma-shape",))])
def test_an_axis_of_a_named_value_has_that_extent(channels: int, rules: tuple[str, ...]) -> None:
    op = load_texts({SPEC.name: SPEC.read_text(encoding="utf-8")}).op("doubly_normalised")
    src, gamma = np.zeros((3, 4, 2), np.float32), np.zeros((1, channels), np.float32)
    validation = validate_steps(op, [src, gamma], {"groups": 1, "data_format": "NCX"})
    assert tuple(validation.violations) == rules
