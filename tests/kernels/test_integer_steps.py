"""Integers between steps of real numbers: functions of bits, sums and masks of them, and random numbers made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import opwright_kernels as ok
import pytest
from opwright.language.source import SpecInvalid
from opwright.load import load_texts
from support.draws import rng
from support.package import package
from support.spec_packages import instruction_set, serving, usable
from support.step_verdicts import first_disagreement

MASKED = """\
op: Masked
revision: 1
summary: Cells times what the bits of keys say.
dims: {rows: {symbol: N, summary: rows}, cells: {symbol: K, summary: cells}, columns: {symbol: M, summary: columns}}
inputs:
  - {name: keys, dims: {N: N, K: K}, summary: Integers.}
  - {name: salt, dims: {}, summary: One of 64 bits.}
  - {name: src, dims: {K: K, M: M}, summary: Numbers.}
outputs:
  - {name: parity, dims: {N: N}, summary: "The bits of a row, put together by sums that wrap around."}
  - {name: dst, dims: {N: N, M: M}, summary: Their sums where a bit is set.}
dtypes:
  - {keys: s32, salt: u64, src: f32, parity: f32, dst: f32, accumulate: f32}
  - {keys: s64, salt: s64, src: bf16, parity: s32, dst: f32, accumulate: f32}
  - {keys: u64, salt: u64, src: f64, parity: f64, dst: f64, accumulate: f64}
semantics:
  ranges: {n: N, k: K, m: M}
  steps:
    - mixed[n, k] = bit_xor((keys[n, k] + number(n, k)) * 6364136223846793005, salt[])
    - bit[n, k] = bit_and(shift_right(mixed[n, k], 33), 1)
    - whole[n] += bit_xor(mixed[n, k], 5) * 3
    - most[n] max= bit_or(mixed[n, k], 0)
    - folded[n] = bit_and(shift_right(whole[n], 20) + shift_right(most[n], 40), 65535)
    - parity[n] = folded[n]
    - dst[n, m] += bit[n, k] * src[k, m]
"""


def philox(count: int, seed: int, offset: int) -> Any:
    """Philox 4x32 with ten rounds: the word of each cell, from the paper of Salmon and others (2011)."""
    low, half = np.uint64(2**32 - 1), np.uint64(32)
    number = np.arange(count, dtype=np.uint64)
    group = number & ~np.uint64(3)
    one, two = np.uint64(seed), np.uint64(offset)
    counter, key = (
        [np.full(count, two & low), np.full(count, two >> half), group & low, group >> half],
        [one & low, one >> half],
    )
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * counter[0], np.uint64(0xCD9E8D57) * counter[2]
        counter = [
            (second >> half) ^ counter[1] ^ key[0],
            second & low,
            (first >> half) ^ counter[3] ^ key[1],
            first & low,
        ]
        key = [(key[0] + np.uint64(0x9E3779B9)) & low, (key[1] + np.uint64(0xBB67AE85)) & low]
    return np.choose((number & np.uint64(3)).astype(int), counter)


@pytest.fixture(scope="module", autouse=True)
def _quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    yield


def test_the_oracle_gives_the_words_that_the_authors_of_philox_publish() -> None:
    assert [f"{word:08x}" for word in philox(4, 0, 0)] == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]


@pytest.mark.parametrize("key", [np.uint64, np.int64])
def test_dropout_keeps_the_cells_whose_word_of_philox_is_beyond_the_share(key: type) -> None:
    random = np.random.default_rng(17)
    for shape, share in (
        ((130, 77), 0.3),
        ((3, 5, 9), 0.5),
        ((7,), 0),
        ((0, 4), 0.5),
        ((), 0.5),
        ((9,), 1),
        ((9,), 1.5),
    ):
        seed, offset = (int(word) for word in random.integers(0, 2**64, 2, dtype=np.uint64))
        src, probability = random.standard_normal(shape).astype(np.float32), np.float32(share)
        keys = [np.array(word, np.uint64).astype(key) for word in (seed, offset)]
        stays = philox(src.size, seed, offset).reshape(shape) > 4294967295.0 * min(float(probability), 1)
        with np.errstate(all="ignore"):
            expected = np.where(stays, src.astype(np.float64) / (1 - float(probability)), 0).astype(np.float32)
        for threads in (1, 2):
            np.testing.assert_array_equal(ok.dropout(src, *keys, np.array(probability), threads=threads), expected)


def test_integers_between_steps_are_exact_beside_real_numbers(tmp_path: Path) -> None:
    library, module = package({"masked.yaml": MASKED}, tmp_path, "masked")
    (op,), seen = library.ops, Counter[str]()
    for isa in serving(module, op):
        with instruction_set(module, isa):
            assert first_disagreement(module, op, rng(isa), 12, seen) is None
    assert seen["Masked legal"] > 12


def limited(random: np.random.Generator, number: int) -> str:
    """A step that stores the least and greatest of cells and constants, of which it reads some beside each other."""

    def one(depth: int) -> str:
        if depth == 0 or random.random() < 0.2:
            cells = ["x[n, k]", "x[n, k + 1]", "z[n]", "w[k]", "w[K]", "7", "100", "q[n, k]"]
            cells += ["-3", "2.5", "300", "n"] if number % 2 else []  # which not every type of integers has
            return cells[int(random.integers(len(cells)))]
        return f"{random.choice(['min', 'max'])}({', '.join(one(depth - 1) for _ in range(random.integers(2, 4)))})"

    kinds = [("u8", "f32"), ("s8", "f32"), *([("s32", "f64")] if random.random() < 0.5 else [("s32", "f32")])]
    other = "s32" if number % 3 == 1 else ""
    rows = [f"{{x: {a}, z: {a}, w: {a}, q: {other or a}, y: {a}, accumulate: {made}}}" for a, made in kinds]
    return f"""
op: Limited{number}
revision: 1
summary: The least and greatest of cells.
dims: {{rows: N, cells: K}}
inputs: [{{name: x, dims: {{N: N, L: K + 1}}}}, {{name: z, dims: {{N: N}}}}, {{name: w, dims: {{L: K + 1}}}}, {{name: q, dims: {{N: N, L: K + 1}}}}]
outputs: [{{name: y, dims: {{N: N, K: K}}}}]
dtypes: [{", ".join(rows)}]
semantics:
  ranges: {{n: N, k: K}}
  steps: ["y[n, k] = max({one(2)}, min(x[n, k], {one(1)}, w[k]), z[n], q[n, k])"]
"""


def test_the_least_and_greatest_of_integers_are_exact_on_every_instruction_set(tmp_path: Path) -> None:
    random = rng("limited")
    library, module = package({f"l{n}.yaml": limited(random, n) for n in range(4)}, tmp_path, "limited")
    for op in library.ops:
        seen = Counter[str]()
        for isa in usable(module)[-2:]:
            with instruction_set(module, isa):
                assert first_disagreement(module, op, rng(isa, op.op), 16, seen) is None
        assert seen[f"{op.op} legal"] > 16


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("parity[n] = folded[n]", "parity[n] = bit_or(folded[n], 0)", "assign this to a name of its own"),
        ("bit_or(mixed[n, k], 0)", "mixed[n, k]", "holds real"),
        ("bit_xor(mixed[n, k], 5) * 3", "bit_xor(mixed[n, k], 5) / 3", "makes integers"),
        ("keys: s32", "keys: f32", "'keys' holds real numbers"),
        ("    - parity[n]", "    - folded[n] = 1\n    - parity[n]", "bit_or(1, 0)"),
    ],
)
def test_what_mixes_integers_and_real_numbers_is_refused_with_what_to_write(old: str, new: str, message: str) -> None:
    assert old in MASKED
    with pytest.raises(SpecInvalid) as refused:
        load_texts({"masked.yaml": MASKED.replace(old, new, 1)})
    assert message in str(refused.value)


DIVIDED = """\
op: Divided
revision: 1
summary: Rounded quotients of integers that are read.
dims: {cells: {symbol: X, run: true, summary: cells}}
inputs:
  - {name: a, dims: {X: X}, summary: Dividends.}
  - {name: b, dims: {X: X}, summary: Divisors.}
outputs:
  - {name: down, dims: {X: X}, summary: Rounded down.}
  - {name: up, dims: {X: X}, summary: Rounded up.}
  - {name: rest, dims: {X: X}, summary: What is left.}
  - {name: thirds, dims: {X: X}, summary: By constants.}
dtypes:
  - {a: s64, b: s64, down: s64, up: s64, rest: s64, thirds: s64, accumulate: s64}
  - {a: s32, b: s8, down: s32, up: s32, rest: s32, thirds: s32, accumulate: s64}
semantics:
  ranges: {x: X}
  steps:
    - down[x] = floor(a[x] / b[x])
    - up[x] = ceil(a[x] / b[x])
    - rest[x] = a[x] - b[x] * floor(a[x] / b[x])
    - thirds[x] = floor(a[x] / 3) - ceil(a[x] / (-4)) + floor(a[x] / 0)
"""


def test_integers_that_are_read_are_divided_exactly_and_by_0_give_0_on_every_instruction_set(tmp_path: Path) -> None:
    library, module = package({"divided.yaml": DIVIDED}, tmp_path, "divided")
    limits = {np.int64: [-(2**63), 2**63 - 1, -(2**53) - 1], np.int32: [-(2**31), 2**31 - 1]}
    for kind, extremes in limits.items():
        dividends = [*extremes, *range(-9, 10)]
        divisors = [*range(-9, 10), *(extremes if kind is np.int64 else [])]
        pairs = [(a, b) for a in dividends for b in divisors]
        down = [a // b if b else 0 for a, b in pairs]
        wanted = [
            down,
            [-(-a // b) if b else 0 for a, b in pairs],
            [a - b * q for (a, b), q in zip(pairs, down)],
            [a // 3 + a // 4 for a, _ in pairs],
        ]
        arrays = [
            np.array(column, dtype) for column, dtype in zip(zip(*pairs), (kind, kind if kind is np.int64 else np.int8))
        ]
        for isa in serving(module, library.ops[0]):
            with instruction_set(module, isa):
                for found, exact in zip(module.divided(*arrays), wanted):
                    assert found.tolist() == [_held(value, kind) for value in exact], isa
                problem = first_disagreement(module, library.ops[0], rng("divided", isa), 12, Counter())
                assert problem is None, problem


def _held(value: int, kind: type) -> int:
    """A value of 64 bits, which wrap around, as a tensor holds it."""
    wrapped = (value + 2**63) % 2**64 - 2**63
    return min(max(wrapped, int(np.iinfo(kind).min)), int(np.iinfo(kind).max))
