"""Kernels without Python: a C program that runs them on calls from a file, for whatever compiler and machine.

In: calls, and what the program is compiled for. Out: what its kernels make of them.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import opwright_kernels as ok
from opwright_kernels import _isa

from . import rulings
from .call import Call
from .calls import describe
from .compilers import compile_with, engine_names
from .generated import function, same
from .rulings import OPERATIONS

UNUSED = ("team", "contraction_bytes", "window")  # files that the driver has in another form, or has no calls of


def build(
    program: Path,
    isa: str,
    dtype: str,
    compiler: str,
    flags: Sequence[str],
    package: Any = ok,
    operations: Sequence[str] = tuple(OPERATIONS),
) -> None:
    """The driver and all kernels of one instruction set and dtype, all but the pool of threads."""
    source = program.with_name("driver.c")
    source.write_text(_driver(package, operations, isa, dtype))
    folder, fast = Path(package.__file__).parent / "c", isa != "portable"
    kernels = [folder / f"{function(op)}_{dtype}.c" for op in operations]
    if fast:
        kernels = sorted((folder / "entries").glob(f"*_{dtype}*.c"))
        kernels += [path for path in sorted((folder / "engine").glob("*.c")) if not path.name.startswith(UNUSED)]
    include = f"-I{folder.parent / 'include'}"
    compile_with(
        compiler, "-std=gnu11", include, *flags, *engine_names(isa, dtype), source, *kernels, "-lm", "-o", program
    )


def isa_flags(isa: str) -> tuple[str, ...]:
    """The compiler flags of an instruction set."""
    return next(row.flags for row in _isa.ISAS if row.name == isa)


def _kernels(package: Any, operations: Sequence[str], isa: str, dtype: str) -> list[ok.VariantInfo]:
    chosen = [variant for op in operations for variant in package.variants(op)]
    return [variant for variant in chosen if (variant.isa, variant.dtype) == (isa, dtype)]


def _driver(package: Any, operations: Sequence[str], isa: str, dtype: str) -> str:
    """The driver for the kernels of one instruction set and dtype."""
    cases = []
    for number, variant in enumerate(_kernels(package, operations, isa, dtype)):
        tensors = sum(not given.states_shape for given in package._OPERATIONS.named(variant.op).inputs)
        arguments = "".join(f"blocks[{1 + tensor}], " for tensor in range(tensors)) + "blocks[4], blocks[0]"
        if isa == "portable":
            cases.append(f"    case {number}: {variant.name}({arguments}, part, parts); break;\n")
        else:
            scratch = f"scratch = scratch_of({variant.name}_scratch(blocks[0], parts))"
            call = f"if (part == 0) {variant.name}({arguments}, TEAM(parts), {scratch})"
            cases.append(f"    case {number}: {call}; break;\n")
    driver = Path(__file__).with_name("kernel_driver.c").read_text()
    head = "static void run(int64_t kernel, void **blocks, int64_t part, int64_t parts)"
    body = f"    void *scratch = NULL;\n    switch (kernel) {{\n{''.join(cases)}    }}\n    free(scratch);"
    return f"{driver}\n{head}\n{{\n{body}\n}}\n"


def _resolved(call: Call, package: Any) -> tuple[Any, list[Any], Any]:
    """The operation of a call, its inputs, and what its sizes are."""
    operation = package._OPERATIONS.named(call.op)
    interface = importlib.import_module(f"{package.__name__}._interface")
    inputs, attributes = interface.bound(operation, call.inputs, call.attributes)
    return operation, inputs, operation.resolve(*inputs, *attributes)


def with_kernels(calls: Sequence[Call], isa: str) -> list[Call]:
    """The calls that kernels of an instruction set compute: those of AMX leave groups of one channel to another one."""

    def served(call: Call) -> bool:
        operation, _, resolution = _resolved(call, ok)
        kernels = _kernels(ok, [call.op], isa, operation.rows[resolution.row][0])
        return operation.kernel_name(resolution, isa) in {variant.name for variant in kernels}

    return [call for call in calls if served(call)]


def packed(
    call: Call, isa: str, parts: int, package: Any = ok, operations: Sequence[str] = tuple(OPERATIONS)
) -> tuple[bytes, np.ndarray]:
    """A call as the driver reads it, and an array for its answer."""
    operation, inputs, resolution = _resolved(call, package)
    plan = operation.plan(resolution)
    sizes = bytes(plan.ffi.buffer(plan.sizes))
    arrays = [array for array, info in zip(inputs, operation.inputs, strict=True) if not info.states_shape]
    arrays += [None] * (3 - len(arrays))
    answer = np.empty(resolution.shape, plan.dtype)
    label = operation.rows[resolution.row][0]
    kernels = [variant.name for variant in _kernels(package, operations, isa, label)]
    number = kernels.index(operation.kernel_name(resolution, isa))
    lengths = [-1 if array is None else array.nbytes for array in arrays]
    head = struct.pack("7q", number, parts, len(sizes), *lengths, answer.nbytes)
    return b"".join([head, sizes, *(array.tobytes() for array in arrays if array is not None)]), answer


def check(calls: Sequence[Call], answers: Sequence[np.ndarray], printed: bytes) -> None:
    """Hold what a program wrote against the rulings."""
    for call, answer in zip(calls, unpacked(answers, printed), strict=True):
        assert same(answer, rulings.compute(call)), describe(call)


def unpacked(answers: Sequence[np.ndarray], printed: bytes) -> list[np.ndarray]:
    """The results that a program wrote, each like the array that was made for it."""
    found, at = [], 0
    for like in answers:
        found.append(np.frombuffer(printed[at : at + like.nbytes], np.uint8).view(like.dtype).reshape(like.shape))
        at += like.nbytes
    assert at == len(printed)
    return found
