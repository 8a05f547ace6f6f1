"""The kernels of another architecture: those for NEON, compiled for aarch64 and run by an emulator."""

from __future__ import annotations

import shutil
import subprocess
from itertools import product
from pathlib import Path

import opwright_kernels as ok
import pytest
from opwright_kernels import _isa
from support.calls import random_call
from support.generated import FULL, rng
from support.kernel_driver import build, check, isa_flags, packed
from support.rulings import DTYPES, OPERATIONS

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
ISA = "neon"


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_kernels_of_neon_give_what_the_rulings_give_on_aarch64(dtype: str, tmp_path: Path) -> None:
    if shutil.which(EMULATOR) is None:
        pytest.skip(f"{EMULATOR} is not installed")
    program, questions, answers = tmp_path / "driver", tmp_path / "calls", tmp_path / "answers"
    build(program, ISA, dtype, COMPILER, ("-O1", "-static", *isa_flags(ISA)))
    random = rng("aarch64", dtype)
    calls = [random_call(random, op, dtype) for op in OPERATIONS for _ in range(500 if FULL else 90)]
    pairs = [packed(call, ISA, 1 + number % 3) for number, call in enumerate(calls)]
    questions.write_bytes(b"".join(question for question, _ in pairs))
    done = subprocess.run([EMULATOR, program, questions, answers], capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    check(calls, [like for _, like in pairs], answers.read_bytes())
    explained = [ok.explain(call.op, *call.inputs, **call.attributes).variant for call in calls]
    covered = {(variant.op, variant.layouts[0], variant.group_class) for variant in explained}
    assert covered == set(product(OPERATIONS, ("NCX", "NXC"), ("dense", "grouped", "depthwise")))


def test_neon_can_be_named_anywhere_and_is_used_where_the_cpu_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    row = next(isa for isa in _isa.ISAS if isa.name == ISA)
    monkeypatch.setenv("OPWRIGHT_ISA", ISA)
    for features, usable in ((frozenset({"fp", "asimd"}), [ISA, "portable"]), (frozenset({"avx2"}), ["portable"])):
        monkeypatch.setattr(_isa, "cpu_flags", lambda features=features: features)
        _isa.allowed.cache_clear()
        assert [isa.name for isa in _isa.usable(_isa.ISAS)] == usable
        assert _isa.why_not(row) == ("" if ISA in usable else "this CPU lacks asimd")
    monkeypatch.undo()
    _isa.allowed.cache_clear()
