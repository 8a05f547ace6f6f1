"""How much a run draws, and from which seeds.

In: the environment. Out: whether it is a full sweep, and random generators.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")

FULL = os.environ.get("OPWRIGHT_SWEEP") == "full"


def rng(*seed: object) -> np.random.Generator:
    """A generator that every run of a test repeats: its seed is spelt in words and numbers.

    OPWRIGHT_SEED=word draws other cases than those of every day.
    """
    return np.random.default_rng(list((repr(seed) + os.environ.get("OPWRIGHT_SEED", "")).encode()))


def best_and_another(name: str, found: Sequence[T]) -> list[T]:
    """The first of some, which is the best, and another that is drawn by name; all of them in a full sweep."""
    best, *others = found
    return [best, *(others if FULL or not others else [others[int(rng(name).integers(len(others)))]])]


def one_of(name: str, found: Sequence[T]) -> list[T]:
    """One of some, drawn by name, and two times of three the first, which is the best; all of them in a full sweep."""
    best, *others = found
    if FULL or not others:
        return [*found]
    random = rng("one of", name)
    return [best if random.random() < 2 / 3 else others[int(random.integers(len(others)))]]
