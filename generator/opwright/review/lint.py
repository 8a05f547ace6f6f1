"""Notes on valid specs: shared entries that nobody uses, relations that only one side states.

In: a library. Out: notes, each with its rule of review/rules.py. Nothing here refuses a spec;
check/ does that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from ..check.rules import kind_of_relation
from ..emit.reference import cited_pages
from ..language.library import Common, Library
from ..language.model import Attribute, Constraint, Discrepancy, GroupClass, Op, Relation
from ..language.source import Mark
from .tree import exact, identity


@dataclass(frozen=True)
class Note:
    """One note for a spec owner."""

    rule: str
    ops: tuple[str, ...]
    path: str
    message: str
    at: Mark


def lint(library: Library) -> list[Note]:
    """All notes, in the order of the rules."""
    return [*_unused(library), *_repeated(library), *_uncited(library), *_related(library)]


def _unused(library: Library) -> Iterator[Note]:
    """Entries of _common.yaml that no operation uses."""
    ops, common = library.ops, library.common
    taken: dict[str, set[str | None]] = {
        "attributes": {item.use for op in ops for item in op.attributes},
        "let": {let.use for op in ops for let in op.lets.values()},
        "constraints": {item.use for op in ops for item in op.constraints},
        "classes": {item.use for op in ops for item in op.classes},
        "discrepancies": {item.use for op in ops for item in op.discrepancies},
        "dims": {role for op in ops for role in op.dims},
        "layouts": {name for op in ops for name in op.layout_attributes},
    }
    for section, names in taken.items():
        for name, item in _entries(common, section):
            if name not in names:
                at = getattr(item, "at", common.at.key(section))
                yield Note("lint-shared-unused", (), f"{section}.{name}", f"no operation uses {name}", at)


def _entries(common: Common, section: str) -> list[tuple[str, Any]]:
    found = getattr(common, section)
    if isinstance(found, dict):
        return list(found.items())
    return [(str(identity(item)), item) for item in found]


def _repeated(library: Library) -> Iterator[Note]:
    """Equal entries that several operations write out."""
    first: dict[str, tuple[str, str, Mark]] = {}
    for op in library.ops:
        entries: Iterator[tuple[str, Attribute | Constraint | GroupClass | Discrepancy]] = chain(
            ((f"attributes.{item.name}", item) for item in op.attributes),
            ((f"constraints.{item.id}", item) for item in op.constraints),
            ((f"classes.{item.name}", item) for item in op.classes),
            ((f"discrepancies.{item.id}", item) for item in op.discrepancies),
        )
        for path, item in entries:
            if item.use is None:
                name, _, at = first.setdefault(repr(exact(item)), (op.op, path, item.at))
                if name != op.op:
                    yield Note("lint-entry-repeated", (op.op,), path, f"as in {name}, {at}", item.at)


def _uncited(library: Library) -> Iterator[Note]:
    cited = {page for op in library.ops for page in cited_pages(op)}
    for name, page in library.pages.items():
        if name not in cited:
            yield Note("lint-page-uncited", (), f"pages.{name}", f"no operation cites {name}", page.at)


def _related(library: Library) -> Iterator[Note]:
    """Adjoints that do not name each other; related operations with different types or numbers of axes."""
    ops = {op.op: op for op in library.ops}
    for op in library.ops:
        for relation in op.relations:
            kind, name = kind_of_relation(relation)
            other = ops[name]
            path = f"relations.{kind}.{name}"
            if kind == "adjoint" and op.op not in {back.adjoint for back in other.relations}:
                message = f"{op.op} is the adjoint of {name}, but {name} does not name {op.op} as its adjoint"
                yield Note("lint-relation-unanswered", (op.op,), path, message, relation.at)
            missing = _missing(op, other, relation)
            if missing:
                yield Note("lint-relation-uneven", (op.op,), path, f"{name} has {', '.join(missing)}", relation.at)


def _missing(op: Op, other: Op, relation: Relation) -> list[str]:
    """What the other operation accepts without a counterpart here."""
    ranks, theirs = op.spatial_rank, other.spatial_rank
    found = [f"{theirs.min} to {theirs.max} spatial axes"] if (ranks.min, ranks.max) != (theirs.min, theirs.max) else []
    tied = [(mine, name) for name, mine in relation.with_.items()]
    rows = {tuple(row.get(mine, "") for mine, _ in tied) for row in op.dtypes}
    for row in other.dtypes:
        types = tuple(row.get(name, "") for _, name in tied)
        if types not in rows:
            found.append(" ".join(dict.fromkeys(f"{name} {dtype}" for (_, name), dtype in zip(tied, types))))
    return found
