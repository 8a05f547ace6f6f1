"""The generated validators and the interpreter's own reading of the spec give the same verdict on any call."""

from __future__ import annotations

from typing import Any

import numpy as np
import opwright_kernels as ok
import pytest
from opwright.oracle.validate import validate
from support.call import Call
from support.calls import describe, random_call
from support.mutated_calls import mutated_call
from support.specs import convolutions

LIBRARY = convolutions()
NAMES = [op.op for op in LIBRARY.ops]
CALLS = 700  # of each operation


def _generated(call: Call) -> tuple[tuple[int, ...] | None, str | None]:
    """The shape that the package infers, or the rule by which it refuses."""
    count = len(LIBRARY.op(call.op).inputs)
    inputs = [*call.inputs, *[None] * (count - len(call.inputs))]
    try:
        return ok.infer_shape(call.op, *inputs, **call.attributes), None
    except ok.SpecError as error:
        return None, error.rule.replace("_tensor-", "-")
    except TypeError as error:
        return None, str(error)


def _disagreement(call: Call) -> str | None:
    shape, rule = _generated(call)
    validation = validate(LIBRARY.op(call.op), call.inputs, call.attributes)
    if validation.accepted:
        verdict = f"accepted as {validation.shape}, but the package says {rule or shape}"
        return None if shape == validation.shape else verdict
    if rule is None:
        return f"refused by {validation.violations}, but the package infers {shape}"
    by_python = " " in rule  # a missing or unknown keyword is the interpreter's own TypeError
    known = rule in validation.violations or (
        by_python and any("missing" in v or "unknown" in v for v in validation.violations)
    )
    return None if known else f"the package names {rule}, the spec breaks {validation.violations}"


@pytest.mark.parametrize("name", NAMES)
def test_nearly_legal_calls_get_the_same_verdict_and_a_rule_that_the_spec_breaks(name: str) -> None:
    rng = np.random.default_rng(NAMES.index(name))
    refused = 0
    for _ in range(CALLS):
        call = mutated_call(rng, name)
        disagreement = _disagreement(call)
        assert disagreement is None, f"{describe(call)}: {disagreement}"
        refused += _generated(call)[0] is None
    assert CALLS // 4 < refused < CALLS


@pytest.mark.parametrize("name", NAMES)
def test_legal_calls_are_accepted_by_both(name: str) -> None:
    rng = np.random.default_rng(100 + NAMES.index(name))
    for _ in range(CALLS // 4):
        call = random_call(rng, name)
        disagreement = _disagreement(call)
        assert disagreement is None, f"{describe(call)}: {disagreement}"
        assert _generated(call)[1] is None


def test_the_values_that_explain_shows_are_those_of_the_interpreter() -> None:
    rng = np.random.default_rng(7)
    for _ in range(100):
        call = random_call(rng)
        op = LIBRARY.op(call.op)
        inputs: list[Any] = [*call.inputs, *[None] * (len(op.inputs) - len(call.inputs))]
        explanation = ok.explain(call.op, *inputs, **call.attributes)
        validation = validate(op, call.inputs, call.attributes)
        by_symbol = {step[0].rpartition("(")[2].rstrip(")"): step[1] for step in explanation.steps}
        for symbol, value in validation.values.items():
            assert by_symbol[symbol] == str(list(value) if isinstance(value, tuple) else value)
        assert explanation.variant.group_class == validation.group_class
