"""The operators on DTensors: shards stay where the table of splits says that parts give the whole.

`register()` tells PyTorch how each operator runs on DTensors, its gradients too: on shards as they are, with attributes
of a part's own where it has some (groups, stated shapes, the padding of a cut), and with the halo alone moved from
neighbour to neighbour. `call(function, ...)` also refuses where shards would be put together. docs/TORCH.md and
docs/SCALING.md of Opwright say what splits how.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Replicate

from .. import _interface
from .._errors import Refusal
from . import _LIBRARY, NAMESPACE, _operator
from ._call import completed
from ._sharded import Sharded, on

__all__ = ["call", "register"]

_PACKAGE: Any = importlib.import_module(__name__.rpartition(".")[0].rpartition(".")[0])


@functools.cache
def register() -> None:
    """Tell PyTorch how the operators of this package run on DTensors."""
    for operation in {**_PACKAGE._GRADIENTS, **_PACKAGE._OPERATIONS}.values():
        name = f"{NAMESPACE}::{operation.function}"
        torch.library.register_torch_dispatch(name, DTensor, _rule(operation), lib=_LIBRARY)


def _rule(operation: Any) -> Any:
    complete, operator = completed(operation), _operator(operation.function)

    def rule(cls: Any, function: Any, types: Any, given: Any, attributes: Any) -> Any:
        try:
            return Sharded(operation, *complete(given, attributes)).outputs(operator)
        except Refusal as refusal:
            raise operation.refused(refusal) from None

    return rule


def call(function: str, *inputs: Any, **attributes: Any) -> Any:
    """The outputs of an operation on DTensors that share a mesh, as DTensors.

    Each dimension of the mesh divides the letter along which the first sharded input lies. SpecError where the
    operation may not be split so. A tensor is taken as one that every process has. Gradients have the placements
    of their inputs.
    """
    register()
    operation = _PACKAGE._OPERATIONS[function]
    given, values = _interface.bound(operation, inputs, attributes)
    try:
        sharded = Sharded(operation, given, values)
        sharded.check()
    except Refusal as refusal:
        raise operation.refused(refusal) from None
    placed = [_placed(value, sharded.mesh) for value in given]
    own = {name: value for name, value in zip(operation.attributes, values) if value is not None}
    return _operator(function)(*placed, **own)


def _placed(value: Any, mesh: Any) -> Any:
    """An input as a DTensor, whose gradient gets its placements."""
    if isinstance(value, (list, tuple)):
        return [_placed(part, mesh) for part in value]
    if isinstance(value, DTensor) and value.requires_grad and torch.is_grad_enabled():
        return _Placed.apply(value)  # type: ignore[no-untyped-call]
    return on(mesh, value)


class _Placed(torch.autograd.Function):
    """A DTensor whose gradient lies as it does; that of a sum's shares is the whole sum's."""

    @staticmethod
    def forward(ctx: Any, tensor: Any) -> Any:
        ctx.placements = [Replicate() if own.is_partial() else own for own in tensor.placements]
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient.redistribute(placements=ctx.placements)
