"""Which rules of its spec a call breaks, and what the call means: the part of the first oracle that computes no values.

In: an operation, NumPy arrays and attribute values. Out: a Validation. Nothing here knows an operation, or the order in
which call_plan.py interprets a call: facts accumulate until nothing more follows. The generated validators follow
call_plan.py, so this is an independent check of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..language import expr
from ..language.evaluate import evaluate
from ..language.expr import INT64_MAX, INT64_MIN, Inexact, Number
from ..language.model import Attribute, Let, Op, Tensor
from ..language.schema import Located
from ..memo import memoised
from .arguments import default, entries_of, wholes
from .dtypes import NUMPY as NUMPY
from .extents import Fact, Facts, each, shape_of, solve
from .indices import too_far, vectors

Array = npt.NDArray[Any]

_ABSENT = object()


@dataclass(frozen=True)
class Validation:
    """The meaning of a call. `violations` are rule ids; the other fields have what could be inferred despite them."""

    accepted: bool
    violations: tuple[str, ...]
    values: Facts
    shape: tuple[int, ...] | None
    arrangements: dict[str, str]
    layouts: dict[str, str]
    row: dict[str, str] | None
    group_class: str | None


def validate(op: Op, inputs: Sequence[Array | None], attributes: Mapping[str, object]) -> Validation:
    """All broken rules of a call, and everything that follows from it."""
    return Validator(op, inputs, attributes).validation()


class UndecidedError(Exception):
    """A tensor has an axis whose size is not known yet."""


class Validator:
    def __init__(self, op: Op, inputs: Sequence[Array | None], attributes: Mapping[str, object]) -> None:
        self.op = op
        self.attributes = attributes
        self.vectors = vectors(op)
        self.broken: dict[str, None] = {}
        self.words: dict[str, str] = {}
        self.given: Facts = {}
        self.lists: dict[str, tuple[int, ...]] = {}
        self.arrays = dict(self.present(inputs))
        data = {tensor.name for tensor in op.data_inputs}
        self.shapes = {name: array.shape for name, array in self.arrays.items() if name in data}
        self.rank: int | None = None

    def note(self, rule: str) -> None:
        self.broken[rule] = None

    def validation(self) -> Validation:
        op = self.op
        if not self.attributes.keys() <= {attribute.name for attribute in op.attributes}:
            self.note("unknown-attribute")
        row = self.row()
        numbers = []
        for attribute in op.attributes:
            if attribute.type == "string":
                self.read_word(attribute)
            elif attribute.shape_of:
                self.read_number(attribute)
            else:
                numbers.append(attribute)
        givers = {output.name: self.state_shape(output) for output in op.outputs if op.stated_by(output)}
        self.settle_rank(givers)
        for attribute in numbers:
            self.read_number(attribute)
        facts, arrangements = self.closure(list(self.shapes))
        self.blame(facts)
        self.check_values(facts)
        self.check_constraints(facts)
        self.check_indices(facts)
        try:
            shape = shape_of(op, op.output, arrangements, self.words, facts)
        except (Inexact, KeyError):
            shape = None
        if shape and row and math.prod(shape) * NUMPY[row[op.output.name]].itemsize > INT64_MAX:
            self.note("memory")
        return Validation(
            accepted=not self.broken,
            violations=tuple(self.broken),
            values=facts,
            shape=shape,
            arrangements={name: arrangement for name, arrangement in arrangements.items() if arrangement},
            layouts={name: self.words[name] for name in op.layout_attributes if name in self.words},
            row=row,
            group_class=None if self.broken else self.group_class(facts),
        )

    # The caller's arguments.

    def present(self, inputs: Sequence[Array | None]) -> Iterator[tuple[str, Array]]:
        """The inputs that are present and are arrays."""
        if len(inputs) > len(self.op.inputs):
            self.note("unknown-input")
        for tensor, array in zip(self.op.inputs, [*inputs, *[None] * len(self.op.inputs)], strict=False):
            if array is None:
                if not tensor.optional and tensor.when is None:
                    self.note(f"{tensor.name}-missing")
            elif isinstance(array, np.ndarray):
                yield tensor.name, array
            else:
                self.note(f"{tensor.name}-kind")

    def row(self) -> dict[str, str] | None:
        """The first row of dtypes that every array fits."""
        for row in self.op.dtypes:
            if all(name in row and NUMPY[row[name]] == array.dtype for name, array in self.arrays.items()):
                return row
        self.note("dtypes")
        return None

    def chosen(self, attribute: Attribute) -> object:
        """The passed value, or else the default; None for an optional attribute means that it is left out."""
        given = self.attributes.get(attribute.name or "", _ABSENT)
        if given is None and not attribute.required and attribute.default is None:
            given = _ABSENT
        if given is _ABSENT and attribute.required:
            self.note(f"{attribute.name}-missing")
        elif given is _ABSENT and attribute.default is not None:
            return default(attribute, self.rank)
        return given

    def read_word(self, attribute: Attribute) -> None:
        word = self.chosen(attribute)
        allowed = attribute.values or ()
        known = {spelling: value.value for value in allowed for spelling in (value.value, *value.aliases)}
        if isinstance(word, str) and word in known:
            self.words[attribute.name or ""] = known[word]
        elif word is not _ABSENT:
            self.note(f"{attribute.name}-{'value' if isinstance(word, str) else 'kind'}")

    def read_number(self, attribute: Attribute) -> None:
        """A number or a list; a value that breaks a rule stays unknown, so that it breaks no further rules."""
        value = self.chosen(attribute)
        if value is _ABSENT:
            return
        entries = entries_of(attribute, value)
        if entries is None:
            self.note(f"{attribute.name}-kind")
            return
        listed = attribute.type in ("s64[]", "f32[]")
        spatial = listed and attribute.length == "spatial"
        rank = self.rank if spatial and self.rank is not None else len(entries)
        # The value of a shape that an input overrides is ignored, so its entries are validated only where it is used.
        minimum = -math.inf if attribute.min is None or attribute.shape_of else attribute.min
        maximum = math.inf if attribute.max is None else attribute.max
        faults = {
            "int64": attribute.type in ("s64", "s64[]")
            and any(not INT64_MIN <= entry <= INT64_MAX for entry in entries),
            "length": len(entries) < rank or any(entry != attribute.surplus for entry in entries[rank:]),
            "range": any(entry < minimum or entry > maximum for entry in entries),
        }
        for fault, found in faults.items():
            if found:
                self.note(f"{attribute.name}-{fault}")
        if any(faults.values()) or (spatial and self.rank is None):
            return
        if attribute.shape_of:
            self.lists[attribute.name or ""] = entries
        else:
            self.given[attribute.symbol or attribute.name or ""] = entries[:rank] if listed else entries[0]

    # The shapes of the tensors.

    def state_shape(self, output: Tensor) -> str:
        """The shape of an output, from the first input or attribute that states it."""
        for giver in self.op.stated_by(output):
            name = giver.name or ""
            if isinstance(giver, Tensor) and name in self.arrays:
                array = self.arrays[name]
                entries = wholes(array)
                if array.ndim != 1:
                    self.note(f"{name}-rank")
                elif entries is not None and min(entries, default=0) < 0:
                    self.note(f"{name}-range")
                elif entries is not None:
                    self.shapes[output.name] = entries
                return name
            if isinstance(giver, Attribute) and self.attributes.get(name) is not None:
                entries = self.lists.get(name)
                if entries is not None and min(entries, default=0) < 0:
                    self.note(f"{name}-range")
                elif entries is not None:
                    self.shapes[output.name] = entries
                return name
        self.note(f"{output.name}-shape-missing")
        return output.name

    def settle_rank(self, givers: Mapping[str, str]) -> None:
        """The first tensor with spatial axes determines how many there are; tensors that disagree are ignored."""
        allowed = self.op.spatial_rank
        counts = {name: _axis_counts(self.op)[name] for name in self.shapes}
        ranks = [(len(self.shapes[name]) - plain) // vectors for name, (plain, vectors) in counts.items() if vectors]
        if ranks and not allowed.min <= ranks[0] <= allowed.max:
            self.note("spatial-rank")
        elif ranks or not self.vectors:
            self.rank = ranks[0] if ranks else 0
        for name, (plain, spatial) in counts.items():
            expected = plain + spatial * (self.rank or 0)
            validation = self.rank is not None or not spatial
            if validation and len(self.shapes[name]) != expected:
                self.note(f"{givers[name]}-length" if name in givers else f"{name}-rank")
            if not validation or len(self.shapes[name]) != expected:
                del self.shapes[name]

    def axes(self, tensor: Tensor, dims: Mapping[str, Located]) -> tuple[str, ...] | None:
        """The axes of a tensor in the order of the call's layout; None while that is unknown."""
        if not tensor.layout:
            return tuple(dims)
        word = self.words.get(tensor.layout)
        return self.op.layouts[tensor.layout][word] if word else None

    def extents(self, tensor: Tensor, dims: Mapping[str, Located]) -> Facts:
        """The shape of a tensor axis by axis."""
        rest = list(self.shapes[tensor.name])
        result: Facts = {}
        for axis in self.axes(tensor, dims) or ():
            vector = bool(expr.loose_names(dims[axis].tree) & self.vectors)
            taken, rest = (rest[: self.rank], rest[self.rank :]) if vector else (rest[:1], rest[1:])
            result[axis] = tuple(taken) if vector else taken[0]
        return result

    # The fixpoint.

    def unify(self, dims: Mapping[str, Located], extents: Facts, facts: Facts) -> Facts | None:
        """The facts extended by a tensor's extents; None if they contradict."""
        learned = dict(facts)
        pending = {axis: dims[axis].tree for axis in extents}
        while pending:
            solved = ((axis, found) for axis, tree in pending.items() if (found := solve(tree, learned)))
            axis, (symbol, tree) = next(solved, ("", ("", Number(0))))
            if not axis:
                raise UndecidedError
            del pending[axis]
            try:
                value = evaluate(tree, {**learned, "": extents[axis]})
            except Inexact:
                return None
            if not symbol and value != extents[axis]:
                return None
            learned.update({symbol: value} if symbol else {})
        return learned

    def fit(self, name: str, facts: Facts) -> tuple[str, Facts] | None:
        """The first arrangement that agrees with the facts, and the extended facts; None if none does."""
        tensor = self.op.tensor(name)
        for arrangement, dims in tensor.dims_by_arrangement.items():
            if self.axes(tensor, dims) is None:
                raise UndecidedError
            learned = self.unify(dims, self.extents(tensor, dims), facts)
            if learned is not None:
                return arrangement, learned
        return None

    def contradicts(self, name: str, facts: Facts) -> bool:
        try:
            return self.fit(name, facts) is None
        except UndecidedError:
            return False

    def formula(self, let: Let) -> tuple[Located, ...]:
        """The expression of a let in this call; None while the selecting word is unknown."""
        if let.value is not None:
            return (let.value,)
        return tuple(formula for word, formula in let.cases.items() if self.words.get(let.by or "") == word)

    def named(self, symbol: str, facts: Facts) -> Fact | None:
        """The value of a let; None if it is unknown or leaves a remainder."""
        if symbol in self.vectors and self.rank is None:
            return None
        for formula in self.formula(self.op.lets[symbol]):
            try:
                value = evaluate(formula.tree, facts)
            except (Inexact, KeyError):
                return None
            return (value,) * (self.rank or 0) if symbol in self.vectors and isinstance(value, int) else value
        return None

    def closure(self, names: Sequence[str]) -> tuple[Facts, dict[str, str]]:
        """Everything that follows from the attributes and the shapes of some tensors, and the arrangement of each.

        The stated shape of an output comes after the inputs, and optional ones last, which never decide the meaning of
        others.
        """
        facts, arrangements, computed = dict(self.given), dict[str, str](), set[str]()
        order = sorted(names, key=lambda n: (self.op.tensor(n).optional, self.op.tensor(n) in self.op.outputs))

        def grow() -> bool:
            known = len(computed)
            for symbol in self.op.lets:
                value = None if symbol in computed else self.named(symbol, facts)
                if value is not None:
                    computed.add(symbol)
                    facts[symbol] = value
            if len(computed) > known:
                return True
            for name in order:
                try:
                    found = None if name in arrangements else self.fit(name, facts)
                except UndecidedError:
                    continue
                if found:
                    arrangements[name] = found[0]
                    facts.update(found[1])
                    return True
            return False

        while grow():
            pass
        return facts, arrangements

    # Broken rules.

    def blame(self, facts: Facts) -> None:
        """Name every tensor whose shape contradicts others; an optional one never accuses a required one."""
        if not any(self.contradicts(name, facts) for name in self.shapes):
            return
        required = [name for name in self.shapes if not self.op.tensor(name).optional]
        agreed = self.closure(required)[0]
        guilty = any(self.contradicts(name, agreed) for name in required)
        for name in self.shapes:
            if name in required and not guilty:
                continue
            others = [other for other in (required if name in required else self.shapes) if other != name]
            if any(self.contradicts(name, self.closure(names)[0]) for names in (others, [*others, name])):
                self.note(f"{name}-shape")

    def value(self, formula: Located, facts: Facts) -> expr.Value | None:
        """The value of an expression; None if it is unknown or leaves a remainder, which is recorded."""
        try:
            return evaluate(formula.tree, facts)
        except KeyError:
            return None
        except Inexact:
            self.note("inexact-division")
            return None

    def check_values(self, facts: Facts) -> None:
        for value in facts.values():
            if any(isinstance(entry, int) and not INT64_MIN <= entry <= INT64_MAX for entry in each(value)):
                self.note("overflow")
        for role, dim in self.op.dims.items():
            if any(entry < (dim.min or 0) for entry in each(facts.get(dim.symbol, ()))):
                self.note(f"{role.replace('_', '-')}-extent")
        exact = [formula for let in self.op.lets.values() for formula in self.formula(let)]
        for arrangements in (tensor.dims_by_arrangement for tensor in self.op.tensors):
            exact += [extent for dims in arrangements.values() if len(arrangements) == 1 for extent in dims.values()]
        for formula in (*exact, *self.op.semantics.ranges.values()):
            self.value(formula, facts)

    def check_constraints(self, facts: Facts) -> None:
        for constraint in self.op.constraints:
            if constraint.expr and not all(each(self.value(constraint.expr, facts))):
                self.note(constraint.id or "")

    def check_indices(self, facts: Facts) -> None:
        if too_far(self.op, facts):
            self.note("index-overflow")

    def group_class(self, facts: Facts) -> str | None:
        """The first class whose condition holds."""
        return next((found.name for found in self.op.classes if not found.when or self.value(found.when, facts)), None)


@memoised
def _axis_counts(op: Op) -> dict[str, tuple[int, int]]:
    """How many axes of each tensor are plain, and how many stand for all spatial axes."""
    found = {}
    for tensor in op.tensors:
        dims = next(iter(tensor.dims_by_arrangement.values()))
        spatial = sum(bool(expr.loose_names(extent.tree) & vectors(op)) for extent in dims.values())
        found[tensor.name] = len(dims) - spatial, spatial
    return found
