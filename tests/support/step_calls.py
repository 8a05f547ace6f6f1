"""Calls of any operation of steps, drawn from its declarations, and calls that are a step from legal.

How many axes a run has, every extent, and where axes stand are chosen first; arrays follow. What a call means is asked
of the interpreter; nothing here knows an operation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from opwright.language import expr
from opwright.language.evaluate import evaluate
from opwright.language.expr import Call, Inexact, Name
from opwright.language.model import Attribute, Let, Op, Tensor
from opwright.oracle.validate import NUMPY
from opwright.oracle.validate_steps import StepValidation, validate_steps

Rng = np.random.Generator

EXTENTS = (0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 17, 33, 65)  # the last ones: the length of a vector, or a block, plus one
LONG = (15, 16, 17, 31, 32, 33, 47, 48, 64, 65, 96, 130)  # one size of some calls: whole vectors of any type, and rests
MAX_CELLS = 100_000
TRIES = 400
REALS = (-2.0, -1.0, 0.0, 0.5, 1.0, 3.0)
SCALES = (0.5, 1.0, 1.5, 2.0, 0.0)


@dataclass(frozen=True)
class StepCall:
    """The arguments of a call by position and by name, and what the spec makes of it."""

    inputs: tuple[Any, ...]
    attributes: dict[str, Any]
    validation: StepValidation

    def __str__(self) -> str:
        return f"{[_described(array) for array in self.inputs]} {self.attributes} {self.validation.violations}"


def _described(array: Any) -> Any:
    if isinstance(array, list):
        return list(map(_described, array))
    return None if array is None else f"{array.dtype}{list(array.shape)} strides {list(array.strides)}"


class StepCaller:
    """Draws calls of one operation."""

    def __init__(self, op: Op, rng: Rng, rows: int | None = None) -> None:
        self.op, self.rng, self.rows = op, rng, op.dtypes[:rows]  # of data types, only the first few

    def one(self, items: Sequence[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def draw_rows(self, count: int) -> None:
        """Take so many rows of data types, each with a kernel to compile: mostly of halves, which are widened and narrowed."""
        halves = [row for row in self.op.dtypes if {*row.values()} & {"f16", "bf16"}]
        self.rows = [self.one(halves) if halves and self.chance(0.7) else self.op.dtypes[0] for _ in range(count)]

    def legal(self, count: int) -> Iterator[StepCall]:
        """Up to `number` legal calls; fewer if legal ones are rare."""
        made = 0
        for attempt in range(TRIES):
            call = self.draw(tame=attempt % 3 == 0)
            if call is not None and call.validation.accepted:
                made += 1
                yield call
            if made == count:
                return

    # What a call is made of.

    def draw(self, tame: bool = False) -> StepCall | None:
        """A call, legal or not; None where sizes make no shapes, or too large ones."""
        op = self.op
        rank = int(self.rng.integers(op.spatial_rank.min, op.spatial_rank.max + 1))
        row = self.one(self.rows)
        facts = self.facts(rank, tame)
        self.omitted: set[str] = set()
        lackable = {t.dims[axis].text for t in op.tensors for axis in t.may_lack}
        self.lacking = {symbol for symbol in sorted(lackable) if self.chance(0.3)}
        facts |= dict.fromkeys(self.lacking, 1)
        values = {attribute.name or "": self.value(attribute, facts, row, rank) for attribute in op.attributes}
        try:
            self.name(facts, values)
            for attribute in op.attributes:
                if attribute.extents_of:
                    values[attribute.name or ""] = self.stated_shape(attribute, facts)
                if attribute.per and attribute.name not in self.omitted:
                    values[attribute.name or ""] = self.entries(attribute, facts)
            inputs = [self.array(tensor, facts, values, row) for tensor in op.inputs]
            self.place_outputs(facts, values)
        except (Inexact, KeyError):
            return None
        sizes = [
            part.size
            for array in inputs
            for part in (array if isinstance(array, list) else [array])
            if part is not None
        ]
        if max(sizes, default=0) > MAX_CELLS:
            return None
        given = {name: value for name, value in values.items() if name not in self.omitted}
        call = self.blocked(StepCall(tuple(inputs), given, validate_steps(op, inputs, given)))
        return call if not call.validation.accepted or self.small(call.validation) else None

    def blocked(self, call: StepCall) -> StepCall:
        """The call with lists of the extents of blocks, mostly those that its shapes tell."""
        given = dict(call.attributes)
        for attribute in (attribute for attribute in self.op.attributes if attribute.blocks):
            given.pop(attribute.name or "", None)
            (role, size), *_ = (attribute.blocks or {}).items()
            symbol = Name(self.op.dims[role].symbol)
            name, axis = next((t.name, a) for t in self.op.inputs for a, e in t.dims.items() if e.tree == symbol)
            if not call.validation.accepted or self.chance(0.4):
                continue
            places = call.validation.places[name]
            entries = [1] * sum(map(len, places.values()))
            entries[places[axis][0]] = evaluate(size.tree, call.validation.values)
            if self.chance(0.1):
                entries[int(self.rng.integers(len(entries)))] += 1
            given[attribute.name or ""] = entries
        if given.keys() == call.attributes.keys() and all(a.blocks is None for a in self.op.attributes):
            return call
        return StepCall(call.inputs, given, validate_steps(self.op, call.inputs, given))

    def facts(self, rank: int, tame: bool) -> dict[str, Any]:
        """Sizes and numbers by the symbols that formulas have for them."""
        choose = (0, 1, 2, 3) if tame or self.chance(0.5) else EXTENTS
        found: dict[str, Any] = {}
        for dim in self.op.dims.values():
            count = rank if dim.per_axis else self.one((0, 1, 1, 2, 3)) if dim.run else None
            least = dim.min if dim.min is not None else int(bool(dim.per_axis))
            if count is None:
                found[dim.symbol] = max(int(self.one(choose)), least)
            else:
                found[dim.symbol] = tuple(max(int(self.one(choose[:8])), least) for _ in range(count))
        if found and self.chance(0.5):
            symbol, long = self.one(list(found)), int(self.one(LONG))
            size = found[symbol]
            found[symbol] = (*size[:-1], long)[: len(size)] if isinstance(size, tuple) else long
        return found

    def value(self, attribute: Attribute, facts: dict[str, Any], row: Mapping[str, str], rank: int) -> Any:
        """A value of an attribute, its default too; where a formula can name it, a fact as well."""
        default = attribute.default
        if not attribute.required and default is not None and not attribute.locates and self.chance(0.3):
            self.omitted.add(attribute.name or "")
        else:
            default = None
        symbol = attribute.symbol or attribute.name or ""
        if attribute.dtype_of:
            return row[attribute.dtype_of]
        if attribute.type == "string":
            word = self.one(attribute.values or ())
            return default or self.one((word.value, *word.aliases))
        if any(getattr(attribute, key) for key in ("locates", "order_of", "per", "extents_of", "shape_of", "blocks")):
            return None  # once extents are known
        if attribute.type == "bool":
            facts[symbol] = default == "true" if default else self.chance(0.5)
        elif attribute.type == "f32":
            least = float(attribute.min if attribute.min is not None else -9)
            facts[symbol] = float(default) if default else max(self.one(REALS), least)
        elif attribute.type == "f32[]":
            facts[symbol] = (float(default),) * rank if default else tuple(self.one(SCALES) for _ in range(rank))
            return list(facts[symbol])
        elif attribute.type == "s64[]":
            facts[symbol] = (int(default),) * rank if default else tuple(self.whole(attribute) for _ in range(rank))
            return list(facts[symbol])
        else:
            facts[symbol] = int(default) if default else self.whole(attribute)
        return facts[symbol]

    def whole(self, attribute: Attribute) -> int:
        least = attribute.min if attribute.min is not None else -3
        value = least + int(self.rng.integers(0, 4 if attribute.min is not None else 7))
        return min(value, attribute.max if attribute.max is not None else value)

    def stated_shape(self, attribute: Attribute, facts: dict[str, Any]) -> list[int]:
        """The extents of a run that no input has: of as many cells as another run; one of them may be left to follow."""
        symbol = self.op.dims[attribute.extents_of or ""].symbol
        if attribute.fills is None:
            return list(facts[symbol])
        rest, found = math.prod(facts[self.op.dims[attribute.fills].symbol]), list[int]()
        while rest > 1 and self.chance(0.7):
            found.append(int(self.one([factor for factor in range(1, rest + 1) if rest % factor == 0])))
            rest //= found[-1]
        facts[symbol] = (*found, rest)
        stated = [*found, rest]
        if rest and self.chance(0.4):
            stated[int(self.rng.integers(len(stated)))] = -1
        return stated

    def entries(self, attribute: Attribute, facts: Mapping[str, Any]) -> list[Any]:
        """A list with an entry for each cell of a size, or one for all."""
        count = facts[attribute.per or ""] if self.chance(0.8) else 1
        if attribute.type == "f32[]":
            return [self.one((0.5, 1.0, 2.0, -1.0)) for _ in range(count)]
        return [self.whole(attribute) for _ in range(count)]

    def name(self, facts: dict[str, Any], values: Mapping[str, Any]) -> None:
        """The named values and stated extents that follow; KeyError where one follows from nothing."""
        trees = {symbol: self.formula(let, values) for symbol, let in self.op.lets.items()}
        while trees:
            ready = [symbol for symbol, tree in trees.items() if expr.names(tree) <= facts.keys()]
            symbol = ready[0] if ready else next(iter(trees))
            facts[symbol] = evaluate(trees.pop(symbol), facts)
            if any(dim.per_axis and dim.symbol == symbol for dim in self.op.dims.values()):
                facts[symbol] = facts[symbol] if isinstance(facts[symbol], tuple) else (facts[symbol],)

    def formula(self, let: Let, values: Mapping[str, Any]) -> expr.Expr:
        """A named value's expression, in the case of the call's word."""
        if let.value is not None:
            return let.value.tree
        attribute, word = self.op.attribute(let.by or ""), str(values[let.by or ""]).lower()
        known = {spelling: str(v.value) for v in attribute.values or () for spelling in (v.value, *v.aliases)}
        return let.cases[known.get(str(values[let.by or ""]), word)].tree

    # Arrays.

    def array(self, tensor: Tensor, facts: Mapping[str, Any], values: dict[str, Any], row: Mapping[str, str]) -> Any:
        """An input of the call, on memory of any order; None where the call leaves it out."""
        if tensor.when is not None and not evaluate(tensor.when.tree, facts):
            return None
        if tensor.optional and self.chance(0.4):
            return None
        extents = {axis: self.extents(tensor, axis, facts) for axis in self.order(tensor, values)}
        shape = self.placed(tensor, extents, values)
        dtype = NUMPY[row[tensor.name]]
        if tensor.joined is None:
            return self.viewed(self.cells(dtype, shape))
        at = sum(len(extents[axis]) for axis in list(extents)[: list(extents).index(tensor.joined)])
        cuts = sorted(int(cut) for cut in self.rng.integers(0, shape[at] + 1, int(self.one((0, 1, 2, 3)))))
        return [self.viewed(part) for part in np.split(self.cells(dtype, shape), cuts, at)]

    def order(self, tensor: Tensor, values: Mapping[str, Any]) -> list[str]:
        """The axes of an array, in the order of its layout."""
        order = list(tensor.dims)
        if tensor.layout is not None:
            word = values[tensor.layout]
            known = {str(v.value): v for v in self.op.attribute(tensor.layout).values or ()}
            canonical = next((w for w, v in known.items() if word in (w, *v.aliases)), str(word).lower())
            order = list(self.op.layouts[tensor.layout][canonical])
        return [a for a in order if a not in tensor.may_lack or tensor.dims[a].text not in self.lacking]

    def place_outputs(self, facts: Mapping[str, Any], values: dict[str, Any]) -> None:
        """Lists that order the axes of an output."""
        for tensor in self.op.outputs:
            for attribute in (a for a in self.op.attributes if a.shape_of == tensor.name):
                extents = (self.extents(tensor, axis, facts) for axis in self.order(tensor, values))
                values[attribute.name or ""] = [extent for found in extents for extent in found]
            if any(attribute.order_of == tensor.name for attribute in self.op.attributes):
                self.placed(tensor, {a: self.extents(tensor, a, facts) for a in self.order(tensor, values)}, values)

    def extents(self, tensor: Tensor, axis: str, facts: Mapping[str, Any]) -> tuple[int, ...]:
        """The extents of an axis, or of a run, here: broadcast ones may be 1, and runs in front shorter."""
        value = evaluate(tensor.dims[axis].tree, facts)
        whole = tuple(value) if isinstance(value, tuple) else (int(value),)
        if min(whole, default=0) < 0:
            raise KeyError(axis)
        stretches = axis in tensor.broadcast and (not tensor.broadcast_if or self.chance(0.4))
        if stretches:
            if isinstance(value, tuple) and self.chance(0.3):
                whole = whole[int(self.rng.integers(0, len(whole) + 1)) :]
            whole = tuple(1 if self.chance(0.3) else extent for extent in whole)
        return whole

    def placed(self, tensor: Tensor, extents: Mapping[str, tuple[int, ...]], values: dict[str, Any]) -> list[int]:
        """The shape of an array; where attributes say where axes stand, what they say is chosen here."""
        owners = [axis for axis, found in extents.items() for _ in found]
        count = len(owners)
        spots: dict[str, list[int]] = {}
        for attribute in self.op.attributes:
            name = attribute.name or ""
            if attribute.order_of == tensor.name:
                order = [int(spot) for spot in self.rng.permutation(count)]
                values[name] = [spot - (count if self.chance(0.3) else 0) for spot in order]
                whole = [extent for found in extents.values() for extent in found]
                return [whole[spot] for spot in order]
            axis = self.axis_of(tensor, attribute)
            if axis is None:
                continue
            if values[name] is None:
                values[name] = self.value_of(attribute, axis, extents, [at for found in spots.values() for at in found])
            if attribute.type == "s64[]" and self.like_first(tensor, attribute):
                spots[axis] = sorted(at % count for at in values[name]) if count else []
                if len(spots[axis]) != len(extents[axis]):
                    raise KeyError(name)
        taken = {at: axis for axis, found in spots.items() for at in found}
        cells = {axis: iter(found) for axis, found in extents.items()}
        free = iter([axis for axis in owners if axis not in spots])
        return [next(cells[taken[at] if at in taken else next(free)]) for at in range(count)]

    def axis_of(self, tensor: Tensor, attribute: Attribute) -> str | None:
        """The axis of a tensor whose place, or places, an attribute says."""
        if attribute.locates is None:
            return None
        symbol = Name(self.op.dims[attribute.locates].symbol)
        return next((axis for axis, extent in tensor.dims.items() if _inside(extent.tree) == symbol), None)

    def like_first(self, tensor: Tensor, attribute: Attribute) -> bool:
        """Whether a tensor has the axes of the first input with the run that a list places."""
        first = next(other for other in self.op.data_inputs if self.axis_of(other, attribute) is not None)
        ours, theirs = (sorted(str(_inside(e.tree)) for e in other.dims.values()) for other in (tensor, first))
        return ours == theirs

    def value_of(
        self, attribute: Attribute, axis: str, extents: Mapping[str, tuple[int, ...]], taken: Sequence[int]
    ) -> int | list[int]:
        """What an attribute says of an axis, or of the axes of a run; some from the end."""
        count = sum(map(len, extents.values()))
        if attribute.type == "s64":
            before = sum(len(extents[other]) for other in list(extents)[: list(extents).index(axis)])
            return before - (count if before < count and self.chance(0.5) else 0)
        free = [int(at) for at in self.rng.permutation(count) if at not in taken]
        return [at - (count if self.chance(0.4) else 0) for at in free[: len(extents[axis])]]

    def cells(self, dtype: np.dtype[Any], shape: Sequence[int]) -> Any:
        """Small whole numbers and halves, of which sums and products are exact."""
        if dtype == np.bool_:
            return self.rng.integers(0, 2, shape).astype(bool)
        whole = dtype.kind in "iu" or dtype.name in ("int4", "uint4")
        found = self.rng.integers(0 if dtype.name.startswith("uint") else -3, 4, shape)
        return (found * 0.5 if not whole and self.chance(0.3) else found).astype(dtype)

    def viewed(self, array: Any, stretched: bool = True) -> Any:
        """The same cells in another order of memory: transposed, backwards, with gaps, or as they are."""
        kind = self.one(("plain", "plain", "transposed", "backwards", "gaps", *(("stretched",) if stretched else ())))
        if array.ndim == 0 or kind == "plain":
            return array
        if kind == "transposed":
            return np.asfortranarray(array)
        if kind == "backwards":
            back = tuple(slice(None, None, -1) for _ in array.shape)
            return array[back].copy()[back]
        if kind == "stretched" and array.size:
            return np.broadcast_to(array[..., :1], array.shape)
        step = tuple(slice(None, None, 2) for _ in array.shape)
        wide = np.zeros([2 * extent for extent in array.shape], array.dtype)[step]
        wide[...] = array
        return wide

    def target(self, dtype: str, shape: Sequence[int]) -> Any:
        """An array for an output, on memory of any order that no two cells share."""
        made = self.viewed(np.zeros(shape, NUMPY[dtype]), stretched=False)
        return made if made.flags.writeable else made.copy()

    def small(self, call: StepValidation) -> bool:
        """Whether the interpreter is done with a call in a moment."""
        cells = [math.prod(shape) for shape in call.shapes.values()]
        extents = [evaluate(extent.tree, call.values) for extent in self.op.semantics.ranges.values()]
        terms = math.prod(math.prod(extent) if isinstance(extent, tuple) else int(extent) for extent in extents)
        return max([*cells, terms], default=0) <= MAX_CELLS

    # Calls that are a step from legal.

    def nearly(self, call: StepCall) -> StepCall:
        """A call with one thing changed, refused about as often as not."""
        inputs, attributes = list(call.inputs), dict(call.attributes)
        at = int(self.one([number for number, array in enumerate(inputs) if array is not None] or [0]))
        array = inputs[at]
        kind = self.one(("extent", "extent", "number", "number", "rank", "dtype", "drop"))
        if kind == "number" and attributes:
            name = str(self.one(list(attributes)))
            attributes[name] = self.other(attributes[name])
        elif kind == "drop" or array is None:
            inputs[at] = None
        elif isinstance(array, list):
            inputs[at] = [*array, self.changed(kind, array[0])]
        else:
            inputs[at] = self.changed(kind, array)
        return StepCall(tuple(inputs), attributes, validate_steps(self.op, inputs, attributes))

    def changed(self, kind: str, array: Any) -> Any:
        """An array of another extent, of more or fewer axes, or of another data type."""
        if kind == "extent" and array.ndim:
            shape = list(array.shape)
            axis = int(self.rng.integers(array.ndim))
            shape[axis] = max(shape[axis] + int(self.one((-1, 1, 1, 3))), 0)
            return np.zeros(shape, array.dtype)
        if kind == "rank":
            return array[np.newaxis] if self.chance(0.5) or not array.ndim else np.zeros(array.shape[1:], array.dtype)
        return array.astype(self.one((np.float32, np.float64, np.int64, np.int8, np.bool_)))

    def other(self, value: Any) -> Any:
        if isinstance(value, bool):
            return not value
        if isinstance(value, str):
            return "no_such_word"
        if isinstance(value, list):
            return [*value, 0] if self.chance(0.5) or not value else [value[0] + 5, *value[1:]]
        return value + self.one((-3, -1, 1, 7)) if value is not None else 0


def _inside(tree: expr.Expr) -> expr.Expr:
    return tree.arguments[0] if isinstance(tree, Call) and tree.function == "ones" else tree
