"""Every spec of steps that `generate` accepts builds and agrees with the interpreter: random specs, not only random calls.

Calls have extents of 0, 1, odd ones and a vector's length plus one, views of any order, threads, arrays to write into;
legal ones are compared by value, those a step away by the rule that refuses them, and by what they leave in `out`.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import pytest
from opwright.language import expr, model
from opwright.language.source import SpecInvalid
from opwright.load import load_texts
from support.generated import FULL, rng
from support.package import package
from support.random_specs import Draft, accepted, keys_of, texts_of
from support.random_steps import steps
from support.spec_packages import instruction_set, quick_compiler, usable
from support.step_verdicts import first_disagreement

BATCH = 8 if FULL else 4  # specs of one package
CALLS = 12 if FULL else 6


def test_random_specs_of_steps_use_every_operator_and_function() -> None:
    random, used, keys = rng("steps"), Counter[str](), Counter[str]()
    for _ in range(400 if FULL else 150):
        try:
            (op,) = load_texts(texts_of([steps(random)])).ops
        except SpecInvalid:
            continue
        keys.update(keys_of(op))
        for step in op.semantics.steps:
            trees = [tree for made in step.assignments for tree in (made.target, made.value)]
            used.update(made.op for made in step.assignments)
            for node in (node for tree in [*trees, *(guard.tree for guard in step.where)] for node in expr.walk(tree)):
                used.update([node.function] if isinstance(node, expr.Call) else ())
                used.update([node.op] if isinstance(node, (expr.Unary, expr.Binary)) else ())
    for word, count in sorted((used + keys).items()):
        print(f"{count:5} {word}")
    bits = {
        word for word in expr.REAL_FUNCTIONS if word.startswith(("bit_", "shift_"))
    }  # of integers, with specs of their own
    functions = {*(expr.REAL_FUNCTIONS.keys() - bits), "min", "max", "floor", "ceil", "number", "prod"}
    assert functions <= used.keys(), functions - used.keys()
    assert {
        *expr.ARITHMETIC,
        *expr.COMPARISONS,
        *expr.LOGIC,
        "not",
        "set",
        "sum",
        "product",
        "max",
        "min",
    } <= used.keys()
    stated = {f"Step.{field.name.rstrip('_')}" for field in dataclasses.fields(model.Step) if field.metadata}
    stated |= {
        f"Tensor.{key}" for key in ("broadcast", "broadcast_if", "when", "absent", "joined", "layout", "optional")
    }
    stated |= {"Dim.run", "Dim.per_axis", "Attribute.locates", "Attribute.per"}
    assert stated <= keys.keys(), stated - keys.keys()


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100 if FULL else 1))
def test_random_specs_of_steps_agree_with_the_interpreter_on_every_instruction_set(seed: int, tmp_path: Path) -> None:
    random, drafts = rng("steps", seed), dict[str, Draft]()
    while len(drafts) < BATCH:
        draft, library = accepted(random, family=steps)
        drafts.setdefault(library.ops[0].function, draft)
    texts, seen = texts_of(drafts.values()), Counter[str]()
    assert load_texts(texts).ops
    with quick_compiler(tmp_path):
        library, module = package(texts, tmp_path, f"random_steps_{seed}")
        for isa in usable(module):
            with instruction_set(module, isa):
                for op in library.ops:
                    if isa in {variant.isa for variant in module.variants(op.op)}:
                        said = first_disagreement(module, op, rng(seed, isa, op.op), CALLS, seen)
                        assert said is None, f"{isa}: {said}\n{texts[op.op.lower() + '.yaml']}"
    legal = [seen[f"{op.op} legal"] for op in library.ops]
    print(f"legal calls {sum(legal)}, refused ones {seen.total() - sum(legal)}")
    assert sum(map(bool, legal)) > len(legal) / 2
