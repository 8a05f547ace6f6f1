"""Sums of products of cells that may lie outside: random calls on several instruction sets, held against the interpreter."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from opwright.derive.phases import staged
from opwright.language.library import Library
from opwright.oracle.run_steps import compute_steps
from support.capping import capped_at
from support.draws import FULL
from support.package import package
from support.random_reaching import draw, draw_windows, inputs

RANDOM = 40 if FULL else 10
CALLS = 20 if FULL else 8
Made = tuple[Library, ModuleType]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    rng = np.random.default_rng(9)
    texts = {f"reaching{number}.yaml": draw(rng, f"Reaching{number}") for number in range(RANDOM)}
    texts |= {f"windows{number}.yaml": draw_windows(rng, f"Windows{number}") for number in range(RANDOM)}
    return package(texts, tmp_path_factory.mktemp("reaching"), "reaching_package")


@pytest.fixture(params=["portable", "avx2", "amx_bf16"])
def capped(made: Made, request: pytest.FixtureRequest) -> Iterator[str]:
    _ = made[1].reaching0  # loads the modules of the package
    with capped_at(made[1], request.param) as isa:
        yield isa


def test_products_leave_out_what_lies_outside_even_beside_infinite_cells(made: Made, capped: str) -> None:
    library, kernels = made
    for number, op in enumerate(library.ops):
        rng = np.random.default_rng([7, number])
        for call in range(CALLS):
            names = [tensor.name for tensor in op.inputs]
            given = inputs(rng, names, ("f32", "bf16")[call % 2])
            with np.errstate(all="ignore"):
                expected = compute_steps(op, given, {})["y"]
            for threads in (1, 3):
                sys.modules[f"{kernels.__name__}._remember"].CALLS.clear()
                found = getattr(kernels, op.function)(*given, threads=threads)
                np.testing.assert_array_equal(
                    found.astype(np.float64), expected.astype(np.float64), err_msg=f"{op.op} {[a.shape for a in given]}"
                )


def test_most_of_them_are_products(made: Made) -> None:
    moved = [op for op in made[0].ops if op.op.startswith("Reaching")]
    products = [any(phase.contraction for phase in staged(op).phases) for op in moved]
    assert sum(products) > 0.7 * len(products)


def test_windows_with_weights_of_each_cell_are_products_of_frames(made: Made) -> None:
    programs = [staged(op) for op in made[0].ops if op.op.startswith("Windows")]
    framed = [program for program in programs if any(name.startswith("frame_") for name in program.arrays)]
    assert len(framed) > 0.3 * len(programs)
    assert all(any(phase.contraction for phase in program.phases) for program in framed)
