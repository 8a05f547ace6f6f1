"""An operation whose axes are as long as its indices reach, where its spec leaves that to each call.

In: an operation of steps, such as `y[n, g * 32 + k] = x[n, g * 32 + k] * s[n, g]` with an axis of D cells for
`g * 32 + k`, or as `y[n, d] = x[n, d] * s[n, floor(d / 32)]`. Out: the operation with `G * 32` for D, or None where
nothing is left to calls. It refuses other calls by its rules on shapes. Of its sizes can be proven what cannot be of
the operation: that indices lie inside, and walk whole axes. Axes that windows are reflected into have so many cells
that no window leaves them on the other side, if sums are products then: 4x16x30x31 f32 by 24 windows of 3x3 take 0.04
of their time (Intel Xeon, gcc 12.2, one thread).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from ...language import expr
from ...language.expr import Binary, Call, Expr, Name, Number, Read
from ...language.model import Op
from ...language.schema import Located
from ...language.source import SpecInvalid
from ...language.spelling import spell
from ...memo import memoised
from ..algebra.poly import ONE, NotPolynomial, Poly, affine, polynomial
from ..algebra.slopes import spelled
from ..call_plan import plan
from ..phases import staged
from ..program import Program, program
from .accumulating import loose_axes

SUFFIX = "_fitting_"  # of the function; no name of a spec ends like it
# Of tensors whose axes need not be as long as their sizes: where these are others, calls may mean something else.
NONE = ("joined", "packed", "broadcast", "broadcast_if", "broadcast_as", "may_lack")


@memoised
def fitting(op: Op) -> Op | None:
    """The operation for calls whose axes end where its indices do."""
    extents, least = fitting_extents(op), fitting_least(op)
    if not extents and not least:
        return None
    made = _with(op, extents, least)
    try:
        plan(made)
    except SpecInvalid:  # of extents that no call tells
        return None
    return made


def fitting_sizes(op: Op) -> str:
    """What it says of sizes."""
    ends = [f"{size} = {spell(extent)}" for size, extent in fitting_extents(op).items()]
    return ", ".join(ends + [f"{size} >= {extent}" for size, extent in fitting_least(op).items()])


@memoised
def fitting_extents(op: Op) -> dict[str, Expr]:
    """By size of axes that indices may leave, how far they reach."""
    free, reached = _free(op), dict[str, Poly]()
    reaching = (*_reached(program(op), free), *_numbered(program(op), free)) if free else ()
    for symbol, extent in reaching:
        more = extent - reached.get(symbol, extent)
        if (more.constant or 0) >= 0:
            reached[symbol] = extent
    return {symbol: spelled(extent) for symbol, extent in reached.items() if _may_be(extent, reached)}


@memoised
def fitting_least(op: Op) -> dict[str, int]:
    """By size of axes that windows are reflected into, the extent from which they lie inside, if they are products."""
    free, least = _free(op) - fitting_extents(op).keys(), dict[str, int]()
    if not free:
        return {}
    found = program(op)
    for read in (read for part in found.parts if part.operator == "sum" for read in (part.target, *part.reads)):
        for number in loose_axes(found, read):
            extent, index = found.arrays[read.tensor].axes[number].extent, read.indices[number]
            if isinstance(index, Number):  # one cell of an axis, as of real parts
                enough = int(index.value) + 1
            else:
                enough = found.inside_from(read.tensor, number, index)
            if enough > 1 and isinstance(extent, Name) and extent.id in free:
                least[extent.id] = max(enough, least.get(extent.id, 0))
    return least if least and _products(_with(op, {}, least)) > _products(op) else {}


def _products(op: Op) -> int:
    return sum(phase.contraction is not None for phase in staged(op).phases)


def _free(op: Op) -> set[str]:
    """The sizes that calls alone tell; none of programs for some calls, or where axes may be others than sizes say."""
    if not op.stepped or op.function.endswith(SUFFIX):
        return set()
    if any(getattr(tensor, key) for tensor in op.tensors for key in NONE):
        return set()
    told = {*_texts(op.attributes), *op.lets}
    sizes = {role: dim.symbol for role, dim in op.dims.items() if not (dim.per_axis or dim.run)}
    return {symbol for role, symbol in sizes.items() if told.isdisjoint((role, symbol))}


def _reached(found: Program, free: set[str]) -> Iterator[tuple[str, Poly]]:
    """Sizes of axes that indices may leave, and the extents that they need."""
    reads = dict.fromkeys(read for part in found.parts for read in (part.target, *part.reads))
    for read in reads:
        for number in loose_axes(found, read):
            axis = found.arrays[read.tensor].axes[number]
            extent = _extent(found, read, number) if axis.kind == "one" else None
            symbol = axis.extent.id if isinstance(axis.extent, Name) else ""
            if extent is not None and symbol in free:
                yield symbol, extent
            grouped = _grouped(found, read.indices[number], axis.extent) if axis.kind == "one" else None
            if grouped is not None and grouped[0] in free:
                yield grouped


def _numbered(found: Program, free: set[str]) -> Iterator[tuple[str, Poly]]:
    """Sizes of axes of outputs whose first cells steps write one by one, as of complex numbers, and how many."""
    cells = dict[str, set[Expr]]()
    for target in (part.target for part in found.parts if found.arrays[part.target.tensor].role == "output"):
        for axis, index in zip(found.arrays[target.tensor].axes, target.indices, strict=True):
            if isinstance(axis.extent, Name) and axis.kind == "one" and axis.extent.id in free:
                cells.setdefault(axis.extent.id, set()).add(index)
    for symbol, some in cells.items():
        if len(some) > 1 and some == {Number(cell) for cell in range(len(some))}:
            yield symbol, Poly.number(len(some))


def _grouped(found: Program, index: Expr, groups: Expr) -> tuple[str, Poly] | None:
    """The size of the axis that a letter walks of which an index is the group, `floor(c / 32)`, if groups fill it."""
    quotient = index.arguments[0] if isinstance(index, Call) and index.function == "floor" else None
    if not isinstance(quotient, Binary) or quotient.op != "/" or not isinstance(quotient.left, Name):
        return None
    walked = found.letters.get(quotient.left.id)
    if walked is None or not isinstance(walked.extent, Name) or walked.kind != "one":
        return None
    try:
        return walked.extent.id, polynomial(groups) * polynomial(quotient.right)
    except NotPolynomial:
        return None


def _extent(found: Program, read: Read, number: int) -> Poly | None:
    """One more than the last value of an index that begins at 0 or later; None of other indices."""
    index = read.indices[number]
    letters = [letter for letter in found.letters.values() if letter.name in expr.names(index)]
    try:
        linear = affine(index, [letter.name for letter in letters])
        last = linear.offset
        for letter in letters:
            last = last + linear.coefficient(letter.name) * (polynomial(letter.extent) - ONE)
    except NotPolynomial:
        return None
    forward = _only_adds(linear.offset) and all(_only_adds(factor) for _, factor in linear.coefficients)
    return last + ONE if letters and forward else None


def _only_adds(found: Poly) -> bool:
    """Whether nothing is subtracted or divided."""
    return all(factor > 0 and all(power > 0 for _, power in monomial) for monomial, factor in found.terms)


def _may_be(extent: Poly, others: Mapping[str, Poly]) -> bool:
    """Whether an extent is a number, or made of several cells for one of a size; of other sizes, calls are few.

    Such as another size alone, which would have its name, or some cells less than a multiple, where groups lie apart.
    """
    multiples = [factor for monomial, factor in extent.terms if monomial]
    several = len(multiples) != 1 or multiples[0] > 1 or any(len(m) > 1 or m[0][1] > 1 for m, _ in extent.terms if m)
    return several and _only_adds(extent) and extent.symbols.isdisjoint(others)


def _texts(node: Any) -> Iterator[str]:
    """All texts of a node that are no expressions: sizes and roles that they name have to stay."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, Mapping):
        for name, value in node.items():
            yield from (name, *_texts(value))
    elif isinstance(node, (tuple, list)):
        for value in node:
            yield from _texts(value)
    elif dataclasses.is_dataclass(node) and not isinstance(node, (Located, expr.Expr)):
        for field in dataclasses.fields(node):
            yield from _texts(getattr(node, field.name))


def _with(op: Op, extents: Mapping[str, Expr], least: Mapping[str, int]) -> Op:
    dims = {role: dim for role, dim in op.dims.items() if dim.symbol not in extents}
    longer = {role: max(dim.min or 0, least[dim.symbol]) for role, dim in dims.items() if dim.symbol in least}
    dims |= {role: dataclasses.replace(dims[role], min=extent) for role, extent in longer.items()}
    made: Op = _replaced(dataclasses.replace(op, dims={}), extents)
    return dataclasses.replace(made, dims=dims, function_=op.function + SUFFIX)


def _replaced(node: Any, extents: Mapping[str, Expr]) -> Any:
    """A node with sizes replaced in all of its expressions."""
    if isinstance(node, expr.Expr):
        return expr.substitute(node, extents)
    if isinstance(node, (tuple, list)):
        return type(node)(_replaced(value, extents) for value in node)
    if isinstance(node, dict):
        return {name: _replaced(value, extents) for name, value in node.items()}
    if not dataclasses.is_dataclass(node) or isinstance(node, type):
        return node
    own = {field.name: getattr(node, field.name) for field in dataclasses.fields(node)}
    made = {name: _replaced(value, extents) for name, value in own.items()}
    changed = {name: value for name, value in made.items() if value is not own[name] and value != own[name]}
    return dataclasses.replace(node, **changed) if changed else node
