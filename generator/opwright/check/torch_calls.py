"""Rules about `torch:` entries: every entry names inputs and attributes of its operation, all required ones included.

In: an operation. Out: problems. PyTorch need not be installed, so the existence of its operators is not checked here.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..language.model import Aten, Op
from ..language.schema import place
from ..language.source import Problem, unknown
from .rules import repeated


def torch_calls(op: Op) -> Iterator[Problem]:
    entries = [(_known_by(entry), entry.at) for entry in op.torch]
    yield from repeated(entries, "torch-duplicate", "operator of PyTorch")
    attributes = {attribute.name or "": attribute for attribute in op.attributes}
    needed = {tensor.parameter or tensor.name: "input" for tensor in op.data_inputs if not tensor.optional}
    needed |= {name: "attribute" for name, attribute in attributes.items() if attribute.required}
    for entry in op.torch:
        names = [*(tensor.parameter or tensor.name for tensor in op.inputs), *attributes]
        for name in entry.arguments:
            yield from unknown(name, names, place(name, entry.at), "torch-argument", "input or attribute")
        for name, kind in needed.items():
            if name not in entry.arguments and (kind == "input" or name not in entry.words):
                message = f"no argument of PyTorch stands for the required {kind} '{name}'"
                yield Problem(entry.at, "torch-required", message)
        for name in entry.words:
            yield from unknown(name, attributes, place(name, entry.at), "torch-argument", "attribute")
            if name in entry.arguments:
                yield Problem(
                    place(name, entry.at),
                    "torch-argument",
                    f"'{name}' has both a constant and an argument; keep one of them",
                )


def _known_by(entry: Aten) -> str:
    """The operator and the condition, which identify an entry."""
    conditions = ", ".join(f"{name} is {value}" for name, value in sorted(entry.when.items()))
    return f"{entry.aten} where {conditions}" if conditions else entry.aten
