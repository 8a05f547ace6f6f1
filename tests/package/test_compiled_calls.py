"""Calls of steps without Python: what they give, what they leave to Python, and what they never touch.

Each judge compares a call with the same call through Python alone: bytes of the results, whose arrays they are, and the
words of refusals.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import opwright_kernels as ok
import pytest
from opwright_kernels import _compiled_calls, _operation, _scratch
from opwright_kernels._steps import StepOperation
from support.compiled_calls import BF16, F32, Call, drawn, frames, known, outcome, through_python

COMPILED = """
import numpy, opwright_kernels as ok
from opwright_kernels import _compiled_calls
row = numpy.arange(5, dtype=numpy.float32)
for _ in range({calls}):
    ok.relu(row)
print(_compiled_calls.state)
"""


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Calls answered a second time are told of."""
    if _compiled_calls._new is None:
        _compiled_calls.start()
    if _compiled_calls._new is None:
        pytest.skip(_compiled_calls.state)
    yield
    _operation.forget()


def varied(draw: random.Random, call: Call, made: Any) -> Callable[[], Call]:
    """What makes a call that differs from another one in a thing or none, in memory of its own; many are refused."""
    name, inputs, options = call
    at, kind = draw.randrange(len(inputs)), draw.choice((F32, BF16, np.float64, np.int32))
    results = made if isinstance(made, tuple) else (made,)
    first = results[0]
    others = (None, True, 1, 1.0, "bf16", [0], (0,), [True], np.int64(0), b"", -0.0, 10**30, float("nan"))
    threads = draw.choice((1, 2, 0, True, 10**30, "2", np.int64(1)))
    changed = {**options, draw.choice(sorted(options)) if options else "threads": draw.choice(others)}
    special = draw.choice((None, False, True, 3))

    def own() -> tuple[Any, ...]:
        return tuple(None if one is None else one.copy() for one in inputs)

    def replaced(change: Callable[[Any], Any]) -> Call:
        whole = own()
        return name, (*whole[:at], change(whole[at]), *whole[at + 1 :]), options

    def to(out: Any) -> Call:
        return name, own(), {**options, "out": out}

    def filled() -> tuple[Any, ...]:
        return tuple(np.full_like(one, 5) for one in results)

    def read_only() -> Any:
        array = np.zeros_like(first)
        array.flags.writeable = False
        return array

    def shifted() -> Any:
        return np.zeros(first.nbytes + 8, np.uint8)[1 : 1 + first.nbytes].view(first.dtype).reshape(first.shape)

    def in_place() -> Call:
        whole = own()
        return name, whole, {**options, "out": whole[at]}

    def beside() -> Call:
        """An output that begins within an input, or is a view of all of it."""
        memory = np.zeros(2 * first.nbytes + 64, np.uint8)
        given = memory[: first.nbytes].view(first.dtype).reshape(first.shape)
        begin = 0 if kind is F32 else first.dtype.itemsize if kind is BF16 else first.nbytes
        out = memory[begin : begin + first.nbytes].view(first.dtype).reshape(first.shape)
        return (
            name,
            tuple(given if one is not None and one.shape == first.shape else one for one in own()),
            {
                **options,
                "out": out,
            },
        )

    choices: list[Callable[[], Call]] = [
        lambda: (name, own(), options),
        lambda: to(filled() if len(results) > 1 else filled()[0]),
        lambda: to(list(filled())),
        lambda: to((None, *filled()[1:])),
        lambda: to(filled() * 2),
        lambda: to(read_only()),
        lambda: to(np.zeros((*first.shape, 2), first.dtype)[..., 0]),
        lambda: to(shifted()),
        lambda: to(first.astype(np.float64)),
        in_place,
        beside,
        lambda: (name, own(), {**options, "threads": threads}),
        lambda: (name, own(), {**options, "specialize": special}),
        lambda: (name, own(), changed),
    ]
    if inputs[at] is not None:
        choices += [
            lambda: replaced(lambda one: np.repeat(one, 2, axis=-1)[..., ::2]),
            lambda: replaced(np.asfortranarray),
            lambda: replaced(lambda one: one.astype(kind)),
            lambda: replaced(lambda one: one[:0]),
            lambda: replaced(lambda one: one[:1]),
            lambda: replaced(lambda one: one.tolist()),
            lambda: replaced(lambda one: one.view(np.matrix) if one.ndim == 2 else None),
            lambda: replaced(lambda one: one.astype(np.float32).astype(">f4")),
        ]
    return draw.choice(choices)


@pytest.mark.parametrize("case", range(40))
def test_a_call_gives_what_it_gives_through_python(case: int) -> None:
    draw = random.Random(f"calls {case} {os.environ.get('OPWRIGHT_SEED', '')}")
    call = drawn(draw)
    made = known(call)
    for _ in range(25):
        make = varied(draw, call, made)
        name, inputs, options = make()
        wanted = outcome(through_python(name), inputs, options)
        for _ in range(2):
            _, inputs, options = make()
            assert outcome(getattr(ok, name), inputs, options) == wanted, (name, make()[1:])


@pytest.mark.parametrize("case", range(20))
def test_a_plain_call_like_one_before_meets_no_python(case: int) -> None:
    draw = random.Random(f"frames {case} {os.environ.get('OPWRIGHT_SEED', '')}")
    name, inputs, options = call = drawn(draw)
    made = known(call)
    results = made if isinstance(made, tuple) else (made,)
    outs = tuple(np.empty_like(one) for one in results)
    others = tuple(None if one is None else one.copy() for one in inputs)
    function = getattr(ok, name)
    scratch = {"address", "memory"}  # which finds memory for the kernel
    assert frames(lambda: function(*others, **options)) - scratch == {name}
    assert frames(lambda: function(*others, **options, threads=1)) - scratch == {name}
    if not getattr(sys.modules[f"opwright_kernels._{name}"].OPERATION, "dtype_attributes", None):
        out = outs if len(outs) > 1 else outs[0]
        assert frames(lambda: function(*others, **options, out=out)) - scratch == {name}


def test_what_settings_change_is_asked_for_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.arange(24, dtype=F32).reshape(4, 6)
    known(("soft_max", (rows,), {"axis": 1}))
    wanted = ok.soft_max(rows, axis=1).tobytes()
    monkeypatch.setattr(_scratch, "POISON", 0xFF)
    for threads in (1, 2, 3):
        ok.set_num_threads(threads)
        for _ in range(3):
            assert ok.soft_max(rows, axis=1).tobytes() == wanted
    monkeypatch.setenv("OPWRIGHT_ISA", "portable")
    _operation.forget()
    assert "soft_max_f32_portable" in str(ok.explain("soft_max", rows, axis=1))
    assert np.allclose(ok.soft_max(rows, axis=1), np.frombuffer(wanted, F32).reshape(4, 6))


def test_more_calls_than_are_remembered_stay_right() -> None:
    for cells in [*range(1, 90), *range(1, 90)]:
        row = np.arange(-3, cells - 3, dtype=F32)
        for _ in range(2):
            assert ok.relu(row).tolist() == np.maximum(row, 0).tolist()


def test_calls_of_many_threads_stay_apart() -> None:
    wrong: list[int] = []

    def work(first: int) -> None:
        for turn in range(300):
            rows = np.full((2 + (first + turn) % 5, 40), first, F32)
            if not (ok.soft_max(rows, axis=1) == F32(1) / F32(40)).all() or ok.relu(rows)[1, 1] != first:
                wrong.append(first)
            if turn % 60 == 59:
                _compiled_calls.forget()

    crew = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    assert not wrong


def test_large_results_lie_as_they_do_through_python() -> None:
    rows = np.ones((1025, 1031), F32)  # more than 4 MiB
    known(("relu", (rows,), {}))
    for _ in range(3):
        made = ok.relu(rows)
        assert made.ctypes.data % 64 == 0
        assert (made == 1).all()


def test_arrays_live_no_longer_than_their_calls() -> None:
    row = np.ones(77, F32)
    known(("relu", (row,), {}))
    base = sys.getrefcount(row), sys.getrefcount(row.dtype)
    for _ in range(100):
        out = np.empty(77, F32)
        assert ok.relu(row, out=out) is out
        assert sys.getrefcount(out) == 2
        gone = weakref.ref(ok.relu(row))
        assert gone() is None
        with pytest.raises(ok.SpecError):
            ok.relu(row, out=row[::-1])
    assert abs(sys.getrefcount(row) - base[0]) < 5
    assert abs(sys.getrefcount(row.dtype) - base[1]) < 20


@pytest.mark.parametrize(
    ("calls", "setting", "state", "later"),
    [
        (3, None, "not compiled yet", "not compiled yet"),
        (3, "1", "compiled", "compiled"),
        (_compiled_calls.OFTEN + 1, None, "compiled", "compiled"),
        (_compiled_calls.OFTEN + 1, "0", "Python, as OPWRIGHT_CALLS=0 says", "not compiled yet"),
    ],
)
def test_it_is_compiled_for_programs_that_call_often(
    calls: int, setting: str | None, state: str, later: str, tmp_path: Path
) -> None:
    """And `later`, at a few calls, in a program that says nothing of it but has the same cache."""
    environment = {name: value for name, value in os.environ.items() if name != "OPWRIGHT_CALLS"}
    environment["OPWRIGHT_CACHE_DIR"] = str(tmp_path)

    def printed(count: int, **settings: str) -> str:
        text, settings = COMPILED.format(calls=count), {**environment, **settings}
        done = subprocess.run([sys.executable, "-c", text], env=settings, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert printed(calls, **({} if setting is None else {"OPWRIGHT_CALLS": setting})) == state
    assert printed(3) == "not compiled yet"
    assert printed(_compiled_calls.SOON + 1) == later


def test_a_class_has_python_s_call_still() -> None:
    known(("relu", (np.ones(3, F32),), {}))
    operation = sys.modules["opwright_kernels._relu"].OPERATION
    assert StepOperation.call(operation, (np.ones(3, F32),), (), None, None, None).tolist() == [1, 1, 1]
