"""The gradient of an operation as a spec: derived, written as YAML, and checked like a hand-written spec.

In: an operation of steps. Out: the text of the spec, and its operation. Raises Underivable, with the reason. Nothing is
written here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .derive.gradient.choose import gradient
from .derive.gradient.signature import derived
from .derive.gradient.statements import Underivable, origin
from .derive.gradient.text import text
from .emit import lowerable
from .language.library import Library
from .language.model import Op, Relation
from .language.source import Problem, SpecInvalid
from .load import load_texts
from .oracle.slopes import Tie, disagreement, tied

COMMAND = "opwright gradient"


def gradient_text(op: Op, of: Sequence[str] = (), there: Op | None = None) -> tuple[str, Op]:
    """The spec of the gradient of an operation, with respect to some inputs or all.

    What a person edited in the spec that is `there` is kept: rows of data types that were left out, and prose.
    """
    made = gradient(op, tuple(of))
    asked = "".join(f" --of {name}" for name in of)
    head = f"Derived from the semantics of {op.op} by: {COMMAND} {op.op}{asked} --write"
    if made.without:
        head += f"\nThe gradient with respect to {', '.join(made.without)} is 0 everywhere."
    found = derived(op, made)
    found = found if there is None else _edited(found, there)
    # the derived operation obeys the rules without the other one
    alone = text(dataclasses.replace(found, relations=()))
    try:
        (loaded,) = load_texts({f"{found.function}.yaml": alone}).ops
        problems = list(lowerable.problems(loaded))
    except SpecInvalid as invalid:
        problems = list(invalid.problems)
    if problems:
        raise Underivable(f"the derived spec is invalid: {problems[0].rule}: {problems[0].message}")
    return text(found, head), loaded


def _edited(made: Op, there: Op) -> Op:
    """A derived gradient with the edits of one that was there, where both have the same parts."""

    def like(part: Any, known: Mapping[str, Any], name: str, *keys: str) -> Any:
        return dataclasses.replace(part, **{key: getattr(known[name], key) for key in keys}) if name in known else part

    tensors = {tensor.name: tensor for tensor in there.tensors}
    inputs, outputs = (
        tuple(like(tensor, tensors, tensor.name, "summary", "source") for tensor in own)
        for own in (made.inputs, made.outputs)
    )
    attributes = {attribute.name or "": attribute for attribute in there.attributes}
    both = [tensor.name for tensor in made.tensors if tensor.name in tensors]
    known = [[row[name] for name in both] for row in there.dtypes]
    remaining = tuple(row for row in made.dtypes if [row[name] for name in both] in known)
    alike = [tensor.name for tensor in made.outputs] == [tensor.name for tensor in there.outputs]
    return dataclasses.replace(
        made,
        revision=there.revision,
        summary=there.summary if alike else made.summary,
        dims={role: like(dim, there.dims, role, "summary", "typical") for role, dim in made.dims.items()},
        attributes=tuple(like(a, attributes, a.name or "", "summary", "source", "reason") for a in made.attributes),
        inputs=inputs,
        outputs=outputs,
        dtypes=remaining or made.dtypes,
    )


def left_out(op: Op, of: Sequence[str], found: Op) -> list[str]:
    """The rows of the gradient of an operation that a spec of it lacks, by the types of their tensors."""
    rows = [row for row in derived(op, gradient(op, tuple(of))).dtypes if row not in found.dtypes]
    return [", ".join(f"{name} {dtype}" for name, dtype in row.items()) for row in rows]


def why_none(op: Op) -> str:
    """Why an operation has no derived gradient; '' if it has one."""
    try:
        gradient_text(op)
    except Underivable as reason:
        return str(reason)
    return ""


# Claims of specs.


def astray(op: Op, library: Library) -> Iterator[Problem]:
    """Problems of a derived gradient that no longer follows from its operation."""
    for forward, relation in _origins(op, library):
        of = tuple(origin(tensor.name) for tensor in op.outputs)
        fix = f"write it again: {COMMAND} {forward.op}{''.join(f' --of {name}' for name in of)} --write"
        try:
            wanted = derived(forward, gradient(forward, of))
        except Underivable as reason:
            yield Problem(relation.at, "gradient-derived", f"{forward.op} has no derived gradient: {reason}")
            continue
        rows = tuple(row for row in wanted.dtypes if row in op.dtypes)  # a person may leave rows out
        if text(_meaning(op)) != text(dataclasses.replace(_meaning(wanted), dtypes=rows)):
            yield Problem(relation.at, "gradient-derived", f"this does not follow from {forward.op}; {fix}")


def _meaning(op: Op) -> Op:
    """An operation without the parts that a person may edit."""
    dims = {role: dataclasses.replace(dim, summary=None, typical=None) for role, dim in op.dims.items()}
    attributes = tuple(dataclasses.replace(a, use=None, summary=None, source=None, reason=None) for a in op.attributes)
    inputs, outputs = (
        tuple(dataclasses.replace(tensor, summary=None, source=None) for tensor in tensors)
        for tensors in (op.inputs, op.outputs)
    )
    meaning = dataclasses.replace(op, dims=dims, attributes=attributes, inputs=inputs, outputs=outputs)
    layouts = {name: table for name, table in op.layouts.items() if name in op.layout_attributes}
    return dataclasses.replace(
        meaning, revision=1, summary="", description=None, source=(), layouts=layouts, relations=(), discrepancies=()
    )


def _origins(op: Op, library: Library) -> Iterator[tuple[Op, Relation]]:
    for relation in op.relations:
        if relation.gradient_of:
            yield library.op(relation.gradient_of), relation


def claims(library: Library) -> Iterator[tuple[Op, Op, Tie]]:
    """Operations of steps, each with a claimed gradient and the correspondence of tensors."""
    for op in library.ops:
        for forward, _ in _origins(op, library):
            yield forward, op, tied(forward, op)
        for relation in op.relations:
            other = library.op(relation.gradient) if relation.gradient else None
            if other is not None and op.stepped and other.stepped:
                outputs = {tensor.name for tensor in op.outputs}
                inputs = {tensor.name for tensor in other.inputs}
                given = {t: o for t, o in relation.with_.items() if o in outputs and t in inputs}
                seeds = {t: o for t, o in given.items() if t.startswith("diff_")}
                seeds = seeds or {t: o for t, o in given.items() if t != o}
                values = {t: o for t, o in relation.with_.items() if t in inputs and t not in seeds}
                results = {t: o for t, o in relation.with_.items() if t not in inputs and o == relation.of}
                yield op, other, Tie(values, seeds, results)


def wrong(library: Library) -> list[str]:
    """Claims of specs that finite differences disprove."""
    found = (disagreement(forward, backward, tie) for forward, backward, tie in claims(library))
    return [difference for difference in found if difference is not None]


__all__ = ["Underivable", "astray", "claims", "gradient_text", "why_none", "wrong"]
