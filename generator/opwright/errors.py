"""Errors of commands: two exceptions whose text is one line for the user, each with an exit code of its own."""

from __future__ import annotations


class UsageError(Exception):
    """The command line is wrong; the text says where and what to do. Exit code 2."""


class Failed(Exception):  # noqa: N818  # a result, not a mistake of the tool
    """The command is valid but failed, for example because the spec refuses the call. Exit code 1."""


def printable(text: str) -> str:
    """Text with control characters, which may steer a terminal, as escapes; lines and tabs stay."""
    return "".join(one if one.isprintable() or one in "\n\t" else repr(one)[1:-1] for one in text)


def inert(text: str) -> str:
    """Untrusted text on one line of a terminal or a page: unprintable characters are spelled out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def count(number: int, word: str) -> str:
    """A number of things: `1 file`, `2 files`."""
    return f"{number} {word}{'s' * (number != 1)}"
