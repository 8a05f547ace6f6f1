"""The exceptions of the package say what to do, and survive pickling and copying."""

import copy
import pickle

import pytest
from opwright_kernels import _errors

FIELDS = {
    "op": "conv_transpose",
    "rule": "strides-range",
    "argument": "strides",
    "got": "[0, 1]",
    "expected": "every entry >= 1",
    "spec": "spec/onednn_graph/_common.yaml:15",
    "nearest": [1, 1],
}


def test_the_message_teaches():
    assert str(_errors.SpecError(**FIELDS)) == (
        "conv_transpose: rule strides-range: argument 'strides' is [0, 1], expected every entry >= 1"
        " (nearest valid: [1, 1]); see spec/onednn_graph/_common.yaml:15"
    )


def test_without_a_nearest_value_the_message_does_not_speak_of_one():
    error = _errors.SpecError(**{**FIELDS, "nearest": None})
    assert "nearest" not in str(error)
    assert error.nearest is None


def test_zero_is_a_nearest_value():
    assert "(nearest valid: 0)" in str(_errors.SpecError(**{**FIELDS, "nearest": 0}))


def test_the_fields_are_keywords_only():
    with pytest.raises(TypeError):
        _errors.SpecError("conv_transpose")  # type: ignore[misc, call-arg]


@pytest.mark.parametrize("kind", [_errors.SpecError, _errors.SpecTypeError])
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_and_copying_keep_kind_message_and_fields(kind, protocol):
    error = kind(**FIELDS)
    for twin in pickle.loads(pickle.dumps(error, protocol)), copy.copy(error), copy.deepcopy(error):
        assert type(twin) is kind
        assert str(twin) == str(error)
        assert {name: getattr(twin, name) for name in FIELDS} == FIELDS


def test_a_wrong_kind_is_a_type_error_and_a_value_error():
    assert issubclass(_errors.SpecTypeError, _errors.SpecError)
    assert issubclass(_errors.SpecTypeError, TypeError)
    assert issubclass(_errors.SpecTypeError, ValueError)
    assert not issubclass(_errors.SpecError, TypeError)


def test_a_refusal_becomes_the_error_of_the_operation():
    refusal = _errors.Refusal("src-kind", "src", "None", "an array", wrong_kind=True)
    error = refusal.error("convolution", "docs/api.md#arrays")
    assert type(error) is _errors.SpecTypeError
    assert (error.op, error.rule, error.argument) == ("convolution", "src-kind", "src")
    assert (error.got, error.expected, error.spec) == ("None", "an array", "docs/api.md#arrays")
    assert type(_errors.Refusal("r", "a", "0", "1").error("o", "s")) is _errors.SpecError
