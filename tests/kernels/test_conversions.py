"""Values converted to a type within a step: the bits of a tensor of that type, in every accumulator and with vectors and without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import opwright_kernels as kernels
import pytest
from opwright.language.expr import CONVERSIONS
from opwright.language.library import Library
from opwright.oracle.run_steps import compute_steps
from support.draws import rng
from support.package import package
from support.spec_packages import instruction_set, usable

INTEGERS = tuple(name for name, dtype in CONVERSIONS.items() if dtype[0] in "su")


def spec(accumulate: str) -> str:
    """An operation with an output per conversion."""
    names = INTEGERS if accumulate == "s64" else tuple(CONVERSIONS)
    outputs = "".join(f"  - {{name: as_{n.removeprefix('to_')}, dims: {{X: X}}}}\n" for n in names)
    steps = "".join(f"    - as_{n.removeprefix('to_')}[x] = {n}(src[x])\n" for n in names)
    row = ", ".join(f"as_{n.removeprefix('to_')}: {accumulate}" for n in names)
    return (
        f"op: Of{accumulate.upper()}\nrevision: 1\nsummary: Conversions.\ndims: {{cells: {{symbol: X, run: true}}}}\n"
        f"inputs: [{{name: src, dims: {{X: X}}}}]\noutputs:\n{outputs}"
        f"dtypes: [{{src: {accumulate}, {row}, accumulate: {accumulate}}}]\nsemantics:\n  ranges: {{x: X}}\n"
        f"  steps:\n{steps}"
    )


MIXED = (Path(__file__).parents[1] / "data" / "steps" / "mixed_precision.yaml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Library, ModuleType]]:
    texts = {name: spec(name) for name in ("f32", "f64", "s64")} | {"mixed": MIXED}
    folder = Path(tmp_path_factory.mktemp("conversions"))
    yield package({f"{name}.yaml": text for name, text in texts.items()}, folder, "conversions_package")


def numbers(accumulate: str) -> np.ndarray:
    rng = np.random.default_rng(7)
    if accumulate == "s64":
        return np.concatenate([rng.integers(-400, 400, 900), [2**31, -(2**31) - 1, 2**62, -(2**63)]])
    bits = rng.integers(0, 2**32, 30000, dtype=np.uint32).view(np.float32)
    ties = np.arange(0, 4000) * (1 + 2.0**-40) / 2
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 65519.99, 65520, 464, 464.001, 2.0**31, -(2.0**31), 2.0**-25]
    with np.errstate(invalid="ignore"):
        found = np.concatenate([bits.astype(np.float64), rng.standard_normal(9000) * 100, ties, -ties, special])
        return found.astype({"f32": np.float32, "f64": np.float64}[accumulate])


@pytest.mark.parametrize("accumulate", ["f32", "f64", "s64"])
def test_a_converted_value_is_what_a_tensor_of_the_type_would_hold(
    built: tuple[Library, ModuleType], accumulate: str
) -> None:
    library, module = built
    op, given = library.op(f"Of{accumulate.upper()}"), numbers(accumulate)
    wanted = compute_steps(op, [given], {})
    for isa in {usable(module)[0], "avx2", "portable"} & {*usable(module)}:
        with instruction_set(module, isa):
            for name, found in zip(wanted, getattr(module, op.function)(given), strict=True):
                assert np.array_equal(found, wanted[name], equal_nan=accumulate != "s64"), (isa, name)
                assert np.array_equal(np.signbit(found), np.signbit(wanted[name])) or accumulate == "s64", (isa, name)


def test_a_product_of_converted_factors_has_factors_of_that_type(built: tuple[Library, ModuleType]) -> None:
    library, module = built
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((17, 33), (33, 40)))
    wanted = compute_steps(library.op("MixedPrecision"), [a, b], {})["dst"]
    assert np.allclose(module.mixed_precision(a, b), wanted, rtol=1e-4, atol=1e-5)
    assert not np.allclose(module.mixed_precision(a, b), a @ (b / 3), rtol=1e-4, atol=1e-5)


def test_zero_points_of_64_bits_are_rounded_once(isa: str) -> None:
    """Around powers of two and halves of the last place of f32, where rounding to double first would give another number."""
    powers = [sign * 2**power + near for power in range(63) for near in (-1, 0, 1) for sign in (-1, 1)]
    halves = [2**62 + 2**38 + near for near in (-1, 0, 1)] + [-(2**62) - 2**38 + near for near in (-1, 0, 1)]
    drawn = rng("zero points", isa).integers(-(2**63) + 1, 2**63, 300) >> np.arange(300) % 64
    points = np.array([*powers, *halves, 2**63 - 1, -(2**63) + 1, *drawn], np.int64)
    given = {"qtype": "per_channel", "axis": 0, "scales": [1.0] * len(points), "zps": points.tolist()}
    found = kernels.dequantize(np.zeros(len(points), np.int8), **given)
    assert (found == 0 - points.astype(np.float32)).all()
