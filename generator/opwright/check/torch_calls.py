"""Rules about `torch:` entries: every entry names inputs and attributes of its operation, all required ones included.

In: an operation. Out: problems. PyTorch need not be installed, so the existence of its operators is not checked here.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..language.model import Aten, Op
from ..language.source import Problem
from .rules import repeated, stated


def torch_calls(op: Op) -> Iterator[Problem]:
    entries = [(_known_by(entry), entry.at) for entry in op.torch]
    yield from repeated(entries, "torch-duplicate", "operator of PyTorch")
    needed = {tensor.parameter or tensor.name: "input" for tensor in op.data_inputs if not tensor.optional}
    needed |= {attribute.name or "": "attribute" for attribute in op.attributes if attribute.required}
    for entry in op.torch:
        yield from stated(op, entry, "torch-argument")
        for name, kind in needed.items():
            if name not in entry.arguments and (kind == "input" or name not in entry.words):
                message = f"no argument of PyTorch stands for the required {kind} '{name}'"
                yield Problem(entry.at, "torch-required", message)


def _known_by(entry: Aten) -> str:
    """The operator and the condition, which identify an entry."""
    conditions = ", ".join(f"{name} is {value}" for name, value in sorted(entry.when.items()))
    return f"{entry.aten} where {conditions}" if conditions else entry.aten
