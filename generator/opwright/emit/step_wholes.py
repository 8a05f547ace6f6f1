"""Integers that are the same for all of a task, or for many tasks: reckoned where a letter that they need changes.

In: statements of a task, and the names that are known before them. Out: the statements with names, or elements of
tables of lanes, in place of quotients, and what these stand for. Compilers leave a division in the loop that it stands
in: it might be by 0.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, TypeVar

from . import nodes
from .nodes import Assign, Binary, Call, Declare, Expr, Index, Name, Stmt

QUOTIENTS = frozenset({"floor_div", "ceil_div", "floor_by", "ceil_by", "modulo"})
PURE = frozenset(f"opwright_{name}" for name in (*QUOTIENTS, "min", "max"))

POSITIONS = ("i_", "j_", "whole_")  # of a cell in its row

Code = TypeVar("Code")


def named(code: Code, known: Container[str], wholes: dict[Expr, str]) -> Code:
    """Code with names in place of quotients of known names; `wholes` has the names, and gets new ones."""
    if isinstance(code, Call) and code.function in PURE:
        used = {*nodes.names(code)}
        if used and all(name in known for name in used) and _divides(code):
            return Name(wholes.setdefault(code, f"whole_{len(wholes)}_"))  # type: ignore[return-value]
    return _mapped(code, lambda one: named(one, known, wholes))


def _mapped(code: Code, made_of: Callable[[Any], Any]) -> Code:
    """Code with something made of each of its parts."""
    if isinstance(code, tuple):
        return tuple([made_of(one) for one in code])  # type: ignore[return-value]
    if not dataclasses.is_dataclass(code) or isinstance(code, (type, Name)):
        return code
    own = {field.name: getattr(code, field.name) for field in dataclasses.fields(code)}
    made = {name: made_of(value) for name, value in own.items()}
    changed = any(made[name] is not value for name, value in own.items())
    return dataclasses.replace(code, **made) if changed else code


def tabled(code: Code, known: Container[str], lane: str, tables: dict[Expr, str]) -> Code:
    """Code with elements of tables in place of quotients of lanes and known names; `tables` as `wholes` above."""
    if isinstance(code, Call) and code.function in PURE and _divides(code):
        entry, places = _of_lane(code, lane)
        if len(places) == 1 and all(name == lane or name in known for name in nodes.names(entry)):
            name = tables.setdefault(entry, f"table_{len(tables)}_")
            return Index(Name(name), Binary("-", places.pop(), Name("begin_")))  # type: ignore[return-value]
    return _mapped(code, lambda one: tabled(one, known, lane, tables))


def _of_lane(code: Code, lane: str) -> tuple[Code, set[Expr]]:
    """Code with the lane's letter in place of a place in its row, and these places."""
    if code == Name(lane):
        return code, {Name(lane)}
    in_row = isinstance(code, Binary) and code.operator == "+" and code.left == Name(lane)
    if in_row and all(name in POSITIONS for name in nodes.names(code.right)):  # type: ignore[attr-defined]
        return code.left, {code}  # type: ignore[attr-defined,arg-type]
    places = set[Expr]()

    def inner(one: object) -> object:
        made, found = _of_lane(one, lane)
        places.update(found)
        return made

    return _mapped(code, inner), places


def _divides(code: Call) -> bool:
    return code.function.removeprefix("opwright_") in QUOTIENTS or any(
        isinstance(one, Call) and _divides(one) for one in code.arguments
    )


def by_letter(wholes: Mapping[Expr, str], letters: Sequence[str]) -> dict[str, list[Declare]]:
    """What stands for a name, by the fastest letter that it needs; '' where it needs none."""
    found: dict[str, list[Declare]] = {}
    for value, name in wholes.items():
        needed = [letter for letter in letters if letter in {*nodes.names(value)}]
        found.setdefault(needed[-1] if needed else "", []).append(Declare(name, value, changes=bool(needed)))
    return found


def again(declared: Sequence[Declare]) -> tuple[Stmt, ...]:
    """The same, reckoned again."""
    return tuple(Assign(Name(one.name), one.value) for one in declared)
