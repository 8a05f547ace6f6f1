"""Einsums of two or three factors, with turned axes, diagonals, and letters of any roles: random calls on every
instruction set, held against NumPy."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from support.capping import capped_at
from support.draws import FULL
from support.package import package
from support.random_einsums import DTYPES, ROWS, Einsum, draw, einsum, inputs
from support.spec_packages import usable

TURNED = ("ab->ba", "bca,bc->acb", "ba,dc->dcab", "abd,dba->dab")
DIAGONALS = ("bii->b", "ii,ij->ij")
LONE = ("aed,abd->ad",)  # sums of either factor alone, and then their product
CHAINS = ("ab,bc,cd->ad", "ab,cb,cd,ed->ea")  # of which calls multiply those pairs first that have the fewest terms
SCALED = ("abc,dbc,db->ad", "ab,abc,bcd->ad")  # by a scale of each group of terms
GROUPS = (
    "ab,cb,ad,cd->ac",
    "abc,ce,bd,ad->ab",
    "ac,bc,ad,bd,ab->ab",
    "ac,bc,ad,bd,e->abe",
    "ab,cb,ad,cd,ec->ae",
)  # that are summed for themselves
MEANS = (
    "ntd,kd->nk",
    "ab,cb->c",
    "abc,ad->d",
    "ab,bc->ac",
    "abc,abd,e->de",
)  # along a letter that is summed alone, or not
RANDOM = 40 if FULL else 4
CALLS = 12 if FULL else 6
Made = tuple[ModuleType, list[Einsum]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    rng = np.random.default_rng(3)
    drawn = []
    for number, notation in enumerate((*CHAINS, *TURNED, *DIAGONALS, *LONE, *SCALED, *GROUPS)):
        factors, out = notation.split("->")
        drawn.append(einsum(f"Einsum{number}", factors.split(","), out))
    drawn += [draw(rng, f"Einsum{len(drawn) + number}") for number in range(RANDOM)]
    texts = {f"{one.op}.yaml": one.text for one in drawn}
    return package(texts, tmp_path_factory.mktemp("einsums"), "einsums_package")[1], drawn


@pytest.fixture(params=["portable", "avx2", "avx512", "avx512_bf16"])
def capped(made: Made, request: pytest.FixtureRequest) -> Iterator[str]:
    _ = made[0].einsum0  # loads the modules of the package
    with capped_at(made[0], request.param) as isa:
        yield isa


def test_einsums_are_exact_on_every_instruction_set_with_any_number_of_threads(made: Made, capped: str) -> None:
    kernels, drawn = made
    for number, one in enumerate(drawn):
        rng = np.random.default_rng([5, number])
        for call in range(CALLS):
            read, written, _ = ROWS[(number + call * FULL) % len(ROWS)]
            given = inputs(rng, one, read, 60_000)
            wanted = np.einsum(one.notation, *(array.astype(np.int64) for array in given))
            expected = wanted.astype(np.float32).astype(DTYPES[written])
            found = []
            for threads in (1, 3):
                sys.modules[f"{kernels.__name__}._remember"].CALLS.clear()
                found.append(getattr(kernels, one.function)(*given, threads=threads))
            where = one.notation, read, [array.shape for array in given], [array.strides for array in given]
            assert found[0].dtype == DTYPES[written], where
            assert (found[0].astype(np.float64) == expected.astype(np.float64)).all(), where
            assert found[0].tobytes() == found[1].tobytes(), where


def test_divisors_of_all_terms_divide_sums_of_one_factor(tmp_path_factory: pytest.TempPathFactory) -> None:
    rng = np.random.default_rng(9)
    drawn = []
    for number, notation in enumerate(MEANS):
        factors, out = notation.split("->")
        summed = sorted({*factors} - {*out, ","})
        drawn += [einsum(f"Mean{number}{c}".title(), factors.split(","), out, mean=c) for c in summed]
    texts = {f"{one.op}.yaml": one.text for one in drawn}
    kernels = package(texts, tmp_path_factory.mktemp("means"), "means_package")[1]
    for one, call in itertools.product(drawn, range(CALLS)):
        read, written, _ = ROWS[call % 4]
        given = inputs(rng, one, read, 60_000)
        extents = dict(zip("".join(one.factors), itertools.chain(*(array.shape for array in given))))
        sums = np.einsum(one.notation, *(array.astype(np.float64) for array in given))
        expected = (sums / max(extents[one.mean], 1)).astype(DTYPES[written]).astype(np.float64)
        found = getattr(kernels, one.function)(*given).astype(np.float64)
        assert np.allclose(found, expected, rtol=2**-7 if written in ("bf16", "f16") else 1e-5, atol=1e-4), one.notation


def test_sums_of_integers_wrap_around(made: Made, capped: str) -> None:
    kernels, _ = made
    rng = np.random.default_rng(8)
    for kind in (np.int32, np.int64):
        limits = np.iinfo(kind)
        given = [
            rng.integers(limits.min, limits.max, shape, kind, endpoint=True) for shape in ((7, 33), (33, 21), (21, 40))
        ]
        expected = np.linalg.multi_dot([array.astype(np.int64) for array in given])
        found = kernels.einsum0(*given)
        wanted = np.clip(expected, -(2**31), 2**31 - 1) if found.dtype == np.int32 else expected
        assert (found == wanted).all(), capped


def test_explain_names_rows_that_are_turned_and_diagonals_that_are_near(made: Made) -> None:
    kernels, _ = made
    a, b = np.ones((40, 20, 50), np.float32), np.ones((40, 20), np.float32)
    assert "lanes along b: turned rows" in str(kernels.explain("einsum3", a, b))
    assert "turned rows" not in str(kernels.explain("einsum3", a[..., ::2], b))
    many = np.ones((100, 20, 20), np.float32)
    assert "lanes along i: near row through room" in str(kernels.explain("einsum6", many))


@pytest.mark.parametrize(("sizes", "first"), [((3, 40, 50, 30), "in_0 * in_1"), ((60, 40, 50, 6), "in_2 * in_1")])
def test_a_call_multiplies_those_factors_first_that_have_fewer_terms(
    made: Made, sizes: tuple[int, ...], first: str
) -> None:
    kernels, _ = made
    _ = kernels.einsum0
    given = [np.ones(shape, np.float32) for shape in itertools.pairwise(sizes)]
    if "avx2" not in usable(kernels):
        pytest.skip("this CPU lacks avx2")
    with capped_at(kernels, "avx2"):
        assert f"{first}, then" in str(kernels.explain("einsum0", *given))
        assert (kernels.einsum0(*given) == 40 * 50).all()
