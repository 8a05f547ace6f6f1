"""The rows that a step reads: contiguous cells, loop invariants, and where each stands before the loop over lanes.

In: the elements of a phase, and a step's formula. Out: names of rows for `n_` lanes, and the statements that make them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from ...derive.program import Formula, Part, summed_alone
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
    Cast,
    Conditional,
    Declare,
    DeclareArray,
    Do,
    Expr,
    For,
    Index,
    Name,
    Stmt,
)
from . import across, bends, cache_lines, joined, named_rows, repeats, together
from .elements import ROOM, Elements, product
from .values import LaneValues, Values

# Cells of a row that are gathered at once: of 112 lanes by a table 0.7 of the time of one at a time (Zen 5, gcc 12).
GATHERED = 4
N = Name("n_")


class RowReads:
    """What the lanes of one step read.

    With `beside`, which gets the strides for which that is right, rows are read where they are: a call that copies one,
    even if nobody makes it, keeps compilers from holding sums in registers across it. If `rows` are
    given, those that several tasks share are made already, and all others by each task alone.
    """

    def __init__(
        self,
        elements: Elements,
        values: Values,
        part: Part,
        formula: Formula,
        beside: dict[Expr, Expr] | None = None,
        rows: Mapping[Read, str] | None = None,
    ) -> None:
        assert elements.lanes is not None
        self.elements, self.values, self.part, self.formula = elements, values, part, formula
        self.lane = elements.lanes.name
        self.before: list[Stmt] = []
        self.after: list[Stmt] = []
        self.rows, self.shares = dict(rows or {}), rows is None
        self.same: dict[expr.Expr, str] = {}
        self.limits: dict[expr.Expr, str] = {}  # positions in the row that letters are compared with
        self.counts: dict[expr.Name, str] = {}  # the numbers of first lanes
        self.opaques: dict[expr.Expr, str] = {}  # constants that compilers do not look into
        self.functions: dict[expr.Call, str] = {}  # results of functions of rows
        self.wide: dict[Read, str] = {}  # rows of f16 as f32
        self.halves: dict[Read, str] | None = None  # of a row stored as f16 by lines: those of its cells that are made
        self.beside = beside
        self.joins = False  # whether several short rows are one
        self.gathers = False  # whether a row has no stride
        self.lined = False  # whether it is stored a line at a time
        self.summed = False  # whether the results of a function of rows are reduced in registers
        self.lands = ""  # the written row, if what is read is stored as it stands
        self.by: dict[Read, Expr] = {}  # of rows that one cell may make: 0 if so, else 1
        own = {**vars(values), "read": self.read}
        makers = partial(
            LaneValues, hoist=self.hoisted, opaque=self.opaque, row=self.function_of_row, wide=self.widened
        )
        own |= {"limit": self.limit, "counted": self.counted}
        cell = summed_alone(formula.value) or formula.value
        own |= {"alone": cell if part.operator == "set" and isinstance(cell, Read) else None}
        self.inside = makers(**own, lane=self.lane, reduces=self.lane not in expr.names(part.target))

    def narrowest(self) -> int:
        """The bytes of a cell of the narrowest type that the rows of a step have."""
        rows = [self.part.target, *(read for read in self.formula.reads if self.lane in expr.names(read))]
        return min(DTYPES[self.elements.dtype(row.tensor)].size for row in rows)

    def at(self, position: Expr, make: Callable[[], Expr]) -> Expr:
        """The value computed from the cells at a position of the row."""
        self.elements.position, self.elements.of_row = position, self.read
        made = make()
        self.elements.position = self.elements.of_row = None
        return made

    def hoisted(self, tree: expr.Expr) -> Expr:
        """A value that is the same for all lanes of a row."""
        if self.joins and joined.cell(tree, self.elements):
            return self.cell_of_row(tree)
        if tree not in self.same:
            position, self.elements.position = self.elements.position, None
            self.same[tree] = name = f"same_{len(self.same)}_"
            self.before.append(Declare(name, self.values.value(tree), self.values.c_type))
            self.elements.position = position
        return Name(self.same[tree])

    def limit(self, place: expr.Expr) -> tuple[Expr, Expr] | None:
        """The position of a cell in the row, and that which lies so far from its first one, both of 32 bits."""
        position, lanes = self.elements.position, self.elements.lanes
        assert lanes is not None
        if position is None or self.joins or lanes.kind != "one" or [*expr.reads(place)]:
            return None
        if place not in self.limits:
            self.elements.position = None
            self.limits[place] = name = f"limit_{len(self.limits)}_"
            self.before.append(Declare(name, Call("opwright_limit", (self.values.integer(place),)), "int32_t"))
            self.elements.position = position
        return Cast("int32_t", position), Name(self.limits[place])

    def counted(self, letter: expr.Name) -> Expr | None:
        """The number of a lane, from that of the first and its place in the row: vectors convert 32 bits, not 64.

        Gradients of cross entropy of 4096 x 1000 f32 take 0.63 of their time with AVX2 (AMD EPYC, Zen 4, gcc 12.2).
        """
        position, lanes = self.elements.position, self.elements.lanes
        assert lanes is not None
        if position is None or self.joins or lanes.kind != "one":
            return None
        if letter not in self.counts:
            self.elements.position = None
            self.counts[letter] = name = f"count_{len(self.counts)}_"
            self.before.append(Declare(name, Cast("double", self.values.integer(letter)), "double"))
            self.elements.position = position
        place = Cast("double", Cast("int32_t", position))
        return Cast("float", Binary("+", Name(self.counts[letter]), place))

    def opaque(self, number: expr.Expr) -> Expr:
        """A constant that values of f32 are limited by."""
        if number not in self.opaques:
            self.opaques[number] = name = f"bound_{len(self.opaques)}_"
            value = Call("opwright_opaque_f32", (self.values.value(number),))
            self.before.append(Declare(name, value, self.values.c_type))
        return Name(self.opaques[number])

    def cell_of_row(self, read: Read) -> Expr:
        """A value that is the same for all lanes of a row, where several rows are one."""
        return self.values.loaded(self.repeated(read), self.elements.dtype(read.tensor))

    def repeated(self, read: Read) -> Expr:
        """Its cell."""
        position = self.elements.position
        assert position is not None
        if read not in self.rows:
            self.elements.position = None
            name, room, _ = self.named(read)
            self.rows[read] = name
            self.before += joined.repeated(self.elements, read, name, room)
            self.elements.position = position
        return Index(Name(self.rows[read]), position)

    def along(self, cell: Stmt, unroll: int = 0) -> For:
        """The loop over lanes of one assignment.

        Loops of at most 16 iterations, which compilers would undo, are kept: softmax of 2000 rows of 32 groups of 16
        takes 0.3 of the time (EPYC Zen 4, gcc 12.2, f32, one thread).
        """
        lanes = self.elements.lanes
        few = lanes is not None and lanes.extent == expr.Number(cache_lines.UNDONE)
        return For("i_", ZERO, N, (cell,), source=self.part.source, unroll=unroll or int(few))

    def function_of_row(self, tree: expr.Call) -> Expr:
        """A function in the loop over lanes: its results for the row are buffered before the loop."""
        position = self.elements.position
        assert position is not None
        if tree not in self.functions:
            argument = self.at(Name("i_"), lambda: self.inside.value(tree.arguments[0]))
            self.functions[tree] = name = f"made_{len(self.functions)}_"
            cell = Index(Name(name), Name("i_"))
            first = self.along(Assign(cell, argument, source=self.part.source))
            self.before.append(DeclareArray(name, DTYPES[self.values.accumulate].c_type, ROOM))
            if tree.function != "pow" and (row := plain_row(argument)) is not None:
                self.before.append(self.made_of_row(tree, Name(name), row))
            elif tree.function == "pow":
                self.before.append(first)
                exponent = self.at(Name("i_"), lambda: self.inside.value(tree.arguments[1]))
                power = Call(f"opwright_pow_{self.values.accumulate}", (cell, exponent))
                self.before.append(self.along(Assign(cell, power, source=self.part.source)))
            else:
                self.before += [first, self.made_of_row(tree, Name(name), Name(name))]
            self.elements.buffered(ZERO)
            self.elements.passes |= self.elements.writes_outputs(self.values.accumulate)
            self.elements.position = position
        return Index(Name(self.functions[tree]), position)

    def read(self, read: Read) -> Expr:
        """An element in the loop over lanes."""
        position = self.elements.position
        assert position is not None
        if self.lane not in expr.names(read):
            several = self.joins and joined.cell(read, self.elements)
            return self.repeated(read) if several else self.elements.element(read)
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
        if self.halves is not None:
            self.halves.setdefault(read, f"wide_{len(self.halves)}_")
            return Index(Name(self.halves[read]), cache_lines.LANE)
        if read not in self.wide:
            self.elements.position = None
            self.wide[read] = self._wide(read)
            self.elements.position = position
        return Index(Name(self.wide[read]), cache_lines.place(position, self.by.get(read)))

    def half_line(self, begin: Expr, value: expr.Expr) -> tuple[list[Stmt], Expr]:
        """What widens the cells of f16 from a place on, and a value of them in the loop over these."""
        self.halves, made = {}, []
        cell = self.at(Binary("+", begin, cache_lines.LANE), lambda: self.inside.cell(value))
        for read, name in self.halves.items():
            row = Name(self.row_of(read))
            at = begin if (by := self.by.get(read)) is None else Binary("*", begin, by)
            made += cache_lines.widened(name, Binary("+", row, at), begin, self.narrowest())
        self.halves = None
        return made, cell

    def _wide(self, read: Read) -> str:
        """The name of a row as f32; cells with a stride are taken from where they are."""
        elements, name = self.elements, f"wide_{len(self.wide)}_"
        step = elements.step(read)
        if step is None or elements.crossing:
            first: Expr = Name(self.row_of(read))
            step, by = ONE, self.by.get(read)
        else:
            by = self.spread(read, self.named(read)[0], step)
            first = together.begin(elements, read) or repeats.begin(elements, read, step)
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
        kept = across.row(elements, read, step, elements.address(read)) if step is not None and self.shares else None
        if kept is not None:
            self.before.append(Declare(name, kept, pointer, changes=True))
            return name
        if self.joins and (copies := joined.each(elements, read, name, room)):
            self.before += copies
            return name
        repeated = bends.repeated(elements, read, room) if step is None else None
        self.before.append(DeclareArray(room, c_type, ROOM if repeated is None else ROOM + cache_lines.LINE))
        there = Conditional(cache_lines.PAST, Name(room), Name(self.lands)) if self.lands else Name(room)
        wrapped = repeated or (bends.wrapped(elements, read, there) if step is None else None)
        if wrapped is not None:
            elements.buffered(ZERO)
            self.before.append(Declare(name, wrapped, pointer, changes=True))
            return name
        if step is None and (end := bends.ends(elements, read)) is not None:
            elements.buffered(ZERO)
            self.before += bends.pieces(elements, read, room, end)
            return room
        if step is None:
            return self._gathered(read, name, room)
        by = self.spread(read, name, step)
        elements.buffered(step, by or ONE)
        again = joined.begin(elements, read) if self.joins else None
        begin = again or together.begin(elements, read) or repeats.begin(elements, read, step)
        function = f"opwright_{'landed' if self.lands else 'row'}_{dtype}"
        row = Call(function, (begin, step, self.cells(by), there))
        self.before.append(Declare(name, row, pointer, changes=True))
        self.fetched(dtype, name)
        return name

    def _gathered(self, read: Read, name: str, room: str) -> str:
        """A row without a fixed stride from cell to cell, or one that may have none."""
        elements, dtype = self.elements, self.elements.dtype(read.tensor)
        if self.inside.named(read):
            self.gathers = True
            self.before += named_rows.taken(elements, read, room, N, self.part.source)
            elements.buffered(ZERO)
            return room
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
        self.before.append(Declare(name, here, f"const {elements.c_type(read.tensor)} *restrict", changes=True))
        return name

    def fetched(self, dtype: str, row: str) -> None:
        """Fetches what follows a row in memory while functions of what it makes are computed.

        A function that reads the row itself leaves that to the CPU: exp of 1024 x 1003 f64 takes 0.84 so (Intel Xeon).
        """
        value = self.formula.value
        alone = isinstance(value, expr.Call) and isinstance(value.arguments[0], Read)
        if any(map(self.inside.of_rows, expr.walk(value))) and not alone:
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

    def made_of_row(self, tree: expr.Call, to: Expr, row: Expr) -> Stmt:
        """Applies a function to a row, which may be that which it makes."""
        return Do(Call(f"opwright_{tree.function}_row_{self.values.accumulate}", (to, row, N)))


def plain_row(cell: Expr) -> Expr | None:
    """The row of which that is a cell of a loop over lanes; None if it is more than a cell."""
    return cell.array if isinstance(cell, Index) and cell.at == Name("i_") else None
