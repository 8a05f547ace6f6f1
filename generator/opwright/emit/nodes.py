"""C as a tree: expressions that know their precedence, and statements. templates/c/nodes.c.j2 prints them.

In: what a kernel computes with. Out: frozen nodes that say nothing about layout. A node's macro has the name of its
class in lower case; whoever adds a node, for vectors, packs or fused steps, adds its macro and touches nothing else.
`level` is how tightly an expression binds. An operand that binds more loosely than its place asks for is printed in
brackets, so that no tree can be read wrongly and none has brackets of its own.

`source` is the field of the operation's spec that a statement comes from, where one does: `semantics.where.0`. It is
told by `opwright why` and reaches no token.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

from ..language.source import Code
from ..memo import memoised

# How tightly the kinds of expression bind; the numbers grow with it.
ASSIGNED, CONDITIONAL, OR, AND, EQUAL, LESS, SUM, PRODUCT, UNARY, POSTFIX, PRIMARY = range(11)
# Each operator's own level, and what its left and its right operand must have. Those that associate take their like on
# the left; comparisons and truth values take none, because compilers warn where brackets would only help readers.
_OPERATORS = {
    "*": (PRODUCT, PRODUCT, UNARY),
    "/": (PRODUCT, PRODUCT, UNARY),
    "%": (PRODUCT, PRODUCT, UNARY),
    "+": (SUM, SUM, PRODUCT),
    "-": (SUM, SUM, PRODUCT),
    **dict.fromkeys(("<", "<=", ">", ">="), (LESS, SUM, SUM)),
    **dict.fromkeys(("==", "!="), (EQUAL, SUM, SUM)),
    "&&": (AND, AND, EQUAL),
    "||": (OR, EQUAL, EQUAL),
}


@dataclass(frozen=True, eq=False)
class Literal(Code):
    """A number as C writes it, not negative."""

    text: str
    level: ClassVar[int] = PRIMARY


@dataclass(frozen=True, eq=False)
class Text(Code):
    """A string of C; its macro makes every letter inert."""

    text: str
    level: ClassVar[int] = PRIMARY


@dataclass(frozen=True, eq=False)
class Name(Code):
    name: str
    level: ClassVar[int] = PRIMARY


@dataclass(frozen=True, eq=False)
class Member(Code):
    """`of->name`."""

    of: Expr
    name: str
    level: ClassVar[int] = POSTFIX


@dataclass(frozen=True, eq=False)
class Index(Code):
    """`array[at]`."""

    array: Expr
    at: Expr
    level: ClassVar[int] = POSTFIX


@dataclass(frozen=True, eq=False)
class Call(Code):
    function: str
    arguments: tuple[Expr, ...]
    level: ClassVar[int] = POSTFIX


@dataclass(frozen=True, eq=False)
class Cast(Code):
    c_type: str
    operand: Expr
    level: ClassVar[int] = UNARY


@dataclass(frozen=True, eq=False)
class Unary(Code):
    """`-a` or `!a`; an operand that is one too gets brackets, for `--a` is something else."""

    operator: str
    operand: Expr
    operand_level: ClassVar[int] = POSTFIX

    @property
    def level(self) -> int:
        return EQUAL if self.operator == "!" else UNARY  # compilers warn of `!a == b`


@dataclass(frozen=True, eq=False)
class Binary(Code):
    operator: str
    left: Expr
    right: Expr

    @property
    def level(self) -> int:
        return _OPERATORS[self.operator][0]

    @property
    def left_level(self) -> int:
        return _OPERATORS[self.operator][1]

    @property
    def right_level(self) -> int:
        return _OPERATORS[self.operator][2]


@dataclass(frozen=True, eq=False)
class Conditional(Code):
    """`condition ? yes : no`; a chain of them reads from the left."""

    condition: Expr
    yes: Expr
    no: Expr
    level: ClassVar[int] = CONDITIONAL
    part_level: ClassVar[int] = OR


@dataclass(frozen=True, eq=False)
class PerAxis(Code):
    """`{a, b, c}`: a value per spatial axis."""

    values: tuple[Expr, ...]
    level: ClassVar[int] = PRIMARY


Expr = Literal | Text | Name | Member | Index | Call | Cast | Unary | Binary | Conditional | PerAxis


@dataclass(frozen=True, eq=False)
class Declare(Code):
    """`const c_type name = value;`, without `const` where the value will change."""

    name: str
    value: Expr
    c_type: str = "int64_t"
    changes: bool = False
    source: str = ""


@dataclass(frozen=True, eq=False)
class DeclareArray(Code):
    """`c_type name[length];`, all of it 0 where it is `zeroed`."""

    name: str
    c_type: str
    length: int
    zeroed: bool = False


@dataclass(frozen=True, eq=False)
class Room(Code):
    """`c_type name;`, a struct that functions fill: empty, or `plain` where one begins it anew."""

    name: str
    c_type: str
    plain: bool = False


@dataclass(frozen=True, eq=False)
class Return(Code):
    """`return;`"""


@dataclass(frozen=True, eq=False)
class Assign(Code):
    """`target operator value;`"""

    target: Expr
    value: Expr
    operator: str = "="
    source: str = ""


@dataclass(frozen=True, eq=False)
class Do(Code):
    """`call;`: for what a function does."""

    call: Expr


@dataclass(frozen=True, eq=False)
class If(Code):
    condition: Expr
    body: tuple[Stmt, ...]
    source: str = ""


@dataclass(frozen=True, eq=False)
class Carried(Code):
    """What a loop carries along beside its letter: where it begins, and its step."""

    letter: str
    begin: Expr
    step: Expr


@dataclass(frozen=True, eq=False)
class For(Code):
    """A loop of a letter over [begin, end): by one, or by a step, which may carry a second letter along."""

    letter: str
    begin: Expr
    end: Expr
    body: tuple[Stmt, ...]
    step: Expr | None = None
    carried: Carried | None = None
    source: str = ""


Stmt = Declare | DeclareArray | Room | Return | Assign | Do | If | For

Node = TypeVar("Node", bound=Code)

ZERO, ONE = Literal("0"), Literal("1")


@functools.lru_cache(2**10)
def integer(value: int) -> Expr:
    """An integer as C writes it."""
    return Literal(str(value)) if value >= 0 else Unary("-", Literal(str(-value)))


def real(value: float, suffix: str) -> Expr:
    """A real number as C writes it: `suffix` tells its type."""
    size: Expr = Name("INFINITY") if math.isinf(value) else Literal(f"{abs(value)!r}{suffix}")
    return Unary("-", size) if math.copysign(1, value) < 0 else size


def call(function: str, *arguments: Expr) -> Expr:
    return Call(function, arguments)


def chain(operator: str, parts: Iterable[Expr], neutral: Expr) -> Expr:
    """Parts joined from the left; the neutral element of no parts."""
    joined = [*parts]
    return functools.reduce(lambda left, right: Binary(operator, left, right), joined) if joined else neutral


def plus(left: Expr, right: Expr) -> Expr:
    """The sum of two integers; a sum on the right is taken up part by part."""
    if isinstance(right, Binary) and right.operator in ("+", "-"):
        return Binary(right.operator, plus(left, right.left), right.right)
    return Binary("+", left, right)


def product(factors: Iterable[Expr]) -> Expr:
    return chain("*", factors, ONE)


def total(parts: Sequence[Expr]) -> Expr:
    """The sum of integers."""
    return functools.reduce(plus, parts) if parts else ZERO


def added(parts: Iterable[tuple[bool, Expr]]) -> Expr:
    """A sum of parts, of which some are taken away; one that is added goes first where there is one."""
    (negative, first), *rest = sorted(parts, key=lambda part: part[0]) or [(False, ZERO)]
    result = _negated(first) if negative else first
    for minus, part in rest:
        result = Binary("-" if minus else "+", result, part)
    return result


def _negated(value: Expr) -> Expr:
    """`-a * b` for the product of a and b: the sign goes with the first factor."""
    if isinstance(value, Binary) and value.operator in ("*", "/", "%"):
        return Binary(value.operator, _negated(value.left), value.right)
    return Unary("-", value)


def nested(function: str, values: Sequence[Expr]) -> Expr:
    """`f(a, f(b, c))` of the values that differ."""
    first, *rest = reversed(dict.fromkeys(values))
    return functools.reduce(lambda inner, value: call(function, value, inner), rest, first)


def chosen(number: Expr, values: Sequence[Expr]) -> Expr:
    """The value of that number: a chain of comparisons, without those that change nothing."""
    result = values[-1]
    for position in reversed(range(len(values) - 1)):
        if values[position] != result:
            result = Conditional(Binary("==", number, integer(position)), values[position], result)
    return result


def both(conditions: Iterable[Expr]) -> Expr:
    """`a && b`, of one condition or more."""
    return chain("&&", conditions, ONE)


@functools.cache
def _fields(kind: type) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))


def parts(code: Code) -> Iterator[Code]:
    """The nodes that a node is made of."""
    for name in _fields(type(code)):
        part = getattr(code, name)
        if isinstance(part, tuple):
            yield from part
        elif isinstance(part, Code):
            yield part


def mapped(code: Node, made_of: Callable[[Any], Any]) -> Node:
    """A node with something made of each of its parts."""
    changed: dict[str, Any] = {}
    for name in _fields(type(code)):
        part = getattr(code, name)
        if isinstance(part, tuple):
            changed[name] = tuple(map(made_of, part))
        elif isinstance(part, Code):
            changed[name] = made_of(part)
    return replace(code, **changed)  # type: ignore[type-var]


@memoised
def unplaced(code: Node) -> Node:
    """Code without the fields of the spec that it comes from: where two are the same, they print the same."""
    if not isinstance(code, Stmt):
        return code
    bare = mapped(code, unplaced)
    return replace(bare, source="") if getattr(code, "source", "") else bare  # type: ignore[arg-type]


@memoised
def names(code: Code) -> frozenset[str]:
    """The names that code reads or writes; what it declares is not among them."""
    if isinstance(code, Name):
        return frozenset({code.name})
    return names_of(parts(code))


def names_of(codes: Iterable[Code]) -> frozenset[str]:
    """The same of several nodes."""
    return frozenset[str]().union(*map(names, codes))


def used(declared: Iterable[Declare], body: Stmt) -> tuple[Declare, ...]:
    """Of declarations before a statement, those that it needs: compilers warn of others."""
    wanted, kept = {*names(body)}, list[Declare]()
    for one in reversed(tuple(declared)):
        if one.name in wanted:
            wanted.update(names(one.value))
            kept.insert(0, one)
    return tuple(kept)
