"""Random garbage for every argument: a right result or a refusal, never anything else, and later calls stay right."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import opwright_kernels as ok
import pytest
from support import rulings
from support.calls import Rng, random_call
from support.draws import FULL, rng
from support.generated import function, run, same
from support.rulings import OPERATIONS

pytestmark = pytest.mark.hard


def lying(random: Rng, value: Any) -> Any:
    """A list or tuple whose methods lie about what it holds."""
    base = tuple if isinstance(value, tuple) else list
    members: dict[str, Any] = {
        "__len__": lambda self: int(random.integers(-1, 99)),
        "__iter__": lambda self: iter([int(random.integers(9))] * 3),
        "__getitem__": lambda self, at: 1 / 0,
        "__eq__": lambda self, other: True,
        "__hash__": lambda self: 0,
    }
    chosen = {name: member for name, member in members.items() if random.random() < 0.5}
    return type("Lying", (base,), chosen)(value)


def raising(random: Rng) -> Any:
    names = ["__array_interface__", "__dlpack__", "__dlpack_device__", "__int__", "__index__", "__iter__", "__len__"]
    names += ["__float__", "__bool__", "__eq__", "__hash__", "__class__", "__repr__", "__str__", "shape", "dtype"]
    errors = [ValueError, TypeError, AttributeError, RuntimeError, KeyError, StopIteration, RecursionError, MemoryError]

    def member(error: type[Exception]) -> Any:
        def fail(*_: Any, **__: Any) -> Any:
            raise error("no")

        return property(fail) if random.random() < 0.5 else fail

    chosen = random.choice(names, int(random.integers(1, 8)), replace=False)
    return type("Raising", (), {str(name): member(errors[int(random.integers(len(errors)))]) for name in chosen})()


def nested(random: Rng) -> Any:
    value: Any = [1]
    for _ in range(int(random.choice([1, 3, 40, 3000]))):
        value = [[value, value], (value, value), [value], (value,)][int(random.integers(4))]
    if random.random() < 0.3:
        value = [value]
        value.append(value)
    return value


def garbage(random: Rng) -> Any:
    """A value that hardly any argument takes."""
    scalars = [np.bool_(1), np.float16(1), ml_dtypes.bfloat16(1), np.uint64(2**63), np.longdouble(1), np.complex64(1)]
    scalars += [np.timedelta64(1), np.datetime64(1, "s"), np.str_("NXC"), np.bytes_(b"x"), np.void(b"xx"), 1j, b"x"]
    scalars += [True, 1.0, float("nan"), 2**63, -(2**63) - 1, 10**5000, "", "NCX\0", "\ud800", None, ..., int, object()]
    dtypes = [
        "f4",
        "f2",
        "f8",
        "i4",
        "u8",
        "?",
        "O",
        "S3",
        "M8[s]",
        ">f4",
        [("a", "f4")],
        ml_dtypes.bfloat16,
        "c8",
        "V4",
    ]
    makers = [
        lambda: scalars[int(random.integers(len(scalars)))],
        lambda: raising(random),
        lambda: nested(random),
        lambda: [scalars[int(random.integers(len(scalars)))] for _ in range(int(random.integers(4)))],
        lambda: np.zeros(random.integers(0, 3, int(random.integers(0, 6))), dtypes[int(random.integers(len(dtypes)))]),
        lambda: iter([1, 1]),
        lambda: {1: 1},
        lambda: [1] * int(random.choice([0, 4, 100_000])),
        lambda: "x" * int(random.choice([1, 100_000])),
    ]
    return makers[int(random.integers(len(makers)))]()


def spoiled(random: Rng, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with one or two of them replaced, or lists that lie about themselves."""
    spoiled = dict(arguments)
    for name in random.choice([*arguments, "out", "threads"], int(random.integers(1, 3)), replace=False):
        value = arguments.get(str(name))
        lie = isinstance(value, (list, tuple)) and random.random() < 0.4
        spoiled[str(name)] = lying(random, value) if lie else garbage(random)
    return spoiled


def test_garbage_gets_a_right_result_or_a_refusal_and_spoils_no_later_call() -> None:
    random, refused, right = rng("garbage"), 0, 0
    calls = [random_call(random, op) for op in OPERATIONS for _ in range(3)]
    expected = [rulings.compute(call) for call in calls]
    for number in range(100_000 if FULL else 800):
        at = number % len(calls)
        call = calls[at]
        operation = ok._OPERATIONS[function(call.op)]
        names = [info.parameter for info in operation.inputs]
        arguments = {**dict(zip(names, call.inputs, strict=False)), **call.attributes}
        out = np.full(expected[at].shape, 7).astype(expected[at].dtype)
        given = spoiled(random, {**arguments, "out": out})
        try:
            result = getattr(ok, function(call.op))(**given)
        except (ok.SpecError, TypeError) as error:
            assert len(str(error)) < 4000
            assert (out == 7).all()
            refused += 1
        else:
            changed = {name for name in given if given[name] is not arguments.get(name)}
            assert result.dtype == expected[at].dtype
            same_lists = all(name in ("out", "threads") for name in changed)
            assert not same_lists or same(np.asarray(result), expected[at])
            right += 1
        if number % 3 == 0:
            assert same(run(call), expected[at])
    assert refused > 5 * right > 0
