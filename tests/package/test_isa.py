"""The choice of an instruction set."""

from itertools import pairwise

import pytest
from opwright_kernels import _isa


@pytest.fixture
def rows(monkeypatch):
    """A table with rows that this CPU has, and one that no CPU has, and nothing remembered."""
    table = (
        _isa.Isa("portable", frozenset(), ()),
        _isa.Isa("wide", frozenset({"fma"}), ("-mfma",)),
        _isa.Isa("wider", frozenset({"fma", "not-a-feature"}), ("-mwider",)),
    )
    monkeypatch.setattr(_isa, "ISAS", table)
    monkeypatch.setattr(_isa, "cpu_flags", lambda: frozenset({"fma", "sse2"}))
    monkeypatch.delenv("OPWRIGHT_ISA", raising=False)
    _isa.allowed.cache_clear()
    yield table
    _isa.allowed.cache_clear()


def test_portable_needs_nothing():
    assert _isa.ISAS[0] == _isa.Isa("portable", frozenset(), ())


def test_the_rows_stand_from_the_least_demanding_to_the_best():
    for architecture in (
        {"neon"},
        {"avx2", "avx512", "avx512_vnni", "amx_int8"},
        {"avx2", "avx512", "avx512_bf16", "amx_bf16"},
    ):
        rows = [isa for isa in _isa.ISAS if not isa.needs or isa.name in architecture]
        assert len(rows) == 1 + len(architecture)
        for less, more in pairwise(rows):
            assert less.needs < more.needs


def test_the_best_that_the_cpu_has_comes_first(rows):
    assert _isa.usable(rows) == [rows[1], rows[0]]
    assert _isa.usable(rows[:1]) == [rows[0]]
    assert _isa.why_not(rows[1]) == ""
    assert _isa.why_not(rows[2]) == "this CPU lacks not-a-feature"


@pytest.mark.parametrize(("cap", "chosen"), [("portable", 0), ("wider", 1), ("", 1)])
def test_the_environment_caps_the_choice_and_demands_nothing(rows, monkeypatch, cap, chosen):
    monkeypatch.setenv("OPWRIGHT_ISA", cap)
    assert _isa.usable(rows)[0] is rows[chosen]
    assert _isa.why_not(rows[1]) == ("OPWRIGHT_ISA is portable" if cap == "portable" else "")


def test_the_environment_is_read_once(rows, monkeypatch):
    assert _isa.usable(rows)[0] is rows[1]
    monkeypatch.setenv("OPWRIGHT_ISA", "portable")
    assert _isa.usable(rows)[0] is rows[1]


def test_an_unknown_instruction_set_is_refused_with_the_valid_names(rows, monkeypatch):
    monkeypatch.setenv("OPWRIGHT_ISA", "avx1024")
    with pytest.raises(ValueError, match="OPWRIGHT_ISA is 'avx1024', expected one of: portable, wide, wider"):
        _isa.allowed()


@pytest.mark.parametrize("cap", ["9" * 5000, "avx\x1b[2J" * 900, "\udcff" * 5000])
def test_an_unknown_instruction_set_is_refused_in_a_few_words_whatever_it_is_called(rows, monkeypatch, cap):
    monkeypatch.setenv("OPWRIGHT_ISA", cap)
    with pytest.raises(ValueError, match="OPWRIGHT_ISA is '") as caught:
        _isa.allowed()
    assert len(str(caught.value)) < 600
    assert str(caught.value).isascii()
    assert str(caught.value).isprintable()


def test_cpu_flags_are_words_and_read_once():
    assert all(flag == flag.strip() and flag for flag in _isa.cpu_flags())
    assert _isa.cpu_flags() is _isa.cpu_flags()
