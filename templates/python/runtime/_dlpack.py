"""Reads DLPack capsules that NumPy refuses, bfloat16 above all.

In: an object with `__dlpack__`. Out: a NumPy array over the same memory, which keeps the producer's tensor alive and
calls its deleter once, when it dies itself. BufferError where the capsule cannot be read; it then stays the producer's.
The structures are those of dlpack.h (https://dmlc.github.io/dlpack/latest/c_api.html), versions 0 and 1.
"""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),  # in elements; NULL means row by row
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_READ_ONLY_OR_COPY = 0b11  # flag bits 0 and 1: writing is forbidden, or would not reach the producer's array
_HOST_DEVICES = (1, 3, 11, 13)  # CPU, CUDA host, ROCm host, CUDA managed
_DTYPES = {
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


def on_host(value: Any) -> bool:
    """Whether the CPU can read the memory of `value`."""
    return int(value.__dlpack_device__()[0]) in _HOST_DEVICES


def read(value: Any) -> np.ndarray[Any, Any]:
    """The array behind `value.__dlpack__()`, without a copy; read-only where the producer says so."""
    try:
        capsule = value.__dlpack__(max_version=(1, 0))
    except TypeError:  # a producer from before version 1
        capsule = value.__dlpack__()
    name = _name_of(capsule)
    if name not in _USED:
        raise BufferError(f"its DLPack capsule is called {name!r}")
    address = _pointer_of(capsule, name)
    writable = True
    managed: _Managed | _Versioned
    if name == b"dltensor":
        managed = _Managed.from_address(address)
    else:
        managed = _Versioned.from_address(address)
        if managed.major != 1:
            raise BufferError(f"its DLPack version is {managed.major}.{managed.minor}")
        writable = not managed.flags & _READ_ONLY_OR_COPY
    tensor = managed.tensor
    dtype = _DTYPES.get((tensor.code, tensor.bits))
    if dtype is None or tensor.lanes != 1:
        raise BufferError(f"its DLPack dtype has code {tensor.code}, {tensor.bits} bits, {tensor.lanes} lanes")
    shape = tuple(tensor.shape[: tensor.ndim])
    if 0 in shape:  # may have no memory at all
        return np.empty(shape, dtype)
    stored = np.dtype(f"V{dtype.itemsize}") if dtype.kind == "V" else dtype  # bfloat16 has no name in the interface
    strides = tuple(step * dtype.itemsize for step in tensor.strides[: tensor.ndim]) if tensor.strides else None
    interface = {
        "version": 3,
        "shape": shape,
        "strides": strides,
        "typestr": stored.str,
        "data": (tensor.data + tensor.byte_offset, not writable),
    }
    deleter = managed.deleter
    _rename(capsule, _USED[name])
    return np.asarray(_Owner(address, deleter, interface)).view(dtype)
