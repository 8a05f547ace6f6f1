"""Sums over rows beside sums of each row, which blocks of rows make: kernels and the interpreter agree."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from opwright.derive.phases import block_of_tasks, staged
from opwright.language.library import Library
from opwright.load import load_texts
from opwright.oracle.run_steps import compute_steps
from support.draws import FULL, rng
from support.package import package
from support.spec_packages import instruction_set, serving
from support.step_verdicts import first_disagreement

CALLS = 30 if FULL else 8
SPEC = """op: {name}
revision: 1
summary: Sums of rows, and over rows.
dims: {{rows: {rows}, cells: {cells}}}
inputs:
  - {{name: src, dims: {{N: N, C: C}}}}
  - {{name: other, dims: {{N: N, C: C}}}}
  - {{name: gamma, dims: {{C: C}}}}
outputs:
  - {{name: dst, dims: {{N: N, C: C}}}}
  - {{name: along, dims: {{C: C}}}}
  - {{name: most, dims: {{C: C}}}}
dtypes:
  - {{src: {kind}, other: {kind}, gamma: {kind}, dst: {kind}, along: {kind}, most: {kind}, accumulate: {sums}}}
semantics:
  ranges: {{n: N, c: C}}
  steps:
    - level[n] += src[n, c] * gamma[c]
    - along[c] += src[n, c] * other[n, c]
    - most[c] max= src[n, c]
    - slope[n] += src[n, c] * other[n, c]
    - dst[n, c] = other[n, c] - level[n] + slope[n] * src[n, c]
"""
RANDOM = 20 if FULL else 4  # specs
TERMS = ("src[n, c] * other[n, c]", "src[n, c]", "src[n, c] + gamma[c]", "other[n, c] - gamma[c]", "gamma[c] * beta[n]")
SIZES = ((1, 1), (3, 31), (5, 300), (300, 129), (70, 33), (64, 5000), (3, 20_000))
RUNS = {"one": "{symbol: %s}", "run": "{symbol: %s, run: true}"}
CASES = [("one", "one", "f32"), ("one", "one", "bf16"), ("one", "run", "s32"), ("one", "one", "f64")]


def text(rows: str, cells: str, kind: str) -> str:
    sums = {"s32": "s64", "f64": "f64"}.get(kind, "f32")
    return SPEC.format(name="BothWays", rows=RUNS[rows] % "N", cells=RUNS[cells] % "C", kind=kind, sums=sums)


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_sums_over_rows_and_of_each_row_agree_with_the_interpreter(case: tuple[str, str, str], tmp_path: Path) -> None:
    library, module = package({"both.yaml": text(*case)}, tmp_path, f"both_{'_'.join(case)}")
    (op,) = library.ops
    found = staged(op)
    assert [phase for phase in found.phases if block_of_tasks(found.program, phase)], "no rows are read once"
    for isa in serving(module, op):
        with instruction_set(module, isa):
            assert first_disagreement(module, op, rng(isa, *case), CALLS, Counter[str]()) is None


@pytest.mark.parametrize("turned", [False, True])
def test_blocks_of_rows_have_the_same_bits_for_every_number_of_threads(turned: bool, tmp_path: Path) -> None:
    library, module = package({"both.yaml": text("one", "one", "f32")}, tmp_path, f"threads_{turned}")
    for rows, cells in ((700, 33), (7, 600), (40_000, 3)):
        random = rng(rows, turned)
        src, other = (random.standard_normal((rows, cells)).astype(np.float32) for _ in range(2))
        given = [np.asfortranarray(array) if turned else array for array in (src, other)]
        gamma = random.standard_normal(cells).astype(np.float32)
        made = [[one.tobytes() for one in module.both_ways(*given, gamma, threads=n)] for n in (1, 2, 3, 5)]
        assert all(one == made[0] for one in made)
        for found, wanted in zip(
            module.both_ways(*given, gamma),
            compute_steps(library.ops[0], [*given, gamma], {}).values(),
            strict=True,
        ):
            assert np.allclose(found, wanted, rtol=1e-4, atol=1e-2)


def drawn(random: np.random.Generator, name: str) -> str:
    """A spec of sums along rows and over them, in any order, some of them outputs, that others may share a pass with."""
    steps, outputs, parts = list[str](), {"dst": "nc"}, ["src[n, c]", "0 * other[n, c] * gamma[c] * beta[n]"]
    for number in range(int(random.integers(3, 6))):
        letter, array = str(random.choice(["n", "c"])), f"sums_{number}"
        if random.random() < 0.6:
            outputs[array] = letter
        else:
            parts.append(f"{array}[{letter}]")
        steps.append(f"{array}[{letter}] {'max=' if random.random() < 0.2 else '+='} {random.choice(TERMS)}")
    steps = [*random.permutation(steps), f"dst[n, c] = {' + '.join(parts)}"]
    inputs = {"src": "nc", "other": "nc", "gamma": "c", "beta": "n"}

    def declared(arrays: dict[str, str]) -> str:
        return "\n".join(
            f"  - {{name: {array}, dims: {{{', '.join(f'{x.upper()}: {x.upper()}' for x in letters)}}}}}"
            for array, letters in arrays.items()
        )

    types = ", ".join(f"{array}: f32" for array in (*inputs, *outputs))
    lines = "\n".join(f"    - {step}" for step in steps)
    return f"""op: {name}
revision: 1
summary: Sums of rows, and over rows.
dims: {{rows: N, cells: C}}
inputs:
{declared(inputs)}
outputs:
{declared(outputs)}
dtypes:
  - {{{types}, accumulate: f32}}
semantics:
  ranges: {{n: N, c: C}}
  steps:
{lines}
"""


def in_blocks(library: Library) -> list[tuple[str, ...]]:
    """The letters of the tasks that have blocks of rows."""
    phases = [(staged(op).program, phase) for op in library.ops for phase in staged(op).phases]
    return [phase.own for program, phase in phases if block_of_tasks(program, phase)]


def test_random_sums_both_ways_are_exact_for_every_number_of_threads(tmp_path: Path) -> None:
    random = rng("sums both ways 7")
    texts = {f"sums{number}.yaml": drawn(random, f"Sums{number}") for number in range(RANDOM)}
    for _ in range(100):  # seldom has none of so few specs sums that share a pass
        if in_blocks(load_texts(texts)):
            break
        texts["sums0.yaml"] = drawn(random, "Sums0")
    library, module = package(texts, tmp_path, "random_blocks")
    blocked = in_blocks(library)
    assert {*blocked} == {("n",)}, "tasks of one block of rows are shared by several threads"
    for op, (rows, cells), turned in itertools.product(library.ops, SIZES, (False, True)):
        given = [
            random.integers(-2, 3, size).astype(np.float32) for size in ((rows, cells), (rows, cells), cells, rows)
        ]
        given = [np.asfortranarray(array) if turned else array for array in given]
        wanted = compute_steps(op, given, {})
        for threads in (1, 3):
            made = getattr(module, op.function)(*given, threads=threads)
            for output, found in zip(op.outputs, made if isinstance(made, tuple) else (made,), strict=True):
                np.testing.assert_array_equal(
                    found, wanted[output.name], err_msg=f"{op.function} {rows} x {cells} {turned}"
                )
