"""One operation as the package calls it: resolve a call, choose its kernel, hand it the arrays.

In: the arguments of a public function. Out: the output array. What a call means is generated, per operation, as a pure
function `resolve`; its answers are kept per signature (shapes, dtypes, attribute values), so that a repeated call costs
a look-up. Every refusal leaves as a SpecError and before anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from marshal import dumps
from typing import Any

import numpy as np
from numpy import empty, ndarray

from . import _compiled, _compiled_calls, _isa, _load, _remember, _specialize, _team, _threads
from ._arrays import Array, allocated, contiguous, is_ready, overlaps_itself, pointer, share_memory, to_array
from ._compiled import Compiled
from ._description import InputInfo, TensorSpec
from ._dtypes import BITS, C_TYPES, DTYPES
from ._errors import Refusal
from ._numbers import snapshot
from ._remember import CALLS, MAX_EXTENTS, MIN_INPUTS, stated
from ._rules import Resolution
from ._scratch import memory
from ._words import describe


@dataclass(frozen=True, eq=False)
class Plan:
    """A resolved signature, ready to run: all that a repeated call would otherwise look up again."""

    kernel: Any
    entry: Callable[[], int]  # where the kernel is in memory
    sizes: Any
    ffi: Any
    null: Any  # of ffi
    address: Callable[..., Any]  # from a C type, an array, and perhaps whether it is written to
    from_buffer: Callable[..., Any]  # the same for arrays that have a buffer
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    terms: int
    inputs: tuple[tuple[int, Any], ...]  # position among the call's inputs, C type of the pointer
    output: Any
    workers: Callable[[int], tuple[Any, int]]  # for a number of them, what the kernel takes as its team, and `scratch`
    alone: tuple[Any, int]  # the same for one
    scratch: Callable[[int], int] | None  # bytes for a number of workers; None: a kernel that computes a part
    quick: bool  # a fast kernel that reads the first two inputs, perhaps the third, and all tensors are of one dtype
    third: Any  # the address that it takes for a third input that is absent; None: it takes two
    bits: np.dtype[Any] | None  # the dtype in whose name a quick plan's memory has a buffer; None: its own
    specialisation: _specialize.Special[Plan] | None = None
    told: list[int] = field(default_factory=list)  # when calls.c was told of it

    def words(self, inputs: Sequence[Any], _: Any) -> _compiled_calls.Words | None:
        """What calls.c gets of calls with arrays like these; None where Python copies one or reads what it states."""
        positions = [position for position, _ in self.inputs]
        there = [position for position, array in enumerate(inputs) if array is not None]
        if self.scratch is None or not {*there} <= {*positions} or not all(is_ready(inputs[n]) for n in there):
            return None
        taken = tuple(_compiled_calls.ABSENT if array is None else _compiled_calls.given(array) for array in inputs)
        slots = tuple((position, 0) if position in there else (-1, 0) for position in positions)
        slots = (*slots, (len(inputs), 0), _compiled_calls.slot(self.ffi, self.sizes))
        made = _compiled_calls.made(self.shape, self.dtype)
        return _compiled_calls.Words((-1,) * len(inputs), taken, (made,), ((self, slots),))


class Operation(Compiled):
    """An operation that can be called."""

    lists_outputs = False  # whether `out` may be a list

    @property
    def states_dtypes(self) -> bool:
        """Whether an attribute that is left out is the dtype of `out`."""
        return False

    def call(self, inputs: Sequence[Any], attributes: tuple[Any, ...], out: Any, threads: Any, specialize: Any) -> Any:
        """Run a call; see the generated function for what it takes and returns.

        A call like one before, with arrays that need no copies, is over in a few steps. They are written out for two
        inputs and a third, which may be absent or state a shape: loops over them would take a tenth longer.
        """
        try:
            a, b, c = inputs if len(inputs) == MIN_INPUTS else (*inputs, None)
            if type(a) is ndarray and type(b) is ndarray and (c is None or type(c) is ndarray):
                states = b"" if c is None or not self.stating else stated(c)
                dtype, shape = (None, None) if c is None else (c.dtype, c.shape)
                key = self.function, dumps(attributes), a.dtype, a.shape, b.dtype, b.shape, dtype, shape, states
                plan = CALLS[key]
                at_c = plan.third
                if plan.quick and (
                    out is None or (a.flags.carray and b.flags.carray and (c is None or at_c is None or c.flags.carray))
                ):
                    a, b = a if a.flags.carray else contiguous(a)[0], b if b.flags.carray else contiguous(b)[0]
                    c = c if c is None or c.flags.carray else contiguous(c)[0]
                    if specialize is not None or _specialize.setting is not False:
                        plan = self.specialized(plan, specialize)
                    kind, address, bits = plan.output, plan.from_buffer, plan.bits
                    result = empty(plan.shape, plan.dtype) if out is None else out
                    if bits is None:
                        start, at_a, at_b = address(kind, result), address(kind, a), address(kind, b)
                        if c is not None and at_c is not None:
                            at_c = address(kind, c)
                    else:
                        start = address(kind, result.getfield(bits))
                        at_a, at_b = address(kind, a.getfield(bits)), address(kind, b.getfield(bits))
                        if c is not None and at_c is not None:
                            at_c = address(kind, c.getfield(bits))
                    if out is None or (
                        type(out) is ndarray
                        and out.dtype is plan.dtype
                        and out.shape == plan.shape
                        and out.flags.carray
                        and (at_a >= (end := start + out.size) or start >= at_a + a.size)  # arrays without gaps
                        and (at_b >= end or start >= at_b + b.size)
                        and (at_c is None or c is None or at_c >= end or start >= at_c + c.size)
                    ):
                        if threads is None and plan.terms < _team.SERIAL_TERMS:
                            team, size = plan.alone
                        else:
                            team, size = plan.workers(_team.thread_count(plan, threads))
                        if at_c is None:
                            plan.kernel(at_a, at_b, start, plan.sizes, team, memory(size))
                        else:
                            plan.kernel(at_a, at_b, at_c, start, plan.sizes, team, memory(size))
                        if specialize is None and _specialize.setting is False:
                            _compiled_calls.answered(self, plan, key, inputs, out)
                        return result
        except Exception:  # of whatever kind: the refusal is made below
            pass
        return self.called(inputs, attributes, out, threads, specialize)

    def written_by(self, resolution: Any) -> tuple[str, ...]:
        """The outputs that a call has."""
        return (self.output,)

    def called(
        self, inputs: Sequence[Any], attributes: tuple[Any, ...], out: Any, threads: Any, specialize: Any
    ) -> Any:
        """The same for every call."""
        try:
            return self.result(inputs, attributes, out, threads, specialize)
        except Refusal as refusal:
            raise self.refused(refusal) from None
        except MemoryError as error:
            missing = Refusal("memory", "out", f"more than is available ({error})", "arrays that fit into memory")
            raise self.refused(missing) from None

    def result(
        self, inputs: Sequence[Any], attributes: tuple[Any, ...], out: Any, threads: Any, specialize: Any
    ) -> Any:
        """The outputs of a call. Raises Refusal or MemoryError."""
        inputs, plan, key = self.prepared(inputs, attributes)
        special = specialize is not None or _specialize.setting is not False
        if special:
            plan = self.specialized(plan, specialize)
        made = self.run(plan, inputs, out, _team.thread_count(plan, threads))
        if key is not None and not special:
            _compiled_calls.answered(self, plan, key, inputs, out)
        return made

    def prepared(self, inputs: Sequence[Any], attributes: tuple[Any, ...]) -> tuple[Sequence[Any], Plan, Any]:
        """The inputs as arrays, the plan of their signature, and the key under which it was known before, if it was.

        What is resolved is what makes the key: nobody else can change it meanwhile.
        """
        arrays = [_own(array, info) for array, info in zip(self.arrays(inputs), self.inputs)]
        key = _remember.key(self.function, self.stating, arrays, attributes)
        plan: Plan | None = CALLS.get(key)
        before = None if plan is None else key
        if plan is None:
            known = _remember.attributes_of(key)
            plan = self.plan(self.resolve(*arrays, *(map(snapshot, attributes) if known is None else known)))
            if known is not None:
                _remember.remember(key, plan)
        return arrays, plan, before

    def specialized(self, plan: Plan, specialize: Any) -> Plan:
        """The plan with constants where the call wants it and it is there."""
        wanted = _specialize.get_specialize() if specialize is None else _specialize.check("specialize", specialize)
        if wanted is False or plan.specialisation is None:
            return plan
        return plan.specialisation.chosen(wanted) or plan

    def meant(self, arguments: Sequence[Any]) -> Any:
        """What a call means, or a Refusal."""
        return self.resolve(*arguments)

    def arrays(self, inputs: Sequence[Any]) -> list[Any]:
        """Every input as an array, its protocol resolved; what is only described stays so."""
        return [self.array(info, value) for info, value in zip(self.inputs, inputs)]

    def array(self, info: InputInfo, value: Any) -> Any:
        """One input as an array."""
        if value is None:
            if not info.optional:
                raise Refusal(f"{info.parameter}-missing", info.parameter, "None", "an array", wrong_kind=True)
            return None
        return value if type(value) is TensorSpec else to_array(info.parameter, value)

    def copies(self, given: Sequence[Any]) -> list[str]:
        """What a call copies before its kernel can read it, and why."""
        return [
            f"{info.parameter}: its elements are not {'aligned' if value.flags.c_contiguous else 'contiguous'}"
            for info, value in zip(self.inputs, given)
            if isinstance(value, np.ndarray) and not info.states_shape and self.copied(value)
        ]

    def copied(self, value: Array) -> bool:
        """Whether a call copies an array before its kernel can read it."""
        return not is_ready(value)

    def plan(self, resolution: Resolution) -> Plan:
        label = self.rows[resolution.row][0]
        part = self.stem(resolution).part
        isa, _ = self.choice(label, part)
        part = part if isa.fast else ""
        library = self.library(isa, label, part)
        plan = self.planned(resolution, isa, library)
        if not isa.fast:
            return plan
        constants = getattr(library.lib, f"{self.kernel_name(resolution, isa.name)}_fixed")
        literals = cache(partial(_specialize.literals, constants, plan.sizes, plan.ffi))
        fixed = cache(partial(self.fixed, literals, isa, label, part))
        special = _specialize.Special(literals, fixed, partial(self.planned, resolution, isa))
        return replace(plan, specialisation=special)

    def planned_for(
        self, resolution: Resolution, given: Sequence[Any], isa: _isa.Isa
    ) -> tuple[Plan | None, Callable[[int], int] | None, tuple[tuple[str, str], ...]]:
        """For `explain`: the plan of a fast kernel, the bytes of memory for so many workers, and schedules."""
        plan = self.plan(resolution) if isa.fast else None
        return plan, plan.scratch if plan else None, ()

    def fixed(
        self, constants: Callable[[], tuple[str, _specialize.Literals]], isa: _isa.Isa, label: str, part: str
    ) -> _specialize.Fixed | None:
        """The library for the constants that make a kernel faster; None where none do, or there are too many."""
        file, literals = constants()
        if not file:
            return None
        key = (self.function, isa.name, label, part, file, literals)
        return _specialize.library(key, literals, partial(self.unit, isa, label, part, file, literals))

    def planned(self, resolution: Resolution, isa: _isa.Isa, library: _load.Library) -> Plan:
        row = self.rows[resolution.row][1]
        kernel = self.kernel_name(resolution, isa.name)
        sizes = library.ffi.new(f"opwright_{self.function}_sizes *")
        for member in self.sizes:
            value: Any = resolution.values.get(member.name)
            if value is None:
                value = resolution.arrangements[member.name.removesuffix("_arrangement")]
            if member.length:
                value = (member.neutral,) * (member.length - len(value)) + tuple(value)
            setattr(sizes, member.name, value)
        ffi = library.ffi

        scratch = partial(getattr(library.lib, f"{kernel}_scratch"), sizes) if isa.fast else None
        data = tuple(info for info in self.inputs if not info.states_shape)

        def workers(number: int) -> tuple[Any, int]:
            team = ffi.cast("opwright_team *", _team.team(number)) if number > 1 else ffi.NULL
            return team, scratch(number) if scratch else 0

        return Plan(
            kernel=getattr(library.lib, kernel),
            entry=partial(library.address, kernel),
            sizes=sizes,
            ffi=ffi,
            null=ffi.NULL,
            address=partial(pointer, ffi) if "bfloat16" in row.values() else ffi.from_buffer,
            from_buffer=ffi.from_buffer,
            shape=resolution.shape,
            dtype=DTYPES[row[self.output]],
            terms=resolution.terms,
            inputs=tuple(
                (position, ffi.typeof(f"{C_TYPES[row[info.parameter]]} *"))
                for position, info in enumerate(self.inputs)
                if not info.states_shape
            ),
            output=ffi.typeof(f"{C_TYPES[row[self.output]]} *"),
            workers=cache(workers),
            alone=workers(1),
            scratch=scratch,
            quick=isa.fast
            and {row[info.parameter] for info in data} == {row[self.output]}
            and data in (self.inputs, self.inputs[:2])
            and 2 <= len(data) <= len(self.inputs) <= MIN_INPUTS,
            third=ffi.NULL if len(data) == 3 else None,
            bits=BITS.get(DTYPES[row[self.output]]),
        )

    def run(self, plan: Plan, inputs: Sequence[Any], out: Any, parts: int) -> Any:
        """Hand the arrays to the kernel; `parts` is the number of threads."""
        if out is None:
            written = target = allocated(plan.shape, plan.dtype)
        else:
            target = self.checked_out(plan, inputs, out)
            written = target if is_ready(target) else allocated(plan.shape, plan.dtype)
        arguments, address = [], plan.address
        for position, c_type in plan.inputs:
            value = inputs[position]
            if value is None:
                arguments.append(plan.null)
            elif value.flags.carray:  # asks for all that is_ready does, and more, at once
                arguments.append(address(c_type, value, False))
            else:
                arguments.append(address(c_type, contiguous(value)[0], False))
        arguments.append(address(plan.output, written, True))
        if plan.scratch is not None:
            team, size = plan.workers(parts)
            plan.kernel(*arguments, plan.sizes, team, memory(size))
        elif parts == 1:
            plan.kernel(*arguments, plan.sizes, 0, 1)
        else:
            _threads.run(partial(plan.kernel, *arguments, plan.sizes), parts)
        if out is None:
            return written
        if written is not target:
            target[...] = written
        return out

    def checked_out(self, plan: Plan, inputs: Sequence[Any], out: Any) -> Array:
        """The caller's array to write into, or a refusal: nothing has been written yet."""
        target = to_array("out", out)
        if target.dtype != plan.dtype:
            raise Refusal("out-dtype", "out", describe(target), f"dtype {plan.dtype}")
        if target.shape != plan.shape:
            raise Refusal("out-shape", "out", describe(target), f"shape {plan.shape}", plan.shape)
        if not target.flags.writeable:
            raise Refusal("out-read-only", "out", "a read-only array", "a writable array")
        if not target.flags.c_contiguous and overlaps_itself(target):
            raise Refusal("out-overlap", "out", "an array whose cells share memory", "cells that do not overlap")
        for info, value in zip(self.inputs, inputs):
            if isinstance(value, np.ndarray) and share_memory(target, value):
                raise Refusal(
                    "out-overlap", "out", f"an array that shares memory with {info.parameter}", "memory of its own"
                )
        return target


def _own(array: Any, info: InputInfo) -> Any:
    """An array over the same memory whose shape is the call's own; of one that states a shape, the extents too."""
    if type(array) is not np.ndarray:
        return array
    return array.copy() if info.states_shape and array.size <= MAX_EXTENTS else array.view()


def forget() -> None:
    """Drop all plans and read the environment anew; for tests that change OPWRIGHT_ISA."""
    _remember.forget()
    _compiled.forget()
