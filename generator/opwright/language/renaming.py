"""Renames the names of a spec wherever they occur.

In: a piece of the model. Out: a copy with a name replaced; nothing is changed in place.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from .entries import AXIS
from .model import Arrangement, Aten, Onnx, Op, Relation, Tensor
from .schema import Assignment, Located, Text
from .source import Mark
from .structs import Node

# Maps whose keys are not names of the operation: names of another operation, and axes.
FOREIGN = {(Relation, "with_"), (Relation, "formats"), (Tensor, "dims"), (Arrangement, "dims"), (Arrangement, "index")}
# Fields that contain no names of the operation, and maps whose values do not.
STRANGE = {(Aten, "aten"), (Aten, "when"), (Onnx, "node"), (Onnx, "when"), (Onnx, "ignores")}
STRANGE_VALUES = {(Aten, "arguments"), (Onnx, "arguments")}
FORMULAS = {(Onnx, "gives")}  # texts that name tensors and attributes within a formula
T = TypeVar("T")


def rename(value: T, old: str, new: str) -> T:
    """A copy with a name replaced wherever it occurs; prose is left alone."""
    result: Any = _rename(value, old, new)
    return result  # type: ignore[no-any-return]


def _rename(value: Any, old: str, new: str) -> Any:
    if isinstance(value, str):
        return new if value == old else value
    if isinstance(value, (Located, Assignment)):
        text = _within(value.text, old, new)
        trees = {
            f.name: _rename(getattr(value, f.name), old, new)
            for f in dataclasses.fields(value)
            if f.name not in ("text", "op")  # `sum` is the name of an operator, too
        }
        return dataclasses.replace(value, **trees, text=text)
    if isinstance(value, Node):
        changed: dict[str, Any] = {}
        for field in dataclasses.fields(value):  # type: ignore[arg-type]
            here = getattr(value, field.name)
            kind = field.metadata.get("kind")
            prose = isinstance(kind, Text) and field.name != "default"
            if (type(value), field.name) in STRANGE:
                continue
            if (type(value), field.name) in STRANGE_VALUES:
                changed[field.name] = {_rename(name, old, new): entry for name, entry in here.items()}
                continue
            if (type(value), field.name) in FORMULAS:
                changed[field.name] = tuple(_within(text, old, new) for text in here)
                continue
            if kind is None or prose or AXIS in (kind, getattr(kind, "item", None)):  # an axis belongs to its tensor
                continue
            if field.name == "layouts":
                changed[field.name] = {
                    _rename(name, old, new): {_rename(word, old, new): axes for word, axes in words.items()}
                    for name, words in here.items()
                }
                continue
            foreign = (type(value), field.name) in FOREIGN
            changed[field.name] = (
                {k: _rename(v, old, new) for k, v in here.items()} if foreign else _rename(here, old, new)
            )
        return dataclasses.replace(value, **changed)  # type: ignore[type-var]
    if isinstance(value, Mark):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):  # an expression
        return type(value)(**{f.name: _rename(getattr(value, f.name), old, new) for f in dataclasses.fields(value)})
    if isinstance(value, Mapping):
        return {_rename(key, old, new): _rename(entry, old, new) for key, entry in value.items()}
    return tuple(_rename(entry, old, new) for entry in value) if isinstance(value, tuple) else value


def _within(text: str, old: str, new: str) -> str:
    return re.sub(rf"\b{re.escape(old)}\b", new, text)


def rename_axis(op: Op, tensor: str, old: str, new: str) -> Op:
    """Rename an axis of a tensor, in all tensors that share its layout."""
    layout = next((one.layout for one in op.tensors if one.name == tensor), None)

    def keys(entries: Mapping[str, Any]) -> dict[str, Any]:
        return {new if key == old else key: entry for key, entry in entries.items()}

    def renamed(one: Tensor) -> Tensor:
        if one.name != tensor and (layout is None or one.layout != layout):
            return one
        made = {n: dataclasses.replace(a, dims=keys(a.dims), index=keys(a.index)) for n, a in one.arrangements.items()}
        return dataclasses.replace(
            one,
            dims=keys(one.dims),
            arrangements=made,
            broadcast=tuple(new if axis == old else axis for axis in one.broadcast),
            may_lack=tuple(new if axis == old else axis for axis in one.may_lack),
            joined=new if one.joined == old else one.joined,
        )

    words = op.layouts.get(layout or "", {})
    tables = {word: tuple(new if axis == old else axis for axis in order) for word, order in words.items()}
    return dataclasses.replace(
        op,
        inputs=tuple(map(renamed, op.inputs)),
        outputs=tuple(map(renamed, op.outputs)),
        layouts={**op.layouts, **({layout: tables} if layout else {})},
    )
