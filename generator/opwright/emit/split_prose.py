"""The table of splits as people read it, and as the generated package does.

In: an operation. Out: a line for each letter, and plain data.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from ..derive.rewrites.as_steps import as_steps
from ..derive.splitting.split import WHOLE, Split
from ..derive.splitting.table import table
from ..language.model import Op, Tensor
from ..language.types import spatial

JOINS = {"sum": "added", "product": "multiplied", "max": "joined by max", "min": "joined by min", "mean": "averaged"}


def lines(op: Op) -> tuple[tuple[str, str], ...]:
    """Each letter of the table with what a part of its values takes and gives."""
    return tuple((split.letter, sentence(op, split)) for split in table(op))


def sentence(op: Op, split: Split) -> str:
    """One split in words."""
    if split.kind == WHOLE:
        return f"{_where(op, split)}whole, because {split.why}"
    cut = "; ".join(f"{tensor} along {', '.join(axes)}" for tensor, axes in split.axes.items())
    shared = [f"{name} is {JOINS[join]}" for name, join in split.joins.items() if join in JOINS]
    alone = f" (dtypes {_rows(op, split.stretched_rows)})" if split.stretched_rows else ""
    shared += [f"{name} is {JOINS[join]}{alone} if it has one cell for all" for name, join in split.stretched.items()]
    clauses = [f"{_where(op, split)}{split.kind}: cuts {cut}", *shared, *_changes(split)]
    return "; ".join(clauses)


def _where(op: Op, split: Split) -> str:
    conditions = [f"{name} is {value}" for name, value in split.when.items()]
    conditions += [f"{tensor} is arranged as {arrangement}" for tensor, arrangement in split.arrangements.items()]
    if split.rows:
        named = _rows(op, split.rows)
        conditions.append(f"dtypes are {named}" if named else "sums are stored as they are accumulated")
    return f"if {' and '.join(conditions)}, " if conditions else ""


def _rows(op: Op, numbers: tuple[int, ...]) -> str:
    rows = [op.dtypes[number] for number in numbers if number >= 0]
    return " or ".join(" ".join(f"{tensor} {dtype}" for tensor, dtype in row.items()) for row in rows)


def _changes(split: Split) -> list[str]:
    """What a part changes beside shapes."""
    words = {"count": "{} is the number in the part", "cells": "{} is cut alike"}
    found = [words[change].format(name) for name, change in split.attributes.items()]
    found += [f"{name} states the shape of the part" for name in split.states]
    found += [f"{name} goes to the first part alone" for name in split.once]
    if split.beside:
        periods = f"parts are of whole periods, of which gcd({split.size}, {split.beside}) fit"
        found.append(f"{periods}, or of any values if {split.beside} is 1" if split.alone else periods)
        beside = "the period" if split.reach == 1 else f"the {split.reach} periods"
        found += [f"{beside} on each side is taken along and dropped"] if split.reach == 1 else []
        found += [f"{beside} on each side are taken along and dropped"] if split.reach > 1 else []
        found += [f"{name} states {size} of the part" for name, size in split.sizes.items() if size]
        found += [f"{name} is left out" for name, size in split.sizes.items() if not size]
    window = split.window
    if window:
        own = [name for name in (window.begin, window.end, window.extra) if name]
        halo = f"({window.taps} - 1) * {window.dilation} + 1 - {window.stride}"
        found.append(f"neighbours share {halo} cells of {window.big}, if that is more than 0")
        found += [f"{' and '.join(own)} are those of the cut"] if own else []
        found += [f"a part has more cells, and the windows that see {window.pad} at a cut are dropped"] * window.kept
        found += [f"{', '.join(window.zero)} is 0"] if window.zero else []
        found += [f"{name} is {word}" for name, word in window.words.items()]
    return found


def entry(op: Op) -> str:
    """The table of an operation as JSON, a line for each split and each tensor."""
    tensors = {} if as_steps(op).stepped else {tensor.name: _order(op, tensor) for tensor in op.tensors}
    rows = _lines([json.dumps(split.data(), sort_keys=True) for split in table(op)], "[]")
    orders = _lines([f"{json.dumps(name)}: {json.dumps(order)}" for name, order in tensors.items()], "{}")
    return f'{{\n  "splits": {rows},\n  "tensors": {orders}\n }}'


def as_json(entries: Mapping[str, str]) -> str:
    """The entries of several operations by their functions."""
    return "{\n" + ",\n".join(f' "{function}": {found}' for function, found in sorted(entries.items())) + "\n}\n"


def _lines(rows: list[str], brackets: str) -> str:
    return brackets[0] + "\n   " + ",\n   ".join(rows) + "\n  " + brackets[1] if rows else brackets


def _order(op: Op, tensor: Tensor) -> tuple[str, dict[str, list[str]], list[str]]:
    """The attribute that orders the axes of a tensor, the order for each word, and which axes are spatial."""
    dims = next(iter(tensor.dims_by_arrangement.values()))
    orders = (
        {word: list(axes) for word, axes in op.layouts[tensor.layout].items()} if tensor.layout else {"": list(dims)}
    )
    return tensor.layout or "", orders, list(spatial(dims, op))
