"""An operation of steps as the package calls it: strides of the arrays as they are, schedules, memory between steps.

In: the arguments of a public function. Out: the output, or a tuple of outputs. Kernels walk the strides that a call's
arrays have, so that views and broadcast inputs need no copies. What a call means is kept for calls like it; so is all
that its kernel is told, where the arrays have no gaps. Every refusal leaves as a SpecError and before anything is
written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from marshal import dumps
from typing import Any

import numpy as np
from numpy import empty, ndarray

from . import _specialize
from ._arrays import Array, overlaps_itself, pointer, share_memory, to_array
from ._axes import DTYPE_OF
from ._dtypes import DTYPES
from ._errors import Refusal
from ._numbers import snapshot
from ._operation import KEPT_BYTES, PLANS, SERIAL_TERMS, STREAMED, allocated, thread_count
from ._rules import dtype_name
from ._scratch import memory
from ._step_kernels import StepKernels, StepPlan, Steps, is_walkable, walkable
from ._words import describe

KEPT = 512  # calls of an operation whose resolution is kept


@dataclass(frozen=True)
class StepOperation(StepKernels):
    """An operation of steps that can be called."""

    def call_steps(
        self, inputs: Sequence[Any], attributes: tuple[Any, ...], out: Any, threads: Any, specialize: Any
    ) -> Any:
        """Run a call; see the generated function for what it takes and returns."""
        try:  # a call like one before, with arrays that have no gaps, is over in a few steps
            plan: Any = PLANS.get(self.step_key(inputs, attributes))
            if plan is not None and specialize is None and (out is None or type(out) is ndarray):
                result = self.repeated_steps(plan, inputs, out, threads)
                if result is not None:
                    return result
        except Exception:  # of whatever kind: what is refused is told below
            pass
        try:
            if specialize is not None:
                _specialize.check("specialize", specialize)
            given = self.arrays(inputs)
            said = tuple([snapshot(attribute) for attribute in attributes])
            targets = self.targets(out)
            resolution = self.resolved(given, self.completed(said, targets))
            return self.run_steps(resolution, given, said, targets, out, threads)
        except Refusal as refusal:
            raise self.refused(refusal) from None
        except MemoryError as error:
            missing = Refusal("memory", "out", f"more than there is ({error})", "arrays that fit into memory")
            raise self.refused(missing) from None

    def step_key(self, inputs: Sequence[Any], attributes: tuple[Any, ...]) -> Any:
        """A hashable key of all that a call without gaps depends on.

        Raises whatever it likes for arguments that are not of the plainest kind. Of what has a buffer marshal writes
        the bytes alone: keys of these are looked up, never kept.
        """
        key: list[Any] = [self.function]
        for value in inputs:
            if value is None:
                key.append(None)
            else:
                key += value.dtype, value.shape
        key.append(dumps(attributes, 2))
        return tuple(key)

    def repeated_steps(self, plan: StepPlan, inputs: Sequence[Any], out: Any, threads: Any) -> Any:
        """The result of a call without gaps; None where an array has some, or where `out` is not plainly apart."""
        address = plan.ffi.from_buffer
        arguments = []
        for value, (kind, bits), absent in zip(inputs, plan.inputs, plan.absent):
            if value is None:
                arguments.append(absent)
            elif type(value) is not ndarray or not value.flags.carray:
                return None
            else:
                arguments.append(address(kind, value if bits is None else value.getfield(bits)))
        arguments += plan.lists
        if out is not None:
            (kind, bits, shape, dtype), *more = plan.outputs
            if more or out.dtype is not dtype or out.shape != shape or not out.flags.carray:
                return None
            if any(value is not None and share_memory(out, value) for value in inputs):
                return None
            results = [out]
        else:
            results = [
                empty(shape, dtype) if plan.terms < STREAMED else allocated(shape, dtype)
                for _, _, shape, dtype in plan.outputs
            ]
        for result, (kind, bits, _, _) in zip(results, plan.outputs):
            arguments.append(address(kind, result if bits is None else result.getfield(bits), True))
        if threads is None and plan.terms < SERIAL_TERMS:
            team, size = plan.alone
        else:
            team, size = plan.workers(thread_count(plan, threads))  # type: ignore[arg-type]
        plan.kernel(*arguments, plan.sizes, team, memory(size))
        return results[0] if len(results) == 1 else tuple(results)

    def resolved(self, given: Sequence[Any], attributes: Sequence[Any]) -> Any:
        """What a call means; of calls like one before it is known."""
        key = self.step_signature(given, attributes)
        found = _resolutions.get(key) if key is not None else None
        if found is None:
            resolve: Any = self.resolve
            found = resolve(*given, *attributes)
            if key is not None:
                if len(_resolutions) >= KEPT:
                    _resolutions.clear()
                _resolutions[key] = found
        return found

    def step_signature(self, given: Sequence[Any], attributes: Sequence[Any]) -> Any:
        """A hashable key of all that `resolve` looks at, or None where an argument is not of the plainest kind."""
        if not all(value is None or type(value) is np.ndarray for value in given) or not all(map(_plain, attributes)):
            return None
        arrays = [None if value is None else (value.dtype, value.shape) for value in given]
        return (self.function, *arrays, dumps(tuple(attributes), 2))

    def targets(self, out: Any) -> list[Array | None]:
        """The caller's arrays to write into, in the order of the outputs."""
        if out is None:
            return [None] * len(self.outputs)
        if not isinstance(out, (tuple, list)):
            return [to_array("out", out)]
        return [None if array is None else to_array("out", array) for array in out]

    def completed(self, attributes: Sequence[Any], targets: Sequence[Array | None]) -> Sequence[Any]:
        """The attributes; a data type that is not said is that of the array to write into."""
        if not self.dtype_attributes:
            return attributes
        by_output = dict(zip(self.outputs, targets))
        said = list(attributes)
        for at, name in enumerate(self.attributes):
            target = by_output.get(self.dtype_attributes.get(name, ""))
            if said[at] is None and target is not None:
                short = {dtype: word for word, dtype in DTYPE_OF.items()}
                said[at] = short.get(dtype_name(target.dtype), str(target.dtype))
        return said

    def run_steps(
        self,
        resolution: Steps,
        given: Sequence[Any],
        attributes: tuple[Any, ...],
        targets: list[Array | None],
        out: Any,
        threads: Any,
    ) -> Any:
        """Hand the arrays to the kernel."""
        row = self.rows[resolution.row][1]
        targets = self.wanted(resolution, targets, out)
        for name, target in zip(self.outputs, targets):
            if target is not None:
                self.checked(name, target, resolution.outputs[name].shape, DTYPES[row[name]], given, targets)
        thread_count(resolution, threads)  # type: ignore[arg-type]  # which may be refused
        arrays: dict[str, Array] = {info.name: value for info, value in zip(self.inputs, given) if value is not None}
        arrays = {name: walkable(array) for name, array in arrays.items()}
        written: dict[str, Array] = {}
        for name, target in zip(self.outputs, targets):
            ready = target is not None and is_walkable(target)
            shape = resolution.outputs[name].shape
            written[name] = target if ready and target is not None else allocated(shape, DTYPES[row[name]])
        self.execute(self.step_plan(resolution, given, attributes, {**arrays, **written}), arrays, written, threads)
        results = []
        for name, target in zip(self.outputs, targets):
            if name not in resolution.absent:
                if target is not None and written[name] is not target:
                    target[...] = written[name]
                results.append(written[name] if target is None else target)
        if len(results) > 1:
            return tuple(results)
        return out if out is not None and not isinstance(out, (tuple, list)) else results[0]

    def wanted(self, resolution: Steps, targets: list[Array | None], out: Any) -> list[Array | None]:
        """The arrays to write into, one per output; a tuple names those that the call has."""
        if out is None:
            return targets
        names = [name for name in self.outputs if name not in resolution.absent]
        if len(targets) != len(names):
            raise Refusal("out-shape", "out", f"{len(targets)} arrays", f"{len(names)}: {', '.join(names)}")
        by_name = dict(zip(names, targets))
        return [by_name.get(name) for name in self.outputs]

    def checked(
        self, name: str, target: Array, shape: tuple[int, ...], dtype: Any, given: Sequence[Any], targets: Sequence[Any]
    ) -> None:
        """Refuse an array that `name` cannot be written into; nothing has been written yet."""
        if target.dtype != dtype:
            raise Refusal("out-dtype", "out", describe(target), f"dtype {dtype} for {name}")
        if target.shape != shape:
            raise Refusal("out-shape", "out", describe(target), f"shape {shape} for {name}", shape)
        if not target.flags.writeable:
            raise Refusal("out-read-only", "out", "a read-only array", "an array that may be written")
        if not target.flags.c_contiguous and overlaps_itself(target):
            raise Refusal("out-overlap", "out", "an array whose cells share memory", "cells that lie apart")
        others = [(info.parameter, value) for info, value in zip(self.inputs, given)]
        others += [("another output", other) for other in targets if other is not target]
        for what, value in others:
            if isinstance(value, np.ndarray) and share_memory(target, value):
                raise Refusal("out-overlap", "out", f"an array that shares memory with {what}", "memory of its own")

    def execute(self, plan: StepPlan, arrays: Mapping[str, Array], written: Mapping[str, Array], threads: Any) -> None:
        """Run a plan's kernel on arrays of any strides."""
        arguments = [
            absent if info.name not in arrays else pointer_of(plan.ffi, kind, arrays[info.name], False)
            for info, (kind, _), absent in zip(self.inputs, plan.inputs, plan.absent)
        ]
        arguments += plan.lists
        arguments += [
            pointer_of(plan.ffi, kind, written[name], True) for name, (kind, _, _, _) in zip(self.outputs, plan.outputs)
        ]
        team, size = plan.workers(thread_count(plan, threads))  # type: ignore[arg-type]
        plan.kernel(*arguments, plan.sizes, team, memory(size))

    def step_plan(
        self, resolution: Steps, given: Sequence[Any], attributes: tuple[Any, ...], arrays: Mapping[str, Array]
    ) -> StepPlan:
        """The plan of a call; that of one without gaps is kept."""
        plain = all(array.flags.c_contiguous for array in arrays.values())
        plain = plain and all(value is None or type(value) is ndarray for value in given)
        plain = plain and all(map(_plain, attributes)) and not self.stated_by_out(attributes) and not resolution.absent
        if not plain:
            return self.planned_steps(resolution, arrays)
        key = self.step_key(given, attributes)
        plan: Any = PLANS.get(key)
        if plan is None:
            plan = self.planned_steps(resolution, arrays)
            if len(key[-1]) <= KEPT_BYTES:
                if len(PLANS) >= KEPT:
                    PLANS.clear()
                PLANS[key] = plan
        found: StepPlan = plan
        return found

    def stated_by_out(self, attributes: Sequence[Any]) -> bool:
        """Whether the array to write into may say what an attribute does not."""
        said = dict(zip(self.attributes, attributes))
        return any(said[name] is None for name in self.dtype_attributes)


_resolutions: dict[Any, Any] = {}


def _plain(attribute: Any) -> bool:
    """Whether marshal tells `attribute` from all others."""
    if type(attribute) in (list, tuple):
        return all(type(entry) in (int, float) for entry in attribute)
    return attribute is None or type(attribute) in (int, float, str, bool)


def pointer_of(ffi: Any, ctype: Any, array: Array, writable: bool) -> Any:
    """A C pointer to the first element of an array of any strides."""
    if array.flags.c_contiguous:
        return pointer(ffi, ctype, array, writable)
    return ffi.cast(ctype, array.ctypes.data)
