"""When a call is compiled with its sizes as constants: who waits, who does not, and what is reported."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import opwright_kernels as ok
import pytest
from opwright_kernels import _isa, _load, _operation, _specialize
from support.generated import PACKAGE

CHANNELS = 11
SRC = np.random.default_rng(1).standard_normal((1, 9, 9, CHANNELS)).astype(np.float32)
WEIGHTS = np.random.default_rng(2).standard_normal((4, 4, 1, CHANNELS)).astype(np.float32)
LISTS: dict[str, Any] = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
LISTS |= {"groups": CHANNELS}  # depthwise with an unusual kernel: what gains from literals

fast = pytest.mark.skipif(not any(isa.fast for isa in _isa.usable(_isa.ISAS)), reason="no fast kernels here")


def call(**more: Any) -> Any:
    return ok.convolution(SRC, WEIGHTS, **{**LISTS, **more})


def explained(**more: Any) -> ok.Explanation:
    return ok.explain("convolution", SRC, WEIGHTS, **{**LISTS, **more})


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(_specialize, "setting", False)
    monkeypatch.setattr(_specialize, "_libraries", {})
    _operation.forget()
    yield
    _operation.forget()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The units that are compiled or loaded from now on."""
    units: list[str] = []
    load = _load.load

    def loading(unit: Any, *more: Any) -> Any:
        units.append(unit.name)
        return load(unit, *more)

    call()
    monkeypatch.setattr(_load, "load", loading)
    return units


def test_nothing_is_compiled_unless_it_is_asked_for(compiled: list[str]) -> None:
    for _ in range(5):
        call()
        call(specialize=False)
    explained(specialize=True)
    assert compiled == []
    assert not explained().specialized
    assert "off" in explained().specialization


@fast
def test_true_compiles_at_the_call_and_not_again(compiled: list[str]) -> None:
    expected = call()
    for _ in range(3):
        assert call(specialize=True).tobytes() == expected.tobytes()
    assert len([name for name in compiled if "fixed" in name]) == 1
    assert explained(specialize=True).specialized
    assert "taps 4, step 1" in explained(specialize=True).specialization
    assert not explained(specialize=False).specialized


@fast
def test_a_number_compiles_in_the_background_while_calls_go_on(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = threading.Event()
    load = _load.load

    def loading(*arguments: Any) -> Any:
        may_end.wait(60)
        return load(*arguments)

    monkeypatch.setattr(_load, "load", loading)
    monkeypatch.setattr(_specialize, "_builder", _specialize._Builder())
    expected = call()
    for _ in range(2):
        call(specialize=3)
    assert _specialize._builder.thread is None
    call(specialize=3)
    assert _specialize._builder.thread is not None
    for _ in range(20):  # nobody waits for the builder, which waits for us
        assert call(specialize=3).tobytes() == expected.tobytes()
    assert not explained(specialize=3).specialized
    assert "background" in explained(specialize=3).specialization
    may_end.set()
    end = time.monotonic() + 300
    while not explained(specialize=3).specialized and time.monotonic() < end:
        call(specialize=3)
        time.sleep(0.05)
    assert explained(specialize=3).specialized
    assert call(specialize=3).tobytes() == expected.tobytes()


@fast
def test_without_a_compiler_calls_go_on_and_explain_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    expected = call()
    monkeypatch.setattr(_load, "_loaded", {})
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.setenv("OPWRIGHT_CACHE_DIR", str(tmp_path))
    assert call(specialize=True).tobytes() == expected.tobytes()
    assert not explained(specialize=True).specialized
    assert "no C compiler" in explained(specialize=True).specialization


@fast
def test_a_process_loads_so_many_libraries_and_no_more(monkeypatch: pytest.MonkeyPatch, compiled: list[str]) -> None:
    monkeypatch.setattr(_specialize, "MAX_LIBRARIES", 0)
    call(specialize=True)
    assert compiled == []
    assert "no more" in explained(specialize=True).specialization


@fast
def test_where_constants_gain_nothing_none_are_compiled(compiled: list[str]) -> None:
    weights = np.ones((3, 3, CHANNELS, 64), np.float32)
    ok.convolution(SRC, weights, **LISTS | {"groups": 1}, specialize=True)
    assert not [name for name in compiled if "fixed" in name]
    explanation = ok.explain("convolution", SRC, weights, **LISTS | {"groups": 1}, specialize=True)
    assert not explanation.specialized
    assert "as fast" in str(explanation)


@pytest.mark.parametrize("value", [0, -1, "on", 1.5, 2.0, [1], np.True_])
def test_a_value_that_is_no_choice_is_refused_by_the_rule(value: Any) -> None:
    for ask in (call, explained):
        with pytest.raises(ok.SpecError) as caught:
            ask(specialize=value)
        assert (caught.value.rule, caught.value.argument) == ("specialize", "specialize")
        assert caught.value.expected == "False, True or an integer >= 1"
        assert caught.value.spec == "docs/API.md#specialize"
    with pytest.raises(ok.SpecError):
        ok.set_specialize(value)
    assert ok.get_specialize() is False


def test_the_setting_of_the_package_holds_for_calls_that_do_not_say() -> None:
    ok.set_specialize(7)
    assert ok.get_specialize() == 7
    assert "call 7" in explained().specialization or not any(isa.fast for isa in _isa.usable(_isa.ISAS))
    assert (
        explained(specialize=False).specialization
        == explained(specialize=False).specialization
        != explained().specialization
    )


@pytest.mark.parametrize(("text", "expected"), [("", "False"), ("off", "False"), ("on", "True"), ("12", "12")])
def test_the_environment_sets_the_default(text: str, expected: str) -> None:
    assert child("print(ok.get_specialize())", text) == expected


@pytest.mark.parametrize("text", ["0", "-1", "yes", "1.5"])
def test_a_wrong_environment_is_refused_by_name_when_it_is_asked(text: str) -> None:
    code = "try: ok.get_specialize()\nexcept ok.SpecError as e: print(e.rule, e.argument)"
    assert child(code, text) == "specialize OPWRIGHT_SPECIALIZE"


def child(code: str, text: str) -> str:
    environment = {**os.environ, "OPWRIGHT_SPECIALIZE": text, "PYTHONPATH": str(PACKAGE.parent)}
    command = [sys.executable, "-c", f"import opwright_kernels as ok\n{code}"]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    return answer.stdout.strip()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_has_a_builder_of_its_own() -> None:
    _specialize._builder.asked.add(-1)
    if (pid := os.fork()) == 0:
        os._exit(0 if not _specialize._builder.asked and _specialize._builder.thread is None else 1)
    _specialize._builder.asked.discard(-1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
