"""Calls of steps like one before, of the same strides: from arrays to the kernel in the fewest steps of Python.

In: the plan of a call. Out: a function of a later call's inputs, `out` and `threads`. It gives the result, or None
where an array has gaps that the plan was not made for, or `out` is not plainly apart from all others: the long way
tells what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy import empty, may_share_memory, ndarray

from ._arrays import allocated, is_ready
from ._scratch import memory
from ._team import SERIAL_TERMS, thread_count

Quick = Callable[[Sequence[Any], Any, Any], Any]
_FIRST = (slice(1),)


@dataclass(frozen=True, eq=False)
class Views:
    """What calls with arrays of certain strides do."""

    run: Quick
    words: Callable[[Sequence[Any], Any], Any]  # what calls.c gets of such a call, if anything
    told: list[int] = field(default_factory=list)  # when calls.c was told of it


def quick(plan: Any) -> Quick:
    """The function for calls of one plan.

    One input is written out, and two if all others are absent: loops take as long as all the rest, and lists of no
    others 0.2 us of 1.7 (Intel Xeon, Python 3.11). Addresses tell that `out` is apart where no array has gaps:
    may_share_memory takes 0.7 us an input (AMD Zen 3, NumPy 2).
    """
    one_output = len(plan.outputs) == 1 and not plan.lists
    if one_output and len(plan.inputs) == 1:
        return _of_one(plan)
    if one_output and len(plan.inputs) > 1 and None not in plan.absent[2:]:
        return _of_two(plan)
    return _of_many(plan)


def _of_one(plan: Any) -> Quick:
    address, kernel, sizes, phases, null = plan.ffi.from_buffer, plan.kernel, plan.sizes, plan.phases, plan.ffi.NULL
    ((kind, bits),), ((kind_out, bits_out, shape, dtype),) = plan.inputs, plan.outputs
    serial, (team, size), in_place = plan.terms < SERIAL_TERMS, plan.alone, 0 in plan.in_place
    made = empty if serial else allocated

    def run(inputs: Sequence[Any], out: Any, threads: Any) -> Any:
        (a,) = inputs
        if type(a) is not ndarray or not (a.flags.carray or is_ready(a)):
            return None
        if out is not None and not fits(out, shape, dtype):
            return None
        result = made(shape, dtype) if out is None else out
        at = address(kind, a if bits is None else a.getfield(bits))
        to = address(kind_out, result if bits_out is None else result.getfield(bits_out))
        if out is not None and not (at >= to + out.size or to >= at + a.size or (a is out and in_place)):
            return None
        if (serial and threads is None) or (threads == 1 and type(threads) is int):
            kernel(at, to, sizes, 0, phases, team, memory(size) if size else null)
        else:
            workers, room = plan.workers(thread_count(plan, threads))
            kernel(at, to, sizes, 0, phases, workers, memory(room) if room else null)
        return result

    return run


def _of_two(plan: Any) -> Quick:
    address, kernel, sizes, phases, null = plan.ffi.from_buffer, plan.kernel, plan.sizes, plan.phases, plan.ffi.NULL
    ((kind_a, bits_a), (kind_b, bits_b), *_), ((kind_out, bits_out, shape, dtype),) = plan.inputs, plan.outputs
    serial, alone, (_, absent, *others) = plan.terms < SERIAL_TERMS, plan.alone, plan.absent
    in_place = plan.in_place
    made = empty if serial else allocated

    def run(inputs: Sequence[Any], out: Any, threads: Any) -> Any:
        a, b = inputs[0], inputs[1]
        if type(a) is not ndarray or not (a.flags.carray or is_ready(a)):
            return None
        if b is not None and (type(b) is not ndarray or not (b.flags.carray or is_ready(b))):
            return None
        if out is not None and not fits(out, shape, dtype):
            return None
        result = made(shape, dtype) if out is None else out
        at_a = address(kind_a, a if bits_a is None else a.getfield(bits_a))
        at_b = absent if b is None else address(kind_b, b if bits_b is None else b.getfield(bits_b))
        to = address(kind_out, result if bits_out is None else result.getfield(bits_out))
        if out is not None:
            end = to + out.size
            if not (at_a >= end or to >= at_a + a.size or (a is out and 0 in in_place)):
                return None
            if b is not None and not (at_b >= end or to >= at_b + b.size or (b is out and 1 in in_place)):
                return None
        if (serial and threads is None) or (threads == 1 and type(threads) is int):
            team, room = alone
        else:
            team, room = plan.workers(thread_count(plan, threads))
        scratch = memory(room) if room else null
        if others:
            kernel(at_a, at_b, *others, to, sizes, 0, phases, team, scratch)
        else:
            kernel(at_a, at_b, to, sizes, 0, phases, team, scratch)
        return result

    return run


def _of_many(plan: Any) -> Quick:
    address, kernel, sizes, phases, null = plan.ffi.from_buffer, plan.kernel, plan.sizes, plan.phases, plan.ffi.NULL
    serial, (team, size), lists = plan.terms < SERIAL_TERMS, plan.alone, plan.lists
    taken = tuple((kind, bits, absent) for (kind, bits), absent in zip(plan.inputs, plan.absent))
    made = empty if serial else allocated
    (only, *others) = plan.returned
    nothing = [None] * len(plan.outputs)

    def run(inputs: Sequence[Any], out: Any, threads: Any) -> Any:
        read: list[Any] = []
        for value, (kind, bits, absent) in zip(inputs, taken):
            if value is None:
                read.append(absent)
            elif type(value) is ndarray and (value.flags.carray or is_ready(value)):
                read.append(address(kind, value if bits is None else value.getfield(bits)))
            else:
                return None
        given = nothing if out is None else by_output(plan, out)
        if given is None:
            return None
        results, written = [], []
        for target, (kind, bits, shape, dtype) in zip(given, plan.outputs):
            if target is not None and not fits(target, shape, dtype):
                return None
            result = made(shape, dtype) if target is None else target
            results.append(result)
            written.append(address(kind, result if bits is None else result.getfield(bits)))
        if out is not None and not _apart(plan, inputs, read, given, written):
            return None
        if (serial and threads is None) or (threads == 1 and type(threads) is int):
            kernel(*read, *lists, *written, sizes, 0, phases, team, memory(size) if size else null)
        else:
            workers, room = plan.workers(thread_count(plan, threads))
            kernel(*read, *lists, *written, sizes, 0, phases, workers, memory(room) if room else null)
        return tuple([results[number] for number in plan.returned]) if others else results[only]

    return run


def _apart(plan: Any, inputs: Sequence[Any], read: Sequence[Any], given: Sequence[Any], written: Sequence[Any]) -> bool:
    """Whether the caller's outputs share no memory with what a call reads, unless it may, nor with each other."""
    spans = [
        (value, at, at + value.size, number in plan.in_place)
        for number, (value, at) in enumerate(zip(inputs, read))
        if value is not None
    ]
    for target, to in zip(given, written):
        if target is not None:
            end = to + target.size
            for other, at, last, in_place in spans:
                if at < end and to < last and not (in_place and other is target):
                    return False
            spans.append((target, to, end, False))
    return True


def of_views(plan: Any, orders: Sequence[tuple[int, ...] | None]) -> Views:
    """What calls of one plan do whose arrays have the strides that it was made for."""
    taken = tuple((kind, bits, absent) for (kind, bits), absent in zip(plan.inputs, plan.absent))
    made = tuple((*output, order) for output, order in zip(plan.outputs, orders))
    kernel, sizes, phases, lists = plan.kernel, plan.sizes, plan.phases, plan.lists
    ffi = plan.ffi

    def run(inputs: Sequence[Any], out: Any, threads: Any) -> Any:
        read: list[Any] = []
        for value, (kind, bits, absent) in zip(inputs, taken):
            if value is None:
                read.append(absent)
            elif value.flags.aligned:
                read.append(address(ffi, kind, bits, value))
            else:
                return None
        given = None if out is None else _given(plan, out, inputs)
        if given is None and out is not None:
            return None
        results, written = [], []
        for number, (kind, bits, shape, dtype, order) in enumerate(made):
            target = None if given is None else given[number]
            result = allocated(shape, dtype, order) if target is None else target
            results.append(result)
            written.append(address(ffi, kind, bits, result))
        workers, room = plan.workers(thread_count(plan, threads))
        kernel(*read, *lists, *written, sizes, 0, phases, workers, memory(room))
        found = tuple([results[number] for number in plan.returned])
        return found if len(found) > 1 else found[0]

    def words(inputs: Sequence[Any], out: Any) -> Any:
        targets = None if out is None else by_output(plan, out)
        return plan.words(inputs, None, list(zip(targets or [None] * len(orders), orders)))

    return Views(run, words)


def address(ffi: Any, kind: Any, bits: Any, array: Any) -> Any:
    """A pointer to the first cell of an array of any strides: by a view of it, in a third of the time of `ctypes`."""
    if not array.size:
        return ffi.cast(kind, array.ctypes.data)
    cell = array[(0,) * (array.ndim - 1) + _FIRST] if array.ndim else array
    return ffi.from_buffer(kind, cell if bits is None else cell.getfield(bits))


def by_output(plan: Any, out: Any) -> list[Any] | None:
    """The caller's arrays by output, None for those that the call lacks; None where there are not as many."""
    targets = out if type(out) in (tuple, list) else (out,)
    if len(targets) != len(plan.returned):
        return None
    given: list[Any] = [None] * len(plan.outputs)
    for number, target in zip(plan.returned, targets):
        given[number] = target
    return given


def _given(plan: Any, out: Any, inputs: Sequence[Any]) -> list[Any] | None:
    """The same for arrays that may have gaps; None where one is not plainly apart from all others."""
    given = by_output(plan, out)
    for number, target in enumerate(given or ()):
        if target is not None:
            _, _, shape, dtype = plan.outputs[number]
            others = [value for at, value in enumerate(inputs) if not (value is target and at in plan.in_place)]
            others += (given or [])[:number]
            if not fits(target, shape, dtype, views=True):
                return None
            if any(other is not None and may_share_memory(target, other) for other in others):
                return None
    return given


def fits(out: Any, shape: Any, dtype: Any, views: bool = False) -> bool:
    """Whether an array that the caller gives can be written to as one of this shape, without gaps but for views."""
    if type(out) is not ndarray or out.dtype is not dtype or out.shape != shape:
        return False
    return bool(out.flags.behaved if views else out.flags.carray)
