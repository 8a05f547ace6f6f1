"""Phases that go from block to block of their tasks: random chains of products, forced into small blocks, against the
interpreter on every instruction set, the same bits for every number of threads; what a call of some size does of itself."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from opwright.emit.steps.blocks import blocks
from opwright.language.library import Library
from opwright.oracle.run_steps import compute_steps
from support import random_chains
from support.capping import capped_at
from support.draws import FULL
from support.package import package
from support.random_chains import ATTENTION, NARROWED, Chain
from support.random_contractions import DTYPES
from support.spec_packages import instruction_set, serving

COUNT, CALLS = (12, 30) if FULL else (5, 24)
Made = tuple[Library, ModuleType, list[Chain]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    rng, folder = np.random.default_rng(5), tmp_path_factory.mktemp("blocks")
    drawn = [random_chains.draw(rng, f"Chain{n}") for n in range(COUNT)]
    texts = {f"chain{n}.yaml": chain.text for n, chain in enumerate(drawn)} | {
        "causal.yaml": ATTENTION,
        "narrowed.yaml": NARROWED,
    }
    yield *package(texts, folder, "chains_package"), drawn


def part(module: ModuleType, name: str) -> Any:
    return importlib.import_module(f"{module.__name__}.{name}")


@pytest.fixture
def planned(made: Made, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The blocks of every call that has some."""
    _, module, _ = made
    found: list[int] = []
    blocked = part(module, "_phase_blocks").Blocked
    put = blocked.put

    def counting(own: Any, sizes: Any) -> None:
        found.append(own.count)
        put(own, sizes)

    monkeypatch.setattr(blocked, "put", counting)
    return found


def on_every_set(made: Made, op: str) -> Iterator[str]:
    library, module, _ = made
    for isa in serving(module, library.op(op)):
        with instruction_set(module, isa):
            yield isa


def agree(made: Made, op: str, inputs: list[Any], call: str) -> None:
    """One, two and three threads give the same bits, and what the interpreter gives."""
    library, module, _ = made
    with np.errstate(all="ignore"):
        expected = next(iter(compute_steps(library.op(op), inputs, {}).values()))
    found = []
    for threads in (1, 2, 3):
        part(module, "_remember").CALLS.clear()
        found.append(getattr(module, library.op(op).function)(*inputs, threads=threads))
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes(), call
    close: dict[str, Any] = {"rtol": 2e-2, "atol": 2e-2} if found[0].itemsize == 2 else {"rtol": 1e-4, "atol": 1e-4}
    ours, theirs = (array.astype(np.float64) for array in (found[0], expected))
    np.testing.assert_allclose(ours, theirs, **close, err_msg=call)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_random_chains_in_small_blocks_agree_with_the_interpreter(
    made: Made, planned: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, module, drawn = made
    schedules, rng = part(module, "_schedules"), np.random.default_rng(6)
    monkeypatch.setattr(schedules, "WHOLE_BYTES", 0)
    monkeypatch.setattr(schedules, "AGAIN", 1 << 40)
    for chain in drawn:
        for isa in on_every_set(made, chain.op):
            for _ in range(CALLS):
                monkeypatch.setattr(schedules, "BLOCK_BYTES", int(rng.choice([1, 1 << 10, 1 << 14])))
                monkeypatch.setattr(schedules, "FEWEST_ROWS", int(rng.choice([1, 3, 16])))
                dtype = str(rng.choice(random_chains.DTYPES))
                inputs = random_chains.arrays(rng, chain, np.dtype(DTYPES[dtype]))
                agree(made, chain.op, inputs, f"{isa} {dtype} {[a.shape for a in inputs]}\n{chain.text}")
    assert len(planned) > COUNT * CALLS // 2
    assert max(planned) > 8


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_masked_attention_in_small_blocks_agrees_with_the_interpreter(
    made: Made, planned: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, module, _ = made
    schedules, rng = part(module, "_schedules"), np.random.default_rng(7)
    monkeypatch.setattr(schedules, "WHOLE_BYTES", 0)
    monkeypatch.setattr(schedules, "BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(schedules, "FEWEST_ROWS", 1)
    monkeypatch.setattr(schedules, "AGAIN", 1 << 40)
    for isa in on_every_set(made, "CausalAttention"):
        for batch, q, t, dtype in (
            ((2,), 9, 17, "f32"),
            ((), 20, 5, "bf16"),
            ((2, 1), 33, 33, "f32"),
            ((1,), 4, 0, "f32"),
        ):
            query, key, value = (
                rng.standard_normal((*batch, heads, rows, 7)).astype(DTYPES[dtype])
                for heads, rows in ((4, q), (2, t), (2, t))
            )
            agree(made, "CausalAttention", [query, key, value], f"{isa} {batch} {q} {t}")
    assert len(planned) > 8


def test_blocks_that_end_a_product_have_memory_for_the_few_rows_that_are_left(
    made: Made, planned: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of bf16 are read in place where there are more of them than columns, by AMX."""
    _, module, _ = made
    schedules, rng = part(module, "_schedules"), np.random.default_rng(8)
    monkeypatch.setattr(schedules, "WHOLE_BYTES", 0)
    monkeypatch.setattr(schedules, "AGAIN", 1 << 40)
    monkeypatch.setattr(schedules, "BLOCK_BYTES", 1 << 10)
    with capped_at(module, "amx_bf16"):
        part(module, "_operation").forget()
        for rows, keys, fewest in ((50, 64, 36), (40, 512, 33), (33, 96, 48)):
            monkeypatch.setattr(schedules, "FEWEST_ROWS", fewest)
            shapes = ((5, rows, 32), (5, keys, 32))
            inputs: list[Any] = [rng.integers(-2, 3, shape).astype(DTYPES["bf16"]) for shape in shapes]
            agree(made, "Narrowed", inputs, f"{rows} {keys} {fewest}")
    assert planned


def test_a_long_call_goes_by_blocks_of_itself_and_a_short_one_does_not(made: Made, planned: list[int]) -> None:
    _, module, _ = made
    operation = part(module, "_causal_attention").OPERATION
    best = next(isa for isa in on_every_set(made, "CausalAttention"))
    for queries, count in ((512, 8), (16, 0)):
        planned.clear()
        query = np.ones((2, queries, 16), np.float32)
        with instruction_set(module, best):
            for threads in (1, 3):
                part(module, "_remember").CALLS.clear()
                module.causal_attention(query, query, query, threads=threads)
            told = str(module.explain("causal_attention", query, query, query))
        assert {*planned} == ({count} if count else set())
        assert ("blocks: 8 of up to 128 of 1024 tasks" in told) == bool(count)
    assert operation.blocks.letters == ("b", "h", "q")


def test_products_that_leave_nothing_for_each_other_have_no_blocks(made: Made) -> None:
    library, _, drawn = made
    found = [blocks(library.op(chain.op)) for chain in drawn]
    assert sum(one is not None for one in found) > COUNT // 2
    assert all(one is None or one.arrays for one in found)
