"""Sums over windows along several axes are added along the last axis last: the other letters first, for whole rows.

In: a program. Out: the program in which `y[o, p] += x[o * 2 + k, p * 2 + l]` has two steps: `strip[o, u] += x[o * 2 +
k, u]` by a letter `u` that walks all of the last axis, and `y[o, p] += strip[o, p * 2 + l]`. The first has lanes
whose cells lie together, and windows that overlap share it. Averages of 7 x 7 by 7 over 2x96x56x56 f32 take 0.17 of
their time, of 3 x 3 by 2 over 2x64x57x57 0.62, bf16 0.44, of 2 x 2 x 2 over 2x16x17x57x55 0.6. Rejected: extremes of
3 x 3 by 2 over 112 x 112 cells, which stay in registers, would take 2.0. What is added to all cells of windows, `y[o +
k, p + l] += x[o, p]`, goes to whole rows first: to 7 x 7 of 4x64x22x23 f32 in 0.38 of its time, bf16 0.3 (Intel Xeon,
Sapphire Rapids, gcc 12.2).
"""

from __future__ import annotations

import dataclasses
import math

from ...language import expr
from ...language.expr import Binary, Expr, Name, Number, Read
from ..algebra.slopes import slope
from ..program import Array, Axis, Part, Program
from .pairing import is_product


def in_strips(found: Program) -> Program:
    """The program with such sums as two steps each."""
    for part in found.parts:
        plain = part.operator == "sum" and not (part.by or part.where or part.unless_empty)
        if not plain or len(part.reads) != 1 or is_product(found, part):
            continue
        (read,) = part.reads
        if _slides(found, part, part.target, read):
            found = _with_strip(found, part, read)
        elif _slides(found, part, read, part.target) and _halves(found, part, read):
            found = _strip_before(found, part, read)
    return found


def _with_strip(found: Program, part: Part, read: Read) -> Program:
    """The program in which windows that are read are added along the last axis last."""
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
    return _in_two(found, part, letters, strip, ((strip, term), (part.target, last)))


def _strip_before(found: Program, part: Part, read: Read) -> Program:
    """The program in which cells are added to those of windows along the last axis last."""
    name, target = f"strip_{part.number}_", part.target
    *axes, _ = found.arrays[target.tensor].axes
    rows = [
        index if isinstance(index, Name) and index.id in found.letters else Name(f"{name}{axis.name}_")
        for index, axis in zip(target.indices, axes, strict=False)
    ]
    letters = {**found.letters}
    for row, axis in zip(rows, axes, strict=True):
        letters.setdefault(row.id, Axis(row.id, axis.extent, "one"))
    strip = Read(name, (*rows, read.indices[-1]))
    first = dataclasses.replace(strip, indices=(*target.indices[:-1], read.indices[-1]))
    last = dataclasses.replace(target, indices=(*rows, target.indices[-1]))
    return _in_two(found, part, letters, strip, ((first, part.formulas[0].value), (last, strip)))


def _halves(found: Program, part: Part, read: Read) -> bool:
    """Whether adding to rows first takes at most half of the additions: 3 x 3 on 2x500x700 f32 would take 1.5."""
    own = [{*part.letters} & expr.names(index) for index in part.target.indices]
    windows = [(index, names) for index, names in zip(part.target.indices, own, strict=True) if len(names) == 2]
    taps = [found.letters[name].extent for _, names in windows for name in names - expr.names(read)]
    strides = [slope(index, name) for index, names in windows for name in names & expr.names(read)]
    known = [int(one.value) for one in (*taps, *strides) if isinstance(one, Number)]
    if len(known) < 2 * len(windows):
        return False
    (*rows, last), apart = known[: len(windows)], known[len(windows) : -1]
    return 2 * (math.prod(rows) + abs(math.prod(apart)) * last) <= math.prod(rows) * last


def _in_two(
    found: Program, part: Part, letters: dict[str, Axis], strip: Read, steps: tuple[tuple[Read, Expr], ...]
) -> Program:
    """The program with two steps in place of one, and an array between them."""
    axes = tuple(letters[index.id] for index in strip.indices if isinstance(index, Name))
    return dataclasses.replace(
        found,
        letters=letters,
        arrays={**found.arrays, strip.tensor: Array(strip.tensor, "between", axes)},
        parts=found.instead(part, [part.of(to, part.operator, made, letters) for to, made in steps]),
    )


def _slides(found: Program, part: Part, fixed: Read, sliding: Read) -> bool:
    """Whether cells of letters meet windows of several axes, each by letters of its own, the last of them last."""
    value, letters = part.formulas[0].value, found.letters
    arrays = [found.arrays[one.tensor] for one in (fixed, sliding)]
    given = [index.id for index in fixed.indices if isinstance(index, Name) and index.id in letters]
    kinds = {axis.kind for array in arrays for axis in array.axes} | {letters[name].kind for name in part.letters}
    whole = len({*given}) == len(fixed.indices) and kinds == {"one"} and all(array.role != "list" for array in arrays)
    if not whole or part.target.tensor in found.integers or expr.names_outside_indices(value) & letters.keys():
        return False
    walked = [[name for name in part.letters if name in expr.names(index)] for index in sliding.indices]
    windows = [names for names in walked if len(names) == 2 and len({*names} & {*given}) == 1]
    own = sum(map(len, walked)) == len({name for names in walked for name in names}) == len(part.letters)
    linear = all(
        slope(index, name) is not None for index, names in zip(sliding.indices, walked, strict=True) for name in names
    )
    # Those of the last axis are put together last; letters that have an axis for themselves are added as they are.
    taps = {*part.letters} - {*given}
    return own and linear and len(taps) == len(windows) > 1 and windows[-1] is walked[-1] and given[-1] in walked[-1]
