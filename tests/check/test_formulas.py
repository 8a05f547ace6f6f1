"""Formulas that nobody foresaw: the loader takes them or refuses them, at a place."""

from __future__ import annotations

import random
import re

import pytest
from support import formula_edits
from support.draws import FULL
from support.specs import OTHERS, problems_of, real_texts

PLACE = re.compile(r"[\w./<>-]+:\d+:\d+: [\w-]+: .+", re.DOTALL)


def alone() -> dict[str, str]:
    """Convolution without its relations to other operations: a spec with fast kernels."""
    texts = {name: text for name, text in real_texts().items() if name.startswith(("_", "convolution.yaml"))}
    text = texts["convolution.yaml"]
    return {**texts, "convolution.yaml": text[: text.index("relations:")] + text[text.index("discrepancies:") :]}


@pytest.mark.sweep
@pytest.mark.parametrize("name", ["convolution.yaml", *OTHERS])
def test_whatever_a_formula_becomes_the_spec_loads_or_is_refused_at_a_place(name: str) -> None:
    texts = {name: OTHERS[name]} if name in OTHERS else alone()
    assert problems_of(texts) == ()
    count = 2000 if FULL else 20
    verdicts = [problems_of(after) for _, after in formula_edits.edits(texts, count, random.Random(1))]
    assert all(PLACE.fullmatch(str(problem)) for problems in verdicts for problem in problems)
    assert () in verdicts
    assert any(verdicts)


@pytest.mark.parametrize("extent", ["n: N", "g: G", "i: O", "k: K", "c: IC / G"])
@pytest.mark.parametrize("more", ["floor(G / 64)", "G % 2", "max(G, 1)", "G / 64"])
def test_a_range_that_is_no_polynomial_is_refused_where_it_stands(extent: str, more: str) -> None:
    texts = alone()
    lines = texts["convolution.yaml"].split("\n")
    number = next(number for number, line in enumerate(lines) if line.startswith("  ranges:"))
    lines[number] = lines[number].replace(extent, f'{extent[:3]}"{extent[3:]} + {more}"')
    column = lines[number].index('"') + 2
    problems = problems_of({**texts, "convolution.yaml": "\n".join(lines)})
    place = f"convolution.yaml:{number + 1}:{column}: semantics-index: "
    assert any(str(problem).startswith(place) for problem in problems), problems
