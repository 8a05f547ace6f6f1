"""What a command cannot do: two exceptions whose text is one line for the user, each with an exit code of its own."""

from __future__ import annotations


class UsageError(Exception):
    """The command was asked for something that cannot be; the text says where and what to do. Exit code 2."""


class Failed(Exception):  # noqa: N818  # a result, not a mistake of the tool
    """The command was understood and did not succeed, as when the spec refuses the call. Exit code 1."""


def inert(text: str) -> str:
    """Spec text in one line of a terminal or a page, which must not obey it: what cannot be printed is spelled out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
