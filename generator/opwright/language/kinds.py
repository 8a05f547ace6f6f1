"""The kind of an expression: integer, real or truth value; one value, or one per spatial axis.

In: a tree and the kinds of its symbols. Out: its kind, or SpecInvalid with the place of the error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .expr import (
    BIT_FUNCTIONS,
    COMPARISONS,
    LETTER_FUNCTIONS,
    LOGIC,
    REAL_FUNCTIONS,
    REDUCTIONS,
    SCALE_FUNCTIONS,
    VECTOR_FUNCTIONS,
    Binary,
    Call,
    Expr,
    Name,
    Number,
    Read,
    Unary,
    children,
)
from .source import Mark, Problem, SpecInvalid, suggestion

# The advice for a number used as a truth value; elements of boolean tensors are numbers, too.
AS_TRUTH = "; a number x is compared, as in x != 0"


@dataclass(frozen=True)
class Kind:
    """The kind of an expression: `base` int, bool or real; a vector has one value per spatial axis."""

    base: str
    vector: bool = False

    def __str__(self) -> str:
        article = {"int": "an integer", "bool": "a truth value", "real": "a real number"}[self.base]
        return f"{article} per spatial axis" if self.vector else article


def kind_of(tree: Expr, symbols: Mapping[str, Kind], mark: Mark, *, step: bool = False) -> Kind:
    """The kind of a tree. Raises SpecInvalid for an unknown symbol, a sum of truth values, or a misplaced vector.

    In the value of a step, `floor` and `ceil` take real numbers too.
    """
    return _Kinds(symbols, mark, step).of(tree)


class _Kinds:
    """The kinds of the nodes of one tree."""

    def __init__(self, symbols: Mapping[str, Kind], mark: Mark, step: bool) -> None:
        self.symbols, self.mark, self.step = symbols, mark, step

    def fail(self, node: Expr, message: str) -> SpecInvalid:
        return SpecInvalid([Problem(self.mark.moved(node.column), "expression", message)])

    def of(self, node: Expr) -> Kind:
        if isinstance(node, Number):
            return Kind("int" if isinstance(node.value, int) else "real")
        if isinstance(node, Name):
            if node.id not in self.symbols:
                raise self.fail(node, f"unknown symbol '{node.id}'{suggestion(node.id, self.symbols)}")
            return self.symbols[node.id]
        if isinstance(node, Read):
            for index in node.indices:
                if self.of(index).base != "int":
                    raise self.fail(index, "an index must be an integer")
            return Kind("real")
        kinds = [self.of(child) for child in children(node)]
        if isinstance(node, Call) and node.function in LETTER_FUNCTIONS:
            return Kind("int")
        if isinstance(node, Call) and node.function in REDUCTIONS:
            return self.reduction(node, kinds[0])
        return self.truth(node, kinds) or self.number(node, kinds)

    def reduction(self, node: Call, kind: Kind) -> Kind:
        if not kind.vector:
            raise self.fail(node, f"'{node.function}' takes a value per spatial axis")
        if (kind.base == "bool") != (node.function != "prod"):
            wanted = "integers" if node.function == "prod" else "truth values"
            raise self.fail(node, f"'{node.function}' takes {wanted}")
        return Kind(kind.base)

    def truth(self, node: Expr, kinds: list[Kind]) -> Kind | None:
        """The kind of a logical operation; None for other nodes."""
        vector = any(kind.vector for kind in kinds)
        if isinstance(node, Unary) and node.op == "not":
            if kinds[0].base != "bool":
                raise self.fail(node, f"'not' takes a truth value{AS_TRUTH}")
            return kinds[0]
        if isinstance(node, Binary) and node.op in LOGIC:
            if any(kind.base != "bool" for kind in kinds):
                raise self.fail(node, f"'{node.op}' combines truth values{AS_TRUTH}")
            return Kind("bool", vector)
        if isinstance(node, Call) and node.function == "select":
            if kinds[0].base != "bool":
                message = "'select' takes a truth value and the values for true and for false"
                raise self.fail(node, message + AS_TRUTH)
            if all(kind.base == "bool" for kind in kinds[1:]):
                return Kind("bool", vector)
        return None

    def number(self, node: Expr, kinds: list[Kind]) -> Kind:
        """The kind of a node with numeric operands; the condition of `select` is not one of them."""
        vector = any(kind.vector for kind in kinds)
        chosen = isinstance(node, Call) and node.function == "select"
        numbers = kinds[1:] if chosen else kinds
        for child, kind in zip(children(node)[-len(numbers) :], numbers):
            if kind.base == "bool":
                raise self.fail(child, "expected a number but found a truth value")
        if isinstance(node, Unary):
            return kinds[0]
        if isinstance(node, Binary) and node.op in COMPARISONS:
            return Kind("bool", vector)
        function = node.function if isinstance(node, Call) else ""
        if function in SCALE_FUNCTIONS:
            if [kind.base for kind in kinds] != ["int", "real"]:
                raise self.fail(node, f"'{function}' takes an integer and a real number")
            return Kind("int", vector)
        if function in VECTOR_FUNCTIONS:
            if not vector:
                raise self.fail(node, f"'{function}' takes a value per axis of a run")
            return Kind("int", vector)
        real = any(kind.base == "real" for kind in numbers)
        if real and not self.step and function in ("floor", "ceil"):
            raise self.fail(node, f"'{function}' takes a quotient of integers")
        if real and isinstance(node, Binary) and node.op == "%":
            hint = "; of numbers that are read, a - b * floor(a / b) is the remainder"
            raise self.fail(node, f"'%' takes integers{hint if self.step else ''}")
        whole = {"select", "abs", "sign", *BIT_FUNCTIONS}
        real = real or (function in REAL_FUNCTIONS and function not in whole)
        return Kind("real" if real else "int", vector)
