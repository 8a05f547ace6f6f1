"""Arguments that fail, lie or change: a right result, or a refusal in bounded words; nothing is remembered wrongly."""

from __future__ import annotations

import enum
import sys
import time
import types
from typing import Any

import numpy as np
import opwright_kernels as ok
import pytest
from opwright_kernels import _operation, _remember
from support.generated import PACKAGE

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason="torch is missing")

F32 = np.float32
SRC = np.arange(5, dtype=F32).reshape(1, 5, 1)
WEIGHTS = np.ones((2, 1, 1), F32)
LISTS: dict[str, Any] = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
EXPECTED = SRC[:, :-1] + SRC[:, 1:]
LONGEST = 4000  # characters of a message
QUICK = 2.0  # seconds of CPU


def call(src: Any = SRC, weights: Any = WEIGHTS, **changes: Any) -> Any:
    return ok.convolution(src, weights, **{**LISTS, **changes})


def refusal(*arguments: Any, **changes: Any) -> ok.SpecError:
    """The refusal of a call, which comes quickly and in bounded words; an innocent call is right before and after."""
    assert np.array_equal(call(), EXPECTED)
    out = np.full(EXPECTED.shape, 7, F32)
    begin = time.process_time()
    with pytest.raises(ok.SpecError) as caught:
        call(*arguments, **{"out": out, **changes})
    assert time.process_time() - begin < QUICK
    for words in (str(caught.value), caught.value.got, caught.value.expected):
        assert 0 < len(words) < LONGEST
    assert (out == 7).all()
    assert np.array_equal(call(), EXPECTED)
    return caught.value


# Lists


def itself() -> list[Any]:
    endless: list[Any] = []
    endless += [endless, endless]
    return endless


def deep(depth: int, kind: type = list) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = kind([value])
    return value


def shared(levels: int, kind: type = list) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = kind([value, value])
    return value


NESTED = {
    "a list that contains itself": itself,
    "a list nested 5,000 deep": lambda: deep(5000),
    "a tuple nested 5,000 deep": lambda: deep(5000, tuple),
    "22 levels of one list twice": lambda: shared(22),
    "60 levels of one tuple twice": lambda: shared(60, tuple),
    "a dict in a list": lambda: [{"a": shared(60)}],
}


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("argument", ["strides", "groups", "auto_pad", "threads", "specialize"])
def test_nested_lists_are_refused_quickly(argument: str, name: str) -> None:
    error = refusal(**{argument: NESTED[name]()})
    assert (error.argument, isinstance(error, TypeError)) == (argument, True)
    if argument == "strides":
        refusal(strides=[1, NESTED[name]()])
        refusal(strides=(NESTED[name](),))


@pytest.mark.parametrize("name", NESTED)
def test_nested_lists_are_no_arrays(name: str) -> None:
    assert refusal(NESTED[name]()).rule == "src-kind"
    assert refusal(out=NESTED[name]()).rule == "out-kind"


LONG = {
    "a list of a million integers": [1] * 10**6,
    "a list of a million integers out of range": [0] * 10**6,
    "a list of a million texts": ["x" * 100] * 10**6,
    "a million floats": [1.0] * 10**6,
    "an array of a million integers": np.ones(10**6, np.int64),
    "an integer of 100,000 digits": [10**100_000],
    "a text of 3 MB": "x" * 3_000_000,
    "bytes of 3 MB": b"x" * 3_000_000,
    "a dict of a million entries": dict.fromkeys(range(10**6)),
    "an object with a name of 3 MB": type("x" * 3_000_000, (), {})(),
    "a type with a name of 3 MB": type("x" * 3_000_000, (), {}),
    "an array of 5,000 fields": np.zeros(1, [(f"field{n}", F32) for n in range(5000)]),
    "an object that says 3 MB of itself": type("Long", (), {"__repr__": lambda self: "x" * 3_000_000})(),
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("argument", ["strides", "groups", "auto_pad", "src", "out", "threads"])
def test_messages_are_bounded_whatever_was_given(argument: str, name: str) -> None:
    assert refusal(**{argument: LONG[name]}).argument == argument


def test_the_nearest_value_is_named_in_bounded_length() -> None:
    stated = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    with pytest.raises(ok.SpecError) as caught:
        ok.convolution_backward_data(SRC, WEIGHTS, np.zeros(10**6, np.int32), **stated)
    assert caught.value.rule == "dst_shape_tensor-length"
    assert "1000000 entries" in caught.value.got
    assert len(str(caught.value)) < LONGEST


def test_an_unknown_name_is_reported_in_bounded_length() -> None:
    with pytest.raises(ValueError, match="there is no operation") as unknown:
        ok.explain("x" * 3_000_000)
    assert len(str(unknown.value)) < LONGEST


# Objects whose own methods fail


class FailureError(Exception):
    """What no caller of this package may ever see."""

    def __str__(self) -> str:
        raise RuntimeError("even this fails")


def fail(*_: Any, **__: Any) -> Any:
    raise FailureError


def failing(name: str, *bases: type, **members: Any) -> Any:
    """An object whose attribute or method `name` raises."""
    member = fail if bases and name in dir(bases[0]) and callable(getattr(bases[0], name)) else property(fail)
    return type("Object", bases or (object,), {name: member, "__repr__": fail, **members})


@pytest.mark.parametrize("argument", ["src", "weights", "bias", "out"])
@pytest.mark.parametrize(
    ("name", "members"),
    [
        ("__array_interface__", {}),
        ("__array_struct__", {"__array_interface__": {"version": 3}}),
        ("__array__", {}),
        ("__class__", {}),
        ("__dlpack__", {"__dlpack_device__": lambda self: (1, 0)}),
        ("__dlpack_device__", {"__dlpack__": fail}),
        ("requires_grad", {"__dlpack__": fail, "__dlpack_device__": lambda self: (1, 0)}),
        ("is_neg", {"__dlpack__": fail, "__dlpack_device__": lambda self: (1, 0)}),
        ("device", {"__dlpack__": fail, "__dlpack_device__": lambda self: (2, 0)}),
    ],
)
def test_arrays_whose_protocol_fails_are_refused(name: str, members: dict[str, Any], argument: str) -> None:
    error = refusal(**{argument: failing(name, **members)()})
    assert (error.rule, error.argument) == (f"{argument}-kind", argument)


@pytest.mark.parametrize("argument", ["strides", "groups", "auto_pad", "threads", "specialize"])
@pytest.mark.parametrize("name", ["__int__", "__index__", "__iter__", "__len__", "__class__", "__eq__", "__hash__"])
def test_objects_whose_methods_fail_are_refused(name: str, argument: str) -> None:
    assert refusal(**{argument: failing(name)()}).argument == argument


@pytest.mark.parametrize("name", ["__iter__", "__len__", "__getitem__", "copy", "__eq__", "__class__"])
@pytest.mark.parametrize("base", [list, tuple])
def test_of_a_list_the_memory_counts_and_not_what_its_class_says(base: type, name: str) -> None:
    kind = failing(name, base)
    assert np.array_equal(call(strides=kind([1])), EXPECTED)
    assert np.array_equal(call(strides=kind([2])), EXPECTED[:, ::2])
    assert refusal(strides=kind([1, 2])).rule == "strides-length"


@pytest.mark.parametrize("name", ["__int__", "__index__", "__add__", "__radd__", "__eq__", "__str__"])
def test_of_numbers_and_text_the_value_counts_and_not_what_their_class_says(name: str) -> None:
    for value in (failing(name, int)(1), enum.IntEnum("Number", {"one": 1})(1)):
        assert np.array_equal(call(strides=[value], groups=value, threads=value), EXPECTED)
    for value in (failing(name, str)("valid"), enum.Enum("Word", {"valid": "valid"}, type=str)("valid")):
        assert np.array_equal(call(auto_pad=value), EXPECTED)


def test_numpy_scalars_whose_conversion_fails_are_refused() -> None:
    kind = failing("__int__", np.int64)
    assert refusal(groups=kind(1)).rule == "groups-kind"
    assert refusal(strides=[kind(1)]).rule == "strides-kind"


@pytest.mark.parametrize(
    ("legal", "refused"),
    [
        (np.int8(1), np.True_),
        (np.uint16(1), np.float16(2**-24)),
        (np.int64(1), np.timedelta64(1, "ns")),
        (1, True),
        (1, 1.0),
        (1, b"\1"),
    ],
    ids=str,
)
def test_what_is_refused_stays_refused_after_a_legal_call_with_the_same_bytes(legal: object, refused: object) -> None:
    for _ in range(2):
        assert np.array_equal(call(strides=[legal]), EXPECTED)
        assert refusal(strides=[refused]).rule == "strides-kind"


def test_lists_that_hold_themselves_or_each_other_many_times_are_refused_at_once() -> None:
    itself: list[Any] = []
    itself.append(itself)
    nested: list[Any] = [1]
    for _ in range(200):
        nested = [nested, nested]
    for strides in (itself, nested):
        assert refusal(strides=strides).rule == "strides-kind"


def test_one_list_for_several_attributes_is_remembered_as_well() -> None:
    one, none = [1], [0]
    for _ in range(2):
        result = call(strides=one, dilations=one, pads_begin=none, pads_end=none)
        assert np.array_equal(result, EXPECTED)
    one[0] = 2
    assert np.array_equal(call(strides=one), EXPECTED[:, ::2])


# Lists that change


def changing(strides: list[int], at: int) -> tuple[Any, list[int]]:
    """A tracer that makes every stride 2 before line `at` of the package runs, as a signal handler could, and its count."""
    seen = [0]

    def trace(frame: types.FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(str(PACKAGE)):
            return None
        if event == "line":
            if seen[0] == at:
                strides[:] = [2]
            seen[0] += 1
        return trace

    return trace, seen


def test_a_list_that_changes_at_any_line_of_a_call_is_remembered_as_what_it_was() -> None:
    results = {1: EXPECTED, 2: EXPECTED[:, ::2]}
    call()
    call(strides=[2])
    lines = 0
    for remembered in (False, True):
        at = 0
        while True:
            _remember.forget()
            if remembered:
                call()
            strides = [1]
            tracer, seen = changing(strides, at)
            before = sys.gettrace()
            sys.settrace(tracer)
            try:
                result = call(strides=strides)
            finally:
                sys.settrace(before)
            assert any(np.array_equal(result, expected) for expected in results.values())
            for stride, expected in results.items():
                assert np.array_equal(call(strides=[stride]), expected)
            at += 1
            if at >= seen[0]:
                break
        lines = max(lines, at)
    assert lines > 50


def test_a_stated_shape_that_changes_while_it_is_read_is_remembered_as_what_it_was() -> None:
    plain = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1], "auto_pad": "none"}
    stated = np.array([1, 6, 1], np.int32)
    own = _operation._own
    infos = ok._OPERATIONS["convolution_backward_data"].inputs
    taken = own(stated, infos[2])
    stated[1] = 5
    assert taken.tolist() == [1, 6, 1]
    assert ok.convolution_backward_data(SRC, WEIGHTS, taken, **plain).shape == (1, 6, 1)


def test_what_separates_the_lists_of_a_key_is_no_entry_of_them() -> None:
    lists = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    src, weights = np.ones((1, 3, 3, 1), F32), np.ones((1, 1, 1, 1), F32)
    assert ok.conv_transpose(src, weights, **lists).shape == (1, 3, 3, 1)
    for moved in (
        {"strides": [1, 1, False, 0, 0], "pads_begin": [0, 0], "pads_end": [1, 1], "dilations": []},
        {"strides": [1], "pads_begin": [1, False, 0, 0], "pads_end": [0, 0], "dilations": [1, 1]},
        {**lists, "output_padding": []},
        {**lists, "output_padding": [False]},
        {**lists, "strides": [True, 1]},
        {**lists, "strides": [1.0, 1]},
        {**lists, "groups": True},
        {**lists, "data_format": "NXC\0XOI", "auto_pad": "none"},
    ):
        with pytest.raises(ok.SpecError):
            ok.conv_transpose(src, weights, **moved)


# Tensors whose memory is not what they are


class Interface:
    def __init__(self, data: Any, shape: tuple[int, ...] = SRC.shape) -> None:
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": "<f4", "data": data}


@pytest.mark.parametrize("address", [0, 8, 4095])
def test_an_array_interface_without_memory_is_refused(address: int) -> None:
    assert refusal(Interface((address, False))).rule == "src-kind"
    assert refusal(out=Interface((address, False), EXPECTED.shape)).rule == "out-kind"


def lazies() -> dict[str, Any]:
    from torch._subclasses.fake_tensor import FakeTensorMode

    def resized(size: int, start: int) -> Any:
        memory = torch.ones(16)
        view = memory[start : start + 5].view(1, 5, 1)
        memory.untyped_storage().resize_(size)
        return view

    with FakeTensorMode():
        fake = torch.ones(1, 5, 1)
    signed = torch.full((1, 5, 1), 1 + 2j).conj()
    return {
        "a storage of 0 bytes": resized(0, 0),
        "a view of a storage of 0 bytes": resized(0, 7),
        "a storage that was cut": resized(20, 2),
        "a fake tensor": fake,
        "zeros without memory": torch._efficientzerotensor((1, 5, 1)),
        "a negative bit": signed.imag,
        "a conjugate bit": signed,
    }


@needs_torch
@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
@pytest.mark.parametrize("argument", ["src", "out"])
def test_tensors_whose_memory_does_not_hold_their_values_are_refused(argument: str) -> None:
    for name, tensor in lazies().items():
        assert refusal(**{argument: tensor}).rule == f"{argument}-kind", name


@needs_torch
def test_such_tensors_are_taken_once_their_values_are_in_memory() -> None:
    signed = torch.full((1, 5, 1), 1 + 2j).conj().imag
    error = refusal(signed)
    assert "resolve_neg()" in error.expected
    assert (call(signed.resolve_neg()) == -4).all()
    assert (call(torch._efficientzerotensor((1, 5, 1)).clone()) == 0).all()
    assert call(torch.zeros(1, 5, 0)[..., :0], np.ones((2, 0, 1), F32)).shape == (1, 4, 1)
