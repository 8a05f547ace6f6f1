"""How the steps of a program go together in kernels: which are fused, over which letters, and what each keeps.

In: a program. Out: phases, done one after the other. Within a phase, tasks share nothing, so that threads may take them
in any order: a task is one value of each letter in `own`. Arrays that one phase writes and reads for itself are private
to a task. The lanes of vectors are neighbours along one letter; which, a call decides among those in `lanes`. Where
tasks have that letter for themselves, each has a block of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..language.expr import Binary, Call, Expr, Name, Number, Read, Unary, names
from ..language.model import Op
from ..language.schema import Assignment
from ..language.types import is_places
from ..memo import memoised
from .program import Array, Axis, Formula, Part, Program, program

MOST_LANES = 3  # letters among which a call chooses


@dataclass(frozen=True)
class Phase:
    """Steps that are fused: the letters that tasks have for themselves, and those that lanes may go along."""

    parts: tuple[Part, ...]
    own: tuple[str, ...]
    lanes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Staged:
    """A program whose outputs are written once, at the end, by steps of their own where they must be."""

    program: Program
    phases: tuple[Phase, ...]
    private: frozenset[str]

    def first_writer(self, name: str) -> Part:
        """The step that begins an array."""
        return next(part for part in self.program.parts if part.target.tensor == name)


def accumulator(output: str) -> str:
    """The array in which an output's cells grow."""
    return f"{output}_sum_"


def plain(found: Program, part: Part) -> bool:
    """Whether a step reaches every cell of its target, each once, whatever the sizes."""
    indices = [index for index in part.target.indices if index != Number(0)]
    if part.where or len(set(indices)) != len(indices):
        return False
    return not any(guarded(found, read) for read in (part.target, *part.reads))


def guarded(found: Program, read: Read) -> bool:
    """Whether an index may lie outside its array."""
    return bool(loose_axes(found, read))


def loose_axes(found: Program, read: Read) -> list[int]:
    """The axes whose index may lie outside."""
    axes = found.arrays[read.tensor].axes
    return [
        number
        for number, (axis, index) in enumerate(zip(axes, read.indices, strict=True))
        if axis.kind != "ones" and found.walks(read.tensor, number, index) is None
    ]


@memoised
def staged(op: Op) -> Staged:
    """The phases of an operation."""
    found = _accumulating(program(op), [tensor.name for tensor in op.outputs])
    phases = tuple(dataclasses.replace(phase, lanes=_lanes(op, found, phase)) for phase in _phases(found))
    return Staged(found, phases, _private(found, phases))


def _accumulating(found: Program, outputs: Sequence[str]) -> Program:
    """Outputs that grow, are read again, or are not wholly written, become arrays that a last step copies."""
    letters, arrays, parts = dict(found.letters), dict(found.arrays), list(found.parts)
    for output in outputs:
        writers = [part for part in found.parts if part.target.tensor == output]
        read = any(read.tensor == output for part in found.parts for read in part.reads)
        only = writers[0]
        if len(writers) == 1 and only.operator == "set" and not read and plain(found, only):
            continue
        name = accumulator(output)
        indices: list[Expr] = []
        axes: list[Axis] = []
        for number, axis in enumerate(found.arrays[output].axes):
            walkers = {found.walks(output, number, part.target.indices[number]) for part in writers}
            letter = next(iter(walkers))
            if axis.kind == "ones":
                indices.append(Number(0))
                axes.append(axis)
                continue
            if len(walkers) > 1 or letter is None or Name(letter) in indices:
                letter = f"{output}_{axis.name}_"
                letters[letter] = Axis(letter, axis.extent, axis.kind)
            indices.append(Name(letter))
            axes.append(Axis(letter, axis.extent, axis.kind))
        arrays[name] = Array(name, "between", tuple(axes))
        parts = [_renamed(part, output, name) for part in parts]
        parts.append(_copy(len(parts), Read(output, tuple(indices)), Read(name, tuple(indices)), letters, writers[-1]))
    return Program(letters, arrays, tuple(parts))


def _copy(number: int, target: Read, source: Read, letters: dict[str, Axis], last: Part) -> Part:
    assignment = dataclasses.replace(last.formulas[0].assignment, target=target, op="set", value=source)
    walked = {index.id for index in target.indices if isinstance(index, Name)}
    own = tuple(letter for letter in letters if letter in walked)
    return Part(last.number, (Formula("", assignment),), None, (), own, last.at)


def _renamed(part: Part, old: str, new: str) -> Part:
    def visit(tree: Expr) -> Expr:
        if isinstance(tree, Read):
            return Read(new if tree.tensor == old else tree.tensor, tree.indices, tree.column)
        if isinstance(tree, Unary):
            return dataclasses.replace(tree, operand=visit(tree.operand))
        if isinstance(tree, Binary):
            return dataclasses.replace(tree, left=visit(tree.left), right=visit(tree.right))
        if isinstance(tree, Call):
            return dataclasses.replace(tree, arguments=tuple(map(visit, tree.arguments)))
        return tree

    def of(assignment: Assignment) -> Assignment:
        target = visit(assignment.target)
        assert isinstance(target, Read)
        return dataclasses.replace(assignment, target=target, value=visit(assignment.value))

    formulas = tuple(dataclasses.replace(formula, assignment=of(formula.assignment)) for formula in part.formulas)
    return dataclasses.replace(part, formulas=formulas)


def _own(found: Program, parts: Sequence[Part]) -> tuple[str, ...]:
    """The letters over which some steps are independent: each step writes and reads only cells of the same value."""
    result = []
    written = {part.target.tensor for part in parts}
    for letter in found.letters:
        places: dict[str, set[int | None]] = {name: set() for name in written}
        for part in parts:
            places[part.target.tensor].add(_place(found, part.target, letter))
            for read in part.reads:
                if read.tensor in written:
                    places[read.tensor].add(_place(found, read, letter))
        everywhere = all(letter in part.letters for part in parts)
        if everywhere and all(len(spots) == 1 and None not in spots for spots in places.values()):
            result.append(letter)
    return tuple(result)


def _place(found: Program, read: Read, letter: str) -> int | None:
    """The one axis of an element that a letter walks; None where there is none, or it stands in others too."""
    spots = [number for number, index in enumerate(read.indices) if found.walks(read.tensor, number, index) == letter]
    return spots[0] if spots else None


def _phases(found: Program) -> tuple[Phase, ...]:
    groups: list[list[Part]] = []
    for part in found.parts:
        if groups and _own(found, [*groups[-1], part]):
            groups[-1].append(part)
        else:
            groups.append([part])
    return tuple(Phase(tuple(group), _own(found, group)) for group in groups)


def _private(found: Program, phases: Sequence[Phase]) -> frozenset[str]:
    """The arrays that only one phase, whose tasks share nothing, knows."""
    users: dict[str, set[int]] = {}
    for number, phase in enumerate(phases):
        for part in phase.parts:
            for read in (part.target, *part.reads):
                users.setdefault(read.tensor, set()).add(number)
    return frozenset(array.name for array in found.between() if len(users[array.name]) == 1)


def _lanes(op: Op, found: Program, phase: Phase) -> tuple[str, ...]:
    """The letters whose neighbours may lie next to each other in memory: those that walk a last axis of a tensor."""
    used = dict.fromkeys(letter for part in phase.parts for letter in part.letters)
    walked: dict[str, None] = {}
    for part in phase.parts:
        for read in (part.target, *part.reads):
            for number in _last_axes(op, found, read.tensor):
                letter = found.walks(read.tensor, number, read.indices[number])
                walked |= dict.fromkeys([letter] if letter else [])
    return (*walked,)[:MOST_LANES] or (phase.own or (*used,))[-1:]


def _last_axes(op: Op, found: Program, name: str) -> Iterator[int]:
    """The axes of a tensor of which one is the last: a run may have no axes, and lists say where runs stand."""
    tensor = next((tensor for tensor in op.tensors if tensor.name == name), None)
    if tensor is None:
        return
    axes = found.arrays[name].axes
    placed = {attribute.locates for attribute in op.attributes if is_places(attribute)}
    anywhere = any(op.dims[role or ""].symbol in names(axis.extent) for axis in axes for role in placed)
    for order in op.layouts[tensor.layout].values() if tensor.layout else [[axis.name for axis in axes]]:
        for name in reversed(order):
            number = next(n for n, axis in enumerate(axes) if axis.name == name)
            yield number
            if axes[number].kind not in ("run", "ones") and not anywhere:
                break
