"""The last cells of a row that is reduced, fewer than it has sums: padded, so that all sums are made by vectors.

In: the terms of these cells. Out: statements that copy the ends of the rows that are read to arrays of as many cells as
there are sums, and loops over all of these, which keep the sums of no cell. Cells one by one are stored one by one, and
vectors wait for them. With AVX-512, whose vectors read and keep some of their lanes, distances of rows of 17 f32 take
0.64 of the time, maxima of rows of 23 s8 0.5, f64 0.66, s32 0.7 (AMD EPYC, Zen 4, gcc 12.2). Cells that are rounded to
bf16 are made of such copies, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from ...language.dtypes import DTYPES
from ...language.source import Code
from .. import nodes
from ..nodes import (
    ZERO,
    Assign,
    Binary,
    Call,
    Cast,
    Conditional,
    DeclareArray,
    Do,
    Expr,
    For,
    If,
    Index,
    Name,
    Stmt,
)

N, WHOLE, LANE = Name("n_"), Name("whole_"), Name("j_")
PLACE = Binary("+", WHOLE, LANE)
REST = Binary("-", N, WHOLE)


def padded(
    terms: Sequence[Assign], rows: Mapping[str, str], dtype: str, count: int, one_by_one: Sequence[Stmt]
) -> Sequence[Stmt]:
    """What `terms` add at PLACE, of rows by their data types; `one_by_one` where something else is read by lanes."""
    own = {name for term in terms for name in nodes.names(term.target)}
    found = copied([term.value for term in terms], rows, count, own)
    if found is None:
        return one_by_one
    ends, made = found
    loops = [
        For("j_", ZERO, nodes.integer(count), (_kept(term, value, dtype),), source=term.source)
        for term, value in zip(terms, made, strict=True)
    ]
    source = terms[0].source
    return either([*ends, *loops], one_by_one, source)


def either(together: Sequence[Stmt], one_by_one: Sequence[Stmt], source: str) -> tuple[Stmt, ...]:
    """What takes the last cells together, with AVX-512, or one by one."""
    narrow = If(nodes.Unary("!", Name("OPWRIGHT_PADS")), (*one_by_one,), source=source)
    return If(nodes.both([Name("OPWRIGHT_PADS"), Binary("<", WHOLE, N)]), (*together,), source=source), narrow


def copied(
    values: Sequence[Expr], rows: Mapping[str, str], count: int, own: Set[str] = frozenset()
) -> tuple[list[Stmt], list[Expr]] | None:
    """Copies of the ends of the rows that are read at PLACE, and the values of these copies.

    None where something else than those and `own` arrays is read by lanes.
    """
    read: dict[str, None] = {}
    made = [_moved(value, rows, read) for value in values]
    if any(_by_lanes(value, {*map(_end, read)} | own) for value in made):
        return None
    ends: list[Stmt] = []
    for name in read:
        kind = DTYPES[rows[name]]
        ends.append(DeclareArray(_end(name), kind.c_type, count))
        ends.append(Do(Call(f"opwright_end_{kind.size}", (Name(_end(name)), Binary("+", Name(name), WHOLE), REST))))
    return ends, made


def _end(row: str) -> str:
    return f"{row.removesuffix('_')}_end_"


def _moved(code: Expr, rows: Mapping[str, str], read: dict[str, None]) -> Expr:
    """A value in which the cells of rows at PLACE are those of their ends."""
    if isinstance(code, Index) and code.at == PLACE and isinstance(code.array, Name) and code.array.name in rows:
        read[code.array.name] = None
        return Index(Name(_end(code.array.name)), LANE)
    return nodes.mapped(code, lambda part: _moved(part, rows, read))


def _by_lanes(code: Code, known: set[str]) -> bool:
    """Whether cells of anything but known arrays are read by lanes."""
    if isinstance(code, Index) and LANE.name in nodes.names(code.at):
        return code.at != LANE or not isinstance(code.array, Name) or code.array.name not in known
    return any(_by_lanes(part, known) for part in nodes.parts(code))


def _kept(term: Assign, value: Expr, dtype: str) -> Assign:
    """A sum with its term, or without one."""
    sums = term.target
    changed = Binary(term.operator[0], sums, value) if term.operator != "=" else value
    some = Binary("<", LANE, REST)
    if dtype == "f32":  # vectors compare as many bits
        some = Binary("<", Cast("int32_t", LANE), Cast("int32_t", REST))
    picked = (
        Conditional(some, changed, sums) if dtype == "s64" else Call(f"opwright_pick_{dtype}", (some, changed, sums))
    )
    return Assign(sums, picked, source=term.source)
