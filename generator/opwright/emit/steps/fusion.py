"""Loops that follow one another, made one where they walk the same letter: what a step writes is read from a cache.

In: the steps of a phase with their statements. Out: statements. Two steps share a loop where every array that one
writes and the other knows has its cell for each value of the letter: each cell adds the same terms in the same order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...derive.phases import place
from ...derive.program import Part, Program
from ..nodes import Assign, For, If, Scope, Stmt


@dataclass(frozen=True)
class Made:
    """Steps in one: what begins their targets, if they are the first to write these, and their loops."""

    parts: tuple[Part, ...]
    first: tuple[Stmt, ...]
    loops: tuple[Stmt, ...]


def fused(found: Program, steps: Sequence[Made], letters: Mapping[str, str]) -> list[list[Stmt]]:
    """The statements of each step, or of steps together; `letters` has the letter of each loop that they may share."""
    result: list[list[Stmt]] = []
    begin = 0
    while begin < len(steps):
        end = begin + 1
        while end < len(steps) and _shared(found, steps[begin : end + 1], letters):
            end += 1
        group = steps[begin:end]
        result.append(_fused(group, _shared(found, group, letters)) if len(group) > 1 else _alone(group[0]))
        begin = end
    return result


def _alone(step: Made) -> list[Stmt]:
    return [*step.first, *step.loops]


def _shared(found: Program, steps: Sequence[Made], letters: Mapping[str, str]) -> int:
    """How many outermost loops steps share."""
    walks = [_headers(step.loops) for step in steps]
    count = 0
    for level in zip(*walks, strict=False):
        letter = letters.get(level[0].letter)
        same = all(_same(level[0], other) for other in level[1:])
        if (
            letter is None
            or not same
            or not _independent(found, [part for step in steps for part in step.parts], letter)
        ):
            break
        count += 1
    return count


def _same(one: For, other: For) -> bool:
    plain = not any((one.step, other.step, one.carried, other.carried))
    return plain and (one.letter, one.begin, one.end) == (other.letter, other.begin, other.end)


def _headers(statements: Sequence[Stmt]) -> list[For]:
    """The loops that stand alone in each other, the outermost first, as far as others can stand beside what they do."""
    found: list[For] = []
    while len(statements) == 1 and isinstance(statements[0], For):
        loop = statements[0]
        if not all(isinstance(inner, (For, If, Assign, Scope)) for inner in loop.body):
            break
        found.append(loop)
        statements = loop.body
    return found


def _independent(found: Program, parts: Sequence[Part], letter: str) -> bool:
    """Whether what steps know of each other is the same cell for each value of a letter."""
    for written in {part.target.tensor for part in parts}:
        users = [part for part in parts if written in {read.tensor for read in (part.target, *part.reads)}]
        reads = [read for part in users for read in (part.target, *part.reads) if read.tensor == written]
        places = {place(found, read, letter) for read in reads}
        if len(users) > 1 and (len(places) > 1 or None in places):
            return False
    return all(letter in part.letters for part in parts)


def _fused(steps: Sequence[Made], depth: int) -> list[Stmt]:
    """Steps in the loops that they share; what begins a target stands in them too, or before them all."""
    outer = _headers(steps[0].loops)[:depth]
    before: list[Stmt] = []
    inner: list[Stmt] = []
    for step in steps:
        begins = _headers(step.first)[:depth]
        if len(begins) == depth and all(map(_same, outer, begins)):
            inner += begins[-1].body
        else:
            before += step.first
        inner += _headers(step.loops)[depth - 1].body
    body = tuple(inner)
    for loop in reversed(outer):
        body = (dataclasses.replace(loop, body=body),)
    return [*before, *body]
