"""What is refused of an entry that names an operator of PyTorch."""

from __future__ import annotations

import pytest
from support.specs import OTHERS, problems_of

ENTRIES = {
    "{aten: mm, arguments: {left: self}}": ["torch-argument"],
    "{aten: mm, words: {left: one}}": ["torch-argument"],
    "{aten: mm, arguments: {kernel: size}, words: {kernel: one}}": ["torch-argument"],
    "{aten: mm}, {aten: mm}": ["torch-duplicate"],
    "{aten: mm, when: {a: '1'}}, {aten: mm, when: {a: '1'}}": ["torch-duplicate"],
    "{arguments: {src: self}}": ["missing-key"],
    "{aten: mm, arguments: {src: 'self)'}}": ["name"],
    "{aten: mm, when: {a: '\"x'}}": ["name"],
    "{aten: 'mm()'}": ["name"],
    "{aten: mm, when: {a: '1'}}, {aten: mm, when: {a: '2'}}": [],
    "{aten: mm.out, arguments: {src: self, kernel: size}}": [],
}


@pytest.mark.parametrize("entries", ENTRIES)
def test_an_entry_of_pytorch_names_what_is_there_and_no_two_are_for_the_same_calls(entries: str) -> None:
    text = OTHERS["max_pool.yaml"] + f"torch: [{entries}]\n"
    assert [problem.rule for problem in problems_of({"max_pool.yaml": text})] == ENTRIES[entries]
