"""Hashes of the meaning of a spec, independent of notation.

Two hashes per operation: `semantic` covers everything that affects a kernel and appears in the C files; `full` covers
every word. Marks, spacing and comments affect neither.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from ..memo import memoised
from .model import Op
from .schema import Assignment, Located

_PLAIN = (str, int, bool)


def canonical(value: Any) -> Any:
    """Plain lists, maps and scalars that are equal exactly if two pieces of a spec mean the same."""
    kind = value.__class__
    if value is None or kind in _PLAIN:
        return value
    if isinstance(value, Located):
        return canonical(value.tree)
    if isinstance(value, Assignment):
        return [canonical(value.target), value.op, canonical(value.value)]
    if isinstance(value, (tuple, list)):
        return [canonical(entry) for entry in value]
    if (compared := _compared(kind)) is not None:
        fields = [(getattr(value, name), silent) for name, silent in compared]
        return [type(value).__name__, *(canonical(entry) for entry, silent in fields if entry or not silent)]
    if isinstance(value, Mapping):
        return [[key, canonical(entry)] for key, entry in value.items()]
    return repr(value) if isinstance(value, float) else value


@functools.cache
def _compared(kind: type[Any]) -> tuple[tuple[str, bool], ...] | None:
    """The fields of a class that count in comparisons, each with its `silent` flag; None if it is no dataclass."""
    if not dataclasses.is_dataclass(kind):
        return None
    return tuple((f.name, bool(f.metadata.get("silent"))) for f in dataclasses.fields(kind) if f.compare)


def digest(*parts: Any) -> str:
    """SHA-256 of the canonical form of some values, as hexadecimal."""
    text = json.dumps([canonical(part) for part in parts], ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


@memoised
def full_hash(op: Op) -> str:
    """The hash of every word of an operation, including shared parts."""
    return digest(op)


def shown_hash(op: Op) -> str:
    """The beginning of the semantic hash, for the heads of files; the manifest has all of it."""
    return semantic_hash(op)[:16]


@memoised
def semantic_hash(op: Op) -> str:
    """The hash of everything that affects a kernel: sizes, layouts, dtypes, classes, semantics, normal form."""
    dims = [[dim.symbol, dim.per_axis, dim.min, dim.typical] for dim in op.dims.values()]
    layouts = [
        [name, [[v.value, op.layouts[name][v.value]] for v in op.attribute(name).values or ()]]
        for name in op.layout_attributes
    ]
    tensors = [
        [t.name, t.optional, t.layout, t.dims, t.view, [[n, a.dims, a.index] for n, a in t.arrangements.items()]]
        for t in op.tensors
    ]
    attributes = [[a.name, a.symbol, a.type, a.min, a.neutral] for a in op.attributes]
    lets = [[symbol, let.neutral] for symbol, let in op.lets.items()]
    classes = [[group.name, group.when, dict(sorted(group.let.items()))] for group in op.classes]
    stated = [tensor for tensor in op.inputs if tensor.shape_of]
    cells = [*(tensor.name for tensor in (*op.tensors, *stated)), "accumulate"]
    dtypes = [{name: row[name] for name in cells} for row in op.dtypes]
    ranks = [op.spatial_rank.min, op.spatial_rank.max]
    init = repr(float(op.semantics.init)).removesuffix(".0")  # independent of notation
    semantics, form = dataclasses.replace(op.semantics, init=init), op.normal_form
    name = [op.op, op.function_] if op.function_ else op.op
    return digest(name, ranks, dims, layouts, tensors, attributes, lets, classes, dtypes, semantics, form)


def text_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def files_hash(files: Mapping[PurePosixPath, bytes]) -> str:
    """The hash of files, names and contents, in the order of their names."""
    total = hashlib.sha256()
    for path in sorted(files):
        total.update(str(path).encode() + b"\0" + files[path] + b"\0")
    return total.hexdigest()


def folder_hash(folder: Path, suffixes: tuple[str, ...], without: str = "") -> str:
    """The hash of the files of a folder, names and contents, in order; one subfolder may be left out."""
    return files_hash(folder_files(folder, suffixes, without))


def folder_files(folder: Path, suffixes: tuple[str, ...], without: str = "") -> dict[PurePosixPath, bytes]:
    """The contents of a folder's files by their names within it."""
    top, found = os.fspath(folder), dict[PurePosixPath, bytes]()
    for path, folders, names in os.walk(top):
        if path == top and without in folders:
            folders.remove(without)
        for name in names:
            file = os.path.join(path, name)
            if name.endswith(suffixes) and os.path.isfile(file):
                with open(file, "rb") as stream:
                    found[PurePosixPath(os.path.relpath(file, top))] = stream.read()
    return found
