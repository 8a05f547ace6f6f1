"""Random axes of contractions: extents, and how far neighbours lie apart in both operands and in what is written.

In: a random generator. Out: walks, and which of them are summed. Arrays are dense in any order of their axes, or have gaps,
lie backwards, are read by windows that overlap, or repeat cells.
"""

from __future__ import annotations

import numpy as np
from opwright_kernels._contraction_shapes import Walk

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 24, 32, 48, 60, 64, 65, 96, 100, 128, 130, 256, 257, 300, 1000)
# In left, right and out: batches, rows, columns, terms, and cells that both operands repeat.
ROLES = ((1, 1, 1), (1, 0, 1), (0, 1, 1), (1, 1, 0), (0, 0, 1))
OFTEN = (0.25, 0.25, 0.25, 0.22, 0.03)


def draw(random: np.random.Generator) -> tuple[tuple[Walk, ...], tuple[bool, ...]]:
    """Up to ten axes."""
    roles = [ROLES[at] for at in random.choice(len(ROLES), int(random.integers(1, 11)), p=OFTEN)]
    few = len(roles) > 5 or random.random() < 0.3  # cells of each axis, so that several are needed
    extents = [int(random.choice(EXTENTS[:8] if few else EXTENTS)) for _ in roles]
    if random.random() < 0.03:
        extents[0] = 0
    steps = [_steps(random, [role[array] for role in roles], extents) for array in range(3)]
    walks = tuple(Walk(extent, *(step[at] for step in steps)) for at, extent in enumerate(extents))
    return walks, tuple(not role[2] for role in roles)


def _steps(random: np.random.Generator, has: list[int], extents: list[int]) -> list[int]:
    """Of one array: axes in a random order, or as they come, the last one fastest."""
    own = [at for at, wanted in enumerate(has) if wanted]
    if random.random() < 0.6:
        random.shuffle(own)
    found, step = [0] * len(has), 1
    gaps, odd = random.random() < 0.2, random.random() < 0.15
    for at in reversed(own):
        found[at] = step
        step *= max(extents[at], 1)
        if gaps and random.random() < 0.5:
            step += int(random.integers(1, 9))
        if odd and random.random() < 0.3:
            kind = random.integers(3)
            found[at] = -found[at] if kind == 0 else 0 if kind == 1 else max(1, found[at] // 2)
    return found
