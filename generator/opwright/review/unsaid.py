"""What the names in formulas of an operation stand for, as far as two sides are compared.

In: an operation before and after. Out: definitions and bounds. A call that both sides take passes no attribute that one
of them lacks, so such an attribute is its default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..language import expr
from ..language.expr import Binary, Expr, Number
from ..language.model import Attribute, Op
from ..language.types import symbol_of

NUMBERS = ("s64", "s64[]", "f32", "f32[]")


def bounds(old: Op, new: Op) -> tuple[dict[str, int], dict[str, int]]:
    """The minimum and maximum of each symbol, over the values that either side accepts."""
    lower, upper = dict[str, int](), dict[str, int]()
    sides = []
    for op in (old, new):
        minimum: dict[str, int | None] = {dim.symbol: dim.min or 0 for dim in op.dims.values()}
        maximum: dict[str, int | None] = {}
        for attribute in op.attributes:
            if attribute.type in ("s64", "s64[]") and not attribute.shape_of:
                minimum[symbol_of(attribute)], maximum[symbol_of(attribute)] = attribute.min, attribute.max
        sides.append((minimum, maximum))
    (less, more), (minimum, maximum) = sides
    for symbol in less.keys() | minimum.keys():
        low, other = less.get(symbol, minimum.get(symbol)), minimum.get(symbol, less.get(symbol))
        if low is not None and other is not None:
            lower[symbol] = min(low, other)
        high, other = more.get(symbol), maximum.get(symbol)
        if high is not None and other is not None:
            upper[symbol] = max(high, other)
    return lower, upper


def definitions(op: Op, other: Op, words: Mapping[str, str]) -> dict[str, Expr]:
    """The definition of each named value; a placeholder if a word has no case."""
    missing = Binary("/", Number(1), Number(0))
    found = dict[str, Expr]()
    for attribute in _lacking(op, other):
        default = attribute.default or ""
        if attribute.type in NUMBERS and attribute.length in (None, "spatial") and not default.startswith("["):
            found[symbol_of(attribute)] = expr.parse(default)
    for symbol, let in op.lets.items():
        formula = let.value if let.value is not None else let.cases.get(words.get(let.by or "", ""))
        if formula is not None:
            found[symbol] = formula.tree
        elif let.by in words:
            found[symbol] = missing
    return found


def words_unsaid(op: Op, other: Op) -> dict[str, str]:
    """The words of attributes that the other side lacks."""
    return {a.name or "": a.default or "" for a in _lacking(op, other) if a.type == "string"}


def _lacking(op: Op, other: Op) -> Iterator[Attribute]:
    known = {attribute.name for attribute in other.attributes}
    return (a for a in op.attributes if a.name not in known and a.default is not None)
