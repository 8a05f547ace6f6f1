"""Small legal calls of an operation, sampled from its declarations alone, the same ones at every run.

In: an operation. Out: settings, and the arguments of a setting. For nearly legal calls,
change a setting and ask for its arguments again.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..language.evaluate import evaluate
from ..language.expr import Inexact
from ..language.model import Attribute, Op
from ..language.types import symbol_kinds, symbol_of
from .extents import Fact, Facts, each, shape_of
from .validate import NUMPY, Array, Validation, Validator

SEED = 20240229
COLUMNS = 20  # legal settings of one spatial axis, which calls combine
CALLS = 18  # calls of an operation, a third for each number of axes
TRIES = 600  # samples before giving up
MAX_CELLS = (
    3000  # limits on the product of all sizes of a call and on its output, which keep a call below a millisecond
)

Column = dict[str, int]


@dataclass(frozen=True)
class Setting:
    """The choices that determine the arguments of a call.

    `sizes` are the symbols of dimensions, a tuple for those with one value per spatial axis; `values` the attributes
    that the call passes, `given` the optional tensors and shape vectors that it passes, `arrangements` the arrangement
    of each tensor, `row` the types. A shape that the call states follows from `sizes`.
    """

    sizes: Mapping[str, Fact]
    values: Mapping[str, Any]
    given: frozenset[str]
    arrangements: Mapping[str, str]
    row: Mapping[str, str]


@dataclass(frozen=True)
class Arguments:
    """By name: type and shape of each tensor, the shape vectors, the attributes, and the shapes of the
    arrays of variadic inputs."""

    tensors: dict[str, tuple[str, tuple[int, ...]]]
    vectors: dict[str, list[int]]
    values: dict[str, Any]
    lists: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)


def numbers(op: Op) -> list[Attribute]:
    """The attributes that formulas read."""
    return [a for a in op.attributes if a.type != "string" and not a.shape_of]


def facts(op: Op, setting: Setting) -> Facts:
    """The symbols that determine shapes. Raises KeyError if a required attribute is missing."""
    rank = next((len(size) for size in setting.sizes.values() if isinstance(size, tuple)), 0)
    found: Facts = dict(setting.sizes)
    for attribute in numbers(op):
        name = attribute.name or ""
        if attribute.type == "s64[]":
            value = setting.values[name] if name in setting.values else [int(attribute.default or 0)] * rank
            found[symbol_of(attribute)] = tuple(value[:rank])
        elif attribute.type == "s64":
            found[symbol_of(attribute)] = int(setting.values.get(name, attribute.default or 0))
    return found


def arguments(op: Op, setting: Setting) -> Arguments:
    """The arguments of a call. Raises Inexact or KeyError if the sizes give no shapes."""
    known = facts(op, setting)
    words = {
        a.name or "": str(setting.values.get(a.name or "", a.default)) for a in op.attributes if a.type == "string"
    }
    tensors: dict[str, tuple[str, tuple[int, ...]]] = {}
    vectors: dict[str, list[int]] = {}
    values = dict(setting.values)
    for tensor in op.tensors:
        stated = op.stated_by(tensor)
        if (tensor in op.outputs and not stated) or (tensor.optional and tensor.name not in setting.given):
            continue
        shape = shape_of(op, tensor, setting.arrangements, words, known)
        if not stated:
            tensors[tensor.name] = (setting.row[tensor.name], shape)
        elif isinstance(giver := next((g for g in stated if g.name in setting.given), stated[-1]), Attribute):
            values.setdefault(giver.name or "", list(shape))
        else:
            vectors[giver.name] = list(shape)
    return Arguments(tensors, vectors, values)


def legal(op: Op) -> Iterator[tuple[Setting, list[Array | None], Validation]]:
    """Legal calls with small integers over every number of axes: setting, inputs, and their validation."""
    sampler = _Sampler(op)
    columns = list(sampler.columns())
    ranks = range(op.spatial_rank.min, op.spatial_rank.max + 1)
    made = 0
    for _ in range(TRIES if columns or not sampler.vectors else 0):
        rank = ranks[made % len(ranks)]
        chosen = [columns[sampler.rng.integers(len(columns))] for _ in range(rank)]
        call = sampler.call(sampler.scalars(), chosen)
        if call is not None:
            made += 1
            yield call
        if made == CALLS:
            return


class _RefusedError(Exception):
    """A rule is broken; further ones do not matter."""


class _Legal(Validator):
    """Validates a call up to the first broken rule."""

    def note(self, rule: str) -> None:
        raise _RefusedError(rule)

    def blame(self, facts: Facts) -> None:
        self.check_constraints(facts)  # the check that most samples fail
        for name in self.shapes:
            if self.contradicts(name, facts):
                self.note(f"{name}-shape")


class _Known(dict[str, Any]):
    """Sizes and numbers of a sample, and the named values that follow from them."""

    def __init__(self, op: Op, words: Mapping[str, Any], symbols: Facts) -> None:
        super().__init__({symbol: value for symbol, value in symbols.items() if symbol not in op.lets})
        self.op, self.words = op, words
        self.rank = next((len(value) for value in symbols.values() if isinstance(value, tuple)), 0)

    def __missing__(self, symbol: str) -> Any:
        let = self.op.lets[symbol]
        by = let.by or ""
        formula = let.value or let.cases[str(self.words.get(by) or self.op.attribute(by).default)]
        value = evaluate(formula.tree, self)
        vector = symbol_kinds(self.op)[symbol].vector and not isinstance(value, tuple)
        self[symbol] = found = (value,) * self.rank if vector else value
        return found

    def refused(self) -> bool:
        """Whether a rule refuses the sample, as far as sizes and numbers alone tell: most samples break one."""
        for constraint in self.op.constraints:
            with contextlib.suppress(KeyError, Inexact):
                if constraint.expr and not all(each(evaluate(constraint.expr.tree, self))):
                    return True
        for dim in self.op.dims.values():
            with contextlib.suppress(KeyError, Inexact):
                if any(entry < (dim.min or 0) for entry in each(self[dim.symbol])):
                    return True
        return False


class _Sampler:
    """Samples settings; None stands for a setting that is too large or whose call the spec refuses."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.rng = np.random.default_rng(SEED)
        self.numbers = [a for a in numbers(op) if a.type in ("s64", "s64[]")]
        kinds = symbol_kinds(op)
        self.vectors = [dim.symbol for dim in op.dims.values() if kinds[dim.symbol].vector]
        self.sizes = [dim.symbol for dim in op.dims.values() if not kinds[dim.symbol].vector]
        self.minimum = {dim.symbol: max(dim.min or 0, 1) for dim in op.dims.values()}

    def small(self, attribute: Attribute) -> int:
        """A value near the legal minimum, often the default if there is one."""
        if attribute.default is not None and self.rng.random() < 0.3:
            return int(attribute.default)
        return (attribute.min or 0) + int(self.rng.integers(3))

    def scalars(self) -> Column:
        """The scalar values; sizes are multiples of every number, so that groups divide them."""
        found = {symbol_of(a): self.small(a) for a in self.numbers if a.type == "s64"}
        unit = max(1, math.prod(found.values()))
        minimum = {symbol: -(-self.minimum[symbol] // unit) for symbol in self.sizes}
        return found | {symbol: unit * int(self.rng.integers(low, low + 2)) for symbol, low in minimum.items()}

    def columns(self) -> Iterator[Column]:
        """Legal values of one spatial axis, found with the minimum number of axes, all equal."""
        axes = max(1, self.op.spatial_rank.min)
        ones = {symbol_of(a): max(a.min or 0, 1) for a in self.numbers if a.type == "s64"}
        unit = math.prod(ones.values())
        ones |= {symbol: -(-self.minimum[symbol] // unit) * unit for symbol in self.sizes}
        made = 0
        for _ in range(TRIES if self.vectors else 0):
            column = {symbol_of(a): self.small(a) for a in self.numbers if a.type == "s64[]"}
            column |= {s: int(self.rng.integers(self.minimum[s], self.minimum[s] + 4)) for s in self.vectors}
            if self.call(ones, [column] * axes) is not None:
                made += 1
                yield column
            if made == COLUMNS:
                return

    def call(self, scalars: Column, columns: Sequence[Column]) -> tuple[Setting, list[Array | None], Validation] | None:
        op, rng = self.op, self.rng
        lists = (*self.vectors, *(symbol_of(a) for a in self.numbers if a.type == "s64[]"))
        vectors = {symbol: tuple(column[symbol] for column in columns) for symbol in lists}
        symbols: Facts = {**scalars, **vectors}
        values: dict[str, Any] = {}
        for attribute in op.attributes:
            allowed = attribute.values or ()
            # A word that does not order axes selects formulas: prefer its default, with which most calls are legal.
            chosen = attribute.name in op.layout_attributes or attribute.required or rng.random() < 0.3
            if allowed and chosen:
                values[attribute.name or ""] = allowed[rng.integers(len(allowed))].value
        values |= {a.name or "": symbols[symbol_of(a)] for a in self.numbers}
        values |= {a.name or "": float(rng.integers(1, 4)) for a in numbers(op) if a.type == "f32"}
        setting = Setting(
            sizes={size: symbols[size] for size in (*self.sizes, *self.vectors)},
            values=values,
            given=frozenset(tensor.name for tensor in op.tensors if tensor.optional and rng.random() < 0.5),
            arrangements={t.name: _one(rng, list(t.dims_by_arrangement)) for t in op.tensors},
            row=op.dtypes[0],
        )
        if too_big(setting):
            return None
        try:
            made = arguments(op, setting)
        except Inexact:
            return None
        inputs = [self.array(made, tensor.name) for tensor in op.inputs]
        if _Known(op, values, symbols).refused():
            return None
        try:
            validation = _Legal(op, inputs, made.values).validation()
        except _RefusedError:
            return None
        return (setting, inputs, validation) if math.prod(validation.shape or ()) <= MAX_CELLS else None

    def array(self, made: Arguments, name: str) -> Array | None:
        if name in made.vectors:
            return np.array(made.vectors[name], NUMPY[self.op.dtypes[0][name]])
        if name not in made.tensors:
            return None
        dtype, shape = made.tensors[name]
        return self.rng.integers(-3, 4, shape).astype(NUMPY[dtype])


def too_big(setting: Setting) -> bool:
    """Whether the sizes of a call multiply to more than a check should compute."""
    return math.prod(entry for size in setting.sizes.values() for entry in each(size)) > MAX_CELLS


def _one(rng: np.random.Generator, names: list[str]) -> str:
    return names[rng.integers(len(names))]
