"""Remembers what a function makes of a node, with the node: of an operation of a spec, or of an expression.

What several readers share is made once, and dies with what it was made of. Where the node is a stand-in that tells what
is read of it (recording.py), whoever asks again has read the same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
N = TypeVar("N")
T = TypeVar("T")


def kept(make: Callable[Concatenate[N, P], T]) -> Callable[Concatenate[N, P], T]:
    """As functools.cache, by the identity of the first argument."""

    @functools.wraps(make)
    def get(node: N, /, *arguments: P.args, **options: P.kwargs) -> T:
        attributes: dict[str, Any] = vars(node)
        key = (make, arguments, *options.items())
        value: T
        try:
            value, read = attributes["_kept"][key]
        except KeyError:
            value, read = _made(attributes.get("_reads"), functools.partial(make, node, *arguments, **options))
            attributes.setdefault("_kept", {})[key] = value, read
        if read:
            attributes["_reads"] |= read
        return value

    return get


def _made(reads: set[str] | None, make: Callable[[], T]) -> tuple[T, frozenset[str]]:
    """What `make` returns, and what was read for it alone."""
    if reads is None:
        return make(), frozenset()
    before = {*reads}
    reads.clear()
    try:
        value = make()
        return value, frozenset(reads)
    finally:
        reads |= before
