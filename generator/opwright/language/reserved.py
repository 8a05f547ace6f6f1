"""Words that a spec must not use as names, because names become identifiers in C and Python."""

from __future__ import annotations

import builtins
import keyword

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
RESERVED_BY_CALL = frozenset({"out", "threads", "specialize", "self", "inf"})
