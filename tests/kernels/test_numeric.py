"""The arithmetic that all kernels share, opwright_numeric.h, pattern by pattern and number by number."""

from __future__ import annotations

import ctypes
import itertools
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.compilers import compile_with

HARNESS = """
#include "opwright_numeric.h"
#define OVER_ALL(name, In, Out) \\
    void name(const In *in, Out *out, int64_t count) \\
    { for (int64_t i = 0; i < count; ++i) out[i] = opwright_##name(in[i]); }
OVER_ALL(from_bf16, uint16_t, float)
OVER_ALL(from_f16, uint16_t, float)
OVER_ALL(to_bf16, float, uint16_t)
OVER_ALL(to_f16, float, uint16_t)
int64_t floor_div(int64_t a, int64_t b) { return opwright_floor_div(a, b); }
int64_t ceil_div(int64_t a, int64_t b) { return opwright_ceil_div(a, b); }
int64_t modulo(int64_t a, int64_t b) { return opwright_modulo(a, b); }
int64_t gcd(int64_t a, int64_t b) { return opwright_gcd(a, b); }
int64_t share(int64_t total, int64_t part, int64_t parts) { return opwright_share(total, part, parts); }
int64_t first_multiple(int64_t low, int64_t high, int64_t slope, int64_t rest, int64_t scale)
{ return opwright_first_multiple(low, high, slope, rest, scale); }
"""
HALVES = {"bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16)}
PATTERNS = np.arange(2**16, dtype=np.uint16)
LARGEST = 2**63 - 1

every_half = pytest.mark.parametrize("half", HALVES)


@pytest.fixture(scope="module", params=["gcc", "clang"])
def numeric(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder: Path = tmp_path_factory.mktemp("numeric")
    source, library = folder / "harness.c", folder / "harness.so"
    source.write_text(HARNESS)
    compile_with(request.param, "-std=c11", "-O2", "-ffp-contract=off", "-shared", "-fPIC", source, "-o", library)
    loaded = ctypes.CDLL(str(library))
    for name in ("floor_div", "ceil_div", "modulo", "gcd", "share", "first_multiple"):
        getattr(loaded, name).restype = ctypes.c_int64
    return loaded


def over_all(function: Any, values: np.ndarray, dtype: Any) -> np.ndarray:
    """What a conversion makes of every value."""
    values, results = np.ascontiguousarray(values), np.empty(values.shape, dtype)
    function(ctypes.c_void_p(values.ctypes.data), ctypes.c_void_p(results.ctypes.data), ctypes.c_int64(values.size))
    return results


def ask(function: Any, *numbers: int) -> int:
    return int(function(*map(ctypes.c_int64, numbers)))


# Conversions


@every_half
def test_every_pattern_widens_to_its_value_and_nan_stays_nan(numeric: ctypes.CDLL, half: str) -> None:
    wide = over_all(getattr(numeric, f"from_{half}"), PATTERNS, np.float32)
    expected = PATTERNS.view(HALVES[half]).astype(np.float32)
    numbers = ~np.isnan(expected)
    assert np.array_equal(wide[numbers].view(np.uint32), expected[numbers].view(np.uint32))
    assert np.isnan(wide[~numbers]).all()
    assert np.array_equal(np.signbit(wide), PATTERNS >= 2**15)


@every_half
def test_every_pattern_survives_the_way_there_and_back(numeric: ctypes.CDLL, half: str) -> None:
    wide = over_all(getattr(numeric, f"from_{half}"), PATTERNS, np.float32)
    back = over_all(getattr(numeric, f"to_{half}"), wide, np.uint16)
    numbers = ~np.isnan(wide)
    assert np.array_equal(back[numbers], PATTERNS[numbers])
    assert np.isnan(back[~numbers].view(HALVES[half])).all()


@every_half
def test_every_half_way_point_goes_to_even_and_its_neighbours_to_the_nearest(numeric: ctypes.CDLL, half: str) -> None:
    narrow = getattr(numeric, f"to_{half}")
    infinity = int(np.array(np.inf).astype(HALVES[half]).view(np.uint16))
    below = np.arange(infinity, dtype=np.uint16)  # 0 and all that is finite and positive
    values = below.view(HALVES[half]).astype(np.float64)
    above = np.append(values[1:], 2 * values[-1] - values[-2])  # infinity begins where one more finite value would be
    middle = ((values + above) / 2).astype(np.float32)
    assert np.array_equal(middle, (values + above) / 2)
    for sign, bit in ((1, 0), (-1, 2**15)):
        for points, expected in (
            (middle, below + below % 2),
            (np.nextafter(middle, np.float32(0)), below),
            (np.nextafter(middle, np.float32(np.inf)), below + 1),
        ):
            assert np.array_equal(over_all(narrow, np.float32(sign) * points, np.uint16), expected + np.uint16(bit))


@every_half
def test_a_million_random_floats_narrow_as_numpy_narrows_them(numeric: ctypes.CDLL, half: str) -> None:
    bits = np.random.default_rng(5).integers(0, 2**32, 10**6, dtype=np.uint32)
    bits[::2] = (bits[::2] & 0x8FFFFFFF) | 0x30000000  # half of them in the range of f16, denormals included
    wide = bits.view(np.float32)
    narrow = over_all(getattr(numeric, f"to_{half}"), wide, np.uint16)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = wide.astype(HALVES[half]).view(np.uint16)
    numbers = ~np.isnan(wide)
    assert np.array_equal(narrow[numbers], expected[numbers])
    assert np.isnan(narrow[~numbers].view(HALVES[half])).all()


@every_half
def test_a_nan_narrows_to_a_quiet_nan_of_its_sign(numeric: ctypes.CDLL, half: str) -> None:
    quiet = {"bf16": 0x0040, "f16": 0x0200}[half]
    nans = np.array([0x7F800001, 0xFF800001, 0x7FC00000, 0xFFFFFFFF, 0x7F802000], np.uint32)
    narrow = over_all(getattr(numeric, f"to_{half}"), nans.view(np.float32), np.uint16)
    assert np.isnan(narrow.view(HALVES[half])).all()
    assert (narrow & quiet == quiet).all()
    assert np.array_equal(narrow >> 15, nans >> 31)


# Integers


def any_integer(draw: random.Random, low: int = -(2**63), high: int = LARGEST) -> int:
    """Small, large or at an end."""
    kind = draw.randrange(3)
    if kind == 0:
        return draw.choice([low, low + 1, high - 1, high])
    return draw.randint(max(low, -20), min(high, 20)) if kind == 1 else draw.randint(low, high)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("floor_div", lambda a, b: a // b),
        ("ceil_div", lambda a, b: -(-a // b)),
        ("modulo", lambda a, b: a % b),
    ],
)
def test_divisions_round_as_they_say(numeric: ctypes.CDLL, name: str, expected: Callable[[int, int], int]) -> None:
    draw = random.Random(name)
    for _ in range(5000):
        a, b = any_integer(draw), any_integer(draw, low=1)
        assert ask(getattr(numeric, name), a, b) == expected(a, b), (a, b)


def test_the_modulo_of_a_negative_divisor_is_that_of_its_size(numeric: ctypes.CDLL) -> None:
    draw = random.Random(3)
    for _ in range(2000):
        a, b = any_integer(draw, low=-LARGEST), any_integer(draw, low=1)
        assert ask(numeric.modulo, a, -b) == a % b, (a, b)


def test_gcd_is_the_greatest_common_divisor(numeric: ctypes.CDLL) -> None:
    draw = random.Random(4)
    for _ in range(5000):
        a, b = any_integer(draw, low=1), any_integer(draw, low=1)
        assert ask(numeric.gcd, a, b) == math.gcd(a, b), (a, b)


def test_the_first_multiple_is_the_first(numeric: ctypes.CDLL) -> None:
    draw = random.Random(5)
    for _ in range(5000):
        low, high = draw.randint(0, 9), draw.randint(0, 30)
        scale = any_integer(draw, 1, draw.choice([12, 2**61]))
        slope, rest = (any_integer(draw, -(2**58), 2**58) for _ in range(2))
        expected = next((k for k in range(low, high) if (rest + slope * k) % scale == 0), high)
        assert ask(numeric.first_multiple, low, high, slope, rest, scale) == expected


def test_shares_are_even_disjoint_and_complete(numeric: ctypes.CDLL) -> None:
    draw = random.Random(6)
    for _ in range(500):
        total, parts = any_integer(draw, low=0), draw.randint(1, 40)
        ends = [ask(numeric.share, total, part, parts) for part in range(parts + 1)]
        sizes = {end - begin for begin, end in itertools.pairwise(ends)}
        assert (ends[0], ends[-1]) == (0, total)
        assert sizes <= {total // parts, total // parts + 1}
