"""Inputs whose axes go with those of an output one by one, though some of other extents: images of windows.

In: an operation. Out: by output, such inputs. Where a call gives no array for the output, it lies in memory as they do.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..language import expr
from ..language.expr import Expr
from ..language.model import Op
from .contraction import over_pairs
from .program import Program, program


def alike(op: Op) -> dict[str, tuple[str, ...]]:
    """By output, the inputs of as many axes of which each is walked by a letter of the output's axis in that place."""
    found = program(op)
    plain = [tensor for tensor in op.tensors if not tensor.layout and tensor.name in found.arrays]
    names = [tensor.name for tensor in plain if all(axis.kind == "one" for axis in found.arrays[tensor.name].axes)]
    if any(over_pairs(found, part) for part in found.parts):
        return {}
    result = {}
    for output in (tensor.name for tensor in op.outputs if tensor.name in names):
        axes = [axis.name for axis in found.arrays[output].axes]
        targets = [part.target.indices for part in found.parts if part.target.tensor == output]
        inputs = dict.fromkeys(
            read.tensor
            for part in found.parts
            for read in part.reads
            if read.tensor in names
            and op.tensor(read.tensor) in op.inputs
            and [axis.name for axis in found.arrays[read.tensor].axes] != axes
            and len(read.indices) == len(axes) > 1
            and all(_together(found, target, read.indices) for target in targets)
        )
        if inputs:
            result[output] = (*inputs,)
    return result


def _together(found: Program, target: Sequence[Expr], read: Sequence[Expr]) -> bool:
    """Whether indices in the same places have letters of the same extent."""
    return all(_extents(found, one) & _extents(found, two) for one, two in zip(target, read, strict=True))


def _extents(found: Program, index: Expr) -> set[Expr]:
    return {found.letters[name].extent for name in expr.names(index) & found.letters.keys()}
