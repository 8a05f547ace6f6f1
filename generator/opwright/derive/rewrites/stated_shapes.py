"""Rewrites inputs that state the shape of an output, in operations of steps, as lists that state it.

In: an operation, perhaps with inputs that have `shape_of`. Out: the same with required lists instead.
A list may be a vector of integers in every call, so callers pass by name what they would have passed by place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from ...language.model import Attribute, Op, Tensor
from ...language.schema import Problems
from ...language.source import Problem

RULE = "shape-input"
INTEGERS = "s32"
NONE = ("optional", "absent", "when", "parameter", "layout", "dims", "view", "arrangements", "joined", "packed",
        "broadcast", "broadcast_if", "broadcast_as", "may_lack")  # fmt: skip


def listed(op: Op, problems: Problems) -> Op:
    """The operation with lists in place of inputs that state a shape; records problems of such inputs."""
    stating = [tensor for tensor in op.inputs if tensor.shape_of is not None] if op.stepped else []
    found = [problem for tensor in stating for problem in _problems(op, tensor)]
    problems.extend(found)
    if found or not stating:
        return op
    names = {tensor.name for tensor in stating}
    return dataclasses.replace(
        op,
        inputs=tuple(tensor for tensor in op.inputs if tensor not in stating),
        attributes=(*op.attributes, *map(_list, stating)),
        dtypes=tuple({name: dtype for name, dtype in row.items() if name not in names} for row in op.dtypes),
    )


def _list(tensor: Tensor) -> Attribute:
    return Attribute(
        name=tensor.name,
        type="s64[]",
        required=True,
        length="any",
        shape_of=tensor.shape_of,
        summary=tensor.summary,
        source=tensor.source,
        at=tensor.at,
    )


def _problems(op: Op, tensor: Tensor) -> Iterator[Problem]:
    for key in NONE:
        if getattr(tensor, key):
            message = f"'{tensor.name}' is a vector of integers that every call gives; it has no `{key}`"
            yield Problem(tensor.at.key(key), RULE, message)
    for row in op.dtypes:
        if row.get(tensor.name, INTEGERS) != INTEGERS:
            message = f"the integers of '{tensor.name}', which states a shape, are {INTEGERS}"
            yield Problem(op.at.key("dtypes"), RULE, f"{message}, not {row[tensor.name]}")
