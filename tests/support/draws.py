"""How much a run draws, and from which seeds.

In: the environment. Out: whether it is a full sweep, and random generators.
"""

from __future__ import annotations

import os

import numpy as np

FULL = os.environ.get("OPWRIGHT_SWEEP") == "full"


def rng(*seed: object) -> np.random.Generator:
    """A generator that every run of a test repeats: its seed is spelt in words and numbers.

    OPWRIGHT_SEED=word draws other cases than those of every day.
    """
    return np.random.default_rng(list((repr(seed) + os.environ.get("OPWRIGHT_SEED", "")).encode()))
