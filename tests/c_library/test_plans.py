"""The C library plans contractions as the package does: random axes and data types, the same problem for the engine."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from pathlib import Path
from typing import Any

import cffi
import pytest
from opwright_kernels import _contraction_engines as engines
from opwright_kernels import _contraction_shapes as shapes
from opwright_kernels._dtypes import DTYPES
from support.c_library import NUMBERS
from support.draws import FULL, rng
from support.random_walks import draw

CALLS = 200_000 if FULL else 20_000
MIXED: tuple[tuple[str, ...], ...] = ((), ("left",), ("right",), ("left", "right"))
LABELS = ("f32", "bf16", "f16", "bytes", "squares", "distances", "f64", "s64", "s32")  # as opw_engines has them
ANSWERS = """
int planned(int64_t count, const int64_t *numbers, const bool *mixed, opwright_contraction *problem, bool *says);
int labelled(int left, int right, int accumulate, int term);
int64_t kind(int dtype, int label);
"""
# Functions of products.c that the library keeps to itself.
PROGRAM = """
#include "products.c"
#define SHOWN __attribute__((visibility("default")))
SHOWN int planned(int64_t count, const int64_t *numbers, const bool *mixed, opwright_contraction *problem, bool *says)
{
    walks axes = {0};
    bool reduced[WALKS];
    shape made;
    for (int64_t n = 0; n < count; ++n, numbers += 5) {
        push(&axes, (walk){numbers[0], {numbers[1], numbers[2], numbers[3]}});
        reduced[n] = numbers[4] != 0;
    }
    if (!shaped(&axes, reduced, mixed, false, &made)) {
        return 0;
    }
    put_problem(problem, &made);
    put_copied(&problem->left, &made, LEFT, 2, 0);
    put_copied(&problem->right, &made, RIGHT, 2, 0);
    says[0] = beside(&made);
    says[1] = scattered(&made);
    says[2] = once(&made, mixed);
    return 1;
}
SHOWN int labelled(int left, int right, int accumulate, int term)
{
    return label_of((opwright_dtype)left, (opwright_dtype)right, (opwright_dtype)accumulate, (opw_term)term);
}
SHOWN int64_t kind(int dtype, int label) { return kind_of((opwright_dtype)dtype, label); }
"""


@pytest.fixture(scope="module")
def in_c(exported: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """The functions of C, and how they are called."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    folder = tmp_path_factory.mktemp("plans")
    (folder / "plans.c").write_text(PROGRAM)
    include = [f"-I{exported / name}" for name in ("interface", "public", "include", "c/engine")]
    flags = ("-std=c11", "-O1", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections")
    others = [source for source in sorted((exported / "interface").glob("*.c")) if source.name != "products.c"]
    # Tables of operations are not there, and not needed by what is shown.
    command = ["gcc", *flags, *include, "-shared", "-Wl,--gc-sections", "plans.c", *others, "-o", "plans.so"]
    subprocess.run(command, check=True, cwd=folder)
    ffi = cffi.FFI()
    ffi.cdef(engines.ENGINE_CDEF + ANSWERS)
    return ffi, ffi.dlopen(str(folder / "plans.so"))


def test_random_axes_are_planned_as_in_python(in_c: tuple[Any, Any]) -> None:
    ffi, lib = in_c
    random, said = rng("plans"), {True: [0, 0, 0], False: [0, 0, 0]}
    copied = refused = 0
    for _ in range(CALLS):
        walks, reduced = draw(random)
        mixed = MIXED[int(random.integers(len(MIXED)))]
        numbers = [n for walk, sums in zip(walks, reduced, strict=True) for n in (*vars(walk).values(), int(sums))]
        problem, says = ffi.new("opwright_contraction *"), ffi.new("bool[3]")
        wide = ffi.new("bool[2]", [side in mixed for side in ("left", "right")])
        there = lib.planned(len(walks), ffi.new("int64_t[]", numbers), wide, problem, says)
        shape = shapes.shaped(walks, reduced, mixed)
        assert bool(there) == (shape is not None), (walks, reduced, mixed)
        if shape is None:
            refused += 1
            continue
        members = shapes.members(shape, {"left": 2, "right": 2}, {"left": 0, "right": 0})
        wanted = ffi.new("opwright_contraction *", members)
        assert ffi.buffer(problem)[:] == ffi.buffer(wanted)[:], (walks, reduced, mixed, shape)
        expected = [shapes.beside(shape), shapes.scattered(shape), shapes.once(shape, mixed)]
        assert list(says) == expected, (walks, reduced, mixed, shape)
        copied += bool(shape.copied)
        for at, answer in enumerate(expected):
            said[answer][at] += 1
    assert min(*said[True], *said[False], copied) > CALLS // 1000  # none of them is always so
    assert refused


def test_data_types_have_the_engine_that_they_have_in_python(in_c: tuple[Any, Any]) -> None:
    _, lib = in_c
    own = {DTYPES[name]: number for name, number in NUMBERS.items()}
    found = set()
    for left, right in itertools.product(own, repeat=2):
        for accumulate in (DTYPES[name] for name in ("float32", "float64", "int64")):
            for number, term in enumerate(("", "squares", "distances")):
                label = engines.label_of({left, right}, accumulate, term)
                at = lib.labelled(own[left], own[right], own[accumulate], number)
                assert (LABELS[at] if at >= 0 else "") == label, (left, right, accumulate, term)
                found.add(label)
                for dtype in (left, right):
                    if label and label != "bytes" and dtype != engines.OWN[label]:
                        assert lib.kind(own[dtype], at) == engines.WIDENED[dtype], (dtype, label)
    assert found == {"", *LABELS}
