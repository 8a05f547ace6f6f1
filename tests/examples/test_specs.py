"""The specs of examples: as kernels against NumPy, and on random calls against the interpreter."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from opwright.language.library import Library
from support import checkout
from support.draws import rng
from support.package import package
from support.step_verdicts import first_disagreement

SPECS = {path.name: path.read_text(encoding="utf-8") for path in sorted(checkout.ROOT.glob("examples/*.yaml"))}
STEPPED = {name: text for name, text in SPECS.items() if "\n  steps:" in text}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Library, ModuleType]]:
    yield package(STEPPED, tmp_path_factory.mktemp("examples"), "examples_package")


def real(*shape: int) -> Any:
    return np.random.default_rng(7).normal(size=shape).astype(np.float32)


def rotated(src: Any, cosine: Any, sine: Any) -> Any:
    one, other = np.split(src, 2, -1)
    turned = (one + 1j * other) * (cosine + 1j * sine)
    return np.concatenate([turned.real, turned.imag], -1)


def shares(query: Any, key: Any) -> Any:
    heads, queries, keys = query.shape[0], query.shape[1], key.shape[1]
    scores = np.einsum("hqw,htw->hqt", query, np.repeat(key, heads // len(key), 0))
    scores = np.where(np.tril(np.ones((queries, keys)), keys - queries), scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def local(src: Any, weights: Any) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(src, weights.shape[-1], -1)[:, :, ::2]
    return np.einsum("ncok,omck->nmo", windows, weights)


def matched(left: Any, right: Any) -> Any:
    shifted = [np.pad(right, ((0, 0),) * 3 + ((d, 0),))[..., : right.shape[-1]] for d in range(3)]
    return np.stack([(left * other).sum(1) for other in shifted], 1)


def activated(src: Any, weights: Any, residual: Any, bias: Any) -> Any:
    level = src @ weights.T + bias
    return residual + 0.5 * level * (1 + np.vectorize(math.erf)(level / math.sqrt(2)))


KEY, QUARTER = 0x548C9DECBCE65297, 2**30


def masked(src: Any) -> Any:
    """Squares, a generator of random numbers that counts, in Python's own integers."""

    def word(number: int) -> int:
        x = y = number * KEY % 2**64
        z = (y + KEY) % 2**64
        for added in (y, z, y):
            x = (x * x + added) % 2**64
            x = (x >> 32 | x << 32) % 2**64
        return (x * x + z) % 2**64 >> 32

    return np.array([word(number) < QUARTER for number in range(src.size)]).reshape(src.shape)


CALLS: tuple[tuple[str, tuple[Any, ...], dict[str, Any], Callable[..., Any]], ...] = (
    ("rotary_embedding", (real(2, 5, 8), real(5, 4), real(5, 4)), {}, rotated),
    ("causal_scores", (real(4, 5, 8), real(2, 7, 8)), {}, shares),
    ("squared_distances", (real(5, 9), real(4, 9)), {}, lambda a, b: ((a[:, None] - b) ** 2).sum(-1)),
    ("locally_connected", (real(2, 3, 11), real(5, 4, 3, 3)), {"stride": 2}, local),
    ("cost_volume", (real(2, 3, 4, 9), real(2, 3, 4, 9)), {"shifts": 3}, matched),
    ("random_mask", (np.zeros((7, 30), np.int32),), {"key": KEY, "threshold": QUARTER}, masked),
    ("linear_gelu_residual", (real(2, 5, 6), real(4, 6), real(2, 5, 4), real(4)), {}, activated),
)


@pytest.mark.parametrize(("name", "inputs", "given", "peer"), CALLS, ids=[call[0] for call in CALLS])
def test_an_example_computes_what_numpy_does(
    made: tuple[Library, ModuleType], name: str, inputs: Any, given: dict[str, Any], peer: Callable[..., Any]
) -> None:
    found = getattr(made[1], name)(*inputs, **given)
    np.testing.assert_allclose(found, peer(*(array.astype(np.float64) for array in inputs)), rtol=1e-4, atol=1e-4)


def test_every_spec_of_steps_is_run_and_agrees_with_the_interpreter_on_random_calls(
    made: tuple[Library, ModuleType],
) -> None:
    library, module = made
    assert {op.function for op in library.ops} == {call[0] for call in CALLS}
    seen: Counter[str] = Counter()
    for op in library.ops:
        assert first_disagreement(module, op, rng(op.op), 3, seen, 1) is None
