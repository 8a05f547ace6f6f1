"""Arrays of which only the cells that indices name count: they are not stored.

In: a program. Out, of `indicated`: the program whose sums have `select(idx[n] == k, 1, 0)` in place of `hot[n, k]`, if
a step sets it to that, so that they go to the cells named. Of `at_named`, for a program that goes there: the program
without arrays that are read at such cells alone, one of each row, which are computed where they are read.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

from ...language import expr
from ...language.expr import Binary, Call, Expr, Name, Number, Read, Unary, substitute
from ..picking import counted, names_letter
from ..program import Formula, Part, Program
from .accumulating import loose_axes, plain

LARGEST = 120  # nodes of a formula


def indicated(found: Program) -> Program:
    """The program whose sums have such factors as they are made."""
    made: dict[str, Part] = {}
    parts = list[Part]()
    for part in found.parts:
        written = part.each(functools.partial(_written, found, part, made=made))
        parts.append(written if part.operator == "sum" else part)
        if _sets(found, part) and names_letter(found, part, written.formulas[0].value):
            made[part.target.tensor] = written
    return dataclasses.replace(found, parts=tuple(parts))


def _written(found: Program, part: Part, formula: Formula, made: Mapping[str, Part]) -> Formula:
    """A formula with factors as they are made, if they name a letter then."""

    def factor(read: Read) -> Expr:
        maker = made.get(read.tensor)
        if maker is None or any(found.walks(read.tensor, *pair) is None for pair in enumerate(read.indices)):
            return read
        return substitute(maker.formulas[0].value, _letters(maker, read))

    value = _factors(formula.value, factor)
    own = {part.target.tensor}
    if own & ({read.tensor for read in expr.reads(value)} | found.integers) or not names_letter(found, part, value):
        return formula
    return formula.of(value)


def _factors(tree: Expr, made: Callable[[Read], Expr]) -> Expr:
    """A product with other trees in place of the elements that are factors."""
    if isinstance(tree, Read):
        return made(tree)
    if isinstance(tree, Unary) and tree.op == "-":
        return dataclasses.replace(tree, operand=_factors(tree.operand, made))
    if isinstance(tree, Binary) and tree.op in ("*", "/"):
        right = _factors(tree.right, made) if tree.op == "*" else tree.right
        return dataclasses.replace(tree, left=_factors(tree.left, made), right=right)
    if isinstance(tree, Call) and tree.function == "select" and tree.arguments[2] == Number(0):
        condition, chosen, zero = tree.arguments
        return dataclasses.replace(tree, arguments=(condition, _factors(chosen, made), zero))
    return tree


def _letters(maker: Part, read: Read) -> dict[str, Expr]:
    """The indices of an element, by the letters of the step that makes it."""
    pairs = zip(maker.target.indices, read.indices, strict=True)
    return {letter.id: index for letter, index in pairs if isinstance(letter, Name)}


def _sets(found: Program, part: Part) -> bool:
    """Whether a step alone makes an array between steps, of what stays as it is after it, each cell by its letters."""
    name, indices = part.target.tensor, part.target.indices
    alone = sum(other.target.tensor == name for other in found.parts) == 1 and found.arrays[name].role == "between"
    letters = [index.id for index in indices if isinstance(index, Name)]
    own = len({*letters}) == len(indices) and {*part.letters} == {*letters} and name not in found.integers
    later = {other.target.tensor for other in found.parts[found.parts.index(part) :]}
    steady = not later & {read.tensor for read in part.reads}
    return alone and own and steady and part.operator == "set" and part.by is None and not part.where


def at_named(found: Program) -> Program:
    """The program without arrays that are read at named cells alone."""
    for maker in reversed(found.parts):
        name = maker.target.tensor
        readers = [part for part in found.parts if any(read.tensor == name for read in part.reads)]
        if readers and _sets(found, maker) and plain(found, maker) and _one_of_each_row(found, maker, readers):
            parts = tuple(_computing(part, maker) for part in found.parts if part is not maker)
            if any(read.tensor == name for part in parts for read in part.reads):
                continue  # as an index, too
            arrays = {other: array for other, array in found.arrays.items() if other != name}
            found = dataclasses.replace(found, arrays=arrays, parts=parts)
    return found


def _one_of_each_row(found: Program, maker: Part, readers: Sequence[Part]) -> bool:
    """Whether steps read named cells of an array, and no more of them than a row for each has."""
    value = maker.formulas[0].value
    for part in readers:
        reads = [read for read in part.reads if read.tensor == maker.target.tensor]
        for read in reads:
            letters = _letters(maker, read)
            named = [letter for letter, index in letters.items() if expr.reads(index)]
            rows = {index.id for index in letters.values() if isinstance(index, Name)}
            if not named or loose_axes(found, read) or not {*part.letters} <= rows:
                return False
            if any(counted(value, letter) for letter in named):
                return False
        sizes = [sum(1 for _ in expr.walk(formula.value)) for formula in part.formulas]
        if max(sizes) + len(reads) * sum(1 for _ in expr.walk(value)) > LARGEST:
            return False
    return True


def _computing(part: Part, maker: Part) -> Part:
    """A step that computes cells where it read them."""
    for read in part.reads:
        if read.tensor == maker.target.tensor:
            part = part.replaced(read, substitute(maker.formulas[0].value, _letters(maker, read)))
    return part
