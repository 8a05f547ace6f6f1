"""C as a tree: expressions that know their precedence, and statements. templates/c/nodes.c.j2 prints them.

Nodes are frozen and say nothing about layout. A node's macro has the name of its
class in lower case; to add a node, add its class and its macro.
`level` is the precedence of an expression. An operand of lower precedence than its place requires is printed in
parentheses, so that no tree can be misread and none has parentheses of its own.

`source` is the field of the operation's spec that a statement comes from, if any: `semantics.where.0`. `opwright why`
shows it; it affects no token.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

from ..language.source import Code
from ..memo import memoised

# The precedence of the kinds of expression; larger numbers bind more tightly.
ASSIGNED, CONDITIONAL, OR, AND, EQUAL, LESS, SUM, PRODUCT, UNARY, POSTFIX, PRIMARY = range(11)
# Each operator's level, and the required levels of its left and right operands. Associative operators accept their own
# level on the left; comparisons and logical operators do not, because compilers warn about missing parentheses.
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
    """A non-negative number in C."""

    text: str
    level: ClassVar[int] = PRIMARY


@dataclass(frozen=True, eq=False)
class Text(Code):
    """A string of C; its macro escapes every character."""

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
    """`-a` or `!a`; a unary operand gets parentheses, because `--a` is another operator."""

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
    """`condition ? yes : no`; chains associate to the right."""

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
    """`const c_type name = value;`, without `const` if the value will change."""

    name: str
    value: Expr
    c_type: str = "int64_t"
    changes: bool = False
    source: str = ""


@dataclass(frozen=True, eq=False)
class DeclareArray(Code):
    """`c_type name[length];`, initialised to 0 if `zeroed`."""

    name: str
    c_type: str
    length: int
    zeroed: bool = False


@dataclass(frozen=True, eq=False)
class Room(Code):
    """`c_type name;`, a struct that functions fill: empty, or uninitialised if `plain`."""

    name: str
    c_type: str
    plain: bool = False


@dataclass(frozen=True, eq=False)
class Return(Code):
    """`return;`, or `return value;`"""

    value: Expr | None = None


@dataclass(frozen=True, eq=False)
class Assign(Code):
    """`target operator value;`"""

    target: Expr
    value: Expr
    operator: str = "="
    source: str = ""


@dataclass(frozen=True, eq=False)
class Do(Code):
    """`call;`: for its side effect."""

    call: Expr


@dataclass(frozen=True, eq=False)
class If(Code):
    condition: Expr
    body: tuple[Stmt, ...]
    source: str = ""


@dataclass(frozen=True, eq=False)
class Scope(Code):
    """Statements whose names end with them."""

    body: tuple[Stmt, ...]


@dataclass(frozen=True, eq=False)
class Carried(Code):
    """A variable that a loop updates besides its letter: its initial value, and its step."""

    letter: str
    begin: Expr
    step: Expr


@dataclass(frozen=True, eq=False)
class For(Code):
    """A loop of a letter over [begin, end): by one, or by a step, which may update a second letter.

    `unroll` is how many iterations a compiler is asked to do at once; 0 leaves that to it. No iteration of an
    `independent` loop reads or writes what another one writes.
    """

    end_level: ClassVar[int] = SUM
    letter: str
    begin: Expr
    end: Expr
    body: tuple[Stmt, ...]
    step: Expr | None = None
    carried: Carried | None = None
    source: str = ""
    unroll: int = 0
    independent: bool = False


Stmt = Declare | DeclareArray | Room | Return | Assign | Do | If | Scope | For

Node = TypeVar("Node", bound=Code)

ZERO, ONE = Literal("0"), Literal("1")

_NO_NAMES: frozenset[str] = frozenset()


@functools.lru_cache(2**10)
def integer(value: int) -> Expr:
    """An integer in C."""
    return Literal(str(value)) if value >= 0 else Unary("-", Literal(str(-value)))


def real(value: float, suffix: str) -> Expr:
    """A real number in C; `suffix` gives its type."""
    size: Expr = Name("INFINITY") if math.isinf(value) else Literal(f"{abs(value)!r}{suffix}")
    return Unary("-", size) if math.copysign(1, value) < 0 else size


def call(function: str, *arguments: Expr) -> Expr:
    return Call(function, arguments)


def chain(operator: str, parts: Iterable[Expr], neutral: Expr) -> Expr:
    """Parts combined from the left; the neutral element if there are none."""
    operands = [*parts]
    return functools.reduce(lambda left, right: Binary(operator, left, right), operands) if operands else neutral


def plus(left: Expr, right: Expr) -> Expr:
    """The sum of two integers; a sum on the right is flattened."""
    if isinstance(right, Binary) and right.operator in ("+", "-"):
        return Binary(right.operator, plus(left, right.left), right.right)
    return Binary("+", left, right)


def product(factors: Iterable[Expr]) -> Expr:
    return chain("*", factors, ONE)


def total(parts: Sequence[Expr]) -> Expr:
    """The sum of integers."""
    return functools.reduce(plus, parts) if parts else ZERO


def added(parts: Iterable[tuple[bool, Expr]]) -> Expr:
    """A sum of added and subtracted parts, beginning with an added one if there is one."""
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
    """`f(a, f(b, c))` of the distinct values."""
    first, *rest = reversed(dict.fromkeys(values))
    return functools.reduce(lambda inner, value: call(function, value, inner), rest, first)


def chosen(number: Expr, values: Sequence[Expr]) -> Expr:
    """The value with a given number: a chain of comparisons, without redundant ones."""
    result = values[-1]
    for position in reversed(range(len(values) - 1)):
        if values[position] != result:
            result = Conditional(Binary("==", number, integer(position)), values[position], result)
    return result


def both(conditions: Iterable[Expr]) -> Expr:
    """`a && b`, of one condition or more."""
    return chain("&&", conditions, ONE)


@functools.cache
def _fields(kind: type) -> tuple[tuple[str, bool], ...]:
    """The fields of a kind of node, and whether they hold nodes."""
    return tuple((one.name, one.type not in ("str", "bool", "int")) for one in fields(kind))


@memoised
def parts(code: Code) -> tuple[Code, ...]:
    """The nodes that a node is made of."""
    found: list[Code] = []
    for name, inner in _fields(type(code)):
        part = getattr(code, name) if inner else None
        if isinstance(part, tuple):
            found += part
        elif isinstance(part, Code):
            found.append(part)
    return tuple(found)


def mapped(code: Node, made_of: Callable[[Any], Any]) -> Node:
    """A node with something made of each of its parts; the node itself if nothing else was made."""
    changed, values = False, []
    for name, inner in _fields(type(code)):
        value = made = getattr(code, name)
        if inner and isinstance(value, tuple):
            made = tuple(map(made_of, value))
        elif inner and isinstance(value, Code):
            made = made_of(value)
        changed = changed or made != value
        values.append(made)
    return type(code)(*values) if changed else code


@memoised
def unplaced(code: Node) -> Node:
    """Code without the fields of the spec that it comes from: where two are the same, they print the same."""
    if not isinstance(code, Stmt):
        return code
    bare = mapped(code, unplaced)
    return replace(bare, source="") if getattr(code, "source", "") else bare  # type: ignore[arg-type]


@memoised
def names(code: Code) -> frozenset[str]:
    """The names that code reads or writes, without those that it declares."""
    if isinstance(code, Name):
        return frozenset({code.name})
    return names_of(parts(code))


def names_of(codes: Iterable[Code]) -> frozenset[str]:
    """The same of several nodes."""
    return _NO_NAMES.union(*map(names, codes))


def used(declared: Iterable[Declare], body: Stmt) -> tuple[Declare, ...]:
    """The declarations before a statement that it needs; compilers warn about unused ones."""
    wanted, needed = {*names(body)}, list[Declare]()
    for one in reversed(tuple(declared)):
        if one.name in wanted:
            wanted.update(names(one.value))
            needed.insert(0, one)
    return tuple(needed)
