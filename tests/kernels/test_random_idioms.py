"""Operations put together of idioms, each of which kernels treat in a way of its own, agree with the interpreter.

What one idiom makes, another reads: scans, groups, windows, products, normalisations, conversions, stretched inputs.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from opwright.language.source import SpecInvalid
from opwright.load import load_texts
from support.generated import FULL, rng
from support.package import package
from support.random_idioms import idioms
from support.spec_packages import instruction_set, quick_compiler, serving
from support.step_verdicts import first_disagreement

SPECS = 3 if FULL else 2  # of one package
CALLS = 12 if FULL else 8


def accepted(seed: int) -> dict[str, str]:
    random, texts = rng("idioms", seed), dict[str, str]()
    while len(texts) < SPECS:
        text = idioms(random, f"Idiom{len(texts)}")
        if not refused(text):
            texts[f"idiom{len(texts)}.yaml"] = text
    return texts


def refused(text: str) -> str:
    try:
        load_texts({"idiom.yaml": text})
    except SpecInvalid as invalid:
        return str(invalid)
    return ""


def test_hardly_an_operation_of_idioms_is_refused() -> None:
    refusals = [refused(idioms(rng("idiom", number), "Idiom")) for number in range(100)]
    assert sum(map(bool, refusals)) <= 10, [found for found in refusals if found][:3]


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100 if FULL else 1))
def test_kernels_of_idioms_agree_with_the_interpreter(seed: int, tmp_path: Path) -> None:
    texts, seen = accepted(seed), Counter[str]()
    with quick_compiler(tmp_path):
        library, module = package(texts, tmp_path, f"random_idioms_{seed}")
        for op in library.ops:
            found = serving(module, op)
            for isa in found if FULL else found[:1]:
                with instruction_set(module, isa):
                    problem = first_disagreement(module, op, rng(seed, isa, op.op), CALLS, seen)
                    assert problem is None, f"{isa}: {problem}\n{texts[op.op.lower() + '.yaml']}"
    assert all(seen[f"{op.op} legal"] for op in library.ops)
