"""What is refused of an entry that names an operator of PyTorch."""

from __future__ import annotations

import pytest
from support.specs import OTHERS, problems_of

GIVEN = "src: self, kernel: size, strides: stride"
ENTRIES = {
    "{aten: mm, arguments: {left: self, GIVEN}}": ["torch-argument"],
    "{aten: mm, arguments: {GIVEN}, words: {left: one}}": ["torch-argument"],
    "{aten: mm, arguments: {GIVEN}, words: {kernel: one}}": ["torch-argument"],
    "{aten: mm, arguments: {GIVEN}}, {aten: mm, arguments: {GIVEN}}": ["torch-duplicate"],
    "{aten: mm, when: {a: '1'}, arguments: {GIVEN}}, {aten: mm, when: {a: '1'}, arguments: {GIVEN}}": [
        "torch-duplicate"
    ],
    "{arguments: {GIVEN}}": ["missing-key"],
    "{aten: mm, arguments: {src: 'self)'}}": ["name"],
    "{aten: mm, when: {a: '\"x'}, arguments: {GIVEN}}": ["name"],
    "{aten: 'mm()', arguments: {GIVEN}}": ["name"],
    "{aten: mm, arguments: {src: self, kernel: size}}": ["torch-required"],
    "{aten: mm, arguments: {kernel: size, strides: stride}}": ["torch-required"],
    "{aten: mm, words: {src: one, kernel: one, strides: one}}": ["torch-argument", "torch-required"],
    "{aten: mm}": ["torch-required"] * 3,
    "{aten: mm, arguments: {src: self}, words: {kernel: one, strides: one}}": [],
    "{aten: mm, when: {a: '1'}, arguments: {GIVEN}}, {aten: mm, when: {a: '2'}, arguments: {GIVEN}}": [],
    "{aten: mm.out, arguments: {GIVEN}}": [],
}


@pytest.mark.parametrize("entries", ENTRIES)
def test_an_entry_of_pytorch_names_what_is_there_and_what_is_needed_and_no_two_are_for_the_same_calls(
    entries: str,
) -> None:
    text = OTHERS["max_pool.yaml"] + f"torch: [{entries.replace('GIVEN', GIVEN)}]\n"
    assert sorted(problem.rule for problem in problems_of({"max_pool.yaml": text})) == ENTRIES[entries]
