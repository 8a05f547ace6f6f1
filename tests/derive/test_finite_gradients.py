"""Derived gradients are finite where their operation is: exponentials that overflow leave no NaN behind."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from opwright.derive.gradient.choose import gradient
from opwright.gradients import gradient_text
from opwright.language.expr import Binary, Call, Expr, Number, Read, Unary
from opwright.language.model import Op
from opwright.load import load_texts

FORMULAS = 4000 if os.environ.get("OPWRIGHT_SWEEP") == "full" else 150
SPEC = """op: Gate
revision: 1
summary: A formula of exponentials.
dims: {{cells: {{symbol: X, run: true, summary: cells}}}}
inputs:
  - {{name: src, dims: {{X: X}}, summary: The numbers.}}
outputs:
  - {{name: dst, dims: {{X: X}}, summary: The results.}}
dtypes:
  - {{src: f32, dst: f32, accumulate: f32}}
semantics:
  ranges: {{x: X}}
  steps:
{steps}"""
POINTS = np.array([s * v for v in (0, 1e-30, 1e-3, 0.5, 1, 5, 30, 87, 89, 95, 104, 140, 1e3) for s in (1, -1)])
FUNCTIONS: Mapping[str, Any] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log1p": np.log1p, "tanh": np.tanh, "sqrt": np.sqrt,
    "rsqrt": lambda x: x.dtype.type(1) / np.sqrt(x), "pow": np.power, "select": np.where,
}  # fmt: skip
OPERATORS: Mapping[str, Any] = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "==": np.equal}


class Gates:
    """Draws steps whose values stay small while their exponentials overflow."""

    def __init__(self, seed: int) -> None:
        self.rng, self.steps = np.random.default_rng(seed), list[str]()

    def one(self, items: list[str]) -> str:
        return items[int(self.rng.integers(len(items)))]

    def named(self, value: str) -> str:
        """A value, or the element that a step of its own stores it in."""
        if self.rng.random() < 0.6:
            return value
        name = f"part_{len(self.steps)}"
        self.steps.append(f"{name}[x] = {value}")
        return f"{name}[x]"

    def grown(self) -> str:
        argument = self.one(["-src[x]", "src[x]", "2 * src[x]", "-1.7 * src[x]", "1 - src[x]"])
        return self.named(f"{self.one(['exp', 'exp2'])}({argument})")

    def gate(self) -> str:
        """A function of values between 0 and 1."""
        below = f"{self.one(['1', '2', '0.5'])} + {self.one(['', '3 * '])}{self.grown()}"
        forms = [f"1 / ({below})", f"1 / ({below})", f"rsqrt({below})", f"1 / sqrt({below})", f"pow({below}, -1)"]
        return self.named(
            self.one([*forms, f"pow({below}, -0.5)", f"1 / pow({below}, 2)", f"1 / ({below}) / ({below})"])
        )

    def steps_of(self) -> list[str]:
        first, second = self.gate(), self.gate()
        value = self.one([
            first, f"src[x] * {first}", f"{first} * {second}", f"{first} - 2 * {second}", f"tanh({first})",
            f"1 - 2 * {first}", f"{first} * {first}", f"src[x] * tanh({first} + {second})", f"log1p({first})",
            f"tanh({self.grown()})", f"tanh({self.grown()} + {second})", f"{first} * tanh({self.grown()} * 2)",
        ])  # fmt: skip
        return [*self.steps, f"dst[x] = {value}"]


def value_of(tree: Expr, arrays: Mapping[str, Any], dtype: type) -> Any:
    """A tree computed with every operation rounded to a type."""
    if isinstance(tree, Number):
        return dtype(tree.value)
    if isinstance(tree, Read):
        return arrays[tree.tensor]
    if isinstance(tree, Unary):
        return -value_of(tree.operand, arrays, dtype)
    if isinstance(tree, Binary):
        return OPERATORS[tree.op](value_of(tree.left, arrays, dtype), value_of(tree.right, arrays, dtype))
    assert isinstance(tree, Call)
    return FUNCTIONS[tree.function](*(value_of(part, arrays, dtype) for part in tree.arguments))


def computed(op: Op, dtype: type) -> dict[str, Any]:
    """The arrays of an operation and of its gradient."""
    arrays = {"src": POINTS.astype(np.float32).astype(dtype), "diff_dst": np.ones(POINTS.shape, dtype)}
    made = [(step.assignments[0].target, step.assignments[0].value) for step in op.semantics.steps]
    made += [(one.target, one.cases[""]) for one in gradient(op).statements]
    with np.errstate(all="ignore"):
        for target, value in made:
            arrays[target.tensor] = value_of(value, arrays, dtype) * np.ones_like(arrays["src"])
    return arrays


@pytest.mark.skipif(np.finfo(np.longdouble).maxexp <= 1024, reason="long double has no wider range than double")
def test_a_gradient_is_finite_where_its_operation_is() -> None:
    for seed in range(FORMULAS):
        steps = Gates(seed).steps_of()
        (op,) = load_texts({"op.yaml": SPEC.format(steps="".join(f"    - {step}\n" for step in steps))}).ops
        single, exact = computed(op, np.float32), computed(op, np.longdouble)
        finite = np.isfinite(single["dst"])
        assert finite.sum() > len(POINTS) / 2, steps
        found, wanted = single["diff_src"][finite], exact["diff_src"][finite]
        near = np.abs(found - wanted) <= 1e-4 * (1 + np.abs(wanted))
        assert near.all(), (seed, steps, POINTS[finite][~near], gradient_text(op)[0])
