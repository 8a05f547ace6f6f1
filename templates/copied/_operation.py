"""One operation as the package calls it: resolve a call, choose its kernel, hand it the arrays.

In: the arguments of a public function. Out: the output array. What a call means is generated, per operation, as a pure
function `resolve`; its answers are kept per signature (shapes, dtypes, attribute values), so that a repeated call costs
a look-up. Every refusal leaves as a SpecError and before anything is written.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import product
from marshal import dumps
from pathlib import Path
from typing import Any

import numpy as np

from . import _engine, _isa, _load, _scratch, _specialize, _team, _threads
from ._arrays import BITS, Array, contiguous, describe, is_ready, overlaps_itself, pointer, share_memory, to_array
from ._engine import DEPTHWISE
from ._errors import Refusal
from ._rules import DTYPES, Resolution
from ._units import Unit

ArrayLike = Any  # an array, or anything with __array_interface__ or DLPack
Integers = Sequence[int] | np.ndarray[Any, Any]

HERE = Path(__file__).parent
API = "docs/API.md"
STREAMED = 4 * 2**20  # bytes from which on kernels may store past the caches what begins at a cache line
CACHE_LINE = 64
# Rules of the package itself, each stated in a section of API.md.
API_RULES = {"out": "out", "threads": "threads", "specialize": "specialize", "memory": "memory"}
C_TYPES = {"float32": "float", "float64": "double", "bfloat16": "opwright_bf16", "float16": "opwright_f16"}
KEPT_PLANS = 512
KEPT_EXTENTS = 16  # of a vector that states a shape, as part of a key
# Fewer terms than this are done by the calling thread. Two threads begin to pay where one needs 40 us, or 100 us if the
# other sleeps (AVX-512, f32): at 2**18 terms with few channels or depthwise; denser problems split from 2**21 on only.
SERIAL_TERMS = 2**18


@dataclass(frozen=True)
class InputInfo:
    """An input: its parameter, whether it may be absent, and whether it is a vector that states a shape."""

    name: str
    parameter: str
    optional: bool
    states_shape: bool


@dataclass(frozen=True)
class SizeField:
    """A member of the struct of sizes: its symbol, its length (0: one number), what stands for missing axes."""

    name: str
    length: int
    neutral: int
    c_type: str = "int64_t"


@dataclass(frozen=True)
class VariantInfo:
    """One kernel of the package: what it is specialised for, and its C name."""

    name: str
    op: str
    dtype: str
    layouts: tuple[str, ...]
    group_class: str | None
    isa: str


@dataclass(frozen=True)
class Plan:
    """A resolved signature, ready to run: all that a repeated call would otherwise look up again."""

    kernel: Any
    sizes: Any
    ffi: Any
    null: Any  # of ffi
    address: Callable[[Any, Array, bool], Any]  # from a C type, an array, and whether it is written to
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    terms: int
    inputs: tuple[tuple[int, Any], ...]  # position among the call's inputs, C type of the pointer
    output: Any
    workers: Callable[[int], tuple[Any, int]]  # for a number of them, what the kernel takes as its team, and `scratch`
    scratch: Callable[[int], int] | None  # bytes for a number of workers; None: a kernel that computes a part
    uniform: bool  # a fast kernel, and all tensors are of one dtype: what the generated functions look after themselves
    bits: np.dtype[Any] | None  # the dtype in whose name a uniform plan's memory has a buffer; None: its own
    fixed: Callable[[Any, Any], int] | None = None  # what its kernel says of literals, given `sizes` and room for them
    special: _specialize.Special | None = None


@dataclass(frozen=True)
class Operation:
    """What the generated module says of an operation."""

    name: str
    function: str
    inputs: tuple[InputInfo, ...]
    output: str
    attributes: tuple[str, ...]
    defaults: Mapping[str, object]
    rows: tuple[tuple[str, Mapping[str, str]], ...]
    layouts: Mapping[str, tuple[str, ...]]
    classes: tuple[tuple[str, str], ...]
    fast: Mapping[str, str]  # dtype rows that have fast kernels, each with what these solve for: y, x or w
    sizes: tuple[SizeField, ...]
    named: Mapping[str, str]
    arrangements: Mapping[str, tuple[str, ...]]
    resolve: Callable[..., Resolution]

    @cached_property
    def variants(self) -> tuple[VariantInfo, ...]:
        """Every kernel, in the order of dtype row, layouts, group class and instruction set."""
        classes: Sequence[str | None] = [name for name, _ in self.classes] or [None]
        choices = [(label, list(product(*self.layouts.values())), self.isas(label)) for label, _ in self.rows]
        return tuple(
            VariantInfo(self.variant_name(label, words, group, isa.name), self.name, label, words, group, isa.name)
            for label, every, isas in choices
            for words in every
            for group in classes
            for isa in isas
        )

    def variant_name(self, label: str, words: Sequence[str], group_class: str | None, isa: str) -> str:
        group = [group_class] if group_class else []
        return "_".join([self.function, label, *map(str.lower, words), *group, isa])

    def isas(self, label: str) -> tuple[_isa.Isa, ...]:
        """The instruction sets that have kernels for a dtype row."""
        return tuple(isa for isa in _isa.ISAS if not isa.fast or (label in self.fast and label in isa.dtypes))

    def spec(self, rule: str, argument: str) -> str:
        """Where a rule is stated: file:line of the spec, or a section of the API."""
        head = rule.split("-")[0]
        if head in API_RULES:
            return f"{API}#{API_RULES[head]}"
        places = provenance()[self.function]
        if rule == "overflow" and argument in places["values"]:
            return places["values"][argument]
        return places["rules"].get(rule, f"{API}#rules")

    def refused(self, refusal: Refusal) -> Exception:
        return refusal.error(self.function, self.spec(refusal.rule, refusal.argument))

    def call(self, inputs: Sequence[Any], attributes: Sequence[Any], out: Any, threads: Any, specialize: Any) -> Any:
        """Run a call; see the generated function for what it takes and returns. Most calls that are repeated it runs
        itself: this is for all others, and for every refusal."""
        try:
            inputs, plan = self.prepared(inputs, attributes)
            if specialize is not None or _specialize.setting is not False:
                plan = self.specialized(plan, specialize)
            return self.run(plan, inputs, out, thread_count(plan, threads))
        except Refusal as refusal:
            raise self.refused(refusal) from None
        except MemoryError as error:
            missing = Refusal("memory", "out", f"more than there is ({error})", "arrays that fit into memory")
            raise self.refused(missing) from None

    def prepared(self, inputs: Sequence[Any], attributes: Sequence[Any]) -> tuple[Sequence[Any], Plan]:
        """The inputs as arrays, and the plan of their signature."""
        arrays = self.arrays(inputs)
        key = self.signature(arrays, attributes)
        plan = PLANS.get(key)
        if plan is None:
            plan = self.plan(self.resolve(*arrays, *attributes))
            if key is not None and all(map(plain, attributes)):
                if len(PLANS) >= KEPT_PLANS:
                    PLANS.clear()
                PLANS[key] = plan
        return arrays, plan

    def signature(self, inputs: Sequence[Any], attributes: Sequence[Any]) -> Any:
        """A hashable key of all that `resolve` looks at, or None where an argument is not of the plainest kind.

        marshal writes a value with its type, so that 1, True and 1.0 make three keys, and a list as it is now. It takes
        a third of the time of tuples of values and types (0.35 us for four lists of two, CPython 3.11). The generated
        functions write the same key in one expression.
        """
        dtypes, values = [], []
        for info, value in zip(self.inputs, inputs):
            if value is not None and type(value) is not np.ndarray:
                return None
            if value is not None and info.states_shape and value.size > KEPT_EXTENTS:
                return None
            dtypes.append(None if value is None else value.dtype)
            values.append(None if value is None else value.tobytes() if info.states_shape else value.shape)
        try:  # in the last version in which equal values have equal bytes
            return (self.function, *dtypes, dumps((*values, tuple(attributes)), 2))
        except ValueError:  # an attribute of a kind that has no literal
            return None

    def specialized(self, plan: Plan, specialize: Any) -> Plan:
        """The plan with constants where the call wants it and it is there."""
        wanted = _specialize.get_specialize() if specialize is None else _specialize.check("specialize", specialize)
        if wanted is False or plan.special is None:
            return plan
        return plan.special.chosen(wanted) or plan

    def arrays(self, inputs: Sequence[Any]) -> list[Any]:
        """Every input as an array, its protocol resolved; what is only described stays so."""
        result: list[Any] = []
        for info, value in zip(self.inputs, inputs):
            if value is None:
                if not info.optional:
                    raise Refusal(f"{info.parameter}-missing", info.parameter, "None", "an array", wrong_kind=True)
                result.append(None)
            elif type(value) is TensorSpec:
                result.append(value)
            else:
                result.append(to_array(info.parameter, value))
        return result

    def copied(self, value: Array) -> bool:
        """Whether a call copies an array before its kernel can read it."""
        return not is_ready(value)

    def kernel_name(self, resolution: Resolution, isa: str) -> str:
        words = [resolution.words[name] for name in self.layouts]
        return self.variant_name(self.rows[resolution.row][0], words, resolution.group_class, isa)

    def choice(self, label: str) -> tuple[_isa.Isa, tuple[tuple[str, str], ...]]:
        """The instruction set for a dtype row, and why not each of the others."""
        key = (self.function, label)
        if key not in _choices:
            _choices[key] = self._chosen(self.isas(label), label)
        return _choices[key]

    def _chosen(self, isas: Sequence[_isa.Isa], label: str) -> tuple[_isa.Isa, tuple[tuple[str, str], ...]]:
        reasons = {isa.name: _isa.why_not(isa) for isa in isas}
        usable = _isa.usable(isas)
        for isa in usable:
            reasons[isa.name] = _load.fit(self.unit(isa, label, self.parts(isa)[0]))
            if not reasons[isa.name]:
                break
        else:  # nothing can be had: what loading the plainest says is what there is to say
            isa = usable[-1]
        better = {other.name: f"{isa.name} is better" for other in isas[: isas.index(isa)]}
        reasons = {name: better.get(name) or reason for name, reason in reasons.items()}
        others = {other.name: reasons.get(other.name) or f"it has no kernels for {label}" for other in _isa.ISAS}
        del others[isa.name]
        return isa, tuple(others.items())

    def parts(self, isa: _isa.Isa) -> tuple[str, ...]:
        """The libraries of an instruction set and dtype row; a group class with an engine of its own has its own."""
        found = {DEPTHWISE if name == DEPTHWISE else "" for name, _ in self.classes} if isa.fast else set()
        return tuple(sorted(found or {""}))

    def cdef(self, isa: _isa.Isa, labels: Sequence[str], part: str) -> str:
        """The C declarations of the kernels of a library."""
        declared = [f"{m.c_type} {m.name}{f'[{m.length}]' if m.length else ''};" for m in self.sizes]
        members = "".join(f"    {line}\n" for line in declared)
        sizes = f"opwright_{self.function}_sizes"
        lines = ["typedef uint16_t opwright_bf16;\ntypedef uint16_t opwright_f16;\n"]
        lines.append(f"typedef struct {sizes} {{\n{members}}} {sizes};\n" + (_team.CDEF if isa.fast else ""))
        for variant in self.variants:
            own = isa.fast and variant.group_class == DEPTHWISE
            if variant.isa == isa.name and variant.dtype in labels and own == (part == DEPTHWISE):
                row = dict(self.rows)[variant.dtype]
                data = [info for info in self.inputs if not info.states_shape]
                pointers = [f"const {C_TYPES[row[info.parameter]]} *{info.name}" for info in data]
                pointers += [f"{C_TYPES[row[self.output]]} *{self.output}", f"const {sizes} *sizes"]
                head = f"void {variant.name}({', '.join(pointers)}"
                if isa.fast:
                    lines.append(f"{head}, const opwright_team *team, void *scratch);\n")
                    lines.append(f"int64_t {variant.name}_scratch(const {sizes} *sizes, int64_t workers);\n")
                    lines.append(f"int64_t {variant.name}_fixed(const {sizes} *sizes, int64_t *values);\n")
                else:
                    lines.append(f"{head}, int64_t part, int64_t parts);\n")
        return "".join(lines)

    def unit(self, isa: _isa.Isa, label: str, part: str, fixed: str = "", literals: _specialize.Literals = ()) -> Unit:
        """What is compiled for an instruction set: fast kernels one dtype row at a time, reference kernels together.

        The file `fixed` of the engine gets literals.
        """
        if not isa.fast:
            labels = [label for label, _ in self.rows]
            sources = tuple(HERE / "c" / f"{self.function}_{label}.c" for label in labels)
            name, flags = f"opwright_{self.function}_{isa.name}", _engine.REFERENCE_FLAGS
            return Unit(name, self.cdef(isa, labels, part), sources, (_engine.INCLUDE,), flags)
        group = part or ("weights" if self.fast[label] == "w" else "data")
        needs = _engine.objects(isa, label, group, fixed, literals)
        engine = needs[0]
        name = "_".join(filter(None, (self.function, label, part)))
        return Unit(
            f"opwright_{name}{'_fixed' if fixed else ''}_{isa.name}",
            self.cdef(isa, [label], part),
            (HERE / "c" / "entries" / f"{name}.c",),
            engine.include,
            engine.flags,
            engine.tuning,
            needs=needs,
            probe=engine.probe,
        )

    def library(self, isa: _isa.Isa, label: str, part: str) -> _load.Library:
        """The compiled kernels, built at first use."""
        key = (self.function, isa.name, label if isa.fast else "", part)
        if key not in _libraries:
            _libraries[key] = _load.load(self.unit(isa, label, part))
            best = _isa.usable(self.isas(label))[0]
            if best.fast and not isa.fast:
                why = dict(self.choice(label)[1])[best.name]
                warnings.warn(
                    f"{self.function}: {label} is left to portable kernels, many times slower than those for"
                    f" {best.name}: {why}",
                    RuntimeWarning,
                    stacklevel=2,
                )
        return _libraries[key]

    def plan(self, resolution: Resolution) -> Plan:
        label = self.rows[resolution.row][0]
        isa, _ = self.choice(label)
        part = DEPTHWISE if isa.fast and resolution.group_class == DEPTHWISE else ""
        plan = self.planned(resolution, isa, self.library(isa, label, part))
        if not isa.fast:
            return plan
        fixed = cache(partial(self.fixed, plan, isa, label, part))
        return replace(plan, special=_specialize.Special(fixed, partial(self.planned, resolution, isa)))

    def fixed(self, plan: Plan, isa: _isa.Isa, label: str, part: str) -> _specialize.Fixed | None:
        """The library for the constants that make a plan's kernel faster; None where none do, or there are too many."""
        file, literals = _specialize.literals(plan)
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
        data = [info for info in self.inputs if not info.states_shape]

        def workers(number: int) -> tuple[Any, int]:
            team = ffi.cast("opwright_team *", _team.team(number)) if number > 1 else ffi.NULL
            return team, scratch(number) if scratch else 0

        return Plan(
            kernel=getattr(library.lib, kernel),
            sizes=sizes,
            ffi=ffi,
            null=ffi.NULL,
            address=partial(pointer, ffi) if "bfloat16" in row.values() else ffi.from_buffer,
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
            scratch=scratch,
            uniform=isa.fast and {row[info.parameter] for info in data} == {row[self.output]},
            bits=BITS.get(DTYPES[row[self.output]]),
            fixed=getattr(library.lib, f"{kernel}_fixed") if isa.fast else None,
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
            plan.kernel(*arguments, plan.sizes, team, _scratch.memory(size))
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
            raise Refusal("out-read-only", "out", "a read-only array", "an array that may be written")
        if not target.flags.c_contiguous and overlaps_itself(target):
            raise Refusal("out-overlap", "out", "an array whose cells share memory", "cells that lie apart")
        for info, value in zip(self.inputs, inputs):
            if isinstance(value, np.ndarray) and share_memory(target, value):
                raise Refusal(
                    "out-overlap", "out", f"an array that shares memory with {info.parameter}", "memory of its own"
                )
        return target


def thread_count(plan: Plan, threads: Any) -> int:
    """How many threads a call has. Refusal where `threads` or the environment is no number of them."""
    if threads is not None:
        return min(_threads.check_threads("threads", threads), _team.MOST)
    return 1 if plan.terms < SERIAL_TERMS else min(_threads.get_num_threads(), _team.MOST)


def named(operations: Mapping[str, Operation], op: str) -> Operation:
    """The operation of that name, its own or its function's; ValueError where there is none."""
    for operation in operations.values():
        if op in (operation.function, operation.name):
            return operation
    raise ValueError(f"there is no operation {op!r}; there are {', '.join(operations)}")


def build(operations: Sequence[Operation], progress: Any = None) -> list[str]:
    """Compile the kernels of operations for the instruction sets in use; the libraries' paths."""
    from . import _build  # which most processes need not

    units = [_team.UNIT]
    for operation in operations:
        chosen = [(operation.choice(label)[0], label) for label, _ in operation.rows]
        found = [operation.unit(isa, label, part) for isa, label in chosen for part in operation.parts(isa)]
        units += {unit.name: unit for unit in found}.values()
    return [str(path) for path in _build.build(units, progress)]


def set_num_threads(n: int) -> None:
    """How many threads later calls use, at least 1; `threads=` of a call goes before it. Raises SpecError."""
    try:
        _threads.set_num_threads(n)
    except Refusal as refusal:
        raise refusal.error("set_num_threads", f"{API}#threads") from None


def get_num_threads() -> int:
    """How many threads a call uses that does not say: set_num_threads, OPWRIGHT_NUM_THREADS, or the CPUs at hand."""
    try:
        return _threads.get_num_threads()
    except Refusal as refusal:
        raise refusal.error("get_num_threads", f"{API}#threads") from None


def set_specialize(value: bool | int) -> None:
    """What later calls do that do not say: False, True, or the number of calls after which to compile. SpecError."""
    try:
        _specialize.set_specialize(value)
    except Refusal as refusal:
        raise refusal.error("set_specialize", f"{API}#specialize") from None


def get_specialize() -> bool | int:
    """What a call does that does not say: set_specialize, OPWRIGHT_SPECIALIZE, or False."""
    try:
        return _specialize.get_specialize()
    except Refusal as refusal:
        raise refusal.error("get_specialize", f"{API}#specialize") from None


def allocated(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
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


PLANS: dict[Any, Plan] = {}
_libraries: dict[tuple[str, ...], _load.Library] = {}
_choices: dict[tuple[str, str], tuple[_isa.Isa, tuple[tuple[str, str], ...]]] = {}


@cache
def provenance() -> dict[str, dict[str, dict[str, str]]]:
    """Where the spec says what: operation to rule or value to file:line, and to the sentences of values."""
    loaded: dict[str, dict[str, dict[str, str]]] = json.loads((HERE / "PROVENANCE.json").read_text(encoding="utf-8"))
    return loaded


def plain(attribute: Any) -> bool:
    """Whether marshal tells `attribute` from all others: of what has a buffer it writes only the bytes."""
    if type(attribute) in (list, tuple):
        return all(type(entry) is int for entry in attribute)
    return attribute is None or type(attribute) in (int, float, str, bool)


def forget() -> None:
    """Drop all plans and read the environment anew; for tests that change OPWRIGHT_ISA."""
    PLANS.clear()
    _choices.clear()
    _isa.allowed.cache_clear()


def infer_shape(operation: Operation, inputs: Sequence[Any], attributes: Sequence[Any]) -> tuple[int, ...]:
    """The shape of a call's output; the inputs may be arrays or anything with a shape and a dtype."""
    try:
        return operation.resolve(*operation.arrays(inputs), *attributes).shape
    except Refusal as refusal:
        raise operation.refused(refusal) from None


@dataclass(frozen=True)
class TensorSpec:
    """The description of a tensor, for `explain` and `infer_shape`: no data is needed to ask."""

    shape: tuple[int, ...]
    dtype: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(int(extent) for extent in self.shape))
        object.__setattr__(self, "dtype", DTYPES[self.dtype] if self.dtype in DTYPES else np.dtype(self.dtype))
        if any(extent < 0 for extent in self.shape):
            raise ValueError(f"a shape has no negative extents: {self.shape}")

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def bound(operation: Operation, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """The inputs and attributes of a call that is written as the public function would take it."""
    names = [info.parameter for info in operation.inputs]
    if len(args) > len(names):
        raise TypeError(f"{operation.function} takes {len(names)} inputs but {len(args)} were given")
    given = dict(zip(names, args))
    for name, value in kwargs.items():
        if name in given or name not in (*names, *operation.attributes):
            raise TypeError(f"{operation.function} got an unexpected or repeated argument {name!r}")
        given[name] = value
    missing = [info.parameter for info in operation.inputs if info.parameter not in given and not info.optional]
    missing += [name for name in operation.attributes if name not in given and name not in operation.defaults]
    if missing:
        raise TypeError(f"{operation.function} misses the arguments {', '.join(missing)}")
    inputs = [given.get(name) for name in names]
    return inputs, [given.get(name, operation.defaults.get(name)) for name in operation.attributes]
