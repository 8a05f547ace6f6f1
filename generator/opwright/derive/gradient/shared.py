"""Common subexpressions of a gradient: functions of the same values, computed once in a step of their own.

In: the statements of a gradient. Out: the same statements, with such functions read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...language import expr
from ...language.expr import CONVERSIONS, REAL_FUNCTIONS, Call, Expr, Name, Number, Read
from ..program import Program
from .statements import Statement
from .terms import replaced

CHEAP = ("abs", "sign", "select", "round", "floor", "ceil", *CONVERSIONS)


def shared(statements: Sequence[Statement], found: Program) -> list[Statement]:
    """The statements, with a step before the first use of each function that two places compute."""
    result = list(statements)
    while (again := _repeated(result, found)) is not None:
        number = next(n for n, s in enumerate(result) if any(again in _calls(v) for v in s.cases.values()))
        by = result[number].by
        same = by is not None and all(s.by == by for s in result if any(again in _calls(v) for v in s.cases.values()))
        made = Read(_name(again, result, found), _letters(again, found))
        cases: dict[str, Expr] = {"": again}
        if same:
            users = [s for s in result if any(again in _calls(v) for v in s.cases.values())]
            words = {word for s in users for word, value in s.cases.items() if again in _calls(value)}
            cases = {word: again if word in words else Number(0) for word in result[number].cases}
        result = [replace(s, cases={w: _reading(v, again, made) for w, v in s.cases.items()}) for s in result]
        result.insert(number, Statement(made, "set", cases, by if same else None))
    return result


def _reading(value: Expr, call: Call, made: Read) -> Expr:
    return replaced(value, lambda node: made if node == call else None)


def _calls(tree: Expr) -> Iterator[Call]:
    for node in expr.walk(tree):
        power = isinstance(node, Call) and node.function == "pow" and isinstance(node.arguments[1], Number)
        if isinstance(node, Call) and node.function in REAL_FUNCTIONS and node.function not in CHEAP and not power:
            yield node


def _repeated(statements: Sequence[Statement], found: Program) -> Call | None:
    """The largest function that occurs in several places, of elements at plain letters."""
    counts = Counter(call for s in statements for value in s.cases.values() for call in _calls(value))
    many = [call for call, count in counts.items() if count > 1 and _alone(call, found)]
    return max(many, key=expr.depth, default=None)


def _alone(call: Call, found: Program) -> bool:
    letters = set(_letters(call, found))
    elements = expr.reads(call)
    return bool(elements) and all(index in letters or index == Number(0) for read in elements for index in read.indices)


def _letters(call: Call, found: Program) -> tuple[Expr, ...]:
    named = expr.names(call)
    return tuple(Name(letter) for letter in found.letters if letter in named)


def _name(call: Call, statements: Sequence[Statement], found: Program) -> str:
    first = f"{call.function}_of_{expr.reads(call)[0].tensor}"
    taken = {*found.arrays, *(statement.target.tensor for statement in statements)}
    name, number = first, 1
    while name in taken:
        number += 1
        name = f"{first}_{number}"
    return name
