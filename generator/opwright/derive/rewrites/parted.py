"""Rewrites outputs with the extents of a broadcasting input as sums over separate letters, for kernels.

In: an operation of steps. Out: the same operation without `broadcast_as`. A size along which such outputs are summed
becomes several sizes, one for each set of these inputs: a call divides its axes among them by the inputs that
broadcast along each. A letter over the size becomes a letter for each part, and the output lacks the summed ones.
If the size is not a run, one part has its extent and the others 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from ...language import expr
from ...language.expr import Binary, Expr, Name, Number, Read, names
from ...language.model import Dim, Op, Step, Tensor
from ...language.schema import Assignment, Located
from ...memo import memoised
from ..program import program


def letters_of_all(step: Step) -> frozenset[str]:
    """The names in `where` and in every formula of a step."""
    guards = frozenset[str]().union(*(names(guard.tree) for guard in step.where))
    return guards | frozenset.intersection(*(names(made.target) | names(made.value) for made in step.assignments))


def summed_sizes(op: Op) -> dict[str, tuple[Tensor, ...]]:
    """By symbol, the inputs that broadcast along a size and whose shape outputs have."""
    found: dict[str, dict[str, Tensor]] = {}
    for tensor in op.outputs:
        for axis in (axis for axis in stretching(op, tensor) if axis in tensor.dims):
            given = op.tensor(tensor.broadcast_as or "")
            found.setdefault(symbol_of(tensor.dims[axis]), {})[given.name] = given
    return {symbol: tuple(inputs.values()) for symbol, inputs in found.items()}


def stretching(op: Op, output: Tensor) -> tuple[str, ...]:
    """The axes along which an output is summed."""
    return op.tensor(output.broadcast_as).broadcast if output.broadcast_as is not None else ()


def symbol_of(extent: Located) -> str:
    """The size that an extent consists of; '' if it is not a single size."""
    return extent.tree.id if isinstance(extent.tree, Name) else ""


def part_names(name: str, inputs: int) -> tuple[str, ...]:
    """The names of the parts of a size, a letter or an axis; no name of a spec ends like them."""
    return tuple(f"{name}_p{number}_" for number in range(2**inputs))


@memoised
def parted(op: Op) -> Op:
    """The operation as kernels are made from it."""
    sizes = summed_sizes(op)
    return _Parted(op, sizes).op() if sizes else op


class _Parted:
    def __init__(self, op: Op, sizes: Mapping[str, tuple[Tensor, ...]]) -> None:
        self.forward, self.sizes, self.found = op, sizes, program(op)
        ranges = op.semantics.ranges.items()
        self.letters = {
            letter: part_names(letter, len(sizes[extent.tree.id]))
            for letter, extent in ranges
            if isinstance(extent.tree, Name) and extent.tree.id in sizes
        }

    def op(self) -> Op:
        op = self.forward
        semantics = dataclasses.replace(
            op.semantics, ranges=self.ranges(), steps=tuple(map(self.step, op.semantics.steps))
        )
        return dataclasses.replace(
            op,
            dims=self.dims(),
            layouts={name: self.table(name, rows) for name, rows in op.layouts.items()},
            inputs=tuple(map(self.tensor, op.inputs)),
            outputs=tuple(map(self.tensor, op.outputs)),
            semantics=semantics,
        )

    def parts(self, symbol: str) -> tuple[str, ...]:
        return part_names(symbol, len(self.sizes[symbol]))

    def dims(self) -> dict[str, Dim]:
        """The sizes, followed by the parts of those that have some."""
        found = dict(self.forward.dims)
        for role, dim in self.forward.dims.items():
            if dim.symbol in self.sizes:
                for name, symbol in zip(part_names(role, len(self.sizes[dim.symbol])), self.parts(dim.symbol)):
                    part = dataclasses.replace(dim, symbol=symbol, min=0)  # those of space are runs of axes, too
                    found[name] = dataclasses.replace(part, per_axis=None, run=True) if dim.per_axis else part
        return found

    def ranges(self) -> dict[str, Located]:
        found = {}
        for letter, extent in self.forward.semantics.ranges.items():
            for name, own in zip(self.letters.get(letter, (letter,)), self.extents(extent)):
                found[name] = own
        return found

    def extents(self, extent: Located) -> tuple[Located, ...]:
        tree = extent.tree
        if not isinstance(tree, Name) or tree.id not in self.sizes:
            return (extent,)
        return tuple(dataclasses.replace(extent, tree=Name(name), text=name) for name in self.parts(tree.id))

    def parts_of(self, tensor: Tensor, axis: str) -> tuple[int, ...]:
        """The numbers of the parts of an axis that a tensor has; an output lacks the summed ones."""
        names = [given.name for given in self.sizes[symbol_of(tensor.dims[axis])]]
        bit = names.index(str(tensor.broadcast_as)) if axis in stretching(self.forward, tensor) else None
        return tuple(n for n in range(2 ** len(names)) if bit is None or not n >> bit & 1)

    def is_parted(self, tree: Expr) -> bool:
        return isinstance(tree, Name) and tree.id in self.sizes

    def tensor(self, tensor: Tensor) -> Tensor:
        dims: dict[str, Located] = {}
        for axis, extent in tensor.dims.items():
            if not self.is_parted(extent.tree):
                dims[axis] = extent
                continue
            names, extents = part_names(axis, len(self.sizes[symbol_of(extent)])), self.extents(extent)
            dims |= {names[number]: extents[number] for number in self.parts_of(tensor, axis)}
        return dataclasses.replace(tensor, dims=dims, broadcast=(), broadcast_if={}, broadcast_as=None)

    def table(self, name: str, rows: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """The orders of axes, with axes replaced by their parts; a tensor lacks some."""
        parts = {
            axis: part_names(axis, len(self.sizes[symbol_of(extent)]))
            for tensor in self.forward.tensors
            if tensor.layout == name
            for axis, extent in tensor.dims.items()
            if self.is_parted(extent.tree)
        }
        return {word: tuple(p for axis in order for p in parts.get(axis, (axis,))) for word, order in rows.items()}

    # Steps.

    def step(self, step: Step) -> Step:
        cases = {word: self.assignment(found) for word, found in step.cases.items()}
        made = dataclasses.replace(step, do=self.assignment(step.do), cases=cases)
        return dataclasses.replace(made, where=(*made.where, *self.walked(step, made)))

    def walked(self, step: Step, made: Step) -> Iterator[Located]:
        """Guards that always hold, on the parts of letters that some formula does not name: it walks them too."""
        named = letters_of_all(made)
        for letter in sorted(letters_of_all(step) & self.letters.keys()):
            for part in self.letters[letter]:
                if part not in named:
                    yield Located(Binary(">=", Name(part), Number(0)), f"{part} >= 0", step.at)

    def assignment(self, found: Assignment | None) -> Assignment | None:
        if found is None:
            return None
        target = self.read(found.target)
        value = expr.changed(found.value, lambda node: self.read(node) if isinstance(node, Read) else None)
        return dataclasses.replace(found, target=target, value=value)

    def read(self, read: Read) -> Read:
        """An element indexed by the letters of the parts that its array has."""
        tensors = {tensor.name: tensor for tensor in self.forward.tensors}
        indices: list[Expr] = []
        for axis, index in zip(self.found.arrays[read.tensor].axes, read.indices, strict=True):
            if not self.is_parted(axis.extent) or not isinstance(index, Name):
                indices.append(index)
                continue
            letters = self.letters[index.id]
            tensor = tensors.get(read.tensor)
            parts_of = self.parts_of(tensor, axis.name) if tensor is not None else range(len(letters))
            indices += [Name(letters[number]) for number in parts_of]
        return dataclasses.replace(read, indices=tuple(indices))
