"""The oracle's answer about a call of an operation of steps.

Types of the answer, and the positions of axes that a list orders.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from ..language import expr
from ..language.evaluate import evaluate
from ..language.expr import Call
from ..language.model import Op
from .extents import Facts, each
from .statements import integers_of
from .validate import Array, Validation

# The positions of a tensor's axes in its array, by name.
Places = dict[str, tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class StepValidation(Validation):
    """`shapes` of every output of the call; `places` of the axes of every tensor; `lists` that steps read.

    `arrays` are the inputs, with variadic ones joined.
    """

    shapes: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    places: Mapping[str, Places] = dataclasses.field(default_factory=dict)
    words: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lists: Mapping[str, tuple[float, ...]] = dataclasses.field(default_factory=dict)
    arrays: Mapping[str, Array] = dataclasses.field(default_factory=dict)


def permuted(order: Sequence[str], counts: Mapping[str, int], entries: Sequence[int]) -> Places | None:
    """The axes in the order of a list; None if it is not a permutation of them."""
    owners = [axis for axis in order for _ in range(counts[axis])]
    axes = len(owners)
    if len(entries) != axes or {entry % axes for entry in entries if -axes <= entry < axes} != set(range(axes)):
        return None
    place = {entry % axes: spot for spot, entry in enumerate(entries)}
    return {a: tuple(place[number] for number in range(axes) if owners[number] == a) for a in order}


def first_array(entry: Array | Sequence[Array] | None) -> Array | None:
    """An array, or the first one of a variadic input."""
    return (entry[0] if entry else None) if isinstance(entry, (list, tuple)) else entry  # type: ignore[return-value]


def numbers_beyond(op: Op, row: Mapping[str, str] | None, facts: Facts) -> bool:
    """Whether letters have more values than the type of computation represents exactly."""
    maximum = {"f32": 2**24, "f64": 2**53}.get(row["accumulate"], 2**62) if row else 2**62
    made = [a for step in op.semantics.steps for a in step.assignments]
    trees = [a.value for a in made if a.target.tensor not in integers_of(op)]
    for call in {node for tree in trees for node in expr.outside_indices(tree) if isinstance(node, Call)}:
        letters = sorted(expr.names(call)) if call.function == "number" else []
        known = [letter for letter in letters if expr.names(op.semantics.ranges[letter].tree) <= facts.keys()]
        extents = [evaluate(op.semantics.ranges[letter].tree, facts) for letter in known]
        if math.prod(math.prod(each(extent)) for extent in extents) > maximum:
            return True
    return False
