"""Shapes that a call states, and the reach of an index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from opwright.derive.bounds import LIMIT, index_magnitudes
from opwright.oracle import interpret
from opwright.oracle.interpret import validate
from support.small_calls import Array, f32, lists
from support.specs import convolutions

# Shapes that a call states.

DIFF, KERNEL = np.ones((1, 1, 2), np.float32), np.ones((1, 1, 2), np.float32)

OPS = {op.op: op for op in convolutions().ops}


def s32(*entries: int) -> Array:
    return np.array(entries, np.int32)


@pytest.mark.parametrize(
    ("tensor", "attribute", "rules"),
    [
        (None, None, {"diff_src-shape-missing"}),
        (s32(1, 1, 3), None, set()),
        (s32(1, 1, 3), [1, 1, 9], set()),
        (s32(1, 1, 9), [1, 1, 3], {"sizes-agree"}),
        (None, [1, 1], {"dst_shape-length"}),
        (s32(1, 1), None, {"dst_shape-length"}),
        (s32(1, 1, -3), None, {"dst_shape-range"}),
        (None, [1, 1, -3], {"dst_shape-range"}),
        (None, [1, 1, 0], {"src-spatial-extent", "sizes-agree"}),
        (s32(1, 1, 3)[None], None, {"dst_shape-rank"}),
        (f32([1, 1, 3]), None, {"dtypes"}),
        (None, [2, 1, 3], {"diff_dst-shape", "diff_src-shape"}),
        (None, [1, 2, 3], {"weights-shape", "diff_src-shape"}),
    ],
)
def test_a_stated_shape_breaks_these_rules_and_no_others(tensor: Array | None, attribute: Any, rules: set[str]) -> None:
    given = lists(weights_format="OIX", dst_shape=attribute)
    validation = validate(OPS["ConvolutionBackwardData"], [DIFF, KERNEL, tensor], given)
    assert set(validation.violations) == rules


def test_the_reach_of_an_index_is_made_of_sums_and_products() -> None:
    found = dict(index_magnitudes(OPS["ConvTranspose"]))
    reach = found["dst.X"]
    values = {"O": (10,), "I": (5,), "K": (3,), "S": (2,), "D": (1,), "PB": (1,)}
    assert interpret.integers(reach, values) == 5 * 2 + 3 * 1 + 1 + 10
    assert LIMIT == 2**62
