"""How far the results of kernels moved: the old and the new kernel run on the same calls.

In: a Review. Out: a Value for each kernel whose tokens changed. The calls are legal on both sides and small; their data
are normally distributed, so that a changed order of summation shows. The packages report which kernel ran.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from ..calls.call_text import CallText
from ..derive.variants import expand, layout_choices
from ..language.model import Op
from ..oracle import sample
from ..oracle.witness import ulps
from ..project import Project
from .evidence import Value
from .execute import execute
from .findings import Finding, Review
from .readings import Sides
from .search import call_of, legal_settings
from .step_places import StepPlace

CALLS = 3  # calls per kernel
WIDER = 7  # factors on batch and channels of further calls: longer sums, rows that do not fill a vector


def _silent(line: str) -> None:
    pass


def measured(project: Project, review: Review, say: Callable[[str], None] = _silent) -> Review:
    """The review with the values of every kernel that both sides have and whose tokens changed.

    `say` receives progress messages, because this takes seconds to minutes.
    """
    changed = review.impact.observed.kernels
    olds, news = ({op.op: op for op in library.every} for library in review.libraries)
    found: dict[str, Value] = {}
    jobs = [
        (base, isa, wanted)
        for name, base in olds.items()
        for isa, wanted in _by_isa(base, changed).items()
        if name in news
    ]
    for number, (base, isa, wanted) in enumerate(jobs, start=1):
        kernels = f"{len(wanted)} {isa or 'fast'} kernels of {base.op}"
        say(f"values: {number} of {len(jobs)}: compiling and running {kernels} on both sides")
        found |= _of_op(project, review, base, news[base.op], wanted, isa)
    return dataclasses.replace(review, values=found)


def _by_isa(op: Op, changed: Collection[str]) -> dict[str, set[str]]:
    """The kernels to run, by the cap on instruction sets that a process runs with: the portable ones, and without
    a cap those of this machine. Unchanged ones are not compiled; fast ones take ten times as long to compile."""
    found: dict[str, set[str]] = {}
    for variant in expand(op):
        if variant.name in changed:
            found.setdefault("" if variant.isa.fast else variant.isa.name, set()).add(variant.name)
    return found


def _of_op(project: Project, review: Review, base: Op, head: Op, wanted: set[str], isa: str) -> dict[str, Value]:
    calls = list(_calls(base, head, wanted))
    with ThreadPoolExecutor(2) as pool:
        jobs = [
            pool.submit(execute, project, op, library.pages, calls, "normal", isa)
            for op, library in zip((base, head), review.libraries, strict=True)
        ]
        olds, news = (job.result() for job in jobs)
    troubles = [f"{word}: {done.trouble}" for word, answers in (("before", olds), ("after", news))
                for done in answers if done.trouble]  # fmt: skip
    note = troubles[0] if troubles else "no small call accepted by both sides runs it on this machine"
    found = {name: Value(name, note=note) for name in sorted(wanted)}
    for call, old, new in zip(calls, olds, news, strict=True):
        if old.kernel in wanted and old.result is not None and new.result is not None:
            found[old.kernel] = _extended(found[old.kernel], call, ulps(old.result, new.result))
    return found


def _extended(value: Value, call: CallText, far: int) -> Value:
    """With one more call."""
    furthest = far > value.ulp or not value.calls
    return Value(value.kernel, value.calls + 1, max(far, value.ulp), str(call) if furthest else value.call)


def _calls(base: Op, head: Op, wanted: set[str]) -> Iterator[CallText]:
    """Calls that give the same shape on both sides, several for each kernel."""
    missing = {_served(v.row, v.layouts, v.group_class.name if v.group_class else None): CALLS
               for v in expand(base) if v.name in wanted}  # fmt: skip
    sides = Sides(base, head, None)
    if base.stepped:
        yield from _step_calls(base, sides)
        return
    settings = legal_settings(base)
    wider = [_wider(setting, WIDER) for setting in settings]
    for setting, row, words in itertools.product([*wider, *settings], base.dtypes, layout_choices(base)):
        call = call_of(base, dataclasses.replace(setting, row=row, values={**setting.values, **words}))
        old, new = sides.read(call) if call else (None, None)
        if call is None or old is None or new is None or not old.outcome.accepted or old.outcome != new.outcome:
            continue
        key = _served(row, words, old.validation.group_class)
        if missing.get(key):
            missing[key] -= 1
            yield call
        if not any(missing.values()):
            return


def _step_calls(base: Op, sides: Sides) -> Iterator[CallText]:
    """Calls of an operation of steps that give the same shapes on both sides, several for each row of data types."""
    place = StepPlace(base, base, ())
    for row in base.dtypes:
        calls = filter(None, (place.call(dataclasses.replace(setting, row=row)) for setting in place.seeds[::-1]))
        both = ((call, *sides.read(call)) for call in calls)
        fit = (call for call, old, new in both if old.outcome.accepted and old.outcome == new.outcome)
        yield from itertools.islice(fit, CALLS)


def _served(row: Mapping[str, str], words: Mapping[str, str], group_class: str | None) -> tuple[object, ...]:
    """What distinguishes the kernels of one instruction set."""
    return (*row.values(), *words.values(), group_class)


def _wider(setting: sample.Setting, factor: int) -> sample.Setting:
    sizes = {symbol: size if isinstance(size, tuple) else size * factor for symbol, size in setting.sizes.items()}
    return dataclasses.replace(setting, sizes=sizes)


def summary(review: Review, finding: Finding) -> str:
    """`values differ in 24 of 24 (max 31 ulp)`; empty if no kernel was run."""
    if review.values is None or not finding.moved.kernels:
        return ""
    values = [review.values[name] for name in sorted(finding.moved.kernels) if name in review.values]
    run = [value for value in values if value.calls]
    differ = [value for value in run if value.ulp]
    parts = []
    if differ:
        parts = [f"values differ in {len(differ)} of {len(run)} (max {max(value.ulp for value in differ)} ulp)"]
    elif run:
        parts = [f"values are bit-identical in {len(run)}"]
    if left := len(finding.moved.kernels) - len(run):
        why = next((value.note for value in values if not value.calls), "only one side has this code")
        parts.append(f"{left} not run: {why}")
    return "; ".join(parts)
