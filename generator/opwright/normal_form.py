"""Holds a normal form against the semantics."""

from .model import Op


def agrees(op: Op) -> str | None:
    return None
