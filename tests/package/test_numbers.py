"""What callers give becomes integers, numbers and text, or is refused in words that help."""

import ml_dtypes
import numpy as np
import pytest
from opwright_kernels import _numbers
from support.refused import refused

try:
    import torch
except ImportError:
    torch = None


# --- integers, numbers, text


@pytest.mark.parametrize(
    "value",
    [[1, 2], (1, 2), [np.int8(1), np.uint64(2)], np.array([1, 2]), np.array([1, 2], np.uint8), [np.array(1), 2]],
)
def test_integer_lists_come_in_many_kinds(value):
    integers = _numbers.int_list("x", value)
    assert integers == (1, 2)
    assert {type(integer) for integer in integers} == {int}


def test_an_empty_list_is_a_list_of_integers():
    assert _numbers.int_list("x", []) == ()
    assert _numbers.int_list("x", np.zeros(0, np.int32)) == ()


@pytest.mark.parametrize(
    "value",
    [
        [True, 1], [np.True_, 1], [1.0, 2], [np.float32(1)], ["1"], [None], [[1], [2]], [np.timedelta64(1)],
        [np.array([1])], 2, 2.0, "12", b"12", None, True, {1, 2}, {1: 2}, range(2),
        np.array([1.0]), np.array([True]), np.array([[1]]),
        np.array(1), np.ma.array([1]), np.array(["1"]), np.zeros(2, "m8[s]"),
    ],
)  # fmt: skip
def test_what_is_no_list_of_integers_is_refused(value):
    refusal = refused(_numbers.int_list, value)
    assert (refusal.rule, refusal.wrong_kind, refusal.expected) == ("x-kind", True, "a list of integers")


def test_integral_floats_are_refused_with_the_integers_that_were_meant():
    assert refused(_numbers.int_list, [1.0, 2]).nearest == [1, 2]
    assert refused(_numbers.int_list, [1.5, 2.0]).nearest is None
    assert refused(_numbers.int_scalar, 2.0).nearest == 2
    assert refused(_numbers.int_scalar, float("inf")).nearest is None
    assert refused(_numbers.int_list, [True, 2.0]).nearest is None


@pytest.mark.parametrize("entry", [2**63, -(2**63) - 1, np.uint64(2**63), pytest.param(10**4301, id="huge")])
def test_integers_beyond_int64_are_refused(entry):
    for refusal in refused(_numbers.int_list, [1, entry]), refused(_numbers.int_scalar, entry):
        assert (refusal.rule, refusal.wrong_kind) == ("x-int64", False)
    assert _numbers.int_list("x", [2**63 - 1, -(2**63)]) == (2**63 - 1, -(2**63))


def test_an_array_beyond_int64_is_refused():
    assert refused(_numbers.int_list, np.array([2**63], np.uint64)).rule == "x-int64"


@pytest.mark.parametrize("value", [3, np.int16(3), np.uint64(3), np.array(3)])
def test_an_integer_comes_in_many_kinds(value):
    assert _numbers.int_scalar("x", value) == 3
    assert type(_numbers.int_scalar("x", value)) is int


@pytest.mark.parametrize(
    "value", [True, np.True_, 3.0, "3", None, [3], np.array([3]), np.array(3.0), np.timedelta64(3)]
)
def test_what_is_no_integer_is_refused(value):
    refusal = refused(_numbers.int_scalar, value)
    assert (refusal.rule, refusal.wrong_kind, refusal.expected) == ("x-kind", True, "an integer")


@pytest.mark.parametrize(
    "value", [2, 2.0, np.float32(2), np.int8(2), ml_dtypes.bfloat16(2), np.array(2.0), np.array(2)]
)
def test_a_number_comes_in_many_kinds(value):
    assert _numbers.real_scalar("x", value) == 2.0
    assert type(_numbers.real_scalar("x", value)) is float


@pytest.mark.parametrize("value", [True, np.False_, np.array(True), "2", None, 2j, [2.0], np.array([2.0])])
def test_what_is_no_number_is_refused(value):
    refusal = refused(_numbers.real_scalar, value)
    assert (refusal.rule, refusal.wrong_kind, refusal.expected) == ("x-kind", True, "a number")


def test_an_integer_beyond_float64_is_refused():
    assert refused(_numbers.real_scalar, 10**400).rule == "x-range"


def test_text_is_text_and_nothing_else():
    assert type(_numbers.text("x", np.str_("NXC"))) is str
    for value in (b"NXC", None, 1, ["NXC"]):
        assert refused(_numbers.text, value).rule == "x-kind"
