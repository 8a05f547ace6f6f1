"""Values of bytes are the numbers that the interpreter has, whichever type kernels compute them in."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from opwright.oracle.run_steps import compute_steps
from support.draws import FULL, rng
from support.package import package, write_package
from support.random_byte_values import spec_of_bytes
from support.spec_packages import instruction_set, serving
from support.step_verdicts import first_disagreement

COUNT, CALLS = (40, 12) if FULL else (6, 6)
NUMPY = {"s8": np.int8, "u8": np.uint8, "s32": np.int32}
EXTREMES = {"s8": (-128, -127, -1, 0, 1, 127), "u8": (0, 1, 127, 128, 254, 255), "s32": (-(2**31), -1, 0, 3, 2**31 - 1)}


@pytest.mark.sweep
def test_sums_and_products_of_bytes_saturate_as_the_interpreter_says(tmp_path: Path) -> None:
    random, seen = rng("byte values"), Counter[str]()
    texts = {f"bytes{n}.yaml": spec_of_bytes(random, f"Bytes{n}") for n in range(COUNT)}
    library, module = package(texts, tmp_path, "byte_values")
    for op in library.ops:
        (row,) = op.dtypes
        for isa in serving(module, op):
            with instruction_set(module, isa):
                problem = first_disagreement(module, op, rng(op.op, isa), CALLS, seen)
                assert problem is None, f"{isa}: {problem}\n{texts[op.op.lower() + '.yaml']}"
                for rows, cells in ((9, 75), (96, 2), (200, 7)):
                    shapes = {"a": (rows, cells), "b": (cells,), "c": (rows,)}
                    given = [
                        random.choice(EXTREMES[row[name]], shape).astype(NUMPY[row[name]])
                        for name, shape in shapes.items()
                    ]
                    found = getattr(module, op.function)(*given)
                    assert np.array_equal(found, compute_steps(op, given, {})["y"]), (isa, rows, cells, op.op)


@pytest.mark.parametrize(("value", "narrow"), [("a[n, d] - m[n] + b[d] * 2", True), ("b[d] * b[d] - m[n]", False)])
def test_what_bytes_differ_by_from_an_extreme_of_some_is_computed_in_16_bits(
    value: str, narrow: bool, tmp_path: Path
) -> None:
    """Not where the extreme of no bytes would not saturate the difference."""
    text = spec_of_bytes(rng("extremes of bytes"), "Less", f"{value} + 0 * c[n] + 0 * a[n, d]")
    write_package({"less.yaml": text}, tmp_path, "extremes_of_bytes")
    (kernel,) = (tmp_path / "extremes_of_bytes" / "c").glob("less*.c")
    assert ("opwright_s16_of_" in kernel.read_text()) is narrow
