"""Numbers of four bits, two to a byte: what an operation on bytes gives is what the same one gives on numbers."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from opwright.language.library import Library
from opwright.language.source import SpecInvalid
from opwright.load import load_texts
from opwright.oracle.run_steps import compute_steps
from support import reviewing
from support.draws import rng
from support.package import package
from support.spec_packages import instruction_set, serving

KINDS = {"s4": ml_dtypes.int4, "u4": ml_dtypes.uint4}
HEAD = "revision: 1\nsummary: Numbers of four bits.\n"
SPECS = {
    "product": """op: Product
dims: {rows: M, inner: K, columns: N}
inputs: [{name: src, dims: {M: M, K: K}}, {name: weights, packed: K, dims: {K: K, N: N}}]
outputs: [{name: dst, dims: {M: M, N: N}}]
dtypes: [{src: f32, weights: u4, dst: f32, accumulate: f32}, {src: bf16, weights: u4, dst: f32, accumulate: f32}]
semantics:
  ranges: {m: M, n: N, k: K}
  steps: ["dst[m, n] += src[m, k] * (weights[k, n] - 8)"]
""",
    "across": """op: Across
dims: {rows: {symbol: M, run: true}, inner: K, columns: N}
inputs: [{name: src, dims: {M: M, K: K}}, {name: weights, packed: N, dims: {K: K, N: N}}]
outputs: [{name: dst, dims: {M: M, N: N}}]
dtypes: [{src: f32, weights: s4, dst: f32, accumulate: f32}]
semantics:
  ranges: {m: M, n: N, k: K}
  steps: ["dst[m, n] += src[m, k] * weights[k, n]"]
""",
    "narrowed": """op: Narrowed
dims: {before: {symbol: B, run: true}, cells: C}
inputs: [{name: src, dims: {B: B, C: C}}]
outputs: [{name: dst, packed: C, dims: {B: B, C: C}}]
dtypes: [{src: f32, dst: s4, accumulate: f32}]
semantics:
  ranges: {b: B, c: C}
  steps: ["dst[b, c] = src[b, c] / 2"]
""",
    "moved": """op: Moved
dims: {cells: C, columns: N}
attributes: [{name: step, symbol: S, type: s64, default: "1"}]
inputs: [{name: src, packed: C, dims: {C: C, N: N}}, {name: more, packed: C, optional: true, dims: {C: C, N: N}}]
outputs: [{name: dst, packed: N, dims: {C: C, N: N}}, {name: peak, dims: {N: N}}]
dtypes: [{src: u4, more: s4, dst: u4, peak: f64, accumulate: f64}]
semantics:
  ranges: {c: C, n: N}
  steps: ["dst[c, n] = src[c + S, n] + more[c, n]", "dst[c, n] += src[c, n]", "peak[n] max= dst[c, n]"]
""",
}


def unpacked(text: str) -> str:
    for axis in "KNC":
        text = text.replace(f"packed: {axis}, ", "")
    return text


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Library, ModuleType]:
    texts = {f"{name}.yaml": HEAD + text for name, text in SPECS.items()}
    return package(texts, tmp_path_factory.mktemp("packed"), "packed_package")


def packed(numbers: Any, axis: int) -> Any:
    """Numbers in pairs along an axis, the even one in the low bits; a last one alone has 0 beside it."""
    kind = np.dtype(np.int8 if numbers.dtype == ml_dtypes.int4 else np.uint8)
    low = np.moveaxis(numbers.astype(np.int16) & 15, axis, 0)
    low = np.concatenate([low, np.zeros((len(low) % 2, *low.shape[1:]), np.int16)])
    return np.moveaxis((low[::2] | low[1::2] << 4).astype(np.uint8).view(kind), 0, axis)


def numbers(random: np.random.Generator, dtype: str, *shape: int) -> Any:
    least = -8 if dtype == "s4" else 0
    return random.integers(least, least + 16, shape).astype(np.int8).astype(KINDS[dtype])


def calls(name: str, random: np.random.Generator) -> Any:
    """Inputs with numbers, which of their axes is packed, and attributes."""
    for m, k, n in ((3, 4, 5), (1, 7, 6), (0, 2, 2), (2, 0, 4), (9, 33, 18), (2, 1, 2)):
        if name == "product":
            kind = np.float32 if n % 2 else ml_dtypes.bfloat16
            yield [random.integers(-4, 5, (m, k)).astype(kind), numbers(random, "u4", k, n)], (None, 0), {}
        elif name == "across":
            src = random.integers(-4, 5, (m, 2, k)).astype(np.float32)
            yield [src, numbers(random, "s4", k, n + n % 2)], (None, 1), {}
        elif name == "narrowed":
            src = random.integers(-25, 25, (m, n, k)).astype(np.float32)
            src.ravel()[::7] = np.nan
            yield [src[:, ::-1]], (None,), {}
        else:
            src, more = (numbers(random, dtype, k + k % 2, n) for dtype in ("u4", "s4"))
            yield [src, more if m else None], (0, 0), {"step": m - 1}


@pytest.mark.parametrize("name", SPECS)
def test_an_operation_on_packed_numbers_gives_what_it_gives_on_numbers(
    made: tuple[Library, ModuleType], name: str, tmp_path: Path
) -> None:
    library, module = made
    plain = load_texts({"op.yaml": HEAD + unpacked(SPECS[name])}).ops[0]
    outputs = {"narrowed": {"dst": 2}, "moved": {"dst": 1}}.get(name, {})
    for isa in serving(module, library.op(name)):
        for inputs, axes, attributes in calls(name, rng(name)):
            given = [a if axis is None or a is None else packed(a, axis) for a, axis in zip(inputs, axes)]
            wanted = compute_steps(plain, inputs, attributes)
            wanted = {n: packed(a, outputs[n]) if n in outputs else a for n, a in wanted.items()}
            interpreted = compute_steps(library.op(name), given, attributes)
            with instruction_set(module, isa):
                result = getattr(module, name)(*given, **attributes)
            found = dict(zip(wanted, result if isinstance(result, tuple) else (result,)))
            for output, expected in wanted.items():
                np.testing.assert_array_equal(interpreted[output], expected)
                np.testing.assert_array_equal(found[output], expected)
                assert found[output].dtype == expected.dtype


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("packed: K", "packed: Q", "no axis of 'weights' 'Q'"),
        ("packed: K, ", "packed: K, broadcast: [K], ", "not joined, broadcast or omitted"),
        (
            "weights: u4, dst: f32, accumulate: f32}]",
            "weights: s4, dst: f32, accumulate: f32}]",
            "not s4, u4; write one",
        ),
        ("weights: u4, dst: f32, accumulate: f32}, ", "weights: f32, dst: f32, accumulate: f32}, ", "not f32, u4"),
        ("accumulate: f32}]", "accumulate: s64}]", "accumulate in f32 or f64"),
        ("weights[k, n]", "weights[k]", "has 2 indices"),
        ("dims: {K: K, N: N}}]", "dims: {K: K + 1, N: N}}]", "whose extent is a size of dims"),
    ],
)
def test_what_cannot_be_packed_is_refused_at_its_place(old: str, new: str, words: str) -> None:
    text = HEAD + SPECS["product"]
    assert old in text
    with pytest.raises(SpecInvalid) as refused:
        load_texts({"op.yaml": text.replace(old, new, 1)})
    assert any(p.rule == "packed" and words in p.message and p.mark.line for p in refused.value.problems)


@pytest.mark.parametrize("name", ["product", "narrowed"])
def test_a_tensor_that_becomes_packed_or_ceases_to_be_is_a_breaking_change(name: str) -> None:
    both = [{f"spec/{name}.yaml": text} for text in (HEAD + SPECS[name], HEAD + unpacked(SPECS[name]))]
    for before, after in (both, both[::-1]):
        review = reviewing.reviewed(before, after)
        assert "breaking" in {finding.rule.contract for finding in review.findings}
