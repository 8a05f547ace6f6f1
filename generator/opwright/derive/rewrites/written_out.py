"""Steps over an axis of a few cells, as of complex numbers, colours and coordinates, written out for each of the cells.

In: a program. Out: the program in which `y[n, o] += m[o, i] * x[n, i]` with three values of o and i has three steps,
each of which sets one cell to a sum of three terms, if then all steps set cells one by one. What was an array of a few
cells for each n is a few arrays. Products of matrices of more than four cells are left to engines.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from ...language import expr
from ...language.expr import Binary, Call, Expr, Name, Number, Read
from ...language.model import Op
from ..lanes import copied_row
from ..program import Array, Part, Program
from ..roles import COLUMNS, ROWS, roles
from .accumulating import CLOSE
from .respelling import exchanged_in, exchanging

MOST = 4  # cells of such an axis
PARTS = 16  # steps, and terms of each


def written_out(found: Program, op: Op) -> Program:
    """The program with such steps written out; as it is if that leaves sums, is too long, or rows are only copied."""
    few = [name for name, axis in found.letters.items() if axis.kind == "one" and 1 < _cells(axis.extent) <= MOST]
    if not few or not all(_alone(found, part, few) for part in found.parts):
        return found
    if all(copied_row(op, found, part) in few or _apart(part) for part in found.parts):
        return found
    if not any(_inner(found, read, few) for part in found.parts for read in (part.target, *part.reads)):
        return found
    if not found.between() and any(_multiplied(found, part, few) for part in found.parts):
        return found
    counts = [[_count(found, part, few, target) for target in (True, False)] for part in found.parts]
    if sum(steps for steps, _ in counts) > PARTS or max(terms for _, terms in counts) > PARTS:
        return found
    parts = [made for part in found.parts for made in _parts(found, part, few)]
    return _split(dataclasses.replace(found, parts=tuple(parts)))


def _cells(extent: Expr) -> int:
    return int(extent.value) if isinstance(extent, Number) else 0


def _alone(found: Program, part: Part, few: Sequence[str]) -> bool:
    """Whether a step sets cells if it is written out, and some array is gone through as its target is."""
    if part.by or part.where or part.operator not in ("set", "sum") or _numbered(part):
        return False
    writers = [other for other in found.parts if other.target.tensor == part.target.tensor]
    target = expr.names(part.target)
    rest = {*part.letters} - {*few}
    if part.operator == "sum" and (len(writers) > 1 or not rest <= target):
        return False
    along = any(rest <= expr.names(read) for read in part.reads)
    reads = (read for read in (part.target, *part.reads) if expr.names(read) & {*few})
    return along and all(_walked(found, read, few) for read in reads)


def _multiplied(found: Program, part: Part, few: Sequence[str]) -> bool:
    """Whether a step multiplies matrices of more cells than one loop reads side by side, which engines do faster.

    5001 of 3x3 times 3x3 take 0.71 of their time in f32, 0.42 in f64, 0.93 in bf16, where all are multiplied by one
    0.95, 0.26 and 0.66, by 3x3x3x3 numbers 0.28, 0.12 and 0.16; 20001 times themselves turned 1.19 in f32, 0.5 in
    f64. Of 2x2 they would take 2.8 in f32, 4.5 in bf16 (AMD Zen 4, gcc 12.2, one thread).
    """
    value, rest = part.formulas[0].value, {*part.letters} - {*few}
    if part.operator != "sum" or not isinstance(value, Binary) or value.op != "*":
        return False
    if not isinstance(value.left, Read) or not isinstance(value.right, Read):
        return False
    own = roles(part.target, (value.left, value.right), part.letters)
    along = [read for read in (part.target, value.left, value.right) if rest <= expr.names(read)]
    cells = [math.prod(_cells(found.letters[x].extent) for x in few if x in expr.names(read)) for read in along]
    return {ROWS, COLUMNS} <= {*own.values()} and max(cells, default=0) > CLOSE


def _apart(part: Part) -> bool:
    """Whether each cell is made of cells that serve it alone."""
    return all(expr.names(read) >= {*part.letters} for read in (part.target, *part.reads))


def _numbered(part: Part) -> bool:
    """Whether a step counts the values of letters."""
    trees = (part.target, part.formulas[0].value)
    return any(isinstance(node, Call) and node.function == "number" for tree in trees for node in expr.walk(tree))


def _walked(found: Program, read: Read, few: Sequence[str]) -> bool:
    """Whether letters of a few values stand alone at axes of an element, inside of these."""
    indices = [(number, index) for number, index in enumerate(read.indices) if expr.names(index) & {*few}]
    extents = ((index, found.arrays[read.tensor].axes[number].extent) for number, index in indices)
    return all(isinstance(i, Name) and _cells(found.letters[i.id].extent) <= _cells(extent) for i, extent in extents)


def _inner(found: Program, read: Read, few: Sequence[str]) -> bool:
    """Whether one of them walks the last of several axes of a tensor."""
    last = read.indices[-1] if len(read.indices) > 1 else None
    return isinstance(last, Name) and last.id in few and found.arrays[read.tensor].role in ("input", "output")


def _count(found: Program, part: Part, few: Sequence[str], target: bool) -> int:
    """How many steps one becomes, or terms of each."""
    count = 1
    for letter in part.letters:
        if letter in few and (letter in expr.names(part.target)) == target:
            count *= _cells(found.letters[letter].extent)
    return count


def _parts(found: Program, part: Part, few: Sequence[str]) -> Iterator[Part]:
    """A step for each value of the letters of its target, each with its terms in one value."""
    own = [letter for letter in part.letters if letter in few]
    outer = [letter for letter in own if letter in expr.names(part.target)]
    inner = [letter for letter in own if letter not in outer]
    if not own:
        yield part
        return
    value = part.formulas[0].value
    if part.operator == "sum":
        value = Number(0)
        for numbers in _numbers(found, inner):
            value = Binary("+", value, exchanged_in(part.formulas[0].value, numbers))
    made = part.of(part.target, "set", value)
    for numbers in _numbers(found, outer):
        yield exchanging(found, made, numbers)


def _numbers(found: Program, letters: Sequence[str]) -> Iterator[Mapping[Expr, Expr]]:
    """The values of letters, the last one fastest."""
    extents = [range(_cells(found.letters[letter].extent)) for letter in letters]
    for values in itertools.product(*extents):
        yield {Name(letter): Number(value) for letter, value in zip(letters, values, strict=True)}


def _split(found: Program) -> Program:
    """The program with arrays between steps that have no axes at which a number stands."""
    arrays, exchanged = dict(found.arrays), dict[Expr, Expr]()
    for read in dict.fromkeys(read for part in found.parts for read in (part.target, *part.reads)):
        numbers = [index for index in read.indices if isinstance(index, Number)]
        if found.arrays[read.tensor].role != "between" or not numbers:
            continue
        name = "_".join([read.tensor, *(f"no{int(number.value)}" for number in numbers), ""])
        kept = [at for at, index in enumerate(read.indices) if not isinstance(index, Number)]
        axes = tuple(found.arrays[read.tensor].axes[at] for at in kept)
        arrays.pop(read.tensor, None)
        arrays[name] = Array(name, "between", axes)
        exchanged[read] = Read(name, tuple(read.indices[at] for at in kept))
    parts = (exchanging(found, part, exchanged) for part in found.parts)
    return dataclasses.replace(found, arrays=arrays, parts=tuple(parts)) if exchanged else found
