"""Arrays between pages that nobody may touch: an access beside one of them ends the process.

In: an array. Out: a copy whose first or last byte borders on such a page.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from typing import Any

import numpy as np
import opwright_kernels as ok
from opwright_kernels import _scratch

from . import rulings
from .calls import describe, random_call
from .draws import rng
from .generated import run, same

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
POISON = 0xA5


class Guarded:
    """Memory of `size` bytes between two pages without rights, poisoned; the array made from it keeps it."""

    def __init__(self, size: int, high: bool, alignment: int = 1) -> None:
        page = mmap.PAGESIZE
        inner = -(-max(size, 1) // page) * page
        self.memory = mmap.mmap(-1, inner + 2 * page)
        first = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        ctypes.memset(first + page, POISON, inner)
        for guard in (first, first + page + inner):
            if _libc.mprotect(guard, page, 0):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        slack = inner - size
        self.address = first + page + (slack - slack % alignment if high else 0)
        self.interface = {"version": 3, "shape": (size,), "typestr": "|u1", "data": (self.address, False)}

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.interface


def guarded(array: np.ndarray, high: bool) -> np.ndarray:
    """A copy of `array`, in C order, that borders on a guard page."""
    copy = np.asarray(Guarded(array.nbytes, high)).view(array.dtype).reshape(array.shape) if array.size else array
    copy[...] = array
    return copy


def campaign(seed: int, count: int) -> int:
    """Random calls on guarded inputs, outputs and scratch memory, on 1 to 8 threads; how many were right."""
    random, ffi = rng("guard pages", seed), _scratch._ffi
    _scratch.KEPT, _scratch.POISON = -1, 0xFF  # every call gets memory of its own, no byte more than it asked for
    high = True
    _scratch._aligned = lambda size: ffi.from_buffer(np.asarray(Guarded(max(size, 1), high, _scratch.ALIGNMENT)))
    for number in range(count):
        high = bool(random.integers(2))
        call = random_call(random)
        print(number, describe(call), file=sys.stderr, flush=True)  # the last one is the one that crashed
        expected = rulings.compute(call)
        inputs = tuple(None if array is None else guarded(array, bool(random.integers(2))) for array in call.inputs)
        again = type(call)(call.op, inputs, call.attributes)
        threads = [1, *random.choice(np.arange(2, 9), 2, replace=False).tolist()]
        bits = set()
        for workers in threads:
            out = guarded(np.full(expected.shape, np.nan).astype(expected.dtype), bool(random.integers(2)))
            assert run(again, out=out, threads=workers) is out
            assert same(out, expected), (workers, describe(call))
            bits.add(out.tobytes())
        assert len(bits) == 1, describe(call)
        for array, given in zip(inputs, call.inputs, strict=True):
            assert array is None or array.tobytes() == np.ascontiguousarray(given).tobytes()
    return count


def touch_beside(high: bool) -> None:
    """One access beside an array, for the test that these pages guard."""
    array = guarded(np.zeros(7, np.float32), high)
    ctypes.c_char.from_address(array.ctypes.data + (array.nbytes if high else -1)).value  # noqa: B018


if __name__ == "__main__":
    if sys.argv[1] == "touch":
        touch_beside(sys.argv[2] == "high")
    else:
        print(campaign(int(sys.argv[1]), int(sys.argv[2])), "right on", ok.variants()[0].isa)
