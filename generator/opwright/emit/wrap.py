"""Wraps the long lines of generated Python: at brackets, at commas and at blanks of string literals.

In: the text of a module. Out: the same module, without lines of code longer than WIDTH that can be wrapped. Lines that
fit do not change, so templates decide how a module looks. Text inside triple quotes is never touched.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

WIDTH = 120
_OPENING, _CLOSING = "([{", ")]}"
_CLAUSE = re.compile(r" (?=(?:for|if|and|or) )")
# Comments and strings, so that no quote inside one opens another.
_TEXTS = re.compile(r"""#.*|(?P<triple>\"{3}(?:\\[\s\S]|[^\\])*?\"{3})|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""")


def wrap_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines of the wrapped module, each with its line number in `text`."""
    lines = text.split("\n")
    protected = set(_inside_triple_quotes(text) if max(map(len, lines)) > WIDTH else ())
    for number, line in enumerate(lines, start=1):
        if len(line) <= WIDTH or number in protected or line.lstrip().startswith("#"):
            yield number, line
        else:
            indent = len(line) - len(line.lstrip())
            yield from ((number, piece) for piece in _wrapped(line.strip(), indent))


def wrap_python(text: str) -> str:
    """The module with its long lines wrapped."""
    return "\n".join(line for _, line in wrap_lines(text))


def _inside_triple_quotes(text: str) -> Iterator[int]:
    for found in _TEXTS.finditer(text):
        if found["triple"] and "\n" in found["triple"]:
            first = text.count("\n", 0, found.start()) + 1
            yield from range(first, first + found["triple"].count("\n") + 1)


def _wrapped(text: str, indent: int) -> list[str]:
    """Lines for `text`, which may end in a comma or a colon; the first and the last line have `indent`."""
    blank = " " * indent
    if indent + len(text) <= WIDTH:
        return [blank + text]
    span = _last_bracket(text)
    if span is None:
        return _wrapped_string(text, indent)
    start, end = span
    head, body, tail = text[: start + 1], text[start + 1 : end].strip(), text[end:]
    items = _split(body)
    if len(items) == 1 and not body.endswith(","):
        clauses = _clauses(body)
        if len(clauses) == 1 or indent + 4 + len(body) <= WIDTH:
            return [blank + head, *_wrapped(body, indent + 4), blank + tail]
        inner = [line for clause in clauses for line in _wrapped(clause, indent + 4)]
        return [blank + head, *inner, blank + tail]
    in_one_line = ", ".join(items)
    if indent + 4 + len(in_one_line) <= WIDTH and len(items) > 1:
        return [blank + head, blank + "    " + in_one_line, blank + tail]
    inner = [line for item in items for line in _wrapped(item + ",", indent + 4)]
    return [blank + head, *inner, blank + tail]


def _last_bracket(text: str) -> tuple[int, int] | None:
    """The outermost bracket pair that closes last, outside strings; None if all are empty."""
    found = None
    open_at: list[int] = []
    for at, char in _code(text):
        if char in _OPENING:
            open_at.append(at)
        elif char in _CLOSING:
            start = open_at.pop()
            if not open_at and text[start + 1 : at].strip():
                found = (start, at)
    return found


def _split(body: str) -> list[str]:
    """The parts between commas outside brackets; a generator expression is one part."""
    parts, start, depth = [], 0, 0
    for at, char in _code(body):
        depth += (char in _OPENING) - (char in _CLOSING)
        if depth == 0 and char == ",":
            parts.append(body[start:at].strip())
            start = at + 1
    parts.append(body[start:].strip())
    parts = [part for part in parts if part]
    return [body] if len(_clauses(body)) > 1 and " for " in body and _targets(parts) else parts


def _targets(parts: list[str]) -> bool:
    """Whether the commas are those between the names of `for a, b in ...`."""
    return any(" in " in part for part in parts[1:]) and " for " in parts[0]


def _clauses(body: str) -> list[str]:
    """The body split before `for`, `if`, `and`, `or` outside brackets and strings."""
    depth, outside = 0, set()
    for at, char in _code(body):
        depth += (char in _OPENING) - (char in _CLOSING)
        if depth == 0:
            outside.add(at)
    cuts = [found.start() for found in _CLAUSE.finditer(body) if found.start() in outside]
    edges = [0, *cuts, len(body)]
    return [body[low:high].strip() for low, high in itertools.pairwise(edges)]


def _code(text: str) -> Iterator[tuple[int, str]]:
    """The characters outside string literals, with their positions."""
    quote = ""
    skip = False
    for at, char in enumerate(text):
        if skip:
            skip = False
        elif quote:
            skip = char == "\\"
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        else:
            yield at, char


_LITERAL = re.compile(r'(?P<head>[^"]*|"[^"\\]*": )"(?P<text>(?:[^"\\]|\\.)*)"(?P<tail>,?)')


def _wrapped_string(text: str, indent: int) -> list[str]:
    """A long string literal split after blanks, which are never part of an escape sequence."""
    found = _LITERAL.fullmatch(text)
    blank = " " * indent
    if found is None:
        return [blank + text]
    pieces, line = [], ""
    for word in re.findall(r"[^ ]* ?", found["text"]):
        if line and indent + 4 + len(line) + len(word) + 2 > WIDTH:
            pieces.append(line)
            line = ""
        line += word
    pieces.append(line)
    return [f"{blank}{found['head']}(", *(f'{blank}    "{piece}"' for piece in pieces), f"{blank}){found['tail']}"]
