"""Reads DLPack capsules, those that NumPy refuses included: bfloat16 above all.

In: an object with `__dlpack__`. Out: a NumPy array over the same memory, which keeps the producer's tensor alive and
calls its deleter once, when it dies itself. BufferError where the capsule cannot be read; it then stays the producer's.
NumPy's own reader takes a tensor without memory for a request to allocate some, and so gives it random values.
The structures are those of dlpack.h (https://dmlc.github.io/dlpack/latest/c_api.html), versions 0 and 1.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from contextlib import suppress
from typing import Any

import ml_dtypes
import numpy as np

# DLTensor: data, device type, device id, rank, dtype code, bits, lanes, shape, strides, byte offset
_TENSOR = "PiiiBBHPPQ"
_MANAGED = struct.Struct(f"@{_TENSOR}PP")  # tensor, context, deleter
_VERSIONED = struct.Struct(f"@IIPPQ{_TENSOR}")  # major, minor, context, deleter, flags, tensor
_READ_ONLY_OR_COPY = 0b11  # flag bits 0 and 1: writing is forbidden, or would not reach the producer's array
_MAX_AXES = 64  # of a NumPy array
_VECTORS = [struct.Struct(f"@{axes}q") for axes in range(_MAX_AXES + 1)]
_FIRST_PAGE = 4096  # addresses below it belong to no process
_HOST_DEVICES = (1, 3, 11, 13)  # CPU, CUDA host, ROCm host, CUDA managed
DTYPES = {
    (code, np.dtype(kind).itemsize * 8): np.dtype(kind)
    for code, kinds in {
        0: (np.int8, np.int16, np.int32, np.int64),
        1: (np.uint8, np.uint16, np.uint32, np.uint64),
        2: (np.float16, np.float32, np.float64),
        4: (ml_dtypes.bfloat16,),
        5: (np.complex64, np.complex128),
        6: (np.bool_,),
    }.items()
    for kind in kinds
}

# Prototypes of our own: the attributes of ctypes.pythonapi belong to every library of the process.
_name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))
_Deleter = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_USED = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}  # capsules point at these


class _Owner:
    """Owns the managed tensor at `address`; the array made from it holds it as its base."""

    def __init__(self, address: int, deleter: int | None, interface: dict[str, Any]) -> None:
        self._address = address
        self._deleter = _Deleter(deleter) if deleter else None
        self.__array_interface__ = interface

    def __del__(self) -> None:
        if self._deleter is not None:
            self._deleter(self._address)


def check_address(address: int, size: int) -> None:
    """BufferError where `size` elements cannot begin at `address`: at NULL, or beside it as views of NULL do."""
    if size and not _FIRST_PAGE <= address < 2**64:
        raise BufferError("it has no memory")


def check_storage(tensor: Any) -> None:
    """BufferError where a tensor of PyTorch reaches beyond its storage, which was resized after the tensor was made."""
    cells = tensor.numel()
    if cells and not tensor.is_contiguous():
        steps = zip(tensor.shape, tensor.stride(), strict=True)
        cells = 1 + sum([(extent - 1) * step for extent, step in steps])
    if cells and (tensor.storage_offset() + cells) * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise BufferError("it reaches beyond its memory")


def _int64s(address: int, count: int) -> tuple[int, ...]:
    if not 0 <= count <= _MAX_AXES or (count and not address):
        raise BufferError(f"its DLPack tensor has {count} axes")
    return _VECTORS[count].unpack(ctypes.string_at(address, 8 * count))


def on_host(value: Any) -> bool:
    """Whether the CPU can read the memory of `value`."""
    return int(value.__dlpack_device__()[0]) in _HOST_DEVICES


def read(value: Any) -> np.ndarray[Any, Any]:
    """The array behind `value.__dlpack__()`, without a copy; read-only where the producer says so.

    PyTorch's own capsules save the checks of `Tensor.__dlpack__`; NumPy's reader takes bfloat16 as whole numbers.
    What is derived from its tensors may mean more than its memory says, and hands itself over.
    """
    torch: Any = sys.modules.get("torch")
    with suppress(Exception):  # of whatever kind: most often a dtype
        own = torch is not None and type(value) in (torch.Tensor, torch.nn.Parameter)
        if own and value.data_ptr() >= _FIRST_PAGE:
            whole = value.view(torch.int16) if value.dtype is torch.bfloat16 else value
            array = np.from_dlpack(Handed(torch._C._to_dlpack_versioned(whole)))
            return array if whole is value else array.view(ml_dtypes.bfloat16)
    return _read(value)


class Handed:
    """A capsule as an object that hands it over; the device stands in the capsule, too, where NumPy looks."""

    __slots__ = ("capsule",)

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _HOST_DEVICES[0], 0


def _read(value: Any) -> np.ndarray[Any, Any]:
    try:
        capsule = value.__dlpack__(max_version=(1, 0))
    except TypeError:  # a producer from before version 1
        capsule = value.__dlpack__()
    name = _name_of(capsule)
    if name not in _USED:
        raise BufferError(f"its DLPack capsule has the name {name!r}")
    address = _pointer_of(capsule, name)
    layout = _MANAGED if name == b"dltensor" else _VERSIONED
    fields = layout.unpack(ctypes.string_at(address, layout.size))
    if layout is _MANAGED:
        *tensor, _, deleter = fields
        writable = True
    else:
        major, minor, _, deleter, flags, *tensor = fields
        writable = not flags & _READ_ONLY_OR_COPY
        if major != 1:  # all the rest may lie elsewhere
            raise BufferError(f"its DLPack version is {major}.{minor}")
    data, device, _, rank, code, bits, lanes, extents, steps, offset = tensor
    if device not in _HOST_DEVICES:
        raise BufferError(f"its DLPack device is of type {device}")
    dtype = DTYPES.get((code, bits))
    if dtype is None or lanes != 1:
        raise BufferError(f"its DLPack dtype has code {code}, {bits} bits, {lanes} lanes")
    shape = _int64s(extents, rank)
    if 0 in shape:  # may have no memory at all
        return np.empty(shape, dtype)
    check_address((data or 0) + offset, 1)
    interface = {
        "version": 3,
        "shape": shape,
        "strides": tuple([step * dtype.itemsize for step in _int64s(steps, rank)]) if steps else None,
        "typestr": f"V{dtype.itemsize}" if dtype.kind == "V" else dtype.str,  # bfloat16 has no name there
        "data": (data + offset, not writable),
    }
    _rename(capsule, _USED[name])
    array = np.asarray(_Owner(address, deleter, interface))
    return array.view(dtype) if dtype.kind == "V" else array
