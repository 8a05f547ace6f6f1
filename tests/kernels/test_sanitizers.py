"""The kernels under AddressSanitizer and UndefinedBehaviorSanitizer, and on memory that is never clean by luck."""

from __future__ import annotations

import os
import re
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
from support.compilers import compile_with, engine_names
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


def build(program: Path, isa: str, dtype: str) -> None:
    """The driver and all kernels of one instruction set and dtype, under the sanitizers."""
    row = next(row for row in _isa.ISAS if row.name == isa)
    source = program.with_name("driver.c")
    source.write_text(driver_text(isa, dtype))
    folder = PACKAGE / "c"
    kernels = [(folder / "entries" if row.fast else folder) / f"{function(op)}_{dtype}.c" for op in OPERATIONS]
    if row.fast:
        kernels += [path for path in sorted((folder / "engine").glob("*.c")) if path.name != "team.c"]
    flags = ("-std=gnu11", "-O0", *SANITIZERS, *row.flags, *engine_names(isa, dtype))
    compile_with("gcc", *flags, source, *kernels, "-lm", "-o", program)


def kernels_of(isa: str, dtype: str) -> list[ok.VariantInfo]:
    return [variant for variant in ok.variants() if (variant.isa, variant.dtype) == (isa, dtype)]


def serving(op: str, dtype: str) -> str:
    """The instruction set whose kernels run a dtype."""
    return _operation.named(ok._OPERATIONS, op).choice(dtype)[0].name


def driver_text(isa: str, dtype: str) -> str:
    """The driver for the kernels of one instruction set and dtype."""
    cases = []
    for number, variant in enumerate(kernels_of(isa, dtype)):
        tensors = sum(role != "shape" for role in OPERATIONS[variant.op].roles)
        arguments = "".join(f"blocks[{1 + tensor}], " for tensor in range(tensors)) + "blocks[4], blocks[0]"
        if isa == "portable":
            cases.append(f"    case {number}: {variant.name}({arguments}, part, parts); break;\n")
        else:
            scratch = f"scratch = scratch_of({variant.name}_scratch(blocks[0], parts))"
            call = f"if (part == 0) {variant.name}({arguments}, TEAM(parts), {scratch})"
            cases.append(f"    case {number}: {call}; break;\n")
    driver = Path(__file__).with_name("sanitizer_driver.c").read_text()
    head = "static void run(int64_t kernel, void **blocks, int64_t part, int64_t parts)"
    body = f"    void *scratch = NULL;\n    switch (kernel) {{\n{''.join(cases)}    }}\n    free(scratch);"
    return f"{driver}\n{head}\n{{\n{body}\n}}\n"


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
    label = operation.rows[resolution.row][0]
    isa = serving(call.op, label)
    kernels = [variant.name for variant in kernels_of(isa, label)]
    number = kernels.index(operation.kernel_name(resolution, isa))
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


@pytest.mark.parametrize("dtype", DTYPES)
def test_kernels_touch_only_their_arrays_write_every_cell_and_overflow_nowhere(
    dtype: str, isa: str, tmp_path: Path
) -> None:
    program = tmp_path / "driver"
    build(program, isa, dtype)
    random = rng("sanitizers", dtype)
    calls = [random_call(random, op, dtype) for op in OPERATIONS for _ in range(3000 if FULL else 100)]
    if dtype == "f32":
        huge = [huge_call(random, op) for op in OPERATIONS for _ in range(3000 if FULL else 150)]
        legal = [call for call in huge if not isinstance(attempt(call), ok.SpecError)]
        assert len(legal) > 300
        calls += legal
    drive(program, calls)


def test_the_sanitizers_see_an_access_beside_an_array(tmp_path: Path) -> None:
    program = tmp_path / "driver"
    build(program, serving("Convolution", "f32"), "f32")
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
    assert re.search("AddressSanitizer.*28-byte region", done.stderr, re.DOTALL)


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
