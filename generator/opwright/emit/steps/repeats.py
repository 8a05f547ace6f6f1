"""Short rows that are read with the same cells again and again: these are repeated in a buffer, and many rows are one.

In: a phase of one step along a run, whose rows follow one another in every array but in those that are one row for all.
Out: constants that make the run one row, and what stands for a row that is repeated. Calls decide by their strides.

A sum of 4096 x 64 and 64 f32 takes 0.76 of the time that it takes row by row, of 12608 x 100 and 100 0.78 (one thread
of an AMD Zen 5, gcc 12.2).
"""

from __future__ import annotations

from ...derive.program import Formula, Part
from ...language import expr
from ...language.expr import Read
from ..nodes import ONE, ZERO, Binary, Call, Conditional, Declare, DeclareArray, Expr, Index, Member, Name, both
from .elements import Elements
from .integers import SIZES, expr_name

CELLS = 2048  # of a buffer, at most: several stay in the first-level cache
REPEATS, SHORT = Name("again_"), Name("short_")


def begun(elements: Elements) -> None:
    """The constants of a phase that may have such rows; nothing of others."""
    if not _possible(elements):
        return
    (part,) = elements.phase.parts
    symbol = expr_name(elements.program.letters[part.letters[0]].extent)
    rank, extents = Member(SIZES, f"{symbol}_rank"), Member(SIZES, f"{symbol}_extents")
    elements.constant(SHORT.name, Index(extents, Binary("-", rank, ONE)))
    strides = dict.fromkeys(_strides(elements, read) for read in (part.target, *part.reads))
    tests: list[Expr] = [Call("opwright_short", (rank, extents))]
    tests += [Call("opwright_repeats", (extents, one)) for one in strides]
    elements.constant(REPEATS.name, both(tests), "int")
    elements.constant(f"{symbol}_inner_", Conditional(REPEATS, Binary("*", Index(extents, ZERO), SHORT), SHORT))
    elements.constant(f"{symbol}_rows_", Conditional(REPEATS, ONE, Call("opwright_rows", (rank, extents))))


def block(elements: Elements, maximum: Expr, otherwise: Expr) -> Expr:
    """The lanes of a block: a multiple of those of a row that is repeated."""
    if REPEATS.name not in elements.declared:
        return otherwise
    longest = maximum.yes if isinstance(maximum, Conditional) else maximum  # all of these rows lie as they stand
    return Conditional(REPEATS, Call("opwright_long", (SHORT, longest)), otherwise)


def begin(elements: Elements, read: Read, step: Expr) -> Expr:
    """Where a row begins that a step reads: in the buffer, where it is repeated."""
    if REPEATS.name not in elements.declared:
        return elements.address(read)
    name, dtype = f"{read.tensor}_begin_", elements.dtype(read.tensor)
    cells = Name(f"{read.tensor}_cells_")
    if not any(isinstance(one, Declare) and one.name == name for one in elements.repeated):
        count, c_type = Conditional(REPEATS, Name("block_"), ZERO), elements.c_type(read.tensor)
        found = Call(f"opwright_again_{dtype}", (Name(read.tensor), _strides(elements, read), SHORT, count, cells))
        elements.repeated += [
            DeclareArray(cells.name, c_type, CELLS),
            Declare(name, found, f"const {c_type} *", changes=True),
        ]
    return Binary("+", Name(name), Conditional(Binary("==", Name(name), cells), ZERO, elements.place(read)))


def _possible(elements: Elements) -> bool:
    """Whether a phase sets the cells of an output along a run, each from cells of the same place."""
    lane, parts = elements.lanes, elements.phase.parts
    if lane is None or lane.kind != "run" or len(parts) != 1 or len(parts[0].formulas) != 1 or elements.crossing:
        return False
    part, letter = parts[0], expr.Name(lane.name)
    stretched = {tensor.name for tensor in elements.op.inputs if tensor.broadcast or tensor.optional}
    reads = [part.target, *part.reads]
    types = {elements.dtype(read.tensor) for read in part.reads}
    roles = [elements.program.arrays[read.tensor].role for read in reads]
    return (
        elements.streams(part.target)
        and part.operator == "set"
        and part.letters == (lane.name,)
        and len(types) == 1
        and types != {"f16"}  # whose conversion takes longer than what each row begins with
        and roles == ["output", *["input"] * len(part.reads)]
        and all(read.indices == (letter,) for read in reads)
        and bool(stretched & {read.tensor for read in part.reads})
        and lane.name not in _outside(part, part.formulas[0])
    )


def _outside(part: Part, formula: Formula) -> frozenset[str]:
    """The names in a value but for those in indices of what it reads, and in conditions."""
    trees = [guard.tree for guard in part.where]
    return expr.names_outside_indices(formula.value).union(*map(expr.names, trees))


def _strides(elements: Elements, read: Read) -> Expr:
    (axis,) = elements.program.arrays[read.tensor].axes
    return Member(SIZES, f"{read.tensor}_{axis.name}")
