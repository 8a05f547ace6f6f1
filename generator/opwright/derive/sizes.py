"""The facts of a call that kernels need: the struct of sizes that every kernel of an operation takes.

In: an operation. Out: its members, in a fixed order: sizes of tensors, then all values that extents and semantics name.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..language import expr
from ..language.model import SPATIAL_AXES, Op
from ..language.source import Prose
from ..language.types import symbol_kinds, symbol_of
from ..memo import memoised
from .rules.missing_axes import ABSENT, MissingAxes, on_missing_axes


def vector_axes(op: Op) -> tuple[str, ...]:
    """The names of an operation's spatial axes in C: the last of d, h, w."""
    return SPATIAL_AXES[3 - op.spatial_rank.max :]


@dataclass(frozen=True)
class SizeField:
    """A member of the struct of sizes that every kernel of an operation takes.

    Its summary is a name of the spec, not a description: an edited description changes no C.
    """

    name: str
    length: int
    c_type: str
    neutral: int
    summary: Prose


@memoised
def size_fields(op: Op) -> tuple[SizeField, ...]:
    """The members of the struct: every size of a tensor, and every value that extents and the semantics use."""
    kinds = symbol_kinds(op)
    semantics = op.semantics
    trees = [located.tree for located in (*semantics.ranges.values(), *semantics.where)]
    trees += [semantics.assignment.target, semantics.assignment.value]
    trees += [semantics.finish.tree] if semantics.finish else []
    extents = (dims.values() for tensor in op.tensors for dims in tensor.dims_by_arrangement.values())
    trees += [extent.tree for some in extents for extent in some]
    mentioned = frozenset().union(*(expr.names(tree) for tree in trees))
    groups = [value.tree for group in op.classes for value in group.let.values()]
    mentioned |= frozenset().union(*(expr.names(tree) for tree in groups))
    form = op.normal_form
    mentioned |= {form.groups, form.stride, form.dilation, form.pad} if form else set()
    fields = []
    dims = {dim.symbol: (1, role) for role, dim in op.dims.items()}
    attributes = {symbol_of(a): (a.neutral or 0, a.name or "") for a in op.attributes if a.type != "string"}
    lets = {symbol: (let.neutral or 0, let.use or symbol) for symbol, let in op.lets.items()}
    for symbol, (neutral, summary) in {**lets, **attributes, **dims}.items():
        if symbol in dims or symbol in mentioned:
            vector = kinds[symbol].vector
            c_type = "double" if kinds[symbol].base == "real" else "int64_t"
            length = op.spatial_rank.max if vector else 0
            fields.append(SizeField(symbol, length, c_type, neutral, Prose(summary)))
    fields.sort(key=lambda found: (list(dims).index(found.name) if found.name in dims else len(dims), found.name))
    if uses_absent(op):
        summary = Prose("1 on the spatial axes that the call does not have")
        fields.append(SizeField(ABSENT, op.spatial_rank.max, "int64_t", 1, summary))
    for tensor in op.tensors:
        if len(tensor.arrangements) > 1:
            words = Prose(", ".join(f"{number} {name}" for number, name in enumerate(tensor.arrangements)))
            fields.append(SizeField(f"{tensor.name}_arrangement", 0, "int64_t", 0, words))
    return tuple(fields)


def uses_absent(op: Op) -> bool:
    """Whether some kernel needs to know which spatial axes a call does not have."""
    missing = MissingAxes(op)
    return any(not missing.fits(tree, value) for tree, value in on_missing_axes(op))
