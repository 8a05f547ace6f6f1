"""The choice of an instruction set."""

import pytest
from opwright_kernels import _isa


@pytest.fixture
def rows(monkeypatch):
    """A table with a row that this CPU has, above one that no CPU has, and nothing remembered."""
    table = (
        _isa.Isa("portable", frozenset(), ()),
        _isa.Isa("wide", frozenset({"fma"}), ("-mfma",)),
        _isa.Isa("wider", frozenset({"fma", "not-a-feature"}), ("-mwider",)),
    )
    monkeypatch.setattr(_isa, "ISAS", table)
    monkeypatch.setattr(_isa, "cpu_flags", lambda: frozenset({"fma", "sse2"}))
    monkeypatch.delenv("OPWRIGHT_ISA", raising=False)
    _isa.selected.cache_clear()
    yield table
    _isa.selected.cache_clear()


def test_portable_needs_nothing():
    assert _isa.ISAS[0] == _isa.Isa("portable", frozenset(), ())


def test_the_best_that_the_cpu_has_is_selected(rows):
    assert _isa.selected() is rows[1]


@pytest.mark.parametrize(("cap", "chosen"), [("portable", 0), ("wider", 1), ("", 1)])
def test_the_environment_caps_the_choice_and_demands_nothing(rows, monkeypatch, cap, chosen):
    monkeypatch.setenv("OPWRIGHT_ISA", cap)
    assert _isa.selected() is rows[chosen]


def test_the_environment_is_read_once(rows, monkeypatch):
    assert _isa.selected() is rows[1]
    monkeypatch.setenv("OPWRIGHT_ISA", "portable")
    assert _isa.selected() is rows[1]


def test_an_unknown_instruction_set_is_refused_with_the_valid_names(rows, monkeypatch):
    monkeypatch.setenv("OPWRIGHT_ISA", "avx1024")
    with pytest.raises(ValueError, match="OPWRIGHT_ISA is 'avx1024', expected one of: portable, wide, wider"):
        _isa.selected()


def test_cpu_flags_are_words_and_read_once():
    assert all(flag == flag.strip() and flag for flag in _isa.cpu_flags())
    assert _isa.cpu_flags() is _isa.cpu_flags()
