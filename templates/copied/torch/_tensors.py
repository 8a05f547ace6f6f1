"""Tensors of PyTorch as arrays over the same memory, and arrays as tensors; data types as both sides call them.

In: tensors of the CPU, or arrays. Out: the other, nothing copied; a `Refusal` for what cannot be taken so.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
import torch.utils.dlpack

from .._arrays import Array
from .._dlpack import Handed
from .._dtypes import BITS, DTYPES
from .._errors import Refusal
from .._operation import Operation
from .._rules import dtype_name

# By NumPy's name of a data type, PyTorch's own; four bits have none with memory of its own.
TORCH: dict[str, torch.dtype] = {
    name: found
    for name in DTYPES
    if isinstance(found := getattr(torch, name.rstrip("_"), None), torch.dtype) and not name.endswith("int4")
}
NUMPY: dict[torch.dtype, np.dtype[Any]] = {found: DTYPES[name] for name, found in TORCH.items()}
# Of the types that PyTorch does not hand to NumPy: whole numbers of as many bits, as PyTorch and as NumPy call them.
_WHOLE = {1: (torch.uint8, np.dtype(np.uint8)), 2: (torch.int16, np.dtype(np.int16))}
_VIEWED = {kind: (_WHOLE[dtype.itemsize][0], dtype) for kind, dtype in NUMPY.items() if dtype in BITS}
_CAST = (torch.float32, torch.bfloat16, torch.float16)  # what is made other types of
_HANDED = {dtype: (_WHOLE[dtype.itemsize][1], kind) for kind, dtype in NUMPY.items() if dtype in BITS}


_DLPACK: Any = torch.utils.dlpack  # its stub exports nothing
_VIEW: Callable[[torch.Tensor], Array] = torch.Tensor.numpy


def _read(tensor: torch.Tensor) -> Array:
    """The memory of a parameter, or of a view that may be of one.

    `Tensor.numpy` forbids its storage ever to be resized, and FSDP frees parameters by a resize.
    """
    if tensor.is_neg() or tensor.is_conj() or tensor.device.type != "cpu":
        raise TypeError(tensor.device)
    return np.from_dlpack(Handed(_DLPACK.to_dlpack(tensor)))


def _written(tensor: torch.Tensor) -> Array:
    """Memory to write into for the time of a call.

    `Tensor.numpy` would forbid it ever to be resized, and PyTorch changes the shape of a tensor before it says that its
    memory cannot be resized: a refused call would leave a tensor that is larger than its memory.
    """
    dtype = NUMPY.get(tensor.dtype)
    if dtype is None or tensor.is_neg() or tensor.is_conj() or tensor.device.type != "cpu":
        raise TypeError(tensor.dtype)
    room: Any = (ctypes.c_char * _reach(tensor)).from_address(tensor.data_ptr())
    strides = [stride * tensor.element_size() for stride in tensor.stride()]
    return np.ndarray(tuple(tensor.shape), dtype, room, strides=strides)


def _reach(tensor: torch.Tensor) -> int:
    """The bytes from a tensor's first cell to the end of its last one."""
    if not tensor.numel():
        return 0
    last = sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride()))
    return (last + 1) * tensor.element_size()


def array(name: str, tensor: torch.Tensor, written: bool = False) -> Array:
    """The memory of a tensor as an array of the same strides; read-only perhaps where it is not to be written."""
    try:
        if is_freed(tensor):  # PyTorch lets it be read all the same
            raise freed(name)
        if written:
            return _written(tensor)
        viewed = _VIEWED.get(tensor.dtype)
        taken = _VIEW
        if tensor.requires_grad or tensor._is_view():
            tensor, taken = tensor.detach(), _read
        if viewed is None:
            return taken(tensor)
        return taken(tensor.view(viewed[0])).view(viewed[1])
    except (TypeError, RuntimeError) as error:
        if tensor.is_neg() or tensor.is_conj():
            return array(name, tensor.resolve_neg().resolve_conj(), written)
        got = f"a tensor of {tensor.dtype}, {tensor.layout}, on {tensor.device}"
        raise Refusal(f"{name}-kind", name, got, "a dense tensor of the CPU", wrong_kind=True) from error
    except ValueError as error:
        got = f"a tensor of {tensor.dim()} axes and {tensor.numel()} cells"
        raise Refusal(f"{name}-kind", name, got, "at most 64 axes and 2**63 - 1 bytes") from error


def is_freed(tensor: torch.Tensor) -> bool:
    """Whether the memory of a tensor ends before its last element, as it does after a resize of its storage."""
    if not tensor.numel():
        return False
    end = tensor.storage_offset() * tensor.element_size() + _reach(tensor)
    return tensor.untyped_storage().nbytes() < end


def freed(name: str) -> Refusal:
    return Refusal(f"{name}-memory", name, "a tensor whose memory is freed", "a tensor that has its memory")


def empty_like(like: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Memory for an output in the order of an input's."""
    try:
        return torch.empty_like(like, dtype=dtype, requires_grad=False)
    except RuntimeError as error:
        got = f"an output of shape {tuple(like.shape)}, {dtype}: {str(error).splitlines()[0]}"
        raise Refusal("memory", "out", got, "an output that fits into memory") from None


def tensor(found: Array) -> torch.Tensor:
    """The memory of an array as a tensor."""
    handed = _HANDED.get(found.dtype)
    if handed is None:
        return torch.from_numpy(found)
    return torch.from_numpy(found.view(handed[0])).view(handed[1])


def dtype_of(name: str, dtype: np.dtype[Any] | str) -> torch.dtype:
    """PyTorch's data type of an output."""
    own = DTYPES[dtype] if isinstance(dtype, str) else dtype
    for found, known in NUMPY.items():
        if known == own:
            return found
    raise Refusal("torch-dtype", name, own.name, "a data type that tensors of PyTorch can have")


def described(name: str, given: torch.Tensor) -> np.dtype[Any]:
    """What NumPy calls the data type of a tensor."""
    if given.layout is not torch.strided:
        raise Refusal(f"{name}-kind", name, f"a tensor of {given.layout}", "a dense tensor", wrong_kind=True)
    found = NUMPY.get(given.dtype)
    if found is None:
        try:
            found = np.dtype(str(given.dtype).removeprefix("torch."))
        except TypeError:
            raise Refusal("dtypes", name, str(given.dtype), "a data type of numbers") from None
    return found


def flat(values: Sequence[Any]) -> list[torch.Tensor]:
    """All tensors among the inputs of a call."""
    parts = [part for value in values for part in (value if isinstance(value, (list, tuple)) else (value,))]
    return [part for part in parts if isinstance(part, torch.Tensor)]


def has_row(operation: Operation, inputs: Sequence[Any]) -> bool:
    """Whether an operation has a row of the data types that its inputs have."""
    dtypes = {
        (info.name, dtype_name(NUMPY.get(part.dtype)))
        for info, one in zip(operation.inputs, inputs)
        for part in flat([one])
    }
    return any(dtypes <= row.items() for _, row in operation.rows)


def cast(value: Any, dtype: torch.dtype | None) -> Any:
    """A tensor of f32, bf16 or f16, or a list of such, in another of these types; all else, and for None, as it is."""
    if isinstance(value, (list, tuple)):
        return [cast(part, dtype) for part in value]
    if dtype is None or not isinstance(value, torch.Tensor) or value.dtype not in _CAST:
        return value
    return value.to(dtype)
