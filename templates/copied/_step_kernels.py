"""The kernels of an operation of steps: what they are compiled from, and all arguments of a call.

In: a resolved call and arrays of any strides. Out: a `StepPlan`, which needs the addresses of arrays and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as member
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from . import _collapse, _compiled_calls, _contractions, _engine, _isa, _load, _pair_orders, _phase_blocks, _team
from . import _contraction_engines as _engines
from ._arrays import Array, pointer
from ._axes import Places
from ._description import HERE
from ._dtypes import BITS, C_TYPES, DTYPES
from ._operation import Operation
from ._quick import Quick, quick
from ._rules import Extent
from ._schedules import Lanes, Schedule
from ._step_sizes import ArrayInfo, Field, Sizes
from ._team import CDEF
from ._units import Unit

# Kernels of steps are loops that compilers make vectors of, which -O3 does to all of them. No kernel reads errno or the
# flags of exceptions, which would keep branches in loops. Without contraction every compiler gives the same bits.
# -O2 with the same vectoriser compiles in 0.6 of the time, and runs at 0.46 to 0.9 of the speed where a loop over the
# vectors of a block is not unrolled: softmax 0.63, sums 0.67, norms 0.76 (gcc 12, AMD Zen 3; geomean 0.93 of 51 rows);
# -fpeel-loops unrolls these, and compiles no faster than -O3.
FLAGS = ("-std=c11", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")


@dataclass(frozen=True)
class Output:
    """An output of a call: its shape, and where its axes stand."""

    shape: tuple[int, ...]
    places: Places


@dataclass(frozen=True)
class Steps:
    """A legal call. `terms` counts the terms of all steps.

    `absent` names the outputs that it does not have. `between` says of each array between steps which phase has it for
    itself (-1: none), and how many cells it has, for each letter that lanes may go along.
    """

    row: int
    values: Mapping[str, Extent]
    places: Mapping[str, Places]
    outputs: Mapping[str, Output]
    terms: int
    words: Mapping[str, str] = member(default_factory=dict)
    absent: frozenset[str] = frozenset()
    lists: Mapping[str, Sequence[float]] = member(default_factory=dict)
    between: Mapping[str, tuple[int, tuple[int, ...]]] = member(default_factory=dict)
    letters: Mapping[str, tuple[int, ...]] = member(default_factory=dict)  # their extents, of contractions
    slides: Mapping[str, Any] = member(default_factory=dict)  # how letters move indices together, of contractions
    zeros: Mapping[int, tuple[Any, Any]] = member(default_factory=dict)  # zero points of operands, by phase
    group_class: str | None = None
    fitting: Steps | None = None  # what it is for the program of calls whose sizes fit, if this is one

    @property
    def shape(self) -> Any:
        """The output's shape, or those of all outputs."""
        shapes = tuple(output.shape for name, output in self.outputs.items() if name not in self.absent)
        return shapes[0] if len(shapes) == 1 else shapes

    @property
    def arrangements(self) -> Mapping[str, int]:
        return {}


@dataclass(frozen=True, eq=False)
class StepPlan:
    """A call whose kernel needs nothing but the addresses of its arrays."""

    kernel: Callable[..., None]
    entry: Callable[[], int]  # where the kernel is in memory
    sizes: Any
    terms: int
    ffi: Any
    inputs: tuple[tuple[Any, Any], ...]  # per input the C type of its pointer, and the dtype of its bits, if any
    absent: tuple[Any, ...]  # per input what stands for one that is left out
    lists: tuple[Any, ...]
    outputs: tuple[tuple[Any, Any, tuple[int, ...], Any], ...]  # C type, bits, shape and dtype
    workers: Callable[[int], tuple[Any, int]]  # for a number of them, the team and the bytes of memory
    alone: tuple[Any, int]
    phases: int
    returned: tuple[int, ...]  # the outputs that the call has
    in_place: frozenset[int]  # the inputs that the one output may be, where neither has gaps
    schedules: tuple[tuple[str, Schedule], ...]
    products: tuple[_contractions.Product, ...]
    blocks: _phase_blocks.Blocked | None  # of phases that go by blocks
    orders: tuple[tuple[str, str], ...]  # of the pairs of several factors, in words
    keeps: tuple[Any, ...]  # what other pointers lead to
    told: list[int] = member(default_factory=list)  # when calls.c was told of it

    @cached_property
    def quick(self) -> Quick:
        """What a later call with arrays without gaps does."""
        return quick(self)

    def words(self, inputs: Sequence[Any], _: Any, views: Sequence[Any] = ()) -> _compiled_calls.Words:
        """What calls.c gets of calls with arrays like these.

        `views` has, by output, the caller's array and how the axes lie of one that is made, if any has gaps.
        """
        slot, count = partial(_compiled_calls.slot, self.ffi), len(inputs)
        taken = tuple(
            _compiled_calls.ABSENT if array is None else _compiled_calls.given(array, number in self.in_place)
            for number, array in enumerate(inputs)
        )
        streamed = bool(views) or self.terms >= _team.SERIAL_TERMS
        outputs = tuple(
            _compiled_calls.made(shape, dtype, number in self.returned, streamed, views[number] if views else None)
            for number, (_, _, shape, dtype) in enumerate(self.outputs)
        )
        slots = tuple(
            slot(absent) if array is None else (number, 0)
            for number, (array, absent) in enumerate(zip(inputs, self.absent))
        )
        slots = (*slots, *map(slot, self.lists), *[(count + number, 0) for number in range(len(outputs))])
        return _compiled_calls.Words((-1,) * count, taken, outputs, ((self, (*slots, *self.numbers)),))

    @property
    def numbers(self) -> tuple[tuple[int, int], ...]:
        """What the kernel gets behind its arrays, as calls.c has it."""
        return _compiled_calls.slot(self.ffi, self.sizes), (-1, 0), (-1, self.phases)


@dataclass(frozen=True, eq=False)
class StepKernels(Operation):
    """What the generated module says of an operation of steps."""

    arrays_: tuple[ArrayInfo, ...] = ()
    fields: tuple[Field, ...] = ()
    outputs: tuple[str, ...] = ()
    phases: tuple[tuple[Lanes, ...], ...] = ()
    accumulate: tuple[str, ...] = ()  # the type that each row adds up in
    narrow: tuple[Mapping[str, str], ...] = ()  # by row, the types of arrays between steps that are others
    words: Mapping[str, tuple[str, ...]] = member(default_factory=dict)  # of attributes that choose steps
    dtype_attributes: Mapping[str, str] = member(default_factory=dict)  # attribute to the output that it states
    conditional: tuple[str, ...] = ()  # outputs that some calls lack, if an attribute states a type
    contractions: tuple[_contractions.Contraction, ...] = ()
    pair_orders: tuple[_pair_orders.Orders, ...] = ()  # in which pairs of factors may be multiplied instead
    blocks: _phase_blocks.Blocks | None = None  # phases that calls may run by blocks
    roles: tuple[tuple[str, Mapping[str, str]], ...] = ()  # of the letters of each assignment
    chains: tuple[_collapse.Chain, ...] = ()  # of sizes that kernels do not tell apart
    exchanged: tuple[tuple[str, str], ...] = ()  # and of runs
    # By output, the inputs whose memory it may have.
    in_place: Mapping[str, tuple[str, ...]] = member(default_factory=dict)
    alike: Mapping[str, tuple[str, ...]] = member(default_factory=dict)  # by output, inputs whose axes go with its own
    unlike: Mapping[str, tuple[str, ...]] = member(default_factory=dict)  # and those that have its names for others
    # By input that is a list of arrays: the axis along which they are joined, and, where kernels can take them one
    # after the other, the size that is that axis' extent.
    joined: Mapping[str, tuple[str, str]] = member(default_factory=dict)
    fitting: tuple[str, StepKernels] | None = None  # axes as long as indices reach, and the program of such calls

    def planned_steps(self, resolution: Steps, arrays: Mapping[str, Array]) -> StepPlan:
        """All arguments of a kernel in a call, for arrays of these strides."""
        if self.fitting is not None and resolution.fitting is not None:
            return self.fitting[1].planned_steps(resolution.fitting, arrays)
        label, row = self.rows[resolution.row]
        isa, _ = self.choice(label)
        library = self.library(isa, label, "")
        ffi = library.ffi
        whole, places, lists = self.whole(resolution, arrays)
        made, narrow = self.accumulate[resolution.row], self.narrow_in(resolution.row)
        layout, lanes = self.layout(resolution, whole, places, made, narrow)
        seen, shown, letters = layout.resolution, layout.arrays, layout.resolution.letters
        own, products = self.products(seen, shown, places, arrays, lanes)
        others = [one for one in own if one not in self.contractions]  # of another order of pairs
        sums = {one.target.array: (-1, (_pair_orders.cells(one, letters),)) for one in others}
        layout.resolution = replace(seen, between={**seen.between, **sums})
        unstored = {own[n].target.array for n, product in products.items() if product.destination}
        may_block = None if others else self.blocks
        blocks = _phase_blocks.blocked(may_block, own, products, layout, lanes) if may_block else None
        filled, memory_ = layout.members(lanes, unstored.union(blocks.at if blocks else ()))
        sizes = ffi.new(f"opwright_{self.function}_sizes *")
        for name, value in filled.items():
            setattr(sizes, name, value)
        for number, product in products.items():
            product.put(ffi, sizes.products_[number], memory_.shared, memory_.task)
        if self.pair_orders:
            sizes.operands_ = _pair_orders.operands(own, self.pair_orders)
        if blocks is not None:
            blocks.put(sizes)
        whole_products = [one for number, one in products.items() if blocks is None or number not in blocks.products]
        kinds = {
            info.name: ffi.typeof(f"{self.c_type(info, resolution.row)} *")
            for info in self.arrays_
            if info.role != "between"
        }

        def bits(name: str) -> Any:
            return BITS.get(DTYPES[row[name]])

        def stand_in(name: str) -> Any:
            return None if name in arrays else pointer(ffi, kinds[name], whole[name])

        @cache
        def workers(number: int) -> tuple[Any, int]:
            team = ffi.cast("opwright_team *", _team.team(number)) if number > 1 else ffi.NULL
            beside = [product.bytes(number) for product in whole_products] + [blocks.memory(number) if blocks else 0]
            return team, memory_.bytes(number) + max(beside)

        shapes = {name: output.shape for name, output in resolution.outputs.items()}
        name = f"{self.function}_{label}_{isa.name}"
        return StepPlan(
            kernel=getattr(library.lib, name),
            entry=partial(library.address, name),
            sizes=sizes,
            terms=resolution.terms,
            ffi=ffi,
            inputs=tuple((kinds[info.name], bits(info.name)) for info in self.inputs),
            absent=tuple(stand_in(info.name) for info in self.inputs),
            lists=tuple(
                pointer(ffi, kinds[info.name], whole[info.name]) for info in self.arrays_ if info.role == "list"
            ),
            outputs=tuple((kinds[name], bits(name), shapes[name], DTYPES[row[name]]) for name in self.outputs),
            workers=workers,
            alone=workers(1),
            phases=len(self.phases),
            returned=tuple(n for n, name in enumerate(self.outputs) if name not in resolution.absent),
            in_place=self.replaceable(resolution),
            schedules=tuple(layout.schedules),
            products=tuple(products.values()),
            blocks=blocks,
            orders=_pair_orders.described(own, self.contractions, self.pair_orders, letters),
            keeps=lists,
        )

    def layout(
        self,
        resolution: Steps,
        arrays: Mapping[str, Array],
        places: Mapping[str, Places],
        made: str,
        narrow: Mapping[str, str],
    ) -> tuple[Sizes, list[int]]:
        """A call with axes put together, and the letters of its lanes.

        Sizes that a phase tells apart with lanes along its last letter are put together where it has others. Sums over
        the second and last axes of 13 x 21 x 33 x 45 f32 whose cells lie in the order of the third, last, first and
        second take 0.46 of the time, bf16 0.36 (AMD EPYC, Zen 4, gcc 12.2).
        """

        def planned(
            phases: tuple[tuple[Lanes, ...], ...], seen: Steps, own: Mapping[str, Array]
        ) -> tuple[Sizes, list[int]]:
            layout = Sizes(
                self.fields, self.arrays_, phases, self.exchanged, self.words, seen, places, own, made, narrow
            )
            return layout, layout.chosen_lanes()

        def together(
            chains: Sequence[_collapse.Chain], seen: Steps, own: Mapping[str, Array]
        ) -> tuple[Steps, Mapping[str, Array]]:
            values, letters, own = _collapse.collapsed(chains, seen.values, seen.letters, own, places)
            return replace(seen, values=values, letters=letters), own

        seen, own = together([chain for chain in self.chains if not chain.apart], resolution, arrays)
        layout, lanes = planned(self.phases, seen, own)
        last = {number for number, lane in enumerate(lanes) if lane == len(self.phases[number]) - 1}
        more = [chain for chain in self.chains if chain.apart and last.isdisjoint(chain.apart)]
        other, shown = together(more, seen, own)
        if shown is own:
            return layout, lanes
        without = {number for chain in more for number in chain.apart}
        phases = tuple([some[:-1] if number in without else some for number, some in enumerate(self.phases)])
        return planned(phases, other, shown)

    def replaceable(self, resolution: Steps) -> frozenset[int]:
        """The inputs whose memory the one output may have."""
        names = self.in_place.get(self.outputs[0], ()) if len(self.outputs) == 1 else ()
        places = resolution.outputs[self.outputs[0]].places
        same = [name for name in names if resolution.places[name] == places]
        return frozenset(number for number, info in enumerate(self.inputs) if info.name in same)

    def whole(
        self, resolution: Steps, arrays: Mapping[str, Array]
    ) -> tuple[dict[str, Array], dict[str, Places], tuple[Array, ...]]:
        """All arrays of a call but those between steps, where their axes stand, and among them the lists."""
        row = self.rows[resolution.row][1]
        whole, places = dict(arrays), dict(resolution.places)
        lists = []
        for info in self.arrays_:
            if info.role == "list":
                whole[info.name] = np.asarray(resolution.lists[info.name], np.dtype(info.dtype))
                places[info.name] = {"E": (0,)}
                lists.append(whole[info.name])
            elif info.role == "output":
                places[info.name] = resolution.outputs[info.name].places
            elif info.role == "input" and info.name not in whole:  # one cell stands for an input that is left out
                whole[info.name] = np.full((), info.absent, DTYPES[row[info.name]])
        return whole, places, tuple(lists)

    def products(
        self,
        resolution: Steps,
        arrays: Mapping[str, Array],
        places: Mapping[str, Places],
        given: Mapping[str, Array],
        lanes: Sequence[int],
    ) -> tuple[list[_contractions.Contraction], dict[int, _contractions.Product]]:
        """The contractions of a call, and by their numbers those that an engine computes."""
        accumulate = DTYPES[self.accumulate[resolution.row]]
        narrow = {name: DTYPES[dtype] for name, dtype in self.narrow_in(resolution.row).items()}
        call = _contractions.Call(
            resolution.letters, resolution.slides, resolution.zeros, arrays, places, accumulate, narrow
        )

        def prepared(one: _contractions.Contraction) -> _contractions.Product | None:
            lane = self.phases[one.phase + 1][lanes[one.phase + 1]].letter if one.finish else ""
            return _contractions.prepared(one, call, given, lane)

        return _pair_orders.ordered(self.contractions, self.pair_orders, resolution.letters, prepared)

    def described_products(self, plan: StepPlan) -> list[tuple[str, str]]:
        """For `explain`: the phases that the engine of contractions computes, and how, and the order of pairs."""
        return [*plan.orders, *((f"{one.left} * {one.right}", one.described()) for one in plan.products)]

    def units(self, has: Callable[[_isa.Isa], bool] | None = None) -> list[Unit]:
        """The libraries of all dtype rows, and of the engine of contractions that their calls may need."""
        wanted = set()
        for number, (_, row) in enumerate(self.rows):
            accumulate = DTYPES[self.accumulate[number]]
            known = {**row, **self.narrow_in(number)}
            for one in self.contractions + tuple(one for some in self.pair_orders for one in sum(some.others, ())):
                dtypes = {known.get(access.array, self.accumulate[number]) for access in (one.left, one.right)}
                label = _engines.label_of({DTYPES[name] for name in dtypes}, accumulate, one.term)
                split = not one.term and _engines.splits({DTYPES[name] for name in dtypes}, label)
                windows = self.slid(one, label)
                owns = {label, "f32", *(_engines.LABELS.get(DTYPES[name], "f32") for name in dtypes)}
                owns = {label} if label == _engines.BYTES else owns
                wanted |= {(label, _engines.PRODUCTS), *((own, name) for own in owns for name in windows)}
                wanted -= {("f32", name) for name in _engines.WIDE}
                wanted |= {("bf16", _engines.PRODUCTS)} if split else set()
        return [*super().units(has), *(self.fitting[1].units(has) if self.fitting else ())] + [
            _engines.unit(isa, label, group)
            for label, group in sorted(pair for pair in wanted if pair[0])
            for isa in ([_engines.best(label, group)] if has is None else filter(has, _engines.isas(label, group)))
            if isa is not None
        ]

    def slid(self, one: _contractions.Contraction, label: str) -> tuple[str, ...]:
        """The engines of windows that a contraction may need."""
        letters = {letter for access in (one.left, one.right, one.target) for letter in access.letters.values()}
        windows = any(letter.startswith(f"{one.phase}.") for letter in letters)
        apart = {**dict.fromkeys(_engines.WITHOUT_WINDOWS, ()), _engines.BYTES: (_engines.BYTE_WINDOWS,)}
        return apart.get(label, _engines.WINDOWS) if windows else ()

    def c_type(self, info: ArrayInfo, row: int) -> str:
        if info.role == "between":
            return C_TYPES[self.narrow_in(row).get(info.name) or info.dtype or self.accumulate[row]]
        return C_TYPES[info.dtype if info.role == "list" else self.rows[row][1][info.name]]

    def narrow_in(self, row: int) -> Mapping[str, str]:
        """The types of arrays between steps, of a row, that are not the one that it adds up in."""
        return self.narrow[row] if self.narrow else {}

    def isas(self, label: str, part: str = "") -> tuple[_isa.Isa, ...]:
        """The instruction sets that kernels are compiled for: those whose numerics are those of the spec."""
        return tuple(isa for isa in _isa.ISAS if not isa.fast or "f32" in isa.dtypes)

    def unit(self, isa: _isa.Isa, label: str, part: str, fixed: str = "", literals: Any = ()) -> Unit:
        """What is compiled for an instruction set and a dtype row."""
        return Unit(
            f"opwright_{self.function}_{label}_{isa.name}",
            self.declarations(isa, [label], part),
            (HERE / "c" / f"{self.function}_{label}.c",),
            (_engine.INCLUDE,),
            (*FLAGS, *isa.flags, f"-DOPWRIGHT_ISA={isa.name}"),
        )

    def library(self, isa: _isa.Isa, label: str, part: str) -> _load.Library:
        """The compiled kernel of a dtype row, built at first use."""
        key = (self.function, isa.name, label)
        if key not in _libraries:
            _libraries[key] = _load.load(self.unit(isa, label, part))
        return _libraries[key]

    def declarations(self, isa: _isa.Isa, labels: Sequence[str], part: str) -> str:
        """The C declarations of the kernels of a library."""
        members = "".join(f"    {f.c_type} {f.name}{f'[{f.length}]' if f.length else ''};\n" for f in self.fields)
        sizes = f"opwright_{self.function}_sizes"
        lines = [CDEF, _engines.CDEF, "typedef uint16_t opwright_bf16;\ntypedef uint16_t opwright_f16;\n"]
        lines.append(f"typedef struct {sizes} {{\n{members}}} {sizes};\n")
        for number, (label, _) in enumerate(self.rows):
            if label in labels:
                pointers = [
                    f"{'const ' if info.role in ('input', 'list') else ''}{self.c_type(info, number)} *{info.name}"
                    for info in self.arrays_
                    if info.role != "between"
                ]
                head = f"void {self.function}_{label}_{isa.name}({', '.join(pointers)}, const {sizes} *sizes_"
                lines.append(f"{head}, int64_t first_, int64_t last_, const opwright_team *team_, void *scratch_);\n")
        return "".join(lines)

    def copied(self, value: Array) -> bool:
        """Whether kernels cannot walk an array as it is."""
        return not is_walkable(value)


_libraries: dict[tuple[str, ...], _load.Library] = {}


def is_walkable(array: Array) -> bool:
    """Whether the elements of an array stand at whole multiples of their size from each other."""
    return array.flags.aligned and all(stride % array.itemsize == 0 for stride in array.strides)


def walkable(array: Array) -> Array:
    return array if is_walkable(array) else array.copy(order="C")
