"""The expression language of specs: parsed into a tree here, never evaluated as Python.

Integers, `+ - * / %`, `min max floor ceil`, comparisons, `and or not`, and over vectors `any all prod ones`.
A vector symbol has one value per axis of a run, and operations on it are elementwise. `/` is exact: a
remainder is an error, and `floor` and `ceil` take a quotient. `%` is Euclidean. In semantics there are also
reads of tensors, `src[n, c, i]`, real literals, and in steps the functions of REAL_FUNCTIONS.

In: text and its mark. Out: a frozen tree whose nodes know their column. The module knows
nothing of operations, and does not print code (see printing.py).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..memo import memoised
from . import hints
from .source import Mark, Problem, SpecInvalid, suggestion

MAX_LENGTH = 500
MAX_DEPTH = 40
MAX_TREE = 80
INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)

ARITHMETIC = ("+", "-", "*", "/", "%")
COMPARISONS = ("==", "!=", "<=", ">=", "<", ">")
LOGIC = ("and", "or")
FUNCTIONS = {
    "min": (2, 8),
    "max": (2, 8),
    "floor": (1, 1),
    "ceil": (1, 1),
    "any": (1, 1),
    "all": (1, 1),
    "prod": (1, 1),
}
# Of a vector: an extent of 1 for each of its axes.
VECTOR_FUNCTIONS = {"ones": (1, 1)}
# Of an integer and a real number: their product in f32, rounded down.
SCALE_FUNCTIONS = {"scaled": (2, 2)}
# Of letters of steps: the number of their values, the last letter fastest.
LETTER_FUNCTIONS = {"number": (1, 8)}
# Of a value of a step: the value that a tensor of this type would hold of it.
CONVERSIONS = {
    f"to_{dtype}": dtype for dtype in ("f32", "bf16", "f16", "f8_e4m3", "f8_e5m2", "s32", "s8", "u8", "s4", "u4")
}
# Functions that only values of steps may use.
REAL_FUNCTIONS = {
    **dict.fromkeys(CONVERSIONS, (1, 1)),
    **dict.fromkeys(("exp", "exp2", "log", "log1p", "tanh", "erf", "sqrt", "rsqrt", "abs", "round", "sign"), (1, 1)),
    "pow": (2, 2),
    "select": (3, 3),
    "bit_not": (1, 1),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor", "shift_left", "shift_right"), (2, 2)),
}
# Those of them for integers only.
BIT_FUNCTIONS = frozenset(("bit_not", "bit_and", "bit_or", "bit_xor", "shift_left", "shift_right"))
ALL_FUNCTIONS = {**FUNCTIONS, **VECTOR_FUNCTIONS, **SCALE_FUNCTIONS, **LETTER_FUNCTIONS, **REAL_FUNCTIONS}
REDUCTIONS = ("any", "all", "prod")


@dataclass(frozen=True)
class Number:
    """A literal: an int, or in semantics a float (`inf` included)."""

    value: int | float
    column: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Name:
    """A symbol of the spec, or a range variable of its semantics."""

    id: str
    column: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Unary:
    """`-a` or `not a`."""

    op: str
    operand: Expr
    column: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Binary:
    """`a op b`, op one of ARITHMETIC, COMPARISONS, LOGIC."""

    op: str
    left: Expr
    right: Expr
    column: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Call:
    """A function of ALL_FUNCTIONS applied to its arguments."""

    function: str
    arguments: tuple[Expr, ...]
    column: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Read:
    """An element of a tensor: `src[n, c, i]`."""

    tensor: str
    indices: tuple[Expr, ...]
    column: int = field(default=0, compare=False)


Expr = Number | Name | Unary | Binary | Call | Read
Value = int | bool | tuple[int, ...] | tuple[bool, ...]

_NO_NAMES: frozenset[str] = frozenset()


class Inexact(ArithmeticError):  # noqa: N818  # named for what it says
    """`a / b` left a remainder, or b was zero."""


_TOKEN = re.compile(
    r"(?P<space>[ \t]+)|(?P<real>[0-9]+(?:\.[0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+))|(?P<int>[0-9]+)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<op>==|!=|<=|>=|[-+*/%<>()\[\],])"
)


class _Parser:
    def __init__(self, text: str, mark: Mark) -> None:
        self.mark = mark
        self.text = text
        if len(text) > MAX_LENGTH:
            raise self.error(0, f"an expression has at most {MAX_LENGTH} characters, this one has {len(text)}")
        self.tokens = list(self._scan(text))
        self.position = 0
        self.depth = 0

    def error(self, column: int, message: str) -> SpecInvalid:
        return SpecInvalid([Problem(self.mark.moved(column), "expression", message)])

    def _scan(self, text: str) -> Iterator[tuple[str, str, int]]:
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if not found:
                raise self.error(at, f"{text[at]!r} is not part of the expression language{hints.sign(text[at:])}")
            if found.lastgroup != "space":
                kind = found.lastgroup or ""
                if kind == "name" and found.group() in ("and", "or", "not"):
                    kind = "op"
                yield kind, found.group(), at
            at = found.end()
        yield "end", "the end", len(text)

    def accept(self, *texts: str) -> str | None:
        kind, text, _ = self.tokens[self.position]
        if kind == "op" and text in texts:
            self.position += 1
            return text
        return None

    def expect(self, text: str) -> None:
        if self.accept(text) is None:
            kind, found, at = self.tokens[self.position]
            advice = "; inside {...} and [...] an expression with commas needs quotes" if kind == "end" else ""
            raise self.error(at, f"expected '{text}' but found '{found}'{advice}")

    @property
    def column(self) -> int:
        return self.tokens[self.position][2]

    def parse(self) -> Expr:
        result = self.disjunction()
        kind, text, at = self.tokens[self.position]
        if kind != "end":
            hint = hints.sign(self.text[at:])
            raise self.error(at, f"unexpected '{text}' after the end of the expression{hint}")
        if depth(result) > MAX_TREE:
            raise self.error(0, f"an expression has at most {MAX_TREE} nested operations; give a part of it a name")
        return result

    def _left(self, operators: tuple[str, ...], operand: Callable[[], Expr]) -> Expr:
        left = operand()
        while True:
            column = self.column
            op = self.accept(*operators)
            if op is None:
                return left
            left = Binary(op, left, operand(), column)

    def disjunction(self) -> Expr:
        return self._left(("or",), lambda: self._left(("and",), self.negation))

    def negation(self) -> Expr:
        column = self.column
        if self.accept("not"):
            return Unary("not", self.nested(self.negation), column)
        left = self.sum()
        column = self.column
        op = self.accept(*COMPARISONS)
        if op is None:
            return left
        right = self.sum()
        if self.accept(*COMPARISONS):
            raise self.error(column, "comparisons do not chain; combine them with 'and'")
        return Binary(op, left, right, column)

    def sum(self) -> Expr:
        return self._left(("+", "-"), lambda: self._left(("*", "/", "%"), self.unary))

    def unary(self) -> Expr:
        column = self.column
        if self.accept("-"):
            return Unary("-", self.nested(self.unary), column)
        return self.atom()

    def nested(self, rule: Callable[[], Expr]) -> Expr:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(self.column, f"nested deeper than {MAX_DEPTH} levels")
        result = rule()
        self.depth -= 1
        return result

    def list_until(self, closing: str) -> tuple[Expr, ...]:
        items = [self.nested(self.disjunction)]
        while self.accept(","):
            items.append(self.nested(self.disjunction))
        self.expect(closing)
        return tuple(items)

    def atom(self) -> Expr:
        kind, text, column = self.tokens[self.position]
        if self.accept("("):
            inner = self.nested(self.disjunction)
            self.expect(")")
            return inner
        self.position += 1
        if kind == "int":
            value = int(text)
            if value > INT64_MAX:
                raise self.error(column, f"{text} does not fit into 64 bits")
            return Number(value, column)
        if kind == "real":
            if not math.isfinite(float(text)):
                raise self.error(column, f"{text} exceeds every real number; write inf")
            return Number(float(text), column)
        if kind == "name":
            return self.named(text, column)
        self.position -= 1
        raise self.error(column, f"expected a value but found '{text}'{hints.sign(self.text[column - 1 :][:2])}")

    def named(self, name: str, column: int) -> Expr:
        if self.accept("["):
            return Read(name, () if self.accept("]") else self.list_until("]"), column)
        if not self.accept("("):
            return Number(math.inf, column) if name == "inf" else Name(name, column)
        if name not in ALL_FUNCTIONS:
            hint = (
                hints.function(name)
                or suggestion(name, ALL_FUNCTIONS)
                or f"; SPEC.md lists all, and an element is {name}[...]"
            )
            raise self.error(column, f"there is no function '{name}'{hint}")
        arguments = self.list_until(")")
        minimum, maximum = ALL_FUNCTIONS[name]
        if not minimum <= len(arguments) <= maximum:
            count = minimum if minimum == maximum else f"{minimum} to {maximum}"
            raise self.error(column, f"'{name}' takes {count} argument{'s' * (count != 1)}, not {len(arguments)}")
        quotient = isinstance(arguments[0], Binary) and arguments[0].op == "/"
        if name in ("floor", "ceil") and not quotient and not any(map(_is_real, walk(arguments[0]))):
            raise self.error(column, f"'{name}' takes a quotient, as in {name}(a / b)")
        return Call(name, arguments, column)


def _is_real(node: Expr) -> bool:
    """Whether a node is real regardless of its operands."""
    if isinstance(node, Number):
        return isinstance(node.value, float)
    return isinstance(node, Read) or (isinstance(node, Call) and node.function in REAL_FUNCTIONS)


def parse(text: str, mark: Mark | None = None) -> Expr:
    """The tree of `text`. Raises SpecInvalid with file, line and column."""
    return _Parser(text, mark or Mark()).parse()


def children(tree: Expr) -> tuple[Expr, ...]:
    """The direct subtrees of a node, left to right."""
    if isinstance(tree, (Name, Number)):
        return ()
    if isinstance(tree, Binary):
        return (tree.left, tree.right)
    if isinstance(tree, Unary):
        return (tree.operand,)
    return tree.indices if isinstance(tree, Read) else tree.arguments


def depth(tree: Expr) -> int:
    """The depth of a tree; printed text nests no deeper."""
    return 1 + max(map(depth, children(tree)), default=0)


def walk(tree: Expr) -> Iterator[Expr]:
    """Every node of a tree, the root first."""
    left = [tree]
    while left:
        yield (node := left.pop())
        left.extend(reversed(children(node)))


def outside_indices(tree: Expr) -> Iterator[Expr]:
    """The nodes of a tree but for those of indices, which are integers whatever the tree is."""
    left = [tree]
    while left:
        yield (node := left.pop())
        left.extend(() if isinstance(node, Read) else reversed(children(node)))


def names_outside_indices(tree: Expr) -> frozenset[str]:
    """The symbols in a tree but for those in indices of reads."""
    return frozenset(node.id for node in outside_indices(tree) if isinstance(node, Name))


@memoised
def of_bits(tree: Expr) -> bool:
    """Whether a tree calls a function of bits, so that its values are integers of 64 bits."""
    return any(isinstance(node, Call) and node.function in BIT_FUNCTIONS for node in walk(tree))


def with_children(tree: Expr, made: Sequence[Expr]) -> Expr:
    """A tree with other children, in the order of `children`."""
    if isinstance(tree, Binary):
        return replace(tree, left=made[0], right=made[1])
    if isinstance(tree, Unary):
        return replace(tree, operand=made[0])
    if isinstance(tree, Call):
        return replace(tree, arguments=tuple(made))
    return replace(tree, indices=tuple(made)) if isinstance(tree, Read) else tree


def changed(tree: Expr, visit: Callable[[Expr], Expr | None]) -> Expr:
    """A tree with subtrees replaced by `visit`, the outermost first; None keeps a node, but not what is in it."""
    found = visit(tree)
    return found if found is not None else with_children(tree, [changed(child, visit) for child in children(tree)])


@memoised
def replaced(tree: Expr, old: Expr, new: Expr) -> Expr:
    """A tree with every part equal to `old` replaced; an element of a tensor is replaced only as a whole."""
    return changed(tree, lambda node: new if node == old else node if isinstance(node, Read) else None)


def substitute(tree: Expr, trees: Mapping[str, Expr]) -> Expr:
    """A tree with names replaced by trees, all at once."""

    def visit(node: Expr) -> Expr | None:
        if names(node).isdisjoint(trees):
            return node
        return trees[node.id] if isinstance(node, Name) else None

    return changed(tree, visit)


@memoised
def names(tree: Expr) -> frozenset[str]:
    """The symbols in a tree, including those in indices of reads."""
    if isinstance(tree, Name):
        return frozenset({tree.id})
    return _NO_NAMES.union(*map(names, children(tree)))


@memoised
def loose_names(tree: Expr) -> frozenset[str]:
    """The symbols outside any, all, prod and number: if one of them is a vector, so is the tree."""
    if isinstance(tree, Name):
        return frozenset({tree.id})
    if isinstance(tree, Call) and (tree.function in REDUCTIONS or tree.function in LETTER_FUNCTIONS):
        return frozenset()
    return _NO_NAMES.union(*map(loose_names, children(tree)))


@memoised
def gathered_names(tree: Expr) -> frozenset[str]:
    """The symbols inside any, all, prod and number, which reduce over all their axes."""
    calls = (node for node in walk(tree) if isinstance(node, Call))
    return _NO_NAMES.union(*(names(call) for call in calls if call.function in (*REDUCTIONS, *LETTER_FUNCTIONS)))


@memoised
def reads(tree: Expr) -> tuple[Read, ...]:
    """The tensor elements that a tree reads, in the order of the text."""
    return tuple(node for node in walk(tree) if isinstance(node, Read))
