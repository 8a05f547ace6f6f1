"""Errors of commands: two exceptions whose text is one line for the user, each with an exit code of its own."""

from __future__ import annotations


class UsageError(Exception):
    """The command line is wrong; the text says where and what to do. Exit code 2."""


class Failed(Exception):  # noqa: N818  # a result, not a mistake of the tool
    """The command is valid but failed, for example because the spec refuses the call. Exit code 1."""


def inert(text: str, kept: str = "") -> str:
    """Untrusted text for a terminal or a page: unprintable characters, but for those `kept`, are spelled out."""
    return "".join(c if c.isprintable() or c in kept else c.encode("unicode_escape").decode() for c in text)


def printable(text: str) -> str:
    """Text with control characters, which may steer a terminal, as escapes; lines and tabs stay."""
    return inert(text, "\n\t")


def count(number: int, word: str) -> str:
    """A number of things: `1 file`, `2 files`."""
    return f"{number} {word}{'s' * (number != 1)}"
