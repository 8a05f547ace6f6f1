"""Turns the array arguments of a call into NumPy arrays over the caller's own memory, or refuses them.

Everything that is refused raises `Refusal`; nothing here knows which operation asks, and nothing writes to an array.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import _dlpack
from ._dtypes import BITS
from ._errors import Refusal
from ._numbers import wrong_kind
from ._words import brief, describe, name_of, shortened

Array = np.ndarray[Any, Any]

# For the dtypes that the buffer protocol lacks, those in whose name it gives their memory to cffi.

_ARRAY = "a NumPy array, or an object with __array_interface__ or DLPack"
STREAMED = 4 * 2**20  # bytes from which on kernels may store past the caches what begins at a cache line
CACHE_LINE = 64
_OVERLAP_WORK = 10_000  # candidates that the exact test may try, so that its time stays bounded
# What tensors of PyTorch say of values that are not those in their memory, and the method that writes these down.
_LAZY = (("is_neg", "resolve_neg"), ("is_conj", "resolve_conj"))


def to_array(argument: str, value: object) -> Array:
    """`value` as an array over the same memory, strides kept: an ndarray as it is, others through their protocol.

    Refusal (rule "<argument>-kind") for anything that is not a plain numeric array in memory that the CPU can read.
    """
    array = value if type(value) is np.ndarray else _adopt(argument, value)
    dtype = array.dtype
    if dtype.kind not in "biufc" and (dtype.kind != "V" or dtype.type is np.void):  # ml_dtypes are of kind V
        raise wrong_kind(argument, f"an array of dtype {_words(dtype)}", "an array of numbers")
    if not dtype.isnative:
        raise wrong_kind(argument, f"an array of dtype {dtype.str}", "an array in the byte order of this machine")
    return array


def _adopt(argument: str, value: Any) -> Array:
    """The array behind an object that is not an ndarray itself."""
    kind = type(value)
    if issubclass(kind, np.memmap):
        return np.ndarray.view(value, np.ndarray)
    if issubclass(kind, np.ndarray):  # a matrix, a masked array, a quantity: more than its memory says
        raise wrong_kind(argument, describe(value), "a plain NumPy array (numpy.asarray makes one)")
    if issubclass(kind, (np.generic, type)):  # scalars have the interface, types have the unbound methods
        raise wrong_kind(argument, describe(value), _ARRAY)
    name = "__array_interface__"
    try:
        if hasattr(value, name):
            return _of_interface(value)
        name = "__dlpack__"
        if hasattr(value, name) and hasattr(value, "__dlpack_device__"):
            return _of_dlpack(argument, value)
    except Refusal:
        raise
    except Exception as error:  # whatever the object raises
        raise wrong_kind(argument, f"a {name_of(kind)} whose {name} fails: {brief(error)}", _ARRAY) from error
    raise wrong_kind(argument, describe(value), _ARRAY)


class _Interface:
    """What an object exported of its memory; the array made from it keeps the export, and so the object, alive."""

    def __init__(self, owner: object, interface: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = interface


def _of_interface(value: Any) -> Array:
    interface = dict(value.__array_interface__)
    data = interface.get("data")
    if type(data) is not tuple:  # an object with a buffer of its own, or none: NumPy reads that of `value`
        return np.asarray(value)
    array = np.asarray(_Interface(value, interface))
    _dlpack.check_address(int(data[0]), array.size)
    return array


def _of_dlpack(argument: str, value: Any) -> Array:
    if getattr(value, "requires_grad", False) is True:
        kind = name_of(type(value))
        raise wrong_kind(argument, f"a {kind} that requires grad", "one that does not (call its detach())")
    for asks, resolves in _LAZY:
        ask = getattr(value, asks, None)
        if ask is not None and ask() is True:
            got = f"a {name_of(type(value))} whose memory does not hold its values ({asks}())"
            raise wrong_kind(argument, got, f"one whose memory holds its values (call its {resolves}())")
    try:
        array = _dlpack.read(value)
    except Exception:  # of whatever kind: a capsule on another device fails in many ways
        if _dlpack.on_host(value):
            raise
        device = shortened(str(getattr(value, "device", "a GPU")))
        got = f"a {name_of(type(value))} on {device}"
        raise wrong_kind(argument, got, "one in the memory of the CPU") from None
    if hasattr(value, "untyped_storage"):
        _dlpack.check_storage(value)
    return array


def _words(dtype: np.dtype[Any]) -> str:
    return "with named fields" if dtype.names else str(dtype)


def is_ready(array: Array) -> bool:
    """Whether kernels can work on the memory of `array`: in C order and aligned."""
    return array.flags.c_contiguous and array.flags.aligned


def contiguous(array: Array) -> tuple[Array, bool]:
    """`array` in C order and aligned, and whether it had to be copied. MemoryError where a copy does not fit."""
    return (array, False) if is_ready(array) else (array.copy(order="C"), True)


def turned(array: Array, order: tuple[int, ...]) -> Array:
    """A view, with its axes in their places, of an array that has them in `order`, the outermost in memory first."""
    return array.transpose([order.index(axis) for axis in range(len(order))])


def allocated(shape: tuple[int, ...], dtype: np.dtype[Any], order: tuple[int, ...] | None = None) -> Array:
    """An array with anything in it; `order` has its axes as they lie in memory, the outermost first."""
    if order is not None:
        return turned(allocated(tuple([shape[axis] for axis in order]), dtype), order)
    size = math.prod(shape) * dtype.itemsize
    try:
        if size < STREAMED:
            return np.empty(shape, dtype)
        raw = np.empty(size + CACHE_LINE - 1, np.uint8)
        start = -raw.ctypes.data % CACHE_LINE
        return raw[start : start + size].view(dtype).reshape(shape)
    except (ValueError, MemoryError) as error:
        raise Refusal(
            "memory", "out", f"an output of shape {shape}, {dtype}: {error}", "an output that fits into memory"
        ) from None


def overlaps_itself(array: Array) -> bool:
    """Whether two cells of `array` share a byte, as in a broadcast or a sliding window.

    Exact for everything that slicing and transposing make; True as well for views whose axes interleave.
    """
    if array.size == 0:
        return False
    reach = array.itemsize
    for stride, extent in sorted(
        (abs(stride), extent) for stride, extent in zip(array.strides, array.shape) if extent > 1
    ):
        if stride < reach:
            return True
        reach += stride * (extent - 1)
    return False


def share_memory(a: Array, b: Array) -> bool:
    """Whether an element of `a` and one of `b` share a byte.

    Exact for the views that programs make; for the rare pair where that takes too long, True if their extents overlap.
    """
    try:
        return np.shares_memory(a, b, max_work=_OVERLAP_WORK)  # type: ignore[arg-type]  # NumPy says: any int
    except np.exceptions.TooHardError:
        return True


def pointer(ffi: Any, ctype: Any, array: Array, writable: bool = False) -> Any:
    """A C pointer to the first element of `array`, which must be C-contiguous; the pointer keeps the array alive.

    `ctype` names the pointer, as "float *" or, for bfloat16 and float16, "uint16_t *"; or is its type, from ffi.typeof,
    which saves parsing it at every call.
    """
    bits = BITS.get(array.dtype)
    return ffi.from_buffer(ctype, array if bits is None else array.getfield(bits), writable)
