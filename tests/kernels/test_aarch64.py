"""The kernels of another architecture: those for NEON, compiled for aarch64 and run by an emulator."""

from __future__ import annotations

import shutil
import subprocess
from itertools import product
from pathlib import Path

import numpy as np
import opwright_kernels as ok
import pytest
from opwright.oracle import interpret
from opwright_kernels import _isa
from support.call import Call
from support.calls import describe, random_call
from support.draws import FULL, rng
from support.kernel_driver import build, check, isa_flags, packed, unpacked
from support.package import package
from support.random_specs import Draft, accepted, texts_of
from support.random_windows import form
from support.rulings import DTYPES, OPERATIONS
from support.spec_calls import Caller

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
ISA = "neon"


@pytest.mark.parametrize("dtype", DTYPES if FULL else ("f32", "bf16"))
def test_the_kernels_of_neon_give_what_the_rulings_give_on_aarch64(dtype: str, tmp_path: Path) -> None:
    if shutil.which(EMULATOR) is None:
        pytest.skip(f"{EMULATOR} is not installed")
    program, questions, answers = tmp_path / "driver", tmp_path / "calls", tmp_path / "answers"
    build(program, ISA, dtype, COMPILER, ("-Og", "-static", *isa_flags(ISA)))
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


def test_random_normal_forms_agree_with_the_interpreter_on_aarch64(tmp_path: Path) -> None:
    if shutil.which(EMULATOR) is None:
        pytest.skip(f"{EMULATOR} is not installed")
    random, drafts = rng("random forms on aarch64"), dict[str, Draft]()
    while len(drafts) < (24 if FULL else 2):
        draft, library = accepted(random, family=lambda random: form(random, ("f32",)))
        drafts.setdefault(library.ops[0].function, draft)
    library, module = package(texts_of(drafts.values()), tmp_path, "random_forms_aarch64")
    names = [op.op for op in library.ops if any(variant.isa == ISA for variant in module.variants(op.op))]
    program, questions, answers = tmp_path / "driver", tmp_path / "calls", tmp_path / "answers"
    build(program, ISA, "f32", COMPILER, ("-Og", "-static", *isa_flags(ISA)), module, names)
    made = []
    for op in (op for op in library.ops if op.op in names):
        for call in Caller(op, random).legal(12):
            inputs = [None if array is None else np.ascontiguousarray(array) for array in call.inputs]
            made.append((op, Call(op.op, tuple(inputs), call.attributes)))
    pairs = [packed(call, ISA, 1 + number % 3, module, names) for number, (_, call) in enumerate(made)]
    questions.write_bytes(b"".join(question for question, _ in pairs))
    done = subprocess.run([EMULATOR, program, questions, answers], capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    found = unpacked([like for _, like in pairs], answers.read_bytes())
    for (op, call), answer in zip(made, found, strict=True):
        assert np.array_equal(answer, interpret.compute(op, call.inputs, call.attributes)), describe(call)
    assert len(names) == len(drafts)


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
