"""Sums of products whose rows and columns lie in turns: random specs, judged by calls, and how their sums lie."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
from opwright.derive.phases import staged
from opwright.language.expr import Name
from opwright.language.library import Library
from opwright.language.model import Op
from support import random_turns
from support.draws import FULL, rng
from support.package import package
from support.step_verdicts import first_disagreement

SPECS, CALLS = (60, 24) if FULL else (6, 10)


def drawn(folder: Path, count: int, name: str) -> tuple[Library, object]:
    texts = {f"Turns{n}.yaml": random_turns.draw(np.random.default_rng([23, n]), f"Turns{n}") for n in range(count)}
    return package(texts, folder, name)


def turns_of(op: Op) -> int | None:
    """How often the factors of the sums take turns in how these lie; None if no engine computes them."""
    products = [phase.contraction for phase in staged(op).phases if phase.contraction is not None]
    if not products:
        return None
    product = products[0]
    factors = [{index.id for index in one.indices if isinstance(index, Name)} for one in (product.left, product.right)]
    letters = [axis.name for axis in staged(op).program.arrays[product.target.tensor].axes if axis.name != "b"]
    sides = [letter in factors[0] for letter in letters]
    return sum(one != other for one, other in itertools.pairwise(sides))


def test_sums_in_turns_are_what_the_interpreter_gives(tmp_path: Path) -> None:
    library, module = drawn(tmp_path, SPECS, "factors_together")
    for op in library.ops:
        assert first_disagreement(module, op, rng("turns", op.function), CALLS, Counter()) is None, op.function


def test_letters_of_a_factor_that_are_one_axis_lie_side_by_side(tmp_path: Path) -> None:
    library, _ = drawn(tmp_path, 60, "letters_together")
    together = 0
    for op in library.ops:
        product = next(phase.contraction for phase in staged(op).phases if phase.contraction is not None)
        walks = [
            [index.id for index in one.indices if isinstance(index, Name)] for one in (product.left, product.right)
        ]
        rows, columns = (next(walk for walk in walks if letter in walk) for letter in "ho")
        if columns.index("c") in (0, 3) and abs(rows.index("h") - rows.index("w")) == 1:
            together += 1
            assert turns_of(op) == 1, op.function
    assert together > 10
