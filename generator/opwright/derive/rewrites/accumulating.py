"""Outputs as intermediates that a last step copies: those that are accumulated, read again, or not fully written.

In: a program. Out: the program in which such an output has an array of sums. Where two letters walk an axis of
the output together, `dst[h * E + k]`, in all steps, and sums are contractions, that array has an axis for each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from ...language import expr
from ...language.expr import Expr, Name, Number, Read
from ..algebra.poly import ONE, ZERO, NotPolynomial, Poly, affine, rational
from ..algebra.slopes import slope, times
from ..program import Array, Axis, Formula, Part, Program
from .pairing import is_product

CLOSE = 4  # cells between those of a step, at most, as of complex numbers
Apart = Mapping[int, tuple[str, ...]]  # by the number of an axis, the letters that walk it together


def accumulator(output: str) -> str:
    """The array in which an output is accumulated."""
    return f"{output}_sum_"


def plain(found: Program, part: Part) -> bool:
    """Whether a step reaches every cell of its target, each once, whatever the sizes."""
    return _reaches(found, part, range(len(part.target.indices)))


def once(found: Program, part: Part) -> bool:
    """Whether a step reaches no cell of its target twice: indices have letters of their own, which count cells.

    They may count back, but by two only if no other step writes there: steps that join turns, `y[2 * i]` and
    `y[2 * i + 1]`, in an array of sums take half of the time for 512 rows of 768 bf16 (Zen 3, gcc 12.2). Alone,
    `y[h, 2 * w] += x[h, w]` takes 0.35 of it for 128 planes of 28x29 bf16, u8 0.1 (Intel Xeon, gcc 12.2).
    """
    target = part.target
    alone = [other.target.tensor for other in found.parts].count(target.tensor) == 1
    moves = (
        all(_moves(index, letter, alone) for letter in _letters(found, index)) and len(_letters(found, index)) < 2
        for index in target.indices
    )
    walked = (found.covers(target.tensor, *pair) or move for pair, move in zip(enumerate(target.indices), moves))
    return all(walked) and _apart_from_each_other(found, target)


def _moves(index: Expr, letter: str, apart: bool) -> bool:
    """Whether an index is another cell for each value of a letter: the next one, or any one further on if `apart`."""
    growth = slope(index, letter)
    return isinstance(growth, Number) and (abs(growth.value) == 1 or (apart and growth != Number(0)))


def close_cells(found: Program, index: Expr, letter: str) -> Expr | None:
    """The first of a few cells of which each value of a letter has its own, `2 * i` of `2 * i + 1`, or its only one."""
    growth = (
        slope(index, letter) if _letters(found, index) == {letter} and found.letters[letter].kind == "one" else None
    )
    if growth == Number(1):
        return index
    if not isinstance(growth, Number) or not 1 < growth.value <= CLOSE:
        return None
    turn = affine(index, [letter]).offset.constant
    return times(growth, Name(letter)) if turn is not None and 0 <= turn < growth.value else None


def loose_axes(found: Program, read: Read) -> list[int]:
    """The axes whose index may lie outside."""
    indices = enumerate(read.indices)
    return [number for number, index in indices if not found.walks_inside(read.tensor, number, index)]


def accumulating(found: Program, outputs: Sequence[str]) -> Program:
    """The program with an array of sums for each such output."""
    for output in outputs:
        writers = [part for part in found.parts if part.target.tensor == output]
        read = any(read.tensor == output for part in found.parts for read in part.reads)
        if not read and _set_over(found, writers):
            found = _begun(found, writers)
        elif read or not (_written_once(found, writers) or written_in_pieces(found, writers)):
            whole = _accumulated(found, output, writers, {})
            apart = _accumulated(found, output, writers, pairs) if (pairs := _apart(found, output)) else whole
            parts = [part for part in apart.parts if part.target.tensor == accumulator(output)]
            sums = [part for part in parts if part.operator != "set"]
            found = apart if sums and all(is_product(apart, part) for part in sums) else whole
    return found


def _set_over(found: Program, writers: Sequence[Part]) -> bool:
    """Whether steps only set cells, some maybe twice or none, and tasks can have no letter of all of them.

    An image of 1000x1001 f32 inside of another one takes 0.4 of the time of an array of sums, bf16 0.35 (AMD EPYC,
    Zen 4, gcc 12.2). Where a step reads an array where it writes, all stay as they are: calls may overwrite that one.
    """
    array = found.arrays[writers[0].target.tensor]
    only_set = all(part.operator == "set" and not (part.by or part.unless_empty) for part in writers)
    if not only_set or not array.axes or any(axis.kind != "one" for axis in array.axes):
        return False
    if _written_once(found, writers) or written_in_pieces(found, writers):
        return False
    walks = [
        {found.walks(array.name, number, part.target.indices[number]) for part in writers}
        for number in range(len(array.axes))
    ]
    free = all(len(letters) > 1 or None in letters for letters in walks)
    each = all(_apart_from_each_other(found, part.target) for part in writers)
    there = any(read.indices == part.target.indices for part in writers for read in part.reads)
    return free and each and not (there and not plain(found, writers[0]))


def _begun(found: Program, writers: Sequence[Part]) -> Program:
    """The program in which a step of its own sets all cells before, if the first one does not."""
    first, letters = writers[0], dict(found.letters)
    if plain(found, first):
        return found
    name = first.target.tensor
    axes = [Axis(f"{name}_{axis.name}_", axis.extent, axis.kind) for axis in found.arrays[name].axes]
    letters |= {axis.name: axis for axis in axes}
    begin = first.of(Read(name, tuple(Name(axis.name) for axis in axes)), "set", Number(0), letters)
    at = found.parts.index(first)
    return dataclasses.replace(found, letters=letters, parts=(*found.parts[:at], begin, *found.parts[at:]))


def _written_once(found: Program, writers: Sequence[Part]) -> bool:
    return len(writers) == 1 and writers[0].operator == "set" and plain(found, writers[0])


def written_in_pieces(found: Program, writers: Sequence[Part]) -> bool:
    """Whether steps write pieces of an axis that lie one behind the other, and all of them together every cell once."""
    target = writers[0].target
    for number, axis in enumerate(found.arrays[target.tensor].axes):
        if len(writers) > 1 and axis.kind == "one" and _fill(found, number, axis, writers):
            others = {(*part.target.indices[:number], *part.target.indices[number + 1 :]) for part in writers}
            axes = {*range(len(target.indices))} - {number}
            each = all(part.operator == "set" and _reaches(found, part, axes) for part in writers)
            return each and len(others) == 1
    return False


def _fill(found: Program, number: int, axis: Axis, writers: Sequence[Part]) -> bool:
    """Whether pieces of an axis, each of a letter or one cell, are the whole axis, whatever the sizes."""
    known = pieces(found, number, axis, writers)
    if known is None:
        return False
    (left, whole), end = known, ZERO
    while following := [piece for piece in left if piece[0] == end]:
        left.remove(following[0])
        end += following[0][1]
    return not left and end == whole


def pieces(
    found: Program, number: int, axis: Axis, writers: Sequence[Part]
) -> tuple[list[tuple[Poly, Poly]], Poly] | None:
    """Where the pieces of an axis that steps write begin, and their cells; and all cells.

    A piece is of a letter, one cell, or of a few steps that take turns, `y[2 * i]` and `y[2 * i + 1]`.
    """
    sizes, made = found.sizes.values, list[tuple[Poly, Poly, Poly]]()
    try:
        for part in writers:
            index = affine(part.target.indices[number], found.letters, rational).with_symbols(sizes)
            if len(index.letters) > 1:
                return None
            extents = [rational(found.letters[letter].extent) for letter in index.letters]
            steps = [factor for _, factor in index.coefficients]
            made.append((index.offset, extents[0].substitute(sizes) if extents else ONE, steps[0] if steps else ONE))
        whole = rational(axis.extent).substitute(sizes)
    except NotPolynomial:
        return None
    joined = [_turns(made, piece) for piece in made]
    return None if None in joined else ([piece for piece in joined if piece is not None and piece[1] != ZERO], whole)


def _turns(pieces: Sequence[tuple[Poly, Poly, Poly]], piece: tuple[Poly, Poly, Poly]) -> tuple[Poly, Poly] | None:
    """Where the cells of a step and of those that it takes turns with begin, and how many: 0 but for the first step.

    None if the cells between its own are not written by one step each.
    """
    begin, count, step = piece
    number = step.constant
    if number is None or not 1 <= number <= CLOSE:
        return None
    for back in range(int(number)):
        first = begin - Poly.number(back)
        if all(pieces.count((first + Poly.number(turn), count, step)) == 1 for turn in range(int(number))):
            return first, step * count if back == 0 else ZERO
    return None


def _reaches(found: Program, part: Part, axes: Collection[int]) -> bool:
    """Whether a step reaches every cell along some axes of its target, each once, whatever the sizes."""
    target = part.target
    each = all(found.covers(target.tensor, number, target.indices[number]) for number in axes)
    inside = not any(loose_axes(found, read) for read in (target, *part.reads))
    return each and inside and not part.where and _apart_from_each_other(found, target)


def _apart_from_each_other(found: Program, target: Read) -> bool:
    """Whether each letter stands in one index alone."""
    letters = [letter for index in target.indices for letter in _letters(found, index)]
    return len({*letters}) == len(letters)


def _letters(found: Program, index: Expr) -> frozenset[str]:
    return expr.names(index) & found.letters.keys()


def _accumulated(found: Program, output: str, writers: Sequence[Part], apart: Apart) -> Program:
    letters, name = dict(found.letters), accumulator(output)
    indices: list[Expr] = []
    cells: list[Expr] = []  # the indices of the output
    axes: list[Axis] = []
    uses = [{*indices} for indices in zip(*(read.indices for read in _uses(found, output)))]
    for number, axis in enumerate(found.arrays[output].axes):
        walkers = {found.walks(output, number, part.target.indices[number]) for part in writers}
        letter = next(iter(walkers))
        if number in apart:
            indices += map(Name, apart[number])
            cells.append(writers[0].target.indices[number])
            axes += (letters[one] for one in apart[number])
            continue
        if axis.kind == "ones" or (axis.extent == Number(1) and uses[number] == {Number(0)}):
            indices.append(Number(0))
            axes.append(dataclasses.replace(axis, kind="ones"))
        else:
            if len(walkers) > 1 or letter is None or _stands_elsewhere(letter, number, writers):
                letter = f"{output}_{axis.name}_"
                letters[letter] = Axis(letter, axis.extent, axis.kind)
            indices.append(Name(letter))
            axes.append(Axis(letter, axis.extent, axis.kind))
        cells.append(indices[-1])
    copy = _copy(Read(output, tuple(cells)), Read(name, tuple(indices)), letters, writers[-1])
    parts = (*(renamed_part(part, output, name, apart) for part in found.parts), copy)
    return dataclasses.replace(
        found, letters=letters, arrays={**found.arrays, name: Array(name, "between", tuple(axes))}, parts=parts
    )


def _stands_elsewhere(letter: str, number: int, writers: Sequence[Part]) -> bool:
    """Whether a letter that walks an axis of some targets stands in the index of another axis, too."""
    others = (part.target.indices[:number] + part.target.indices[number + 1 :] for part in writers)
    return any(letter in expr.names(index) for indices in others for index in indices)


def _uses(found: Program, array: str) -> list[Read]:
    """The cells of an array that steps write and read."""
    return [read for part in found.parts for read in (part.target, *part.reads) if read.tensor == array]


def _apart(found: Program, output: str) -> Apart:
    """The axes that several letters walk together wherever an output is written or read."""
    uses = _uses(found, output)
    pairs = {number: found.digits(output, number, index) for number, index in enumerate(uses[0].indices)}
    used = [letter for index in uses[0].indices for letter in expr.names(index) & found.letters.keys()]
    alike = {number for number in pairs if len({read.indices[number] for read in uses}) == 1}
    once = {letter for letter in used if used.count(letter) == 1}
    return {number: pair for number, pair in pairs.items() if pair is not None and number in alike and {*pair} <= once}


def _copy(target: Read, source: Read, letters: Mapping[str, Axis], last: Part) -> Part:
    return last.of(target, "set", source, letters)


def renamed(tree: Expr, old: str, new: str, apart: Apart = MappingProxyType({})) -> Expr:
    """A tree with an array under another name, in which each axis of `apart` is several."""

    def visit(node: Expr) -> Expr | None:
        if not isinstance(node, Read) or node.tensor != old:
            return None
        indices = (expr.changed(index, visit) for index in node.indices)  # which may name cells that others read
        spread = (map(Name, apart[number]) if number in apart else (index,) for number, index in enumerate(indices))
        return Read(new, tuple(one for some in spread for one in some), node.column)

    return expr.changed(tree, visit)


def renamed_part(part: Part, old: str, new: str, apart: Apart = MappingProxyType({})) -> Part:
    """A step with an array under another name, in which each axis of `apart` is several."""

    def of(formula: Formula) -> Formula:
        target = renamed(formula.assignment.target, old, new, apart)
        assert isinstance(target, Read)
        return formula.of(renamed(formula.value, old, new, apart), target)

    return part.each(of)
