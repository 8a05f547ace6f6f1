"""The parts of a folder of specs beyond one operation: shared entries, cited pages, and the library."""

from __future__ import annotations

from dataclasses import dataclass

from .model import (
    AXIS,
    IDENTIFIER,
    ROLE,
    SLUG,
    VALUE,
    Attribute,
    Constraint,
    Dim,
    Discrepancy,
    GroupClass,
    Let,
    Op,
    mark,
)
from .schema import ListOf, MapOf, Text
from .source import Mark
from .structs import Node, Struct, key


@dataclass(frozen=True)
class Common(Node):
    """Entries that several operations share: the file _common.yaml."""

    dims: dict[str, Dim] = key(MapOf(ROLE, Struct(Dim)), "roles", default={})
    attributes: tuple[Attribute, ...] = key(ListOf(Struct(Attribute)), "attributes", default=())
    layouts: dict[str, dict[str, tuple[str, ...]]] = key(
        MapOf(IDENTIFIER, MapOf(VALUE, ListOf(AXIS))), "the order of axes for each word of an attribute", default={}
    )
    let: dict[str, Let] = key(MapOf(IDENTIFIER, Struct(Let)), "named values", default={})
    constraints: tuple[Constraint, ...] = key(ListOf(Struct(Constraint)), "conditions", default=())
    classes: tuple[GroupClass, ...] = key(ListOf(Struct(GroupClass)), "families of calls", default=())
    discrepancies: tuple[Discrepancy, ...] = key(ListOf(Struct(Discrepancy)), "where sources disagree", default=())
    at: Mark = mark()


@dataclass(frozen=True)
class Page(Node):
    """A published page or document that facts were taken from."""

    title: str = key(Text(), "its title", required=True, default="")
    release: str | None = key(Text(), "the release it belongs to")
    form: str | None = key(Text(), "the format in which it was found, and what that format lost")
    at: Mark = mark()


@dataclass(frozen=True)
class Sources(Node):
    """The file _sources.yaml."""

    pages: dict[str, Page] = key(MapOf(SLUG, Struct(Page)), "the pages by their short names", required=True, default={})
    at: Mark = mark()


@dataclass(frozen=True)
class Library:
    """A folder of specs: every complete operation, the shared files, and gradients for autograd."""

    ops: tuple[Op, ...]
    pages: dict[str, Page]
    common: Common = Common()
    gradients: tuple[Op, ...] = ()

    @property
    def every(self) -> tuple[Op, ...]:
        return (*self.ops, *self.gradients)

    def op(self, name: str) -> Op:
        return next(op for op in self.every if name in (op.op, op.function))
