"""What each field and list of an operation means to a comparison: the rule of its edits, and how they are classified.

In: the old and the new value. Out: the last word of a rule's id. A test finds fields that are
missing from the tables.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..language.expr import Name
from ..language.model import Attribute, Relation, Tensor
from ..language.schema import Located
from .commuted import alike
from .equality import Equality
from .rules import RULES
from .tree import MISSING, Path

Classify = Callable[[Equality, Any, Any, Any, Any], str]

# How a field changed, as the last word of the rule's id; empty if only the notation changed.
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")


def plain(sides: Equality, was: Any, now: Any, old: Any, new: Any) -> str:
    return "added" if was is None else "removed" if now is None else "changed"


def _changed(sides: Equality, was: Any, now: Any, old: Any, new: Any) -> str:
    """For fields without a proof: changed, whatever was added or removed."""
    return "changed"


def _raised(sides: Equality, was: Any, now: Any, old: Any, new: Any) -> str:
    return "raised" if (now or 0) > (was or 0) else "lowered"


def _low(sides: Equality, was: Any, now: Any, old: Any, new: Any) -> str:
    return "narrowed" if _bound(now, -1) > _bound(was, -1) else "widened"


def _high(sides: Equality, was: Any, now: Any, old: Any, new: Any) -> str:
    return "narrowed" if _bound(now, 1) < _bound(was, 1) else "widened"


def _bound(value: int | None, sign: int) -> float:
    return sign * math.inf if value is None else value


def _flag(sides: Equality, was: Any, now: Any, old: Any, new: Any) -> str:
    """`false` says what holds without the key."""
    return "" if bool(was) == bool(now) else "changed"


def _function(sides: Equality, was: Any, now: Any, old: Any, new: Any) -> str:
    """The name may be the one that the operation has without the key."""
    return "" if old.function == new.function else "changed"


def _page_name(sides: Equality, was: Any, now: Any, old: Any, new: Any) -> str:
    return "" if (was or old.name) == (now or new.name) else "changed"


def _absent(sides: Equality, was: Any, now: Any, old: Any, new: Any) -> str:
    """An omitted input reads as 0 without the key."""
    return "rewritten" if repr(float(was or 0)) == repr(float(now or 0)) else plain(sides, was, now, old, new)


def _need(sides: Equality, was: Any, now: Any, old: Any, new: Any) -> str:
    if isinstance(new, Attribute) and bool(was) == bool(now):
        return ""
    flag = now if not isinstance(new, Tensor) else not now
    return "required" if flag else "optional"


def _default(sides: Equality, was: Any, now: Any, old: Any, new: Any) -> str:
    """An added or removed default belongs to becoming optional or required; 1 and [1.0] are the same default."""
    if was is None or now is None:
        return "optional" if was is None else "required"
    was, now = (text.strip("[]") or text for text in (was, now))
    return "" if _NUMBER.fullmatch(was) and _NUMBER.fullmatch(now) and float(was) == float(now) else "changed"


def _number(sides: Equality, was: Any, now: Any, old: Any, new: Any) -> str:
    """0 and 0.0 are the same number; 0 and -0 are not."""
    return "" if repr(float(was)) == repr(float(now)) else "changed"


def _type(sides: Equality, was: Any, now: Any, old: Any, new: Any) -> str:
    return {("s64", "f32"): "widened", ("f32", "s64"): "narrowed"}.get((was, now), "changed")


def _length(sides: Equality, was: Any, now: Any, old: Any, new: Any) -> str:
    return "widened" if now == "any" else "narrowed"


def formula(sides: Equality, was: Any, now: Any, old: Any, new: Any) -> str:
    if was is None or now is None or was is MISSING or now is MISSING:
        return "added" if was is None or was is MISSING else "removed"
    return "rewritten" if sides.same_formula(was, now) else "changed"


def _extent(sides: Equality, was: Any, now: Any, old: Any, new: Any) -> str:
    """In steps, attributes that place axes and lists look for an extent that is a plain size."""
    word = formula(sides, was, now, old, new)
    stepped = sides.old.stepped or sides.new.stepped
    alone = [isinstance(extent, Located) and isinstance(extent.tree, Name) for extent in (was, now)]
    return "changed" if word == "rewritten" and stepped and alone[0] != alone[1] else word


def _steps(sides: Equality, was: Any, now: Any, old: Any, new: Any) -> str:
    return "rewritten" if was and now and sides.same_steps(was, now) else "changed"


def _condition(sides: Equality, was: Any, now: Any, old: Any, new: Any) -> str:
    if not isinstance(was, Located) or not isinstance(now, Located):
        return "changed"
    return "rewritten" if alike(was, now) else sides.order(was.tree, now.tree)


# Field to the stem of its rules and the classifier of its edits. {area}: of the list or map that has the item.
FIELDS: Mapping[str, tuple[str, Classify]] = {
    "Op.op": ("op-renamed", plain),
    "Op.function": ("op-function-changed", _function),
    "Op.revision": ("op-revision", _raised),
    "Op.summary": ("docs-summary", plain),
    "Op.description": ("docs-description", plain),
    "Op.deprecated": ("op-deprecation", plain),
    "RankRange.min": ("rank-range", _low),
    "RankRange.max": ("rank-range", _high),
    "Dim.symbol": ("dim-symbol-renamed", plain),
    "Dim.per_axis": ("dim-axes", _flag),
    "Dim.run": ("dim-axes", _flag),
    "Dim.min": ("dim-minimum", _raised),
    "Dim.typical": ("dim-typical", plain),
    "Dim.summary": ("docs-summary", plain),
    "Attribute.use": ("format-use", plain),
    "Attribute.name": ("attribute-parameter-renamed", plain),
    "Attribute.page_name": ("attribute-page", _page_name),
    "Attribute.symbol": ("attribute-symbol-renamed", plain),
    "Attribute.type": ("attribute-type", _type),
    "Attribute.required": ("attribute-need", _need),
    "Attribute.default": ("attribute-default", _default),
    "Attribute.min": ("attribute-range", _low),
    "Attribute.max": ("attribute-range", _high),
    "Attribute.length": ("attribute-length", _length),
    "Attribute.surplus": ("attribute-surplus", plain),
    "Attribute.neutral": ("attribute-neutral", plain),
    "Attribute.shape_of": ("attribute-shape", plain),
    "Attribute.locates": ("attribute-shape", plain),
    "Attribute.dtype_of": ("attribute-shape", plain),
    "Attribute.per": ("attribute-shape", plain),
    "Attribute.order_of": ("attribute-shape", plain),
    "Attribute.extents_of": ("attribute-shape", plain),
    "Attribute.fills": ("attribute-shape", _changed),
    "Attribute.keeps": ("attribute-shape", _changed),
    "Attribute.blocks": ("attribute-shape", _changed),
    "Attribute.summary": ("docs-summary", plain),
    "Attribute.source": ("source-citation", plain),
    "Attribute.reason": ("docs-reason", plain),
    "AllowedValue.value": ("attribute-value-renamed", plain),
    "RefusedValue.value": ("attribute-refusal", plain),
    "RefusedValue.discrepancy": ("attribute-refusal", plain),
    "RefusedValue.say": ("attribute-refusal", plain),
    "Arrangement.summary": ("docs-summary", plain),
    "Tensor.name": ("{area}-tensor-renamed", plain),
    "Tensor.parameter": ("input-parameter", plain),
    "Tensor.optional": ("input-need", _need),
    "Tensor.layout": ("{area}-layout", plain),
    "Tensor.view": ("{area}-view", plain),
    "Tensor.shape_of": ("input-shape", plain),
    "Tensor.absent": ("semantics-finish", _absent),
    "Tensor.when": ("{area}-axes", _changed),
    "Tensor.broadcast": ("{area}-axes", _changed),
    "Tensor.broadcast_if": ("{area}-axes", _changed),
    "Tensor.broadcast_as": ("{area}-axes", _changed),
    "Tensor.may_lack": ("{area}-axes", _changed),
    "Tensor.joined": ("{area}-axes", _changed),
    "Tensor.packed": ("{area}-axes", _changed),
    "Tensor.summary": ("docs-summary", plain),
    "Tensor.source": ("source-citation", plain),
    "Let.use": ("format-use", plain),
    "Let.value": ("{area}-formula", formula),
    "Let.by": ("{area}-formula", plain),
    "Let.neutral": ("{area}-neutral", plain),
    "Let.summary": ("docs-summary", plain),
    "Let.source": ("source-citation", plain),
    "Constraint.use": ("format-use", plain),
    "Constraint.id": ("constraint-rule-renamed", plain),
    "Constraint.expr": ("constraint-condition", _condition),
    "Constraint.say": ("constraint-message", plain),
    "Constraint.argument": ("constraint-argument", plain),
    "Constraint.nearest": ("constraint-nearest", formula),
    "Constraint.source": ("source-citation", plain),
    "GroupClass.use": ("format-use", plain),
    "GroupClass.name": ("class-kernels-renamed", plain),
    "GroupClass.when": ("class-condition", formula),
    "GroupClass.summary": ("docs-summary", plain),
    "Semantics.init": ("semantics-edge", _number),
    "Semantics.reduce": ("semantics-sum", formula),
    "Semantics.steps": ("semantics-sum", _steps),
    **{f"Step.{part}": ("semantics-sum", _changed) for part in ("do", "where", "by", "cases")},
    "Semantics.finish": ("semantics-finish", formula),
    "Op.normal_form": ("form-kernels", plain),
    "Relation.equals": ("relation-{claim}", plain),
    "Relation.adjoint": ("relation-{claim}", plain),
    "Relation.in": ("relation-{claim}", plain),
    "Relation.gradient": ("relation-{claim}", plain),
    "Relation.gradient_of": ("relation-{claim}", plain),
    "Relation.of": ("relation-{claim}", plain),
    "Relation.with": ("relation-{claim}-changed", plain),
    "Relation.formats": ("relation-{claim}-changed", plain),
    "Aten.aten": ("torch-call", plain),
    "Aten.when": ("torch-call-changed", plain),
    "Aten.arguments": ("torch-call-changed", plain),
    "Aten.words": ("torch-call-changed", plain),
    "Aten.gives": ("torch-call-changed", plain),
    "Onnx.node": ("onnx-node", plain),
    "Onnx.since": ("onnx-node", plain),
    "Onnx.until": ("onnx-node-changed", plain),
    "Onnx.when": ("onnx-node-changed", plain),
    "Onnx.arguments": ("onnx-node-changed", plain),
    "Onnx.words": ("onnx-node-changed", plain),
    "Onnx.ignores": ("onnx-node-changed", plain),
    "Onnx.gives": ("onnx-node-changed", plain),
    "Onnx.folds": ("onnx-node-changed", plain),
    "Onnx.inferred_shape": ("onnx-node-changed", plain),
    "Onnx.mirrors": ("onnx-node-changed", plain),
    "Discrepancy.use": ("format-use", plain),
    "Discrepancy.id": ("discrepancy-evidence", plain),
    "Discrepancy.page": ("discrepancy-evidence", plain),
    "Discrepancy.library": ("discrepancy-evidence", plain),
    "Discrepancy.ruling": ("discrepancy-ruling", plain),
    "Discrepancy.concerns": ("discrepancy-evidence", plain),
    "Discrepancy.why": ("discrepancy-evidence", plain),
}


@dataclass(frozen=True)
class Many:
    """A list or map: the stem of `-added` and `-removed`, the rules of a rename and of a new order, the items' area.

    `words` names the two changes if they are not `added` and `removed`.
    """

    stem: str
    renamed: str = ""
    order: str = ""
    area: str = ""
    words: tuple[str, str] = ("added", "removed")


VALUES = {"let": "value", "padding": "padding", "shape": "shape"}
MANY: Mapping[str, Many] = {
    "Op.source": Many("source-citation", order="source-citation-changed"),
    "Op.dims": Many("dim-size", "dim-role-renamed", "dim-order-changed"),
    "Op.attributes": Many("attribute-{need}", "attribute-parameter-renamed", "attribute-order-changed"),
    "Op.layouts": Many("layout-table", order="format-text-changed"),
    "Op.inputs": Many("input-{need}", "input-tensor-renamed", "input-order-changed", "input"),
    "Op.outputs": Many("output-tensor", "output-tensor-renamed", "output-order-changed", "output"),
    "Op.dtypes": Many("dtypes-row", order="dtypes-row-reordered"),
    **{
        f"Op.{section}": Many(f"{area}-name", "value-name-renamed", "value-order-changed", area)
        for section, area in VALUES.items()
    },
    "Op.constraints": Many("constraint-rule", "constraint-rule-renamed", "constraint-order-changed"),
    "Op.classes": Many("class-kernels", "class-kernels-renamed", "class-order-changed"),
    "Op.relations": Many("relation-{claim}", order="relation-order-changed"),
    "Op.torch": Many("torch-call", order="torch-order-changed"),
    "Op.onnx": Many("onnx-node", order="onnx-order-changed"),
    "Op.discrepancies": Many(
        "discrepancy-case", "discrepancy-evidence-changed", "discrepancy-order-changed", words=("opened", "closed")
    ),
    "Attribute.values": Many("{values}", "attribute-value-renamed", "attribute-value-reordered"),
    "Attribute.refuse": Many("attribute-refusal", order="attribute-refusal-changed"),
    "AllowedValue.aliases": Many("attribute-alias", order="format-text-changed"),
    "Tensor.dims": Many("{area}-axes", order="{area}-axes-reordered"),
    "Tensor.arrangements": Many("{area}-arrangement", "{area}-arrangement-renamed", "{area}-arrangement-reordered"),
    "Arrangement.dims": Many("{area}-axes", order="{area}-axes-reordered"),
    "Arrangement.index": Many("{area}-index-changed", order="{area}-axes-reordered"),
    "Let.cases": Many("{area}-formula-changed", order="format-text-changed"),
    "GroupClass.let": Many("class-sizes-changed", order="format-text-changed"),
    "Semantics.ranges": Many("semantics-range", "semantics-range-renamed", "semantics-order-changed"),
    "Semantics.where": Many("semantics-guard", order="semantics-guard-rewritten"),
}
# Fields that only group other ones.
INNER = ("Op.spatial_rank", "Op.semantics")
# The stem of an item of a map that is not a Node.
LEAVES: Mapping[str, tuple[str, Classify]] = {
    "Tensor.dims": ("{area}-axes", _extent),
    "Arrangement.dims": ("{area}-axes", formula),
    "Arrangement.index": ("{area}-index", formula),
    "Let.cases": ("{area}-formula", formula),
    "GroupClass.let": ("class-sizes-changed", plain),
    "Semantics.ranges": ("semantics-range", formula),
}
# Lists whose entries are identified by their text alone, so a changed entry looks like a new one.
REPLACED: Mapping[Path, tuple[str, Classify]] = {
    ("source",): ("source-citation", plain),
    ("semantics", "where"): ("semantics-guard", formula),
}
# `padding-formula` is called a rule, because users know it as the rule of auto_pad.
_STEMS = {"padding-formula": "padding-rule"}


def kind_of(was: Any, now: Any) -> str:
    """`required` or `optional`; for a removal, what callers know the item as."""
    if now is MISSING:
        return "parameter" if isinstance(was, Attribute) else "tensor"
    needed = now.required if isinstance(now, Attribute) else not now.optional
    return "required" if needed else "optional"


def claim_of(*relations: Any) -> str:
    """`gradient` if PyTorch's operators use the relation for differentiation on either side, else `claim`."""
    found = [relation for relation in relations if isinstance(relation, Relation)]
    return "gradient" if any(one.adjoint or one.gradient or one.gradient_of for one in found) else "claim"


def stem_of(stem: str, area: str, *sides: Any) -> str:
    """The stem of a rule; `sides` are the items on both sides, or the owners of a field."""
    stem = stem.replace("{area}", area).replace("{claim}", claim_of(*sides))
    for general, own in _STEMS.items():
        stem = stem.replace(general, own)
    return stem


def rule_of(stem: str, word: str) -> str:
    """The rule of a stem for a change; `-changed` if the stem has no rule for this change."""
    if stem in RULES:
        return stem
    if stem == "attribute-default" and word in ("required", "optional"):
        return f"attribute-need-{word}"
    return next(rule for rule in (f"{stem}-{word}", f"{stem}-changed") if rule in RULES)
