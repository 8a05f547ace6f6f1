"""Groups the steps of a program into kernels: which are fused, over which letters, and what is private to each.

In: a program. Out: phases, run one after the other. Within a phase, tasks are independent, so that threads may run them
in any order: a task is one value of each letter in `own`. Arrays that only one phase writes and reads are private
to a task. The lanes of vectors are neighbours along one letter, which a call chooses among `lanes`. If
that letter belongs to tasks, each has a block of it. A contraction is a phase of its own, and so is the copy
of its sums to an output: engines that know nothing of steps may run both. A contraction that
reads rows once, which another step reads again, is fused with that step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ..language import expr
from ..language.expr import Binary, Expr, Number, Read
from ..language.model import Op
from ..memo import memoised
from .contraction import Contraction, over_pairs
from .lanes import lane_letters, row_letters, view_letters
from .narrow import narrow
from .picking import conditioned, looked_up, picked
from .program import Array, Part, Program
from .rewrites.accumulating import accumulating, close_cells, once, plain
from .rewrites.apart import apart
from .rewrites.batches_first import batches_first
from .rewrites.beforehand import beforehand
from .rewrites.bordered import bordered
from .rewrites.complex_products import of_pairs
from .rewrites.components import in_components
from .rewrites.copied import copied
from .rewrites.diagonals import on_diagonals
from .rewrites.digits import in_digits
from .rewrites.dividing import divided_last
from .rewrites.factors_together import factors_together
from .rewrites.flattened import flattened
from .rewrites.framed import framed
from .rewrites.gaps import gaps_filled
from .rewrites.inlining import inlined
from .rewrites.joining import beside, merged
from .rewrites.lone_sums import summed_first
from .rewrites.made_once import made_once
from .rewrites.masking import masked
from .rewrites.named_cells import at_named, indicated
from .rewrites.needed import needed
from .rewrites.nested import at_once
from .rewrites.offsets import at_offsets
from .rewrites.outside import outside
from .rewrites.pairing import paired
from .rewrites.piecewise import in_pieces
from .rewrites.ranged import ranged
from .rewrites.reaching import reaching
from .rewrites.respelling import assigned, numbered, respelled, unwound
from .rewrites.row_blocks import block_letter, by_blocks
from .rewrites.scans import moves, run_alone, scanned
from .rewrites.sharing import hoisted, shared
from .rewrites.sides import on_sides
from .rewrites.strips import in_strips
from .rewrites.taps import taps_of_one
from .rewrites.told_once import told_once
from .rewrites.turning import turned
from .rewrites.written_out import written_out
from .rewrites.zero_points import separated


@dataclass(frozen=True)
class Phase:
    """Fused steps: the letters of tasks, and those that lanes may run along."""

    parts: tuple[Part, ...]
    own: tuple[str, ...]
    lanes: tuple[str, ...] = ()
    contraction: Contraction | None = None  # the contraction of its single step
    copies: str | None = None  # the output that its one step copies from the sums of a contraction,
    unless: str | None = None  # if a call lacks this input, which is added to them
    finishes: str | None = None  # the sums of the previous phase, which it alone reads, elementwise
    merged: Staged | None = None  # the same steps with two letters merged or a side turned, for the last of `lanes`
    views: tuple[str, ...] = ()  # those of `lanes` along which only views are contiguous


@dataclass(frozen=True)
class Staged:
    """A program whose outputs are written once, at the end, by separate steps if necessary."""

    program: Program
    phases: tuple[Phase, ...]
    private: frozenset[str]

    def along(self, number: int, letter: str | None) -> tuple[Staged, Phase]:
        """The form of a phase for lanes along a letter, and the program it belongs to."""
        phase = self.phases[number]
        if phase.merged is not None and letter == phase.lanes[-1]:
            return phase.merged, phase.merged.phases[0]
        return self, phase

    @property
    def arrays(self) -> dict[str, Array]:
        """All arrays, including those of phases with merged letters."""
        found = dict(self.program.arrays)
        for phase in self.phases:
            more = phase.merged.program.arrays if phase.merged is not None else {}
            found |= {name: array for name, array in more.items() if name not in found}
        return found

    def owned(self) -> frozenset[str]:
        """The private arrays, including those of phases with merged letters."""
        return self.private.union(*(phase.merged.private for phase in self.phases if phase.merged is not None))


@memoised
def staged(op: Op) -> Staged:
    """The phases of an operation."""
    outputs = [tensor.name for tensor in op.outputs]
    found = ranged(conditioned(indicated(copied(numbered(separated(op))))), op)
    found = unwound(in_digits(written_out(made_once(needed(found, outputs)), op)))
    found = at_offsets(told_once(at_named(looked_up(flattened(picked(found, op)), op))))
    found = assigned(in_strips(in_components(summed_first(on_sides(framed(found, op), op)))), once)
    found = gaps_filled(on_diagonals(in_pieces(of_pairs(found), outputs), outputs), outputs)
    found = accumulating(outside(found, outputs), outputs)
    found = factors_together(found)
    found = scanned(bordered(taps_of_one(respelled(found)), op))
    optional = frozenset(tensor.name for tensor in op.inputs if tensor.optional and float(tensor.absent or 0) == 0)
    found = _by_blocks(paired(apart(masked(reaching(beforehand(at_once(found, op)))))), optional)
    found = hoisted(batches_first(found))
    found = divided_last(inlined(found, [phase.parts for phase in _phases(found, optional)], plain))
    found = shared(found, [(phase.parts, phase.own) for phase in _phases(found, optional)])
    phases = tuple(_with_lanes(op, found, phase) for phase in _finishing(found, _phases(found, optional)))
    private = _private(found, phases)
    products = [phase.contraction for phase in phases if phase.contraction is not None]
    stated = {attribute.name or "": attribute.dtype_of for attribute in op.attributes if attribute.dtype_of}
    found = dataclasses.replace(found, narrow=narrow(found, products, private, stated))
    return Staged(found, tuple(_with_merged(found, phase, private) for phase in phases), private)


def _by_blocks(found: Program, optional: frozenset[str]) -> Program:
    """The program with sums over rows by blocks, if tasks are the rows of each; else other lanes serve them better."""
    made = by_blocks(found)
    for phase in _phases(made, optional) if made is not found else ():
        if _rows_of_blocks(made, phase.parts) and not block_of_tasks(made, phase):
            return found
    return made


def _rows_of_blocks(found: Program, parts: Sequence[Part]) -> set[str]:
    """The letters of rows that steps sum up by blocks."""
    rows = {block_letter(found, index) for part in parts for index in part.target.indices}
    return {row for row in rows if row is not None and any(row in part.letters for part in parts)}


def _with_lanes(op: Op, found: Program, phase: Phase) -> Phase:
    """A phase with the letters that its lanes may run along."""
    lanes = lane_letters(op, found, phase.parts, phase.own)
    whole = phase.contraction or phase.copies or phase.finishes
    if whole or block_of_tasks(found, phase):
        return dataclasses.replace(phase, lanes=lanes)
    lanes = (*lanes, *row_letters(found, phase.parts, phase.own, lanes))
    views = view_letters(found, phase.parts, phase.own, lanes)
    return dataclasses.replace(phase, lanes=(*lanes, *views), views=views)


def _with_merged(found: Program, phase: Phase, private: frozenset[str]) -> Phase:
    """A phase, together with its form with two letters merged or a side turned, if there are such.

    Distances that no engine sums have a side turned, too: 501 by 513 rows of 3 f64 take 0.07 of their time, of 24 0.22
    (AMD EPYC, Zen 4, gcc 12.2).
    """
    whole = all(found.first_writer(part.target.tensor) in phase.parts for part in phase.parts)
    product = phase.contraction
    if not whole or (product and not product.term) or phase.copies or phase.finishes:
        return phase
    other = None if product else merged(found, phase.parts) or beside(found, phase.parts)
    program, letter = other or turned(found, phase.parts, phase.own) or (None, "")
    if program is None or not (own := _own(program, program.parts) if other else phase.own):
        return phase
    alone = Staged(program, (Phase(program.parts, own, (letter,)),), private | (program.arrays.keys() - found.arrays))
    return dataclasses.replace(phase, lanes=(*(x for x in phase.lanes if x != letter), letter), merged=alone)


def _own(found: Program, parts: Sequence[Part]) -> tuple[str, ...]:
    """The letters over which some steps are independent: each step writes and reads only elements of the same value."""
    result, written = [], {part.target.tensor for part in parts}
    for letter in found.letters:
        places: dict[str, set[tuple[int, Expr] | None]] = {name: set() for name in written}
        for part in parts:
            places[part.target.tensor].add(place(found, part.target, letter))
            for read in part.reads:
                if read.tensor in written:
                    places[read.tensor].add(place(found, read, letter))
        everywhere = all(letter in part.letters for part in parts)
        if everywhere and all(len(spots) == 1 and None not in spots for spots in places.values()):
            result.append(letter)
    # Tasks that are rows are shared by whole blocks; others could not be.
    blocked = _rows_of_blocks(found, parts) if len(result) > 1 else ()
    return tuple(letter for letter in result if letter not in blocked)


def place(found: Program, read: Read, letter: str) -> tuple[int, Expr] | None:
    """The axis of an element that a letter walks, alone or with others, and how; None if there is none.

    An intermediate that a letter walks along two axes, `y[c, c]`, has cells of its own for other letters of the second.
    So has one of blocks along a diagonal, `y[g * R + r, g * C + c]`, where tasks are rows: others beside the blocks.
    """
    between = found.arrays[read.tensor].role == "between"
    indices = (index for index in read.indices if letter in expr.names_outside_indices(index))
    if between and len([*indices]) > 1:
        return None
    before = set[str]()
    for number, index in enumerate(read.indices):
        digits = found.digits(read.tensor, number, index) or ()
        walked = found.walks(read.tensor, number, index), block_letter(found, index), *digits
        if letter in walked:
            return None if between and before & {*digits} else (number, index)
        apart = None if between else close_cells(found, index, letter)  # sums have cells beside those, too
        if apart is not None:
            return number, apart
        before |= {*digits}
    return None


def block_of_tasks(found: Program, phase: Phase) -> str | None:
    """The letter of tasks that have sums by blocks."""
    places = (block_letter(found, index) for part in phase.parts for index in part.target.indices)
    return next((letter for letter in places if letter in phase.own), None)


def _phases(found: Program, optional: frozenset[str]) -> tuple[Phase, ...]:
    phases: list[Phase] = []
    for part in _late(found):
        contracted = over_pairs(found, part)
        engines = {phase.contraction.target.tensor for phase in phases if phase.contraction is not None}
        copied, added = _copied(found, part, optional, engines)
        group = phases[-1] if phases else None
        alone = Phase((part,), _own(found, [part]), (), contracted, copied, added)
        if group and not (copied or group.copies) and _share_walk(found, group, part, contracted):
            own = _own(found, [*group.parts, part])
            if not own and run_alone(found, group.parts, part):
                phases[-1] = Phase((*group.parts, part), ())
                continue
            if own and not contracted and _earlier(group, part, own):
                phases.insert(len(phases) - 1, alone)
                continue
            if own and not _later(found, group, alone, own):
                phases[-1] = Phase((*group.parts, part), own)
                continue
            if not group.own and not part.letters:  # what is made of one number, once it is known
                phases[-1] = Phase((*group.parts, part), ())
                continue
        phases.append(alone)
    return tuple(phases)


def _earlier(group: Phase, part: Part, own: Sequence[str]) -> bool:
    """Whether a step is better run before a phase: it walks none of the letters that its tasks would lose,

    such as the counts of a window's elements, which are the same for every channel.
    """
    lost = {*group.own} - {*own}
    written = {other.target.tensor for other in group.parts}
    known = written | {read.tensor for other in group.parts for read in other.reads}
    independent = not written & {read.tensor for read in part.reads} and part.target.tensor not in known
    return bool(lost) and not lost & {*part.letters} and independent


def _later(found: Program, group: Phase, alone: Phase, own: Sequence[str]) -> bool:
    """Whether a step is better in a phase of its own, which has more tasks: no earlier step walks the letters gained,

    as with values computed once per channel and then used for all of its elements. Arrays of the phase must not have
    these letters either, because they are read while in a cache.
    """
    written = {part.target.tensor for part in group.parts}
    walked = {letter for part in group.parts for letter in part.letters}
    read = {name for part in alone.parts for r in part.reads if r.tensor in written for name in expr.names(r)}
    gained = {letter for letter in alone.own if letter not in own and found.letters[letter].extent != Number(1)}
    return bool(gained) and not gained & (walked | read)


def _share_walk(found: Program, group: Phase, part: Part, contracted: Contraction | None) -> bool:
    """Whether a step may join a phase: if one of them contracts, only if the other walks the rows that it reads once.

    A contraction that reads both factors many times is left to the engine.
    """
    if found.arrays[part.target.tensor].role == "output" and _lie_apart(found, group.parts, part):
        return False
    for product, others in ((group.contraction, (part,)), (contracted, group.parts)):
        if product is not None:
            walked = [{*other.letters} for other in others]
            if product.dense or not any({*product.reduced} <= letters for letters in walked):
                return False
    return True


def _lie_apart(found: Program, parts: Sequence[Part], part: Part) -> bool:
    """Whether steps compute pieces of the last axis of one array, each along letters of its own.

    Lanes go along one of these alone, and the cells of the other steps one by one; copies are made by rows (planes.py).
    """
    target, last = part.target.tensor, _along_last_axis(part)
    alike = all(other.target.tensor == target and other.operator == "set" for other in (*parts, part))
    reads = {read.tensor for other in (*parts, part) for read in other.reads}
    if not last or not alike or target in reads or all(moves(found, other) for other in (*parts, part)):
        return False
    return all(end and not end & last for end in map(_along_last_axis, parts))


def _along_last_axis(part: Part) -> frozenset[str]:
    return frozenset(part.letters).intersection(*map(expr.names, part.target.indices[-1:] or [Number(0)]))


def _late(found: Program) -> list[Part]:
    """The steps, with each contraction moved just before the first step that reads its sums, if elementwise."""
    parts = list(found.parts)
    for part in found.parts:
        product = over_pairs(found, part)
        readers = [other for other in parts if part.target.tensor in {read.tensor for read in other.reads}]
        if product is None or not readers or {*readers[0].letters} != {*_walkers(found, product.target)}:
            continue
        between = parts[parts.index(part) + 1 : parts.index(readers[0])]
        operands = {product.target.tensor, product.left.tensor, product.right.tensor}
        if not operands & {other.target.tensor for other in between}:
            parts.remove(part)
            parts.insert(parts.index(readers[0]), part)
    return parts


def _copied(
    found: Program, part: Part, optional: frozenset[str], engines: Collection[str]
) -> tuple[str | None, str | None]:
    """The output to which a step copies the sums of a contraction, in a phase of its own, that nothing else reads,

    and the input that it adds; a call without that input adds 0. `engines`: the sums of such phases.
    """
    value: Expr = part.formulas[0].value
    added: str | None = None
    right = value.right if isinstance(value, Binary) and value.op == "+" else None
    if isinstance(value, Binary) and isinstance(right, Read) and right.tensor in optional:
        added, value = right.tensor, value.left
    if not isinstance(value, Read) or value.tensor not in engines:
        return None, None
    if value.indices != part.target.indices or part.operator != "set" or part.by:
        return None, None
    users = [other for other in found.parts if value.tensor in (read.tensor for read in (other.target, *other.reads))]
    written = found.arrays[part.target.tensor].role == "output" and plain(found, part)
    return (part.target.tensor, added) if len(users) == 2 and users[1] is part and written else (None, None)


def _finishing(found: Program, phases: Sequence[Phase]) -> Iterator[Phase]:
    """The phases; those after a contraction are marked if they may process its sums as they are computed."""
    before: Contraction | None = None
    for phase in phases:
        sums = before.target if before is not None else None
        finishes = sums.tensor if sums is not None and _finishes(found, phase, sums) else None
        # Cells are counted as the sums lie, so that letters of one factor are one axis: 2x3x64x64 cells of 2x2 pixels
        # of 64 terms f32 take 0.75 of the time (AMD Zen 4, gcc 12.2).
        # Not with runs of axes, of which some are empty in a call: letters beside one another there are no one axis.
        lie = tuple(_walkers(found, sums)) if sums is not None and finishes else phase.own
        own = lie if all(found.letters[letter].kind == "one" for letter in lie) else phase.own
        yield dataclasses.replace(phase, finishes=finishes, own=own)
        before = phase.contraction


def _finishes(found: Program, phase: Phase, sums: Read) -> bool:
    """Whether a phase is pointwise over the letters of sums that no other phase reads."""
    users = [part for part in found.parts for read in (part.target, *part.reads) if read.tensor == sums.tensor]
    letters = _walkers(found, sums)
    pointwise = all(part.operator == "set" and {*part.letters} == {*letters} for part in phase.parts)
    alone = all(part in phase.parts for part in users[1:])
    read = [_walkers(found, read) for part in phase.parts for read in part.reads if read.tensor == sums.tensor]
    return pointwise and alone and {*phase.own} == {*letters} and bool(read) and all(one == letters for one in read)


def _walkers(found: Program, read: Read) -> list[str]:
    """The letter that walks each axis of an element, '' if none does."""
    axes = enumerate(found.arrays[read.tensor].axes)
    return [found.walks(read.tensor, n, read.indices[n]) or "" for n, axis in axes if axis.kind != "ones"]


def _private(found: Program, phases: Sequence[Phase]) -> frozenset[str]:
    """The arrays that only one phase with independent tasks uses."""
    users: dict[str, set[int]] = {}
    sums = {phase.contraction.target.tensor for phase in phases if phase.contraction}
    for number, phase in enumerate(phases):
        for part in phase.parts:
            for read in (part.target, *part.reads):
                users.setdefault(read.tensor, set()).add(number)
    return frozenset(array.name for array in found.between() if len(users[array.name]) == 1 and array.name not in sums)
