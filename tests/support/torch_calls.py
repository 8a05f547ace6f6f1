"""Calls of any operation with tensors of PyTorch, drawn as calls with arrays are; nothing here knows an operation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from opwright.language.model import Op

from . import spec_calls, step_calls
from .step_verdicts import outputs


def legal(op: Op, rng: np.random.Generator, count: int) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Inputs, as arrays of any strides, and attributes of legal calls, in the first row of data types."""
    caller = step_calls.StepCaller(op, rng, 1) if op.stepped else spec_calls.Caller(op, rng)
    for call in caller.legal(count):
        yield call.inputs, call.attributes


def tensor(array: Any) -> Any:
    """A tensor of an array's cells, and of its strides where PyTorch has such."""
    if isinstance(array, (list, tuple)):
        return [tensor(part) for part in array]
    if array is None:
        return None
    if not array.flags.writeable or min(array.strides, default=0) < 0:
        array = array.copy()
    if array.dtype.name not in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        return torch.from_numpy(array)
    bits = {1: np.uint8, 2: np.int16}[array.dtype.itemsize]
    return torch.from_numpy(array.view(bits)).view(getattr(torch, array.dtype.name))


def given(op: Op, inputs: tuple[Any, ...]) -> list[Any]:
    """The inputs of an operator: tensors, and lists where vectors state a shape."""
    return [
        array.tolist() if described.shape_of and array is not None else tensor(array)
        for described, array in zip(op.inputs, inputs, strict=True)
    ]


def moved(value: Any) -> Any:
    """A tensor of the same cells and strides in other memory; of a list, all of its tensors."""
    if isinstance(value, list):
        return [moved(part) for part in value]
    if not torch.is_tensor(value):
        return value
    storage = value.untyped_storage().clone()
    return torch.empty(0, dtype=value.dtype).set_(storage, value.storage_offset(), value.shape, value.stride())


def bits(value: Any) -> bytes:
    """The cells of a tensor, one after the other."""
    dense = value.detach().clone(
        memory_format=torch.contiguous_format
    )  # strides of its own, also where there is one cell
    return b"" if not dense.numel() else dense.view(torch.uint8).numpy().tobytes() if dense.dim() else bits(dense[None])


def numbers(found: Any) -> list[np.ndarray]:
    """The outputs of an operator as arrays of f64."""
    return [one.detach().double().numpy() for one in outputs(found)]
