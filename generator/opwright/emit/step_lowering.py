"""One phase of an operation of steps as C statements: loops over letters, elements by the strides of the call.

In: a phase and a row of data types. Out: the statements of a function's body. Names that end in `_` are this module's
own: no name of a spec does. A task is a block of LANES cells along the last letter that tasks have for themselves, so
that the innermost loop runs over cells that depend on nothing but themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..derive.phases import Phase, Staged, loose_axes
from ..derive.program import INITIAL, Array, Axis, Formula, Part
from ..language import expr
from ..language.expr import Read
from ..language.kinds import Kind
from ..language.model import SPATIAL_AXES, Op
from ..language.schema import Located
from ..language.types import symbol_kinds
from . import nodes
from .nodes import ONE, ZERO, Assign, Binary, Call, Declare, Expr, For, If, Index, Member, Name, Stmt
from .step_values import Values

LANES = 256
_SIZES = Name("sizes")


def spatial_names(op: Op) -> tuple[str, ...]:
    """The names of an operation's spatial axes in C."""
    return SPATIAL_AXES[3 - op.spatial_rank.max :]


def words_of(op: Op, name: str) -> list[str]:
    """The words of a string or truth attribute, in the order of their numbers."""
    attribute = op.attribute(name)
    return ["false", "true"] if attribute.type == "bool" else [value.value for value in attribute.values or ()]


class _Elements:
    """Constants, integers and elements of arrays, as one phase needs them."""

    def __init__(self, op: Op, row: dict[str, str], found: Staged, phase: Phase) -> None:
        self.op, self.row, self.staged, self.phase = op, row, found, phase
        self.program = found.program
        self.lanes = self.program.letters[phase.lanes] if phase.lanes else None
        self.declared: dict[str, Declare] = {}  # constants of the function, in the order of their use
        self.task: dict[str, Declare] = {}  # constants of a task
        self.axes = spatial_names(op)
        kinds = dict(symbol_kinds(op)) | {letter: Kind("int") for letter in self.program.letters}
        self.values = Values(row["accumulate"], kinds, self.scalar, self.load, self.dtype)

    # Constants.

    def constant(self, name: str, value: Expr, c_type: str = "int64_t") -> Expr:
        if name not in self.declared:
            made = Declare(name, value, c_type)
            self.declared[name] = made
        return Name(name)

    def member(self, name: str, c_type: str = "int64_t") -> Expr:
        return self.constant(name, Member(_SIZES, name), c_type)

    def symbol(self, name: str, axis: int | None) -> Expr:
        kind = symbol_kinds(self.op)[name]
        if name in self.op.runs:
            return self.run(name, "cells")
        if kind.vector:
            number = axis or 0
            return self.constant(f"{name}_{self.axes[number]}_", Index(Member(_SIZES, name), nodes.integer(number)))
        return self.member(name, "double" if kind.base == "real" else "int64_t")

    def run(self, symbol: str, what: str) -> Expr:
        """Of a run: its `cells`, the `inner` extent, or the `rows` of that extent."""
        extents, rank = Member(_SIZES, f"{symbol}_extents"), Member(_SIZES, f"{symbol}_rank")
        if what == "inner":
            return self.constant(f"{symbol}_inner_", Index(extents, Binary("-", rank, ONE)))
        if what == "rows":
            return self.constant(f"{symbol}_rows_", Call("opwright_rows", (rank, extents)))
        return self.constant(f"{symbol}_cells_", Binary("*", self.run(symbol, "rows"), self.run(symbol, "inner")))

    # Integers.

    def scalar(self, tree: expr.Expr) -> Expr:
        return self.integer(tree, None)

    def integer(self, tree: expr.Expr, axis: int | None) -> Expr:
        """An integer or truth expression on one spatial axis."""
        if isinstance(tree, expr.Number):
            return nodes.integer(int(tree.value))
        if isinstance(tree, expr.Name):
            return self.name(tree.id, axis)
        if isinstance(tree, expr.Unary):
            return nodes.Unary("!" if tree.op == "not" else "-", self.integer(tree.operand, axis))
        if isinstance(tree, expr.Binary):
            left, right = self.integer(tree.left, axis), self.integer(tree.right, axis)
            if tree.op in "/%":
                return Call("opwright_floor_div" if tree.op == "/" else "opwright_modulo", (left, right))
            return Binary({"and": "&&", "or": "||"}.get(tree.op, tree.op), left, right)
        assert isinstance(tree, expr.Call)
        if tree.function == "ones":
            return ONE
        if tree.function == "number":
            return self.number_of(tree)
        if tree.function == "prod":
            inner = tree.arguments[0]
            if isinstance(inner, expr.Name) and inner.id in self.op.runs:
                return self.run(inner.id, "cells")
            return nodes.chain("*", [self.integer(inner, number) for number in range(len(self.axes))], ONE)
        if tree.function in ("floor", "ceil"):
            left, right = (self.integer(side, axis) for side in expr.children(tree.arguments[0]))
            return Call(f"opwright_{tree.function}_div", (left, right))
        result, *rest = (self.integer(argument, axis) for argument in tree.arguments)
        for other in rest:
            result = Call(f"opwright_{tree.function}", (result, other))
        return result

    def number_of(self, tree: expr.Call) -> Expr:
        """The number of some letters' values, the last letter fastest."""
        result: Expr = ZERO
        for letter in [self.program.letters[name.id] for name in tree.arguments if isinstance(name, expr.Name)]:
            own: list[tuple[Expr, int]] = [(Name(copy), number) for copy, number in self.copies(letter)]
            for digit, number in own if letter.kind != "run" else [(self.flat(expr.Name(letter.name)), 0)]:
                extent = self.extent(letter, number)
                result = digit if result == ZERO else Binary("+", Binary("*", result, extent), digit)
        return result

    def name(self, name: str, axis: int | None) -> Expr:
        if name not in self.program.letters:
            return self.symbol(name, axis)
        letter = self.program.letters[name]
        return Name(f"{name}_{self.axes[axis or 0]}_" if letter.kind == "spatial" else name)

    def extent(self, axis: Axis, number: int) -> Expr:
        """The extent of a letter or of an axis of an array; on one spatial axis, or of all of a run."""
        if axis.kind == "run":
            assert isinstance(axis.extent, expr.Name)
            return self.run(axis.extent.id, "cells")
        return self.integer(axis.extent, number if axis.kind == "spatial" else None)

    def copies(self, letter: Axis) -> list[tuple[str, int]]:
        """The loops of a letter that is no run: their names, and the spatial axis of each."""
        if letter.kind == "spatial":
            return [(f"{letter.name}_{axis}_", number) for number, axis in enumerate(self.axes)]
        return [(letter.name, 0)]

    # Elements.

    def lane_name(self) -> str:
        assert self.lanes is not None
        return self.copies(self.lanes)[-1][0]

    def dtype(self, name: str) -> str:
        array = self.program.arrays[name]
        if array.role == "list":
            attribute = self.op.attribute(name)
            return "f64" if attribute.type == "f32[]" else "s64"
        return self.row["accumulate"] if array.role == "between" else self.row[name]

    def load(self, read: Read) -> Expr:
        return self.element(read)

    def element(self, read: Read) -> Expr:
        array = self.program.arrays[read.tensor]
        parts = self.between(array, read) if array.role == "between" else self.strided(array, read)
        return Index(Name(read.tensor), nodes.chain("+", parts, ZERO))

    def strided(self, array: Array, read: Read) -> list[Expr]:
        parts: list[Expr] = []
        for axis, index in zip(array.axes, read.indices, strict=True):
            stride = f"{array.name}_{axis.name}"
            if axis.kind == "ones":
                continue
            if axis.kind == "run" and isinstance(index, expr.Name):
                parts.append(self.along_run(array, axis, index.id))
            elif axis.kind == "run":
                assert isinstance(axis.extent, expr.Name)
                rank, extents = Member(_SIZES, f"{axis.extent.id}_rank"), Member(_SIZES, f"{axis.extent.id}_extents")
                at = (self.integer(index, None), rank, extents, Member(_SIZES, stride))
                parts.append(Call("opwright_cell_offset", at))
            elif axis.kind == "spatial":
                for number, name in enumerate(self.axes):
                    entry = Index(Member(_SIZES, stride), nodes.integer(number))
                    step = self.constant(f"{stride}_{name}_", entry)
                    parts.append(Binary("*", self.integer(index, number), step))
            else:
                parts.append(Binary("*", self.integer(index, None), self.member(stride)))
        return parts

    def along_run(self, array: Array, axis: Axis, letter: str) -> Expr:
        """Where a run's letter stands in an array: the row's offset, and steps along the row."""
        assert isinstance(axis.extent, expr.Name)
        symbol, stride = axis.extent.id, f"{array.name}_{axis.name}"
        strides, rank = Member(_SIZES, stride), Member(_SIZES, f"{symbol}_rank")
        offset = f"{stride}_{letter}_at_"
        at = Call("opwright_row_offset", (Name(f"{letter}_row_"), rank, Member(_SIZES, f"{symbol}_extents"), strides))
        self.task.setdefault(offset, Declare(offset, at))
        step = self.constant(f"{stride}_step_", Index(strides, Binary("-", rank, ONE)))
        return Binary("+", Name(offset), Binary("*", Name(letter), step))

    def own_axes(self, array: Array) -> dict[int, str]:
        """The axes of a private array that are letters of tasks."""
        if array.name not in self.staged.private:
            return {}
        targets = [part.target for part in self.phase.parts if part.target.tensor == array.name]
        walked = {n: self.program.walks(array.name, n, index) for n, index in enumerate(targets[0].indices)}
        return {number: letter for number, letter in walked.items() if letter in self.phase.own}

    def between(self, array: Array, read: Read) -> list[Expr]:
        """Where a cell of an array between steps stands: rows in order, a task's own block last."""
        own = self.own_axes(array)
        at: Expr = ZERO
        for number, (axis, index) in enumerate(zip(array.axes, read.indices, strict=True)):
            if number in own or axis.kind == "ones":
                continue
            for copy in range(len(self.axes)) if axis.kind == "spatial" else (0,):
                walks = axis.kind == "run" and isinstance(index, expr.Name)
                here = self.flat(index) if walks else self.integer(index, copy)
                at = here if at == ZERO else Binary("+", Binary("*", at, self.extent(axis, copy)), here)
        if self.lanes is not None and self.lanes.name in own.values():
            lane = Binary("-", Name(self.lane_name()), Name("begin_"))
            at = lane if at == ZERO else Binary("+", Binary("*", at, nodes.integer(LANES)), lane)
        if array.name in self.staged.private:
            return [self.constant(f"{array.name}_at_", self.share(array)), at]
        return [at]

    def share(self, array: Array) -> Expr:
        return Binary("*", Name("part"), Member(_SIZES, f"{array.name}_cells"))

    def flat(self, index: expr.Expr) -> Expr:
        """The number of a run's cell, from its row and its place there."""
        assert isinstance(index, expr.Name)
        extent = self.program.letters[index.id].extent
        assert isinstance(extent, expr.Name)
        row = Binary("*", Name(f"{index.id}_row_"), self.run(extent.id, "inner"))
        return Binary("+", row, Name(index.id))


class Lowering(_Elements):
    """The loops of a phase around its elements."""

    def body(self) -> tuple[Stmt, ...]:
        inner = [statement for part in self.phase.parts for statement in self.part(part)]
        task, total = self.decoded()
        loop = self.tasks(total, [*task, *self.of_task(), *inner])
        return (*self.declared.values(), *loop)

    def of_task(self) -> list[Stmt]:
        """The offsets of the runs' letters that a task has for itself; those of loops stand in their loops."""
        mine = set(self.phase.own)
        return [found for found in self.task.values() if self._letter_of(found) in mine]

    def _letter_of(self, found: Declare) -> str:
        assert isinstance(found.value, Call)
        row = found.value.arguments[0]
        assert isinstance(row, Name)
        return row.name.removesuffix("_row_")

    def tasks(self, total: Expr, body: Sequence[Stmt]) -> list[Stmt]:
        part, parts = Name("part"), Name("parts")
        return [
            Declare("total_", total),
            Declare("end_task_", Call("opwright_share", (Name("total_"), Binary("+", part, ONE), parts))),
            For("task_", Call("opwright_share", (Name("total_"), part, parts)), Name("end_task_"), tuple(body)),
        ]

    def decoded(self) -> tuple[list[Stmt], Expr]:
        """The letters of a task from its number, the last one fastest, and how many tasks there are."""
        digits: list[tuple[str, Expr]] = []  # names and extents, slowest first
        after: list[Stmt] = []
        for name in self.phase.own:
            letter = self.program.letters[name]
            last = letter is self.lanes
            if letter.kind == "run":
                assert isinstance(letter.extent, expr.Name)
                symbol = letter.extent.id
                digits.append((f"{name}_row_", self.run(symbol, "rows")))
                if not last:
                    digits.append((name, self.run(symbol, "inner")))
                continue
            copies = [(copy, self.extent(letter, number)) for copy, number in self.copies(letter)]
            digits += copies[:-1] if last else copies
        if self.lanes is not None:
            along = self.along()
            blocks = self.constant("blocks_", Call("opwright_ceil_div", (along, nodes.integer(LANES))))
            digits.append(("block_", blocks))
            begin = Binary("*", Name("block_"), nodes.integer(LANES))
            end = Call("opwright_min", (Binary("+", Name("begin_"), nodes.integer(LANES)), along))
            after = [Declare("begin_", begin), Declare("end_", end)]
        statements: list[Stmt] = []
        rest: Expr = Name("task_")
        for number, (name, extent) in enumerate(reversed(digits)):
            if number == len(digits) - 1:
                statements.append(Declare(name, rest))
            else:
                statements.append(Declare(name, Binary("%", rest, extent)))
                statements.append(Declare(f"rest_{number}_", Binary("/", rest, extent)))
                rest = Name(f"rest_{number}_")
        return [*statements, *after], nodes.chain("*", [extent for _, extent in digits], ONE)

    def along(self) -> Expr:
        """How many cells there are along the letter of the lanes, in a row."""
        assert self.lanes is not None
        if self.lanes.kind == "run":
            assert isinstance(self.lanes.extent, expr.Name)
            return self.run(self.lanes.extent.id, "inner")
        return self.extent(self.lanes, len(self.axes) - 1)

    def looped(self, letters: Iterable[Axis], body: tuple[Stmt, ...], source: str) -> tuple[Stmt, ...]:
        """Loops over letters, the first outermost, and within them over the lanes of the task."""
        if self.lanes is not None:
            body = (For(self.lane_name(), Name("begin_"), Name("end_"), body, source=source),)
        for letter in reversed(list(letters)):
            if letter.kind == "run":
                body = self.run_loops(letter, body, source)
                continue
            for copy, number in reversed(self.copies(letter)):
                body = (For(copy, ZERO, self.extent(letter, number), body, source=source),)
        return body

    def run_loops(self, letter: Axis, body: tuple[Stmt, ...], source: str) -> tuple[Stmt, ...]:
        """Two loops over a run: its rows, with where they begin in each array, and the cells of a row."""
        assert isinstance(letter.extent, expr.Name)
        symbol = letter.extent.id
        begins = [found for found in self.task.values() if self._letter_of(found) == letter.name]
        inner = For(letter.name, ZERO, self.run(symbol, "inner"), body, source=source)
        return (For(f"{letter.name}_row_", ZERO, self.run(symbol, "rows"), (*begins, inner), source=source),)

    # Steps.

    def part(self, part: Part) -> list[Stmt]:
        result = list(self.first(part)) if self.staged.first_writer(part.target.tensor) is part else []
        for formula in part.formulas:
            self.task = {k: v for k, v in self.task.items() if self._letter_of(v) in self.phase.own}
            body = self.update(part, formula)
            target = expr.names(part.target)
            loops = [self.program.letters[n] for n in part.letters if n in target and n not in self.phase.own]
            loops += [self.program.letters[n] for n in part.letters_of(formula) if n not in target]
            found = self.looped(loops, body, part.source)
            if part.by is not None:
                word = self.constant(f"{part.by}_word_", Member(_SIZES, f"word_{part.by}"))
                number = words_of(self.op, part.by).index(formula.word)
                found = (If(Binary("==", word, nodes.integer(number)), found, source=part.source),)
            result += found
        return result

    def first(self, part: Part) -> tuple[Stmt, ...]:
        """The cells of an array between steps before the first of them."""
        array = self.program.arrays[part.target.tensor]
        if array.role != "between" or (
            part.operator == "set" and not any(self.guards(part, formula) for formula in part.formulas)
        ):
            return ()
        indices: list[expr.Expr] = []
        for number, index in enumerate(part.target.indices):
            walker = self.program.walks(array.name, number, index)
            axis = array.axes[number]
            indices.append(expr.Number(0) if axis.kind == "ones" else expr.Name(walker or axis.name))
        cell = Read(array.name, tuple(indices))
        body = (Assign(self.element(cell), self.values.number(INITIAL[part.operator]), source=part.source),)
        names = [index.id for index in indices if isinstance(index, expr.Name)]
        loops = [self.program.letters[name] for name in names if name not in self.phase.own]
        return self.looped(loops, body, part.source)

    def update(self, part: Part, formula: Formula) -> tuple[Stmt, ...]:
        target = self.element(part.target)
        made = self.values.cell(formula.value)
        dtype = self.dtype(part.target.tensor)
        body: tuple[Stmt, ...]
        if part.operator == "set":
            body = (Assign(target, self.values.stored(made, dtype), source=part.source),)
        elif part.operator in ("sum", "product") and self.row["accumulate"] != "s64":
            body = (Assign(target, made, "+=" if part.operator == "sum" else "*=", source=part.source),)
        else:
            body = (Assign(target, self.values.combined(part.operator, target, made), source=part.source),)
        conditions = self.guards(part, formula)
        return (If(nodes.both(conditions), body, source=part.source),) if conditions else body

    def guards(self, part: Part, formula: Formula) -> list[Expr]:
        """What must hold for values of letters to take part: indices inside their arrays, and what `where` says."""
        found: list[Expr] = []
        for read in (part.target, *formula.reads):
            array = self.program.arrays[read.tensor]
            for number in loose_axes(self.program, read):
                axis = array.axes[number]
                for copy in range(len(self.axes)) if axis.kind == "spatial" else (0,):
                    index = self.integer(read.indices[number], copy)
                    found.append(Binary(">=", index, ZERO))
                    found.append(Binary("<", index, self.extent(axis, copy)))
        for guard in part.where:
            found += [self.where(guard, copy) for copy in self.guard_axes(guard)]
        return list(dict.fromkeys(found))

    def guard_axes(self, guard: Located) -> Sequence[int]:
        names = expr.loose_names(guard.tree)
        spatial = {letter.name for letter in self.program.letters.values() if letter.kind == "spatial"}
        spatial |= {symbol for symbol, kind in symbol_kinds(self.op).items() if kind.vector}
        return range(len(self.axes)) if names & spatial else (0,)

    def where(self, guard: Located, copy: int) -> Expr:
        return self.integer(guard.tree, copy)
