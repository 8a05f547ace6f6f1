"""One concrete call for each finding that callers can observe, with its outcome on the old and on the new side.

In: a Review. Out: the same Review, its findings with witnesses. The spec's interpreter finds a call,
which the packages of both sides then execute; the witness says so if the two disagree.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..calls.call_text import CallText
from ..errors import UsageError
from ..language.library import Library
from ..language.model import Op
from ..language.source import INCONSISTENT, suggestion
from ..oracle.validate import Array
from ..oracle.witness import ulps
from ..project import Project
from .evidence import ERROR, NO_OPERATION, SAME, Witness
from .execute import Executed, disagreement, execute
from .findings import Finding, Review
from .readings import Sides, values_of
from .rules import SEVERITIES, Rule
from .search import Found, has_calls, search
from .sides import Side
from .tree import exact

TRIES = 600  # calls tried for one finding
TOTAL = 4000  # calls tried for all findings: about four seconds if none is ever found (AMD Zen 5)
MIN_TRIES = 60
LARGEST = 2**24  # elements of the tensors of a call passed by --call
DEPENDENT = "together with the other changes of the operation that it depends on"
UNLIKELY = 4  # of these, for findings visible by rounding only, which the interpreter does not model


def needed(rule: Rule) -> bool:
    """Whether a call can show the finding: none shows what is of records, tables of PyTorch and ONNX, splits or C."""
    behaves = rule.contract in ("breaking", "dangerous") or rule.kernel == "numerics"
    return rule.area in OF_CALLS and behaves and not (rule.record and rule.kernel == "none")


def witnessed(project: Project, review: Review, run: bool = True) -> Review:
    """The review with a witness for each finding that needs one; without `run` nothing is built."""
    waiting = [finding for finding in review.findings if needed(finding.rule) and finding.edits]
    tries = max(MIN_TRIES, min(TRIES, TOTAL // max(len(waiting), 1)))
    searched = {id(finding): _searched(review, finding, tries) for finding in waiting}
    for finding in review.findings:
        if claimed(finding.rule) and finding.edits:
            doubt = _searched(review, finding, MIN_TRIES, (BREAKS,))
            if isinstance(doubt, Case) and doubt.breaks:
                searched[id(finding)] = doubt
    cases = [case for case in searched.values() if isinstance(case, Case)]
    command = command_of(review.base, review.head)
    executed = _witnesses(cases, command, _executed(project, review.libraries, cases) if run else {})
    found = {key: executed[id(case)] if isinstance(case, Case) else case for key, case in searched.items()}
    broken = {key for key, case in searched.items() if isinstance(case, Case) and case.breaks}
    findings = [_raised(f, review.breaking) if id(f) in broken else f for f in review.findings]
    shown = [replace(new, witness=found.get(id(f))) for f, new in zip(review.findings, findings, strict=True)]
    return replace(review, findings=tuple(sorted(shown, key=lambda f: SEVERITIES.index(f.severity))))


def claimed(rule: Rule) -> bool:
    """Whether the finding claims, without proof, that changed kernels do not affect callers."""
    proven = rule.action in ("rewritten", "loosened", "renamed")
    return rule.area in OF_CALLS and rule.contract in ("none", "compatible") and rule.kernel != "none" and not proven


def _raised(finding: Finding, severity: str) -> Finding:
    """The finding with its severity raised if the witness shows a break that its rule calls harmless."""
    if finding.rule.contract == "breaking":
        return finding
    worst = min(finding.severity, severity, key=SEVERITIES.index)
    return replace(finding, rule=replace(finding.rule, contract="breaking"), severity=worst)


@dataclass(frozen=True)
class Case:
    """A call that was found, and the operations it is for."""

    sides: Sides
    call: CallText
    tried: int = 0
    notes: tuple[str, ...] = ()
    breaks: bool = False

    def packages(self) -> Iterator[tuple[tuple[int, int], Op]]:
        """The operations to generate packages for, by side and identity."""
        for side, op in enumerate((self.sides.base, self.sides.head)):
            if op is not None and op.function == self.call.function:
                yield (side, id(op)), op


def _searched(
    review: Review, finding: Finding, tries: int, wanted: Sequence[Sequence[str]] = ()
) -> Case | Witness | None:
    """A call of the first operation that has one."""
    tried = failed = 0
    compiled = False
    for sides, edits in _sides(review.libraries, finding):
        compiled = True
        share = min(len(finding.ops), 2) * (UNLIKELY if finding.rule.contract == "none" else 1)
        found: Found = search(sides, edits, wanted or _wanted(finding.rule), max(MIN_TRIES, tries // share))
        tried, failed = tried + found.tried, failed + found.failed
        if found.call is not None:
            notes = () if sides.alone else (DEPENDENT,)
            return Case(sides, found.call, tried, notes, found.kind in BREAKS and not found.shared)
    notes = (f"{failed} of these calls could not be evaluated",) if failed else ()
    return Witness(tried, notes=(*notes, *_of_kernels(review, finding))) if compiled else None


def _of_kernels(review: Review, finding: Finding) -> tuple[str, ...]:
    """If only the kernels differ and were run: the call on which they differ most."""
    values = [value for name, value in sorted((review.values or {}).items()) if name in finding.moved.kernels]
    far = max(values, key=lambda value: value.ulp, default=None)
    return (f"its kernels differ by {far.ulp} ulp on {far.call}, normal data",) if far and far.ulp else ()


OF_CALLS = ("op", "rank", "dim", "attribute", "input", "output", "layout", "dtypes", "value", "padding", "shape",
            "constraint", "semantics")  # fmt: skip
BREAKS = ("refused", "shape", "values")  # kinds of difference that change a valid call


def _wanted(rule: Rule) -> Sequence[Sequence[str]]:
    """The kinds of difference that demonstrate a rule, the best first."""
    if rule.contract not in ("breaking", "dangerous"):
        return (("accepted",), ("refused", "shape", "values"))
    if rule.direction == "out":
        return (("shape", "values"), ("refused",), ("accepted",))
    kinds = (("refused", "shape", "values"), ("accepted",))
    return (*kinds, ("rules",)) if rule.contract == "dangerous" else kinds


def _sides(libraries: tuple[Library, Library], finding: Finding) -> Iterator[tuple[Sides, Sequence[Any]]]:
    """Every operation of a finding: before, after, and with its edits alone."""
    olds, news = ({op.op: op for op in library.every} for library in libraries)
    for name in finding.ops:
        edits = [edit for edit in finding.edits if edit.op == name]
        was = next((edit.was for edit in edits if edit.rule == "op-renamed" and edit.now == name), name)
        base, head = olds.get(was), news.get(name)
        alone = base
        try:
            for edit in edits:
                alone = edit.make(alone)
        except INCONSISTENT:  # it depends on other edits: the witness says TOGETHER
            alone = None
        if exact(alone) == exact(base):
            continue
        if exact(alone) == exact(head):
            alone = head
        yield Sides(base, head, alone if alone is head or has_calls(alone) else None), edits


def called(project: Project, base: Side, head: Side, call: CallText) -> Witness:
    """The outcome on both sides of a call passed by --call."""
    libraries = (base.library(), head.library())
    if sum(math.prod(tensor.shape) for given in call.tensors.values() for tensor in given.parts) > LARGEST:
        raise UsageError(f"the call's tensors have more than {LARGEST} elements")
    ops = [next((op for op in library.every if op.function == call.function), None) for library in libraries]
    if not any(ops):
        known = sorted({op.function for library in libraries for op in library.every})
        raise UsageError(f"neither side has an operation {call.function!r}{suggestion(call.function, known)}")
    case = Case(Sides(ops[0], ops[1], None), call)
    return _witnesses([case], command_of(base.name, head.name), _executed(project, libraries, [case]))[id(case)]


Answers = dict[tuple[int, int], Iterator[Executed]]


def _executed(project: Project, libraries: tuple[Library, Library], cases: Sequence[Case]) -> Answers:
    """Execute the calls of all cases, generating each package once; the answers are in the order of the cases."""
    jobs: dict[tuple[int, int], tuple[Op, str, list[CallText]]] = {}
    for case in cases:
        values = values_of(case.sides.base, case.sides.head)
        for key, op in case.packages():
            jobs.setdefault(key, (op, values, []))[2].append(case.call)
    with ThreadPoolExecutor(2) as pool:  # two packages at a time
        runs = {
            key: pool.submit(execute, project, op, libraries[key[0]].pages, calls, values)
            for key, (op, values, calls) in jobs.items()
        }
        return {key: iter(run.result()) for key, run in runs.items()}


def _witnesses(cases: Sequence[Case], command: Sequence[str], answers: Answers) -> dict[int, Witness]:
    """The outcomes of calls by the identity of the case: as executed, or else as interpreted."""
    witnesses = {}
    for case in cases:
        done = [Executed(NO_OPERATION), Executed(NO_OPERATION)]
        for key, _ in case.packages():
            done[key[0]] = next(answers[key]) if key in answers else Executed()
        witnesses[id(case)] = _executed_witness(case, done, command)
    return witnesses


def _executed_witness(case: Case, done: Sequence[Executed], command: Sequence[str]) -> Witness:
    readings = case.sides.read(case.call)
    pairs = list(zip(readings, done, strict=True))
    base, head = (found.outcome or reading.outcome for reading, found in pairs)
    old, new = (reading.result if found.result is None else found.result for reading, found in pairs)
    notes = list(case.notes)
    for word, (reading, found) in zip(("before", "after"), pairs, strict=True):
        if found.trouble:
            notes.append(f"{word}, not executed: {found.trouble}")
        if wrong := disagreement(reading, found):
            notes.append(f"{ERROR}, {word}: {wrong}")
    return Witness(
        tried=case.tried,
        call=case.call,
        base=base,
        head=head,
        differs=values_differ(old, new) if base == head and old is not None and new is not None else "",
        executed=all(found.outcome for found in done),
        notes=tuple(notes),
        reproduce=shlex.join([*command, "--call", str(case.call)]),
    )


def command_of(base: str, head: str) -> list[str]:
    """The command that compares two sides."""
    return ["opwright", "diff", base, *([] if head == "the working tree" else [head])]


def values_differ(old: Array, new: Array) -> str:
    """Where two results of the same shape and type differ, and by how much."""
    was, now = old.astype(np.float64), new.astype(np.float64)
    wrong = np.argwhere(~((was == now) | (np.isnan(was) & np.isnan(now))))
    if not len(wrong):
        return SAME
    cell = tuple(map(int, wrong[0]))
    first = f"{list(cell)}: {was[cell]:g} -> {now[cell]:g}"
    whole = old.dtype.kind in "iub" or old.dtype.itemsize == 1
    far = f"{abs(was - now).max():g}" if whole else f"{ulps(old, new)} ulp"
    return f"{len(wrong)} of {old.size} values differ, first {first}; largest difference {far}"
