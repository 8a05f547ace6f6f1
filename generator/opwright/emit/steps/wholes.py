"""Loop-invariant integers of a task, or of many tasks: computed where a letter that they depend on changes.

In: statements of a task, and the names that are known before them. Out: the statements with names, or elements of
tables of lanes, instead of quotients, and their definitions. Compilers do not hoist a division out of a
loop, because it might be by 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, TypeVar

from ...language.source import Code
from ...memo import memoised
from .. import nodes
from ..nodes import ONE, ZERO, Assign, Binary, Call, Declare, Do, Expr, For, If, Index, Name, Stmt
from .elements import ROOM

QUOTIENTS = frozenset({"floor_div", "ceil_div", "floor_by", "ceil_by", "modulo"})
PURE = frozenset(f"opwright_{name}" for name in (*QUOTIENTS, "min", "max"))

POSITIONS = frozenset({"i_", "j_", "whole_"})  # of a cell in its row

Node = TypeVar("Node", bound=Code)


def named(body: Sequence[Stmt], known: AbstractSet[str], wholes: dict[Expr, str]) -> tuple[Stmt, ...]:
    """Statements with quotients of known names replaced by names; `wholes` has the names, and receives new ones."""

    def inner(code: Any) -> Any:
        if not has_quotient(code):
            return code
        if isinstance(code, Call) and code.function in PURE and divides(code):
            used = nodes.names(code)
            if used and used <= known:
                return Name(wholes.setdefault(code, f"whole_{len(wholes)}_"))
        return nodes.mapped(code, inner)

    return tuple(map(inner, body))


def tabled(
    body: Sequence[Stmt], known: AbstractSet[str], lane: str, tables: dict[Expr, str], taps: AbstractSet[str]
) -> tuple[Stmt, ...]:
    """Statements with quotients of lanes and known names replaced by elements of tables; `tables` as `wholes` above.

    A quotient may depend on one of `taps`, letters of few values, for each of which the table has a row.
    """

    def inner(code: Any) -> Any:
        if not has_quotient(code):
            return code
        if isinstance(code, Call) and code.function in PURE and divides(code):
            entry, places = _of_lane(code, lane)
            tap = nodes.names(entry) & taps
            if len(places) == 1 and len(tap) <= 1 and nodes.names(entry) - tap <= known | {lane}:
                name, at = tables.setdefault(entry, f"table_{len(tables)}_"), Binary("-", places.pop(), Name("begin_"))
                return Index(Name(name), nodes.chain("+", [*map(row_of_table, tap), at], ZERO))
        return nodes.mapped(code, inner)

    return tuple(map(inner, body))


def row_of_table(tap: str) -> Expr:
    """Where the row of a tap's value begins in a table."""
    return Binary("*", Name(tap), nodes.integer(ROOM))


def picked(body: Sequence[Stmt], tables: AbstractSet[str], arrays: AbstractSet[str]) -> tuple[Stmt, ...]:
    """Statements with calls instead of loops that gather cells of some arrays of f32 at places of a table."""

    def inner(code: Any) -> Any:
        if isinstance(code, For) and (call := _gathers(code, tables, arrays)) is not None:
            return Do(call)
        return nodes.mapped(code, inner) if isinstance(code, (For, If)) else code

    return tuple(map(inner, body))


def _gathers(loop: For, tables: AbstractSet[str], arrays: AbstractSet[str]) -> Call | None:
    """The call instead of `room[i_] = array[place + table[lane + i_ - begin_] * step]` in a loop."""
    copy, at = loop.body[0], Name(loop.letter)
    if not isinstance(copy, Assign) or not isinstance(copy.target, Index) or not isinstance(copy.value, Index):
        return None
    terms = _terms(copy.value.at)
    moving = [term for term in terms if at.name in nodes.names(term)]
    cell, step = _factors(moving[0]) if len(moving) == 1 else (ZERO, ONE)
    if not isinstance(cell, Index) or copy.target.at != at or not nodes.names(copy.value.array) <= arrays:
        return None
    first = _first(cell.at, at)
    if at.name in nodes.names(first) | nodes.names(step) or not nodes.names(cell.array) <= tables:
        return None
    start = nodes.chain("+", [copy.value.array, *(term for term in terms if term not in moving)], ZERO)
    return Call("opwright_picked_f32", (start, Binary("+", cell.array, first), step, loop.end, copy.target.array))


def _terms(code: Expr) -> list[Expr]:
    """The terms of a sum."""
    sums = isinstance(code, Binary) and code.operator == "+"
    return [*_terms(code.left), *_terms(code.right)] if sums else [code]  # type: ignore[union-attr]


def _factors(term: Expr) -> tuple[Expr, Expr]:
    """The two factors of a term."""
    return (term.left, term.right) if isinstance(term, Binary) and term.operator == "*" else (term, ONE)


def _first(code: Any, at: Expr) -> Any:
    """Code for the first cell of a row."""
    if isinstance(code, Binary) and code.operator == "+" and code.right == at:
        return code.left
    return nodes.mapped(code, lambda inner: _first(inner, at))


def _of_lane(code: Node, lane: str) -> tuple[Node, set[Expr]]:
    """Code with positions in a row replaced by the lane's letter, and these positions."""
    if code == Name(lane):
        return code, {Name(lane)}
    in_row = isinstance(code, Binary) and code.operator == "+" and code.left == Name(lane)
    if in_row and frozenset() < nodes.names(code.right) <= POSITIONS:  # type: ignore[attr-defined]
        return code.left, {code}  # type: ignore[attr-defined,arg-type]
    places = set[Expr]()

    def inner(one: Any) -> Any:
        made, found = _of_lane(one, lane)
        places.update(found)
        return made

    return nodes.mapped(code, inner), places


@memoised
def has_quotient(code: Code) -> bool:
    """Whether a quotient stands anywhere in code."""
    return (isinstance(code, Call) and _is_quotient(code)) or any(map(has_quotient, nodes.parts(code)))


def divides(code: Expr) -> bool:
    """Whether a quotient stands in code that only divides, bounds, adds and multiplies."""
    if isinstance(code, Binary):
        return divides(code.left) or divides(code.right)
    return isinstance(code, Call) and (_is_quotient(code) or any(map(divides, code.arguments)))


def _is_quotient(code: Call) -> bool:
    return code.function.removeprefix("opwright_") in QUOTIENTS


def inlined(
    declared: Sequence[Declare], body: Sequence[Stmt], loops: int = 0
) -> tuple[list[Declare], tuple[Stmt, ...]]:
    """Values that statements need once, in no more than some loops, where they are needed.

    Returns the other values, and the statements.
    """
    uses = _uses(body, frozenset(one.name for one in declared))
    found = {one.name: one.value for one in declared if uses.get(one.name, 0) <= 2**loops}
    if not found:
        return [*declared], tuple(body)

    def inner(code: Any) -> Any:
        if isinstance(code, Name):
            return found.get(code.name, code)
        return nodes.mapped(code, inner) if nodes.names(code) & found.keys() else code

    return [one for one in declared if one.name not in found], tuple(map(inner, body))


def sunk(declared: Sequence[Declare], body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """The definitions of values before a body; of those that only one choice in it uses, at its beginning."""
    kept, made = [], [*body]
    for one in reversed(declared):
        users = [number for number, statement in enumerate(made) if one.name in nodes.names(statement)]
        user = made[users[0]] if len(users) == 1 else None
        others = any(one.name in nodes.names(other.value) for other in declared if other is not one)
        if isinstance(user, If) and one.name not in nodes.names(user.condition) and not others:
            made[users[0]] = replace(user, body=(one, *user.body))
        else:
            kept.append(one)
    return (*reversed(kept), *made)


def _uses(codes: Iterable[Code], wanted: AbstractSet[str]) -> dict[str, int]:
    """How often each of some names is used; in a loop, more than once."""
    total: dict[str, int] = {}
    for code in codes:
        if wanted.isdisjoint(nodes.names(code)):
            continue
        if isinstance(code, Name):
            total[code.name] = total.get(code.name, 0) + 1
            continue
        times = 2 if isinstance(code, For) else 1
        for name, uses in _uses(nodes.parts(code), wanted).items():
            total[name] = total.get(name, 0) + times * uses
    return total


def by_letter(wholes: Mapping[Expr, str], letters: Sequence[str]) -> dict[str, list[Declare]]:
    """The definitions of names, by the fastest letter that each needs; '' if it needs none."""
    found: dict[str, list[Declare]] = {}
    for value, name in wholes.items():
        needed = [letter for letter in letters if letter in nodes.names(value)]
        found.setdefault(needed[-1] if needed else "", []).append(Declare(name, value, changes=bool(needed)))
    return found


def again(declared: Sequence[Declare]) -> tuple[Stmt, ...]:
    """The same, recomputed."""
    return tuple(Assign(Name(one.name), one.value) for one in declared)
