"""An operation of steps as the package calls it: strides of the arrays as they are, schedules, memory between steps.

In: the arguments of a public function. Out: the output, or a tuple of outputs. Kernels walk the strides that a call's
arrays have, so that views and broadcast inputs need no copies. What a call means is kept for calls like it; so is all
that its kernel gets, where the arrays have no gaps. Every refusal leaves as a SpecError and before anything is
written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from marshal import dumps
from typing import Any

import numpy as np
from numpy import ndarray

from . import _compiled_calls, _isa, _list_calls, _remember, _specialize
from ._arrays import Array, allocated, overlaps_itself, pointer, share_memory, to_array, turned
from ._axes import DTYPE_OF
from ._description import InputInfo
from ._dtypes import DTYPES
from ._errors import Refusal
from ._numbers import snapshot
from ._orders import order_of, strides_of
from ._quick import of_views
from ._remember import CALLS
from ._rules import dtype_name
from ._scratch import memory
from ._step_kernels import StepKernels, StepPlan, Steps, is_walkable, walkable
from ._team import thread_count
from ._words import describe

NONE = dumps(())


class StepOperation(StepKernels):
    """An operation of steps that can be called."""

    lists_outputs = True

    @property
    def states_dtypes(self) -> bool:
        return bool(self.dtype_attributes)

    def array(self, info: InputInfo, value: Any) -> Any:
        """One input as an array, or as a tuple of those that are joined."""
        if info.name not in self.joined or value is None:
            return super().array(info, value)
        if not isinstance(value, (list, tuple)) or not value:
            got = "no arrays" if isinstance(value, (list, tuple)) else describe(value)
            raise Refusal(
                f"{info.parameter}-kind", info.parameter, got, "a list of at least one array", wrong_kind=True
            )
        return tuple([super(StepOperation, self).array(info, part) for part in snapshot(value)])

    def call(self, inputs: Sequence[Any], attributes: tuple[Any, ...], out: Any, threads: Any, specialize: Any) -> Any:
        """Run a call; see the generated function for what it takes and returns."""
        try:  # a call like one before, with arrays of the same strides, is over in a few steps
            first = inputs[0] if inputs else None
            if specialize is None and (first is None or type(first) is ndarray):
                key = self.key_of_plan(inputs, attributes, out)
                plan: Any = CALLS.get(key)
                if plan is None and ndarray in map(type, attributes):
                    key = self.key_of_plan(inputs, _remember.frozen(attributes), out)
                    plan = CALLS.get(key)
                result = self.like_before(plan, key, inputs, out, threads)
                if result is not None:
                    return result
        except Exception:  # of whatever kind: the refusal is made below
            pass
        return self.called(inputs, attributes, out, threads, specialize)

    def result(
        self, inputs: Sequence[Any], attributes: tuple[Any, ...], out: Any, threads: Any, specialize: Any
    ) -> Any:
        """The outputs of a call. Raises Refusal or MemoryError."""
        if specialize is not None:
            _specialize.check("specialize", specialize)
        single = out is not None and not isinstance(out, (tuple, list))
        out = out if single or out is None else tuple(out)  # a list may change meanwhile
        given, targets = self.arrays(inputs), self.targets(out)
        own = targets[0] if single else None if out is None else tuple(targets)
        found = None
        if specialize is None:
            with suppress(Exception):  # of whatever kind, as for arrays of NumPy
                found = self.before(given, _remember.plain(attributes), own, threads)
        if found is None:
            found = self.new(given, attributes, targets, own, threads)
        if out is None or single:
            return found if out is None else out
        results = found if type(found) is tuple else (found,)
        results = tuple([one if target is None else target for one, target in zip(results, out, strict=True)])
        return results if len(results) > 1 else results[0]

    def before(self, given: Sequence[Any], attributes: tuple[Any, ...], out: Any, threads: Any) -> Any:
        """The outputs of a call like one before that has objects of other libraries, such as tensors, as arrays.

        A product of 64x64x64 f32 of PyTorch's tensors takes 0.07 of the time (AMD Zen 4, Python 3.11). KeyError, or
        None, for a call unlike all before.
        """
        key = self.key_of_lists(given, _remember.frozen(attributes), out)
        return self.like_before(CALLS.get(key), key, given, out, threads)

    def like_before(self, plan: Any, key: Any, inputs: Sequence[Any], out: Any, threads: Any) -> Any:
        """The outputs of a call with this plan and key, or of views like those of a call before; KeyError for others.

        None where an array turns out not to be as it was there.
        """
        known: Any = plan
        result = None if plan is None else plan.quick(inputs, out, threads)
        if result is None:
            known = CALLS[key, _strides(inputs), _strides(_targets(out))]
            result = known.run(inputs, out, threads)
        if result is not None:
            _compiled_calls.answered(self, known, key, inputs, out)
        return result

    def new(
        self, given: Sequence[Any], attributes: tuple[Any, ...], targets: list[Array | None], out: Any, threads: Any
    ) -> Any:
        """The outputs of a call unlike all before, whose inputs and `out` are arrays. Raises Refusal or MemoryError."""
        plain = _remember.plain(attributes)
        key, known = self.remembered(given, plain, out)
        own = tuple([snapshot(attribute) for attribute in attributes]) if known is None else known
        try:
            resolution = self.resolved(given, self.completed(own, targets))
        except Refusal:
            if plain is attributes:
                raise
            own = tuple([snapshot(attribute) for attribute in attributes])  # a refusal says what was given
            resolution = self.resolved(given, self.completed(own, targets))
        return self.run_steps(resolution, given, own, targets, out, threads, key)

    def remembered(
        self, inputs: Sequence[Any], attributes: tuple[Any, ...], out: Any
    ) -> tuple[Any, tuple[Any, ...] | None]:
        """The key under which a plan may be remembered, and the attributes as it holds them; None where none may.

        The key is made of the caller's lists: marshal's bytes tell how many hold a list, too, and copies of lists would
        make a key that no call looks up.
        """
        plain = all(
            value is None or type(value) is ndarray for some in (inputs, _targets(out)) for value in _flat(some)
        )
        try:
            key = self.key_of_lists(inputs, _remember.frozen(attributes), out) if plain else None
            known = _remember.attributes_of(key)
        except Exception:  # of whatever kind: an entry of an attribute may be anything
            return None, None
        return None if known is None else key, known

    def key_of_plan(self, inputs: Sequence[Any], attributes: tuple[Any, ...], out: Any) -> Any:
        """A hashable key of all that a call without gaps depends on; see `_remember.key`.

        Raises whatever it likes for inputs that are no arrays, and for attributes that are not of the plainest kind.
        """
        words = dumps(attributes) if attributes else NONE
        stated = None
        if out is not None and self.dtype_attributes:
            stated = out.dtype if type(out) is ndarray else tuple([target.dtype for target in out])
        if len(inputs) == 1:
            (a,) = inputs
            return self.function, words, stated, a.dtype, a.shape
        if len(inputs) == 2 and inputs[1] is not None:
            a, b = inputs
            return self.function, words, stated, a.dtype, a.shape, b.dtype, b.shape
        if len(inputs) == 3 and inputs[1] is not None:
            a, b, c = inputs
            if c is None:
                return self.function, words, stated, a.dtype, a.shape, b.dtype, b.shape, None
            return self.function, words, stated, a.dtype, a.shape, b.dtype, b.shape, c.dtype, c.shape
        key: list[Any] = [self.function, words, stated]
        for value in inputs:
            if value is None:
                key.append(None)
            else:
                key += value.dtype, value.shape
        return tuple(key)

    def key_of_lists(self, inputs: Sequence[Any], attributes: tuple[Any, ...], out: Any) -> Any:
        """The same, where inputs may be tuples of arrays that are joined."""
        if not self.joined:
            return self.key_of_plan(inputs, attributes, out)
        counts = tuple([len(value) if type(value) is tuple else -1 for value in inputs])
        return *self.key_of_plan((*_flat(inputs), None, None), attributes, out), counts

    def resolved(self, given: Sequence[Any], attributes: Sequence[Any]) -> Any:
        """What a call means; of calls like one before it is known."""
        counts = tuple([len(value) for value in given if type(value) is tuple])
        single = [part for value in given for part in _parts(value)]
        key = _remember.key((self.function, counts), (), single, tuple(attributes))
        found = _remember.CALLS.get(key)
        if found is None:
            known = _remember.attributes_of(key)
            found = self.meant((*given, *(attributes if known is None else known)))
            if known is not None:
                _remember.remember(key, found)
        return found

    def meant(self, arguments: Sequence[Any]) -> Any:
        """What a call means, and what it does for the program of sizes that fit, if its sizes do."""
        found: Any = self.resolve(*arguments)
        if self.fitting is not None:
            resolve: Any = self.fitting[1].resolve
            with suppress(Refusal):
                return replace(found, fitting=resolve(*arguments))
        return found

    def targets(self, out: Any) -> list[Array | None]:
        """The caller's arrays to write into, in the order of the outputs."""
        if out is None:
            return [None] * len(self.outputs)
        if not isinstance(out, (tuple, list)):
            return [to_array("out", out)]
        return [None if array is None else to_array("out", array) for array in out]

    def completed(self, attributes: Sequence[Any], targets: Sequence[Array | None]) -> Sequence[Any]:
        """The attributes; a data type that is not stated is that of the array to write into.

        Arrays fewer than the outputs are those of all calls: which of several others this call has is not known yet.
        """
        if not self.dtype_attributes:
            return attributes
        names = self.outputs
        if len(targets) < len(names):
            always = tuple([name for name in names if name not in self.conditional])
            names = always if len(targets) == len(always) else ()
        by_output = dict(zip(names, targets))
        stated = list(attributes)
        for at, name in enumerate(self.attributes):
            target = by_output.get(self.dtype_attributes.get(name, ""))
            if stated[at] is None and target is not None:
                short = {dtype: word for word, dtype in DTYPE_OF.items()}
                stated[at] = short.get(dtype_name(target.dtype), str(target.dtype))
        return stated

    def run_steps(
        self,
        resolution: Steps,
        given: Sequence[Any],
        attributes: tuple[Any, ...],
        targets: list[Array | None],
        out: Any,
        threads: Any,
        key: Any,
    ) -> Any:
        """Hand the arrays to the kernel, those that are joined one after the other where that can be."""
        row = self.rows[resolution.row][1]
        workers = thread_count(resolution, threads)
        targets = self.wanted(resolution, targets, out)
        for name, target in zip(self.outputs, targets):
            if target is not None:
                self.checked(name, target, resolution, DTYPES[row[name]], given, targets)
        inputs = {info.name: value for info, value in zip(self.inputs, given) if value is not None}
        arrays: dict[str, Array] = {name: walkable(value) for name, value in inputs.items() if name not in self.joined}
        orders = self.orders(resolution, arrays)
        written: dict[str, Array] = {}
        for name, target in zip(self.outputs, targets):
            ready = target is not None and is_walkable(target)
            made = resolution.outputs[name].shape, DTYPES[row[name]], orders[name]
            written[name] = target if ready and target is not None else allocated(*made)
        whole = {**arrays, **written}
        plain = key is not None and all(
            value is None or whole[name] is value
            for name, value in (*inputs.items(), *zip(self.outputs, targets))
            if name not in self.joined
        )
        found: Any = None
        if self.joined:
            lists = {name: inputs[name] for name in self.joined if name in inputs}
            calls = _list_calls.pieces(self, resolution, lists, whole)
            pieces = [(self.planned_steps(piece, own), own) for piece, own in calls]
            for plan, own in pieces:
                self.execute(plan, own, workers)
            if plain and all(is_walkable(part) for parts in lists.values() for part in parts):
                found = _list_calls.quick(self, resolution, pieces, whole, orders)
        else:
            plan = self.plan_of(resolution, whole, key)
            self.execute(plan, whole, workers)
            found = of_views(plan, [orders[name] for name in self.outputs]) if plain else None
        if found is not None:
            _remember.remember((key, _strides(given), _strides(_targets(out))), found)
        results = []
        for name, target in zip(self.outputs, targets):
            if name not in resolution.absent:
                if target is not None and written[name] is not target:
                    target[...] = written[name]
                results.append(written[name] if target is None else target)
        return tuple(results) if len(results) > 1 else results[0]

    def plan_of(self, resolution: Steps, arrays: Mapping[str, Array], key: Any) -> StepPlan:
        """The plan of a call, which is kept under its key, and where arrays have gaps by their strides, too."""
        plain = all(array.flags.c_contiguous for array in arrays.values())
        if key is None:
            return self.planned_steps(resolution, arrays)
        own = key if plain else (key, *[array.strides for array in arrays.values()])
        found = CALLS.get(own)
        if found is None:
            found = self.planned_steps(resolution, arrays)
            _remember.remember(own, found)
        plan: StepPlan = found
        return plan

    def orders(self, resolution: Steps, arrays: Mapping[str, Array]) -> dict[str, tuple[int, ...] | None]:
        """By output, the order in which its axes lie in memory if the call gives no array for it."""
        orders = {}
        for name, output in resolution.outputs.items():
            alike, unlike = self.alike.get(name, ()), self.unlike.get(name, ())
            decide = {one: array for one, array in arrays.items() if one not in unlike}
            orders[name] = order_of(output.places, decide, resolution.places, alike)
        return orders

    def written_by(self, resolution: Steps) -> tuple[str, ...]:
        return tuple(name for name in self.outputs if name not in resolution.absent)

    def written(self, resolution: Steps, outputs: Sequence[Array | None]) -> dict[str, Array]:
        """The arrays that a call writes, described where there is none for one."""
        row = self.rows[resolution.row][1]
        return {
            name: _described(resolution.outputs[name].shape, DTYPES[row[name]]) if array is None else array
            for name, array in zip(self.outputs, outputs)
        }

    def wanted(self, resolution: Steps, targets: list[Array | None], out: Any) -> list[Array | None]:
        """The arrays to write into, one per output; a tuple names those that the call has."""
        if out is None:
            return targets
        names = self.written_by(resolution)
        if len(targets) != len(names):
            raise Refusal("out-shape", "out", f"{len(targets)} arrays", f"{len(names)}: {', '.join(names)}")
        by_name = dict(zip(names, targets))
        return [by_name.get(name) for name in self.outputs]

    def checked(
        self, name: str, target: Array, resolution: Steps, dtype: Any, given: Sequence[Any], targets: Sequence[Any]
    ) -> None:
        """Refuse an array that `name` cannot be written into; nothing has been written yet."""
        shape, places = resolution.outputs[name].shape, resolution.outputs[name].places
        if target.dtype != dtype:
            raise Refusal("out-dtype", "out", describe(target), f"dtype {dtype} for {name}")
        if target.shape != shape:
            raise Refusal("out-shape", "out", describe(target), f"shape {shape} for {name}", shape)
        if not target.flags.writeable:
            raise Refusal("out-read-only", "out", "a read-only array", "a writable array")
        if not target.flags.c_contiguous and overlaps_itself(target):
            raise Refusal("out-overlap", "out", "an array whose cells share memory", "cells that do not overlap")
        same = [other for other in self.in_place.get(name, ()) if resolution.places[other] == places]
        others = [
            (info.parameter, part)
            for info, value in zip(self.inputs, given)
            for part in _parts(value)
            if not (info.name in same and _same_cells(part, target))
        ]
        others += [("another output", other) for at, other in zip(self.outputs, targets) if at != name]
        for what, value in others:
            if isinstance(value, np.ndarray) and share_memory(target, value):
                raise Refusal("out-overlap", "out", f"an array that shares memory with {what}", "memory of its own")

    def execute(self, plan: StepPlan, arrays: Mapping[str, Array], workers: int) -> None:
        """Run a plan on arrays of any strides."""
        ffi = plan.ffi
        arguments = [
            absent if info.name not in arrays else pointer_of(ffi, kind, arrays[info.name], False)
            for info, (kind, _), absent in zip(self.inputs, plan.inputs, plan.absent)
        ]
        arguments += plan.lists
        arguments += [
            pointer_of(ffi, kind, arrays[name], True) for name, (kind, _, _, _) in zip(self.outputs, plan.outputs)
        ]
        team, size = plan.workers(workers)
        plan.kernel(*arguments, plan.sizes, 0, plan.phases, team, memory(size))

    def copies(self, given: Sequence[Any]) -> list[str]:
        """What a call copies before its kernel can read it, and why."""
        lists = [name for name, (_, size) in self.joined.items() if not size or len(self.joined) > 1]
        return [*super().copies(given), *(f"{name}: steps read several of its arrays at once" for name in lists)]

    def planned_for(self, resolution: Any, given: Sequence[Any], isa: _isa.Isa) -> tuple[None, Any, Any]:
        row = self.rows[resolution.row][1]
        arrays = {}
        for info, value in zip(self.inputs, given):
            if type(value) is tuple:  # described as the array that they make
                spot = resolution.places[info.name][self.joined[info.name][0]][0]
                shape = list(value[0].shape)
                shape[spot] = sum(part.shape[spot] for part in value)
                arrays[info.name] = _described(tuple(shape), value[0].dtype)
            elif value is not None:
                arrays[info.name] = _laid_out(value)
        orders = self.orders(resolution, arrays)
        for name, output in resolution.outputs.items():
            arrays[name] = _described(output.shape, DTYPES[row[name]], orders[name])
        plan = self.planned_steps(resolution, arrays)
        text, other = self.fitting if self.fitting and resolution.fitting is not None else ("", self)
        rows = [("sizes that fit", text)] if text else []
        rows += [
            (f"letters of {text}", ", ".join(f"{n} {role}" for n, role in found.items())) for text, found in other.roles
        ]
        rows += self.described_products(plan)
        rows += [(f"lanes along {letter}", f"{row.name}: {row.then}") for letter, row in plan.schedules]
        rows += [("phases", plan.blocks.described())] if plan.blocks else []
        return None, lambda workers: plan.workers(workers)[1], tuple(rows)


def _same_cells(value: Any, target: Array) -> bool:
    """Whether an input is the array to write into: of the same memory, cell by cell."""
    return (
        isinstance(value, np.ndarray)
        and (value.dtype, value.shape) == (target.dtype, target.shape)
        and all(n == 1 or a == b for n, a, b in zip(value.shape, value.strides, target.strides))
        and value.__array_interface__["data"][0] == target.__array_interface__["data"][0]
    )


def _targets(out: Any) -> tuple[Any, ...]:
    return tuple(out) if isinstance(out, (tuple, list)) else (out,)


def _parts(value: Any) -> tuple[Any, ...]:
    return value if type(value) is tuple else (value,)


def pointer_of(ffi: Any, ctype: Any, array: Array, writable: bool) -> Any:
    """A C pointer to the first element of an array of any strides."""
    if array.flags.c_contiguous:
        return pointer(ffi, ctype, array, writable)
    return ffi.cast(ctype, array.ctypes.data)


def _strides(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(
        [None if value is None else _strides(value) if type(value) is tuple else value.strides for value in values]
    )


def _flat(values: Sequence[Any]) -> Iterator[Any]:
    return (part for value in values for part in _parts(value))


def _described(shape: tuple[int, ...], dtype: np.dtype[Any], order: tuple[int, ...] | None = None) -> Array:
    """An array whose shape, dtype and strides are those of one without gaps; nobody may look at its cells."""
    if order is not None:
        return turned(_described(tuple([shape[axis] for axis in order]), dtype), order)
    steps = strides_of(shape, dtype.itemsize)
    raw = np.lib.stride_tricks.as_strided(np.empty(1, f"u{dtype.itemsize}"), shape, steps)
    return raw.view(dtype)  # NumPy's interface of arrays cannot name all types of ml_dtypes


def _laid_out(value: Any) -> Array:
    if isinstance(value, (list, tuple)):  # of arrays that are joined, the first
        return _laid_out(value[0])
    if type(value) is ndarray:
        return walkable(value)
    return _described(value.shape, value.dtype)
