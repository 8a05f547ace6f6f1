"""Problems that rules of several modules share: duplicates, unknown words, incomplete entries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ..language.model import Aten, Onnx, Op, Relation
from ..language.schema import place
from ..language.source import Mark, Problem, unknown

KINDS = ("equals", "adjoint", "gradient", "gradient_of")  # of relations

Rule = Callable[[Op], Iterator[Problem]]


def repeated(items: Iterable[tuple[str, Mark]], rule: str, what: str) -> Iterator[Problem]:
    seen: dict[str, Mark] = {}
    for name, at in items:
        if name in seen:
            yield Problem(at, rule, f"the {what} '{name}' is a duplicate of the one at {seen[name]}")
        seen.setdefault(name, at)


def incomplete(item: object, keys: Iterable[str], at: Mark, rule: str, what: str) -> Iterator[Problem]:
    missing = [key for key in keys if getattr(item, key) in (None, "")]
    if missing:
        yield Problem(at, rule, f"this {what} lacks {', '.join(missing)}; give it here or in _common.yaml")


def stated(op: Op, entry: Aten | Onnx, rule: str) -> Iterator[Problem]:
    """What an entry gives inputs and attributes of the operation: names that there are, and none of them twice."""
    attributes = [attribute.name or "" for attribute in op.attributes]
    names = [*(tensor.parameter or tensor.name for tensor in op.inputs), *attributes]
    for name in entry.arguments:
        yield from unknown(name, names, place(name, entry.at), rule, "input or attribute")
    for name in entry.words:
        yield from unknown(name, attributes, place(name, entry.at), rule, "attribute")
        if name in entry.arguments:
            message = f"'{name}' has both a constant and an argument; keep one of them"
            yield Problem(place(name, entry.at), rule, message)


def kind_of_relation(relation: Relation) -> tuple[str, str]:
    """One of KINDS, and the operation that it names; ('', '') if there is not exactly one."""
    given = [(kind, getattr(relation, kind)) for kind in KINDS if getattr(relation, kind)]
    return given[0] if len(given) == 1 else ("", "")
