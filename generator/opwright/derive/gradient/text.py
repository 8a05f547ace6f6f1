"""Prints an operation of steps as the YAML of its spec, in the usual layout.

In: an operation whose entries are complete. Out: text that loads as the same operation.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...language.model import Dim, Op, Step
from ...language.schema import ASSIGNMENTS, Assignment, Located
from ...language.spelling import spell
from ...language.structs import Node, keys_of

SIGN = {name: sign for sign, name in ASSIGNMENTS.items()}
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_ ().;/+<>=-]*|[0-9]+(\.[0-9]+)?")
WORDS = ("true", "false", "yes", "no", "on", "off", "null")


def text(op: Op, head: str = "") -> str:
    """The YAML text of an operation; `head` is a leading comment."""
    return "\n".join([*(f"# {line}" for line in head.splitlines()), *_lines(op)]) + "\n"


def _lines(op: Op) -> Iterator[str]:
    yield f"op: {op.op}"
    yield f"revision: {op.revision}"
    yield f"summary: {_scalar(op.summary)}"
    if op.spatial_rank.max:
        yield f"spatial_rank: {{min: {op.spatial_rank.min}, max: {op.spatial_rank.max}}}"
    yield "dims:" if op.dims else "dims: {}"
    for role, dim in op.dims.items():
        yield f"  {role}: {_map(dim)}"
    yield from _list("attributes", op.attributes)
    if op.layouts:
        yield "layouts:"
        for name, words in op.layouts.items():
            yield f"  {name}: {_map(words)}"
    yield from _list("inputs", op.inputs)
    yield from _list("outputs", op.outputs)
    yield from _list("dtypes", op.dtypes)
    if op.let:
        yield "let:"
        for symbol, let in op.let.items():
            yield f"  {symbol}: {_map(let)}"
    yield from _list("constraints", op.constraints)
    yield "semantics:"
    yield f"  ranges: {_map(op.semantics.ranges)}"
    yield "  steps:"
    for step in op.semantics.steps:
        yield from _step(step)
    yield from _list("relations", op.relations)


def _list(key: str, items: Iterable[object]) -> Iterator[str]:
    found = list(items)
    if found:
        yield f"{key}:"
    for item in found:
        yield f"  - {_map(item)}"


def _step(step: Step) -> Iterator[str]:
    where = f"      where: [{', '.join(_value(guard) for guard in step.where)}]"
    if step.do is not None:
        yield f"    - do: {_assignment(step.do)}" if step.where else f"    - {_assignment(step.do)}"
    else:
        yield f"    - by: {step.by}"
        yield "      cases:"
        for word, assignment in step.cases.items():
            yield f"        {_key(word)}: {_assignment(assignment) if assignment else ''}"
    if step.where:
        yield where


def _assignment(found: Assignment) -> str:
    return f"{spell(found.target)} {SIGN[found.op]}= {spell(found.value)}"


def _map(value: Any) -> str:
    """A mapping on one line, without unset keys."""
    if isinstance(value, Node):
        keys = keys_of(type(value))
        empty = type(value)()
        found = {key: getattr(value, _field(value, key)) for key in keys}
        entries = {k: v for k, v in found.items() if v != getattr(empty, _field(value, k)) and v is not None}
        entries.pop("use", None)
        if isinstance(value, Dim):  # which loading has completed
            entries = {key: entry for key, entry in entries.items() if entry or key not in ("per_axis", "run")}
            if entries.get("min") == int(bool(value.per_axis)):
                entries.pop("min")
        short = type(value).shorthand
        if short and list(entries) == [short]:
            return _value(entries[short])
        value = entries
    return f"{{{', '.join(f'{_key(key)}: {_value(entry)}' for key, entry in value.items())}}}"


def _field(node: Node, key: str) -> str:
    return key if hasattr(node, key) else f"{key}_"


def _key(word: str) -> str:
    return f'"{word}"' if word in WORDS else word


def _value(value: Any) -> str:
    if isinstance(value, Located):
        return _scalar(spell(value.tree))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (Mapping, Node)) or dataclasses.is_dataclass(value):
        return _map(value)
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_value, value))}]"
    return _scalar(str(value))


def _scalar(text: str) -> str:
    """A plain text, or a quoted one if YAML would read it differently."""
    if PLAIN.fullmatch(text) and ": " not in text and text not in WORDS and not text.endswith((" ", ":")):
        return text
    return json.dumps(text, ensure_ascii=False)
