"""Calls as text: what is read, what is written again, and where text stops to make sense."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opwright.calls import call_text
from opwright.calls.call_text import CallText, ListText, TensorText
from opwright.errors import UsageError
from opwright.language.dtypes import DTYPES

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(lambda name: name not in ("true", "false"))
TENSORS = st.builds(TensorText, st.sampled_from(sorted(DTYPES)), st.lists(st.integers(0, 2**40)).map(tuple))
VALUES = st.one_of(
    st.booleans(),
    st.integers(-(2**62), 2**62),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.from_regex(r"[ -!#-\[\]-~]{0,12}", fullmatch=True),
    st.lists(st.integers(-(2**62), 2**62)),
)
CALLS = st.builds(
    CallText,
    NAMES,
    st.dictionaries(NAMES.map("t_{}".format), TENSORS | st.lists(TENSORS, min_size=1).map(tuple).map(ListText)),
    st.dictionaries(NAMES.map("v_{}".format), VALUES),
)


@given(CALLS)
def test_a_call_that_is_written_is_read_as_the_same_call(call: CallText) -> None:
    assert call_text.parse(str(call)) == call


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f(", "at character 3 of the call: expected a name, got its end"),
        ("f(a f23[1])", f"at character 5 of the call: expected a dtype ({', '.join(DTYPES)}), got 'f23[1])'"),
        ("f(a f32[1,x])", "at character 11 of the call: expected an integer, got 'x])'"),
        ("f(a f32[-1])", "at character 8 of the call: expected extents that are not negative, got '[-1])'"),
        ("f(a=1 b=2)", "at character 7 of the call: expected ',', got 'b=2)'"),
        ("f(a=1) + 1", "expected a name, a number, a quoted word or one of ( ) [ ] , =, got '+ 1'"),
        ("f(a=__import__('os'))", "at character 15 of the call: expected ',', got \"('os'))\""),
        ("f(a=1, a=2)", "the argument 'a' is given twice"),
    ],
)  # fmt: skip
def test_a_call_that_makes_no_sense_is_refused_where_it_stops_to(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message) + "$"):
        call_text.parse(text)


def test_a_call_of_every_kind_of_value_is_read() -> None:
    assert (
        str(call_text.parse("f([f32[1],s8[2,2]], a=[f32[3]], b [f32[4]])"))
        == "f([f32[1], s8[2,2]], a [f32[3]], b [f32[4]])"
    )
    call = call_text.parse("f(t bf16[], u=f32[2], i=-3, r=1.5e-3, w=word, s='two words', l=[1, 2], e=[])")
    assert call.tensors == {"t": call_text.TensorText("bf16", ()), "u": call_text.TensorText("f32", (2,))}
    assert call.values == {"i": -3, "r": 1.5e-3, "w": "word", "s": "two words", "l": [1, 2], "e": []}
