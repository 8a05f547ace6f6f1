"""What the Python module of an operation of steps says of its contractions, for engines that compute these as such.

In: an operation of steps. Out: a view of each contraction: its phase, the letter on each axis of its arrays, and the
letters' extents as Python.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..derive.contraction import letters_of
from ..derive.phases import Staged, staged
from ..language.expr import Read
from ..language.model import Op
from ..memo import memoised
from .step_statements import StepWriter

Accessed = tuple[str, tuple[tuple[str, str], ...]]  # an array, and for each of its axes the letter


@dataclass(frozen=True)
class ContractionView:
    """A contraction; `copy` is the phase that copies its sums to the output `output`, -1 where there is none."""

    phase: int
    copy: int
    output: Accessed | None
    unless: str  # an input without which alone the sums are the output
    target: Accessed
    left: Accessed
    right: Accessed
    letters: tuple[str, ...]
    finish: tuple[str, ...]  # the letters of the phase after it, where that may take the sums as they come


@memoised
def contractions(op: Op) -> tuple[ContractionView, ...]:
    """The contractions of an operation, in the order of their phases."""
    found = staged(op)
    copies = {phase.parts[0].reads[0].tensor: number for number, phase in enumerate(found.phases) if phase.copies}
    views = []
    for number, phase in enumerate(found.phases):
        if phase.contraction is not None:
            product = phase.contraction
            copy = copies.get(product.target.tensor, -1)
            unless = (found.phases[copy].unless or "") if copy >= 0 else ""
            target, left, right = (_accessed(found, read) for read in (product.target, product.left, product.right))
            output = _accessed(found, found.phases[copy].parts[0].target) if copy >= 0 else None
            after = found.phases[number + 1 : number + 2]
            finish = after[0].own if after and after[0].finishes else ()
            letters = phase.parts[0].letters
            views.append(ContractionView(number, copy, output, unless, target, left, right, letters, finish))
    return tuple(views)


def _accessed(found: Staged, read: Read) -> Accessed:
    axes = found.program.arrays[read.tensor].axes
    return read.tensor, tuple(
        (axis.name, letter) for axis, letter in zip(axes, letters_of(read), strict=True) if letter
    )


def contracted_extents(op: Op, writer: StepWriter) -> dict[str, str]:
    """The extents of the letters of contractions, as Python: a tuple of one number, or one per axis."""
    letters = staged(op).program.letters
    used = dict.fromkeys(letter for view in contractions(op) for letter in view.letters)
    extents = {}
    for letter in used:
        text = writer.print(letters[letter].extent)
        extents[letter] = f"({text},)" if letters[letter].kind == "one" else text
    return extents
