"""The kind of every symbol of an operation: an integer, a real, or one value per spatial axis.

In: an operation. Out: its symbols and their kinds. Nothing is derived here: these are the
types that the spec itself gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..memo import memoised
from . import expr
from .kinds import Kind, kind_of
from .model import Attribute, Let, Op
from .schema import Located


def spatial(dims: dict[str, Located], op: Op) -> tuple[str, ...]:
    """The axes of a tensor that stand for all spatial axes."""
    kinds = symbol_kinds(op)
    return tuple(
        axis for axis, extent in dims.items() if any(kinds[name].vector for name in expr.loose_names(extent.tree))
    )


def tells_rank(op: Op) -> bool:
    """Whether a required input has spatial axes, so that calls determine their number."""
    kinds = symbol_kinds(op)
    vectors = {symbol for symbol, kind in kinds.items() if kind.vector} - op.runs
    required = [tensor for tensor in op.data_inputs if not tensor.optional and tensor.when is None]
    extents = [
        extent for tensor in required for dims in tensor.dims_by_arrangement.values() for extent in dims.values()
    ]
    return any(expr.loose_names(extent.tree) & vectors for extent in extents)


@memoised
def symbol_kinds(op: Op) -> Mapping[str, Kind]:
    """Every symbol that expressions of a call may use. Let values are typed in order of dependence."""
    kinds = {dim.symbol: Kind("int", bool(dim.per_axis or dim.run)) for dim in op.dims.values()}
    kinds |= {symbol_of(a): _KINDS[a.type or ""] for a in op.attributes if has_symbol(a)}
    pending = {symbol: let for symbol, let in op.lets.items() if symbol not in kinds}
    while pending:
        ready = [s for s, let in pending.items() if all(expr.names(e.tree) <= kinds.keys() for e in formulas(let))]
        if not ready:
            break
        for symbol in ready:
            let = pending.pop(symbol)
            found = [kind_of(e.tree, kinds, e.at) for e in formulas(let)]
            kinds[symbol] = Kind("int", let.neutral is not None or any(kind.vector for kind in found))
    return MappingProxyType(kinds)


_KINDS = {
    "s64": Kind("int"),
    "s64[]": Kind("int", True),
    "f32[]": Kind("real", True),
    "f32": Kind("real"),
    "bool": Kind("bool"),
}


def has_symbol(attribute: Attribute) -> bool:
    """Whether expressions can name the value of an attribute."""
    roles = (attribute.shape_of, attribute.per, attribute.order_of, attribute.extents_of, attribute.blocks)
    return attribute.type in _KINDS and not any(roles) and not is_places(attribute)


def is_places(attribute: Attribute) -> bool:
    """Whether it is a list that gives the positions of a run's axes."""
    return attribute.locates is not None and attribute.type == "s64[]"


def symbol_of(attribute: Attribute) -> str:
    """The letter of an attribute in expressions: its symbol, or its own name."""
    return attribute.symbol or attribute.name or ""


def formulas(let: Let) -> tuple[Located, ...]:
    """The expressions of a named value."""
    return (let.value,) if let.value is not None else tuple(let.cases.values())
