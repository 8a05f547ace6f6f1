"""Interprets the spec by brute force: the first oracle.

In: an operation, NumPy arrays and attribute values. Out: the output: a sum over every index tuple of the semantics,
in float64 and rounded once. Nothing here knows an operation; validate.py decides whether a call is legal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..language import expr
from ..language.evaluate import evaluate
from ..language.expr import Call, Expr, Name, Number, Read
from ..language.model import Op, Tensor
from .dtypes import rounded
from .extents import each, shape_of
from .indices import INTEGER, apply, index, integers, operator, vectors
from .validate import NUMPY, Array, Validation, validate

__all__ = ["NUMPY", "Validation", "compute", "validate"]

# Index tuples per chunk; about thirty arrays of this length are live at a time.
CHUNK = 1 << 13


_REAL: dict[str, Callable[..., Any]] = {**INTEGER, "/": np.divide}
_REDUCE: dict[str, Any] = {"sum": np.add, "max": np.maximum}


def reals(tree: Expr, symbols: Mapping[str, Any], read: Callable[[Read], Any]) -> Any:
    """The value of a value expression, entirely in float64."""
    if isinstance(tree, Read):
        return read(tree)
    if isinstance(tree, (Number, Name)) or (isinstance(tree, Call) and tree.function == "prod"):
        return np.asarray(integers(tree, symbols), np.float64)
    op, operands = operator(tree)
    return apply(_REAL[op], [reals(operand, symbols, read) for operand in operands])


def compute(op: Op, inputs: Sequence[Array | None], attributes: Mapping[str, object]) -> Array:
    """The output of a legal call, over every index tuple of the semantics. Raises ValueError if the call is refused."""
    validation = validate(op, inputs, attributes)
    if not validation.accepted:
        raise ValueError(f"{op.op}: {', '.join(validation.violations)}")
    return computed(op, inputs, validation)


def computed(op: Op, inputs: Sequence[Array | None], validation: Validation) -> Array:
    """The output of a call that has been validated."""
    with np.errstate(all="ignore"):
        return _Run(op, inputs, validation).result()


class _Run:
    def __init__(self, op: Op, inputs: Sequence[Array | None], validation: Validation) -> None:
        self.op, self.validation = op, validation
        self.vectors = vectors(op)
        self.rank = next((len(value) for value in validation.values.values() if isinstance(value, tuple)), 0)
        given = {tensor.name: array for tensor, array in zip(op.inputs, inputs, strict=False)}
        self.shapes = {tensor.name: self.shape(tensor) for tensor in op.tensors}
        self.data: dict[str, npt.NDArray[np.float64]] = {}
        for tensor in op.data_inputs:
            array = given.get(tensor.name)
            whole = np.zeros(self.shapes[tensor.name]) if array is None else array.astype(np.float64)
            self.data[tensor.name] = whole.ravel()
        size = math.prod(self.shapes[op.output.name])
        self.cells = np.full(size, float(op.semantics.init))
        self.count = np.zeros(size, np.int64)

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        validation = self.validation
        return shape_of(self.op, tensor, validation.arrangements, validation.layouts, validation.values)

    def result(self) -> Array:
        semantics, row = self.op.semantics, self.validation.row
        assert row is not None
        for letters in self.walk({letter: extent.tree for letter, extent in semantics.ranges.items()}):
            self.reduce(letters)
        if semantics.finish is not None:
            own = next(read for read in expr.reads(semantics.finish.tree) if read.tensor == self.op.output.name)
            finished = [self.finish(letters, own) for letters in self.walk(self.cell_letters(own))]
            cells = np.empty_like(self.cells)
            for position, values in finished:
                cells[position] = values
            self.cells = cells
        return rounded(self.cells, row[self.op.output.name]).reshape(self.shapes[self.op.output.name])

    def cell_letters(self, own: Read) -> dict[str, Expr]:
        """The letters with which `finish` indexes the output, each with its extent."""
        extents = [extent.tree for extent in self.op.output.dims.values()]
        return {letter.id: extent for letter, extent in zip(own.indices, extents) if isinstance(letter, Name)}

    def walk(self, ranges: Mapping[str, Expr]) -> Iterator[dict[str, Any]]:
        """All combinations of the letters, a chunk at a time, together with the symbols of the call."""
        symbols: dict[str, Any] = dict(self.validation.values)
        extents = {letter: evaluate(extent, symbols) for letter, extent in ranges.items()}
        shape = [entry for extent in extents.values() for entry in each(extent)]
        for start in range(0, math.prod(shape), CHUNK):
            flat = np.arange(start, min(start + CHUNK, math.prod(shape)))
            columns = iter(np.unravel_index(flat, shape) if shape else ())
            chunk = dict(symbols)
            for letter, extent in extents.items():
                chunk[letter] = tuple(next(columns) for _ in extent) if isinstance(extent, tuple) else next(columns)
            yield {**chunk, "": np.zeros(len(flat), np.int64)}

    def position(self, read: Read, letters: Mapping[str, Any]) -> tuple[Array, Array]:
        """The position of an element in memory, and whether it exists."""
        tensor = self.op.tensor(read.tensor)
        arrangement = self.validation.arrangements.get(tensor.name, "")
        dims, places = tensor.dims_by_arrangement[arrangement], index(tensor, read, arrangement, letters)
        at = letters[""]
        inside = np.ones(len(at), bool)
        extents = iter(self.shapes[tensor.name])
        for axis in self.op.layouts[tensor.layout][self.validation.layouts[tensor.layout]] if tensor.layout else dims:
            for number in range(self.rank) if expr.loose_names(dims[axis].tree) & self.vectors else (0,):
                here, extent = integers(*places[axis], number), next(extents)
                inside = inside & (here >= 0) & (here < extent)
                at = at * extent + here
        return at, inside

    def reduce(self, letters: dict[str, Any]) -> None:
        """Accumulate the existing terms of a chunk."""
        assignment = self.op.semantics.assignment
        at, taken = self.position(assignment.target, letters)
        places = {}
        for read in dict.fromkeys(expr.reads(assignment.value)):
            places[read], inside = self.position(read, letters)
            taken = taken & inside
        for guard in self.op.semantics.where:
            for axis in range(max(self.rank, 1)):
                taken = taken & integers(guard.tree, letters, axis)
        inner = {name: _where(value, taken) for name, value in letters.items()}
        value = reals(assignment.value, inner, lambda read: self.data[read.tensor][places[read][taken]])
        _REDUCE[assignment.op].at(self.cells, at[taken], value)
        np.add.at(self.count, at[taken], 1)

    def finish(self, letters: dict[str, Any], own: Read) -> tuple[Array, Any]:
        """The stored values of a chunk of cells, and their positions."""
        formula = self.op.semantics.finish
        assert formula is not None
        at, _ = self.position(own, letters)
        data = {**self.data, self.op.output.name: self.cells}

        def element(read: Read) -> Any:
            place, inside = self.position(read, letters)
            return np.where(inside, data[read.tensor][np.where(inside, place, 0)], 0)

        return at, reals(formula.tree, {**letters, "count": self.count[at]}, element)


def _where(value: Any, taken: Array) -> Any:
    if isinstance(value, tuple):
        return tuple(_where(entry, taken) for entry in value)
    return value[taken] if isinstance(value, np.ndarray) else value
