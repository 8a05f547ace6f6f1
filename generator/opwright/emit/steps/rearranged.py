"""Copies that a call may make at once: rows that are written backwards, and cells that change places in small planes.

In: a phase that does nothing but copy an input to an output, at indices that are linear functions of letters. Out:
statements, and a call of `opwright_rearranged_4` (c/rows/planes.h) that says whether it made the copy. What the
strides of a call make of its axes is known there alone: which of them lie as one, and which are few cells.
"""

from __future__ import annotations

from ...language import expr
from ...language.dtypes import DTYPES
from ...language.expr import Number, Read
from .. import nodes
from ..nodes import Binary, Call, DeclareArray, Do, Expr, Name, Stmt
from . import planes
from .loops import Loops

AXES = Name("axes_")


def rearranged(loops: Loops) -> tuple[list[Stmt], Expr] | None:
    """What a call needs to know, and whether it made the copy; None of phases that do anything else."""
    part, *others = loops.phase.parts
    formula = part.formulas[0]
    value, target = formula.value, part.target
    if others or part.by or part.where or any(tensor.joined for tensor in loops.op.inputs):
        return None
    if not isinstance(value, Read) or not planes.copies(loops, part, formula):
        return None
    made: list[Stmt] = [DeclareArray(AXES.name, "opwright_axis", len(part.letters))]
    for number, name in enumerate(part.letters):
        steps = (planes.growth(loops, read, name) for read in (target, value))
        axis = Binary("+", AXES, nodes.integer(number)) if number else AXES
        made.append(Do(Call("opwright_set_axis", (axis, loops.extent(loops.program.letters[name], 0), *steps))))
    firsts = dict.fromkeys(part.letters, Number(0))
    begins = (
        loops.address(Read(read.tensor, tuple(expr.substitute(index, firsts) for index in read.indices)))
        for read in (target, value)
    )
    size, count = DTYPES[loops.dtype(target.tensor)].size, nodes.integer(len(part.letters))
    return made, Call(f"opwright_rearranged_{size}", (*begins, AXES, count, Name("part_"), Name("parts_")))
