"""Rules across operations: distinct names, equal attributes of the same name, relations that fit both sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..derive.variants import layout_choices, row_name, stem
from ..language.model import Attribute, Op
from ..language.schema import place
from ..language.source import Problem, unknown
from .rules import kind_of_relation, repeated

# Keys that attributes of the same name share in all operations, unless one gives a reason.
SHARED_KEYS = ("symbol", "type", "required", "default", "min", "max", "length", "surplus", "neutral", "values")


def distinct_operations(ops: Sequence[Op]) -> Iterator[Problem]:
    yield from repeated([(op.function, place(op.op, op.at)) for op in ops], "op-name", "function")
    files = [(f"{op.function}_{row_name(op, row)}.c", place(op.op, op.at)) for op in ops for row in op.dtypes]
    yield from repeated(dict.fromkeys(files), "kernel-name", "file")
    names = (
        (stem(op, row_name(op, row), tuple(layouts.values()), group), place(op.op, op.at))
        for op in {op.function: op for op in ops}.values()
        for row in op.dtypes
        for layouts in layout_choices(op)
        for group in op.classes or (None,)
    )
    yield from repeated(names, "kernel-name", "name of a kernel")


def same_attributes(ops: Sequence[Op]) -> Iterator[Problem]:
    first: dict[str, Attribute] = {}
    # Pages of operations of steps use one name for different things; only entries of _common.yaml must agree.
    declared = (attribute for op in ops for attribute in op.attributes if attribute.use or not op.stepped)
    for attribute in (attribute for attribute in declared if not attribute.reason):
        other = first.setdefault(attribute.name or "", attribute)
        for key in SHARED_KEYS:
            if getattr(attribute, key) != getattr(other, key):
                message = f"'{key}' of '{attribute.name}' differs from {other.at}; make them equal or give a `reason`"
                yield Problem(attribute.at, "attribute-differs", message)


def related(ops: Sequence[Op]) -> Iterator[Problem]:
    by_name = {op.op: op for op in ops}
    for op in ops:
        for relation in op.relations:
            kind, name = kind_of_relation(relation)
            if name not in by_name:
                yield from unknown(name, by_name, place(name, relation.at), "relation-operation", "operation")
                continue
            other = by_name[name]
            if kind == "gradient_of":
                continue
            tensors = [tensor.name for tensor in (*other.inputs, *other.outputs)]
            for theirs in relation.with_:
                yield from unknown(theirs, tensors, place(theirs, relation.at), "relation-tensor", f"tensor of {name}")
            missing = [t.name for t in other.tensors if not t.optional and t.name not in relation.with_]
            if missing:
                yield Problem(relation.at, "relation-with", f"`with` does not map {', '.join(missing)} of {name}")
            words = [v.value for attribute in other.layout_attributes for v in other.attribute(attribute).values or ()]
            for word in relation.formats.values():
                yield from unknown(word, words, place(word, relation.at), "relation-format", f"layout word of {name}")
            if kind == "equals" and op.op not in [back.equals for back in other.relations]:
                yield Problem(
                    relation.at,
                    "relation-mutual",
                    f"{op.op} equals {name}, but {name} does not state that it equals {op.op}",
                )
