"""What execution tells apart though a review calls it harmless: calls that break, found by the interpreter on both sides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import numpy as np
from opwright.language.library import Library, Page
from opwright.language.model import Op
from opwright.oracle import sample
from opwright.oracle.run_steps import compute_steps
from opwright.oracle.validate_steps import validate_steps
from opwright.project import find
from opwright.review import compare
from opwright.review.edit import Edit
from opwright.review.execute import disagreement, execute
from opwright.review.readings import Reading, Sides, values_of
from opwright.review.rules import RULES
from opwright.review.search import Found, place_of, search
from opwright.review.tree import text_of
from opwright.review.witness import BREAKS, MIN_TRIES, claimed

from .step_calls import StepCaller
from .step_verdicts import PRECISION, difference, rounds

HARMLESS = ("none", "compatible")


def harmless(base: Library, head: Library) -> Iterator[tuple[Sides, Sequence[Edit]]]:
    """Each operation of which every edit is called harmless, by its rule and by the search that doubts it."""
    edits = compare.edits(base, head)
    olds, news = ({op.op: op for op in library.ops} for library in (base, head))
    for name in olds.keys() & news.keys():
        own = [edit for edit in edits if edit.op == name]
        rules = {RULES[edit.rule] for edit in own}
        if not own or any(rule.contract not in HARMLESS for rule in rules):
            continue
        yield Sides(olds[name], news[name], news[name]), own


def doubted(sides: Sides, own: Sequence[Edit]) -> bool:
    """Whether the review itself finds a call that breaks."""
    rules = {RULES[edit.rule] for edit in own}
    return any(claimed(rule) for rule in rules) and search(sides, own, (BREAKS,), MIN_TRIES).call is not None


def broken(base: Library, head: Library, seed: int, calls: int) -> Iterator[str]:
    """For each operation of which every edit is called harmless, a call that breaks, if one is found."""
    for sides, own in harmless(base, head):
        found = _search(sides, own, seed, calls)
        if found.call and not doubted(sides, own):
            assert sides.head is not None
            yield f"{sides.head.op}: {sorted({edit.rule for edit in own})}: {found.call} {found.kind}"


def found_break(base: Op, head: Op, rng: np.random.Generator, calls: int) -> str:
    """A call of the base that the head refuses or answers otherwise; '' if none is found."""
    if base.stepped and head.stepped:
        return _first_difference(base, head, rng, calls) or ""
    found = _search(Sides(base, head, head), (), int(rng.integers(1, 1000)), 5 * calls)
    return f"{found.call} {found.kind}" if found.call else ""


def _search(sides: Sides, own: Sequence[Edit], seed: int, calls: int) -> Found:
    """A call near what the edits speak of, or else one anywhere, its tensors without names."""
    anywhere = Edit("input-order-changed", "", "", text_of(sides.base), text_of(sides.head), None, None, lambda op: op)
    with mock.patch.object(sample, "SEED", seed):
        found = search(sides, own, (BREAKS,), calls)
        return found if found.call else search(sides, [anywhere], (BREAKS,), calls)


EDGES = (0.0, -0.0, np.inf, -np.inf, np.nan, 0.3, -1.7, 8.0, 100.0, -2000.0, 70000.0, 0.001)


def broken_steps(base: Library, head: Library, rng: np.random.Generator, calls: int) -> Iterator[str]:
    """The same of operations of steps, by calls that are drawn from declarations and hold infinities, NaN, zeros and
    large numbers, too."""
    for sides, own in harmless(base, head):
        assert sides.base is not None
        assert sides.head is not None
        problem = _first_difference(sides.base, sides.head, rng, calls)
        if problem and not doubted(sides, own):
            yield f"{sides.head.op}: {sorted({edit.rule for edit in own})}: {problem}"


def _first_difference(base: Op, head: Op, rng: np.random.Generator, calls: int) -> str | None:
    for number, call in enumerate(StepCaller(base, rng).legal(calls)):
        inputs = [_with_edges(array, rng) for array in call.inputs] if number % 2 else list(call.inputs)
        was, now = (validate_steps(op, inputs, call.attributes) for op in (base, head))
        if not now.accepted:
            return f"refused by {now.violations}: {call}"
        types = [[(validation.row or {})[name] for name in validation.shapes] for validation in (was, now)]
        if types[0] != types[1] or list(was.shapes.values()) != list(now.shapes.values()):
            return f"{types[0]}{was.shapes} became {types[1]}{now.shapes}: {call}"
        with np.errstate(all="ignore"):
            olds, news = (compute_steps(op, inputs, call.attributes).values() for op in (base, head))
        precision = rounds(base) or rounds(head)
        for old, new in zip(olds, news, strict=True):
            problem = difference(new, old, PRECISION[old.dtype.itemsize] if precision else 1e-9)
            if problem:
                return f"values{problem}: {call}"
    return None


def _with_edges(array: Any, rng: np.random.Generator) -> Any:
    """Some cells are what formulas treat in a way of their own."""
    if isinstance(array, list):
        return [_with_edges(part, rng) for part in array]
    if array is None or array.dtype.kind in "iub" or array.dtype.itemsize == 1:
        return array
    with np.errstate(over="ignore"):
        values = np.asarray(EDGES)[rng.integers(len(EDGES), size=array.shape)].astype(array.dtype)
    return np.where(rng.random(array.shape) < 0.25, values, array).astype(array.dtype)


def different_kernels(sides: Sides, pages: tuple[Mapping[str, Page], Mapping[str, Page]], count: int) -> list[str]:
    """What the packages of both sides do with legal calls of the base: otherwise than each other, or than their spec."""
    base, head = sides.base, sides.head
    assert base is not None
    assert head is not None
    place = place_of(base, head, ())
    made = [place.call(setting) for setting in place.seeds[::-1][:count]]
    calls = [call for call in made if call and Reading(base, call).outcome.accepted]
    values = values_of(base, head)
    olds, news = (
        execute(find(), op, known, calls, values, "portable") for op, known in zip((base, head), pages, strict=True)
    )
    problems = []
    for call, old, new in zip(calls, olds, news, strict=True):
        readings = sides.read(call)
        wrong = [disagreement(reading, found) for reading, found in zip(readings, (old, new), strict=True)]
        trouble = [found.trouble for found in (old, new) if found.trouble]
        if trouble or any(wrong) or old.outcome != new.outcome:
            problems.append(f"{call}: {[*trouble, *filter(None, wrong)]} {old.outcome}; {new.outcome}")
        elif old.result is not None and new.result is not None:
            rough = any(op.stepped and rounds(op) for op in (base, head))
            problem = difference(new.result, old.result, 1e-2 if rough else 0.0)
            problems += [f"{call}{problem}"] if problem else []
    return problems
