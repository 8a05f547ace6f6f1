"""Kernels with sizes as constants give the bits of those with sizes at run time, on every solve and dtype."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import opwright_kernels as ok
import pytest
from opwright_kernels import _isa, _operation, _specialize
from support import rulings
from support.call import Call
from support.calls import Rng, random_call
from support.draws import FULL, rng
from support.generated import run, same
from support.rulings import DTYPES, OPERATIONS

# Channels, groups, the kernel, its layout, and the literals that such a call gets whatever its extents are.
PROBLEMS: dict[str, tuple[int, int, tuple[int, int], str]] = {
    "depthwise, channels last": (19, 19, (4, 4), "NXC"),
    "depthwise, channels first": (5, 5, (4, 4), "NCX"),
    "depthwise of many taps, channels last": (19, 19, (9, 9), "NXC"),
}
SOLVES = {"y": "convolution", "x": "convolution_backward_data", "w": "convolution_backward_weights"}

pytestmark = pytest.mark.skipif(not any(isa.fast for isa in _isa.usable(_isa.ISAS)), reason="no fast kernels here")


@pytest.fixture(autouse=True)
def _chosen_anew() -> None:
    """No choice of kernels that another test of this worker forced."""
    _operation.forget()


@pytest.fixture(autouse=True)
def _own_libraries() -> Iterator[None]:
    """Room for the libraries of each test, however many others have loaded."""
    before = dict(_specialize._libraries)
    _specialize._libraries.clear()
    yield
    _specialize._libraries.update(before)


def arguments(random: Rng, solve: str, dtype: str, problem: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The inputs and attributes of a call with random batch, extents and pads, and Inf among its data now and then."""
    channels, groups, kernel, layout = PROBLEMS[problem]
    batch, *extents = (int(n) for n in random.integers([1, *kernel], [4, 80, 80]))
    pads = [[int(n) for n in random.integers(0, kernel)] for _ in range(2)]
    shapes = {
        "big": (batch, channels, *extents),
        "w": (channels, channels // groups, *kernel),
        "small": (batch, channels, *(x + a + b - k + 1 for x, a, b, k in zip(extents, *pads, kernel))),
    }

    def tensor(name: str) -> np.ndarray:
        values = random.standard_normal(shapes[name]).astype(DTYPES[dtype])
        if random.random() < 0.2:
            values.reshape(-1)[random.integers(values.size)] = np.inf
        return values if name == "w" or layout == "NCX" else np.ascontiguousarray(np.moveaxis(values, 1, -1))

    inputs = tuple(map(tensor, {"y": ("big", "w"), "x": ("small", "w"), "w": ("big", "small")}[solve]))
    if solve == "x":
        shape = shapes["big"] if layout == "NCX" else (batch, *extents, channels)
        inputs = (*inputs, np.array(shape, np.int32))
    if solve == "w":
        inputs = (*inputs, np.array(shapes["w"], np.int32))
    attributes = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": pads[0], "pads_end": pads[1]}
    return inputs, {**attributes, "groups": groups, "data_format": layout, "weights_format": "OIX"}


@pytest.mark.sweep
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("dtype", DTYPES if FULL else ("f32", "bf16"))
@pytest.mark.parametrize("solve", SOLVES)
def test_random_shapes_give_the_same_bits_with_constants(solve: str, dtype: str, problem: str) -> None:
    random = rng(solve, dtype, problem)
    number, specialized = 40 if FULL else 3, 0
    for _ in range(number):
        inputs, attributes = arguments(random, solve, dtype, problem)
        function = getattr(ok, SOLVES[solve])
        expected = function(*inputs, **attributes)
        for threads in (1, 2):
            found = function(*inputs, **attributes, threads=threads, specialize=True)
            assert found.tobytes() == expected.tobytes(), (inputs[0].shape, attributes)
        specialized += ok.explain(SOLVES[solve], *inputs, **attributes, specialize=True).specialized
    assert specialized > number / 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPERATIONS)
def test_random_calls_give_the_same_bits_with_constants(op: str, dtype: str) -> None:
    """Whatever the drawn calls are made of; the first few that would be specialised are compiled for."""
    random, most = rng("specialize", op, dtype), 12 if FULL else 1
    compiled: set[str] = set()
    for _ in range(20_000 if FULL else 2000):
        call = random_call(random, op, dtype)
        explanation = explained(call)
        if explanation.specialized and explanation.specialization not in compiled:
            assert run(call, specialize=True).tobytes() == run(call).tobytes(), (explanation, call)
            compiled.add(explanation.specialization)
        if len(compiled) == most:
            break
    assert compiled


def test_random_calls_with_constants_give_what_the_rulings_give(isa: str) -> None:
    """On every instruction set a library for each text that takes constants, and all drawn calls that it serves.

    With OPWRIGHT_SWEEP=full the whole of test_conformance.py does so.
    """
    random = rng("constants", isa)
    libraries: dict[str, tuple[str, str]] = {}
    for _ in range(1500):
        dtype = "bf16" if isa.endswith("_bf16") else str(random.choice(list(DTYPES)))
        call = random_call(random, dtype=dtype)
        explanation = explained(call)
        if not explanation.specialized:
            continue
        text = re.sub(" (was|is) compiled| by the first call.*", "", explanation.specialization)
        library = (text, explanation.variant.dtype)
        if libraries.setdefault(re.sub("[0-9]+", "", text), library) == library:
            assert same(run(call, specialize=True), rulings.compute(call)), (explanation, call)
    assert len(libraries) == 0 if isa == "portable" else len(libraries) >= 4


def explained(call: Call) -> Any:
    return ok.explain(call.op, *call.inputs, **call.attributes, specialize=True)
