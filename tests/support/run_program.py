"""What a program computes, one term at a time: the meaning that every rewrite keeps.

In: a program of real numbers, its sizes, arrays by name and the words of a call. Out: all arrays that its steps write. A term of which an element is not
there is none; a cell that an index names is read only where a condition lets it be read, and must be there.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from opwright.derive.program import INITIAL, Axis, Formula, Part, Program
from opwright.language import expr
from opwright.language.expr import Binary, Call, Expr, Name, Number, Read, Unary
from opwright.oracle import run_steps
from opwright.oracle.dtypes import stored

Cells = dict[str, Any]
COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class AbsentError(Exception):
    """An element that is not there."""


class Run:
    """One program with the arrays of a call."""

    def __init__(
        self, found: Program, symbols: Mapping[str, Any], given: Mapping[str, Any], words: Mapping[str, str]
    ) -> None:
        self.found, self.symbols, self.words = found, symbols, words
        self.data: Cells = {name: np.reshape(cells, self.shape(name)) for name, cells in given.items()}

    def results(self) -> Cells:
        with np.errstate(all="ignore"):
            for part in self.found.parts:
                self.step(part)
        return self.data

    def shape(self, name: str) -> list[int]:
        """The extents of an array, in which the axes of a run are one."""
        return [self.extent(axis) for axis in self.found.arrays[name].axes]

    def extent(self, axis: Axis) -> int:
        assert axis.kind != "spatial", axis
        return 1 if axis.kind == "ones" else int(np.prod(self.value(axis.extent, self.symbols)))

    def step(self, part: Part) -> None:
        (formula,) = (one for one in part.formulas if part.by is None or one.word == self.words[part.by])
        name = part.target.tensor
        if name not in self.data:
            self.data[name] = np.full(self.shape(name), INITIAL[part.operator])
        if any(self.extent(self.found.letters[letter]) == 0 for letter in part.unless_empty):
            return
        letters = part.letters_of(formula)
        counts = [range(self.extent(self.found.letters[letter])) for letter in letters]
        for numbers in itertools.product(*counts):
            try:
                self.term(part, formula, {**self.symbols, **dict(zip(letters, numbers, strict=True))})
            except AbsentError:
                continue

    def term(self, part: Part, formula: Formula, letters: Mapping[str, Any]) -> None:
        target = formula.assignment.target
        for read in (target, *expr.reads(formula.value)):
            for index, extent in zip(read.indices, self.data[read.tensor].shape, strict=True):
                if not _is_named(index) and not 0 <= self.at(index, letters) < extent:
                    raise AbsentError(read)
        if not all(self.value(guard.tree, letters) for guard in part.where):
            return
        cells, at = self.data[target.tensor], self.place(target, letters)
        value = np.float64(self.value(formula.value, letters))
        cells[at] = value if part.operator == "set" else run_steps.COMBINE[part.operator](cells[at], value)

    def named(self, read: Read, letters: Mapping[str, Any]) -> None:
        """What indices name must be there where it is read."""
        for call in (node for index in read.indices for node in expr.walk(index) if isinstance(node, Call)):
            if call.function == "named":
                cell, *extents = (self.value(one, letters) for one in call.arguments)
                assert len(extents) == 2 or 0 <= cell < extents[-1], f"{read} is read at {cell} of {extents[-1]}"
                assert math.isfinite(cell), f"{read} is read nowhere"

    def place(self, read: Read, letters: Mapping[str, Any]) -> tuple[int, ...]:
        at = tuple(self.at(index, letters) for index in read.indices)
        if any(not 0 <= one < extent for one, extent in zip(at, self.data[read.tensor].shape, strict=True)):
            raise AbsentError(read)
        return at

    def at(self, index: Expr, letters: Mapping[str, Any]) -> int:
        try:
            return int(self.value(index, letters))
        except AbsentError as error:  # kernels do not ask whether indices that are read are there
            raise AssertionError(f"an index that is not there: {index}") from error

    def value(self, tree: Expr, letters: Mapping[str, Any]) -> Any:
        if isinstance(tree, Number):
            return tree.value
        if isinstance(tree, Name):
            return letters[tree.id]
        if isinstance(tree, Read):
            self.named(tree, letters)
            found = self.data[tree.tensor][self.place(tree, letters)]
            return int(found) if found.dtype.kind in "iu" else found
        if isinstance(tree, Unary):
            operand = self.value(tree.operand, letters)
            return not operand if tree.op == "not" else -operand
        if isinstance(tree, Binary):
            return self.binary(tree, letters)
        assert isinstance(tree, Call)
        return self.call(tree, letters)

    def binary(self, tree: Binary, letters: Mapping[str, Any]) -> Any:
        left = self.value(tree.left, letters)
        if tree.op in ("and", "or"):
            return self.value(tree.right, letters) if bool(left) == (tree.op == "and") else left
        right = self.value(tree.right, letters)
        if tree.op in COMPARED:
            return bool(COMPARED[tree.op](left, right))
        if tree.op == "/":
            exact = not _real(left, right) and right and left % right == 0
            return left // right if exact else np.float64(left) / np.float64(right)
        if tree.op == "%":
            return left % right
        return {"+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right}[tree.op]()

    def call(self, tree: Call, letters: Mapping[str, Any]) -> Any:
        if tree.function == "select":
            condition, yes, no = tree.arguments
            return self.value(yes if self.value(condition, letters) else no, letters)
        if tree.function == "stride":
            array, axis = tree.arguments
            return math.prod(self.shape(array.id)[axis.value + 1 :])
        if tree.function == "number":
            numbers = [self.found.letters[one.id] for one in tree.arguments if isinstance(one, Name)]
            found = 0
            for axis, one in zip(numbers, tree.arguments, strict=True):
                found = found * self.extent(axis) + self.value(one, letters)
            return found
        values = [self.value(one, letters) for one in tree.arguments]
        if tree.function == "prod":
            return int(np.prod(values[0]))
        if tree.function in expr.CONVERSIONS:
            return np.float64(stored(np.asarray(np.float64(values[0])), expr.CONVERSIONS[tree.function]))
        if tree.function == "within":
            return 0 <= values[0] < values[1] if len(values) == 2 else math.isfinite(values[0])
        if tree.function == "named":
            return int(values[0]) if len(values) == 2 else int(values[0]) // values[2] % values[1]
        if tree.function == "cell":
            whole = math.isfinite(values[0]) and values[0] == int(values[0]) and values[0] >= 0
            return int(values[0]) if whole else -1
        if tree.function in ("floor", "ceil"):
            return getattr(np, tree.function)(values[0]) if _real(*values) else values[0]
        if tree.function in ("min", "max"):
            return (np.minimum if tree.function == "min" else np.maximum).reduce(values)
        return run_steps._FUNCTIONS[tree.function](*map(np.float64, values))


def _is_named(index: Expr) -> bool:
    return isinstance(index, Call) and index.function == "named"


def _real(*values: Any) -> bool:
    return any(isinstance(value, (float, np.floating)) for value in values)


def run_program(found: Program, symbols: Mapping[str, Any], given: Mapping[str, Any], **words: str) -> Cells:
    return Run(found, symbols, given, words).results()
