"""An operation of steps as the package calls it: strides of the arrays as they are, phases, memory between steps.

In: the arguments of a public function. Out: the output, or a tuple of outputs. Kernels walk the strides that a call's
arrays have, so that views and broadcast inputs need no copies. Every refusal leaves as a SpecError and before anything
is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as member
from functools import partial
from typing import Any

import numpy as np

from . import _contractions, _isa, _remember, _specialize, _threads
from ._arrays import Array, overlaps_itself, pointer, share_memory, to_array
from ._axes import DTYPE_OF, Places
from ._description import InputInfo
from ._dtypes import C_TYPES, DTYPES
from ._errors import Refusal
from ._numbers import snapshot
from ._operation import Operation, allocated, thread_count
from ._rules import Extent, dtype_name
from ._words import describe


@dataclass(frozen=True)
class Output:
    """An output of a call: its shape, and where its axes stand."""

    shape: tuple[int, ...]
    places: Places


@dataclass(frozen=True)
class Steps:
    """A legal call. `terms` counts the terms of all steps.

    `absent` names the outputs that it does not have. `between` says how many cells each array between steps needs, and
    whether every part has its own.
    """

    row: int
    words: Mapping[str, str]
    values: Mapping[str, Extent]
    places: Mapping[str, Places]
    outputs: Mapping[str, Output]
    absent: frozenset[str]
    lists: Mapping[str, Sequence[float]]
    between: Mapping[str, tuple[bool, int]]
    terms: int
    letters: Mapping[str, tuple[int, ...]] = member(default_factory=dict)  # their extents, of contractions
    group_class: str | None = None

    @property
    def shape(self) -> Any:
        """The output's shape, or those of all outputs."""
        shapes = tuple(output.shape for name, output in self.outputs.items() if name not in self.absent)
        return shapes[0] if len(shapes) == 1 else shapes

    @property
    def arrangements(self) -> Mapping[str, int]:
        return {}


@dataclass(frozen=True)
class Field:
    """A member of the struct of sizes: `kind` says what it holds, `of` and `axis` of what."""

    name: str
    kind: str
    of: str
    axis: str = ""
    length: int = 0
    neutral: int = 0
    c_type: str = "int64_t"


@dataclass(frozen=True)
class ArrayInfo:
    """An array that kernels take: its role, its axes, and the number that it reads as where it is left out."""

    name: str
    role: str  # input, list, output, between
    axes: Mapping[str, str]  # axis to the symbol of its run; '' where it is none
    absent: float = 0.0
    dtype: str = ""  # of a list
    sizes: Mapping[str, str] = member(default_factory=dict)  # where inputs are joined: axis to the symbol of its extent


@dataclass(frozen=True)
class StepOperation(Operation):
    """What the generated module says of an operation of steps."""

    arrays_: tuple[ArrayInfo, ...] = ()
    fields: tuple[Field, ...] = ()
    outputs: tuple[str, ...] = ()
    phases: int = 1
    accumulate: tuple[str, ...] = ()  # the type that each row adds up in
    words: Mapping[str, tuple[str, ...]] = None  # type: ignore[assignment]  # of attributes that choose steps
    dtype_attributes: Mapping[str, str] = None  # type: ignore[assignment]  # attribute to the output that it states
    contractions: tuple[_contractions.Contraction, ...] = ()
    roles: tuple[tuple[str, Mapping[str, str]], ...] = ()  # of the letters of each assignment
    # By input that is a list of arrays: the axis along which they are joined, and, where kernels can take them one
    # after the other, the size that is that axis' extent.
    joined: Mapping[str, tuple[str, str]] = member(default_factory=dict)

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
        try:
            if specialize is not None:
                _specialize.check("specialize", specialize)
            given = self.arrays(inputs)
            attributes = tuple([snapshot(attribute) for attribute in attributes])
            targets = self.targets(out)
            resolution = self.resolved(given, self.completed(attributes, targets))
            return self.run_steps(resolution, given, targets, out, threads)
        except Refusal as refusal:
            raise self.refused(refusal) from None
        except MemoryError as error:
            missing = Refusal("memory", "out", f"more than there is ({error})", "arrays that fit into memory")
            raise self.refused(missing) from None

    def resolved(self, given: Sequence[Any], attributes: Sequence[Any]) -> Any:
        """What a call means; of calls like one before it is known."""
        counts = tuple([len(value) for value in given if type(value) is tuple])
        single = [part for value in given for part in _parts(value)]
        key = _remember.key((self.function, counts), (), single, tuple(attributes))
        found = _remember.CALLS.get(key)
        if found is None:
            told = _remember.attributes_of(key)
            resolve: Any = self.resolve
            found = resolve(*given, *(attributes if told is None else told))
            if told is not None:
                _remember.remember(key, found)
        return found

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
        self, resolution: Steps, given: Sequence[Any], targets: list[Array | None], out: Any, threads: Any
    ) -> Any:
        row = self.rows[resolution.row][1]
        label = self.rows[resolution.row][0]
        parts = thread_count(resolution, threads)  # type: ignore[arg-type]
        targets = self.wanted(resolution, targets, out)
        for name, target in zip(self.outputs, targets):
            if target is not None:
                self.checked(name, target, resolution.outputs[name].shape, DTYPES[row[name]], given, targets)
        inputs = {info.name: value for info, value in zip(self.inputs, given) if value is not None}
        arrays: dict[str, Array] = {name: _walkable(value) for name, value in inputs.items() if name not in self.joined}
        written: dict[str, Array] = {}
        for name, target in zip(self.outputs, targets):
            ready = target is not None and _is_walkable(target)
            shape = resolution.outputs[name].shape
            written[name] = target if ready and target is not None else allocated(shape, DTYPES[row[name]])
        for piece, own in self.pieces(resolution, {name: inputs[name] for name in self.joined}, {**arrays, **written}):
            self.execute(piece, label, row, own, parts)
        results = []
        for name, target in zip(self.outputs, targets):
            if name not in resolution.absent:
                if target is not None and written[name] is not target:
                    target[...] = written[name]
                results.append(written[name] if target is None else target)
        if len(results) > 1:
            return tuple(results)
        return out if out is not None and not isinstance(out, (tuple, list)) else results[0]

    def pieces(
        self, resolution: Steps, joined: Mapping[str, Sequence[Array]], arrays: Mapping[str, Array]
    ) -> Iterator[tuple[Steps, dict[str, Array]]]:
        """The calls of kernels that a call is made of: one, or one for each of the arrays that are joined."""
        if len(joined) != 1 or not self.joined[next(iter(joined))][1]:
            whole = {
                n: np.concatenate(parts, resolution.places[n][self.joined[n][0]][0]) for n, parts in joined.items()
            }
            yield resolution, {**arrays, **{name: _walkable(array) for name, array in whole.items()}}
            return
        (name, parts), *_ = joined.items()
        size = self.joined[name][1]
        places = {**resolution.places, **{output: found.places for output, found in resolution.outputs.items()}}
        begin = 0
        for part in parts:
            extent = part.shape[resolution.places[name][self.joined[name][0]][0]]
            own = {name: _walkable(part)}
            for other, array in arrays.items():
                axes = next(info for info in self.arrays_ if info.name == other).sizes
                spots = [places[other][axis][0] for axis, symbol in axes.items() if symbol == size]
                cut = [slice(begin, begin + extent) if n in spots else slice(None) for n in range(array.ndim)]
                own[other] = array[tuple(cut)] if spots else array
            yield replace(resolution, values={**resolution.values, size: extent}), own
            begin += extent

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
        others = [(i.parameter, part) for i, value in zip(self.inputs, given) for part in _parts(value)]
        others += [("another output", other) for other in targets if other is not target]
        for what, value in others:
            if isinstance(value, np.ndarray) and share_memory(target, value):
                raise Refusal("out-overlap", "out", f"an array that shares memory with {what}", "memory of its own")

    def execute(
        self, resolution: Steps, label: str, row: Mapping[str, str], arrays: dict[str, Array], parts: int
    ) -> None:
        """Hand the arrays to the kernel, phase by phase."""
        accumulate = DTYPES[self.accumulate[resolution.row]]
        places = dict(resolution.places)
        for info in self.arrays_:
            if info.role == "between":
                own, cells = resolution.between[info.name]
                arrays[info.name] = allocated((max(cells, 1) * (parts if own else 1),), accumulate)
            elif info.role == "list":
                arrays[info.name] = np.asarray(resolution.lists[info.name], np.dtype(info.dtype))
                places[info.name] = {"E": (0,)}
            elif info.role == "output":
                places[info.name] = resolution.outputs[info.name].places
            elif info.name not in arrays:  # one cell stands for an input that is left out
                arrays[info.name] = np.full((), info.absent, DTYPES[row[info.name]])
        products, copied = self.products(resolution, arrays, places, accumulate)
        kernel: Any = None
        for phase in range(self.phases):
            if phase in products:
                products[phase].run(parts)
            elif phase not in copied:
                kernel = kernel or self.kernel(resolution, label, arrays, places)
                if parts == 1:
                    kernel(phase, 0, 1)
                else:
                    _threads.run(partial(kernel, phase), parts)

    def products(
        self, resolution: Steps, arrays: Mapping[str, Array], places: Mapping[str, Places], accumulate: np.dtype[Any]
    ) -> tuple[dict[int, _contractions.Product], set[int]]:
        """The phases that the engine of contractions computes, and those that copy what it has already put in place."""
        found: dict[int, _contractions.Product] = {}
        copied = set()
        for one in self.contractions:
            product = _contractions.prepared(one, resolution.letters, arrays, places, accumulate)
            if product is not None:
                found[one.phase] = product
                copied |= {one.copy} if product.direct else set()
        return found, copied

    def kernel(
        self, resolution: Steps, label: str, arrays: Mapping[str, Array], places: Mapping[str, Places]
    ) -> Callable[[int, int, int], object]:
        """The loops of a call, for a phase, a part and the number of parts."""
        isa, _ = self.choice(label)
        library = self.library(isa, label, "")
        ffi = library.ffi
        sizes = self.sizes_of(resolution, places, arrays, ffi)
        pointers = [
            pointer_of(ffi, ffi.typeof(f"{self.c_type(info, resolution.row)} *"), arrays[info.name], info.role)
            for info in self.arrays_
        ]
        return partial(getattr(library.lib, f"{self.function}_{label}_{isa.name}"), *pointers, sizes)

    def sizes_of(self, resolution: Steps, places: Mapping[str, Places], arrays: Mapping[str, Array], ffi: Any) -> Any:
        """The struct of sizes of a call."""
        sizes = ffi.new(f"opwright_{self.function}_sizes *")
        runs = self.runs(resolution, places, arrays)
        for field in self.fields:
            value: Any
            if field.kind == "value":
                value = resolution.values[field.of]
                if field.length:
                    value = (field.neutral,) * (field.length - len(value)) + tuple(value)
            elif field.kind == "rank":
                value = len(runs[field.of][0])
            elif field.kind == "extents":
                value = runs[field.of][0]
            elif field.kind == "word":
                value = self.words[field.of].index(resolution.words[field.of])
            elif field.kind == "cells":
                value = max(resolution.between[field.of][1], 1)
            else:
                value = self.strides(field, places, arrays, runs)
            setattr(sizes, field.name, value)
        return sizes

    def strides(
        self, field: Field, places: Mapping[str, Places], arrays: Mapping[str, Array], runs: Mapping[str, Any]
    ) -> Any:
        """How far neighbours along an axis lie apart, in elements; 0 where one cell serves all."""
        info = next(info for info in self.arrays_ if info.name == field.of)
        symbol = info.axes[field.axis]
        if symbol:
            return runs[symbol][1][(field.of, field.axis)]
        steps = _steps_of(arrays[field.of], places.get(field.of, {}).get(field.axis, ()))
        if field.length:
            return (0,) * (field.length - len(steps)) + tuple(steps)
        return steps[0] if steps else 0

    def runs(
        self, resolution: Steps, places: Mapping[str, Places], arrays: Mapping[str, Array]
    ) -> dict[str, tuple[tuple[int, ...], dict[tuple[str, str], tuple[int, ...]]]]:
        """Of every run its extents, and the strides of each array along it, with as few axes as all arrays allow."""
        found = {}
        for symbol in dict.fromkeys(field.of for field in self.fields if field.kind == "rank"):
            extents = resolution.values[symbol]
            along = {}
            for info in self.arrays_:
                for axis in (axis for axis, of in info.axes.items() if of == symbol):
                    steps = _steps_of(arrays[info.name], places.get(info.name, {}).get(axis, ()))
                    along[info.name, axis] = (0,) * (len(extents) - len(steps)) + tuple(steps)
            found[symbol] = _merged(extents, along)
        return found

    def c_type(self, info: ArrayInfo, row: int) -> str:
        if info.role == "between":
            return C_TYPES[self.accumulate[row]]
        return C_TYPES[info.dtype if info.role == "list" else self.rows[row][1][info.name]]

    def declarations(self, isa: _isa.Isa, labels: Sequence[str], part: str) -> str:
        """The C declarations of the kernels of a library."""
        members = "".join(f"    {f.c_type} {f.name}{f'[{f.length}]' if f.length else ''};\n" for f in self.fields)
        sizes = f"opwright_{self.function}_sizes"
        lines = ["typedef uint16_t opwright_bf16;\ntypedef uint16_t opwright_f16;\n"]
        lines.append(f"typedef struct {sizes} {{\n{members}}} {sizes};\n")
        for number, (label, _) in enumerate(self.rows):
            pointers = [
                f"{'const ' if info.role in ('input', 'list') else ''}{self.c_type(info, number)} *{info.name}"
                for info in self.arrays_
            ]
            head = f"void {self.function}_{label}_{isa.name}({', '.join(pointers)}, const {sizes} *sizes"
            lines.append(f"{head}, int64_t phase, int64_t part, int64_t parts);\n")
        return "".join(lines)

    def copied(self, value: Array) -> bool:
        """Whether kernels cannot walk an array as it is."""
        return not _is_walkable(value)


def _parts(value: Any) -> tuple[Any, ...]:
    return value if type(value) is tuple else (value,)


def pointer_of(ffi: Any, ctype: Any, array: Array, role: str) -> Any:
    """A C pointer to the first element of an array of any strides."""
    if array.flags.c_contiguous:
        return pointer(ffi, ctype, array, role in ("output", "between"))
    return ffi.cast(ctype, array.ctypes.data)


def _is_walkable(array: Array) -> bool:
    """Whether the elements of an array stand at whole multiples of their size from each other."""
    return array.flags.aligned and all(stride % array.itemsize == 0 for stride in array.strides)


def _walkable(array: Array) -> Array:
    return array if _is_walkable(array) else array.copy(order="C")


def _steps_of(array: Array, spots: Sequence[int]) -> tuple[int, ...]:
    """The strides of some axes in elements; 0 for those of extent 1, of which any cell is the only one."""
    return tuple(0 if array.shape[spot] == 1 else array.strides[spot] // array.itemsize for spot in spots)


def _merged(
    extents: Sequence[int], along: Mapping[tuple[str, str], tuple[int, ...]]
) -> tuple[tuple[int, ...], dict[tuple[str, str], tuple[int, ...]]]:
    """Axes put together where every array goes through both as through one; those of extent 1 left out."""
    kept: list[int] = []
    steps: list[list[int]] = []  # per kept axis, the step of every array
    for axis, extent in enumerate(extents):
        if extent == 1:
            continue
        own = [strides[axis] for strides in along.values()]
        if kept and all(outer == inner * extent for outer, inner in zip(steps[-1], own)):
            kept[-1] *= extent
            steps[-1] = own
        else:
            kept.append(extent)
            steps.append(own)
    if not kept:
        kept, steps = [1], [[0] * len(along)]
    return tuple(kept), {key: tuple(step[at] for step in steps) for at, key in enumerate(along)}
