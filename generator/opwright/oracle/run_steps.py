"""Interprets operations of steps by brute force: every step over all values of its letters, in float64 or int64.

In: an operation of steps, NumPy arrays and attribute values. Out: the outputs of the call, each rounded once.
Nothing here knows how kernels order, fuse or split steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..language import expr
from ..language.evaluate import evaluate
from ..language.expr import Binary, Call, Expr, Name, Number, Read, Unary
from ..language.model import Op, Step, Tensor
from .dtypes import stored
from .extents import each
from .indices import integers
from .interpret import CHUNK
from .named import named_alone
from .statements import (
    BEGINNING,
    arrays_of,
    axes_of,
    axis_kind,
    chosen,
    integers_of,
    is_integer,
    letters_of,
)
from .step_call import StepValidation
from .validate_steps import validate_steps

_erf = np.vectorize(math.erf, otypes=[np.float64])
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log1p": np.log1p, "tanh": np.tanh, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "erf": _erf, "abs": np.abs, "round": np.rint,
    "sign": lambda x: np.where(x == 0, x, np.sign(x)),  # of a zero that zero, which NumPy makes positive
    "pow": np.float_power,  # of -0 and 0.5 it is 0, which np.power makes -0
    "floor": np.floor, "ceil": np.ceil, "min": np.minimum, "max": np.maximum,
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "neg": np.negative,
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
    "bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor, "bit_not": np.bitwise_not,
    "shift_left": lambda x, y: np.left_shift(x, y % 64), "shift_right": lambda x, y: np.right_shift(x, y % 64),
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not, "select": np.where,
}  # fmt: skip
COMBINE: dict[str, Any] = {"sum": np.add, "product": np.multiply, "max": np.maximum, "min": np.minimum}
MIN_S64 = -(2**63)


def compute_steps(op: Op, inputs: Sequence[Any], attributes: Mapping[str, object]) -> dict[str, Any]:
    """The outputs of a legal call by name. Raises ValueError if the call is refused."""
    call = validate_steps(op, inputs, attributes)
    if not call.accepted:
        raise ValueError(f"{op.op}: {', '.join(call.violations)}")
    with np.errstate(all="ignore"):
        return Run(op, call).results()


class Run:
    """Runs a legal call step by step."""

    def __init__(self, op: Op, call: StepValidation) -> None:
        assert call.row is not None
        self.op, self.call, self.row = op, call, call.row
        self.axes = {name: axes_of(op, name) for name in arrays_of(op)}
        self.reals = {
            attribute.symbol or attribute.name or "" for attribute in op.attributes if attribute.type == "f32"
        }
        self.integers = integers_of(op)
        self.among("")
        self.symbols: dict[str, Any] = dict(call.values)
        self.shapes = {name: self.shape(name) for name in self.axes}
        self.summed = {t.name for t in op.outputs if t.broadcast_as in call.arrays and t.name in call.shapes}
        self.shapes |= {name: self.own_shape(name) for name in self.summed}
        self.data: dict[str, Any] = {}
        self.indices: dict[Read, list[tuple[Expr, int, int]]] = {}
        for tensor in op.data_inputs:
            self.data[tensor.name] = self.given(tensor)
        for name, entries in call.lists.items():
            self.data[name] = np.broadcast_to(np.asarray(entries, self.dtype), self.shapes[name])

    def among(self, target: str) -> None:
        """Values are made in the numbers of the steps that write an array: integers, or the accumulator of the row."""
        self.whole = self.row["accumulate"] == "s64" or target in self.integers
        self.dtype = np.dtype(np.int64 if self.whole else np.float64)

    def given(self, tensor: Tensor) -> Any:
        """The elements of an input, also of an omitted one."""
        if tensor.name not in self.call.arrays:
            return np.full(math.prod(self.shapes[tensor.name]), float(tensor.absent or 0), self.dtype)
        cells = self.canonical(tensor.name, self.call.arrays[tensor.name]).ravel()
        return cells if self.exact(cells) else cells.astype(self.dtype)

    def exact(self, cells: Any) -> bool:
        """Whether cells of an input stay integers until a step reads them, of real numbers or of integers."""
        return bool(self.integers) and np.issubdtype(cells.dtype, np.integer)

    def shape(self, name: str) -> tuple[int, ...]:
        """The extents of an array, by axis in the order of the spec."""
        return tuple(extent for tree in self.axes[name].values() for extent in each(evaluate(tree, self.symbols)))

    def own_shape(self, name: str) -> tuple[int, ...]:
        """The extents of an output with the shape of an input: 1 along an axis that the input lacks."""
        places, shape = self.call.places[name], self.call.shapes[name]
        found: list[int] = []
        for axis, tree in self.axes[name].items():
            spots = places.get(axis, ())
            found += [1] * (len(each(evaluate(tree, self.symbols))) - len(spots)) + [shape[spot] for spot in spots]
        return tuple(found)

    def canonical(self, name: str, array: Any) -> Any:
        """An array with its axes in the order of the spec and broadcast to their full extents."""
        places = self.call.places[name]
        shape: list[int] = []
        for axis, tree in self.axes[name].items():
            whole, spots = each(evaluate(tree, self.symbols)), places.get(axis, ())
            shape += [1] * (len(whole) - len(spots)) + [array.shape[spot] for spot in spots]
        order = [spot for axis in self.axes[name] for spot in places.get(axis, ())]
        return np.broadcast_to(np.transpose(array, order).reshape(shape), self.shapes[name])

    def results(self) -> dict[str, Any]:
        for step in self.op.semantics.steps:
            self.step(step)
        found = {}
        for tensor in self.op.outputs:
            if tensor.name not in self.call.shapes:
                continue
            places = self.call.places[tensor.name]
            order = [spot for axis in self.axes[tensor.name] for spot in places.get(axis, ())]
            shape = self.call.shapes[tensor.name]
            cells = stored(self.data[tensor.name], self.row[tensor.name]).reshape([shape[spot] for spot in order])
            found[tensor.name] = np.ascontiguousarray(np.transpose(cells, np.argsort(order))).reshape(shape)
        return found

    def step(self, step: Step) -> None:
        assignment = named_alone(self.op, chosen(step, self.call.words.get(step.by or "", "")))
        target, reads = assignment.target, dict.fromkeys(expr.reads(assignment.value))
        self.among(target.tensor)
        if target.tensor not in self.data:
            first = BEGINNING[assignment.op]
            if self.whole and math.isinf(first):
                first = MIN_S64 if first < 0 else -(MIN_S64 + 1)
            size = math.prod(self.shapes[target.tensor])
            self.data[target.tensor] = np.full(size, first, self.dtype)
        made = self.data[target.tensor]
        if any(read.tensor == target.tensor for read in reads):  # cells are read as they were before the step
            made = made.copy()
        for letters in self.walk(letters_of(self.op, step, assignment)):
            at, taken = self.position(target, letters)
            spots = {}
            for read in reads:
                spots[read], inside = self.position(read, letters)
                taken = taken & inside
            for guard in step.where:
                for axis in range(max(self.rank(), 1)):
                    taken = taken & integers(guard.tree, letters, axis)
            if not np.all(taken):
                letters = {name: only(value, taken) for name, value in letters.items()}
                at, spots = at[taken], {read: spot[taken] for read, spot in spots.items()}
            value = self.value(assignment.value, letters, spots)
            value = np.broadcast_to(np.asarray(value).astype(self.dtype), at.shape)
            if assignment.op == "set":
                made[at] = value
            else:
                COMBINE[assignment.op].at(made, at, value)
        self.data[target.tensor] = made

    def rank(self) -> int:
        vectors = [
            len(value)
            for symbol, value in self.symbols.items()
            if isinstance(value, tuple) and symbol not in self.op.runs
        ]
        return vectors[0] if vectors else 0

    def walk(self, names: Sequence[str]) -> Iterator[dict[str, Any]]:
        """All combinations of some letters, a chunk at a time, together with the symbols of the call."""
        extents = {name: evaluate(self.op.semantics.ranges[name].tree, self.symbols) for name in names}
        shape = [entry for extent in extents.values() for entry in each(extent)]
        for start in range(0, math.prod(shape), CHUNK):
            flat = np.arange(start, min(start + CHUNK, math.prod(shape)))
            columns = iter(np.unravel_index(flat, shape) if shape else ())
            chunk = dict(self.symbols)
            for name, extent in extents.items():
                digits = [next(columns) for _ in each(extent)]
                chunk[name] = tuple(digits) if isinstance(extent, tuple) else digits[0]
                own: Any = np.zeros(len(flat), np.int64)
                for digit, size in zip(digits, each(extent), strict=True):
                    own = own * size + digit
                chunk[f"#{name}"] = (own, math.prod(each(extent)))
            yield {**chunk, "": np.zeros(len(flat), np.int64)}

    def position(self, read: Read, letters: Mapping[str, Any]) -> tuple[Any, Any]:
        """The position of an element of an array in canonical order, and whether it exists."""
        at = letters[""]
        inside = np.ones(len(at), bool)
        for index, number, extent in self.digits(read):
            here = integers(index, letters, number)
            inside = inside & (here >= 0) & (here < extent)
            at = at * extent + here
        return at, inside

    def digits(self, read: Read) -> list[tuple[Expr, int, int]]:
        """The indices of an element of an array: each with the spatial axis whose value counts, and the extent."""
        if read not in self.indices:
            extents, summed = iter(self.shapes[read.tensor]), read.tensor in self.summed
            found = self.indices[read] = []
            for tree, index in zip(self.axes[read.tensor].values(), read.indices, strict=True):
                own = [next(extents) for _ in each(evaluate(tree, self.symbols))]
                if axis_kind(self.op, tree) == "run" and not isinstance(index, Name):  # the flat index of a cell
                    found.append((index, 0, math.prod(own)))
                else:  # an element that is broadcast has one cell
                    found += [(Number(0) if summed and n == 1 else index, axis, n) for axis, n in enumerate(own)]
        return self.indices[read]

    def value(self, tree: Expr, letters: Mapping[str, Any], spots: Mapping[Read, Any]) -> Any:
        """A value in float64 or int64, or a boolean; values of integers only are exact."""
        if isinstance(tree, Read):
            return self.data[tree.tensor][spots[tree]].astype(self.dtype)
        if isinstance(tree, Number):
            if self.whole and math.isinf(tree.value):
                return np.asarray(-(MIN_S64 + 1) if tree.value > 0 else MIN_S64)
            return np.asarray(tree.value, self.dtype if math.isfinite(tree.value) else np.float64)
        whole = isinstance(tree, Binary) and tree.op == "%"
        whole = whole or (isinstance(tree, Call) and (tree.function in ("prod", "number") or self._floors(tree)))
        if isinstance(tree, Name) or whole:
            found = np.asarray(integers(tree, letters))
            return found if found.dtype == bool else found.astype(self.dtype)
        if self.whole and isinstance(tree, Call) and tree.function in ("floor", "ceil"):
            return _rounded(
                tree.function, *(self.value(side, letters, spots) for side in expr.children(tree.arguments[0]))
            )
        operator, operands = _operator(tree)
        values = [self.value(operand, letters, spots) for operand in operands]
        if operator in expr.CONVERSIONS:
            return stored(np.asarray(values[0]).astype(self.dtype), operator.removeprefix("to_")).astype(self.dtype)
        result = _FUNCTIONS[operator](*values[:2]) if operator != "select" else np.where(*values)
        for more in values[2:] if operator in ("min", "max") else ():
            result = _FUNCTIONS[operator](result, more)
        return result

    def _floors(self, tree: Call) -> bool:
        """floor and ceil of a quotient of integers, without elements and real numbers."""
        if tree.function not in ("floor", "ceil"):
            return False
        return is_integer(tree, self.reals)


def _rounded(function: str, dividend: Any, divisor: Any) -> Any:
    """A rounded quotient in int64; by 0 it is 0, and what is too large wraps around."""
    down, rest = np.floor_divide(dividend, divisor), np.remainder(dividend, divisor)
    return down if function == "floor" else down + (rest != 0)


def _operator(node: Expr) -> tuple[str, tuple[Expr, ...]]:
    if isinstance(node, Call):
        return node.function, node.arguments
    assert isinstance(node, (Unary, Binary))
    return "neg" if isinstance(node, Unary) and node.op == "-" else node.op, expr.children(node)


def only(value: Any, taken: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(only(entry, taken) for entry in value)
    return value[taken] if isinstance(value, np.ndarray) else value
