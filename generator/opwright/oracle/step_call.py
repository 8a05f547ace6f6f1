"""What the oracle finds out of a call of an operation of steps.

In: nothing. Out: the words of its answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from .validate import Array, Validation

# Where the axes of a tensor stand in its array, by their names.
Places = dict[str, tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class StepValidation(Validation):
    """`shapes` of every output that the call has; `places` of the axes of every tensor; `lists` that steps read.

    `arrays` are the inputs, a list of them joined to one.
    """

    shapes: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    places: Mapping[str, Places] = dataclasses.field(default_factory=dict)
    words: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lists: Mapping[str, tuple[float, ...]] = dataclasses.field(default_factory=dict)
    arrays: Mapping[str, Array] = dataclasses.field(default_factory=dict)
