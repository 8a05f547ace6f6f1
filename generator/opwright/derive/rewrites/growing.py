"""Outputs whose cells grow where they lie, without an array of sums that a last step copies.

In: a phase and a row of data types. Out: the same phase, in which each such output is begun by a step of its own and
takes the terms itself: one that has the type of its sums, where a task has more of these than lanes, as in the
gradient of a window, or one whose steps only set cells, as those inside a border. Every cell adds the same terms in
the same order.

Where tasks have blocks of lanes, it depends on a call whether these are neighbours in the output. If they lie apart
there, each term would gather and scatter them: such sums stay, and are the output itself in calls whose lanes are
neighbours. The gradient of a global average pool of 16x512x7x7 NCX takes 0.48 of the time, of one 2x2 by 2 of
16x128x28x28 0.6 (AMD Zen 5, gcc 12.2, f32).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping

from ...language.expr import Binary, Number, Read
from ...language.model import Op
from ..phases import Phase, Staged
from ..program import INITIAL, Part
from .accumulating import accumulator, plain, renamed_part


def growing(
    op: Op, found: Staged, phase: Phase, row: Mapping[str, str], lanes: str | None, is_number: Callable[[str], bool]
) -> tuple[Staged, Phase]:
    """A phase of a program, and both as they are without the sums of outputs that grow in every call."""
    for copy, sums in [*_copies(op, found, phase, row, is_number)]:
        if _only_set(found, copy, sums) or _lane_axis(found, phase, sums, lanes) is None:
            found, phase = _without(found, phase, copy, sums)
    return found, phase


def grown(
    op: Op, found: Staged, phase: Phase, row: Mapping[str, str], lanes: str | None, is_number: Callable[[str], bool]
) -> dict[str, tuple[str, int]]:
    """By array of sums, the output that it is in some calls, and the axis along which its lanes go."""
    made: dict[str, tuple[str, int]] = {}
    for copy, sums in _copies(op, found, phase, row, is_number):
        if row[copy.target.tensor] != row["accumulate"]:
            continue
        axis = _lane_axis(found, phase, sums, lanes)
        if axis is not None:
            made[sums] = copy.target.tensor, axis
    return made


def _copies(
    op: Op, found: Staged, phase: Phase, row: Mapping[str, str], is_number: Callable[[str], bool]
) -> Iterator[tuple[Part, str]]:
    """The last steps of outputs that may grow, with their sums.

    Those that are one number for a task stay, and those of outputs that not every call has.
    """
    if phase.contraction or phase.copies or phase.finishes:
        return
    always = {tensor.name for tensor in op.outputs if tensor.when is None}
    for copy in phase.parts:
        output = copy.target.tensor
        sums = accumulator(output)
        if output not in always or sums not in found.private or is_number(sums):
            continue
        alike = row[output] == row["accumulate"] or _only_set(found, copy, sums)
        same = copy.formulas[0].value == Read(sums, copy.target.indices)
        if alike and same and (_many(found, phase, sums) or _moved(found, copy, sums)):
            yield copy, sums


def _only_set(found: Staged, copy: Part, sums: str) -> bool:
    """Whether steps set cells that only the last one reads: rounded as they come, they are what it would store."""
    others = [part for part in found.program.parts if part is not copy]
    written = all(part.operator == "set" for part in others if part.target.tensor == sums)
    return written and not any(read.tensor == sums for part in others for read in part.reads)


def _moved(found: Staged, copy: Part, sums: str) -> bool:
    """Whether steps only copy cells, or add one to 0, so that it costs least to write each row at once.

    What is computed for rows as a whole is stored past the caches, where the output is large.
    """
    values = [formula.value for part in found.program.parts if part.target.tensor == sums for formula in part.formulas]
    cells = [one.left if isinstance(one, Binary) and (one.op, one.right) == ("+", Number(0)) else one for one in values]
    return _only_set(found, copy, sums) and all(isinstance(cell, Read) for cell in cells)


def _lane_axis(found: Staged, phase: Phase, sums: str, lanes: str | None) -> int | None:
    """The axis of an array that lanes of tasks walk; None if there is none, and of arrays with runs."""
    walkers, axes = found.program.walkers(sums), found.program.arrays[sums].axes
    own = lanes in phase.own and lanes in walkers and all(axis.kind != "run" for axis in axes)
    return walkers.index(lanes) if own else None


def _many(found: Staged, phase: Phase, sums: str) -> bool:
    """Whether a task has more cells of an array than lanes: an axis is no letter of tasks."""
    target, axes = found.program.first_writer(sums).target, found.program.arrays[sums].axes
    walkers = [found.program.walks(sums, number, index) for number, index in enumerate(target.indices)]
    return any(axis.kind != "ones" and walker not in phase.own for axis, walker in zip(axes, walkers, strict=True))


def _without(found: Staged, phase: Phase, copy: Part, sums: str) -> tuple[Staged, Phase]:
    """The same where `copy`, the last step of an output, begins it, and the other steps of its sums write it."""
    first = found.program.first_writer(sums)
    begin = dataclasses.replace(copy, formulas=(copy.formulas[0].of(Number(INITIAL[first.operator])),))
    renamed = {id(part): renamed_part(part, sums, copy.target.tensor) for part in found.program.parts}

    def changed(parts: tuple[Part, ...]) -> tuple[Part, ...]:
        return tuple(renamed[id(part)] for part in parts if part is not copy)

    everywhere = found.program.parts
    at = everywhere.index(phase.parts[0])
    first_set = first.operator == "set" and plain(found.program, first) and not first.where and not first.by
    begins = () if first_set else (begin,)
    parts = (*changed(everywhere[:at]), *begins, *changed(everywhere[at:]))
    program = dataclasses.replace(found.program, parts=parts)
    made = dataclasses.replace(phase, parts=(*begins, *changed(phase.parts)))
    return dataclasses.replace(found, program=program, private=found.private - {sums}), made
