"""Cheap intermediates that one step or one phase reads cell by cell: their formula stands in the steps that read them.

In: a program and its phases. Out: the program without such arrays. A row of `x - mean` is then neither written nor read
again. Only arithmetic is repeated, and every operation is still rounded by itself, so that the bits stay the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from ...language import expr
from ...language.expr import Binary, Call, Expr, Name, Number, Read
from ..contraction import over_pairs
from ..program import Part, Program

CHEAP = frozenset({"min", "max", "abs", "select"})
REPEATED = 2  # operations that several steps may compute again each
LARGEST = 60  # nodes of a formula


def inlined(found: Program, phases: Iterable[Sequence[Part]], whole: Callable[[Program, Part], bool]) -> Program:
    """The program with such formulas in the steps that read them; `whole`: whether a step reaches every cell once."""
    phase_of = {id(part): number for number, phase in enumerate(phases) for part in phase}
    parts = [(part, phase_of[id(part)]) for part in found.parts]
    engines = {id(part) for part in found.parts if over_pairs(found, part)}
    sums = frozenset(part.target.tensor for part in found.parts if id(part) in engines)
    arrays = dict(found.arrays)
    for maker in found.parts:
        at, (part, phase) = next((n, pair) for n, pair in enumerate(parts) if _writes(pair[0], maker.target.tensor))
        if part.number != maker.number or not _cheap(found, part) or not whole(found, part):
            continue
        readers = [n for n, (other, _) in enumerate(parts) if part.target.tensor in _known(other)]
        # of several phases, one: a whole array would be written and read again
        beside = all(parts[n][1] == phase for n in readers)
        near = beside or (len(readers) == 1 and not sums & _known(part))
        alike = near and all(id(parts[n][0]) not in engines for n in readers)
        if alike and _fits([other for other, _ in parts], at, readers):
            parts = [
                (one.replaced(part.target, part.formulas[0].value), own) if n in readers else (one, own)
                for n, (one, own) in enumerate(parts)
            ]
            del parts[at], arrays[part.target.tensor]
    made = tuple(part for part, _ in parts)
    return dataclasses.replace(found, arrays=arrays, parts=made) if len(made) < len(found.parts) else found


def _writes(part: Part, name: str) -> bool:
    return part.target.tensor == name


def _known(part: Part) -> set[str]:
    return {read.tensor for read in part.reads}


def _cheap(found: Program, part: Part) -> bool:
    """Whether a step makes an intermediate by arithmetic on cells, which stand in the order of its own letters."""
    name, value = part.target.tensor, part.formulas[0].value
    writers = [other for other in found.parts if _writes(other, name)]
    if part.by or part.where or part.operator != "set" or len(writers) > 1 or found.arrays[name].role != "between":
        return False
    if not part.reads or isinstance(value, Read) or name in _known(part) or {name, *_known(part)} & found.integers:
        return False
    return all(_in_order(read, part.target) for read in part.reads) and _operations(value) is not None


def _in_order(read: Read, target: Read) -> bool:
    """Whether nothing is turned: the letters of a read stand in the order that the target's have."""
    walked = [index for index in read.indices if index != Number(0)]
    return walked == [index for index in target.indices if index in walked]


def _operations(tree: Expr) -> int | None:
    """How many operations arithmetic on cells has, a division counting as many; None if it is no mere arithmetic."""
    if isinstance(tree, (Read, Number, Name)):
        return 0
    own = 1
    if isinstance(tree, Binary):
        own = 4 if tree.op == "/" else 1
        if tree.op == "%":
            return None
    elif isinstance(tree, Call) and tree.function not in CHEAP:
        return None
    inner = [_operations(child) for child in expr.children(tree)]
    return None if None in inner else own + sum(count for count in inner if count is not None)


def _fits(parts: Sequence[Part], at: int, readers: Sequence[int]) -> bool:
    """Whether each reader reads the same cells, as often as they are made, before what they are made of changes."""
    part = parts[at]
    value = part.formulas[0].value
    if not readers or (len(readers) > 1 and (_operations(value) or 0) > REPEATED):
        return False
    between = parts[at + 1 : readers[-1]]
    changed = {other.target.tensor for other in between} & _known(part)
    for other in (parts[n] for n in readers):
        places = [index for read in (other.target, *other.reads) for index in read.indices]
        if any(read.tensor == part.target.tensor for index in places for read in expr.reads(index)):
            return False  # it names cells, and a place is computed once
        reads = [read for read in other.reads if read.tensor == part.target.tensor]
        sizes = [sum(1 for _ in expr.walk(formula.value)) for formula in other.formulas]
        grown = max(sizes) + len(reads) * sum(1 for _ in expr.walk(value))
        if {*other.letters} != {*part.letters} or reads != [part.target] or grown > LARGEST:
            return False
    return not changed and readers[0] > at
