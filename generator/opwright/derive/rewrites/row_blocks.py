"""Sums over rows that other steps sum up, too: blocks of rows have sums of their own, so that rows are read once.

In: a program. Out: the same, in which `y[c] += x[n, c]` beside `s[n] += x[n, c]` becomes a step of the same rows,
`y_blocks_[floor(n / ROWS), c] += x[n, c]`, and `y[c] += y_blocks_[k, c]`. Tasks are shared by whole blocks, so that the
bits of sums do not depend on threads; lanes along rows are those of one block, whose number then is a letter.

Gradients of layer norm of 4096 x 768 f32 take 0.6 of the time of a pass for each direction, with two threads 0.5 (AMD
EPYC, Zen 4, gcc 12.2). Rows that are a run of axes have no lanes along them by blocks, and turned ones took 40 times as
long: they are left as they are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ...language import expr
from ...language.expr import Binary, Call, Expr, Name, Number, Read
from ..contraction import over_pairs
from ..program import Array, Axis, Part, Program

ROWS = Number(32)  # of a block: fewer are more sums to add up, more keep threads of calls of few rows waiting
SUFFIX = "_blocks_"


def by_blocks(found: Program) -> Program:
    """The program with such sums by blocks."""
    letters, arrays, parts = dict(found.letters), dict(found.arrays), list(found.parts)
    for part in found.parts:
        row = _row(found, part)
        if not row:
            continue
        at = parts.index(part)
        readers = [n for n, one in enumerate(parts) if part.target.tensor in {read.tensor for read in one.reads}]
        block = Axis(f"{row}{SUFFIX}", _rounded_up(found.letters[row].extent, ROWS), "one")
        name = f"{part.target.tensor}{SUFFIX}"
        own = tuple(found.letters[index.id] for index in part.target.indices if isinstance(index, Name))
        letters[block.name] = block
        arrays[name] = Array(name, "between", (block, *own))
        places = _place(found.letters[row]), Name(block.name)
        sums, whole = (Read(name, (index, *part.target.indices)) for index in places)
        joined = part.of(part.target, part.operator, whole)
        joined = dataclasses.replace(joined, letters=(block.name, *(axis.name for axis in own)))
        made = dataclasses.replace(part.of(sums, part.operator, part.formulas[0].value), letters=part.letters)
        parts[at] = made
        parts.insert(min(readers, default=len(parts)), joined)
    return (
        dataclasses.replace(found, letters=letters, arrays=arrays, parts=tuple(parts))
        if len(parts) > len(found.parts)
        else found
    )


def block_letter(found: Program, index: Expr) -> str | None:
    """The letter of rows, if an index is the number of their block."""
    for row in [name.removesuffix(SUFFIX) for name in found.letters if name.endswith(SUFFIX)]:
        if index in (_place(found.letters[row]), Name(f"{row}{SUFFIX}")):
            return row
    return None


def one_block(found: Program, parts: Sequence[Part], row: str) -> tuple[Program, tuple[Part, ...]]:
    """Steps of which a task has the rows of one block, whose number is a letter; and the program with these."""
    place, number = _place(found.letters[row]), Name(f"{row}{SUFFIX}")
    changed = {id(part): _at(part, place, number) for part in parts if place in part.target.indices}
    everywhere, own = (tuple(changed.get(id(part), part) for part in some) for some in (found.parts, parts))
    return dataclasses.replace(found, parts=everywhere), own


def _at(part: Part, place: Expr, number: Expr) -> Part:
    """A sum at a block whose number is known."""
    indices = tuple(number if index == place else index for index in part.target.indices)
    made = part.of(Read(part.target.tensor, indices), part.operator, part.formulas[0].value)
    return dataclasses.replace(made, letters=part.letters)


def _row(found: Program, part: Part) -> str:
    """The letter of the rows that a step sums up, if another step sums up each of them; '' if there is none."""
    target = part.target
    walked = [found.walks(target.tensor, *pair) for pair in enumerate(target.indices)]
    reduced = {*part.letters} - expr.names(target)
    alone = found.first_writer(target.tensor) is part and found.arrays[target.tensor].role == "between"
    if part.operator == "set" or part.by or part.where or len(part.formulas) != 1 or not alone:
        return ""
    if (
        len(reduced) != 1
        or not walked
        or None in walked
        or len(part.letters) != 1 + len(walked)
        or over_pairs(found, part)
    ):
        return ""
    (row,) = reduced
    for other in found.parts:
        across = other.operator != "set" and not (other.by or other.where or over_pairs(found, other))
        if across and {*other.letters} == {*part.letters} and expr.names(other.target) & {*part.letters} == {row}:
            read = [one for one in part.reads if one in other.reads and {*part.letters} <= expr.names(one)]
            lanes = read and row not in expr.names(read[0].indices[-1])  # rows are those of memory
            return row if lanes and found.letters[row].kind == "one" else ""
    return ""


def _place(letter: Axis) -> Expr:
    return Call("floor", (Binary("/", Name(letter.name), ROWS),))


def _rounded_up(left: Expr, right: Expr) -> Expr:
    return Call("ceil", (Binary("/", left, right),))
