"""Shapes that a call states, and the reach of an index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from opwright.derive.bounds import LIMIT, index_magnitudes
from opwright.load import load_texts
from opwright.oracle import interpret
from opwright.oracle.interpret import validate
from support.small_calls import Array, f32, lists
from support.specs import convolutions, edited, untied

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


@pytest.mark.parametrize(("channels", "rules"), [(8, set()), (4, {"dst-shape"})])
def test_a_stated_shape_does_not_decide_how_an_input_is_arranged(channels: int, rules: set[str]) -> None:
    """Inputs come first, and empty weights fit the first arrangement, by which there are 2 times 4 channels."""
    stated = (
        "  - {name: dst_shape, type: 's64[]', length: any, min: 0, shape_of: dst, required: true, "
        "summary: The shape of dst., reason: A test states it.}"
    )
    texts = edited("conv_transpose.yaml", "\ninputs:", f"\n{stated}\n\ninputs:")
    op = next(
        op for op in load_texts({name: untied(text) for name, text in texts.items()}).ops if op.op == "ConvTranspose"
    )
    given = lists(groups=2, weights_format="IOX", dst_shape=[1, channels, 7])
    validation = validate(op, [np.ones((1, 0, 5), np.float32), np.ones((0, 4, 3), np.float32)], given)
    assert set(validation.violations) == rules
    assert validation.arrangements == {"weights": "library"}


def test_the_reach_of_an_index_is_made_of_sums_and_products() -> None:
    found = dict(index_magnitudes(OPS["ConvTranspose"]))
    reach = found["dst.X"]
    values = {"O": (10,), "I": (5,), "K": (3,), "S": (2,), "D": (1,), "PB": (1,)}
    assert interpret.integers(reach, values) == 5 * 2 + 3 * 1 + 1 + 10
    assert LIMIT == 2**62
