"""Broadcasts and reductions of arrays whose axes stand, and lie in memory, in any order agree with the interpreter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from opwright.derive.phases import staged
from opwright.load import load_texts
from support.draws import FULL, rng
from support.package import package
from support.spec_packages import instruction_set, serving
from support.step_verdicts import agree

Rng = np.random.Generator
SPECS, CALLS = (8, 24) if FULL else (4, 12)
PAIRS = [("f32", "f32"), ("bf16", "bf16"), ("f16", "f16"), ("u8", "f32"), ("f64", "f64")]
SPEC = """op: {name}
revision: 1
summary: A value for each cell, or of several.
dims: {{a: A, b: B, c: C, d: D}}
inputs: [{inputs}]
outputs: [{{name: y, dims: {{{made}}}}}]
dtypes: [{dtypes}]
semantics:
  ranges: {{{ranges}}}
  steps: ["y[{target}] {operator} {value}"]
"""


def drawn(random: Rng, name: str) -> str:
    """Up to four letters of which the first array has all, the others some of them, in order or not."""

    def order(letters: list[str]) -> list[str]:
        return [letters[at] for at in random.permutation(len(letters))] if random.integers(2) else letters

    letters = [*"abcd"[: int(random.integers(2, 5))]]
    reduces = bool(random.integers(2))
    kept = [one for one in letters if not reduces or random.integers(2)]
    beside = [letter for letter in letters if random.integers(2)]
    last = letters[int(random.integers(len(letters))) :]  # as positions have, which many samples share
    axes = {"x": order(letters), "w": order(beside), "v": last}
    x, w, v = (f"{one}[{', '.join(found)}]" for one, found in axes.items())
    values = [x, f"{x} * {w}", f"{x} - {v}", f"max({x}, {v}) + {w}", f"({x} - {w}) * {v}", f"{x} * {x}"]
    value = values[int(random.integers(len(values)))]
    used = [one for one in axes if f"{one}[" in value]
    walked = [letter for letter in letters if letter in {*(axis for one in used for axis in axes[one]), *kept}]
    operator = ["+=", "max=", "min="][int(random.integers(3))] if reduces and len(kept) < len(letters) else "="
    rows = [PAIRS[at] for at in random.permutation(len(PAIRS))[:2]]
    dtypes = [
        f"{{{', '.join(f'{one}: {given}' for one in used)}, y: {made}, accumulate: {'f64' if given == 'f64' else 'f32'}}}"
        for given, made in rows
    ]
    told = {one: ", ".join(f"{letter.upper()}: {letter.upper()}" for letter in found) for one, found in axes.items()}
    target = order(kept)
    return SPEC.format(
        name=name,
        inputs=", ".join(f"{{name: {one}, dims: {{{told[one]}}}}}" for one in used),
        made=", ".join(f"{letter.upper()}: {letter.upper()}" for letter in target),
        dtypes=", ".join(dtypes),
        ranges=", ".join(f"{letter}: {letter.upper()}" for letter in walked),
        target=", ".join(target), operator=operator, value=value,
    ).replace("dims: {a: A, b: B, c: C, d: D}", f"dims: {{{', '.join(f'{one}: {one.upper()}' for one in walked)}}}")  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(40 if FULL else 3))
def test_axes_in_any_order_agree_with_the_interpreter(seed: int, tmp_path: Path) -> None:
    random, name = rng("any order", seed), f"any_order_{seed}"
    library, module = package({f"o{n}.yaml": drawn(random, f"Order{n}") for n in range(SPECS)}, tmp_path, name)
    seen = agree(module, library.ops, CALLS, seed)
    assert all(seen[f"{op.op} legal"] for op in library.ops)


SHARED = SPEC.format(
    name="Positions", inputs="{name: x, dims: {A: A, B: B, C: C}}, {name: w, dims: {B: B, C: C}}", made="A: A, B: B, C: C",
    dtypes="{x: f32, w: f32, y: f32, accumulate: f32}", ranges="a: A, b: B, c: C", target="a, b, c", operator="=",
    value="x[a, b, c] + w[b, c]",
).replace(", d: D", "")  # fmt: skip
MIDDLE = SPEC.format(
    name="Middle", inputs="{name: x, dims: {A: A, B: B, C: C, D: D}}", made="D: D, B: B, A: A",
    dtypes="{x: f32, y: f32, accumulate: f32}", ranges="a: A, b: B, c: C, d: D", target="d, b, a", operator="min=",
    value="x[a, b, c, d]",
)  # fmt: skip


def test_what_many_cells_share_by_two_axes_may_be_one_axis() -> None:
    (phase,) = staged(load_texts({"shared.yaml": SHARED}).ops[0]).phases
    assert phase.merged is not None
    assert phase.lanes[-1] == "b_c_"


def test_a_reduction_has_lanes_along_what_it_reduces_for_views(tmp_path: Path) -> None:
    (phase,) = staged(load_texts({"middle.yaml": MIDDLE}).ops[0]).phases
    assert "c" in phase.lanes
    library, module = package({"middle.yaml": MIDDLE}, tmp_path, "middle_lanes")
    random = rng("middle")
    for isa in serving(module, library.op("Middle")):
        with instruction_set(module, isa):
            for _ in range(12):
                shape = [int(one) for one in random.integers(1, (5, 4, 70, 40))]
                x = random.integers(-99, 99, shape).astype(np.float32)
                places = [int(one) for one in random.permutation(4)]
                lies = np.ascontiguousarray(x.transpose(places)).transpose(np.argsort(places))
                for threads in (1, 3):
                    assert np.array_equal(module.middle(lies, threads=threads), x.min(2).transpose(2, 1, 0))
