"""What PyTorch calls an operation and its arguments: its schema, printed from the signature of its function.

In: an operation and its public function. Out: text that `torch.library` takes. Inputs stand by position and attributes
by keyword, under the names and with the defaults that the function has; there is no `out`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .._operation import Operation

# By the annotation of an attribute. Symbolic integers let sizes stay unknown while a graph is traced.
_TYPES = {"int": "SymInt", "Integers": "SymInt[]", "str": "str", "float": "float", "bool": "bool", "Any": "float[]"}


def namespace(package: str) -> str:
    """The namespace of a package's operators: its import name without the ending `_kernels`, dots as underscores."""
    return package.removesuffix("_kernels").replace(".", "_")


def outputs_of(operation: Operation) -> tuple[str, ...]:
    """The names of all outputs, those included that only some calls have."""
    return getattr(operation, "outputs", None) or (operation.output,)


def schema(operation: Operation, function: Callable[..., Any]) -> str:
    """The schema of an operator: its name, arguments and results."""
    parameters = inspect.signature(function).parameters
    inputs = []
    for info in operation.inputs:
        kind = "Tensor[]" if info.name in getattr(operation, "joined", ()) else "Tensor"
        if info.states_shape:  # what it holds decides shapes, which must be known without looking into memory
            kind = "SymInt[]"
        inputs.append(f"{kind}? {info.parameter}=None" if info.optional else f"{kind} {info.parameter}")
    attributes = []
    for name in operation.attributes:
        kind, *optional = str(parameters[name].annotation).split(" | ")
        default = (
            "" if parameters[name].default is inspect.Parameter.empty else f"={_spelled(parameters[name].default)}"
        )
        attributes.append(f"{_TYPES[kind]}{'?' if optional else ''} {name}{default}")
    taken = ", ".join([*inputs, *(["*", *attributes] if attributes else [])])
    names = outputs_of(operation)
    given = "Tensor" if len(names) == 1 else f"({', '.join(f'Tensor {name}' for name in names)})"
    return f"{operation.function}({taken}) -> {given}"


def _spelled(default: object) -> str:
    if isinstance(default, str):
        return f'"{default}"'
    return str(list(default)) if isinstance(default, tuple) else repr(default)
