"""Long rows that few tasks reduce: partial results over pieces of each row, as tasks, joined in one order.

In: a phase that reduces whole rows of lanes to numbers, and otherwise walks only the letters of its tasks. Out: the
number of pieces of a call, a function whose tasks are the pieces, one that joins them and goes on. The pieces
follow from the sizes of a call, so that no result depends on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...derive.phases import Phase, Staged
from ...derive.program import Formula, Part
from ...language.model import Op
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
    Expr,
    For,
    Index,
    Member,
    Name,
    Return,
    Scope,
    Stmt,
)
from .bounds import Bounds
from .fusion import Made
from .loops import Loop, Walk
from .lowering import Lowering
from .values import updated

PIECE, PIECES = Name("piece_"), Name("pieces_")
BY_ROWS = Name("by_rows_")  # the pieces that rows of the outermost reduced letter make: all, or one


def reduction(lowering: Lowering) -> Part | None:
    """The step whose rows may be taken in pieces: the first of its phase, after which no step walks lanes."""
    part, *others = lowering.phase.parts
    if lowering.lanes is None or lowering.blocked or lowering.kept or lowering.needed(part):
        return None
    guarded = part.operator == "set" or part.by or part.where or len(part.formulas) != 1
    if guarded or not lowering.is_number(part.target.tensor):
        return None
    if any({*other.letters} - {*lowering.phase.own} for other in others):
        return None
    walk = lowering.walk(part, part.formulas[0])
    bounded = walk.bounds.low or walk.bounds.high or walk.bounds.tests
    return part if walk.laned and not (walk.outer or bounded) else None


class _Partial(Lowering):
    """What the functions have in common: the partial results, which lie task by task, and tasks that go one by one."""

    def __init__(self, op: Op, row: dict[str, str], found: Staged, phase: Phase, lanes: str, part: Part) -> None:
        super().__init__(op, row, found, phase, lanes)
        self.summed = part

    @property
    def room(self) -> str:
        """The C type of the partial results."""
        return self.values_of(self.summed.target.tensor).c_type

    def partial(self, number: Expr) -> Expr:
        """A partial result."""
        return Index(Cast(f"{self.room} *", Member(Name("call_"), "partials_")), number)

    def grouped(self, digits: Sequence[tuple[str, Expr]], steps: Sequence[Sequence[Stmt]]) -> None:
        return None


class Pieces(_Partial):
    """The function whose tasks are pieces of rows."""

    def __init__(self, op: Op, row: dict[str, str], found: Staged, phase: Phase, lanes: str, part: Part) -> None:
        super().__init__(op, row, found, replace(phase, parts=(part,)), lanes, part)
        self.spans: dict[str, Declare] = {}  # where those that a task has of rows and of their cells begin and end

    def statements(self) -> list[list[Stmt]]:
        self.constant(PIECES.name, Member(Name("call_"), PIECES.name))
        made = Assign(self.partial(Name("task_")), self.element(self.summed.target), source=self.summed.source)
        return [*super().statements(), [made]]

    def decoded(self) -> tuple[list[tuple[str, Expr]], list[Declare], Expr]:
        digits, task, total = super().decoded()
        return [*digits, (PIECE.name, PIECES)], task, Binary("*", total, PIECES)

    def of_task(self) -> list[Declare]:
        return [*super().of_task(), *self.spans.values()]

    def lane_span(self, bounds: Bounds) -> tuple[Expr, Expr]:
        parts: Expr = Binary("/", PIECES, BY_ROWS) if self.reduced() else PIECES
        return self.share("cell", self.along(), parts)

    def walk(self, part: Part, formula: Formula) -> Walk:
        """A piece has some rows of the outermost reduced letter if these are enough, else all, and a part of each."""
        found = super().walk(part, formula)
        if not found.reduced:
            return found
        rows = found.reduced[0]
        self.constant(BY_ROWS.name, Conditional(Binary(">=", rows.extent, PIECES), PIECES, ONE))
        low, high = self.share("row", rows.extent, BY_ROWS)
        return replace(found, bounds=Bounds({rows.name: [low]}, {rows.name: [high]}))

    def share(self, name: str, extent: Expr, parts: Expr) -> tuple[Expr, Expr]:
        """Where that of a task begins and ends of so many parts of an extent."""
        number = PIECE if parts == PIECES else Binary("%", PIECE, parts)
        for end, at in ((f"first_{name}_", number), (f"past_{name}_", Binary("+", number, ONE))):
            self.spans[end] = Declare(end, Call("opwright_share", (extent, at, parts)))
        return Name(f"first_{name}_"), Name(f"past_{name}_")

    def reduced(self) -> list[Loop]:
        """The loops of reduced letters, but for that of lanes."""
        return super().walk(self.summed, self.summed.formulas[0]).reduced

    def count(self) -> tuple[Stmt, ...]:
        """The body of a function that returns how many pieces the rows of a call have; 1 if they are taken whole."""
        _, _, total = super().decoded()
        rows = [loop.extent for loop in self.reduced()] or [ONE]
        value = Call("opwright_pieces", (total, rows[0], nodes.chain("*", rows[1:], ONE), self.along()))
        return (*nodes.used(self.declared.values(), Return(value)), Return(value))


class Joined(_Partial):
    """The function that joins the partial results of each task, and does the other steps of the phase."""

    def body(self) -> tuple[Stmt, ...]:
        """Without the constants of loops over lanes, which it lacks."""
        made = super().body()
        rest = tuple(one for one in made if not (isinstance(one, Declare) and one.name in self.declared))
        return (*nodes.used(self.declared.values(), Scope(rest)), *rest)

    def unguarded(self, part: Part) -> bool:
        return part is not self.summed and super().unguarded(part)

    def following(self, part: Part) -> tuple[Part, ...]:
        return () if part is self.summed else super().following(part)

    def part(self, part: Part, following: Sequence[Part]) -> Made:
        if part is not self.summed:
            return super().part(part, following)
        pieces = self.constant(PIECES.name, Member(Name("call_"), PIECES.name))
        number = Binary("+", Binary("*", Name("task_"), pieces), PIECE)
        values, cell = self.values_of(part.target.tensor), self.element(part.target)
        join = updated(values, part.operator, cell, self.partial(number), part.source)
        return Made((part,), (), (For(PIECE.name, ZERO, PIECES, (join,), source=part.source),))
