"""Edits of any field of shipped operations and of what they share, and what execution and artefacts say of each.

In: the folder of specs. Out: families of specs, edits of them, and what a review calls less than it is. An operation's
family has all that its relations reach, so that gradients and equal operations are edited, too.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from opwright.language.library import Library
from opwright.load import load_texts, read_folder, with_gradients
from opwright.project import find
from opwright.review.findings import Review
from opwright.review.rules import CONTRACTS, RULES
from opwright.review.tree import exact
from opwright.review.witness import witnessed

from . import artefacts, checkout, harmless_breaks, mutants, reviewing, step_edits, structure_edits, table_edits
from .calls import Rng

TIES = ("equals", "adjoint", "gradient", "gradient_of")
# The areas of rules that account for a changed table.
TABLES = {
    "onnx": ("onnx", "op"),
    "split": ("split", "op"),
    "torch": ("torch", "relation", "attribute", "input", "output", "op"),
}


@functools.cache
def folder() -> Mapping[str, str]:
    return read_folder(checkout.ROOT / reviewing.FOLDER, checkout.ROOT)


@functools.cache
def _plain() -> Mapping[str, Any]:
    return {name: mutants.plain(text) for name, text in folder().items()}


@functools.cache
def files() -> Mapping[str, str]:
    """The file of each operation."""
    return {data["op"]: name for name, data in sorted(_plain().items()) if "op" in data}


@functools.cache
def _tied() -> Mapping[str, frozenset[str]]:
    """The files that the relations of a file name, or that name it."""
    found: dict[str, set[str]] = {name: set() for name in files().values()}
    for name in found:
        for relation in _plain()[name].get("relations", ()):
            for other in (files().get(relation.get(kind, "")) for kind in TIES):
                if other is not None:
                    found[name].add(other)
                    found[other].add(name)
    return {name: frozenset(others) for name, others in found.items()}


def family(name: str) -> dict[str, str]:
    """A file, all that its ties reach, and what all share."""
    found, waiting = set[str](), [name]
    while waiting:
        own = waiting.pop()
        waiting += [] if own in found else _tied()[own]
        found.add(own)
    return {file: text for file, text in folder().items() if file in found or Path(file).name.startswith("_")}


def edits(name: str, count: int, chance: random.Random) -> Iterator[tuple[str, dict[str, str], dict[str, str]]]:
    """What was done, and the texts before and after: of steps, or of any field of the family."""
    before = family(name)
    if chance.random() < 0.3 and "steps" in _plain()[name]["semantics"]:
        own = {file: text for file, text in before.items() if file == name or Path(file).name.startswith("_")}
        made = ((what, {**before, name: after[name]}) for what, after in step_edits.edits(own, count, chance))
    else:
        made = structure_edits.edits(before, count, chance)
    yield from ((what, before, after) for what, after in made)


def table_edited(name: str, count: int, chance: random.Random) -> Iterator[tuple[str, dict[str, str], dict[str, str]]]:
    """The same of what operations share, and of the rows by which PyTorch and ONNX reach them."""
    before = family(name)
    yield from ((what, before, after) for what, after in table_edits.edits(before, count, chance))


def loaded(texts: Mapping[str, str]) -> Library:
    return with_gradients(load_texts(dict(texts)))


def reviewed(before: Mapping[str, str], after: Mapping[str, str], proven: bool = False, run: bool = False) -> Review:
    """The review with its witnesses; the proof of its effect takes much longer, and so does running them."""
    with nullcontext() if proven else reviewing.nothing_rendered():
        found = reviewing.reviewed(before, after)
    return witnessed(find(), found, run=run)


def misses(
    before: Mapping[str, str], after: Mapping[str, str], rng: Rng, calls: int, proven: bool = False
) -> Iterator[str]:
    """What the review calls less than artefacts and calls show."""
    one, other = loaded(before), loaded(after)
    review = reviewed(before, after, proven)
    yield from review.impact.unpredicted
    contracts, rules = _said(review)
    for name, least, why in artefacts.broken(one, other):
        said, known = contracts.get(name, "none"), rules.get(name, set())
        areas = {rule.split("-")[0] for rule in known}
        if least == "header":  # which the proof of the effect compares
            wrong = proven and "symbol-declaration-changed" not in known
        elif least == "kernels":
            wrong = not any(RULES[rule].severity() in ("error", "warning") for rule in known)
        elif least in TABLES:
            wrong = said in harmless_breaks.HARMLESS and not areas & {*TABLES[least]}
        else:
            wrong = CONTRACTS.index(said) > CONTRACTS.index(least) or (why.startswith("C:") and not {"c", "op"} & areas)
        if wrong:
            yield f"{name}: {said}, {sorted(known)}: {why}"
    olds, news = ({op.op: op for op in library.every} for library in (one, other))
    for name in sorted(olds.keys() & news.keys()):
        old, new = olds[name], news[name]
        harmless = contracts.get(name, "none") in harmless_breaks.HARMLESS
        if harmless and exact(old) != exact(new):
            found = harmless_breaks.found_break(old, new, rng, calls)
            if found:
                yield f"{name}: {sorted(rules.get(name, ()))}: {found}"


def _said(review: Review) -> tuple[dict[str, str], dict[str, set[str]]]:
    """Of each operation the worst contract and the rules of its findings."""
    contracts, rules = dict[str, str](), dict[str, set[str]]()
    for finding in review.findings:
        for name in finding.ops:
            contracts[name] = min(contracts.get(name, "none"), finding.rule.contract, key=CONTRACTS.index)
            rules.setdefault(name, set()).add(finding.rule.id)
    return contracts, rules


def quiet() -> Any:
    """Without warnings of overflow and NaN, which edges of data make."""
    return np.errstate(all="ignore")
