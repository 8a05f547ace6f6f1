"""Drops steps that no output needs: kernels do not compute them.

In: a program, and its outputs. Out: the program of the other steps, without the arrays that only dropped steps write.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ..program import Part, Program


def needed(found: Program, outputs: Iterable[str]) -> Program:
    """The program of the steps that the outputs need."""
    wanted, parts = {*outputs}, list[Part]()
    for part in reversed(found.parts):
        if part.target.tensor in wanted:
            parts.insert(0, part)
            wanted |= {read.tensor for read in part.reads}
    dropped = {part.target.tensor for part in found.parts} - wanted
    if not dropped:
        return found
    arrays = {name: array for name, array in found.arrays.items() if name not in dropped}
    return dataclasses.replace(found, arrays=arrays, parts=tuple(parts))
