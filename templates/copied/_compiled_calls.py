"""Calls like one before, without Python: calls.c, and what it is told of calls.

In: an operation, and calls that Python has just found to be like one before. Out: a function in the place of the
operation's `call`, which goes from arrays of NumPy and tensors of PyTorch to the kernel, and hands every other call to
Python. A sum of two rows of 1000 f32 takes 0.35 of the time of a call through Python (AMD Zen 4, Python 3.11). It is
compiled for the Python and NumPy at hand once a program has called often, and then lies in the cache for others; with
OPWRIGHT_CALLS=1 at the first such call. Where that cannot be done, and with OPWRIGHT_CALLS=0, all calls stay Python's,
and `state` says why.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import sys
import sysconfig
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import _dlpack, _load, _remember, _scratch
from ._arrays import STREAMED
from ._errors import BuildError
from ._orders import strides_of
from ._team import SERIAL_TERMS, thread_count
from ._units import Unit, python_include

OFTEN = 64  # calls that Python has answered as ones like before, after which this is worth a fifth of a second
SOON = 8  # the same where it is in the cache already, and takes 30 ms, most of it for a parser of C

WAITING = "not compiled yet"
_SOURCES = Path(__file__).parent / "c" / "python"

state = WAITING
_answered = OFTEN - 1 if os.environ.get("OPWRIGHT_CALLS") == "1" else 0
_new: Any = None  # makes the functions of an operation
_adopt: Any = None  # is told of types of tensors; None once it was
_CODES = {dtype: code for (code, _), dtype in _dlpack.DTYPES.items()}
_EITHER, _MADE, _GIVEN = range(3)  # who makes an output's array, as arrays.h has it
Word = tuple[Any, ...]  # an array, as arrays.h reads it
Slot = tuple[int, int]  # an argument: the number of an array and bytes behind its first cell, or -1 and itself
_forgets: list[Any] = []  # of each operation
_epoch = 0  # how often all calls were forgotten


class Words(NamedTuple):
    """What calls.c gets of calls.

    `groups` say by argument how many arrays it lists, -1 where it is one; `pieces` are plans, each of a kernel, and its
    arguments up to its team, with the inputs' arrays numbered first, then the outputs'.
    """

    groups: tuple[int, ...]
    inputs: tuple[Word, ...]
    outputs: tuple[Word, ...]
    pieces: tuple[tuple[Any, tuple[Slot, ...]], ...]


def unit() -> Unit:
    """What is compiled: for one version of Python and of NumPy, whose headers others need not have."""
    version = re.sub(r"\W", "_", f"{sysconfig.get_config_var('SOABI')}_{np.__version__}")
    return Unit(
        f"opwright_calls_{version}",
        "void *opwright_calls_new(void *general, void *memory);void *opwright_calls_adopt(void *types, void *capsule);",
        (_SOURCES / "calls.c",),
        (_SOURCES,),
        ("-std=c11", "-O2"),
        system=(*python_include(), Path(np.get_include())),
        plain=True,
    )


def start() -> None:
    """Compile and load it; once, whatever comes of it."""
    global state, _new, _adopt
    setting = os.environ.get("OPWRIGHT_CALLS")
    if setting == "0":
        state = "Python, as OPWRIGHT_CALLS=0 says"
    elif _load.shipped() and setting != "1":
        state = "Python: a package that came with its kernels calls no compiler, but with OPWRIGHT_CALLS=1"
    elif sysconfig.get_config_var("Py_GIL_DISABLED"):  # which guards what is known of calls
        state = "Python: this one has no global lock"
    elif not any((folder / "Python.h").is_file() for folder in python_include()):
        state = "Python: its headers are missing"
    else:
        state = "being compiled"  # not twice: others call meanwhile, and after errors
        try:
            library = ctypes.PyDLL(str(_load.load(unit()).path))
            for function in (library.opwright_calls_new, library.opwright_calls_adopt):
                function.argtypes, function.restype = (ctypes.py_object, ctypes.py_object), ctypes.py_object
            _new, _adopt = library.opwright_calls_new, library.opwright_calls_adopt
            _remember.CHANGED.append(forget)
            state = "compiled"
        except (BuildError, OSError, AttributeError) as error:
            state = f"Python: {error}"


def adopt(torch: Any) -> None:
    """Let tensors be read where they are; once, whatever comes of it."""
    global _adopt
    tell_of, _adopt = _adopt, None
    with suppress(Exception):  # of whatever kind: a PyTorch of before version 2.10, or one that is still imported
        tell_of((torch.Tensor, torch.nn.Parameter), torch.Tensor.__dlpack_c_exchange_api__)


def answered(operation: Any, known: Any, key: Any, inputs: Sequence[Any], out: Any) -> None:
    """Python has answered a call like one before, of this plan or these views: the next ones need not ask it."""
    global _answered
    _answered += 1
    if state == WAITING and (_answered >= OFTEN or (_answered == SOON and _load.is_built(unit()))):
        start()
    if _adopt is not None and "torch" in sys.modules:
        adopt(sys.modules["torch"])
    if _new is not None and known.told != [_epoch]:
        attributes = _remember.attributes_of(key)
        words = None if attributes is None else known.words(inputs, out)
        if words is not None and all(plan.alone[1] <= _scratch.KEPT for plan, _ in words.pieces):  # what a thread keeps
            known.told[:] = [_epoch]
            with suppress(ValueError):  # more arrays than records have
                tell(operation, attributes, words)


def tell(operation: Any, attributes: Any, words: Words) -> None:
    """Say how calls are computed that have these attributes, and arrays and kernels as `words` have them."""
    own = operation.__dict__.get("tell_of_call")
    if own is None:
        call, own, forgets = _new(operation.call, _scratch.address)
        _forgets.append(forgets)
        operation.__dict__.update(tell_of_call=own, call=call)  # where the generated function looks first
    first = words.pieces[0][0]

    def crew(plan: Any, threads: Any) -> tuple[int, int | None]:
        team, size = plan.workers(thread_count(first, threads))
        return number_of(plan.ffi, team), size if size <= _scratch.KEPT else None

    pieces = tuple((partial(crew, plan), plan.entry(), plan.alone[1], slots) for plan, slots in words.pieces)
    serial, lists = first.terms < SERIAL_TERMS, operation.lists_outputs
    own(attributes, words.groups, words.inputs, words.outputs, pieces, serial, lists, operation.states_dtypes)


def number_of(ffi: Any, pointer: Any) -> int:
    """The address that a pointer of C holds."""
    return int(ffi.cast("uintptr_t", pointer))


def slot(ffi: Any, pointer: Any) -> Slot:
    """An argument of a kernel that is the same for all calls."""
    return -1, number_of(ffi, pointer)


ABSENT: Word = (None, 0, 0, (), (), False, False, False, _EITHER)  # an input that a call leaves out


def given(array: Any, in_place: bool = False) -> Word:
    """An input; `in_place` says that it may be the output."""
    return *_cells(array.dtype), array.shape, array.strides, False, in_place, False, _EITHER


def made(shape: tuple[int, ...], dtype: Any, returned: bool = True, streamed: bool = False, view: Any = None) -> Word:
    """An output; `streamed` ones that Python makes begin at a cache line.

    `view` has the caller's array, or None and the order in which the axes lie of one that is made; without it, neither
    has gaps.
    """
    target, order = view or (None, None)
    strides = strides_of(shape, dtype.itemsize, order) if target is None else target.strides
    late = streamed and math.prod(shape) * dtype.itemsize >= STREAMED
    which = _EITHER if view is None else _MADE if target is None else _GIVEN
    return *_cells(dtype), shape, strides, returned, False, late, which


def _cells(dtype: Any) -> tuple[Any, int, int]:
    """What arrays.h gets of a dtype: itself, its code in DLPack, and the bytes of a cell."""
    return dtype, _CODES.get(dtype, -1), dtype.itemsize


def forget() -> None:
    """Forget all calls, as settings changed that they depend on."""
    global _epoch
    _epoch += 1
    for forgets in _forgets:
        forgets()
