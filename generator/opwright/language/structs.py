"""Mappings of spec text with declared keys: the fields of a dataclass say which keys there are and what each means.

In: composed YAML nodes. Out: frozen dataclasses of model.py, each with its mark; the JSON Schema of a file.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import yaml

from .schema import Kind, Problems, entries, mark_of, scalar
from .source import Mark, suggestion

DRAFT = "https://json-schema.org/draft/2020-12/schema"


class Node:
    """A dataclass of model.py that appears in a spec file.

    `key()` declares its fields; `shorthand` names the field that a bare text stands for.
    """

    shorthand: ClassVar[str | None] = None
    at: Mark


def key(kind: Kind, doc: str, *, required: bool = False, default: Any = None, silent: bool = False) -> Any:
    """A field of a Node: its kind, and its meaning for editors and people.

    A `silent` field counts in hashes only if it is set, so that a new key does not change the hashes of old specs.
    """
    metadata = {"kind": kind, "doc": doc, "required": required, "silent": silent}
    if isinstance(default, (dict, list)):
        return dataclasses.field(default_factory=type(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def keys_of(cls: type[Node]) -> dict[str, Mapping[str, Any]]:
    """The legal keys of a Node's mapping; a trailing underscore (Python keywords) is not part of the key."""
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    return {field.name.rstrip("_"): field.metadata for field in fields if field.metadata}


@dataclass(frozen=True)
class Struct:
    """A mapping with the keys of one Node class, or its shorthand."""

    cls: type[Node]

    @functools.cached_property
    def keys(self) -> dict[str, Mapping[str, Any]]:
        return keys_of(self.cls)

    @functools.cached_property
    def names(self) -> dict[str, str]:
        """The field of each key."""
        return {field.name.rstrip("_"): field.name for field in dataclasses.fields(self.cls)}  # type: ignore[arg-type]

    def decode(self, node: yaml.Node, file: str, problems: Problems) -> Any:
        keys, names = self.keys, self.names
        at = mark_of(node, file)
        values: dict[str, Any] = {}
        short = self.cls.shorthand
        if short and isinstance(node, yaml.ScalarNode):
            return self.cls(**{names[short]: keys[short]["kind"].decode(node, file, problems), "at": at})
        seen: dict[str, Mark] = {}
        needed = [name for name, metadata in keys.items() if metadata["required"]]
        expected = f"a mapping with {', '.join(needed or list(keys)[:3])}"
        for key_node, child in entries(node, file, problems, expected):
            name = scalar(key_node, file, problems, "a key") or ""
            mark = mark_of(key_node, file)
            if name in seen:
                problems.note(mark, "duplicate-key", f"{name[:70]!r} appears twice; write it once")
            elif name not in keys:
                hint = suggestion(name, keys) or f"; the keys here are {', '.join(keys)}"
                problems.note(mark, "unknown-key", f"unknown key {name[:70]!r}{hint}")
            else:
                values[names[name]] = keys[name]["kind"].decode(child, file, problems)
            seen[name] = mark
        for name, metadata in keys.items():
            if metadata["required"] and name not in seen:
                problems.note(at, "missing-key", f"'{name}' is missing: {metadata['doc']}")
                values[names[name]] = metadata["kind"].decode(
                    yaml.ScalarNode("", "", node.start_mark), file, Problems()
                )
        at = dataclasses.replace(at, keys=tuple(seen.items()))
        return self.cls(**values, at=at)  # type: ignore[call-arg]

    def schema(self, definitions: dict[str, Any]) -> dict[str, Any]:
        name = self.cls.__name__
        if name not in definitions:
            definitions[name] = {}
            keys = self.keys
            shape: dict[str, Any] = {
                "type": "object",
                "description": (self.cls.__doc__ or "").strip().splitlines()[0],
                "properties": {
                    key: {**metadata["kind"].schema(definitions), "description": metadata["doc"]}
                    for key, metadata in keys.items()
                },
                "required": [key for key, metadata in keys.items() if metadata["required"]],
                "additionalProperties": False,
            }
            if self.cls.shorthand:
                shape = {"anyOf": [keys[self.cls.shorthand]["kind"].schema(definitions), shape]}
            definitions[name] = shape
        return {"$ref": f"#/$defs/{name}"}


def json_schema(root: type[Node], title: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of files whose root is `root`."""
    definitions: dict[str, Any] = {}
    return {"$schema": DRAFT, "title": title, **Struct(root).schema(definitions), "$defs": definitions}
