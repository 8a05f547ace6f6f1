"""Inputs whose axes go with those of an output one by one, and inputs whose axes have the same names but do not.

In: an operation. Out: by output, such inputs. Where a call gives no array for the output, it lies in memory as an input
does whose axes go with its own: those of the same names, or in the same places though of other extents, such as images
of windows.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..language import expr
from ..language.expr import Expr
from ..language.model import Op
from .contraction import over_pairs
from .program import Program, program

Inputs = Mapping[str, tuple[str, ...]]


def alike(op: Op) -> Inputs:
    """By output, the inputs of as many axes of other names, of which each goes with the output's in that place."""
    found = program(op)
    if any(over_pairs(found, part) for part in found.parts):
        return {}
    result = {}
    for output, axes, others in _plain(op, found):
        several = {name: [*range(len(axes))] for name, own in others.items() if own != axes and len(own) == len(axes)}
        inputs = tuple(name for name, spots in several.items() if len(axes) > 1 and _go(found, output, name, spots))
        if inputs:
            result[output] = inputs
    return result


def unlike(op: Op) -> Inputs:
    """By output, the inputs that have axes of all its names, not all of which go with its own: `x[n, c]` where its

    axes are rows and columns, as are those of `y[c, n]`.
    """
    found = program(op)
    result = {}
    for output, axes, others in _plain(op, found):
        several = {name: [own.index(axis) for axis in axes] for name, own in others.items() if {*axes} <= {*own}}
        inputs = tuple(name for name, spots in several.items() if not _go(found, output, name, spots))
        if inputs:
            result[output] = inputs
    return result


def _plain(op: Op, found: Program) -> list[tuple[str, list[str], dict[str, list[str]]]]:
    """The outputs whose axes no call moves, with the names of these, and with those of such inputs that steps read."""
    plain = {
        tensor.name: [axis.name for axis in found.arrays[tensor.name].axes]
        for tensor in op.tensors
        if not tensor.layout and tensor.name in found.arrays
        if all(axis.kind == "one" for axis in found.arrays[tensor.name].axes)
    }
    read = {one.tensor for part in found.parts for one in part.reads}
    inputs = {tensor.name: plain[tensor.name] for tensor in op.inputs if tensor.name in plain and tensor.name in read}
    return [(output.name, plain[output.name], inputs) for output in op.outputs if output.name in plain]


def _go(found: Program, output: str, name: str, spots: list[int]) -> bool:
    """Whether the axes of an input that stand at some places go with those of an output, in some read of it."""
    writers = [part for part in found.parts if part.target.tensor == output]
    return any(
        all(
            _together(found, one, read.indices[spot], same=part is writer)
            for writer in writers
            for one, spot in zip(writer.target.indices, spots, strict=True)
        )
        for part in found.parts
        for read in part.reads
        if read.tensor == name
    )


def _together(found: Program, one: Expr, other: Expr, *, same: bool) -> bool:
    """Whether indices have a letter in common; in two steps, letters of the same extent."""
    letters, others = ({*expr.names(index)} & found.letters.keys() for index in (one, other))
    if same:
        return bool(letters & others)
    return bool({found.letters[name].extent for name in letters} & {found.letters[name].extent for name in others})
