"""A step over a row of lanes: contiguous cells, loop invariants, and the loops over lanes.

In: a step's formula, and the elements of its phase. Out: statements for `n_` lanes from the loop's letter
on. A loop over lanes reads and writes contiguous rows (c/rows.h), so that compilers vectorise it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeGuard

from ...derive.algebra import slopes
from ...derive.program import Formula, Part
from ...language import expr
from ...language.dtypes import DTYPES
from ...language.expr import Read
from .. import nodes
from ..nodes import (
    ONE,
    ZERO,
    Assign,
    Binary,
    Call,
    Conditional,
    Declare,
    DeclareArray,
    Do,
    Expr,
    For,
    If,
    Index,
    Name,
    Stmt,
)
from . import across, bends, cache_lines
from .elements import ROOM, Elements, product
from .values import LaneValues, Values, summed_alone, updated

SUMS = 32  # accumulators of a reduction along a row
FLOATS = ("f32", "bf16", "f16")  # of which functions of rows make sums
# Cells of a row that are gathered at once: of 112 lanes by a table 0.7 of the time of one at a time (Zen 5, gcc 12).
GATHERED = 4
N = Name("n_")
WIDE = Name("wide_")  # values of a row before they are narrowed


class Row:
    """The lanes of one step.

    With `beside`, which gets the strides for which that is right, rows are read where they are: a call that copies one,
    even if nobody makes it, keeps compilers from holding sums in registers across it.
    """

    def __init__(
        self,
        elements: Elements,
        values: Values,
        part: Part,
        formula: Formula,
        beside: dict[Expr, Expr] | None = None,
    ) -> None:
        assert elements.lanes is not None
        self.elements, self.values, self.part, self.formula = elements, values, part, formula
        self.lane = elements.lanes.name
        self.before: list[Stmt] = []
        self.after: list[Stmt] = []
        self.rows: dict[Read, str] = {}
        self.same: dict[expr.Expr, str] = {}
        self.functions: dict[expr.Call, str] = {}  # results of functions of rows
        self.wide: dict[Read, str] = {}  # rows of f16 as f32
        self.beside = beside
        self.gathers = False  # whether a row has no stride
        self.lined = False  # whether it is stored a line at a time
        self.by: dict[Read, Expr] = {}  # of rows that one cell may make: 0 if so, else 1
        own = {**vars(values), "read": self.read}
        makers = partial(LaneValues, hoist=self.hoisted, row=self.function_of_row, wide=self.widened)
        self.inside = makers(**own, lane=self.lane, reduces=self.lane not in expr.names(part.target))

    @staticmethod
    def possible(elements: Elements, part: Part, formula: Formula) -> bool:
        """Whether lanes are independent: none reads what another writes, and no two write the same cell."""
        target = part.target
        if any(read.tensor == target.tensor and read != target for read in formula.reads):
            return False
        assert elements.lanes is not None
        if elements.lanes.name not in expr.names(target):
            return True
        found = [slopes.slope(index, elements.lanes.name) for index in target.indices]
        grows = [slope is not None and slopes.sign(slope, elements.minimum) != 0 for slope in found]
        return None not in found and any(grows)

    def written(self) -> tuple[Stmt, ...]:
        """The step if each lane has a cell of its own."""
        target, operator = self.part.target, self.part.operator
        dtype = self.elements.dtype(target.tensor)
        updates = operator != "set" or target in self.formula.reads
        wide = not updates and self.narrowed()
        value, source = self.formula.value, self.part.source
        function = value if dtype == "f32" and operator == "set" and self.inside.of_rows(value) else None
        moved = bends.moved(self.elements, self.part, value)
        cell = summed_alone(value) or value
        copied = isinstance(cell, Read) and self.inside.anywhere(cell)  # cells from anywhere, which no vector loads
        plain = not (updates or wide or moved or copied or cache_lines.costly(value))
        self.lined = self.elements.streams(target) and plain
        row = WIDE.name if wide else self.target_row(updates)

        def loop(value: expr.Expr) -> list[Stmt]:
            if self.lined:
                size, c_type = DTYPES[dtype].size, self.elements.c_type(target.tensor)
                make = lambda position: self.at(position, lambda: self.inside.copied(value, dtype))  # noqa: E731
                return cache_lines.stored(row, c_type, size, self.narrowest(), make, source)
            cell = Index(Name(row), Name("i_"))
            copies = operator == "set" and not wide
            made = self.at(Name("i_"), lambda: self.inside.copied(value, dtype) if copies else self.inside.cell(value))
            update = Assign(cell, made, source=source)
            if operator != "set":
                update = updated(self.values, operator, cell, made, source)  # type: ignore[assignment]
            return [For("i_", ZERO, N, (update,), source=source, unroll=2 * GATHERED if copied else 0)]

        if moved is not None and isinstance(value, Read):
            loops = bends.pieces(self.elements, value, row, moved)
        elif wide and self.converted(value):
            loops = []
        elif copy := self.copied(value, dtype):
            loops = [Do(Call("opwright_put_row", (Name(row), *copy, cache_lines.PAST)))]
        elif isinstance(function, expr.Call):
            loops = [*loop(function.arguments[0]), _made_of_row(function, row)]
            self.elements.buffered(ZERO)
        else:
            loops = self.powers(loop) or loop(value)
        return (*self.before, *loops, *self.after)

    def copied(self, value: expr.Expr, dtype: str) -> tuple[Expr, ...]:
        """A row of an input that is stored as it stands, line by line, and its bytes; nothing of other values."""
        if not (self.lined and isinstance(value, Read) and self.lane in expr.names(value)):
            return ()
        if self.elements.dtype(value.tensor) != dtype or self.elements.program.arrays[value.tensor].role != "input":
            return ()
        row = self.row_of(value)
        if value in self.by:  # which may be one cell
            return ()
        self.before = [one for one in self.before if not isinstance(one, Declare) or one.name != cache_lines.WHOLE.name]
        return Name(row), product(N, nodes.integer(DTYPES[dtype].size))

    def narrowest(self) -> int:
        """The bytes of a cell of the narrowest type that the rows of a step have."""
        rows = [self.part.target, *(read for read in self.formula.reads if self.lane in expr.names(read))]
        return min(DTYPES[self.elements.dtype(row.tensor)].size for row in rows)

    def narrowed(self) -> bool:
        """Whether values are buffered first, because an instruction converts them to a type that C lacks."""
        elements, target, value = self.elements, self.part.target, self.formula.value
        dtype = elements.dtype(target.tensor)
        cell = summed_alone(value) or value
        alike = isinstance(cell, Read) and elements.dtype(cell.tensor) == dtype
        step = elements.step(target)
        if dtype != "f16" or self.values.accumulate != "f32" or alike or step is None:
            return False
        elements.used.add(target.tensor)
        elements.buffered(ZERO)  # rows of no more than the room has
        values = Name(self.row_of(value)) if self.converted(value) else WIDE
        self.before += [DeclareArray(WIDE.name, "float", ROOM)] if values is WIDE else []
        rows = Name("total_") if elements.streams(target) else ONE
        self.after.append(Do(Call("opwright_put_wide_f16", (values, elements.address(target), step, N, rows))))
        return True

    def converted(self, value: expr.Expr) -> TypeGuard[Read]:
        """Whether what a step writes is a row of f32 as it stands, which is converted without a copy."""
        return isinstance(value, Read) and self.lane in expr.names(value) and self.elements.dtype(value.tensor) == "f32"

    def added(self, cells: Expr) -> tuple[Stmt, ...]:
        """Combines the terms of lanes with an array of as many cells."""
        made = self.made(Name("i_"))
        term = updated(self.values, self.part.operator, Index(cells, Name("i_")), made, self.part.source)
        return (*self.before, self.along(term))

    def powers(self, loop: Callable[[expr.Expr], list[Stmt]]) -> list[Stmt]:
        """Loops for a power with an exponent that is equal for all lanes: small ones are products."""
        value = self.formula.value
        calls = [node for node in expr.walk(value) if isinstance(node, expr.Call) and node.function == "pow"]
        if len(calls) != 1 or self.values.accumulate != "f32":
            return []
        base, exponent = calls[0].arguments
        if isinstance(exponent, expr.Number) or self.lane in expr.names(exponent) or self.lane not in expr.names(base):
            return []
        number, small = self.hoisted(exponent), [expr.Number(2), expr.Number(3)]
        known = [Binary("==", number, self.values.number(power.value)) for power in small]
        made: list[Stmt] = [
            If(test, (*loop(expr.replaced(value, calls[0], expr.Call("pow", (base, power)))),), source=self.part.source)
            for test, power in zip(known, small, strict=True)
        ]
        others = nodes.both([Binary("!=", number, self.values.number(power.value)) for power in small])
        return [*made, If(others, (*loop(value),), source=self.part.source)]

    def reduced(self, sums: str) -> tuple[Stmt, ...]:
        """The step if lanes are reduced: each adds to one of SUMS."""
        if self.stands():
            assert isinstance(self.formula.value, Read)
            dtype, row = self.elements.dtype(self.formula.value.tensor), self._row(self.formula.value)
            more = Call(f"opwright_{self.part.operator}_row_{dtype}", (Name(sums), Name(row), N))
            return *self.before, Assign(Name(sums), more, source=self.part.source)

        def body(position: Expr) -> Stmt:
            cell = Index(Name(sums), Name("j_"))
            return updated(self.values, self.part.operator, cell, self.made(position), self.part.source)

        each, whole, source = nodes.integer(SUMS), Name("whole_"), self.part.source
        inner = For("j_", ZERO, each, (body(Binary("+", Name("i_"), Name("j_"))),), source=source)
        rest = For("j_", ZERO, Binary("-", N, whole), (body(Binary("+", whole, Name("j_"))),), source=source)
        return (
            *self.before,
            Declare("whole_", Binary("*", Binary("/", N, each), each)),
            For("i_", ZERO, whole, (inner,), step=each, source=source),
            rest,
        )

    def stands(self) -> bool:
        """Whether what is reduced is a row of floats as it stands."""
        value = self.formula.value
        row = isinstance(value, Read) and self.lane in expr.names(value)
        return row and self.values.accumulate == "f32" and self.elements.dtype(value.tensor) in FLOATS  # type: ignore[union-attr]

    def made(self, position: Expr) -> Expr:
        """The value of the cell at a position of the row."""
        return self.at(position, lambda: self.inside.cell(self.formula.value))

    def at(self, position: Expr, make: Callable[[], Expr]) -> Expr:
        """The value computed from the cells at a position of the row."""
        self.elements.position, self.elements.of_row = position, self.read
        made = make()
        self.elements.position = self.elements.of_row = None
        return made

    def hoisted(self, tree: expr.Expr) -> Expr:
        """A value that is the same for all lanes."""
        if tree not in self.same:
            position, self.elements.position = self.elements.position, None
            self.same[tree] = name = f"same_{len(self.same)}_"
            self.before.append(Declare(name, self.values.value(tree), self.values.c_type))
            self.elements.position = position
        return Name(self.same[tree])

    def function_of_row(self, tree: expr.Call) -> Expr:
        """A function in the loop over lanes: its results for the row are buffered before the loop."""
        position = self.elements.position
        assert position is not None
        if tree not in self.functions:
            argument = self.at(Name("i_"), lambda: self.inside.value(tree.arguments[0]))
            self.functions[tree] = name = f"made_{len(self.functions)}_"
            cell = Index(Name(name), Name("i_"))
            first = self.along(Assign(cell, argument, source=self.part.source))
            self.before += [DeclareArray(name, "float", ROOM), first]
            if tree.function == "pow":
                exponent = self.at(Name("i_"), lambda: self.inside.value(tree.arguments[1]))
                power = Call("opwright_pow_f32", (cell, exponent))
                self.before.append(self.along(Assign(cell, power, source=self.part.source)))
            else:
                self.before.append(_made_of_row(tree, name))
            self.elements.buffered(ZERO)
            self.elements.position = position
        return Index(Name(self.functions[tree]), position)

    def along(self, cell: Stmt) -> For:
        """The loop over lanes of one assignment."""
        return For("i_", ZERO, N, (cell,), source=self.part.source)

    def read(self, read: Read) -> Expr:
        """An element in the loop over lanes."""
        position = self.elements.position
        assert position is not None
        if self.lane not in expr.names(read):
            return self.elements.element(read)
        if self.inside.anywhere(read):
            self.elements.placed.clear()
            return self.elements.element(read)
        self.elements.position = None
        row = self.row_of(read)
        self.elements.position = position
        return Index(Name(row), cache_lines.place(position, self.by.get(read)))

    def row_of(self, read: Read) -> str:
        """The name of a row, which is declared before the loop."""
        if read not in self.rows:
            self.rows[read] = self._row(read)
        return self.rows[read]

    def widened(self, read: Read) -> Expr:
        """A number of f16 in the loop over lanes, whose row is converted before the loop."""
        position = self.elements.position
        assert position is not None
        if read not in self.wide:
            self.elements.position = None
            self.wide[read] = self._wide(read)
            self.elements.position = position
        return Index(Name(self.wide[read]), cache_lines.place(position, self.by.get(read)))

    def _wide(self, read: Read) -> str:
        """The name of a row as f32; cells with a stride are taken from where they are."""
        elements, name = self.elements, f"wide_{len(self.wide)}_"
        step = elements.step(read)
        if step is None or elements.crossing:
            first: Expr = Name(self.row_of(read))
            step, by = ONE, self.by.get(read)
        else:
            first, by = elements.address(read), self.spread(read, self.named(read)[0], step)
        self.before.append(DeclareArray(name, "float", ROOM))
        self.before.append(Do(Call("opwright_from_row_f16", (first, step, self.cells(by), Name(name)))))
        elements.buffered(ZERO)
        return name

    def named(self, read: Read) -> tuple[str, str, str]:
        """Names for a row, its buffer, and its first cell."""
        number = sum(other.tensor == read.tensor for other in {**self.rows, **self.wide})
        end = f"{number}_" if number else ""
        self.elements.used.add(read.tensor)
        return f"{read.tensor}_row_{end}", f"{read.tensor}_room_{end}", f"{read.tensor}_first_{end}"

    def _row(self, read: Read) -> str:
        elements = self.elements
        name, room, _ = self.named(read)
        c_type, dtype = elements.c_type(read.tensor), elements.dtype(read.tensor)
        step = elements.step(read)
        pointer = f"const {c_type} *restrict"
        if step == ONE:
            self.before.append(Declare(name, elements.address(read), pointer, changes=True))
            return name
        if step is not None and self.beside is not None:
            self.beside[step] = ONE
            self.before.append(Declare(name, elements.address(read), pointer, changes=True))
            self.fetched(dtype, name)
            return name
        if step is not None and (kept := across.row(elements, read, step, elements.address(read))) is not None:
            self.before.append(Declare(name, kept, pointer, changes=True))
            return name
        self.before.append(DeclareArray(room, c_type, ROOM))
        wrapped = bends.wrapped(elements, read, room) if step is None else None
        if wrapped is not None:
            elements.buffered(ZERO)
            self.before.append(Declare(name, wrapped, pointer, changes=True))
            return name
        if step is None and (end := bends.ends(elements, read)) is not None:
            elements.buffered(ZERO)
            self.before += bends.pieces(elements, read, room, end)
            return room
        if step is None:  # no fixed stride to the next one
            self.gathers, elements.position = True, Name("i_")
            gathered = Assign(Index(Name(room), Name("i_")), elements.element(read), source=self.part.source)
            elements.position = None
            elements.buffered(ZERO)
            flat, stride = elements.flat(read)
            if flat is None:
                self.before.append(For("i_", ZERO, N, (gathered,), source=self.part.source, unroll=GATHERED))
                return room
            gaps = Name(f"{name}gaps_")
            self.before.append(Declare(gaps.name, Conditional(flat, ZERO, N)))
            self.before.append(For("i_", ZERO, gaps, (gathered,), source=self.part.source, unroll=GATHERED))
            here = Conditional(
                flat, Call(f"opwright_row_{dtype}", (elements.address(read), stride, N, Name(room))), Name(room)
            )
            self.before.append(Declare(name, here, pointer, changes=True))
            return name
        by = self.spread(read, name, step)
        elements.buffered(step, by or ONE)
        row = Call(f"opwright_row_{dtype}", (elements.address(read), step, self.cells(by), Name(room)))
        self.before.append(Declare(name, row, pointer, changes=True))
        self.fetched(dtype, name)
        return name

    def fetched(self, dtype: str, row: str) -> None:
        """Fetches what follows a row in memory while functions of it are computed."""
        if any(map(self.inside.of_rows, expr.walk(self.formula.value))):
            bytes_ = product(N, nodes.integer(DTYPES[dtype].size))
            self.before.append(Do(Call("opwright_fetch", (Binary("+", Name(row), N), bytes_))))

    def cells(self, by: Expr | None) -> Expr:
        """How many cells a row has in memory."""
        return N if by is None else Conditional(by, N, cache_lines.cells_of(self.narrowest()))

    def spread(self, read: Read, row: str, step: Expr) -> Expr | None:
        """1, or 0 if one cell makes a row that is stored a line at a time; None of rows that have all their cells."""
        elements = self.elements
        tensor = next((tensor for tensor in elements.op.inputs if tensor.name == read.tensor), None)
        stretches = tensor is not None and (tensor.broadcast or tensor.optional)
        if not (self.lined and stretches) or not nodes.names(step) <= elements.declared.keys():
            return None
        elements.stretches = True
        self.by[read] = elements.constant(f"{row.replace('_row_', '_by_')}", Binary("!=", step, ZERO))
        return self.by[read]

    def target_row(self, updates: bool) -> str:
        """The written row, with its current content if `updates`."""
        elements, target = self.elements, self.part.target
        name, room, first = self.named(target)
        c_type, dtype = elements.c_type(target.tensor), elements.dtype(target.tensor)
        step = elements.step(target)
        assert step is not None
        self.rows[target] = name
        lines = cache_lines.declared(name, step, DTYPES[dtype].size, self.narrowest()) if self.lined else []
        if step == ONE:
            self.before += [Declare(name, elements.address(target), f"{c_type} *restrict", changes=True), *lines]
            return name
        elements.buffered(step)
        self.before += [
            DeclareArray(room, c_type, ROOM),
            Declare(first, elements.address(target), f"{c_type} *", changes=True),
        ]
        place: Expr = Conditional(Binary("==", step, ONE), Name(first), Name(room))
        if updates:
            place = Call(f"opwright_kept_{dtype}", (Name(first), step, N, Name(room)))
        elif elements.streams(target) and not self.lined:
            place = Call(f"opwright_place_{dtype}", (Name(first), step, N, Name("total_"), Name(room)))
        self.before += [Declare(name, place, f"{c_type} *restrict", changes=True), *lines]
        self.after.append(Do(Call(f"opwright_put_{dtype}", (Name(name), Name(first), step, N))))
        return name


def _made_of_row(tree: expr.Call, row: str) -> Stmt:
    """Applies a function to a row, in place."""
    return Do(Call(f"opwright_{tree.function}_row_f32", (Name(row), N)))
