"""Of which kind every symbol of an operation is: an integer, a real, or one value per spatial axis.

In: an operation. Out: its symbols and their kinds, in the words of expr.Kind. Nothing is derived here: these are the
types that the spec itself gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..memo import kept
from . import expr
from .model import Attribute, Let, Op
from .schema import Located


def spatial(dims: dict[str, Located], op: Op) -> tuple[str, ...]:
    """The axes of a tensor that stand for all spatial axes."""
    kinds = symbol_kinds(op)
    return tuple(axis for axis, extent in dims.items() if any(kinds[name].vector for name in expr.names(extent.tree)))


@kept
def symbol_kinds(op: Op) -> Mapping[str, expr.Kind]:
    """Every symbol that expressions of a call may use. Let values are typed in the order of their dependence."""
    kinds = {dim.symbol: expr.Kind("int", bool(dim.per_axis)) for dim in op.dims.values()}
    for attribute in op.attributes:
        kind = {"s64": expr.Kind("int"), "s64[]": expr.Kind("int", True), "f32": expr.Kind("real")}.get(
            attribute.type or ""
        )
        if kind and not attribute.shape_of:
            kinds[symbol_of(attribute)] = kind
    pending = {symbol: let for symbol, let in op.lets.items() if symbol not in kinds}
    while pending:
        ready = [s for s, let in pending.items() if all(expr.names(e.tree) <= kinds.keys() for e in formulas(let))]
        if not ready:
            break
        for symbol in ready:
            let = pending.pop(symbol)
            found = [expr.kind_of(e.tree, kinds, e.at) for e in formulas(let)]
            kinds[symbol] = expr.Kind("int", let.neutral is not None or any(kind.vector for kind in found))
    return MappingProxyType(kinds)


def symbol_of(attribute: Attribute) -> str:
    """The letter of an attribute in expressions: its symbol, or its own name."""
    return attribute.symbol or attribute.name or ""


def formulas(let: Let) -> tuple[Located, ...]:
    """The expressions of a named value."""
    return (let.value,) if let.value is not None else tuple(let.cases.values())
