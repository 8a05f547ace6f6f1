"""The operations of this package as operators of PyTorch: `torch.ops.<namespace>.<function>`.

Importing this module registers them: schemas, kernels for the CPU, shapes for tracing, and gradients. The namespace is
the package's import name without the ending `_kernels`. docs/TORCH.md of Opwright says how to use them.
"""

from __future__ import annotations

import importlib
from typing import Any

from .. import _team
from .._errors import missing

try:
    import torch
except ModuleNotFoundError as error:
    raise missing(__name__, error, "torch>=2.13") from None

from ._call import autocast, below, elsewhere, faked, on_cpu, shortened
from ._enabled import Models, Report
from ._glue import GLUE
from ._gradients import Autograd, gradients
from ._notes import recorded
from ._schema import namespace, schema

__all__ = ["NAMESPACE", "Report", "enabled", "operators", "report"]

_PACKAGE: Any = importlib.import_module(__name__.rpartition(".")[0])
NAMESPACE = namespace(_PACKAGE.__name__)


def _library() -> Any:
    kind: Any = torch.library.Library
    try:
        return kind(NAMESPACE, "DEF")
    except RuntimeError as error:
        raise ImportError(
            f"{__name__} cannot register its operators: the namespace torch.ops.{NAMESPACE} has an owner already; "
            "give the package a name of its own, from which its namespace follows"
        ) from error


def _operator(function: str) -> Any:
    return getattr(getattr(torch.ops, NAMESPACE), function).default


def _register() -> None:
    functions = {name: known for known in (_PACKAGE._OPERATIONS, _PACKAGE._GRADIENTS) for name in known}
    operations = [known[name] for name, known in functions.items()]
    known = gradients(operations)
    for operation in operations:
        function, name = operation.function, f"{NAMESPACE}::{operation.function}"
        kernel = on_cpu(operation)
        _LIBRARY.define(schema(operation, functions[function].function(function)))
        _LIBRARY.impl(function, kernel, "CPU")
        for key in ("CompositeExplicitAutograd", "NestedTensorCPU", "AutogradNestedTensor"):
            _LIBRARY.impl(function, elsewhere(operation), key)
        _LIBRARY.impl(function, autocast(operation, _operator(function)), "AutocastCPU")
        torch.library.register_fake(name, faked(operation), lib=_LIBRARY)
        asked = Autograd(operation, known[function], _operator)
        torch.library.register_autograd(name, asked.backward, setup_context=asked.setup, lib=_LIBRARY)
        general = torch.library.get_kernel(name, "AutogradCPU")
        GLUE.pending.append((NAMESPACE, function))
        _LIBRARY.impl(
            function,
            shortened(operation, kernel, recorded(asked, below(kernel, _operator(function)), NAMESPACE), general),
            "AutogradCPU",
            with_keyset=True,
        )


def operators() -> tuple[Any, ...]:
    """All operators of this package."""
    return tuple(map(_operator, _PACKAGE.operations()))


_LIBRARY = _library()
_register()
_team.borrow()
_MODELS = Models(list(_PACKAGE._OPERATIONS.values()))
enabled, report = _MODELS.enabled, _MODELS.report
