"""What `diff` calls harmless is: edits of every formula and of every list and map, judged by what both sides do with
random calls."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from opwright.derive.algebra.poly import NotPolynomial
from opwright.language.library import Library
from opwright.language.source import SpecInvalid
from opwright.load import load_texts
from opwright.review import compare
from opwright.review.readings import Sides
from opwright.review.rules import RULES
from support import (
    draws,
    formula_edits,
    harmless_breaks,
    pairs,
    random_steps,
    reviewing,
    spots,
    step_edits,
    structure_edits,
)
from support.draws import FULL
from support.harmless_breaks import broken, broken_steps
from support.random_specs import accepted, texts_of

EDITS = 4000 if FULL else 16
STRUCTURES = 4000 if FULL else 40
BATCH = 20 if FULL else 5  # edits of one set of specs
STEP_EDITS = 4000 if FULL else 40
STEP_CALLS = 60 if FULL else 8
EXECUTED = 40 if FULL else 1  # edits whose kernels are run
CALLS = 1500 if FULL else 60
PARTS = 8
REFUSED = (SpecInvalid, NotPolynomial)  # the second where the loops of kernels cannot be derived
SETS = [structure_edits.free(texts) for texts in pairs.bases()[:-1]]
STEPS = spots.steps()


def loaded(texts: Mapping[str, str]) -> Library | None:
    """The library, unless the loader refuses it."""
    try:
        return load_texts(texts)
    except REFUSED:
        return None


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(PARTS))
def test_no_edit_of_a_formula_that_is_called_harmless_breaks_a_call(part: int):
    texts = reviewing.specs()
    base, wrong = load_texts(texts), []
    for number, (edits, after) in enumerate(formula_edits.edits(texts, EDITS // PARTS, random.Random(part))):
        head = loaded(after)
        wrong += [(edits, call) for call in (broken(base, head, number + 1, CALLS) if head else ())]
    assert wrong == []


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(PARTS))
def test_no_edit_of_a_list_or_map_that_is_called_harmless_breaks_a_call(part: int):
    """Both ways: what came may go."""
    wrong = []
    for turn in range(0, STRUCTURES // PARTS, BATCH):
        chance = random.Random(1000 * part + turn)
        texts = chance.choice(chance.choice([SETS, STEPS]))
        base = load_texts(texts)
        for number, (edits, after) in enumerate(structure_edits.edits(texts, BATCH, chance), 1):
            head = loaded(after)
            for before, now in ((base, head), (head, base)):
                found = broken(before, now, number, CALLS) if before and now else ()
                wrong += [(part, turn, number, edits, call) for call in found]
    assert wrong == []


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(PARTS))
def test_no_edit_of_steps_that_is_called_harmless_breaks_a_call(part: int):
    """Of shipped operations, of others, and of random ones; both ways."""
    wrong = []
    for turn in range(0, STEP_EDITS // PARTS, BATCH):
        chance, rng = random.Random(seed := 1000 * part + turn), draws.rng("edits", part, turn)
        texts = drawn(rng) if turn % (3 * BATCH) == BATCH else chance.choice([*step_edits.shipped(), *STEPS])
        base = load_texts(texts)
        for edits, after in step_edits.edits(texts, BATCH, chance):
            head = loaded(after)
            for before, now in ((base, head), (head, base)):
                found = broken_steps(before, now, rng, STEP_CALLS) if before and now else ()
                wrong += [(seed, edits, call) for call in found]
    assert wrong == []


@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["lists and maps", "steps"])
@pytest.mark.parametrize("part", range(PARTS if FULL else 1))
def test_kernels_agree_on_edits_that_are_called_harmless(part: int, kind: str, tmp_path: Path):
    """With each other and with what the interpreter says of either side."""
    wrong = []
    found = called_harmless(random.Random(part), kind)
    for edits, base, head, sides in itertools.islice(found, EXECUTED):
        wrong += [(edits, found) for found in harmless_breaks.different_kernels(sides, (base.pages, head.pages), 4)]
    assert wrong == []


def called_harmless(chance: random.Random, kind: str) -> Iterator[tuple[str, Library, Library, Sides]]:
    """Edits that reach kernels and are called harmless, without end."""
    makes = step_edits if kind == "steps" else structure_edits
    while True:
        sets = chance.choice([SETS, STEPS]) if kind != "steps" else [*step_edits.shipped(), *STEPS]
        base = load_texts(texts := chance.choice(sets))
        for edits, after in makes.edits(texts, BATCH, chance):
            head = loaded(after)
            for sides, own in harmless_breaks.harmless(base, head) if head else ():
                reach = any(RULES[edit.rule].kernel != "none" for edit in own)
                if head and reach and not harmless_breaks.doubted(sides, own):
                    yield edits, base, head, sides


def drawn(rng: np.random.Generator) -> dict[str, str]:
    """A random operation of steps."""
    draft, _ = accepted(rng, family=random_steps.steps)
    return {f"{reviewing.FOLDER}/{name}": text for name, text in texts_of([draft]).items()}


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(PARTS if FULL else 1))
def test_what_edits_of_steps_move_is_what_was_predicted(part: int):
    wrong = []
    for turn in range(60 if FULL else 2):
        chance = random.Random(1000 * part + turn)
        texts = chance.choice([*step_edits.shipped(), *STEPS])
        for edits, after in step_edits.edits(texts, 5 if FULL else 2, chance):
            if loaded(after) and (moved := reviewing.reviewed(texts, after).impact.unpredicted):
                wrong.append((part, turn, edits, moved[:3]))
    assert wrong == []


def judged(base: Library, after: Mapping[str, str]) -> str:
    head = loaded(after)
    found = {RULES[edit.rule].contract for edit in compare.edits(base, head)} if head else {"refused"}
    return "refused" if head is None else "breaking" if "breaking" in found else "harmless"


def test_edits_of_formulas_are_harmless_breaking_and_refused():
    """Else the sweep would show nothing."""
    texts = reviewing.specs()
    base = load_texts(texts)
    made = formula_edits.edits(texts, 24, random.Random(99))
    assert {judged(base, after) for _, after in made} == {"harmless", "breaking", "refused"}


def test_every_kind_of_edit_of_structure_is_taken_by_the_loader_somewhere():
    """Else the sweep would show less than it says."""
    taken, found = set[str](), Counter[str]()
    kinds = {change.__name__ for change in (*structure_edits.SINGLE, *structure_edits.JOINT)}
    for number, texts in enumerate(SETS * 12):
        if taken == kinds:
            break
        base, chance = load_texts(texts), random.Random(number)
        for edits, after in structure_edits.edits(texts, 12, chance, kinds - taken):
            found[outcome := judged(base, after)] += 1
            taken |= {edits} if outcome != "refused" else set()
    assert taken == kinds
    assert found.keys() == {"harmless", "breaking", "refused"}
