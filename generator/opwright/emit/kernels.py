"""The view of one kernel: its parameters, and its body as C nodes.

In: a variant. Out: a `Kernel`, for the C template to lay out. Everything that kernels of all dtypes share is lowered
once (lowering.py); a dtype row adds how elements are loaded, the type of sums, and how a cell is stored.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

from ..derive.algebra.poly import NotPolynomial
from ..derive.nest import derive
from ..derive.signature import Signature, signature
from ..derive.variants import Variant
from ..language import expr
from ..language.dtypes import DTYPES
from ..language.expr import Read
from ..language.model import Op
from ..language.source import Problem, Prose, SpecInvalid
from ..memo import memoised
from . import nodes
from .arithmetic import c_real
from .lowering import LANES, Lowered, lowered
from .nodes import Assign, Binary, Cast, Conditional, Declare, DeclareArray, Expr, For, Index, Name, Stmt
from .scopes import own_names

FLOAT = DTYPES["f32"].c_type  # the type that elements of narrower types convert to and are rounded from


@dataclass(frozen=True)
class Kernel:
    """One C function."""

    variant: Variant
    signature: Signature
    about: Prose
    body: tuple[Stmt, ...]

    @property
    def name(self) -> str:
        return self.signature.name


class _Typed:
    """A lowered kernel in the types of a dtype row."""

    def __init__(self, variant: Variant, shared: Lowered) -> None:
        self.variant, self.shared = variant, shared
        self.op, self.row = variant.op, variant.row
        accumulate = DTYPES[self.row["accumulate"]]
        self.real, self.suffix = accumulate.c_type, accumulate.suffix
        self.own = own_names(self.op)
        finish = self.op.semantics.finish
        self.counts = finish is not None and "count" in expr.names(finish.tree)

    def body(self) -> tuple[Stmt, ...]:
        """Constants, then the tasks of a part in order, each a block of cells, a row of cells, or one cell."""
        shared = self.shared
        part, parts, total = Name("part"), Name("parts"), Name(self.own["total"])
        after = Binary("+", part, nodes.ONE)
        begin = nodes.call("opwright_share", total, part, parts)
        tasks = (*shared.task_constants, *self.task())
        return (
            *shared.constants,
            Declare(total.name, shared.tasks),
            Declare(self.own["task_end"], nodes.call("opwright_share", total, after, parts)),
            For(self.own["task"], begin, Name(self.own["task_end"]), tasks),
        )

    def task(self) -> tuple[Stmt, ...]:
        if self.shared.block:
            return (self.blocks(),)
        if self.shared.cells:
            return (dataclasses.replace(self.shared.cells, body=self.cell()),)
        return self.cell()

    def blocks(self) -> Stmt:
        """The cells of a task, a block of accumulators at a time."""
        shared, block = self.shared, self.shared.block
        assert block is not None
        assert shared.lane is not None
        width, begin, lane = nodes.integer(LANES), Name(block.begin), Name(self.own["lane"])
        end = nodes.nested("opwright_min", (Binary("+", begin, width), block.extent))
        sums, terms = Name(self.own["sums"]), Name(self.own["terms"])
        counts = [DeclareArray(terms.name, "int64_t", LANES, zeroed=True)] if self.counts else []
        start = Assign(Index(sums, lane), self.init(), source="semantics.init")
        update = self.update(Index(sums, shared.lane), Index(terms, shared.lane))
        cell = Binary("-", Name(block.letter), begin)
        store = self.store(Index(sums, cell), Index(terms, cell))
        body: tuple[Stmt, ...] = (
            Declare(block.end, end),
            *shared.block_constants,
            DeclareArray(sums.name, self.real, LANES),
            *counts,
            For(lane.name, nodes.ZERO, width, (start,)),
            *self.nest(update),
            For(block.letter, begin, Name(block.end), (store,)),
        )
        return For(block.begin, nodes.ZERO, block.extent, body, step=width)

    def cell(self) -> tuple[Stmt, ...]:
        """One cell with an accumulator of its own."""
        total, terms = Name(self.own["sum"]), Name(self.own["terms"])
        counter = [Declare(terms.name, nodes.ZERO, changes=True)] if self.counts else []
        return (
            *self.shared.block_constants,
            Declare(total.name, self.init(), self.real, changes=True, source="semantics.init"),
            *counter,
            *self.nest(self.update(total, terms)),
            self.store(total, terms),
        )

    def nest(self, innermost: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The loops and tests around a body."""
        body = innermost
        for head, constants in reversed(self.shared.heads):
            body = (dataclasses.replace(head, body=(*constants, *body)),)
        return body

    def init(self) -> Expr:
        return nodes.real(float(self.op.semantics.init), self.suffix)

    def update(self, total: Expr, terms: Expr) -> tuple[Stmt, ...]:
        """The statement for each index tuple: the term is added to its cell, and counted if the store needs it."""
        assignment = self.op.semantics.assignment
        value = self.value(assignment.value, lambda read: self.loaded(read, self.shared.elements[read]), terms)
        updated = Assign(total, value, "+=", source="semantics.reduce")
        if assignment.op == "max":
            larger = nodes.call(f"opwright_maximum{self.suffix}", total, value)
            updated = Assign(total, larger, source="semantics.reduce")
        return (updated, Assign(terms, nodes.ONE, "+=")) if self.counts else (updated,)

    def store(self, total: Expr, terms: Expr) -> Stmt:
        """The stored cell: finished, and rounded to its dtype."""
        finish, output = self.op.semantics.finish, self.op.output.name
        value = total
        if finish is not None:

            def read(element: Read) -> Expr:
                return total if element.tensor == output else self.loaded(element, self.shared.finish_elements[element])

            value = self.value(finish.tree, read, terms)
        source = "semantics.reduce" if finish is None else "semantics.finish"
        return Assign(Index(Name(output), self.shared.stored_at), self.rounded(value), source=source)

    def value(self, tree: expr.Expr, read: Callable[[Read], Expr], terms: Expr) -> Expr:
        def integer(leaf: expr.Expr) -> Expr:
            return terms if leaf == expr.Name("count") else self.shared.integers[leaf]

        return c_real(tree, self.real, self.suffix, read, integer)

    def loaded(self, read: Read, element: Expr) -> Expr:
        """An element in the type of the sums; an omitted tensor counts as 0."""
        dtype = DTYPES[self.row[read.tensor]]
        value = element if dtype.accumulates else nodes.call(f"opwright_from_{dtype.name}", element)
        if (dtype.c_type if dtype.accumulates else FLOAT) != self.real:
            value = Cast(self.real, value)
        optional = self.op.tensor(read.tensor).optional
        return Conditional(Name(read.tensor), value, nodes.ZERO) if optional else value

    def rounded(self, value: Expr) -> Expr:
        """A value in the dtype of the output."""
        dtype = DTYPES[self.row[self.op.output.name]]
        wanted = dtype.c_type if dtype.accumulates else FLOAT
        value = value if wanted == self.real else Cast(wanted, value)
        return value if dtype.accumulates else nodes.call(f"opwright_to_{dtype.name}", value)


def _about(shared: Lowered) -> Prose:
    """The order in which cells are computed, and in which each adds its terms."""
    cells = f"{LANES} cells along {shared.block.letter} at a time" if shared.block else "One cell at a time"
    if not shared.order:
        return Prose(f"{cells}; each has at most one term.")
    fastest = ", the last one fastest" if len(shared.order) > 1 else ""
    return Prose(f"{cells}; each adds its terms by {', '.join(shared.order)}{fastest}.")


@memoised
def _lowered(op: Op, words: tuple[str, ...], group: str | None) -> Lowered:
    """The shared part of the kernels of a layout and a class."""
    found = next((one for one in op.classes if one.name == group), None)
    nest = derive(op, dict(zip(op.layout_attributes, words)), found)
    return lowered(op, nest, found)


@dataclass(frozen=True)
class _Identified:
    """A variant, identified by its name."""

    name: str
    variant: Variant = field(compare=False)


@memoised
def _kernel(op: Op, identified: _Identified) -> Kernel:
    variant = identified.variant
    try:
        shared = _lowered(op, variant.words, variant.group_class.name if variant.group_class else None)
        return Kernel(
            variant=variant,
            signature=signature(variant),
            about=_about(shared),
            body=_Typed(variant, shared).body(),
        )
    except NotPolynomial as error:
        raise SpecInvalid([Problem(op.semantics.assignment.at, "semantics-index", str(error))]) from None


def kernel(variant: Variant) -> Kernel:
    """The view of a variant. Raises SpecInvalid if there is no kernel."""
    return _kernel(variant.op, _Identified(variant.name, variant))
