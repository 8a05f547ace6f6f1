"""A step that reads cells of the array that it writes reads them as they were before it, from a copy.

In: a program. Out: the program in which kernels may write cells in any order, and add to a cell before all of its terms
are known. Only a cell that one value of the step's letters reads and writes needs no copy.
"""

from __future__ import annotations

import dataclasses
import functools

from ...language import expr
from ...language.expr import Call, Name, Read
from ..program import Array, Axis, Formula, Part, Program


def copied(found: Program) -> Program:
    """The program with a copy of an array before each such step."""
    for part in found.parts:
        own = [read for read in part.reads if read.tensor == part.target.tensor and not _is_its_cell(found, part, read)]
        if own:
            found = _with_copy(found, part, own)
    return found


def _is_its_cell(found: Program, part: Part, read: Read) -> bool:
    """Whether a read is of the cell that is written, which no other values of letters write."""
    calls = any(isinstance(node, Call | Read) for index in read.indices for node in expr.walk(index))
    several = any(len(expr.names(index) & found.letters.keys()) > 1 for index in read.indices)
    once = {*part.letters} <= expr.names(part.target)
    return read.indices == part.target.indices and once and not calls and not several


def _with_copy(found: Program, part: Part, own: list[Read]) -> Program:
    array = found.arrays[part.target.tensor]
    name = f"was_{found.parts.index(part)}_"
    axes = tuple(Axis(f"{name}{axis.name}_", axis.extent, axis.kind) for axis in array.axes)
    cells = tuple(Name(axis.name) for axis in axes)
    copy = part.of(Read(name, cells), "set", Read(array.name, cells), [axis.name for axis in axes])
    after = part
    for read in own:
        after = after.each(functools.partial(_reading, old=read, new=Read(name, read.indices)))
    return dataclasses.replace(
        found,
        letters={**found.letters, **{axis.name: axis for axis in axes}},
        arrays={**found.arrays, name: Array(name, "between", axes)},
        parts=found.instead(part, (copy, after)),
        whole=found.whole | {name} if array.name in found.integers else found.whole,
    )


def _reading(formula: Formula, old: Read, new: Read) -> Formula:
    value, *indices = (
        expr.changed(tree, lambda node: new if node == old else None)
        for tree in (formula.value, *formula.assignment.target.indices)
    )
    target = dataclasses.replace(formula.assignment.target, indices=tuple(indices))
    return formula.of(value, target)
