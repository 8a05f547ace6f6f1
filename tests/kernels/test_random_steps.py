"""Every spec of steps that `generate` accepts builds and agrees with the interpreter: random specs, not only random calls.

Calls have extents of 0, 1, odd ones and a vector's length plus one, views of any order, threads, arrays to write into;
legal ones are compared by value, those a step away by the rule that refuses them, and by what they leave in `out`.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from pathlib import Path

import pytest
from opwright.language import dtypes, expr, model
from opwright.language.model import Op
from opwright.language.source import SpecInvalid
from opwright.load import load_texts
from support.draws import FULL, rng
from support.package import package
from support.random_specs import Draft, accepted, keys_of, texts_of
from support.random_steps import steps
from support.step_verdicts import agree

BATCH = 8 if FULL else 4  # specs of one package
CALLS = 12 if FULL else 6


# Keys that go with `reduce`, which test_random_specs.py draws, and ties of gradients and to PyTorch, which have tests of their own.
OF_REDUCE = {
    "Op.classes",
    "Op.normal_form",
    "Semantics.init",
    "Semantics.where",
    "Semantics.reduce",
    "Semantics.finish",
}
OF_REDUCE |= {"Tensor.arrangements", "Tensor.view", "Tensor.parameter"}
REWRITTEN = {"Tensor.packed", "Tensor.shape_of"}  # when a spec is loaded: test_packed.py, test_stated_inputs.py
OF_GRADIENTS = {"Relation.adjoint", "Relation.in", "Relation.gradient", "Relation.of", "Relation.gradient_of"}
OF_GRADIENTS |= {"Op.torch", "Op.onnx"}
KINDS_OF_REDUCE = ("Aten", "Onnx", "GroupClass", "Arrangement", "NormalForm", "Common", "Sources", "Page", "Library")


@pytest.fixture(scope="module")
def drawn() -> list[Op]:
    random, found = rng("steps"), []
    for _ in range(400 if FULL else 200):
        with contextlib.suppress(SpecInvalid):
            found += load_texts(texts_of([steps(random)])).ops
    return found


def test_random_specs_of_steps_use_every_operator_and_function(drawn: list[Op]) -> None:
    used = Counter[str]()
    for step in (step for op in drawn for step in op.semantics.steps):
        trees = [tree for made in step.assignments for tree in (made.target, made.value)]
        used.update(made.op for made in step.assignments)
        for node in (node for tree in [*trees, *(guard.tree for guard in step.where)] for node in expr.walk(tree)):
            used.update([node.function] if isinstance(node, expr.Call) else ())
            used.update([node.op] if isinstance(node, (expr.Unary, expr.Binary)) else ())
    for word, count in sorted(used.items()):
        print(f"{count:5} {word}")
    words = {*expr.REAL_FUNCTIONS, *expr.ARITHMETIC, *expr.COMPARISONS, *expr.LOGIC}
    words |= {"min", "max", "floor", "ceil", "number", "prod", "not", "set", "sum", "product"}
    assert words <= used.keys(), words - used.keys()


def test_random_specs_of_steps_use_every_key_and_every_data_type(drawn: list[Op]) -> None:
    keys, types = Counter[str](), Counter[str]()
    for op in drawn:
        keys.update(keys_of(op))
        types.update({dtype for row in op.dtypes for dtype in row.values()})
    kinds = [
        kind for name, kind in vars(model).items() if dataclasses.is_dataclass(kind) and name not in KINDS_OF_REDUCE
    ]
    all_keys = {
        f"{kind.__name__}.{x.name.rstrip('_')}" for kind in kinds for x in dataclasses.fields(kind) if x.metadata
    }
    for word, count in sorted((keys + types).items()):
        print(f"{count:5} {word}")
    assert all_keys - keys.keys() == OF_REDUCE | OF_GRADIENTS | REWRITTEN
    assert dtypes.DTYPES.keys() == types.keys()


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100 if FULL else 1))
def test_random_specs_of_steps_agree_with_the_interpreter_on_every_instruction_set(seed: int, tmp_path: Path) -> None:
    random, drafts = rng("steps", seed), dict[str, Draft]()
    while len(drafts) < BATCH:
        draft, library = accepted(random, family=steps)
        drafts.setdefault(library.ops[0].function, draft)
    texts = texts_of(drafts.values())
    assert load_texts(texts).ops
    library, module = package(texts, tmp_path, f"random_steps_{seed}")
    seen = agree(module, library.ops, CALLS, seed)
    legal = [seen[f"{op.op} legal"] for op in library.ops]
    print(f"legal calls {sum(legal)}, refused ones {seen.total() - sum(legal)}")
    assert sum(map(bool, legal)) > len(legal) / 2
