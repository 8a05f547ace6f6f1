"""What a call's arrays may be: an output that is an input, and a list whose arrays are taken one after the other."""

from __future__ import annotations

from ..language import expr
from ..language.expr import Expr, Name
from ..language.model import Op, Tensor
from .phases import staged


def is_separable(op: Op, tensor: Tensor) -> bool:
    """Whether the arrays of a joined input can be processed one after the other, each with its slice of the rest:

    all phases are independent along that axis, and only axes and letters use its extent.
    """
    found = staged(op)
    program, extent = found.program, tensor.dims[tensor.joined or ""].tree
    letters = [Name(name) for name, letter in program.letters.items() if letter.extent == extent]
    if len(letters) != 1 or not all(letters[0].id in phase.own for phase in found.phases):
        return False
    reckoned: list[Expr] = [letter.extent for letter in program.letters.values() if letter.extent != extent]
    for part in program.parts:
        reckoned += [guard.tree for guard in part.where]
        reckoned += [Name(name) for formula in part.formulas for name in expr.names_outside_indices(formula.value)]
        for read in (part.target, *part.reads):
            for axis, index in zip(program.arrays[read.tensor].axes, read.indices, strict=True):
                if (index == letters[0]) != (axis.extent == extent):
                    return False
                reckoned += [axis.extent] if axis.extent != extent else []
                reckoned += [index] if index != letters[0] else []
    used = frozenset[str]().union(*map(expr.names, reckoned))
    return not used & {letters[0].id, *expr.names(extent)}


def in_place(op: Op) -> dict[str, tuple[str, ...]]:
    """By output, the inputs that it may overwrite: no step reduces, and one step, which may be written out, reads such

    an input and writes the output, each element from the same element of the input.
    """
    found = staged(op).program
    if any(not set(part.letters) <= expr.names(part.target) for part in found.parts):
        return {}
    result: dict[str, tuple[str, ...]] = {}
    for output in op.outputs:
        writers = [part for part in found.parts if part.target.tensor == output.name]
        axes = [(axis.extent, axis.kind) for axis in found.arrays[output.name].axes]
        names = []
        for tensor in op.data_inputs:
            readers = [part for part in found.parts if tensor.name in {read.tensor for read in part.reads}]
            alike = all(
                read.indices == part.target.indices
                for part in readers
                for read in part.reads
                if read.tensor == tensor.name
            )
            same = axes == [(axis.extent, axis.kind) for axis in found.arrays[tensor.name].axes]
            alone = len({part.number for part in writers}) == 1 and all(part in writers for part in readers)
            if same and alone and alike and readers and not tensor.joined:
                names.append(tensor.name)
        if names:
            result[output.name] = tuple(names)
    return result
