"""A step over a row of lanes: the loops over lanes, and the row that they write.

In: a step's formula, and the elements of its phase. Out: statements for `n_` lanes from the loop's letter
on. A loop over lanes reads and writes contiguous rows (c/rows.h), so that compilers vectorise it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from functools import partial
from typing import TypeGuard

from ...derive.algebra import slopes
from ...derive.program import BYTES, INITIAL, Formula, Part, summed_alone
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
from . import bends, cache_lines, places, row_ends, row_sums
from .cache_lines import WIDE
from .elements import ROOM, Elements, product
from .row_reads import GATHERED, N, RowReads, plain_row
from .values import OF_ROWS, updated

SUMS = 32  # accumulators of a reduction along a row


class Row(RowReads):
    """The lanes of one step."""

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
        value, source = self.standing(self.formula.value, dtype), self.part.source
        moved = bends.moved(self.elements, self.part, value)
        cell = summed_alone(value) or value
        copied = isinstance(cell, Read) and self.inside.anywhere(cell)  # cells from anywhere, which no vector loads
        plain = not (updates or moved or copied or cache_lines.costly(value))
        halves = plain and self.half_lines(dtype)
        wide = not (updates or halves) and self.narrowed()
        whole = operator == "set" and dtype == self.values.accumulate != "s64"
        function = value if whole and isinstance(value, expr.Call) and value.function in OF_ROWS else None
        rounds = self.inside.rounds(value, dtype)
        self.lined = halves or (plain and not wide and (rounds or self.elements.streams(target)))
        row = WIDE.name if wide else self.target_row(updates)

        def loop(value: expr.Expr) -> list[Stmt]:
            if halves:
                half_line = lambda begin: self.half_line(begin, value)  # noqa: E731
                return cache_lines.halved(row, self.narrowest(), half_line, source, self.ends)
            if self.lined:
                size, c_type = DTYPES[dtype].size, self.elements.c_type(target.tensor)
                if rounds:
                    make = lambda position: self.at(position, lambda: self.inside.cell(value))  # noqa: E731
                    stands = self.row_of(value) if self.converted(value) else ""
                    stands = "" if value in self.by else stands
                    return cache_lines.rounded(row, self.narrowest(), make, source, stands, self.ends)
                make = lambda position: self.at(position, lambda: self.inside.copied(value, dtype))  # noqa: E731
                return cache_lines.stored(row, c_type, size, self.narrowest(), make, source)
            cell = Index(Name(row), Name("i_"))
            copies = operator == "set" and not wide
            made = self.at(Name("i_"), lambda: self.inside.copied(value, dtype) if copies else self.inside.cell(value))
            update = Assign(cell, made, source=source)
            if operator != "set":
                update = updated(self.values, operator, cell, made, source)
            return [self.along(update, 2 * GATHERED if copied else 0)]

        if moved is not None and isinstance(value, Read):
            loops = bends.pieces(self.elements, value, row, moved)
        elif wide and self.converted(value):
            loops = []
        elif copy := self.copied(value, dtype, row):
            loops = [Do(Call("opwright_put_row", (Name(row), *copy, cache_lines.PAST)))]
        elif (added := self.plus_zero(value, dtype)) is not None:
            past = cache_lines.PAST if self.lined else ZERO
            loops = [Do(Call("opwright_put_plus_zero", (Name(row), added, N, past)))]
        elif plain and not (self.lined or wide) and (quotients := self.over_one(value, dtype, row)) is not None:
            loops = [quotients]
        elif function is not None:
            argument = self.at(Name("i_"), lambda: self.inside.cell(function.arguments[0]))
            given = plain_row(argument)
            filled = [] if given is not None else loop(function.arguments[0])
            loops = [*filled, self.made_of_row(function, Name(row), given or Name(row))]
            self.elements.buffered(ZERO)
        else:
            loops = self.powers(loop) or loop(value)
        return (*self.before, *loops, *self.after)

    def ends(self, value: Expr, own: Set[str] = frozenset()) -> cache_lines.Ends | None:
        """Copies of the last cells of the rows that a value reads beside `own` arrays, and the value of these.

        None for long rows.
        """
        return None if self.elements.long_rows else row_ends.copied([value], self._arrays(), SUMS, own)

    def copied(self, value: expr.Expr, dtype: str, written: str) -> tuple[Expr, ...]:
        """A row of an input that is stored as it stands, line by line, and its bytes; nothing of other values.

        Cells that lie apart are gathered where they are written: rows of 24 that are 4 apart take 0.9
        of the time in f32, 0.66 in bf16 (Zen 5, gcc 12.2).
        """
        if not (self.lined and isinstance(value, Read) and self.lane in expr.names(value)):
            return ()
        if self.elements.dtype(value.tensor) != dtype or self.elements.program.arrays[value.tensor].role != "input":
            return ()
        self.lands = written
        row = self.row_of(value)
        self.lands = ""
        if value in self.by:  # which may be one cell
            return ()
        self.before = [one for one in self.before if not isinstance(one, Declare) or one.name != cache_lines.WHOLE.name]
        return Name(row), product(N, nodes.integer(DTYPES[dtype].size))

    def standing(self, value: expr.Expr, dtype: str) -> expr.Expr:
        """A value without 0 that is added to an integer, which stays as it is: of 8 bits, every sum is exact."""
        cell = summed_alone(value)
        return cell if cell and dtype in BYTES and self.elements.dtype(cell.tensor) == dtype else value

    def plus_zero(self, value: expr.Expr, dtype: str) -> Expr | None:
        """A row of 16 bits that is stored as it stands, 0 added to each cell; None of other values."""
        cell = summed_alone(value)
        if cell is None or self.part.operator != "set" or self.lane not in expr.names(cell):
            return None
        if self.elements.dtype(cell.tensor) != dtype or DTYPES[dtype].size != cache_lines.HALF:
            return None
        row = Name(self.row_of(cell))
        if cell in self.by:  # which may be one cell
            return None
        self.before = [one for one in self.before if not isinstance(one, Declare) or one.name != cache_lines.WHOLE.name]
        return row

    def over_one(self, value: expr.Expr, dtype: str, written: str) -> Stmt | None:
        """A row of f32 that is divided by one number, such as a sum of the row; None of other values."""
        if not isinstance(value, expr.Binary) or value.op != "/" or not self.converted(value.left) or self.joins:
            return None
        sees = [*expr.reads(value.right)]
        if dtype != "f32" or self.part.operator != "set" or not sees or self.lane in expr.names(value.right):
            return None
        row = Name(self.row_of(value.left))
        if value.left in self.by:  # which may be one cell
            return None
        return Do(Call("opwright_over_row_f32", (Name(written), row, N, self.hoisted(value.right))))

    def half_lines(self, dtype: str) -> bool:
        """Whether values become f16 a line at a time, as those that stand there as f16 or f32 do not."""
        value = self.formula.value
        cell = summed_alone(value) or value
        alike = isinstance(cell, Read) and self.elements.dtype(cell.tensor) == dtype
        stands = alike or self.converted(value) or self.elements.step(self.part.target) is None
        return dtype == "f16" and self.values.accumulate == "f32" and not stands

    def narrowed(self) -> bool:
        """Whether values are buffered first, because instructions convert rows of them to a type that C lacks.

        To bf16, costly ones: others are made a line at a time, in registers. While they are computed, the lines of the
        output are fetched: gelu of 16M bf16 takes 0.69 of the time if these lie across cache lines (AMD Zen 5).
        """
        elements, target, value = self.elements, self.part.target, self.formula.value
        dtype = elements.dtype(target.tensor)
        cell = summed_alone(value) or value
        alike = isinstance(cell, Read) and elements.dtype(cell.tensor) == dtype
        step = elements.step(target)
        narrows = (dtype == "f16" and not alike) or (self.inside.rounds(value, dtype) and cache_lines.costly(value))
        if not narrows or self.values.accumulate != "f32" or step is None:
            return False
        elements.used.add(target.tensor)
        elements.buffered(ZERO)  # rows of no more than the room has
        values = Name(self.row_of(value)) if self.converted(value) else WIDE
        self.before += [DeclareArray(WIDE.name, "float", ROOM)] if values is WIDE else []
        if cache_lines.costly(value):
            bytes_ = product(N, nodes.integer(DTYPES[dtype].size))
            self.before.append(Do(Call("opwright_fetch", (elements.address(target), bytes_))))
        rows = Name("total_") if elements.streams(target) else ONE
        self.after.append(Do(Call(f"opwright_put_wide_{dtype}", (values, elements.address(target), step, N, rows))))
        return True

    def converted(self, value: expr.Expr) -> TypeGuard[Read]:
        """Whether what a step writes is a row of f32 as it stands, which is converted without a copy."""
        return isinstance(value, Read) and self.lane in expr.names(value) and self.elements.dtype(value.tensor) == "f32"

    def added(self, tiles: Mapping[str, tuple[Part, Formula]], kept: str) -> tuple[Stmt, ...]:
        """Combines the terms of lanes with arrays of as many cells, one for each step; `kept` in their type."""
        loops: list[Stmt] = []
        sums = Index(Name(next(iter(tiles))), Name("i_"))
        for name, (part, formula) in tiles.items():
            cell = Index(Name(name), Name("i_"))
            if (number := places.number(self.part, part)) is not None:  # which knows the extreme before this term
                both = [self.at(Name("i_"), partial(self.inside.cell, one)) for one in (self.formula.value, number)]
                loops.insert(0, self.along(places.updated(self.part, part, (sums, cell), *both)))
                continue
            if kept:
                made = self.at(Name("i_"), partial(self.inside.copied, formula.value, kept))
                pick = Call(f"opwright_{part.operator}_{kept}", (cell, made))
                loops.append(self.along(Assign(cell, pick, source=part.source)))
                continue
            made = self.at(Name("i_"), partial(self.inside.cell, formula.value))
            loops.append(self.along(updated(self.values, part.operator, cell, made, part.source)))
        return (*self.before, *loops)

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

    def begun(self, part: Part, sums: str) -> list[Stmt]:
        """The accumulators of a reduction along a row before the first term."""
        first = self.values.number(INITIAL[part.operator])
        if self.stands() and self._is_extreme():
            return [Declare(sums, first, self.values.c_type, changes=True)]
        if self.stands() or self.summed:
            kind = self.values.accumulate
            return [Declare(sums, Call(f"opwright_lanes_of_{kind}", (first,)), f"opwright_lanes_{kind}", changes=True)]
        each = Assign(Index(Name(sums), Name("j_")), first)
        return [DeclareArray(sums, self.values.c_type, SUMS), For("j_", ZERO, nodes.integer(SUMS), (each,))]

    def total(self, part: Part, sums: str) -> Expr:
        """The combined accumulators of a reduction along a row."""
        if self.stands() and self._is_extreme():
            return Name(sums)
        of = "lanes" if self.stands() or self.summed else "of"
        return Call(f"opwright_{part.operator}_{of}_{self.values.accumulate}", (Name(sums),))

    def reduced(self, sums: Mapping[str, tuple[Part, Formula]]) -> tuple[Stmt, ...]:
        """Steps if lanes are reduced: each adds to one of SUMS. Steps that stand together read their rows once."""
        if self.stands():
            assert isinstance(self.formula.value, Read)
            dtype, row, (name,) = self.elements.dtype(self.formula.value.tensor), self._row(self.formula.value), sums
            made = row_sums.function(self.part.operator, self.values.accumulate, dtype)
            more = Call(made, (Name(name), Name(row), N))
            return *self.before, Assign(Name(name), more, source=self.part.source)

        buffer = self.function_alone() if len(sums) == 1 else None
        if buffer is not None:
            self.summed, (name,) = True, sums
            more = Call(row_sums.function(self.part.operator, "f32", "f32"), (Name(name), buffer, N))
            return *self.before, Assign(Name(name), more, source=self.part.source)

        each, whole, source = nodes.integer(SUMS), Name("whole_"), self.part.source

        def terms(begin: Expr) -> list[Assign]:
            made = []
            for name, (part, formula) in sums.items():
                value = self.at(Binary("+", begin, Name("j_")), partial(self.inside.cell, formula.value))
                made.append(updated(self.values, part.operator, Index(Name(name), Name("j_")), value, part.source))
            return made

        def loops(begin: Expr, end: Expr) -> list[Stmt]:
            return [For("j_", ZERO, end, (term,), source=term.source) for term in terms(begin)]

        inner = tuple(loops(Name("i_"), each))
        rest = loops(whole, Binary("-", N, whole))
        rest = [*row_ends.padded(terms(whole), self._arrays(), self.values.accumulate, SUMS, rest)]
        return (
            *self.before,
            Declare("whole_", Binary("*", Binary("/", N, each), each)),
            For("i_", ZERO, whole, inner, step=each, source=source),
            *rest,
        )

    def _arrays(self) -> dict[str, str]:
        """The data types of the rows that a step reads, and of those that functions make for it."""
        rows = {name: self.elements.dtype(read.tensor) for read, name in self.rows.items()}
        made = dict.fromkeys([*self.wide.values(), *self.functions.values()], self.values.accumulate)
        return rows | made

    def function_alone(self) -> Expr | None:
        """The buffer of a function of rows, if that is all that is reduced: it is summed in registers.

        Log-softmax of 4096 rows of 64 f32 takes 0.86 of the time (AMD EPYC Zen 3, gcc 12.2).
        """
        value = self.formula.value
        if self.values.accumulate != "f32" or not isinstance(value, expr.Call) or not self.inside.of_rows(value):
            return None
        made = self.at(ZERO, partial(self.inside.cell, value))
        return made.array if isinstance(made, Index) else None

    def stands(self) -> bool:
        """Whether what is reduced is a row of numbers as it stands."""
        value, kinds = self.formula.value, self.elements.dtype
        row = isinstance(value, Read) and self.lane in expr.names(value)
        return row and row_sums.stands(self.part.operator, self.values.accumulate, kinds(value.tensor))  # type: ignore[union-attr]

    def _is_extreme(self) -> bool:
        """Whether that is the least or greatest of integers."""
        value = self.formula.value
        return isinstance(value, Read) and row_sums.is_extreme(self.part.operator, self.elements.dtype(value.tensor))

    def target_row(self, updates: bool, other: Part | None = None) -> str:
        """The written row, with its current content if `updates`; that of a step that stands beside."""
        elements, target = self.elements, (other or self.part).target
        name, room, first = self.named(target)
        c_type, dtype = elements.c_type(target.tensor), elements.dtype(target.tensor)
        step = elements.step(target)
        assert step is not None
        self.rows[target] = name
        lines = (
            cache_lines.declared(name, step, DTYPES[dtype].size, self.narrowest(), elements.streamed(target))
            if self.lined
            else []
        )
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
