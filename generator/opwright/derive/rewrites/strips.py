"""Sums over windows along several axes are added along the last axis last: the other letters first, for whole rows.

In: a program. Out: the program in which `y[o, p] += x[o * 2 + k, p * 2 + l]` has two steps: `strip[o, u] += x[o * 2 +
k, u]` by a letter `u` that walks all of the last axis, and `y[o, p] += strip[o, p * 2 + l]`. The first has lanes
whose cells lie together, and windows that overlap share it. Averages of 7 x 7 by 7 over 2x96x56x56 f32 take 0.17 of
their time, of 3 x 3 by 2 over 2x64x57x57 0.62, bf16 0.44, of 2 x 2 x 2 over 2x16x17x57x55 0.6. Rejected: extremes of
3 x 3 by 2 over 112 x 112 cells, which stay in registers, would take 2.0 (Intel Xeon, Sapphire Rapids, gcc 12.2).
"""

from __future__ import annotations

import dataclasses

from ...language import expr
from ...language.expr import Binary, Expr, Name, Read
from ..algebra.slopes import slope
from ..program import Array, Axis, Part, Program
from .pairing import is_product


def in_strips(found: Program) -> Program:
    """The program with such sums as two steps each."""
    for part in found.parts:
        read = _window(found, part)
        if read is not None:
            found = _with_strip(found, part, read)
    return found


def _with_strip(found: Program, part: Part, read: Read) -> Program:
    value, divisors = part.formulas[0].value, list[Expr]()
    while isinstance(value, Binary) and value.op == "/" and not expr.reads(value.right):
        divisors.insert(0, value.right)
        value = value.left
    along, name = found.arrays[read.tensor].axes[-1], f"strip_{part.number}_"
    cell = Axis(f"{name}{along.name}_", along.extent, "one")
    letters = {**found.letters, cell.name: cell}
    strip = Read(name, (*part.target.indices[:-1], Name(cell.name)))
    term = expr.replaced(value, read, dataclasses.replace(read, indices=(*read.indices[:-1], Name(cell.name))))
    last: Expr = Read(name, (*strip.indices[:-1], read.indices[-1]))
    for divisor in divisors:
        last = Binary("/", last, divisor)

    steps = (part.of(to, part.operator, made, letters) for to, made in ((strip, term), (part.target, last)))
    axes = tuple(letters[index.id] for index in strip.indices if isinstance(index, Name))
    return dataclasses.replace(
        found,
        letters=letters,
        arrays={**found.arrays, name: Array(name, "between", axes)},
        parts=found.instead(part, steps),
    )


def _window(found: Program, part: Part) -> Read | None:
    """What a sum reads at windows, each by letters of its own, the last of them along the last axis; None of others."""
    target, reads = part.target, part.reads
    plain = part.operator == "sum" and not (part.by or part.where or part.unless_empty)
    if not plain or len(reads) != 1 or is_product(found, part):
        return None
    (read,), value, letters = reads, part.formulas[0].value, found.letters
    written = [index.id for index in target.indices if isinstance(index, Name) and index.id in letters]
    arrays = found.arrays[read.tensor], found.arrays[target.tensor]
    kinds = {axis.kind for array in arrays for axis in array.axes} | {letters[name].kind for name in part.letters}
    whole = len({*written}) == len(target.indices) and kinds == {"one"} and arrays[0].role != "list"
    if not whole or target.tensor in found.integers or expr.names_outside_indices(value) & letters.keys():
        return None
    walked = [[name for name in part.letters if name in expr.names(index)] for index in read.indices]
    windows = [names for names in walked if len(names) == 2 and len({*names} & {*written}) == 1]
    own = sum(map(len, walked)) == len({name for names in walked for name in names}) == len(part.letters)
    linear = all(
        slope(index, name) is not None for index, names in zip(read.indices, walked, strict=True) for name in names
    )
    # Those of the last axis are put together last; letters that have an axis for themselves are added as they are.
    reduced = {*part.letters} - {*written}
    apart = len(windows) > 1 and windows[-1] is walked[-1] and written[-1] in walked[-1]
    return read if own and linear and apart and len(reduced) == len(windows) else None
