"""The kernels under AddressSanitizer and UndefinedBehaviorSanitizer, and on memory that is never clean by luck."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import opwright_kernels as ok
import pytest
from opwright_kernels import _isa, _operation
from support import rulings
from support.call import Call
from support.calls import describe, random_call
from support.compilers import compile_with
from support.generated import FULL, PACKAGE, attempt, function, rng, same
from support.huge_calls import huge_call
from support.rulings import DTYPES, OPERATIONS

SANITIZERS = (
    "-fsanitize=address,undefined,float-divide-by-zero,float-cast-overflow",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
    "-g",
)

pytestmark = pytest.mark.usefixtures("isa")
every_op = pytest.mark.parametrize("op", OPERATIONS)


def build(source: Path, program: Path, op: str) -> None:
    """The driver and one operation's kernels, under the sanitizers."""
    source.write_text(driver_text(op))
    kernels = [PACKAGE / "c" / f"{function(op)}_{dtype}.c" for dtype in DTYPES]
    compile_with("gcc", "-std=c11", "-O0", *SANITIZERS, *_isa.selected().flags, source, *kernels, "-lm", "-o", program)


def driver_text(op: str) -> str:
    """The driver for one operation's kernels of the instruction set in use."""
    kernels = [v.name for v in ok.variants(op) if v.isa == _isa.selected().name]
    tensors = sum(role != "shape" for role in OPERATIONS[op].roles)
    blocks = ", ".join(f"blocks[{1 + tensor}]" for tensor in range(tensors))
    cases = "".join(
        f"    case {number}: {name}({blocks}, blocks[4], blocks[0], part, parts); break;\n"
        for number, name in enumerate(kernels)
    )
    head = "static void run(int64_t kernel, void **blocks, int64_t part, int64_t parts)"
    driver = Path(__file__).with_name("sanitizer_driver.c").read_text()
    return f"#include <opwright_kernels.h>\n{head}\n{{\n    switch (kernel) {{\n{cases}    }}\n}}\n{driver}"


def packed(call: Call, parts: int) -> tuple[bytes, np.ndarray]:
    """A call as the driver reads it, and an array for its answer."""
    operation = _operation.named(ok._OPERATIONS, call.op)
    inputs, attributes = _operation.bound(operation, call.inputs, call.attributes)
    resolution = operation.resolve(*inputs, *attributes)
    plan = operation.plan(resolution)
    sizes = bytes(plan.ffi.buffer(plan.sizes))
    arrays = [array for array, info in zip(inputs, operation.inputs, strict=True) if not info.states_shape]
    arrays += [None] * (3 - len(arrays))
    answer = np.empty(resolution.shape, plan.dtype)
    kernels = [v.name for v in operation.variants if v.isa == _isa.selected().name]
    number = kernels.index(operation.kernel_name(resolution, _isa.selected().name))
    lengths = [-1 if array is None else array.nbytes for array in arrays]
    head = struct.pack("7q", number, parts, len(sizes), *lengths, answer.nbytes)
    return b"".join([head, sizes, *(array.tobytes() for array in arrays if array is not None)]), answer


def sanitized(*command: Path) -> subprocess.CompletedProcess[str]:
    flags = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
    environment = {**os.environ, **flags}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def drive(program: Path, calls: list[Call]) -> None:
    """Run calls through a driver, and compare what it says with the rulings."""
    questions, answers = program.with_name("calls"), program.with_name("answers")
    pairs = [packed(call, 1 + number % 3) for number, call in enumerate(calls)]
    questions.write_bytes(b"".join(question for question, _ in pairs))
    done = sanitized(program, questions, answers)
    assert done.returncode == 0, done.stderr[:3000]
    said, at = answers.read_bytes(), 0
    for call, (_, like) in zip(calls, pairs, strict=True):
        answer = np.frombuffer(said[at : at + like.nbytes], np.uint8).view(like.dtype).reshape(like.shape)
        at += like.nbytes
        assert same(answer, rulings.compute(call)), describe(call)
    assert at == len(said)


@every_op
def test_kernels_touch_only_their_arrays_write_every_cell_and_overflow_nowhere(op: str, tmp_path: Path) -> None:
    source, program = tmp_path / "driver.c", tmp_path / "driver"
    build(source, program, op)
    random = rng("sanitizers", op)
    calls = [random_call(random, op, dtype) for dtype in DTYPES for _ in range(3000 if FULL else 150)]
    huge = [huge_call(random, op) for _ in range(3000 if FULL else 200)]
    legal = [call for call in huge if not isinstance(attempt(call), ok.SpecError)]
    assert len(legal) > 50
    drive(program, calls + legal)


def test_the_sanitizers_see_an_access_beside_an_array(tmp_path: Path) -> None:
    source, program = tmp_path / "driver.c", tmp_path / "driver"
    build(source, program, "Convolution")
    call = Call(
        "Convolution",
        (np.ones((1, 8, 1), np.float32), np.ones((3, 1, 1), np.float32)),
        {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]},
    )
    question, _ = packed(call, 1)
    # One float fewer than the sizes say.
    short = question[:24] + struct.pack("q", 28) + question[32:-16] + question[-12:]
    (tmp_path / "calls").write_bytes(short)
    done = sanitized(program, tmp_path / "calls", tmp_path / "answers")
    assert done.returncode not in (0, 3)
    assert "heap-buffer-overflow" in done.stderr


SWEEP = """
from support import rulings
from support.calls import describe, random_call
from support.generated import rng, run, same
for number in range(600):
    call = random_call(rng("perturbed", number))
    assert same(run(call), rulings.compute(call)), describe(call)
print("done")
"""


def test_kernels_give_the_same_on_memory_that_is_filled_with_rubbish() -> None:
    tests = Path(__file__).parents[1]
    path = os.pathsep.join([str(tests), str(PACKAGE.parent)])
    done = subprocess.run(
        [sys.executable, "-c", SWEEP],
        env={**os.environ, "PYTHONPATH": path, "MALLOC_PERTURB_": "165"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr
