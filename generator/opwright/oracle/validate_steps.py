"""Which rules a call of an operation of steps breaks, and the positions of its axes: the first oracle, without values.

In: an operation of steps, NumPy arrays and attribute values. Out: a Validation and the positions of every tensor's
axes. step_axes.py searches for the number of axes of each run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ..language import expr
from ..language.evaluate import evaluate
from ..language.expr import Inexact, Name
from ..language.model import Attribute, Op, Tensor
from .arguments import entries_of
from .extents import Fact, Facts, each, stated_extents
from .statements import axis_kind, uneven
from .step_axes import AxisFinder
from .step_call import Places, StepValidation, first_array, numbers_beyond
from .validate import NUMPY, Array, UndecidedError


def validate_steps(op: Op, inputs: Sequence[Array | None], attributes: Mapping[str, object]) -> StepValidation:
    """All broken rules of a call of an operation of steps, and everything that follows from it."""
    return StepValidator(op, inputs, attributes).steps_validation()


class StepValidator(AxisFinder):
    """Validates calls of operations of steps."""

    def __init__(self, op: Op, inputs: Sequence[Array | None], attributes: Mapping[str, object]) -> None:
        super().__init__(op, list(map(first_array, inputs)), attributes)
        self.places: dict[str, Places] = {}
        self.numbers: dict[str, tuple[float, ...]] = {}
        self.spots: dict[str, tuple[int, ...]] = {}  # by role, what the attribute that locates it says
        self.lists_of: dict[str, list[Array]] = {}  # by name, the arrays of a variadic input
        for tensor, entry in zip(op.inputs, inputs, strict=False):
            if isinstance(entry, (list, tuple)):
                self.lists_of[tensor.name] = list(entry)
            elif tensor.joined and entry is not None:
                self.note(f"{tensor.name}-kind")
        self.stated: set[str] = set()  # outputs whose shape a list states
        self.orders: dict[str, tuple[int, ...]] = {}  # by tensor, its order; by attribute, its extents

    def steps_validation(self) -> StepValidation:
        op = self.op
        if not self.attributes.keys() <= {attribute.name for attribute in op.attributes}:
            self.note("unknown-attribute")
        for attribute in op.attributes:
            if attribute.type in ("string", "bool"):
                self.read_choice(attribute)
        row = self.row()
        for attribute in op.attributes:
            if attribute.locates or attribute.per or attribute.order_of or attribute.extents_of:
                self.read_places(attribute)
        lengths = None if self.broken else self.lengths()
        facts: Facts = {}
        shapes: dict[str, tuple[int, ...]] = {}
        if lengths is None and not self.broken:
            for name in self.arrays:
                self.note(f"{name}-rank")
        elif lengths is not None and self.join_lists():
            self.rank = lengths.get("", 0)
            facts = self.understood(lengths)
            shapes = {} if self.broken else self.output_shapes(lengths, facts)
        shape = shapes.get(op.output.name)
        found = (shapes, self.places, self.words, self.numbers, self.arrays)
        return StepValidation(not self.broken, tuple(self.broken), facts, shape, {}, {}, row, None, *found)

    def join_lists(self) -> bool:
        """Join each list to one array; False if the arrays do not fit together, which is recorded."""
        for name, arrays in self.lists_of.items():
            axis = self.op.tensor(name).joined
            if axis is None or len({(array.dtype, array.ndim) for array in arrays}) != 1:
                self.note(f"{name}-kind")
                return False
            try:
                self.arrays[name] = np.concatenate(arrays, self.places[name][axis][0])
            except ValueError:
                self.note(f"{name}-shape")
                return False
        return True

    def row(self) -> dict[str, str] | None:
        """The first row that fits every array and every word that states an output's data type."""
        stated = {a.dtype_of: self.words.get(a.name or "") for a in self.op.attributes if a.dtype_of}
        for row in self.op.dtypes:
            fits = all(NUMPY[row[name]] == array.dtype for name, array in self.arrays.items())
            if fits and all(word in (None, row[str(output)]) for output, word in stated.items()):
                return row
        self.note("dtypes")
        return None

    def read_choice(self, attribute: Attribute) -> None:
        if attribute.type == "string":
            alike = self.arrays.get(attribute.default or "") if attribute.dtype_of else None
            if alike is not None and self.attributes.get(attribute.name or "") is None:
                words = (value.value for value in attribute.values or ())
                self.words[attribute.name or ""] = next((w for w in words if NUMPY[w] == alike.dtype), "")
            else:
                self.read_word(attribute)
            return
        value = self.chosen(attribute)
        if isinstance(value, (bool, np.bool_)):
            self.words[attribute.name or ""] = "true" if value else "false"
            self.given[attribute.symbol or attribute.name or ""] = bool(value)
        elif value in ("true", "false"):
            self.words[attribute.name or ""] = str(value)
            self.given[attribute.symbol or attribute.name or ""] = value == "true"
        else:
            self.note(f"{attribute.name}-kind")

    def read_places(self, attribute: Attribute) -> None:
        """Read a list that steps use, or an attribute that places axes."""
        value = self.chosen(attribute)
        name = attribute.name or ""
        entries = entries_of(attribute, value)
        if entries is None:
            self.note(f"{name}-kind")
        elif attribute.per:
            self.numbers[name] = entries
        elif attribute.order_of or attribute.extents_of:
            self.orders[attribute.order_of or name] = tuple(int(entry) for entry in entries)
        else:
            self.spots[attribute.locates or ""] = tuple(int(entry) for entry in entries)

    def extents_of(self, name: str) -> Facts:
        tensor, shape = self.op.tensor(name), self.shapes[name] if name in self.stated else self.arrays[name].shape
        found: Facts = {}
        for axis, spots in self.places[name].items():
            extents = tuple(shape[spot] for spot in spots)
            vector = axis_kind(self.op, tensor.dims[axis].tree) != "one"
            found[axis] = extents if vector else extents[0] if extents else 1
        return found

    def understood(self, lengths: Mapping[str, int]) -> Facts:
        """Everything that follows; contradictions are recorded."""
        op = self.op
        for attribute in op.attributes:
            if attribute.type in ("s64", "f32") or (attribute.type in ("s64[]", "f32[]") and attribute.length):
                self.read_number(attribute)
        facts: Facts = dict(self.given)
        facts |= self.broadcast_sizes(lengths)
        for output in op.outputs:
            if op.stated_by(output):
                self.state_axes(output, lengths)
        pending, grown = dict.fromkeys(self.places), True
        while grown:
            grown = False
            for symbol in op.lets:
                value = self.named(symbol, facts) if symbol not in facts else None
                if value is not None:
                    facts[symbol], grown = value, True
            for attribute in op.attributes:
                grown = self.state_extents(attribute, facts) or grown
            for name in list(pending):
                tensor = op.tensor(name)
                flexible = self.broadcasts(tensor)
                extents = {a: e for a, e in self.extents_of(name).items() if a not in flexible}
                dims = {axis: extent for axis, extent in tensor.dims.items() if axis in extents}
                try:
                    learned = self.unify(dims, extents, facts)
                except UndecidedError:
                    continue
                del pending[name]
                grown = True
                if learned is None:
                    self.note(f"{name}-shape")
                else:
                    facts = learned
                    break  # named values come before the next tensor's unknown sizes
        self.check_broadcast(facts)
        self.check_values(facts)
        self.check_presence(facts)
        if numbers_beyond(op, self.row(), facts):
            self.note("index-overflow")
        for constraint in op.constraints:
            if constraint.expr and not all(each(self.value(constraint.expr, facts))):
                self.note(constraint.id or "")
        letters = [] if self.broken else [self.value(extent, facts) for extent in op.semantics.ranges.values()]
        if any(entry < 0 for extent in letters for entry in each(extent)):
            self.note("negative-extent")
        if not self.broken and uneven(op, facts):
            self.note("inexact-division")
        return facts

    def state_axes(self, output: Tensor, lengths: Mapping[str, int]) -> None:
        """The positions of the axes of an output whose shape a list states."""
        giver = self.state_shape(output)
        places = self.placed(output, len(self.shapes.get(output.name, ())), lengths)
        if output.name not in self.shapes or places is None:
            self.note(f"{giver}-length")
        else:
            self.stated.add(output.name)
            self.places[output.name] = places

    def state_extents(self, attribute: Attribute, facts: Facts) -> bool:
        """Learn the extents from a list once the run that it fills is known."""
        if attribute.extents_of is None or (symbol := self.op.dims[attribute.extents_of].symbol) in facts:
            return False
        whole = facts.get(self.op.dims[attribute.fills].symbol) if attribute.fills else ()
        if whole is None:
            return False
        keeps = self.words.get(attribute.keeps or "") == "true"
        found = stated_extents(self.orders[attribute.name or ""], each(whole) if attribute.fills else None, keeps)
        if found is None:
            self.note(f"{attribute.name}-range")
        facts[symbol] = found or ()
        return True

    def broadcast_sizes(self, lengths: Mapping[str, int]) -> Facts:
        """The sizes that inputs broadcast to."""
        parts: dict[str, list[Fact]] = {}
        loose: set[str] = set()
        for name in self.places:
            tensor = self.op.tensor(name)
            for axis, extent in self.extents_of(name).items():
                tree = tensor.dims[axis].tree
                if isinstance(tree, Name):
                    parts.setdefault(tree.id, []).append(extent)
                    if axis in tensor.broadcast:
                        loose.add(tree.id)
        found: Facts = {}
        for symbol in loose:
            shapes = [part if isinstance(part, tuple) else (part,) for part in parts[symbol]]
            try:
                whole = np.broadcast_shapes(*shapes)
            except ValueError:
                for name in self.places:
                    self.note(f"{name}-shape")
                continue
            found[symbol] = tuple(whole) if isinstance(parts[symbol][0], tuple) else whole[0]
        return found

    def check_broadcast(self, facts: Facts) -> None:
        for name in self.places:
            tensor = self.op.tensor(name)
            for axis in self.broadcasts(tensor):
                tree = tensor.dims[axis].tree
                if not expr.names(tree) <= facts.keys():
                    continue
                own, whole = each(self.extents_of(name)[axis]), each(evaluate(tree, facts))
                tail = whole[len(whole) - len(own) :]
                if any(mine not in (1, theirs) for mine, theirs in zip(own, tail, strict=True)):
                    self.note(f"{name}-shape")
        for attribute in self.op.attributes:
            self.check_blocks(attribute, facts)
            if attribute.per and len(self.numbers.get(attribute.name or "", ())) not in (1, facts.get(attribute.per)):
                self.note(f"{attribute.name}-length")

    def check_blocks(self, attribute: Attribute, facts: Facts) -> None:
        """A list of the extents of blocks agrees with those that the spec states, or is empty."""
        for role, size in (attribute.blocks or {}).items():
            entries = entries_of(attribute, self.chosen(attribute))
            symbol = Name(self.op.dims[role].symbol)
            name, axis = next((t.name, a) for t in self.op.inputs for a, e in t.dims.items() if e.tree == symbol)
            if entries is None:
                self.note(f"{attribute.name}-kind")
            elif entries and expr.names(size.tree) <= facts.keys():
                wanted = [1] * self.arrays[name].ndim
                wanted[self.places[name][axis][0]] = each(self.value(size, facts))[0]
                if list(entries) != wanted:
                    self.note(f"{attribute.name}-value")

    def check_presence(self, facts: Facts) -> None:
        for tensor in self.op.inputs:
            if tensor.when is None:
                continue
            wanted, given = bool(self.value(tensor.when, facts)), tensor.name in self.arrays
            if given and not wanted:
                self.note(f"{tensor.name}-unwanted")
            elif wanted and not given and not tensor.optional:
                self.note(f"{tensor.name}-missing")

    def output_shapes(self, lengths: Mapping[str, int], facts: Facts) -> dict[str, tuple[int, ...]]:
        shapes = {}
        for tensor in self.op.outputs:
            if tensor.when is not None and not self.value(tensor.when, facts):
                continue
            if tensor.broadcast_as in self.arrays:
                self.places[tensor.name] = self.places[tensor.broadcast_as]
                shapes[tensor.name] = self.arrays[tensor.broadcast_as].shape
                continue
            order = self.order(tensor)
            ndim = sum(self.count(tensor, axis, lengths) for axis in order)
            try:
                extents = {axis: each(evaluate(tensor.dims[axis].tree, facts)) for axis in order}
            except (Inexact, KeyError):
                self.note("inexact-division")
                continue
            places = self.placed(tensor, ndim, lengths)
            if places is None:
                self.note("inexact-division")
                continue
            self.places[tensor.name] = places
            if any(entry < 0 for extent in extents.values() for entry in extent):
                self.note("negative-extent")
            cells = dict(self._cells(places, extents))
            shapes[tensor.name] = tuple(cells[spot] for spot in range(ndim))
        return shapes

    @staticmethod
    def _cells(places: Places, extents: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[int, int]]:
        for axis, spots in places.items():
            yield from zip(spots, extents[axis], strict=bool(spots))
