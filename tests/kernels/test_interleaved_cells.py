"""Blocks of channels that become blocks of cells, and back: lanes that walk no whole axis of what is written or read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from support.draws import FULL, rng
from support.package import package
from support.spec_packages import instruction_set, serving
from support.step_calls import Rng
from support.step_verdicts import first_disagreement

SPEC = """op: {name}
revision: 1
summary: Cells that are interleaved, or taken apart.
dims: {{n: N, c: C, h: H, w: W}}
attributes: [{{name: block, symbol: R, type: s64, default: "2", min: 1, max: 4}}]
inputs: [{{name: x, dims: {{{given}}}}}]
outputs: [{{name: y, dims: {{{made}}}}}]
dtypes: [{{x: {dtype}, y: {dtype}, accumulate: {accumulate}}}]
semantics:
  ranges: {{n: N, c: C, h: H, w: W, {blocks}}}
  steps: ["y[{to}] {operator} {value}"]
"""


def spec(source: Rng, name: str) -> str:
    """A step that moves blocks of one or two axes, of a number or an attribute, with channels anywhere."""
    by = str(source.choice(["2", "3", "R"]))
    letters = {"h": "u", "w": "v"} if source.random() < 0.7 else {"w": "v"}
    times = " * ".join([by] * len(letters))
    number = f"{by} * u + v" if len(letters) > 1 else "v"
    channel = source.choice([f"c * ({times}) + {number}", f"({number}) * C + c"])
    order = ["n", *source.permutation(["c", "h", "w"])]

    def tensor(indices: dict[str, str], extents: dict[str, str]) -> tuple[str, str]:
        dims = ", ".join(f"{axis.upper()}: {extents.get(axis, axis.upper())}" for axis in order)
        return ", ".join(indices.get(axis, axis) for axis in order), dims

    deep = tensor({"c": channel}, {"c": f"C * {times}"})
    wide = tensor(
        {axis: f"{by} * {axis} + {tap}" for axis, tap in letters.items()},
        {axis: f"{by} * {axis.upper()}" for axis in letters},
    )
    (read, given), (to, made) = (deep, wide) if source.random() < 0.5 else (wide, deep)
    dtype = str(source.choice(["f32", "bf16", "u8", "f64", "s32"]))
    value = source.choice(["x[{0}]", "x[{0}]", "max(x[{0}], 1)"]).format(read)
    return SPEC.format(
        name=name,
        given=given,
        made=made,
        dtype=dtype,
        accumulate="f64" if dtype == "f64" else "s64" if dtype == "s32" else "f32",
        blocks=", ".join(f"{tap}: {by}" for tap in letters.values()),
        to=to,
        operator=source.choice(["=", "=", "+="]),
        value=value,
    )


@pytest.mark.sweep
def test_cells_are_interleaved_and_taken_apart_as_the_interpreter_does(tmp_path: Path) -> None:
    source, count, calls = rng("interleaved"), 60 if FULL else 6, 20 if FULL else 10
    texts = {f"laced_{n}.yaml": spec(source, f"Laced{n}") for n in range(count)}
    seen: Counter[str] = Counter()
    library, module = package(texts, tmp_path, "interleaved")
    for op in library.ops:
        for isa in serving(module, op)[: None if FULL else 1]:
            with instruction_set(module, isa):
                found = first_disagreement(module, op, rng(op.op, isa), calls, seen)
                assert found is None, f"{isa}: {found}\n{texts[f'laced_{op.op[5:]}.yaml']}"
    assert sum(seen[f"{op.op} legal"] for op in library.ops) > count * calls / 2
