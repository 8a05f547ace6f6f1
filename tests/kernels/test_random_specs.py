"""Every spec that `generate` accepts builds, loads and agrees with the interpreter: random specs, not only random calls.

Calls have extents of 0, 1, 2, a vector's length plus one and more, at every spatial rank that a spec admits; legal calls
are compared by value, those a step away by the rule that refuses them.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from opwright.check.declarations import OF_STEPS
from opwright.language import model
from opwright.load import load_texts
from support.draws import FULL, rng
from support.package import package
from support.random_specs import Draft, Rng, accepted, draw, keys_of, texts_of
from support.random_windows import form
from support.spec_packages import first_disagreement, instruction_set, serving_one_of_many

BATCH = 8  # specs of one package: engines are compiled once for all
CALLS = 12
STEPS = Path(__file__).parents[1] / "data" / "steps"
KINDS = {"dims": "Dim", "attributes": "Attribute", "inputs": "Tensor", "outputs": "Tensor"}
ONLY_OF_STEPS = {f"{KINDS[place]}.{key}" for place, keys in OF_STEPS.items() for key in keys}
# Names that calls and pages have, ties of gradients, to PyTorch and to ONNX, and what loading rewrites have tests and specs of
# their own.
ELSEWHERE = {"Op.function", "Op.torch", "Op.onnx", "Attribute.page_name", "Relation.gradient_of", "Tensor.packed"}
ELSEWHERE |= {f"Aten.{field.name}" for field in dataclasses.fields(model.Aten) if field.metadata}
ELSEWHERE |= {f"Onnx.{field.name}" for field in dataclasses.fields(model.Onnx) if field.metadata}
ONLY_OF_STEPS |= {"Semantics.steps"} | {
    f"Step.{field.name.rstrip('_')}" for field in dataclasses.fields(model.Step) if field.metadata
}


def _drafts(seed: str, count: int, family: Callable[[Rng], Draft]) -> list[Draft]:
    random, found = rng(seed), dict[str, Draft]()
    while len(found) < count:
        draft, library = accepted(random, family=family)
        found.setdefault(library.ops[0].function, draft)
    return list(found.values())


def _agree(drafts: list[Draft], folder: Path, name: str) -> None:
    texts = texts_of(drafts)
    seen: Counter[str] = Counter()
    library, module = package(texts, folder, name)
    for op in library.ops:
        for isa in serving_one_of_many(module, op):
            with instruction_set(module, isa):
                problem = first_disagreement(module, op, rng(name, isa, op.op), CALLS, seen)
                assert problem is None, f"{isa}: {problem}\n{texts[op.op.lower() + '.yaml']}"
    legal = {op.op: seen[f"{op.op} legal"] for op in library.ops}
    print(f"legal calls {sum(legal.values())}, refused ones {seen.total() - sum(legal.values())}")
    assert sum(map(bool, legal.values())) > len(legal) / 2


def test_random_specs_use_every_key_of_the_language() -> None:
    random, used, refusals = rng("keys"), Counter[str](), Counter[str]()
    shared = {"Common", "Sources", "Page", "Library"}
    kinds = [kind for name, kind in vars(model).items() if dataclasses.is_dataclass(kind) and name not in shared]
    keys = {
        f"{kind.__name__}.{field.name.rstrip('_')}"
        for kind in kinds
        for field in dataclasses.fields(kind)
        if field.metadata
    }
    for number in range(1000):
        if number >= (500 if FULL else 120) and keys - used.keys() <= ELSEWHERE | ONLY_OF_STEPS:
            break
        _, library = accepted(random, refusals)
        used.update(key for op in library.ops for key in keys_of(op))
    for key in sorted(keys):
        print(f"{used[key]:5} {key}")
    print("refused for:", dict(refusals.most_common()))
    assert keys - used.keys() - ELSEWHERE == ONLY_OF_STEPS & keys


def test_the_specs_of_steps_use_every_key_that_is_theirs() -> None:
    """Their calls are held against the interpreter by test_steps.py."""
    stated = [keys_of(op) for path in STEPS.glob("*.yaml") for op in load_texts({path.name: path.read_text()}).ops]
    assert ONLY_OF_STEPS - set().union(*stated) == set()


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(200 if FULL else 2))
def test_random_specs_agree_with_the_interpreter(seed: int, tmp_path: Path) -> None:
    def reference(random: Rng) -> Draft:
        drawn = draw(random)
        drawn.spec.pop("normal_form", None)
        return drawn

    _agree(_drafts(f"portable {seed}", BATCH, reference), tmp_path, f"random_specs_{seed}")


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(60 if FULL else 1))
def test_random_normal_forms_agree_with_the_interpreter_on_every_instruction_set(seed: int, tmp_path: Path) -> None:
    """In the short form of f32, so that each engine is compiled for one dtype only."""
    dtypes = ("f32", "bf16", "f16") if FULL else ("f32",)
    drafts = _drafts(f"fast {seed}", BATCH, lambda random: form(random, dtypes))
    _agree(drafts, tmp_path, f"random_forms_{seed}")
