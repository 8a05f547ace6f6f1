"""Edits of what operations share, and of the rows by which calls of PyTorch and nodes of ONNX reach an operation.

In: the texts of some operations and of the shared files. Out: other texts with one edit. What an entry may become is
taken from all entries that stand in the same field of some spec.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator, Mapping
from typing import Any

from . import mutants
from .spots import Data, NothingError
from .structure_edits import come, formula, gone, moved, number, put, renamed, replaced, swapped

CHANGES = (gone, come, moved, swapped, replaced, put, renamed, number, formula)
ROWS = ("torch", "onnx")
FAILED = (NothingError, KeyError, IndexError, TypeError, ValueError, AttributeError)


def edits(texts: Mapping[str, str], count: int, chance: random.Random) -> Iterator[tuple[str, dict[str, str]]]:
    """What was done, and the texts after it."""
    before = {name: mutants.plain(text) for name, text in texts.items()}
    for _ in range(count):
        library, change = copy.deepcopy(before), chance.choice(CHANGES)
        place = shared if chance.random() < 0.5 else rows
        try:
            place(library, change, chance)
        except FAILED:
            continue
        changed = {name: mutants.written(data) for name, data in library.items() if repr(data) != repr(before[name])}
        if changed:
            yield f"{change.__name__} in {place.__name__}", {**texts, **changed}


def shared(library: Data, change: Any, chance: random.Random) -> None:
    """An edit of an entry that one of the operations takes by its name."""
    (file,) = (name for name in library if name.endswith("_common.yaml"))
    words = {word for name, data in library.items() if name != file for word in re.findall(r"\w[\w-]*", repr(data))}
    common = library[file]
    view = {section: _used(entries, words) for section, entries in common.items()}
    section = chance.choice([section for section in view if view[section]])
    part = {file: {section: view[section]}}
    before = copy.deepcopy(view[section])
    change(part, chance)
    if change is renamed:  # wherever the name is used
        _renamed_throughout(library, before, part[file].get(section))
    common[section] = _merged(common[section], part[file].get(section, type(before)()), before)


def _used(entries: Any, words: set[str]) -> Any:
    if isinstance(entries, dict):
        return {name: entry for name, entry in entries.items() if name in words}
    return [entry for entry in entries if {str(entry.get(key)) for key in ("name", "id")} & words]


def _merged(whole: Any, edited: Any, before: Any) -> Any:
    """All entries, those of a view as edited."""
    if isinstance(whole, dict):
        return {**{name: entry for name, entry in whole.items() if name not in before}, **edited}
    return [*(entry for entry in whole if entry not in before and entry not in edited), *edited]


def _renamed_throughout(library: Data, before: Any, after: Any) -> None:
    old, new = (list(side) if isinstance(side, dict) else [e.get("name", e.get("id")) for e in side or ()] for side in (before, after))  # fmt: skip
    pairs = [(one, other) for one, other in zip(old, new, strict=False) if one != other]
    for file, data in library.items():
        for one, other in pairs[:1]:
            library[file] = mutants.renamed(file, data, str(one), str(other))


def rows(library: Data, change: Any, chance: random.Random) -> None:
    """An edit of the rows of an operation."""
    files = [name for name, data in library.items() if any(key in data for key in ROWS)]
    if not files:
        raise NothingError
    op = library[file := chance.choice(files)]
    part = {file: {key: op[key] for key in ROWS if key in op}}
    change(part, chance)
    for key in ROWS:
        op.pop(key, None)
    op |= part[file]
