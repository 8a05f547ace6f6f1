"""Scratch memory for kernels: a buffer of each thread that calls them, kept from call to call.

In: a number of bytes. Out: memory of at least that size, aligned to 64 bytes, whose contents nobody may rely on.
"""

from __future__ import annotations

import threading
from typing import Any

import _cffi_backend
import numpy as np

ALIGNMENT = 64
KEPT = 64 * 2**20  # bytes that a thread keeps at the most; what a call needs beyond that is freed after it
# For tests: the byte that all memory holds when it is handed out. 0xFF makes NaN of every dtype.
POISON: int | None = None

_own = threading.local()
_ffi: Any = _cffi_backend.FFI()  # cffi.FFI would import a parser of C, which takes longer than a first call


def memory(size: int) -> Any:
    """A `char[]` of at least `size` bytes for the calling thread, until it asks again.

    MemoryError where they cannot be had.
    """
    try:
        reserved = _own.memory
    except AttributeError:
        reserved = None
    if reserved is None or len(reserved) < size:
        if size <= KEPT:
            _own.memory = None  # the old one goes before the new one comes
        reserved = _aligned(size)
        if size <= KEPT:
            _own.memory = reserved
    if POISON is not None:
        np.frombuffer(_ffi.buffer(reserved, size), np.uint8).fill(POISON)
    return reserved


def address(size: int) -> int:
    """Where `memory` is, of a size that a thread keeps."""
    return int(_ffi.cast("uintptr_t", memory(size)))


def _aligned(size: int) -> Any:
    raw = np.empty(size + ALIGNMENT - 1, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return _ffi.from_buffer(raw[start : start + size])  # which keeps the array alive
