"""Letters of lanes that are compared with places: near ones, and those that 32 bits cannot hold."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
from support.draws import rng
from support.package import package
from support.spec_packages import instruction_set, usable

CHOICES = {
    "below": "c < P",
    "above": "c > P",
    "upto": "P + r >= c",
    "least": "P - r <= c",
    "at": "c == P + r",
    "off": "P != c",
    "back": "P - c > r",
    "both": "c >= r and c < P",
}
SPEC = f"""op: Limits
revision: 1
summary: Cells on one side of a place.
dims: {{rows: {{symbol: R}}, cells: {{symbol: C}}}}
attributes: [{{name: place, symbol: P, type: s64, required: true, summary: The place.}}]
inputs: [{{name: x, dims: {{R: R, C: C}}}}]
outputs: [{", ".join(f"{{name: {name}, dims: {{R: R, C: C}}}}" for name in CHOICES)}]
dtypes:
  - {{x: f32, {", ".join(f"{name}: f32" for name in CHOICES)}, accumulate: f32}}
  - {{x: bf16, {", ".join(f"{name}: bf16" for name in CHOICES)}, accumulate: f32}}
semantics:
  ranges: {{r: R, c: C}}
  steps: [{", ".join(f'"{name}[r, c] = select({choice}, x[r, c], 3)"' for name, choice in CHOICES.items())}]
"""
PLACES = (0, 1, 7, 16, 33, 40, 700, -1, -5, 2**31 - 1, 2**31, 2**32, 2**32 + 9, -(2**32) + 9, 2**40, -(2**40))


def test_a_letter_of_lanes_is_compared_with_places_near_and_far(tmp_path: Path) -> None:
    random = rng("limits")
    _, module = package({"limits.yaml": SPEC}, tmp_path, "limits_package")
    for isa in usable(module)[:1]:
        with instruction_set(module, isa):
            for number, place in enumerate(PLACES):
                rows, cells = [(3, 41), (2, 700), (40, 5)][number % 3]
                dtype = [np.float32, ml_dtypes.bfloat16][number % 2]
                x = random.integers(-9, 9, (rows, cells)).astype(dtype)
                given = x if number % 4 else np.asfortranarray(x)
                found = module.limits(given, place=place, threads=1 + number % 3)
                letters = {"r": np.arange(rows)[:, None], "c": np.arange(cells)[None], "P": place}
                for (name, choice), cells_of in zip(CHOICES.items(), found, strict=True):
                    holds = eval(f"({choice})".replace(" and ", ") & ("), letters)
                    wanted = np.where(np.broadcast_to(holds, x.shape), x, dtype(3))
                    assert (cells_of == wanted).all(), (isa, name, place, rows, cells)
