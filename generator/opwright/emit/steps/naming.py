"""Loops of letters that a value names (derive/picking.py): they go to the cells named at once.

In: the loops of a formula. Out: the same, with those of such letters behind those of what names them, and their bounds.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...derive.picking import Pick, scattered
from ...derive.program import Part
from ...language import expr
from ...language.expr import Read
from ..nodes import Call, Cast, Declare, Name
from .bounds import Bounds
from .loops import Loop, Loops

WHOLE = ("s64", "s32", "s8", "u8")  # which need no rounding


def ordered(
    loops: Loops, part: Part, named: Sequence[Pick], outer: Sequence[Loop], reduced: Sequence[Loop]
) -> tuple[list[Loop], list[Loop], list[Loop]]:
    """The loops of letters of the target, of the others, and those within the loop over lanes, which names them.

    Terms that are put where they belong walk the target behind what they are made of.
    """
    letters = {pick.letter for pick in named}
    lanes = {pick.letter for pick in named if loops.lanes is not None and loops.lanes.name in expr.names(pick.value)}
    first = [loop for loop in outer if loop.letter not in letters]
    terms = [loop for loop in reduced if loop.letter not in letters]
    later = [loop for loop in (*reduced, *outer) if loop.letter in letters - lanes]
    within = [loop for loop in (*reduced, *outer) if loop.letter in lanes]
    if scattered(loops.program, part):
        return [], [*terms, *later, *first], within
    return first, [*terms, *later], within


def narrow(loops: Loops, part: Part, named: Sequence[Pick], order: Sequence[str], bounds: Bounds) -> set[str]:
    """Narrow the loop of each letter that a value names, if the letters of the value are known before it.

    The result is the names of such loops.
    """
    narrowed = set[str]()
    values, letters = loops.values_of(part.target.tensor), loops.program.letters
    for pick in named:
        within = [letters[name] for name in expr.names(pick.value) & letters.keys() - {*loops.phase.own}]
        before = {*order[: order.index(pick.letter)]} if pick.letter in order else set[str]()
        if pick.letter in order and before.issuperset(copy for one in within for copy, _ in loops.copies(one)):
            narrowed.add(pick.letter)
            value, kind = values.cell(pick.value), "_s64" if values.accumulate == "s64" else ""
            if isinstance(pick.value, Read) and loops.dtype(pick.value.tensor) in WHOLE:
                value, kind = Cast("int64_t", loops.element(pick.value)), "_whole"
            arguments = (value, loops.extent(letters[pick.letter], 0))
            for found, side in ((bounds.low, "named"), (bounds.high, "past_named")):
                end = Declare(f"{pick.letter}_{side}_", Call(f"opwright_{side}{kind}", arguments))
                bounds.before.setdefault(pick.letter, []).append(end)
                found.setdefault(pick.letter, []).append(Name(end.name))
    return narrowed
