"""Every small change that the spec language allows, made from its own tables: what to mutate comes from the kinds.

In: the texts of specs. Out: mutants, each with the field it touches and what was done to it. Spec files are taken as
plain data and written again, so that nothing here knows the loader.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from opwright.language.library import Common, Sources
from opwright.language.model import AXIS, FIELD, Op
from opwright.language.schema import (
    Flag,
    Formula,
    Integer,
    Kind,
    ListOf,
    MapOf,
    OneOf,
    Statement,
    Text,
    Word,
)
from opwright.language.structs import Struct, keys_of

Data = Any
Path = tuple[Any, ...]
# Where a name is given; what uses it stands elsewhere, so that it can only be renamed throughout.
NAMES = {
    "Op.op", "Op.dims", "Op.let", "Op.padding", "Dim.symbol", "Attribute.name", "Attribute.symbol", "AllowedValue.value",
    "Tensor.name", "Constraint.id", "GroupClass.name", "Semantics.ranges", "Discrepancy.id", "Common.dims", "Common.let",
    "Sources.pages",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change of a library. `spot` is the class and key, `how` the mutation, `path` where in the file it is made."""

    file: str
    spot: str
    how: str
    path: Path
    value: Any

    @property
    def name(self) -> str:
        return f"{self.file.rpartition('/')[2]}:{'.'.join(map(str, self.path))}:{self.how}"

    def edited(self, library: Mapping[str, Data]) -> dict[str, Data]:
        """The files that are other ones now, from the plain data of all."""
        if self.how == "renamed throughout":
            again = {file: renamed(file, data, *self.value) for file, data in library.items()}
            return {file: data for file, data in again.items() if data != library[file]}
        return {self.file: _set(copy.deepcopy(library[self.file]), self.path, self.value)}

    def made(self, library: Mapping[str, Data]) -> dict[str, str]:
        """The same as texts."""
        return {file: written(data) for file, data in self.edited(library).items()}


def plain(text: str) -> Data:
    """YAML as maps, lists and texts."""
    return yaml.load(text, Loader=yaml.BaseLoader)


def written(data: Data) -> str:
    """As YAML that is quickly made: every JSON text is one."""
    return json.dumps(data, indent=1, ensure_ascii=False)


def root_of(file: str) -> type:
    stem = file.rpartition("/")[2]
    return {"_common.yaml": Common, "_sources.yaml": Sources}.get(stem, Op)


def mutants(file: str, data: Data) -> Iterator[Mutant]:
    """All mutants of one file, in the order of its text."""
    for spot, how, path, value in _struct(root_of(file), data, ()):
        yield Mutant(file, spot, how, path, value)


GONE, RENAMED = object(), object()


def _set(data: Data, path: Path, value: Data) -> Data:
    """The same data with another value at a path; a function as value makes the new holder from the old one."""
    if len(path) == 1 and value is RENAMED:
        return {f"{key}x" if key == path[0] else key: item for key, item in data.items()}
    if not path:
        return value(data) if callable(value) else value
    if len(path) == 1 and value is GONE:
        del data[path[0]]
    else:
        data[path[0]] = _set(data[path[0]] if len(path) > 1 or callable(value) else None, path[1:], value)
    return data


Change = tuple[str, str, Path, Any]


def _struct(cls: Any, data: Data, path: Path) -> Iterator[Change]:
    """Every key: what it holds mutated, taken away, or, where it is absent, put in."""
    if not isinstance(data, dict):  # the shorthand
        yield from _kind(keys_of(cls)[cls.shorthand]["kind"], f"{cls.__name__}.{cls.shorthand}", data, path)
        return
    for key, metadata in keys_of(cls).items():
        spot = f"{cls.__name__}.{key}"
        if key in data:
            yield from _kind(metadata["kind"], spot, data[key], (*path, key))
            yield spot, "gone", (*path, key), GONE
        else:
            for value in samples(metadata["kind"]):
                yield spot, "put", (*path, key), value


def samples(kind: Kind) -> list[Data]:
    """A value of a kind, for a key that is absent; structures are only mutated where they stand."""
    if isinstance(kind, OneOf):
        return [kind.words[0]]
    table: dict[type, list[Data]] = {
        Text: ["other"], Integer: ["1"], Flag: ["true"], Formula: ["1"], Word: ["other"], Statement: [],
    }  # fmt: skip
    return table.get(type(kind), [])


def _kind(kind: Kind, spot: str, data: Data, path: Path) -> Iterator[Change]:
    if isinstance(kind, Struct):
        yield from _struct(kind.cls, data, path)
    elif isinstance(kind, ListOf):
        yield from _list(kind, spot, data, path)
    elif isinstance(kind, MapOf):
        yield from _map(kind, spot, data, path)
    else:
        for how, value in scalar(kind, str(data)):
            yield spot, how, path, value
        if spot in NAMES and isinstance(kind, Word):
            yield spot, "renamed throughout", path, (data, _another(data))


def scalar(kind: Kind, text: str) -> list[tuple[str, str]]:
    """The other values of a leaf."""
    if isinstance(kind, Integer):
        return [("more", str(int(text) + 1)), ("less", str(int(text) - 1))]
    if isinstance(kind, Flag):
        return [("flip", "false" if text == "true" else "true")]
    if isinstance(kind, OneOf):
        return [("other", kind.words[(kind.words.index(text) + 1) % len(kind.words)])]
    if isinstance(kind, Formula):
        return [("plus", f"({text}) + 1"), ("rewritten", f"({text}) + 0"), ("bracketed", f"({text})"),
                ("guarded", f"({text}) and 2 > 3"), ("same", f"({text}) and 2 < 3")]  # fmt: skip
    if isinstance(kind, Statement):
        left, right = text.split("+=")
        return [("doubled", f"{left}+={right} * 2"), ("rewritten", f"{left}+= 1 * {right.strip()}")]
    if isinstance(kind, Word):
        return [("renamed", f"{text}x")]
    return [("more", str(int(text) + 1))] if text.lstrip("-").isdigit() else [("reworded", f"{text} indeed")]


def _list(kind: ListOf, spot: str, data: list[Data], path: Path) -> Iterator[Change]:
    for number, item in enumerate(data):
        yield from _kind(kind.item, spot, item, (*path, number))
        yield spot, "dropped", (*path, number), GONE
    if len(data) > 1:
        yield spot, "swapped", path, lambda items: [items[1], items[0], *items[2:]]


def _map(kind: MapOf, spot: str, data: dict[str, Data], path: Path) -> Iterator[Change]:
    for key, item in data.items():
        yield from _kind(kind.item, spot, item, (*path, key))
        yield spot, "key dropped", (*path, key), GONE
        yield spot, "key renamed", (*path, key), RENAMED
        if spot in NAMES:
            yield spot, "renamed throughout", (*path, key), (key, _another(key))
    if len(data) > 1:
        yield spot, "keys swapped", path, lambda items: dict([*list(items.items())[1::-1], *list(items.items())[2:]])


def _another(name: str) -> str:
    return f"{name}x" if name[-1].isalpha() else f"{name}9"


# One name for another in a whole file. Prose, axes and paths of fields are left alone.


def renamed(file: str, data: Data, old: str, new: str) -> Data:
    """The data of a file with one name for another."""
    return _struct_renamed(root_of(file), data, old, new)


def _struct_renamed(cls: Any, data: Data, old: str, new: str) -> Data:
    keys = keys_of(cls)
    if not isinstance(data, dict):
        return _kind_renamed(keys[cls.shorthand]["kind"], data, old, new)
    renamed = {
        key: item if key in ("summary", "reason", "say") else _kind_renamed(keys[key]["kind"], item, old, new)
        for key, item in data.items()
    }
    unsaid = [f.name for f in dataclasses.fields(cls) if f.name in keys and f.name not in data and f.default == old]
    return {**renamed, **{key: new for key in unsaid if isinstance(keys[key]["kind"], Word)}}


def _kind_renamed(kind: Kind, data: Data, old: str, new: str) -> Data:
    if isinstance(kind, Struct):
        return _struct_renamed(kind.cls, data, old, new)
    if isinstance(kind, ListOf):
        return [_kind_renamed(kind.item, item, old, new) for item in data]
    if isinstance(kind, MapOf):
        return {
            _kind_renamed(kind.key, key, old, new): _kind_renamed(kind.item, item, old, new)
            for key, item in data.items()
        }
    if isinstance(kind, (Formula, Statement)):
        return re.sub(rf"\b{re.escape(old)}\b", new, data)
    return new if data == old and isinstance(kind, (Word, Text)) and kind not in (AXIS, FIELD) else data
