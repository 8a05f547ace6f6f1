"""The gradient of an operation as a spec: derived, written as YAML, and checked like a hand-written spec.

In: an operation of steps. Out: the text of the spec, and its operation. Raises Underivable, with the reason. Nothing is
written here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from .derive.gradient.choose import gradient
from .derive.gradient.signature import derived
from .derive.gradient.statements import Underivable, diff
from .derive.gradient.text import text
from .emit import lowerable
from .language.library import Library
from .language.model import Op, Relation
from .language.source import Problem, SpecInvalid
from .load import load_texts
from .oracle.slopes import Tie, disagreement, tied

COMMAND = "opwright gradient"


def gradient_text(op: Op, of: Sequence[str] = ()) -> tuple[str, Op]:
    """The spec of the gradient of an operation, with respect to some inputs or all."""
    made = gradient(op, tuple(of))
    asked = "".join(f" --of {name}" for name in of)
    head = f"Derived from the semantics of {op.op} by: {COMMAND} {op.op}{asked} --write"
    if made.without:
        head += f"\nThe gradient with respect to {', '.join(made.without)} is 0 everywhere."
    found = derived(op, made)
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
    for origin, relation in _origins(op, library):
        of = tuple(tensor.name.removeprefix("diff_") for tensor in op.outputs)
        fix = f"write it again: {COMMAND} {origin.op}{''.join(f' --of {name}' for name in of)} --write"
        try:
            wanted = derived(origin, gradient(origin, of))
        except Underivable as reason:
            yield Problem(relation.at, "gradient-derived", f"{origin.op} has no derived gradient: {reason}")
            continue
        rows = tuple(row for row in wanted.dtypes if row in op.dtypes)  # a person may leave rows out
        if text(_meaning(op)) != text(dataclasses.replace(_meaning(wanted), dtypes=rows)):
            yield Problem(relation.at, "gradient-derived", f"this does not follow from {origin.op}; {fix}")


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
        for origin, _ in _origins(op, library):
            yield origin, op, tied(origin, op)
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


__all__ = ["Underivable", "astray", "claims", "diff", "gradient_text", "why_none", "wrong"]
