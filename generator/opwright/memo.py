"""Memoises functions of a node, such as an operation of a spec or an expression; the node itself stores the results.
Interns nodes of code, few of which differ between kernels, so that each result is computed once.

A result that several readers share is computed once and freed with its node. A stand-in of a node (recording.py)
records which fields are read; a memoised result counts as reading the same fields again.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
N = TypeVar("N")
T = TypeVar("T")


class Interned(type):
    """A metaclass that interns instances: equal parts give the same live object, so that `==` may be `is`.

    For frozen dataclasses without an equality of their own, whose parts are hashable.
    """

    _known: ClassVar[weakref.WeakValueDictionary[tuple[object, ...], Any]] = weakref.WeakValueDictionary()

    def __call__(cls, *values: Any, **named: Any) -> Any:
        key = (cls, values, *named.items()) if named else (cls, values)
        found = Interned._known.get(key)
        if found is None:
            made = super().__call__(*values, **named)
            found = Interned._known.setdefault((cls, tuple(vars(made).values())), made)
            Interned._known[key] = found  # defaults left out, or parts by name
        return found


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
