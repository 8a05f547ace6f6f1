"""Parts of values in steps of their own: functions that several places compute, and parts of long values.

In: the statements of a gradient. Out: the same statements, with such parts read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count

from ...language import expr
from ...language.expr import CONVERSIONS, REAL_FUNCTIONS, Binary, Call, Expr, Name, Number, Read, Unary
from ...language.spelling import spell
from ..program import Program
from .statements import Need, Statement, inside, needs_of

SHORT, LONG = 30, 400  # lengths, in characters, of a part of a value that becomes a step
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


def shortened(statements: Sequence[Statement], found: Program) -> list[Statement]:
    """The statements, with steps for parts of values that are too long for a spec: those that spare most."""
    result = list(statements)
    while long := next((s for s in result for v in s.cases.values() if len(spell(v)) > expr.MAX_LENGTH), None):
        everywhere = Counter(part for s in result for value in s.cases.values() for part in _parts(value))
        parts = {part: len(spell(part)) for value in long.cases.values() for part in _parts(value)}
        fitting = [part for part, length in parts.items() if SHORT < length <= LONG and _fits(part, long, found)]
        if not fitting:
            break
        part = max(fitting, key=lambda part: parts[part] * everywhere[part])
        made = Read(fresh("part", {*found.arrays, *_targets(result)}), _letters(part, found))
        number = next(n for n, s in enumerate(result) if any(part in _parts(v) for v in s.cases.values()))
        result = [_parted(s, part, made, found) for s in result]
        result.insert(number, Statement(made, "set", {"": part}))
    return result


def _parted(statement: Statement, part: Expr, made: Read, found: Program) -> Statement:
    """A statement that reads a part of its values, where all elements of that part exist."""
    if not any(part in _parts(value) for value in statement.cases.values()) or not _fits(part, statement, found):
        return statement
    cases = {word: _reading(value, part, made) for word, value in statement.cases.items()}
    guards = (guard for need in _needs(part, found) for guard in inside(found, need))
    return replace(statement, cases=cases, where=tuple(dict.fromkeys((*statement.where, *guards))))


def _needs(part: Expr, found: Program) -> list[Need]:
    return needs_of(found, (read for read in expr.reads(part) if read.tensor in found.arrays))


def _targets(statements: Iterable[Statement]) -> Iterator[str]:
    return (statement.target.tensor for statement in statements)


def _parts(value: Expr) -> Iterator[Expr]:
    """The real parts of a value, without conditions and itself."""
    if isinstance(value, Binary) and value.op in "+-*/":
        inner: tuple[Expr, ...] = (value.left, value.right)
    elif isinstance(value, Call):
        inner = value.arguments[1:] if value.function == "select" else value.arguments
    else:
        inner = expr.children(value) if isinstance(value, Unary) and value.op == "-" else ()
    for part in inner:
        yield part
        yield from _parts(part)


def _fits(part: Expr, statement: Statement, found: Program) -> bool:
    """Whether a part of a value may be a step of its own: the whole step needs the elements that it reads."""
    reads = expr.reads(part)
    own = (read for read in reads if read.tensor not in found.arrays)
    known = all(isinstance(index, Name) for read in own for index in read.indices)
    everywhere = all(part in _parts(value) for value in statement.cases.values())
    return bool(reads) and isinstance(part, (Binary, Call)) and known and (everywhere or not _needs(part, found))


def fresh(name: str, taken: Collection[str]) -> str:
    """A name that is not taken: this one, or with a number behind it."""
    return name if name not in taken else next(made for k in count(2) if (made := f"{name}_{k}") not in taken)


def _reading(value: Expr, part: Expr, made: Read) -> Expr:
    return expr.changed(value, lambda node: made if node == part else None)


def _calls(tree: Expr) -> Iterator[Call]:
    for node in expr.walk(tree):
        power = isinstance(node, Call) and node.function == "pow" and isinstance(node.arguments[1], Number)
        if isinstance(node, Call) and node.function in REAL_FUNCTIONS and node.function not in CHEAP and not power:
            yield node


def _repeated(statements: Sequence[Statement], found: Program) -> Call | None:
    """The largest function that occurs in several places, of elements at plain letters."""
    counts: Counter[Call] = Counter()
    for statement in statements:  # of which one case is computed
        cases = [Counter(_calls(value)) for value in statement.cases.values()]
        counts.update({call: max(case[call] for case in cases) for call in set().union(*cases)})
    many = [call for call, count in counts.items() if count > 1 and _at_letters(call, found)]
    return max(many, key=expr.depth, default=None)


def _at_letters(call: Call, found: Program) -> bool:
    letters = set(_letters(call, found))
    elements = expr.reads(call)
    return bool(elements) and all(index in letters or index == Number(0) for read in elements for index in read.indices)


def _letters(call: Expr, found: Program) -> tuple[Expr, ...]:
    named = expr.names(call)
    return tuple(Name(letter) for letter in found.letters if letter in named)


def _name(call: Call, statements: Sequence[Statement], found: Program) -> str:
    return fresh(f"{call.function}_of_{expr.reads(call)[0].tensor}", {*found.arrays, *_targets(statements)})
