"""The elements of a phase's arrays as C: addresses.

In: a phase, the letter of its lanes, and a row of data types. Out: nodes. An address is a sum of terms, each an
index times a stride; their growth from lane to lane is the stride of a row.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ...derive.algebra import slopes
from ...derive.crossing import crossing
from ...derive.narrow import dtype_of
from ...derive.phases import Phase, Staged
from ...derive.program import Array, Axis
from ...derive.rewrites.growing import grown
from ...language import expr
from ...language.dtypes import DTYPES
from ...language.expr import Read
from ...language.model import Op
from .. import nodes
from ..nodes import ONE, ZERO, Binary, Call, Conditional, Declare, DeclareArray, Expr, Index, Member, Name, Stmt
from .integers import SIZES, Integers, expr_name

BEGIN, END = Name("begin_"), Name("end_")
BLOCK = 4096  # lanes of a block if no row needs a buffer and no intermediate has more than one cell per lane
ROOM = 512  # lanes of a block otherwise
TURNED = 64  # lanes of a block whose rows are turned, SQUARE of them at once, as c/rows.h does
SQUARE = 16


@dataclass(frozen=True)
class Term:
    """A part of an address. `slope`: the growth of the index from lane to lane; None if it varies."""

    index: Expr
    stride: Expr
    slope: Expr | None = ZERO


def product(left: Expr, right: Expr) -> Expr:
    """A product of nodes, with factors 0 and 1 simplified."""
    if ZERO in (left, right):
        return ZERO
    return (right if left == ONE else left) if ONE in (left, right) else Binary("*", left, right)


class Elements(Integers):
    """Elements of arrays, as one phase needs them."""

    def __init__(self, op: Op, row: dict[str, str], found: Staged, phase: Phase, lanes: str | None) -> None:
        super().__init__(op, found.program, lanes)
        self.row, self.staged, self.phase = row, found, phase
        self.of_row: Callable[[Read], Expr] | None = None  # elements in the loop over a row's cells
        self.task: dict[str, Declare] = {}  # offsets of rows of runs, for the loops that walk them
        self.placed: dict[tuple[Read, Expr | None], list[Term]] = {}  # memoised by cell while offsets stay
        self.used: set[str] = set()  # arrays
        self.steps: dict[Expr, Expr] = {}  # strides of rows, and the number that each is if the row needs no buffer
        self.passes = False  # whether functions of rows are passes over each block of an output
        # Whether rows may be stretched cells. Such rows are short: their offsets stand together, so that compilers look
        # at the number of axes once. A sum of 4096 x 64 and 64 f32 takes 0.85 of the time (AMD Zen 4, gcc 12.2).
        self.stretches = False
        self.minimum = {dim.symbol: dim.min or 0 for dim in op.dims.values()}
        self.minimum |= {attribute.symbol or attribute.name or "": attribute.min or 0 for attribute in op.attributes}
        # the letter of tasks along which rows are turned, those rows, and where they are kept
        self.crossing, self.crossed = crossing(op, found.program, phase, lanes or "")
        self.rooms: list[DeclareArray] = []
        self.repeated: list[Stmt] = []  # what makes long rows of short ones, for all tasks
        self.grown = grown(op, found, phase, row, lanes, self.is_number)
        self.roomy = False  # whether sizes suffice for the indices of the current step

    @property
    def blocked(self) -> bool:
        """Whether each task has a block of lanes; otherwise every task has all of them."""
        return self.lanes is not None and self.lanes.name in self.phase.own

    @property
    def turned(self) -> bool:
        """Whether rows of every call are turned, not only of one that passes views in another order."""
        return bool(self.rooms) and any(self.crossing in expr.names(read.indices[-1]) for read in self.crossed)

    @property
    def long_rows(self) -> bool:
        """Whether the cells behind the last line of a row are few of many."""
        return self.blocked

    def streams(self, target: Read) -> bool:
        """Whether rows of an array may go past the caches: each task writes its own stretch of an output once."""
        writers = [part for part in self.phase.parts if part.target.tensor == target.tensor]
        begun = len(writers) > 1 and isinstance(writers[0].formulas[0].value, expr.Number) and writers[0].by is None
        return not begun and self.blocked and self.program.arrays[target.tensor].role == "output"

    def streamed(self, target: Read) -> Expr:
        """How many rows count for whether they go past the caches: 0 if none may, half of all if no array is as large.

        Caches hold what is written alone longer: 1536 x 2048 products of two vectors of f32 take 1.8 of the time past
        them (AMD Zen 4, 32 MB of L3, gcc 12.2).
        """
        if not self.streams(target):
            return ZERO
        writers = [part for part in self.phase.parts if part.target.tensor == target.tensor]
        read = any({*part.letters} <= expr.names(read) for part in writers for read in part.reads)
        return Name("total_") if read else Binary("/", Name("total_"), nodes.integer(2))

    def writes_outputs(self, dtype: str) -> bool:
        """Whether a phase does nothing but set cells of outputs of a type."""
        targets = {part.target.tensor for part in self.phase.parts}
        sets = all(part.operator == "set" for part in self.phase.parts)
        outputs = all(self.program.arrays[name].role == "output" for name in targets)
        return sets and outputs and all(self.dtype(name) == dtype for name in targets)

    def cells_of_lanes(self) -> int:
        """The number of lanes in a task's arrays: fewer if one has more than one cell per lane."""
        for name in {part.target.tensor for part in self.phase.parts} & self.staged.private:
            array = self.program.arrays[name]
            own = self.own_axes(array)
            if any(number not in own and axis.kind != "ones" for number, axis in enumerate(array.axes)):
                return ROOM
        return BLOCK

    def buffered(self, step: Expr, unless: Expr = ONE) -> None:
        """Rows of a stride are buffered unless it is a number, 1 if any of them asks for it; of stride 0, always."""
        self.steps[step] = ONE if self.steps.get(step) == ONE else unless

    def dtype(self, name: str) -> str:
        return dtype_of(self.op, self.row, self.program.arrays[name], self.program)

    def c_type(self, name: str) -> str:
        return DTYPES[self.dtype(name)].c_type

    def is_number(self, name: str) -> bool:
        """Whether an array is one number per task, and thus a variable."""
        if name not in self.staged.private:
            return False
        own = self.own_axes(self.program.arrays[name])
        lane = self.lanes is not None and self.lanes.name in own.values()
        axes = self.program.arrays[name].axes
        return not lane and all(number in own or axis.kind == "ones" for number, axis in enumerate(axes))

    def element(self, read: Read) -> Expr:
        """The cell, by the loops around it."""
        self.used.add(read.tensor)
        return Name(read.tensor) if self.is_number(read.tensor) else Index(self.pointer(read.tensor), self.place(read))

    def reader(self, read: Read) -> Expr:
        """What an index reads: in a row of lanes, an element of another row."""
        return self.element(read) if self.of_row is None or self.position is None else self.of_row(read)

    def pointer(self, name: str) -> Expr:
        """Where an array begins: sums that may grow in an output, there if its lanes are neighbours."""
        if name not in self.grown:
            return Name(name)
        made, (output, _) = f"{name}begin_", self.grown[name]
        if made not in self.declared:
            self.used |= {name, output}
            begin = Conditional(self.in_place(name), Name(output), Name(name))
            self.declared[made] = Declare(made, begin, f"{self.c_type(name)} *", changes=True)
        return Name(made)

    def in_place(self, name: str) -> Expr:
        """Whether sums grow in their output."""
        stride = self.stride(*self.grown[name], len(self.axes) - 1)
        return self.constant(f"{name}in_place_", Binary("==", stride, ONE))

    def stride(self, name: str, number: int, copy: int) -> Expr:
        """The stride of an axis of a tensor that is no run; of one spatial axis."""
        axis = self.program.arrays[name].axes[number]
        stride = f"{name}_{axis.name}"
        return self.entry(stride, copy) if axis.kind == "spatial" else self.member(stride)

    def place(self, read: Read) -> Expr:
        """The offset of a cell in its array."""
        parts = [product(term.index, term.stride) for term in self.terms(read)]
        return nodes.chain("+", [part for part in parts if part != ZERO], ZERO)

    def address(self, read: Read) -> Expr:
        """A pointer to a cell."""
        place, begin = self.place(read), self.pointer(read.tensor)
        return begin if place == ZERO else Binary("+", begin, place)

    def step(self, read: Read) -> Expr | None:
        """The stride between cells of neighbouring lanes; None if it varies."""
        total: list[Expr] = []
        for term in self.terms(read):
            if term.slope is None:
                return None
            total.append(product(term.slope, term.stride))
        return nodes.chain("+", [part for part in total if part != ZERO], ZERO)

    def flat(self, read: Read) -> tuple[Expr | None, Expr]:
        """If lanes number a run's cells: the test that the run has one stride in memory, and that stride."""
        array = self.program.arrays[read.tensor]
        if self.lanes is None or len(array.axes) != 1 or array.axes[0].kind != "run" or array.role == "between":
            return None, ZERO
        (index,), axis = read.indices, array.axes[0]
        numbered = isinstance(index, expr.Call) and index.function == "number"
        if not numbered or index.arguments[-1] != expr.Name(self.lanes.name):  # type: ignore[union-attr]
            return None, ZERO
        rank = Member(SIZES, f"{expr_name(axis.extent)}_rank")
        return Binary("==", rank, ONE), Index(Member(SIZES, f"{array.name}_{axis.name}"), ZERO)

    def terms(self, read: Read) -> list[Term]:
        """The terms of an address."""
        key = read, self.position
        if key not in self.placed:
            array = self.program.arrays[read.tensor]
            walk = self._between if array.role == "between" else self._strided
            self.placed[key] = [*walk(array, read)]
        return self.placed[key]

    def slope(self, tree: expr.Expr, copy: int) -> Expr | None:
        """The growth of an index from lane to lane."""
        if self.lanes is None or (self.lanes.kind == "spatial" and copy != len(self.axes) - 1):
            return ZERO
        found = slopes.slope(tree, self.lanes.name)
        return None if found is None else self.integer(found, copy)

    def varies(self, index: expr.Expr) -> Expr | None:
        """The slope of an index that lanes walk with a variable stride, if any."""
        return None if self.lanes is not None and self.lanes.name in expr.names(index) else ZERO

    def _strided(self, array: Array, read: Read) -> Iterator[Term]:
        told = set[expr.Expr]()  # numbers of cells along several axes, and offsets of several numbers
        for axis, index in zip(array.axes, read.indices, strict=True):
            stride = f"{array.name}_{axis.name}"
            if axis.kind == "run" and isinstance(index, expr.Name):
                yield from self._along_run(array, axis, index)
            elif axis.kind == "run":
                symbol = expr_name(axis.extent)
                rank, extents = Member(SIZES, f"{symbol}_rank"), Member(SIZES, f"{symbol}_extents")
                at = Call("opwright_cell_offset", (self.integer(index, None), rank, extents, Member(SIZES, stride)))
                yield Term(at, ONE, self.varies(index))
            elif axis.kind == "spatial":
                for number in range(len(self.axes)):
                    step = self.entry(stride, number)
                    yield Term(self.integer(index, number), step, self.slope(index, number))
            elif isinstance(index, expr.Call) and index.function == "named" and len(index.arguments) > 2:
                if index.arguments[0] not in told:
                    yield self._told(array, read, index)
                told.add(index.arguments[0])
            elif axis.kind == "one" and index != expr.Number(0):
                yield Term(self.integer(index, None), self.member(stride), self.slope(index, 0))

    def _told(self, array: Array, read: Read, index: expr.Call) -> Term:
        """The place that one number tells along all axes that have it: an offset, or the number of a cell.

        Where the axes are those of all digits and lie one within the other in their order, as in an array of their own,
        no number is divided.
        """
        number, slope = self.integer(index.arguments[0], None), self.slope(index.arguments[0], 0)
        if len(index.arguments) == 3:  # derive/rewrites/offsets.py
            return Term(number, ONE, slope)
        own = {
            axis: one.arguments
            for axis, one in enumerate(read.indices)
            if array.axes[axis].kind == "one" and isinstance(one, expr.Call) and one.arguments[0] == index.arguments[0]
        }
        strides = {axis: self.stride(array.name, axis, 0) for axis in own}
        digits = [product(self.integer(read.indices[axis], None), stride) for axis, stride in strides.items()]
        apart, steady = nodes.chain("+", digits, ZERO), ZERO if slope == ZERO else None
        behind = [one[2] for one in own.values()]
        if [index.arguments[3], *behind] != [*(slopes.times(*one[1:3]) for one in own.values()), slopes.ONE]:
            return Term(apart, ONE, steady)
        pairs = itertools.pairwise(own)
        nested = [Binary("==", strides[a], product(self.integer(own[b][1], None), strides[b])) for a, b in pairs]
        name = "_".join(array.axes[axis].name for axis in own)
        flat = self.constant(f"{array.name}_{name}_nested_", nodes.both(nested), "int")
        return Term(Conditional(flat, product(number, strides[max(own)]), apart), ONE, steady)

    def _along_run(self, array: Array, axis: Axis, letter: expr.Name) -> Iterator[Term]:
        """The offset of a run's letter in an array: the row's offset, and steps along the row."""
        assert isinstance(axis.extent, expr.Name)
        symbol, stride = axis.extent.id, f"{array.name}_{axis.name}"
        offset, step = f"{stride}_{letter.id}_at_", f"{stride}_step_"
        if offset not in self.task or step not in self.declared:
            strides, rank, extents = (Member(SIZES, name) for name in (stride, f"{symbol}_rank", f"{symbol}_extents"))
            walk = f"{offset}walk_"
            self.declared.setdefault(walk, Declare(walk, Name("OPWRIGHT_NO_ROW"), "opwright_walk", changes=True))
            given = (Name(f"{letter.id}_row_"), rank, extents, strides, nodes.Unary("&", Name(walk)))
            self.task.setdefault(offset, Declare(offset, Call("opwright_walked", given)))
            self.constant(step, Index(strides, Binary("-", rank, ONE)))
        yield Term(Name(offset), ONE)
        yield Term(self.name(letter.id, None), Name(step), self.slope(letter, 0))

    def own_axes(self, array: Array) -> dict[int, str]:
        """The axes of a private array that are letters of tasks."""
        walkers = self.program.walkers(array.name) if array.name in self.staged.private else ()
        return {number: letter for number, letter in enumerate(walkers) if letter in self.phase.own}

    def _between(self, array: Array, read: Read) -> Iterator[Term]:
        """An intermediate: cells in order, lanes last, starting at the beginning of a task's block."""
        own = self.own_axes(array)
        lane = self.lanes.name if self.lanes is not None else ""
        stored = [n for n, axis in enumerate(array.axes) if axis.kind != "ones" and n not in own]
        if array.name in self.staged.private:  # of others, the steps that write them may be unknown here
            walkers = self.program.walkers(array.name)
            stored.sort(key=lambda number: walkers[number] == lane)
        stride: Expr = ONE
        if lane in own.values():
            yield Term(Binary("-", self.name(lane, len(self.axes) - 1), BEGIN), ONE, ONE)
            stride = Name("block_")
        if array.name in self.grown:
            yield from self._in_output(array, read, own)
        copies = [(n, c) for n in stored for c in (range(len(self.axes)) if array.axes[n].kind == "spatial" else (0,))]
        before: tuple[Axis, int] | None = None
        for number, copy in reversed(copies):
            axis, index = array.axes[number], read.indices[number]
            stride = product(self.extent(*before), stride) if before else stride
            before = axis, copy
            if axis.kind == "run" and isinstance(index, expr.Name):
                inner = self.run(expr_name(self.program.letters[index.id].extent), "inner")
                yield Term(Name(f"{index.id}_row_"), product(inner, stride))
                yield Term(self.name(index.id, None), stride, self.slope(index, 0))
            else:
                laid = self._laid(array, number, copy, stride) if array.name in self.grown else stride
                yield Term(self.integer(index, copy), laid, self.slope(index, copy))

    def _in_output(self, array: Array, read: Read, own: Mapping[int, str]) -> Iterator[Term]:
        """The terms that sums have only where they grow in their output: of letters of tasks."""
        lane = self.lane_name()
        for number, letter in own.items():
            for name, copy in self.copies(self.program.letters[letter]):
                begin = BEGIN if name == lane else self.integer(read.indices[number], copy)
                yield Term(begin, self._laid(array, number, copy, ZERO))

    def _laid(self, array: Array, number: int, copy: int, stride: Expr) -> Expr:
        """The stride of an axis of sums that may grow in their output."""
        there = self.stride(self.grown[array.name][0], number, copy)
        axis = array.axes[number]
        name = f"{array.name}{axis.name}_{self.axes[copy] if axis.kind == 'spatial' else ''}"
        value = Conditional(self.in_place(array.name), there, stride)
        return self.constant(f"{name.rstrip('_')}_by_", value)
