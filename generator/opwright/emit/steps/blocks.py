"""Consecutive phases that a call may run block by block, so that what they leave for each other stays in a cache.

In: an operation of steps. Out: the longest run of phases that have their tasks' letters in common, contractions among
them, and the arrays that only they use. A call of a known size decides whether it runs them so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...derive.phases import Phase, Staged, staged
from ...derive.rewrites.growing import growing
from ...language.model import Op
from ...memo import memoised
from .lowering import Lowering


@dataclass(frozen=True)
class Blocks:
    """Phases [first, last): the letters of their tasks, the last one fastest, and the arrays that lie in a block.

    `rows` are the phases beside sums and copies of them, each with the lanes with which its tasks are in that order.
    """

    first: int
    last: int
    letters: tuple[str, ...]
    arrays: tuple[str, ...]
    rows: tuple[tuple[int, tuple[int, ...]], ...]


@memoised
def blocks(op: Op) -> Blocks | None:
    """The longest run of such phases, or None: those of one contraction may leave nothing that has to be stored."""
    found = staged(op)
    count = len(found.phases)
    spans = sorted(((b - a, -a, b) for a in range(count) for b in range(a + 2, count + 1)), reverse=True)
    return next(filter(None, (_blocks(op, found, -a, b) for _, a, b in spans)), None)


def _blocks(op: Op, found: Staged, first: int, last: int) -> Blocks | None:
    phases = found.phases[first:last]
    products = [phase.contraction for phase in phases if phase.contraction is not None]
    if not products or phases[-1].contraction is not None:
        return None
    sums = {product.target.tensor for product in products}
    taken = [phase.finishes or (phase.parts[0].reads[0].tensor if phase.copies else "") for phase in phases]
    arrays = _arrays(found, first, last)
    if any(name and name not in sums for name in taken) or {*arrays} <= {*taken}:
        return None
    if _passed_on(found, first, last) - {*arrays} - found.private:
        return None
    shared = [letter for letter in found.program.letters if all(letter in phase.own for phase in phases)]
    letters = tuple(name for name in _leading(found, arrays) if name in shared)
    if not letters or not all(tuple(_walkers(found, name)[: len(letters)]) == letters for name in arrays):
        return None
    rows = []
    for number, phase in enumerate(phases):
        fitting = None
        if phase.finishes:
            fitting = tuple(_finishing(phase, letters))
        elif phase.contraction is None and not taken[number]:
            fitting = tuple(_fitting(op, found, first + number, letters))
        if fitting == ():
            return None
        if fitting is not None:
            rows.append((first + number, fitting))
    return Blocks(first, last, letters, arrays, tuple(rows))


def _arrays(found: Staged, first: int, last: int) -> tuple[str, ...]:
    """The arrays that these phases write, and no other uses, in their order; private ones belong to tasks already."""
    inside, outside = set[str](), set[str]()
    for number, phase in enumerate(found.phases):
        for part in phase.parts:
            names = {part.target.tensor, *(read.tensor for read in part.reads)}
            outside |= set() if first <= number < last else names
            inside |= {part.target.tensor} if first <= number < last else set()
    between = (array.name for array in found.program.between())
    return tuple(name for name in between if name in inside - outside - found.private)


def _passed_on(found: Staged, first: int, last: int) -> set[str]:
    """The arrays that one of these phases writes and another reads or writes."""
    users: dict[str, set[int]] = {}
    for number in range(first, last):
        for part in found.phases[number].parts:
            for read in (part.target, *part.reads):
                users.setdefault(read.tensor, set()).add(number)
    written = {part.target.tensor for phase in found.phases[first:last] for part in phase.parts}
    return {name for name in written if len(users[name]) > 1}


def _walkers(found: Staged, name: str) -> Sequence[str]:
    """The letter along each axis of an array, '' if it is not the same wherever it stands."""
    program = found.program
    reads = [read for part in program.parts for read in (part.target, *part.reads) if read.tensor == name]
    axes = range(len(program.arrays[name].axes))
    walks = [{program.walks(name, axis, read.indices[axis]) or "" for read in reads} for axis in axes]
    return [letters.pop() if len(letters) == 1 else "" for letters in walks]


def _leading(found: Staged, arrays: Sequence[str]) -> Sequence[str]:
    return _walkers(found, arrays[0]) if arrays else ()


def _finishing(phase: Phase, letters: Sequence[str]) -> Iterator[int]:
    """The lanes of a phase that finishes sums with which these are counted task by task."""
    for lane, letter in enumerate(phase.lanes):
        order = [name for name in phase.own if name != letter]
        if tuple([*order, letter][: len(letters)]) == tuple(letters):
            yield lane


def _fitting(op: Op, found: Staged, number: int, letters: Sequence[str]) -> Iterator[int]:
    """The lanes of a phase with which its tasks are those of the letters, in their order."""
    phase, row = found.phases[number], op.dtypes[0]
    for lane, letter in enumerate(phase.lanes):
        merged = phase.merged is not None and letter == phase.lanes[-1]
        if letter not in phase.own and not merged and {*phase.own} == {*letters}:
            grown = growing(op, found, phase, row, letter, Lowering(op, row, found, phase, letter).is_number)
            lowering = Lowering(op, row, *grown, letter)
            if tuple(lowering.letters_of_tasks()) == tuple(letters) and not lowering.kept:
                yield lane
