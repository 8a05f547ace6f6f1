"""Random operations that read and write packed numbers, along any axis of any order: kernels and interpreter agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from opwright.language.model import Op
from support.draws import FULL, rng
from support.package import package
from support.step_verdicts import agree

SPECS, CALLS = (40, 20) if FULL else (3, 4)
LETTERS = {"B": "b", "K": "k", "N": "n"}


def dims(axes: list[str]) -> str:
    return "{" + ", ".join(f"{axis}: {axis}" for axis in axes) + "}"


def at(axes: list[str]) -> str:
    return ", ".join(LETTERS[axis] for axis in axes)


def drawn(random: np.random.Generator, name: str) -> str:
    """A spec: plain numbers tell all extents, odd ones too; others are packed, and so is an output."""

    def some(least: int) -> list[str]:
        return [str(axis) for axis in random.permutation(list(LETTERS))[: int(random.integers(least, 4))]]

    def one(items: Any) -> str:
        return str(random.choice(items))

    stored, read, written = some(3), some(1), some(1)
    kinds = {"read": one(["s4", "u4"]), "written": one(["s4", "u4"]), "hint": one(["f32", "s8", "bf16"])}
    run = one(["true", "false"])
    plain = ["K", "N"] if run == "true" else list(LETTERS)
    packs = [f", packed: {one(near)}" if (near := [a for a in axes if a in plain]) else "" for axes in (read, written)]
    for pack, tensor in zip(packs, ("read", "written"), strict=True):
        kinds[tensor] = kinds[tensor] if pack else "f32"
    operator = one(["+=", "max=", "min="]) if set(written) != set(LETTERS) else "="
    value = one(["+", "*", "-"]).join((f"hint[{at(stored)}] ", f" packs[{at(read)}]"))
    return f"""op: {name}
revision: 1
summary: Packed numbers.
dims: {{batch: {{symbol: B, run: {run}}}, inner: K, columns: N}}
inputs:
  - {{name: hint, dims: {dims(stored)}}}
  - {{name: packs, dims: {dims(read)}{packs[0]}}}
outputs:
  - {{name: dst, dims: {dims(written)}{packs[1]}}}
  - {{name: plain, dims: {dims(stored)}}}
dtypes:
  - {{hint: {kinds["hint"]}, packs: {kinds["read"]}, dst: {kinds["written"]}, plain: f32, accumulate: f32}}
semantics:
  ranges: {{b: B, k: K, n: N}}
  steps:
    - dst[{at(written)}] {operator} {value}
    - plain[{at(stored)}] = {value}
"""


def test_packed_numbers_along_any_axis_are_those_of_the_interpreter(tmp_path: Path) -> None:
    random = rng("packed")
    texts = {f"p{number}.yaml": drawn(random, f"P{number}") for number in range(SPECS)}
    library, module = package(texts, tmp_path, "packed_at_random")
    operations: list[Op] = list(library.ops)
    seen = agree(module, operations, CALLS)
    assert all(seen[f"{op.op} legal"] for op in operations)
