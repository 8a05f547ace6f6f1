"""The contractions in the Python module of an operation of steps, for engines.

In: an operation of steps. Out: a view of each contraction: its phase, the letter on each axis of its arrays, and the
letters' extents as Python.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...derive.contraction import Contraction, Slide, letters_of
from ...derive.phases import Phase, Staged, staged
from ...derive.rewrites.turning import kept
from ...language.expr import Expr, Name, Number, Read
from ...language.model import Op
from ...memo import memoised
from .statements import StepWriter

Accessed = tuple[str, tuple[tuple[str, str], ...]]  # an array, and for each of its axes the letter, or the slide


@dataclass(frozen=True)
class SlideView:
    """An index of several letters, as Python: its name, each letter with its factor, the rest, the extent."""

    name: str
    factors: tuple[tuple[str, str], ...]
    offset: str
    extent: str


@dataclass(frozen=True)
class ContractionView:
    """A contraction; `copy` is the phase that copies its sums to the output `output`, -1 if there is none."""

    phase: int
    copy: int
    output: Accessed | None
    unless: str  # if this input is omitted, the sums are the output
    target: Accessed
    left: Accessed
    right: Accessed
    letters: tuple[str, ...]
    finish: tuple[str, ...]  # the letters of the next phase, if it may process the sums as they are computed
    unless_empty: tuple[str, ...]  # letters: nothing is added where one of them has no values
    term: str  # what is summed of each pair of elements, '' for products
    zeros: tuple[tuple[str, int], ...]  # the zero points of both operands for C: a name or a number; '?' for others


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
            target, left, right = (_accessed(found, number, product, name) for name in ("target", "left", "right"))
            output = _output(found, found.phases[copy].parts[0].target, target) if copy >= 0 else None
            after = found.phases[number + 1 : number + 2]
            finish = after[0].own if after and after[0].finishes else ()
            letters = phase.parts[0].letters
            zeros, empty = tuple(map(_zero_in_c, product.zeros)), phase.parts[0].unless_empty
            views.append(
                ContractionView(
                    number, copy, output, unless, target, left, right, letters, finish, empty, product.term, zeros
                )
            )
    return tuple(views)


def _zero_in_c(zero: Expr) -> tuple[str, int]:
    if isinstance(zero, Number) and isinstance(zero.value, int):
        return "", zero.value
    return (zero.id, 0) if isinstance(zero, Name) else ("?", 0)


def _accessed(found: Staged, phase: int, product: Contraction, name: str) -> Accessed:
    read: Read = getattr(product, name)
    slides = {slide.axis: slide_name(phase, slide) for slide in product.slides if slide.access == name}
    axes = found.program.arrays[read.tensor].axes
    named = [(axis.name, slides.get(n, letter)) for n, (axis, letter) in enumerate(zip(axes, letters_of(read)))]
    return read.tensor, tuple((axis, letter) for axis, letter in named if letter)


def _output(found: Staged, read: Read, sums: Accessed) -> Accessed:
    """An output, with the axes of the sums that are copied to it."""
    axes = [axis.name for axis in found.program.arrays[read.tensor].axes if axis.kind != "ones"]
    return read.tensor, tuple((axis, letter) for axis, (_, letter) in zip(axes, sums[1], strict=True))


def slide_name(phase: int, slide: Slide) -> str:
    """The name of a slide, distinct from all letters."""
    return f"{phase}.{slide.access}.{slide.axis}"


def slides(op: Op, writer: StepWriter) -> tuple[SlideView, ...]:
    """The slides of all contractions."""
    found = staged(op)
    views = []
    for number, phase in enumerate(found.phases):
        for slide in phase.contraction.slides if phase.contraction else ():
            assert phase.contraction is not None
            read: Read = getattr(phase.contraction, slide.access)
            extent = found.program.arrays[read.tensor].axes[slide.axis].extent
            factors = tuple((letter, writer.print(factor)) for letter, factor in slide.factors)
            views.append(
                SlideView(slide_name(number, slide), factors, writer.print(slide.offset), writer.print(extent))
            )
    return tuple(views)


def zero_points(op: Op, writer: StepWriter) -> dict[int, tuple[str, ...]]:
    """The zero points of both operands of the contractions that have some, as Python, by their phases."""
    found = [(number, phase.contraction) for number, phase in enumerate(staged(op).phases)]
    return {
        number: tuple(writer.print(zero) for zero in product.zeros)
        for number, product in found
        if product is not None and product.has_zeros
    }


def kept_for(phase: Phase) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The letters of the tasks that what a phase keeps serves, and those that it has besides the tasks'."""
    steps = kept(phase.parts, phase.own)
    letters = dict.fromkeys(letter for part in steps for letter in part.letters)
    return tuple(x for x in phase.own if steps and x not in letters), tuple(x for x in letters if x not in phase.own)


def counted_extents(op: Op, writer: StepWriter, lanes: Iterable[str]) -> dict[str, str]:
    """The extents of the letters of contractions, and of those of lanes that walk no axis of a tensor alone, as Python:

    a tuple of one number, or one per axis.
    """
    letters = staged(op).program.letters
    arrays = staged(op).program.arrays
    used = dict.fromkeys(letter for view in contractions(op) for letter in (*view.letters, *view.unless_empty))
    used |= dict.fromkeys(letter for letter in lanes if letter in letters)
    for view in contractions(op):
        for name, axes in (view.target, view.left, view.right):
            used |= dict.fromkeys(axis for axis, _ in axes if arrays[name].role == "between")
    for phase in staged(op).phases:
        used |= (
            dict.fromkeys(letter for some in kept_for(phase.merged.phases[0]) for letter in some)
            if phase.merged
            else {}
        )
    extents = {}
    for letter in used:
        text = writer.print(letters[letter].extent)
        extents[letter] = f"({text},)" if letters[letter].kind == "one" else text
    return extents
