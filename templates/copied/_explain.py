"""What a call would do, without doing it: values, the kernel, and why.

In: an operation and the arguments of a call, described or given. Out: an Explanation, or the refusal of the call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _isa, _specialize, _team, _threads
from ._description import VariantInfo, provenance
from ._errors import Refusal
from ._operation import Operation
from ._rules import Resolution
from ._team import SERIAL_TERMS


@dataclass(frozen=True)
class Explanation:
    """What a call means: every value and where the spec says so, the kernel chosen, and the ones that were not."""

    op: str
    shape: tuple[int, ...]
    dtype: str
    dtypes: tuple[str, ...]
    values: Mapping[str, object]
    arrangements: Mapping[str, str]
    variant: VariantInfo
    why: tuple[str, ...]
    rejected: tuple[tuple[str, str], ...]
    copies: tuple[str, ...]
    threads: int
    scratch_bytes: int
    specialized: bool
    specialization: str
    schedules: tuple[tuple[str, str], ...]
    steps: tuple[tuple[str, str, str], ...]

    @property
    def result(self) -> str:
        """The data type and shape of every output."""
        shapes: Any = self.shape if len(self.dtypes) > 1 else (self.shape,)
        return ", ".join(f"{dtype}{list(shape)}" for dtype, shape in zip(self.dtypes, shapes))

    def __str__(self) -> str:
        lines = [f"{self.op} -> {self.result}", f"kernel: {self.variant.name}"]
        lines += [f"  because {reason}" for reason in self.why]
        lines += [f"  not {name}: {reason}" for name, reason in self.rejected]
        lines.append(f"threads: {self.threads}, scratch memory: {self.scratch_bytes} bytes")
        lines.append(f"sizes: {self.specialization}")
        lines += [f"{lanes}: {schedule}" for lanes, schedule in self.schedules]
        lines += [f"copied first: {copy}" for copy in self.copies] or ["copied first: nothing"]
        lines += [f"{what} = {value}   {where}" for what, value, where in self.steps]
        return "\n".join(lines)


def explain(
    operation: Operation,
    inputs: Sequence[Any],
    attributes: Sequence[Any],
    threads: Any = None,
    specialize: Any = None,
) -> Explanation:
    """Resolve a call without running it, and tell how."""
    try:
        given = operation.arrays(inputs)
        resolution = operation.meant((*given, *attributes))
        wanted = _threads.check_threads("threads", threads) if threads is not None else _threads.get_num_threads()
        special = _specialize.get_specialize() if specialize is None else _specialize.check("specialize", specialize)
    except Refusal as refusal:
        raise operation.refused(refusal) from None
    label = operation.rows[resolution.row][0]
    isa, others = operation.choice(label, operation.stem(resolution).part)
    name = operation.kernel_name(resolution, isa.name)
    variant = next(variant for variant in operation.variants if variant.name == name)
    spec = provenance()[operation.function]
    names = {**operation.named, **spec["summaries"]}
    row = operation.rows[resolution.row][1]
    steps = tuple(
        (
            f"{names[symbol]} ({symbol})",
            str(list(value) if isinstance(value, tuple) else value),
            spec["values"].get(symbol, ""),
        )
        for symbol, value in resolution.values.items()
        if symbol in names
    )
    arrangements = {name: operation.arrangements[name][number] for name, number in resolution.arrangements.items()}
    why, rejected = _reasons(operation, resolution, isa, others, arrangements)
    used = wanted if threads is not None or resolution.terms >= SERIAL_TERMS else 1
    plan, scratch, schedules = operation.planned_for(resolution, given, isa)
    specialized, specialization = _specialize.explained(plan.specialisation if plan else None, special)
    return Explanation(
        op=operation.name,
        shape=resolution.shape,
        dtype=row[operation.output],
        dtypes=tuple(row[name] for name in operation.written_by(resolution)),
        values={name: resolution.values[symbol] for symbol, name in names.items() if symbol in resolution.values},
        arrangements=arrangements,
        variant=variant,
        why=why,
        rejected=rejected,
        copies=tuple(operation.copies(given)),
        threads=used,
        scratch_bytes=scratch(min(used, _team.MAX_WORKERS)) if scratch else 0,
        specialized=specialized,
        specialization=specialization,
        schedules=schedules,
        steps=steps,
    )


def _reasons(
    operation: Operation,
    resolution: Resolution,
    isa: _isa.Isa,
    others: Sequence[tuple[str, str]],
    arrangements: Mapping[str, str],
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    why = [f"the data types are {operation.rows[resolution.row][0]}"]
    why += [f"{name} is {resolution.words[name]}" for name in operation.layouts]
    why += [f"{tensor} is arranged as {arrangement}" for tensor, arrangement in arrangements.items()]
    rejected = []
    for name, condition in operation.classes:
        if name == resolution.group_class:
            why.append(f"the call is {name}" + (f": {condition}" if condition else ": no other class applies"))
            break
        values = ", ".join(
            f"{symbol} = {resolution.values[symbol]}" for symbol in resolution.values if symbol in condition.split()
        )
        rejected.append((name, f"{condition} does not hold ({values})"))
    why.append(f"{isa.name} is the best instruction set for {operation.rows[resolution.row][0]} that can be used here")
    rejected += others
    return tuple(why), tuple(rejected)
