"""The integers of a phase as C: constants of a call, numbers of letters, and what indices are made of.

In: a program, the letter of its lanes, and integer expressions of a spec. Out: nodes. Names that end in `_` belong to
this module and its users: no name of a spec ends so.
"""

from __future__ import annotations

from ...derive.program import Axis, Program, constants
from ...language import expr
from ...language.model import SPATIAL_AXES, Op
from ...language.types import symbol_kinds
from .. import nodes
from ..nodes import ONE, ZERO, Binary, Call, Declare, Expr, Index, Member, Name

SIZES = Name("sizes_")
_LOGIC = {"and": "&&", "or": "||"}


class Integers:
    """Constants and integers, as one phase needs them."""

    def __init__(self, op: Op, found: Program, lanes: str | None) -> None:
        self.op, self.program = op, found
        self.lanes = found.letters[lanes] if lanes else None
        self.position: Expr | None = None  # of the cell in its row, while values of lanes are computed
        self.declared: dict[str, Declare] = {}  # constants of the function, in order of use
        self.axes = SPATIAL_AXES[3 - op.spatial_rank.max :]  # as C names them

    def constant(self, name: str, value: Expr, c_type: str = "int64_t") -> Expr:
        if name not in self.declared:
            self.declared[name] = Declare(name, value, c_type)
        return Name(name)

    def member(self, name: str, c_type: str = "int64_t") -> Expr:
        return Name(name) if name in self.declared else self.constant(name, Member(SIZES, name), c_type)

    def entry(self, name: str, number: int) -> Expr:
        """The entry of a member of sizes on one spatial axis."""
        constant = f"{name}_{self.axes[number]}_"
        if constant in self.declared:
            return Name(constant)
        return self.constant(constant, Index(Member(SIZES, name), nodes.integer(number)))

    def symbol(self, name: str, axis: int | None) -> Expr:
        kind = symbol_kinds(self.op)[name]
        if name in self.op.runs:
            return self.run(name, "cells")
        if kind.vector:
            number = axis or 0
            known = constants(self.op).get(name)
            if known is not None and number >= len(self.axes) - self.op.spatial_rank.min:  # an axis of every call
                return nodes.integer(known)
            return self.entry(name, number)
        return self.member(name, "double" if kind.base == "real" else "int64_t")

    def run(self, symbol: str, what: str) -> Expr:
        """Of a run: its `cells`, the `inner` extent, or the `rows` of that extent."""
        if (name := f"{symbol}_{what}_") in self.declared:
            return Name(name)
        extents, rank = Member(SIZES, f"{symbol}_extents"), Member(SIZES, f"{symbol}_rank")
        if what == "inner":
            return self.constant(f"{symbol}_inner_", Index(extents, Binary("-", rank, ONE)))
        if what == "rows":
            return self.constant(f"{symbol}_rows_", Call("opwright_rows", (rank, extents)))
        return self.constant(f"{symbol}_cells_", Binary("*", self.run(symbol, "rows"), self.run(symbol, "inner")))

    def scalar(self, tree: expr.Expr) -> Expr:
        return self.integer(tree, None)

    def integer(self, tree: expr.Expr, axis: int | None) -> Expr:
        """An integer or boolean expression on one spatial axis."""
        if isinstance(tree, expr.Number):
            return nodes.integer(int(tree.value))
        if isinstance(tree, expr.Name):
            return self.name(tree.id, axis)
        if isinstance(tree, expr.Unary):
            return nodes.Unary("!" if tree.op == "not" else "-", self.integer(tree.operand, axis))
        if isinstance(tree, expr.Binary):
            left, right = self.integer(tree.left, axis), self.integer(tree.right, axis)
            if tree.op in "/%":
                return Call("opwright_floor_div" if tree.op == "/" else "opwright_modulo", (left, right))
            return Binary(_LOGIC.get(tree.op, tree.op), left, right)
        assert isinstance(tree, expr.Call)
        if tree.function == "ones":
            return ONE
        if tree.function == "number":
            return self.number_of(tree)
        if tree.function == "prod":
            inner = tree.arguments[0]
            if isinstance(inner, expr.Name) and inner.id in self.op.runs:
                return self.run(inner.id, "cells")
            return nodes.chain("*", [self.integer(inner, number) for number in range(len(self.axes))], ONE)
        if tree.function in ("floor", "ceil"):
            left, right = (self.integer(side, axis) for side in expr.children(tree.arguments[0]))
            return Call(f"opwright_{tree.function}_div", (left, right))
        result, *rest = (self.integer(argument, axis) for argument in tree.arguments)
        for other in rest:
            result = Call(f"opwright_{tree.function}", (result, other))
        return result

    def number_of(self, tree: expr.Call) -> Expr:
        """The flat index of some letters' values, the last letter fastest."""
        result: Expr = ZERO
        assert all(isinstance(name, expr.Name) for name in tree.arguments)
        for letter in [self.program.letters[name.id] for name in tree.arguments if isinstance(name, expr.Name)]:
            digits = [(self.name(letter.name, number), number) for _, number in self.copies(letter)]
            if letter.kind == "run":
                row = Binary("*", Name(f"{letter.name}_row_"), self.run(expr_name(letter.extent), "inner"))
                digits = [(Binary("+", row, self.name(letter.name, None)), 0)]
            for digit, number in digits:
                more = result != ZERO
                result = Binary("+", Binary("*", result, self.extent(letter, number)), digit) if more else digit
        return result

    def name(self, name: str, axis: int | None) -> Expr:
        if name not in self.program.letters:
            return self.symbol(name, axis)
        letter = self.program.letters[name]
        copy = f"{name}_{self.axes[axis or 0]}_" if letter.kind == "spatial" else name
        if self.position is not None and copy == self.lane_name():
            return Binary("+", Name(copy), self.position)
        return Name(copy)

    def extent(self, axis: Axis, number: int) -> Expr:
        """The extent of a letter or of an axis of an array; on one spatial axis, or of all of a run."""
        if axis.kind == "run":
            assert isinstance(axis.extent, expr.Name)
            return self.run(axis.extent.id, "cells")
        return self.integer(axis.extent, number if axis.kind == "spatial" else None)

    def copies(self, letter: Axis) -> list[tuple[str, int]]:
        """The loops of a letter that is not a run: their names, and the spatial axis of each."""
        if letter.kind == "spatial":
            return [(f"{letter.name}_{axis}_", number) for number, axis in enumerate(self.axes)]
        return [(letter.name, 0)]

    def lane_name(self) -> str:
        assert self.lanes is not None
        return self.copies(self.lanes)[-1][0]


def expr_name(tree: expr.Expr) -> str:
    """The name if a tree is one."""
    assert isinstance(tree, expr.Name)
    return tree.id
