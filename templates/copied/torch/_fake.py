"""What a call would return, without data: the package's own rules, with sizes that may be symbols.

In: the arguments of an operator, its tensors perhaps fake. Out: empty tensors of the shapes, data types and strides
that the call would give; a Refusal where the call breaks a rule. What the rules ask of a symbol becomes a guard of
PyTorch; limits of 64 bits are asked of numbers alone, since the call itself asks again.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .. import _axes, _numbers, _rules
from .._errors import Refusal
from .._operation import Operation
from ._orders import in_memory
from ._schema import outputs_of
from ._tensors import described, dtype_of, flat

_numbers.SYMBOLS.append(torch.SymInt)


@dataclass(frozen=True)
class Sized:
    """The description of a tensor, of which extents may be symbols."""

    shape: tuple[Any, ...]
    dtype: Any


def _known(value: Any) -> bool:
    entries = value if isinstance(value, (tuple, list)) else (value,)
    return not any(isinstance(entry, torch.SymInt) for entry in entries)


def _of_numbers(rule: Callable[..., Any], *asked: int) -> Callable[..., Any]:
    """A rule that is not asked where one of these arguments has a symbol."""

    def judged(*given: Any) -> Any:
        return rule(*given) if all(_known(given[at]) for at in asked) else given[-1]

    return judged


def _extreme(pair: Callable[[Any, Any], Any], *given: Any, default: Any = None) -> Any:
    values: Iterable[Any] = given[0] if len(given) == 1 else given
    entries = list(values)
    return functools.reduce(pair, entries) if entries else default


def _stated(output: str, length: int, tensors: dict[str, Any], lists: dict[str, Any]) -> Any:
    """Operators take lists where functions take vectors that state a shape."""
    return _rules.stated_shape(output, length, {}, {k: v for k, v in {**tensors, **lists}.items() if v is not None})


_RULES = types.SimpleNamespace(**vars(_rules))
_RULES.int64 = _of_numbers(_rules.int64, 1)
_RULES.bounded = _of_numbers(_rules.bounded, 1)
_RULES.output_bytes = _of_numbers(_rules.output_bytes, 0)
_RULES.stated_shape = _stated
_AXES = types.SimpleNamespace(**vars(_axes))
_AXES.counted = _of_numbers(_axes.counted, 0)
_SYMBOLIC = {
    "rules": _RULES,
    "_axes": _AXES,
    "max": functools.partial(_extreme, torch.sym_max),
    "min": functools.partial(_extreme, torch.sym_min),
}


@functools.cache
def symbolic(resolve: types.FunctionType) -> Callable[..., Any]:
    """The rules of an operation for symbols: the same code, with PyTorch's `max` and `min`."""
    return types.FunctionType(resolve.__code__, {**resolve.__globals__, **_SYMBOLIC}, resolve.__name__)


def shapes(operation: Operation, inputs: Sequence[Any], attributes: Sequence[Any]) -> list[tuple[Any, str] | None]:
    """The shape and data type of each output; None for one that the call does not have."""
    resolve: Any = operation.resolve
    found = symbolic(resolve)(*map(_sized, operation.inputs, inputs), *attributes)
    row = operation.rows[found.row][1]
    if not hasattr(operation, "outputs"):
        return [(found.shape, row[operation.output])]
    return [None if name in found.absent else (found.outputs[name].shape, row[name]) for name in outputs_of(operation)]


def _sized(info: Any, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return Sized(tuple(value.shape), described(info.parameter, value))
    if value is None or info.states_shape:
        return value
    return tuple([_sized(info, part) for part in value])


def absent(device: torch.device) -> torch.Tensor:
    """What stands for an output that a call does not have."""
    return torch.empty(0, dtype=torch.float32, device=device)


def result(operation: Operation, inputs: list[Any], attributes: list[Any]) -> Any:
    """The outputs of a call, with nothing in them."""
    tensors = flat(inputs)
    devices = {str(tensor.device) for tensor in tensors}
    if len(devices) > 1:
        raise Refusal("device", operation.inputs[0].parameter, " and ".join(sorted(devices)), "tensors of one device")
    call = in_memory(operation, inputs, attributes)
    found = []
    for name, stated in zip(outputs_of(operation), shapes(operation, call.inputs, call.attributes)):
        if stated is None:
            found.append(absent(tensors[0].device))
            continue
        shape, dtype = stated
        like = pattern(operation, call.inputs, shape)
        kind = dtype_of(name, dtype)
        if like is None:
            made = torch.empty(shape, dtype=kind, device=tensors[0].device)
        else:
            made = torch.empty_like(like, dtype=kind, requires_grad=False)
        found.append(made.permute(call.back[name]) if name in call.back else made)
    return found[0] if len(found) == 1 else tuple(found)


def pattern(operation: Any, inputs: Sequence[Any], shape: Sequence[Any]) -> torch.Tensor | None:
    """The input whose strides the output has: the first of its axes and shape whose memory is not in their order."""
    if len(outputs_of(operation)) > 1 or not hasattr(operation, "outputs"):
        return None
    for info, value in zip(operation.inputs, inputs):
        if isinstance(value, torch.Tensor) and not value.is_contiguous() and tuple(value.shape) == tuple(shape):
            axes = {one.name: one.axes for one in operation.arrays_}
            if axes[info.name] == axes[outputs_of(operation)[0]]:  # a square matrix may be as large by chance
                return value
    return None
