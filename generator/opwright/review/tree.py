"""A model as a tree that can be compared, edited and renamed, without knowledge of rules.

In: frozen dataclasses of model.py. Out: new ones; nothing is changed in place. A path leads from an operation to a
value: names of fields, and `Entry` for an item of a map or of a list, by its identity.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..language import expr
from ..language.hashing import canonical
from ..language.model import (
    AllowedValue,
    Aten,
    Attribute,
    Constraint,
    Discrepancy,
    GroupClass,
    Onnx,
    RefusedValue,
    Relation,
    Tensor,
)
from ..language.renaming import rename as rename
from ..language.schema import Assignment, Located, place
from ..language.source import Mark
from ..language.structs import Node

MISSING: Any = dataclasses.make_dataclass("Missing", [], frozen=True)()
# The field that identifies an item of a list.
IDENTITY: Mapping[type, str] = {
    Attribute: "name", AllowedValue: "value", RefusedValue: "value", Tensor: "name", Constraint: "id",
    GroupClass: "name", Discrepancy: "id",
}  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """A step of a path: the item of a map or of a list with this identity."""

    key: Any

    def __str__(self) -> str:
        return self.key if isinstance(self.key, str) else "/".join(map(str, self.key))


Path = tuple["str | Entry", ...]


def path_text(path: Path) -> str:
    return ".".join(step.rstrip("_") if isinstance(step, str) else str(step) for step in path)


def identity(item: Any) -> Any:
    """The identity of an item of a list."""
    if type(item) in IDENTITY:
        return getattr(item, IDENTITY[type(item)])
    if isinstance(item, Relation):
        kind = next((k for k in ("equals", "adjoint", "gradient", "gradient_of") if getattr(item, k)), "equals")
        return (kind, getattr(item, kind) or "", item.in_ or item.of or "")
    if isinstance(item, Aten):
        return (item.aten, *(f"{name}={value}" for name, value in sorted(item.when.items())))
    if isinstance(item, Onnx):
        conditions = {**item.when, **item.words}
        return (item.node, f"since={item.since}", *(f"{name}={value}" for name, value in sorted(conditions.items())))
    if isinstance(item, Mapping):  # a row of data types: identified by its inputs
        return tuple(str(dtype) for name, dtype in sorted(item.items()) if name != "accumulate")
    return item.text if isinstance(item, Located) else item


def items(collection: Any) -> dict[Any, Any]:
    """The items of a map or of a list by their identity, in order."""
    if isinstance(collection, Mapping):
        return dict(collection)
    return {identity(item): item for item in collection or ()}


def exact(value: Any) -> Any:
    """Like hashing.canonical, plus the text of formulas: equal only if no output can differ."""
    if isinstance(value, (Located, Assignment)):
        return [canonical(value), value.text]
    if isinstance(value, Node):
        fields = [field for field in dataclasses.fields(value) if field.compare]  # type: ignore[arg-type]
        return [type(value).__name__, *(exact(getattr(value, field.name)) for field in fields)]
    if isinstance(value, Mapping):
        return [[str(key), exact(entry)] for key, entry in value.items()]
    if isinstance(value, (tuple, list)):
        return [exact(entry) for entry in value]
    return canonical(value)


def same(one: Any, other: Any) -> bool:
    """No output can differ; quick for what both sides share."""
    return one is other or exact(one) == exact(other)


def get(root: Any, path: Path) -> Any:
    """The value at a path; MISSING if there is none."""
    for step in path:
        if root is MISSING or root is None:
            return MISSING
        root = getattr(root, step) if isinstance(step, str) else items(root).get(step.key, MISSING)
    return root


def put(root: Any, path: Path, value: Any) -> Any:
    """A copy with another value at a path; MISSING removes the item, a new item goes to the end."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, str):
        return dataclasses.replace(root, **{step: put(getattr(root, step), rest, value)})
    found = items(root)
    inner = put(found.get(step.key, MISSING), rest, value)
    if inner is MISSING:
        found.pop(step.key, None)
    else:
        found[step.key] = inner
    return found if isinstance(root, Mapping) else tuple(found.values())


def reorder(collection: Any, order: Iterable[Any]) -> Any:
    """The items in the given order of identities."""
    found = items(collection)
    sorted_ = {key: found[key] for key in order if key in found}
    sorted_.update({key: item for key, item in found.items() if key not in sorted_})
    return sorted_ if isinstance(collection, Mapping) else tuple(sorted_.values())


def mark(root: Any, path: Path) -> Mark | None:
    """The source position of the value at a path, or of its parent."""
    at: Mark | None = getattr(root, "at", None)
    for step in path:
        inner = get(root, (step,))
        if isinstance(step, str):
            at = root.at.key(step.rstrip("_")) if isinstance(root, Node) else at
        elif isinstance(root, Mapping):
            at = place(next((key for key in root if key == step.key), None), at or Mark())
        own = getattr(inner, "at", None)
        if isinstance(own, Mark) and (not isinstance(root, Mapping) or isinstance(inner, (Located, Assignment))):
            at = own
        if inner is MISSING or inner is None:
            break
        root = inner
    return at


def text_of(value: Any) -> str:
    """A value of a spec as its owner would write it."""
    if value is MISSING or value is None:
        return "nothing"
    if isinstance(value, (Located, Assignment)):
        return value.text
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Node):
        short = getattr(value, value.shorthand) if value.shorthand and value.shorthand != "use" else None
        if short is not None and not getattr(value, "where", ()):  # a step with guards needs both
            return text_of(short)
        fields = {f.name.rstrip("_"): getattr(value, f.name) for f in dataclasses.fields(value) if f.metadata}  # type: ignore[arg-type]
        given = {name: v for name, v in fields.items() if v not in (None, (), {}) and name != "summary"}
        return "{" + ", ".join(f"{name}: {text_of(v)}" for name, v in given.items()) + "}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {text_of(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(text_of, value)) + "]"
    return str(value)


def names(value: Any) -> frozenset[str]:
    """The names that formulas within a value use."""
    trees = [value.tree] if isinstance(value, Located) else []
    return frozenset().union(*(expr.names(tree) for tree in trees))
