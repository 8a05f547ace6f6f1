"""The generator of random calls: legal where it says so, wide enough, and repeatable."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from support.calls import EXACT, Drawn, calls, describe, random_call
from support.mutated_calls import mutated_call
from support.rulings import AUTO_PADS, DTYPES, OPERATIONS, Accepted, compute, exact, verdict


@settings(max_examples=300)
@given(calls())
def test_legal_calls_are_accepted_and_computed(drawn: Drawn) -> None:
    found = verdict(drawn.call)
    assert isinstance(found, Accepted), found
    result = compute(drawn.call)
    assert result.shape == found.shape
    assert result.dtype in DTYPES.values()


@settings(max_examples=200)
@given(calls(make=mutated_call))
def test_a_refused_call_has_a_reason_and_an_accepted_one_a_result(drawn: Drawn) -> None:
    found = verdict(drawn.call)
    if isinstance(found, Accepted):
        assert found.elements > 10**6 or compute(drawn.call).shape == found.shape
    else:
        assert found.reason


def test_about_half_of_the_mutated_calls_are_refused() -> None:
    refused = sum(not isinstance(verdict(mutated_call(np.random.default_rng(seed))), Accepted) for seed in range(1000))
    assert 400 <= refused <= 650


def test_legal_calls_reach_every_corner() -> None:
    seen: Counter[str] = Counter()
    for seed in range(2000):
        call = random_call(np.random.default_rng(seed))
        found = verdict(call)
        assert isinstance(found, Accepted)
        attributes = call.attributes
        first = call.inputs[0]
        assert first is not None
        seen.update([call.op, str(first.dtype), f"rank {len(found.strides)}", found.arrangement])
        for name in ("data_format", "weights_format", "auto_pad"):
            seen[f"{name} {attributes.get(name, 'absent')}"] += 1
        seen["asymmetric"] += found.pads_begin != found.pads_end
        seen["wide pads"] += any(p > k for p, k in zip(found.pads_begin, found.kernel, strict=True))
        seen["wide strides"] += any(s > k for s, k in zip(found.strides, found.kernel, strict=True))
        seen["twelve zeros"] += attributes.get("output_padding") == [0] * 12
        seen["output padding"] += any(attributes.get("output_padding", ()))
        seen["empty"] += 0 in found.shape
        seen["groups"] += found.groups > 1
        if name := OPERATIONS[call.op].shape_name:
            seen[f"by {'tensor ' * (len(call.inputs) == 3 and call.inputs[2] is not None)}{name in attributes}"] += 1
    expected = {*OPERATIONS, *map(str, DTYPES.values()), "rank 1", "rank 2", "rank 3", "library", "page"}
    expected |= {f"data_format {value}" for value in ("NCX", "NXC", "absent")}
    expected |= {f"weights_format {value}" for value in ("OIX", "XIO", "IOX", "XOI", "absent")}
    expected |= {f"auto_pad {value}" for value in (*AUTO_PADS, "absent")}
    expected |= {"asymmetric", "wide pads", "wide strides", "twelve zeros", "output padding", "empty", "groups"}
    expected |= {"by tensor True", "by tensor False", "by True"}
    assert set(+seen) == expected
    assert all(seen[corner] >= 10 for corner in expected), seen


@pytest.mark.parametrize("dtype", DTYPES)
def test_small_integers_sum_exactly_in_f32(dtype: str) -> None:
    for seed in range(200):
        call = random_call(np.random.default_rng(seed), dtype=dtype)
        sums = exact(call)
        assert (np.abs(sums) < EXACT["f32"]).all()
        assert (sums == np.rint(sums)).all()
        assert (compute(call).astype(np.float64) == sums).all()


def test_a_seed_names_its_call() -> None:
    for make in (random_call, mutated_call):
        one, two = (make(np.random.default_rng(7)) for _ in range(2))
        assert describe(one) == describe(two)
        assert all(np.array_equal(a, b) for a, b in zip(one.inputs, two.inputs, strict=True) if a is not None)


def test_a_description_is_one_line_with_shapes_and_attributes() -> None:
    drawn = repr(Drawn(3, random_call(np.random.default_rng(3), "ConvTranspose", "bf16", values="normal")))
    assert drawn.startswith("seed 3: ConvTranspose(bf16[")
    assert "strides=[" in drawn
    assert "\n" not in drawn
