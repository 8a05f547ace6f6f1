"""Which calls need an array of a program: those that have some optional output, or some word of an attribute.

In: a program. Out: by array, the outputs or words without which nothing reads it.
"""

from __future__ import annotations

from ..memo import memoised
from .program import Program


@memoised
def only_for(found: Program, optional: frozenset[str]) -> dict[str, frozenset[str]]:
    """For arrays that only optional outputs need, which of these need them."""
    serves = {name: {name} if array.role == "output" else set() for name, array in found.arrays.items()}
    grown = True
    while grown:
        before = sum(map(len, serves.values()))
        for part in found.parts:
            for read in part.reads:
                serves[read.tensor] |= serves[part.target.tensor]
        grown = sum(map(len, serves.values())) > before
    return {name: frozenset(outputs) for name, outputs in serves.items() if outputs and outputs <= optional}


@memoised
def chosen_by(found: Program) -> dict[str, tuple[str, frozenset[str]]]:
    """For arrays that are needed only if an attribute has some of its words: the attribute and these words."""
    always = ("", frozenset[str]())
    needs = {name: always for name, array in found.arrays.items() if array.role == "output"}
    grown = True
    while grown:
        before = dict(needs)
        for part in found.parts:
            for formula in part.formulas if part.target.tensor in needs else ():
                by, words = needs[part.target.tensor]
                if part.by is not None:
                    by, words = part.by, words & {formula.word} if by == part.by else frozenset((formula.word,))
                for read in formula.reads:
                    other, more = needs.get(read.tensor, (by, words))
                    needs[read.tensor] = (by, words | more) if by == other else always
        grown = needs != before
    return {name: need for name, need in needs.items() if need != always}
