"""Places in specs taken as plain data: what stands in a field of one, and what else may stand there."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from opwright.language.schema import Kind, ListOf, MapOf
from opwright.language.structs import Struct, keys_of
from opwright.load import read_folder

from . import checkout, mutants, pairs, reviewing

Data = dict[str, Any]
Path = tuple[Any, ...]
PROSE = {"summary", "description", "say", "reason", "page", "library", "ruling", "why", "title", "deprecated", "source"}


class NothingError(Exception):
    """The specs have nothing that could be edited so."""


@dataclass(frozen=True)
class Spot:
    """A place in a file: the field, what it may hold, what it holds, and the field that holds it."""

    file: str
    field: str
    kind: Kind
    path: Path
    data: Any


def spots(library: Data) -> Iterator[Spot]:
    """Every place that is no prose, the files themselves left out."""
    for file, data in library.items():
        if not file.endswith("_sources.yaml"):
            yield from _struct(file, mutants.root_of(file), data, ())


def _struct(file: str, cls: Any, data: Any, path: Path) -> Iterator[Spot]:
    keys = keys_of(cls)
    for key, inner in data.items() if isinstance(data, dict) else ():
        if key not in PROSE and key in keys:
            yield from _kind(file, f"{cls.__name__}.{key}", keys[key]["kind"], inner, (*path, key))


def _kind(file: str, field: str, kind: Kind, data: Any, path: Path) -> Iterator[Spot]:
    yield Spot(file, field, kind, path, data)
    if isinstance(kind, Struct):
        yield from _struct(file, kind.cls, data, path)
    elif isinstance(kind, (ListOf, MapOf)) and isinstance(data, (list, dict)):
        for key, item in data.items() if isinstance(data, dict) else enumerate(data):
            yield from _kind(file, f"{field}[]", kind.item, item, (*path, key))


@functools.cache
def known(field: str) -> tuple[Any, ...]:
    """What stands in a field anywhere in the sets of specs that changes are made in."""
    return _pool().get(field, ())


@functools.cache
def _pool() -> Mapping[str, tuple[Any, ...]]:
    found: dict[str, dict[str, Any]] = {}
    for texts in (*pairs.bases(), *steps(), shipped()):
        for spot in spots({name: mutants.plain(text) for name, text in texts.items()}):
            found.setdefault(spot.field, {})[repr(spot.data)] = spot.data
    return {field: tuple(values.values()) for field, values in found.items()}


def at(library: Data, spot: Spot, up: int = 0) -> Any:
    """What stands at a place, or `up` levels above it."""
    return functools.reduce(lambda data, key: data[key], spot.path[: len(spot.path) - up], library[spot.file])


def chosen(library: Data, chance: random.Random, wanted: Callable[[Spot], bool]) -> Spot:
    """A place, every field as likely as any other."""
    by_field: dict[str, list[Spot]] = {}
    for spot in spots(library):
        if wanted(spot):
            by_field.setdefault(spot.field, []).append(spot)
    if not by_field:
        raise NothingError
    return chance.choice(by_field[chance.choice(list(by_field))])


def several(spot: Spot) -> bool:
    return isinstance(spot.data, (list, dict)) and len(spot.data) > 1


def many(spot: Spot) -> bool:
    return isinstance(spot.kind, (ListOf, MapOf)) and isinstance(spot.data, (list, dict))


def shipped() -> dict[str, str]:
    """The operations that are shipped, and what they share."""
    return dict(read_folder(checkout.ROOT / reviewing.FOLDER, checkout.ROOT))


def steps() -> list[dict[str, str]]:
    """Sets of one operation of steps each."""
    folders = ("tests/data/steps", "tests/data/formulas", "examples")
    paths = [path for folder in folders for path in sorted((checkout.ROOT / folder).glob("*.yaml"))]
    texts = [{f"{reviewing.FOLDER}/{path.name}": path.read_text(encoding="utf-8")} for path in paths]
    return [found for found in texts if "\n  steps:" in next(iter(found.values()))]
