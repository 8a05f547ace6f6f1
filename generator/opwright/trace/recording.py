"""Records which fields of a spec a piece of the generator reads, by a stand-in for the model.

In: an operation, or a whole library. Out: an equal tree of stand-ins and the set of the paths that were read,
such as `attributes.strides.min`. A field that was not read cannot have affected the output; the reverse does not
hold, because a field may be read without effect. memo.py memoises what several readers share.

A path that ends in `.at` stands for the place in the file. The path of a list or a mapping itself (`attributes`)
stands for its entries and their order. The stand-ins are instances of read-only subclasses of the model's classes;
only `type(x) is` can distinguish them from the model.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from ..language.schema import Assignment, Located, Spelled
from ..language.source import Mark
from ..language.structs import Node

T = TypeVar("T")
# The name of an entry of a list: the first of these fields that it has, else its number.
LABELS = ("name", "id", "op", "value")
NAMES = (*LABELS, "symbol")


def record(root: T) -> tuple[T, set[str]]:
    """A stand-in for a dataclass of the model, and the set of its reads from now on."""
    reads: set[str] = set()
    return _standin(root, "", reads), reads


def _standin(value: Any, path: str, reads: set[str]) -> Any:
    if dataclasses.is_dataclass(value) and (isinstance(value, Node) or not path):
        cls: type = type(value)
        made: Any = object.__new__(_recording(cls))
        names = [field.name for field in dataclasses.fields(value)]
        inner = {name: _standin(getattr(value, name), _join(path, name), reads) for name in names}
        made.__dict__.update(inner, _path=path, _reads=reads)
        return made
    if isinstance(value, dict):
        return _Entries({key: _standin(entry, _join(path, key), reads) for key, entry in value.items()}, path, reads)
    if _branches(value):
        return tuple(_standin(entry, _join(path, label), reads) for label, entry in _labelled(value))
    return value


def _branches(value: Any) -> bool:
    """Whether a list has entries with fields of their own; a list of words is one field."""
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], (Node, dict))


@functools.cache
def _recording(cls: type) -> type:
    """The subclass whose instances record which fields are read."""
    names = frozenset(field.name for field in dataclasses.fields(cls))
    plain = object.__getattribute__

    def get(self: Any, name: str) -> Any:
        value = plain(self, name)
        # A mapping records itself which of its entries are read; `dataclasses.replace` makes nodes without a path.
        if name in names and not isinstance(value, _Entries) and "_path" in plain(self, "__dict__"):
            plain(self, "_reads").add(_join(plain(self, "_path"), name))
        return value

    return type(cls.__name__, (cls,), {"__getattribute__": get, "__doc__": cls.__doc__, "_plain": cls})


def plain(cls: type) -> type:
    """The class of the model that a stand-in's class stands for; any other class itself."""
    found: type = vars(cls).get("_plain", cls)
    return found


class _Entries(dict[str, Any]):
    """A mapping that records which of its entries are read. Defining `__iter__` keeps C code from bypassing it."""

    def __init__(self, entries: dict[str, Any], path: str, reads: set[str]) -> None:
        super().__init__(entries)
        self.path, self.reads = path, reads

    def __getitem__(self, key: str) -> Any:
        if key in self:
            self.reads.add(_join(self.path, key))
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default  # noqa: SIM401  # which would be this very method

    def __contains__(self, key: object) -> bool:
        self.reads.add(self.path)
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        self.reads.add(self.path)
        return super().__iter__()

    def __len__(self) -> int:
        self.reads.add(self.path)
        return super().__len__()

    def __eq__(self, other: object) -> bool:
        return dict(self.items()) == other

    def __reversed__(self) -> Iterator[str]:
        self.reads.add(self.path)
        return super().__reversed__()

    def __or__(self, other: Any) -> Any:
        return {**self, **other}

    def __ror__(self, other: Any) -> Any:
        return {**other, **self}

    def __ne__(self, other: object) -> bool:
        return not self == other

    def keys(self) -> Any:
        return dict.fromkeys(self).keys()

    def values(self) -> Any:
        return {key: self[key] for key in self}.values()

    def items(self) -> Any:
        return {key: self[key] for key in self}.items()


@dataclass(frozen=True)
class Field:
    """A field of a spec: its value, its place, and the names of the entries that contain it."""

    path: str
    value: Any
    at: Mark
    names: frozenset[str]


def fields(root: Any) -> dict[str, Field]:
    """Every leaf field with a value, by path, in the order of the model."""
    return {found.path: found for found in _leaves(root, "", Mark(), frozenset())}


def _leaves(value: Any, path: str, at: Mark, names: frozenset[str]) -> Iterator[Field]:
    first = value[0] if isinstance(value, tuple) and value else value
    if isinstance(first, (Located, Assignment, Spelled)):
        at = first.at
    if dataclasses.is_dataclass(value) and (isinstance(value, Node) or not path):
        own = {str(name) for key in NAMES if isinstance(name := getattr(value, key, None), str)}
        at = getattr(value, "at", at) if getattr(value, "at", Mark()) != Mark() else at
        names = frozenset(own) or names
        for name in (field.name for field in dataclasses.fields(value) if field.name != "at"):
            yield from _leaves(getattr(value, name), _join(path, name), at.key(name.rstrip("_")), names)
    elif isinstance(value, dict):
        for key, entry in value.items():
            inner = frozenset({str(key)}) if isinstance(entry, Node) else names | {str(key)}
            yield from _leaves(entry, _join(path, key), at, inner)
    elif _branches(value):
        for label, entry in _labelled(value):
            yield from _leaves(entry, _join(path, label), at, names)
    elif value is not None and value != ():
        yield Field(path, value, at, names)


def _join(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


def _labelled(entries: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    for number, entry in enumerate(entries):
        found = [getattr(entry, key, None) for key in LABELS] if isinstance(entry, Node) else []
        yield next((str(label) for label in found if label), str(number)), entry
