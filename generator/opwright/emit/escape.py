"""Escapes text of a spec for a language: C comments, Python, Markdown. It can end nothing and begin nothing there.

In: any text. Out: the same text, inert.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable


def c_comment(text: str) -> str:
    """Spec text inside a C line comment: it can neither end the comment nor continue it onto the next line."""
    clean = " ".join(text.split()).replace("\\", "/").replace("??", "? ?")
    return clean.replace("*/", "* /").replace("/*", "/ *")


def string_literal(text: str) -> str:
    """Spec text as a Python string literal in double quotes."""
    return json.dumps(text, ensure_ascii=True)


def c_string(text: str) -> str:
    """Text as a string literal of C, for any characters."""
    plain = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '\\"?' else f"\\{b:03o}" for b in text.encode("utf-8"))
    return f'"{plain}"'


def docstring(text: str) -> str:
    """Spec text inside a Python docstring, which must not end in it."""
    return text.replace("\\", "\\\\").replace('"""', r"\"\"\"")


def names(values: Iterable[str]) -> str:
    """Names as a Python tuple of strings."""
    return tuple_(f'"{value}"' for value in values)


def tuple_(values: Iterable[str]) -> str:
    """Expressions as a Python tuple."""
    parts = list(values)
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


_MARKDOWN = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_{}[]<>()#+!|~$&"})


_LINE_START = re.compile(r"^(\d*)([-=.)])")
_LINK = re.compile(r"(?<=www)\.|:(?=//)|@")


def markdown(text: str) -> str:
    """Spec text inside Markdown prose or a table cell: markup is escaped, and addresses are not links."""
    clean = _LINE_START.sub(r"\1\\\2", " ".join(text.split()).translate(_MARKDOWN))
    return _LINK.sub(r"\\\g<0>", clean)


def code(text: str) -> str:
    """Spec text as inline code of Markdown, also in a table cell; empty for an empty text."""
    clean = " ".join(text.split()).replace("`", "'").replace("\\|", "\\ |").replace("|", "\\|")
    return f"`{clean}`" if clean else ""


def c_comment_line(line: str) -> str:
    """A line of a C comment, its indentation kept."""
    return line[: len(line) - len(line.lstrip())] + c_comment(line)


def indent(text: str, width: int, first: bool = False) -> str:
    """Blanks before every line that is not empty, but for the first, as Jinja does in several times the time."""
    blanks = " " * width
    if "\n\n" in text:
        moved = "\n".join([line and blanks + line for line in text.split("\n")])
    else:
        moved = blanks + text.replace("\n", f"\n{blanks}")
        moved = moved.removesuffix(blanks) if text.endswith("\n") else moved
    return moved if first else moved.removeprefix(blanks)


# The names in templates.
FILTERS: dict[str, Callable[..., str]] = {
    "c_comment": c_comment,
    "c_string": c_string,
    "string_literal": string_literal,
    "docstring": docstring,
    "names": names,
    "tuple": tuple_,
    "markdown": markdown,
    "code": code,
    "indent": indent,
}
