"""How each side interprets a call, and how these readings differ.

In: operations and calls. Out: outcomes, and results that are small enough to compute. Shapes are validated
first, on tensors without memory, so that large calls can be read, too.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..calls.call_text import CallText, TensorText, each_part
from ..emit.python_signature import parameter_name
from ..language.evaluate import evaluate
from ..language.model import Op
from ..oracle import sample
from ..oracle.extents import each
from ..oracle.interpret import compute
from ..oracle.run_steps import compute_steps
from ..oracle.step_call import StepValidation
from ..oracle.validate import NUMPY, Array, Validation, validate
from ..oracle.validate_steps import validate_steps
from .evidence import NO_OPERATION, Outcome
from .tree import exact

Given = dict[str, Array | list[Array]]  # the tensors of a call; variadic inputs have a list
TERMS = 2**16  # index tuples that the interpreter visits for one call
ROUNDINGS = {"f64": 1e-9, "f32": 1e-6, "f16": 2e-3, "bf16": 2e-2}  # a few ulp of each type


class Reading:
    """One side's reading of a call; results are computed on demand, None if that takes too long."""

    def __init__(self, op: Op | None, call: CallText, tensors: Tensors | None = None) -> None:
        self.outcome, self.op, self.call = NO_OPERATION, op, call
        self.tensors = tensors or Tensors(call, values_of(op))
        if op is None or op.function != call.function:
            return
        arguments = taken(op, call, self.tensors.empty)
        self.validation = validate_steps(op, *arguments) if op.stepped else validate(op, *arguments)
        self.outcome = Outcome(self.validation.violations)
        if self.validation.accepted and self.validation.row is not None:
            row, shapes = self.validation.row, {op.output.name: self.validation.shape or ()}
            if isinstance(self.validation, StepValidation):
                shapes = dict(self.validation.shapes)
            (dtype, shape), *others = [(row[name], shape) for name, shape in shapes.items()]
            self.outcome = Outcome((), dtype, shape, tuple(others))

    @functools.cached_property
    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """The inputs, filled with numbers, and the attributes."""
        assert self.op is not None
        return taken(self.op, self.call, self.tensors.filled)

    @functools.cached_property
    def result(self) -> Array | None:
        if self.op is None or not self.outcome.accepted or math.prod(self.outcome.shape) > sample.MAX_CELLS:
            return None
        if terms(self.op, self.validation) > TERMS:
            return None
        if not self.op.stepped:
            return compute(self.op, *self.arguments)
        return one_array(list(compute_steps(self.op, *self.arguments).values()))

    @property
    def rounds(self) -> float:
        """The rounding tolerance of steps, whose functions are not exact; sums of small integers are exact."""
        if self.op is None or not self.op.stepped:
            return 0.0
        dtypes = {self.outcome.dtype, *(dtype for dtype, _ in self.outcome.others)}
        return max((ROUNDINGS.get(dtype, 0.0) for dtype in dtypes), default=0.0)

    def splits(self) -> Any:
        """How each tensor is split, regardless of the arrangement's name."""
        assert self.op is not None
        arrangements = {
            name: self.op.tensor(name).arrangements[arrangement]
            for name, arrangement in self.validation.arrangements.items()
        }
        return [exact([arrangement.dims, arrangement.index]) for arrangement in arrangements.values()]

    def computes_as(self, other: Reading) -> bool:
        """Whether everything that determines the result is equal; a sufficient condition, not a necessary one."""
        return self.op is other.op or (
            self.op is not None
            and other.op is not None
            and not (self.op.stepped or other.op.stepped)
            and _meaning(self.op) == _meaning(other.op)
            and all(
                getattr(self.validation, name) == getattr(other.validation, name)
                for name in ("values", "arrangements", "layouts", "row")
            )
        )


@functools.lru_cache(maxsize=64)
def _meaning(op: Op) -> str:
    """Everything that determines a result, except the values of the call."""
    return repr(exact((op.semantics, op.layouts, op.inputs, op.outputs)))


class Tensors:
    """The tensors of a call for both sides: shapes are validated first, and most calls need no more."""

    def __init__(self, call: CallText, values: str = "integers") -> None:
        self.call, self.values = call, values

    @functools.cached_property
    def empty(self) -> Given:
        """Of the right shapes and types, without memory."""

        def blank(tensor: TensorText) -> Array:
            return np.broadcast_to(np.zeros((), NUMPY[tensor.dtype]), tensor.shape)

        return {name: each_part(given, blank) for name, given in self.call.tensors.items()}

    @functools.cached_property
    def filled(self) -> Given:
        return data(self.call, self.values)


def _mixed(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Small integers, a few quarters, and a few numbers beyond the caps in formulas."""
    kind = rng.random(shape)
    small = rng.integers(-4, 5, shape)
    return np.where(kind < 0.7, small, np.where(kind < 0.9, small / 4, 25 * small))


DATA: Mapping[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "integers": lambda rng, shape: rng.integers(-4, 5, shape),
    "mixed": _mixed,
    "normal": lambda rng, shape: rng.standard_normal(shape),
}


def values_of(*sides: Op | None) -> str:
    """The kind of DATA that exposes a difference: sums that round once use integers, on which sums are exact."""
    return "mixed" if any(op is not None and op.stepped for op in sides) else "integers"


def data(call: CallText, values: str = "integers") -> Given:
    """The tensors of a call: numbers determined by each tensor's name and shape, exact unless `normal` is asked for."""

    def filled(name: str, tensor: TensorText) -> Array:
        rng = np.random.default_rng(zlib.crc32(f"{name}{tensor.shape}".encode()))
        return DATA[values](rng, tensor.shape).astype(NUMPY[tensor.dtype])

    return {name: each_part(given, functools.partial(filled, name)) for name, given in call.tensors.items()}


def one_array(outputs: Sequence[Array]) -> Array:
    """An output, or the concatenated elements of several."""
    if len(outputs) == 1:
        return outputs[0]
    return np.concatenate([output.ravel().astype(np.float64) for output in outputs])


def taken(op: Op, call: CallText, tensors: Given) -> tuple[list[Any], dict[str, Any]]:
    """The inputs and attributes of a call as an operation takes them; unknown names count as attributes."""
    names = [parameter_name(tensor) for tensor in op.inputs]
    places = dict(zip(map(str, range(1, len(names) + 1)), names, strict=True))  # of tensors without a name
    arguments: dict[str, Any] = {places.get(name, name): tensor for name, tensor in tensors.items()}
    for name, value in call.values.items():
        arguments[name] = np.array(value, np.int32) if name in names and isinstance(value, list) else value
    return [arguments.pop(name, None) for name in names], arguments


def terms(op: Op, validation: Validation) -> int:
    """How many index tuples the semantics visit."""
    return math.prod(
        e for extent in op.semantics.ranges.values() for e in each(evaluate(extent.tree, validation.values))
    )


@dataclass(frozen=True)
class Difference:
    """The outcome of each side, and how they differ.

    `kind` is `refused` (now, and was not), `accepted` (now, and was not), `shape`, `values`, `rules` (refused by both,
    by other rules), `reading` (a tensor is split in another arrangement), or empty if the sides agree.
    `shared`: other edits contribute to it.
    """

    kind: str = ""
    base: Outcome = NO_OPERATION
    head: Outcome = NO_OPERATION
    shared: bool = False

    @property
    def broken(self) -> int:
        return len(self.base.rules) + len(self.head.rules)


def difference(base: Reading, head: Reading) -> Difference:
    old, new = base.outcome, head.outcome
    if old.accepted != new.accepted:
        kind = "refused" if old.accepted else "accepted"
    elif old != new:
        kind = "shape" if old.accepted else "rules"
    elif old.accepted and not base.computes_as(head) and _values_differ(base.result, head.result, base.rounds):
        kind = "values"
    elif old.accepted and base.splits() != head.splits():
        kind = "reading"
    else:
        kind = ""
    return Difference(kind, old, new)


def _values_differ(old: Array | None, new: Array | None, rounds: float) -> bool:
    """Whether values differ by more than rounding, relative to their size."""
    if old is None or new is None:
        return False
    was, now = old.astype(float), new.astype(float)
    if not rounds or np.array_equal(was, now, equal_nan=True):
        return not np.array_equal(was, now, equal_nan=True)
    with np.errstate(invalid="ignore", over="ignore"):
        return not np.allclose(was, now, rtol=rounds, atol=rounds, equal_nan=True)


@dataclass(frozen=True)
class Sides:
    """An operation before and after a change; `alone` is the base with only the edits under test."""

    base: Op | None
    head: Op | None
    alone: Op | None

    def read(self, call: CallText, known: Reading | None = None) -> tuple[Reading, Reading]:
        """The call as each side reads it; `known` is an earlier reading."""
        tensors = known.tensors if known and known.call == call else Tensors(call, values_of(self.base, self.head))
        found = known if known and known.tensors is tensors else None
        base, head = (
            found if found and found.op is op else Reading(op, call, tensors) for op in (self.base, self.head)
        )
        return base, head

    def differ(self, call: CallText, known: Reading | None = None) -> Difference:
        """How these edits change a call's meaning; without a kind if they do not contribute."""
        base, head = self.read(call, known)
        found = difference(base, head)
        if not found.kind or self.alone is self.head or self.alone is None:
            return found
        alone = difference(base, Reading(self.alone, call, base.tensors))
        return found if found == alone else dataclasses.replace(found, shared=True) if alone.kind else Difference()
