"""Memoises functions of a node, such as an operation of a spec or an expression; the node itself stores the results.

A result that several readers share is computed once and freed with its node. A stand-in of a node (recording.py)
records which fields are read; a memoised result counts as reading the same fields again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
N = TypeVar("N")
T = TypeVar("T")


def memoised(make: Callable[Concatenate[N, P], T]) -> Callable[Concatenate[N, P], T]:
    """Like functools.cache, but keyed by the identity of the first argument, which stores the results."""

    @functools.wraps(make)
    def get(node: N, /, *arguments: P.args, **options: P.kwargs) -> T:
        attributes: dict[str, Any] = vars(node)
        key = (make, arguments, *options.items()) if arguments or options else make
        value: T
        try:
            value, read = attributes["_memoised"][key]
        except KeyError:
            value, read = _made(attributes.get("_reads"), functools.partial(make, node, *arguments, **options))
            attributes.setdefault("_memoised", {})[key] = value, read
        if read:
            attributes["_reads"] |= read
        return value

    return get


def _made(reads: set[str] | None, make: Callable[[], T]) -> tuple[T, frozenset[str]]:
    """The result of `make`, and the fields that only this call read."""
    if reads is None:
        return make(), frozenset()
    before = {*reads}
    reads.clear()
    try:
        value = make()
        return value, frozenset(reads)
    finally:
        reads |= before
