"""Arguments of kernels of steps: sizes, strides as they are, schedules, and how their memory is laid out.

In: a resolved call and the arrays that it has. Out: the members of the struct of sizes, and bytes of memory.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from ._arrays import Array
from ._axes import Places
from ._dtypes import DTYPES
from ._schedules import ENOUGH, Candidate, Lanes, Schedule, chosen, nearest

LINE = 64  # bytes; what tasks of different threads write begins at lines of its own

Along = dict[tuple[str, str], tuple[int, ...]]


def lines(size: int) -> int:
    """Bytes, up to whole cache lines."""
    return -(-size // LINE) * LINE


@dataclass(frozen=True)
class Field:
    """A member of the struct of sizes: `kind` says what it holds, `of` and `axis` of what."""

    name: str
    kind: str
    of: str
    axis: str = ""
    length: int = 0
    neutral: int = 0
    c_type: str = "int64_t"


@dataclass(frozen=True)
class ArrayInfo:
    """An array that kernels take: its role, its axes, and the number that it reads as where it is left out."""

    name: str
    role: str  # input, list, output, between
    axes: Mapping[str, str]  # axis to the symbol of its run; '' where it is none
    absent: float = 0.0
    dtype: str = ""  # of a list, and of integers between steps; '' where the row says it
    sizes: Mapping[str, str] = field(default_factory=dict)  # where inputs are joined: axis to the symbol of its extent


@dataclass(frozen=True)
class Memory:
    """Bytes of scratch memory: those that all tasks share, and those of each thread."""

    shared: int
    task: int

    def bytes(self, workers: int) -> int:
        return self.shared + self.task * workers


@dataclass
class Sizes:
    """A call as its kernel sees it."""

    fields: Sequence[Field]
    infos: Sequence[ArrayInfo]
    phases: Sequence[Sequence[Lanes]]
    exchanged: Sequence[tuple[str, str]]  # runs that kernels do not tell apart
    words: Mapping[str, tuple[str, ...]]
    resolution: Any
    places: Mapping[str, Places]
    arrays: Mapping[str, Array]
    made: str  # the type that values are made in
    narrow: Mapping[str, str]  # types of arrays between steps that are others
    schedules: list[tuple[str, Schedule]] = field(default_factory=list)  # of every phase that has lanes

    def chosen_lanes(self) -> list[int]:
        """Along which of its letters the lanes of each phase go."""
        runs = self.runs()
        return [self.lanes(letters, runs) for letters in self.phases]

    def members(self, lanes: Sequence[int], unstored: Container[str]) -> tuple[dict[str, Any], Memory]:
        """The values of the struct's members, and the memory that a call needs: none for arrays in `unstored`."""
        runs = self.runs()
        values: dict[str, Any] = {}
        for entry in self.fields:
            if entry.kind in ("value", "rank", "extents", "word", "absent", "stride"):
                values[entry.name] = self.member(entry, runs)
        values["lanes_"] = lanes
        memory = self.memory(lanes, values, unstored)
        if any(entry.kind == "bytes" for entry in self.fields):
            values["task_bytes_"] = memory.task
        return values, memory

    def member(self, entry: Field, runs: Mapping[str, tuple[tuple[int, ...], Along]]) -> Any:
        if entry.kind == "rank":
            return len(runs[entry.of][0])
        if entry.kind == "extents":
            return runs[entry.of][0]
        if entry.kind == "word":
            return self.words[entry.of].index(self.resolution.words[entry.of])
        if entry.kind == "absent":
            return entry.of in self.resolution.absent
        if entry.kind == "value":
            value = self.resolution.values[entry.of]
            return (entry.neutral,) * (entry.length - len(value)) + tuple(value) if entry.length else value
        steps = self.strides(entry.of, entry.axis, runs)
        if self.info(entry.of).axes[entry.axis]:
            return steps
        if entry.length:
            return (0,) * (entry.length - len(steps)) + tuple(steps)
        return steps[0] if steps else 0

    def info(self, name: str) -> ArrayInfo:
        return next(info for info in self.infos if info.name == name)

    def strides(self, name: str, axis: str, runs: Mapping[str, tuple[tuple[int, ...], Along]]) -> tuple[int, ...]:
        """How far neighbours along an axis lie apart, in elements; 0 where one cell serves all."""
        symbol = self.info(name).axes[axis]
        if symbol:
            return runs[symbol][1][name, axis]
        return _steps_of(self.arrays[name], self.places.get(name, {}).get(axis, ()))

    def runs(self) -> dict[str, tuple[tuple[int, ...], Along]]:
        """Of every run its extents, and the strides of each array along it, with as few axes as all arrays allow."""
        found = {}
        for symbol, counted in {entry.of: entry.axis for entry in self.fields if entry.kind == "rank"}.items():
            extents = self.resolution.values[symbol]
            along = {}
            outputs_first = sorted(self.infos, key=lambda info: info.role != "output")
            for info in outputs_first:
                for axis in (axis for axis, of in info.axes.items() if of == symbol):
                    steps = _steps_of(self.arrays[info.name], self.places.get(info.name, {}).get(axis, ()))
                    along[info.name, axis] = (0,) * (len(extents) - len(steps)) + tuple(steps)
            found[symbol] = merged(extents, along) if counted else merged(*in_memory_order(extents, along))
        for outer, inner in self.exchanged:
            if found[inner][0] == (1,):
                found[outer], found[inner] = _taken(found[inner], found[outer]), _taken(found[outer], found[inner])
        return found

    def lanes(self, letters: Sequence[Lanes], runs: Mapping[str, tuple[tuple[int, ...], Along]]) -> int:
        """Along which of its letters the lanes of a phase go."""
        candidates = []
        for letter in letters:
            extents, steps, apart = list[int](), list[int](), dict[str, int]()
            for name, axis in letter.walks:
                strides = self.strides(name, axis, runs)
                symbol = self.info(name).axes[axis]
                spots = self.places.get(name, {}).get(axis, ())
                if name in self.resolution.absent or (not symbol and not spots):
                    continue
                rows = prod(self.extent(*one) for one in letter.beside if one[0] == name)
                extents.append(runs[symbol][0][-1] if symbol else self.extent(name, axis) * rows)
                steps += strides[-1:]
                apart[name] = apart.get(name, 0) + sum(strides[-1:])
            extents = extents or [*self.resolution.letters.get(letter.letter, (1,))[-1:]]  # it walks sums alone
            if letter.joins and self.joined(letter, runs):
                extents = [self.cells([letter.letter])]
            crossed, served = letter.moves and self.crossed(letter, runs), self.cells(letter.serves)
            candidates.append(
                Candidate(
                    letter,
                    max(extents, default=1),
                    tuple(steps),
                    crossed,
                    served if letter.serves else 0,
                    self.cells(letter.kept),
                    bool(letter.turns) and self.turned(letter, runs),
                    max(map(abs, apart.values()), default=0),
                    {*steps} == {1} and self.follows(letter, max(extents), runs),
                    self.beside(letter, runs),
                )
            )
        number, row = chosen(nearest(candidates))
        if row is not None:
            self.schedules.append((letters[number].letter, row))
        return number

    def cells(self, letters: Sequence[str]) -> int:
        """The number of values of some letters together."""
        return prod(extent for letter in letters for extent in self.resolution.letters[letter])

    def joined(self, letter: Lanes, runs: Mapping[str, tuple[tuple[int, ...], Along]]) -> bool:
        """Whether all axes of a letter lie as one in the tensors that it walks."""
        counted = self.resolution.letters.get(letter.letter, ())
        for walk in letter.walks:
            strides, cells = self.strides(*walk, runs), 1
            for extent, step in zip(reversed(counted), reversed(strides)):
                if extent != 1 and step != cells * strides[-1]:
                    return False
                cells *= extent
        return bool(counted)

    def crossed(self, letter: Lanes, runs: Mapping[str, tuple[tuple[int, ...], Along]]) -> bool:
        """Whether tiles copy the second tensor to the first: `opwright_moved` of c/rows.h asks for the same."""
        (to, axis), (source, _) = letter.walks
        extents = runs[self.info(to).axes[axis]][0]
        written, read = (self.strides(name, own, runs) for name, own in letter.walks)
        across = next((n for n, step in enumerate(read[:-1]) if step == 1), None)
        alike = self.arrays[to].dtype == self.arrays[source].dtype
        return alike and across is not None and written[-1] == 1 and min(extents[-1], extents[across]) >= ENOUGH

    def turned(self, letter: Lanes, runs: Mapping[str, tuple[tuple[int, ...], Along]]) -> bool:
        """Whether neighbours lie together in what is written, and those of tasks in rows that do not lie so."""
        beside = {name for name, axis in letter.walks if self.strides(name, axis, runs) == (1,)}
        turned = all(one[0] in beside or self.strides(*one, runs) in ((1,), (-1,)) for one in letter.turns)
        return turned and bool(letter.walks) and letter.walks[0][0] in beside

    def follows(self, letter: Lanes, cells: int, runs: Mapping[str, tuple[tuple[int, ...], Along]]) -> bool:
        """Whether rows of so many cells follow one another; those of f16 are converted one by one."""
        absent = self.resolution.absent
        return bool(letter.follows) and all(
            name not in absent and self.arrays[name].dtype != "float16" and self.strides(name, axis, runs) == (cells,)
            for name, axis in letter.follows
        )

    def beside(self, letter: Lanes, runs: Mapping[str, tuple[tuple[int, ...], Along]]) -> bool:
        """Whether rows of the axes that the letter walks, and of those beside them, follow one another."""
        last, cells = dict(letter.walks), dict[str, int]()
        for name, axis in letter.beside:  # the innermost first
            if self.places.get(name, {}).get(axis):  # a call may lack an input
                cells.setdefault(name, self.extent(name, last[name]))
                if (self.strides(name, last[name], runs), self.strides(name, axis, runs)) != ((1,), (cells[name],)):
                    return False
                cells[name] *= self.extent(name, axis)
        return True

    def extent(self, name: str, axis: str) -> int:
        """The cells along an axis that is no run."""
        return int(self.arrays[name].shape[self.places[name][axis][-1]])

    def memory(self, lanes: Sequence[int], values: dict[str, Any], unstored: Container[str]) -> Memory:
        """Where each array between steps begins: those that all tasks share, then those of a task."""
        end = {True: 0, False: 0}
        begins: dict[str, tuple[bool, int]] = {}
        for name, (phase, cells) in self.resolution.between.items():
            private = phase >= 0
            begins[name] = private, end[private]
            number = cells[lanes[phase]] if private and len(cells) > 1 else cells[0]
            number = 0 if name in unstored else number
            end[private] += lines(number * self.itemsize(name))
        for name, (private, begin) in begins.items():
            values[f"{name}_at"] = begin + (end[False] if private else 0)
        return Memory(end[False], end[True])

    def itemsize(self, name: str) -> int:
        """Bytes of a cell of an array between steps."""
        dtype = next((info.dtype for info in self.infos if info.name == name), "")
        return DTYPES[self.narrow.get(name) or dtype or self.made].itemsize


def _steps_of(array: Array, spots: Sequence[int]) -> tuple[int, ...]:
    """The strides of some axes in elements; 0 for those of extent 1, of which any cell is the only one."""
    return tuple(0 if array.shape[spot] == 1 else array.strides[spot] // array.itemsize for spot in spots)


def _taken(run: tuple[tuple[int, ...], Along], by: tuple[tuple[int, ...], Along]) -> tuple[tuple[int, ...], Along]:
    """The axes of a run as those of another one, of the same arrays in the same order."""
    return run[0], dict(zip(by[1], run[1].values(), strict=True))


def in_memory_order(extents: Sequence[int], along: Along) -> tuple[tuple[int, ...], Along]:
    """The axes of a run by how far their neighbours lie apart in the first array that tells, the nearest last."""

    def far(axis: int) -> tuple[int, ...]:
        return tuple(abs(strides[axis]) for strides in along.values())

    order = sorted(range(len(extents)), key=far, reverse=True)
    return tuple(extents[axis] for axis in order), {
        key: tuple(strides[axis] for axis in order) for key, strides in along.items()
    }


def merged(extents: Sequence[int], along: Along) -> tuple[tuple[int, ...], Along]:
    """Axes put together where every array goes through both as through one; those of extent 1 left out."""
    found: list[int] = []
    steps: list[list[int]] = []  # per kept axis, the step of every array
    for axis, extent in enumerate(extents):
        if extent == 1:
            continue
        own = [strides[axis] for strides in along.values()]
        if found and all(outer == inner * extent for outer, inner in zip(steps[-1], own)):
            found[-1] *= extent
            steps[-1] = own
        else:
            found.append(extent)
            steps.append(own)
    if not found:
        found, steps = [1], [[0] * len(along)]
    return tuple(found), {key: tuple(step[at] for step in steps) for at, key in enumerate(along)}
