"""Words that a spec must not use as names, because names become identifiers in C and Python."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Collection

C_WORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm main NULL "
    "EOF INFINITY NAN INT64_MAX INT64_MIN bool true false complex imaginary linux unix errno signgam assert stdin "
    "stdout stderr FILE BUFSIZ int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t ptrdiff_t "
    "intptr_t uintptr_t intmax_t uintmax_t wchar_t float_t double_t typeof nullptr constexpr thread_local alignas "
    "alignof".split()
)
# Builtins that are good names and that no generated module calls.
FREE_BUILTINS = frozenset("all any bin bytes complex filter format hash hex id input iter next oct slice sum".split())
RESERVED = C_WORDS | {*keyword.kwlist, *keyword.softkwlist} | frozenset(dir(builtins)) - FREE_BUILTINS
RESERVED_BY_CALL = frozenset({"threads", "specialize", "self", "inf"})
OUT = "out"  # an argument of every function, so that outputs and intermediates of steps alone may have this name
# What to write in place of names that users often choose.
INSTEAD = {
    "out": "result", "in": "source", "min": "least", "max": "greatest", "len": "length", "type": "kind",
    "threads": "workers", "range": "span", "pow": "power", "abs": "magnitude", "exp": "exponential",
    "sqrt": "root", "lambda": "weight", "float": "real", "int": "whole", "double": "twice",
}  # fmt: skip


def refusal(name: str, functions: Collection[str], pattern: str) -> str | None:
    """Why a name cannot be used, and what to write instead; None if it can. `functions` are those of expressions."""
    taken = RESERVED | RESERVED_BY_CALL | frozenset(functions) - FREE_BUILTINS
    if name not in taken:
        return None
    return f"'{name}' is {_what(name, functions)}; write another name{example(name, pattern, taken)}"


def refusal_in_c(name: str, pattern: str) -> str | None:
    """The same of a name that stands in C alone."""
    taken = C_WORDS | RESERVED_BY_CALL
    if name not in taken:
        return None
    return f"'{name}' is {_what(name, ())}; write another name{example(name, pattern, taken)}"


def _what(name: str, functions: Collection[str]) -> str:
    if name in RESERVED_BY_CALL - {"inf", "self"}:
        return "an argument of every function of the package"
    if name in C_WORDS or keyword.iskeyword(name) or keyword.issoftkeyword(name):
        return "a reserved word of C or of Python"
    if name in functions or name == "inf":
        return "a word of expressions"
    return "a name that Python or the package itself uses"


def example(name: str, pattern: str, taken: Collection[str]) -> str:
    """A name of that form that is free, as the end of a sentence."""
    ideas = (INSTEAD.get(name, ""), f"{name}_value", name.upper(), f"{name}Value")
    free = next((idea for idea in ideas if re.fullmatch(pattern, idea) and idea not in taken), None)
    return f", such as '{free}'" if free else ""
