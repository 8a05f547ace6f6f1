"""The links from an operation to its gradients: the operations that compute them, and their arguments.

In: an operation. Out: tables for the templates under templates/python, in names of the spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..language.expr import names
from ..language.model import Aten, Op, Relation
from ..language.types import symbol_kinds


@dataclass(frozen=True)
class RelationView:
    """An operation that computes a gradient, the input, and the correspondence of tensors and words.

    For a derived gradient the mapping is empty: its tensors have the same names.
    """

    kind: str
    op: str
    of: str
    tensors: Mapping[str, str]
    words: Mapping[str, str]


@dataclass(frozen=True)
class Links:
    """What determines the order of axes and shapes of tensors, what is added to the output, and gradients.

    `laid_out`: by tensor, the string attribute that orders its axes and the axis that stands for several; empty if
    other attributes count axes. `states`: by attribute, the output whose shape it states. `added`: the input that is
    added to the output, and the axis of the output that it runs along.
    """

    laid_out: Mapping[str, tuple[str, str]]
    states: Mapping[str, str]
    added: Mapping[str, str]
    relations: tuple[RelationView, ...]
    torch: tuple[Aten, ...]


def links(op: Op) -> Links:
    """The links of an operation."""
    return Links(
        laid_out=_laid_out(op),
        states={a.name or "": a.shape_of for a in op.attributes if a.shape_of},
        added=_added(op),
        relations=tuple(found for relation in op.relations if (found := _relation(relation))),
        torch=op.torch,
    )


def _laid_out(op: Op) -> dict[str, tuple[str, str]]:
    if any(attribute.locates or attribute.order_of for attribute in op.attributes):
        return {}
    words = {attribute.name for attribute in op.attributes if attribute.type == "string"}
    vectors = {symbol for symbol, kind in symbol_kinds(op).items() if kind.vector}
    found = {}
    for tensor in op.tensors:
        dims = tensor.dims or next((arrangement.dims for arrangement in tensor.arrangements.values()), {})
        wide = [axis for axis, extent in dims.items() if names(extent.tree) & vectors]
        if tensor.layout in words and len(wide) <= 1:
            found[tensor.name] = (tensor.layout or "", "".join(wide))
    return found


def _added(op: Op) -> dict[str, str]:
    bias = op.normal_form.bias if op.normal_form else None
    if bias is None:
        return {}
    (channels,) = (extent.tree for extent in op.tensor(bias).dims.values())
    return {bias: next(axis for axis, extent in op.output.dims.items() if extent.tree == channels)}


def _relation(relation: Relation) -> RelationView | None:
    if relation.gradient_of:
        return RelationView("gradient_of", relation.gradient_of, "", {}, {})
    other = relation.adjoint or relation.gradient
    if other is None:
        return None
    kind, of = ("adjoint", relation.in_) if relation.adjoint else ("gradient", relation.of)
    return RelationView(kind, other, of or "", relation.with_, relation.formats)
