"""Long rows that few tasks reduce go in pieces: the results are the interpreter's, on every number of threads the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from opwright.emit.steps.kernels import step_unit
from opwright.language.library import Library
from opwright.oracle.dtypes import NUMPY
from opwright.oracle.run_steps import compute_steps
from support.draws import rng
from support.package import package
from support.spec_packages import instruction_set

# What is reduced, and what becomes of it; cells are 1 or -1, so that no order of products overflows.
TERMS = {"x[r, c]": "+=", "x[r, c] * w[c]": "+=", "x[r, c] - w[c]": "max=", "w[c] + x[r, c]": "min=", "x[r, c] ": "*="}
ENDS = ("some[r]", "some[r] * 2 - m[r]")
SIZES = ((3, 0), (1, 131071), (1, 131075), (2, 200001), (17, 131072))
SPEC = """op: LongNUMBER
revision: 1
summary: Reductions of rows.
dims: {rows: {symbol: R}, cells: {symbol: C}}
attributes:
  - {name: order, type: string, required: true, values: [RC, CR]}
layouts: {order: {RC: [R, C], CR: [C, R]}}
inputs:
  - {name: x, layout: order, dims: {R: R, C: C}}
INPUTSoutputs:
  - {name: y, dims: {R: R}}
dtypes:
ROWSsemantics:
  ranges: {r: R, c: C}
  steps:
    - some[r] OPERATOR TERM
    - y[r] = END
"""
WHOLE = """op: Whole
revision: 1
summary: A sum of everything, and one of each channel.
dims: {batch: {symbol: N}, channels: {symbol: C}, cells: {symbol: W}}
inputs:
  - {name: x, dims: {N: N, C: C, W: W}}
outputs:
  - {name: y, dims: {}}
  - {name: z, dims: {C: C}}
dtypes:
  - {x: f32, y: f32, z: f32, accumulate: f32}
semantics:
  ranges: {n: N, c: C, w: W}
  steps:
    - all[] += x[n, c, w]
    - y[] = all[] / 2
    - z[c] += x[n, c, w]
"""
Made = tuple[Library, ModuleType]


def text(number: int) -> str:
    term, operator = [*TERMS.items()][number]
    wanted = inputs_of(number)
    kinds = (("f32", "f32"), ("bf16", "f32"), ("f16", "f32"), ("f64", "f64"), ("s32", "s64"))
    rows = [
        ", ".join([*(f"{name}: {kind}" for name in ("x", *wanted, "y")), f"accumulate: {sums}"]) for kind, sums in kinds
    ]
    inputs = [f"  - {{name: {name}, dims: {{{size}: {size}}}}}\n" for name, size in wanted.items()]
    found = SPEC.replace("NUMBER", str(number)).replace("TERM", term).replace("OPERATOR", operator)
    found = found.replace("ROWS", "".join(f"  - {{{row}}}\n" for row in rows)).replace("INPUTS", "".join(inputs))
    return found.replace("END", ENDS[number % 2])


def inputs_of(number: int) -> dict[str, str]:
    """The inputs beside x that an operation reads, and the size of each."""
    formulas = [*TERMS][number] + ENDS[number % 2]
    return {name: size for name, size in {"w": "C", "m": "R"}.items() if f"{name}[" in formulas}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    folder = tmp_path_factory.mktemp("partials")
    texts = {f"long{n}.yaml": text(n) for n in range(len(TERMS))}
    yield package({**texts, "whole.yaml": WHOLE}, folder, "partials_package")


def matrix(random: Any, dtype: np.dtype[Any], shape: tuple[int, int], kind: int) -> Any:
    """Cells that lie together, every second column or row of others, or backwards."""
    cells = (2 * random.integers(0, 2, (2 * shape[0], 2 * shape[1]), np.int8) - 1).astype(dtype)
    views = (cells[: shape[0], : shape[1]], cells[::2, ::2], cells[shape[0] - 1 :: -1, : shape[1]][: shape[0]])
    return np.ascontiguousarray(views[0]) if kind == 0 else views[kind - 1]


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "f64", "s32"])
@pytest.mark.parametrize("isa", ["portable", "avx2", "avx512", "avx512_bf16"])
def test_rows_in_pieces_give_what_the_interpreter_gives(made: Made, isa: str, dtype: str) -> None:
    library, built = made
    random = rng("partials", isa, dtype)
    with instruction_set(built, isa):
        for number, (rows, cells) in itertools.product(range(len(TERMS)), SIZES):
            order, kind = ("RC", "CR")[int(random.integers(2))], int(random.integers(4))
            shape = (rows, cells) if order == "RC" else (cells, rows)
            inputs = [matrix(random, NUMPY[dtype], shape, kind)]
            for size in inputs_of(number).values():
                count = {"R": rows, "C": cells}[size]
                inputs.append(random.choice(np.array([-1, 1]), count).astype(NUMPY[dtype]))
            found = [getattr(built, f"long{number}")(*inputs, order=order, threads=threads) for threads in (1, 2, 3, 8)]
            expected = compute_steps(library.op(f"Long{number}"), inputs, {"order": order})["y"]
            np.testing.assert_array_equal(found[0], expected, err_msg=f"{number} {order} {shape} {kind}")
            assert {one.tobytes() for one in found} == {found[0].tobytes()}


@pytest.mark.parametrize("isa", ["avx2", "avx512"])
def test_sums_of_several_letters_go_in_pieces_of_the_outer_one_or_of_rows(made: Made, isa: str) -> None:
    """Rows that do not follow one another are fewer than pieces, or more."""
    random = rng("partials of several letters", isa)
    with instruction_set(made[1], isa):
        for shape in ((1, 1, 131073), (2, 3, 90001), (40, 2, 5001), (0, 2, 200000), (3, 2, 0)):
            x = random.integers(-4, 5, (shape[0], shape[1], shape[2] + 3)).astype(np.float32)[..., : shape[2]]
            found = [made[1].whole(x, threads=threads) for threads in (1, 2, 3)]
            np.testing.assert_array_equal(found[0][0], x.sum() / 2)
            np.testing.assert_array_equal(found[0][1], x.sum((0, 2)))
            assert len({b"".join(one.tobytes() for one in some) for some in found}) == 1
        x = random.standard_normal((9, 2, 70001)).astype(np.float32)
        assert len({made[1].whole(x, threads=threads)[0].tobytes() for threads in (1, 2, 3)}) == 1


def test_sums_of_numbers_of_all_sizes_have_the_same_bits_on_every_number_of_threads(made: Made) -> None:
    random = rng("partials of any size")
    for rows, cells in ((1, 1000001), (3, 300001), (16, 140000)):
        x = random.standard_normal((rows, cells)).astype(np.float32) * 10.0 ** random.integers(-6, 6, (rows, cells))
        found = {made[1].long0(x.astype(np.float32), order="RC", threads=n).tobytes() for n in range(1, 9)}
        assert len(found) == 1, (rows, cells)


def test_a_reduction_has_a_function_for_pieces_of_rows(made: Made) -> None:
    """And none of lanes that tasks have for themselves."""
    for number in range(len(TERMS)):
        phases = step_unit(made[0].op(f"Long{number}")).kernels[0].phases
        found = [one for phase in phases for one in phase.functions if one.partial is not None]
        assert found or any(phase.product for phase in phases), number
        assert all(one.name.endswith("_c") for one in found)
    functions = [one for phase in step_unit(made[0].op("Whole")).kernels[0].phases for one in phase.functions]
    assert [one.name for one in functions if one.partial] == ["whole_f32_0_w", "whole_f32_1_w"]
