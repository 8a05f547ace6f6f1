"""Turns the arguments of a call into arrays, integers, numbers and text, or refuses them.

In: whatever the caller gave. Out: NumPy arrays over the caller's own memory, and plain Python values.
Everything that is refused raises `Refusal`; nothing here knows which operation asks, and nothing writes to an array.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from . import _dlpack
from ._errors import Refusal

Array = np.ndarray[Any, Any]

# For the dtypes that the buffer protocol lacks, those in whose name it gives their memory to cffi.
BITS = {np.dtype(ml_dtypes.bfloat16): np.dtype(np.uint16)}

_ARRAY = "a NumPy array, or an object with __array_interface__ or DLPack"
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_OVERLAP_WORK = 10_000  # candidates that the exact test may try: at the most 1.7 ms in 20,000 random pairs of views


def describe(value: object) -> str:
    """`value` in a few words, for the `got` of an error. Never fails, never long."""
    kind = type(value).__name__
    if isinstance(value, np.ndarray):
        return f"a {value.dtype} array of shape {value.shape}" + ("" if type(value) is np.ndarray else f" ({kind})")
    if value is None:
        return "None"
    try:
        words = repr(value)
    except Exception:  # the repr of a stranger's object, or of an integer of 5,000 digits
        return f"an object of type {kind}"
    words = " ".join(words.split())
    return f"{words if len(words) <= 80 else words[:77] + '...'} ({kind})"


def to_array(argument: str, value: object) -> Array:
    """`value` as an array over the same memory, strides kept: an ndarray as it is, others through their protocol.

    Refusal (rule "<argument>-kind") for anything that is not a plain numeric array in memory that the CPU can read.
    """
    array = value if type(value) is np.ndarray else _adopt(argument, value)
    dtype = array.dtype
    if dtype.kind not in "biufc" and (dtype.kind != "V" or dtype.type is np.void):  # ml_dtypes are of kind V
        raise _kind(argument, f"an array of dtype {_words(dtype)}", "an array of numbers")
    if not dtype.isnative:
        raise _kind(argument, f"an array of dtype {dtype.str}", "an array in the byte order of this machine")
    return array


def _adopt(argument: str, value: Any) -> Array:
    """The array behind an object that is not an ndarray itself."""
    if isinstance(value, np.memmap):
        return np.asarray(value)
    if isinstance(value, np.ndarray):  # a matrix, a masked array, a quantity: more than its memory says
        raise _kind(argument, describe(value), "a plain NumPy array (numpy.asarray makes one)")
    if isinstance(value, (np.generic, type)):  # scalars have the interface, types have the unbound methods
        raise _kind(argument, describe(value), _ARRAY)
    if hasattr(value, "__array_interface__"):
        try:
            return np.asarray(value)
        except Exception as error:
            raise _kind(argument, f"an object whose __array_interface__ fails: {_brief(error)}", _ARRAY) from error
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _adopt_dlpack(argument, value)
    raise _kind(argument, describe(value), _ARRAY)


def _adopt_dlpack(argument: str, value: Any) -> Array:
    kind = type(value).__name__
    if getattr(value, "requires_grad", False) is True:
        raise _kind(argument, f"a {kind} that requires grad", "one that does not (its detach() gives one)")
    try:
        if not _dlpack.on_host(value):
            raise _kind(argument, f"a {kind} on {getattr(value, 'device', 'a GPU')}", "one in the memory of the CPU")
        if str(getattr(value, "dtype", None)).endswith("bfloat16"):  # asking NumPy first costs 5 us more
            return _dlpack.read(value)
        try:
            array = np.from_dlpack(value)
        except (BufferError, RuntimeError, TypeError, ValueError):  # a dtype, or a rank, that NumPy does not know
            return _dlpack.read(value)
        # NumPy takes unversioned capsules as read-only for want of a flag; the reader tells these from the truly so.
        return array if array.flags.writeable else _dlpack.read(value)
    except Refusal:
        raise
    except Exception as error:  # whatever the producer raises
        raise _kind(argument, f"a {kind} that cannot be read: {_brief(error)}", _ARRAY) from error


def _kind(argument: str, got: str, expected: str, nearest: object = None) -> Refusal:
    return Refusal(f"{argument}-kind", argument, got, expected, nearest, wrong_kind=True)


def _words(dtype: np.dtype[Any]) -> str:
    return "with named fields" if dtype.names else str(dtype)


def _brief(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def int_list(argument: str, value: object) -> tuple[int, ...]:
    """`value` as integers: a list or tuple of them, or a 1-D integer array.

    Refusal "<argument>-kind" for anything else, "<argument>-int64" for an entry that int64 cannot hold.
    """
    if type(value) is np.ndarray and value.ndim == 1 and value.dtype.kind in "iu":
        entries: Any = value.tolist()
    elif isinstance(value, (list, tuple)):
        entries = value
    else:
        raise _kind(argument, describe(value), "a list of integers")
    for entry in entries:
        if type(entry) is not int or not _INT64_MIN <= entry <= _INT64_MAX:
            return tuple(_int_entry(argument, value, entry) for entry in entries)
    return tuple(entries)


def _int_entry(argument: str, value: object, entry: object) -> int:
    """`entry` of the list `value` as an integer, for the lists that hold more than plain small ones."""
    integer = _integer(entry)
    if integer is None:
        raise _kind(argument, describe(value), "a list of integers", _integral(value))
    if not _INT64_MIN <= integer <= _INT64_MAX:
        raise Refusal(f"{argument}-int64", argument, describe(value), "integers that int64 can hold")
    return integer


def _integral(value: Any) -> object:
    """What a float with an integral value, or a list of such and integers, was meant to be; None for anything else."""
    if isinstance(value, (list, tuple)):
        entries = [_integral(entry) for entry in value]
        return None if None in entries else entries
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return _integer(value)


def int_scalar(argument: str, value: object) -> int:
    """`value` as an integer: Python's, NumPy's, or a 0-d integer array. Refusals as of `int_list`."""
    integer = value if type(value) is int else _integer(value)
    if integer is None:
        raise _kind(argument, describe(value), "an integer", _integral(value) if isinstance(value, float) else None)
    if not _INT64_MIN <= integer <= _INT64_MAX:
        raise Refusal(f"{argument}-int64", argument, describe(value), "an integer that int64 can hold")
    return integer


def _integer(value: object) -> int | None:
    """The integer that `value` is; None where it is not one (a bool, a duration, a float with an integral value)."""
    if isinstance(value, (bool, np.timedelta64)):
        return None
    if isinstance(value, (int, np.integer)):
        return int(value)
    if type(value) is np.ndarray and value.ndim == 0 and value.dtype.kind in "iu":
        return int(value)
    return None


def real_scalar(argument: str, value: object) -> float:
    """`value` as a float: a real number of Python or NumPy, or a 0-d array of one.

    Refusal "<argument>-kind" for anything else, "<argument>-range" for an integer beyond float64.
    """
    if type(value) is np.ndarray and value.ndim == 0:
        value = value[()]
    if isinstance(value, (float, np.floating, ml_dtypes.bfloat16)):
        return float(value)
    integer = _integer(value)
    if integer is None:
        raise _kind(argument, describe(value), "a number")
    try:
        return float(integer)
    except OverflowError:
        raise Refusal(f"{argument}-range", argument, describe(value), "a number that float64 can hold") from None


def text(argument: str, value: object) -> str:
    """`value` as text. Refusal "<argument>-kind" for anything but a str."""
    if not isinstance(value, str):
        raise _kind(argument, describe(value), "text")
    return str(value)


def is_ready(array: Array) -> bool:
    """Whether kernels can work on the memory of `array`: in C order and aligned."""
    return array.flags.c_contiguous and array.flags.aligned


def contiguous(array: Array) -> tuple[Array, bool]:
    """`array` in C order and aligned, and whether it had to be copied. MemoryError where a copy does not fit."""
    return (array, False) if is_ready(array) else (array.copy(order="C"), True)


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


def pointer(ffi: Any, ctype: Any, array: Array, writable: bool) -> Any:
    """A C pointer to the first element of `array`, which must be C-contiguous; the pointer keeps the array alive.

    `ctype` names the pointer, as "float *" or, for bfloat16 and float16, "uint16_t *"; or is its type, from ffi.typeof,
    which saves 0.25 us of parsing.
    """
    bits = BITS.get(array.dtype)
    return ffi.from_buffer(ctype, array if bits is None else array.getfield(bits), writable)
