"""Reads and writes a call as text: `conv(src f32[1,4,4,8], strides=[1,1], auto_pad="same_lower")`. A variadic
input takes a list of tensors: `concat([f32[1,2], f32[1,3]], axis=1)`.

In: untrusted text. Out: a `CallText` of plain values, or a UsageError with the position of the error. The
text is parsed, never evaluated; names are not checked here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar, Union

from ..errors import UsageError
from .package import TENSOR_DTYPES

_TOKEN = re.compile(
    r"\s*(?:(?P<word>[A-Za-z_]\w*)|(?P<real>-?\d{1,40}(?:\.\d{1,40}(?:[eE][+-]?\d{1,3})?|[eE][+-]?\d{1,3}))|(?P<integer>-?\d{1,40})"
    r"|(?P<text>\"[^\"\\]*\"|'[^'\\]*')|(?P<mark>[()\[\],=]))",
    re.ASCII,
)
_KIND_NAMES = {"word": "a name", "integer": "an integer", "real": "a number"}
T = TypeVar("T")
Value = Union[bool, int, float, str, list[int], list[float]]  # noqa: UP007 (evaluated at run time)


@dataclass(frozen=True)
class TensorText:
    """`f32[1,4,4,8]`."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def parts(self) -> tuple[TensorText, ...]:
        """The arrays of the argument: itself."""
        return (self,)

    def __str__(self) -> str:
        return f"{self.dtype}{_text(list(self.shape))}"


@dataclass(frozen=True)
class ListText:
    """`[f32[1,2], f32[1,3]]`: the arrays of a variadic input."""

    parts: tuple[TensorText, ...]

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.parts))}]"


def each_part(given: TensorText | ListText, make: Callable[[TensorText], T]) -> T | list[T]:
    """The result of a function on a tensor, or on every tensor of a list."""
    return list(map(make, given.parts)) if isinstance(given, ListText) else make(given)


def _text(value: Value) -> str:
    """A value as text in a call."""
    if isinstance(value, list):
        return f"[{','.join(map(str, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)


@dataclass(frozen=True)
class CallText:
    """A call as text: its function's name and its arguments by name, or tensors by position: `1`."""

    function: str
    tensors: dict[str, TensorText | ListText] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)

    def __str__(self) -> str:
        """The call as `parse` takes it."""
        tensors = [f"{tensor}" if n.isdigit() else f"{n} {tensor}" for n, tensor in self.tensors.items()]
        return f"{self.function}({', '.join([*tensors, *(f'{n}={_text(v)}' for n, v in self.values.items())])})"

    def add(self, name: str, given: TensorText | ListText | Value) -> None:
        if name in self.tensors or name in self.values:
            raise UsageError(f"the argument {name!r} is given twice")
        if isinstance(given, (TensorText, ListText)):
            self.tensors[name] = given
        else:
            self.values[name] = given


def parse(text: str) -> CallText:
    """A whole call."""
    parser = _Parser(text)
    call = CallText(parser.take("word"))
    parser.mark("(")
    while not parser.sees(")"):
        call.add(*parser.argument(str(len(call.tensors) + 1)))
        if not parser.sees(")"):
            parser.mark(",")
    parser.mark(")")
    parser.end()
    return call


def parse_argument(text: str) -> tuple[str, TensorText | ListText | Value]:
    """One argument: `src=f32[1,4,4,8]`, `src f32[1,4,4,8]` or `strides=[1,1]`. Words need no quotes."""
    parser = _Parser(text)
    argument = parser.argument()
    parser.end()
    return argument


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            found = _TOKEN.match(text, at)
            if found is None:
                self.at = at
                self.fail("a name, a number, a quoted word or one of ( ) [ ] , =", at)
            kind = found.lastgroup or ""
            self.tokens.append((kind, found[kind], found.start(kind)))
            at = found.end()
        self.tokens.append(("end", "", end))
        self.next = 0

    def fail(self, expected: str, at: int) -> NoReturn:
        rest = self.text[at:].strip()
        got = ascii(rest[:20]) if rest else "its end"
        raise UsageError(f"at character {at + 1} of the call: expected {expected}, got {got}")

    def take(self, wanted: str) -> str:
        kind, text, at = self.tokens[self.next]
        if kind != wanted:
            self.fail(_KIND_NAMES[wanted], at)
        self.next += 1
        return text

    def sees(self, mark: str) -> bool:
        return self.tokens[self.next][:2] == ("mark", mark)

    def mark(self, mark: str) -> None:
        if not self.sees(mark):
            self.fail(repr(mark), self.tokens[self.next][2])
        self.next += 1

    def end(self) -> None:
        kind, _, at = self.tokens[self.next]
        if kind != "end":
            self.fail("its end", at)

    def argument(self, place: str = "") -> tuple[str, TensorText | ListText | Value]:
        """An argument by name, or tensors by position where allowed."""
        if place and self.sees_tensors():
            return place, self.tensors()
        name = self.take("word")
        if place and name in TENSOR_DTYPES and self.sees("["):
            return place, self.tensor(name)
        if self.sees_tensors():
            return name, self.tensors()
        if not self.sees("="):
            return name, self.tensor(self.take("word"))
        self.mark("=")
        return name, self.value()

    def value(self) -> TensorText | ListText | Value:
        kind, text, at = self.tokens[self.next]
        if self.sees_tensors():
            return self.tensors()
        if self.sees("["):
            return self.numbers()
        if kind not in ("word", "integer", "real", "text"):
            self.fail("a value", at)
        self.next += 1
        if kind == "word":
            return self.tensor(text) if self.sees("[") else {"true": True, "false": False}.get(text, text)
        return int(text) if kind == "integer" else float(text) if kind == "real" else text[1:-1]

    def sees_tensors(self) -> bool:
        """Whether a list of tensors begins here: its first entry is a word."""
        return self.sees("[") and self.tokens[self.next + 1][0] == "word"

    def tensors(self) -> ListText:
        self.mark("[")
        parts = [self.tensor(self.take("word"))]
        while not self.sees("]"):
            self.mark(",")
            parts.append(self.tensor(self.take("word")))
        self.mark("]")
        return ListText(tuple(parts))

    def tensor(self, dtype: str) -> TensorText:
        if dtype not in TENSOR_DTYPES:
            self.fail(f"a dtype ({', '.join(TENSOR_DTYPES)})", self.tokens[self.next - 1][2])
        at = self.tokens[self.next][2]
        shape = self.integers()
        if min(shape, default=0) < 0:
            self.fail("extents that are not negative", at)
        return TensorText(dtype, tuple(shape))

    def numbers(self) -> list[int] | list[float]:
        """A list of integers, or of numbers if some are not integers."""
        ahead = (kind for kind, text, _ in self.tokens[self.next :] if text == "]" or kind == "real")
        if next(ahead, "") != "real":
            return self.integers()
        self.mark("[")
        reals: list[float] = []
        while not self.sees("]"):
            kind = "integer" if self.tokens[self.next][0] == "integer" else "real"
            reals.append(float(self.take(kind)))
            if not self.sees("]"):
                self.mark(",")
        self.mark("]")
        return reals

    def integers(self) -> list[int]:
        self.mark("[")
        numbers: list[int] = []
        while not self.sees("]"):
            numbers.append(int(self.take("integer")))
            if not self.sees("]"):
                self.mark(",")
        self.mark("]")
        return numbers
