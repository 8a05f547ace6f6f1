"""Memoises functions of a node, such as an operation of a spec or an expression; the node itself stores the results.
Interns nodes of code, few of which differ between kernels, so that each result is computed once.

A result that several readers share is computed once and freed with its node. A stand-in of a node (recording.py)
records which fields are read; a memoised result counts as reading the same fields again.
"""

from __future__ import annotations

import dataclasses
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

    _known: ClassVar[dict[tuple[object, ...], weakref.KeyedRef[tuple[object, ...], Any]]] = {}
    _names: tuple[str, ...] | None = None
    _defaults: tuple[Any, ...] = ()  # of the last ones

    def __call__(cls, *values: Any, **named: Any) -> Any:
        names = cls._declared() if cls._names is None else cls._names
        missing = len(names) - len(values)
        if named or not 0 <= missing <= len(cls._defaults):
            values = tuple(vars(super().__call__(*values, **named)).values())
        elif missing:
            values += cls._defaults[-missing:]
        key = (cls, values)
        reference = Interned._known.get(key)
        found = reference and reference()
        if found is None:
            found = cls.__new__(cls)  # type: ignore[call-overload]
            found.__dict__.update(zip(names, values))
            Interned._known[key] = weakref.KeyedRef(found, Interned._forget, key)
        return found

    def _declared(cls) -> tuple[str, ...]:
        declared = dataclasses.fields(cls)  # type: ignore[arg-type]
        cls._names = tuple(field.name for field in declared)
        cls._defaults = tuple(field.default for field in declared if field.default is not dataclasses.MISSING)
        return cls._names

    @staticmethod
    def _forget(dead: weakref.KeyedRef[tuple[object, ...], Any]) -> None:
        if Interned._known.get(dead.key) is dead:
            del Interned._known[dead.key]


def memoised(make: Callable[Concatenate[N, P], T]) -> Callable[Concatenate[N, P], T]:
    """Like functools.cache, but keyed by the identity of the first argument, which stores the results."""

    def remembered(node: N, key: object, work: Callable[[], T]) -> tuple[T, frozenset[str]]:
        attributes: dict[str, Any] = node.__dict__
        found = attributes.setdefault("_memoised", {})[key] = _made(attributes.get("_reads"), work)
        return found

    @functools.wraps(make)
    def get(node: N, /, *arguments: P.args, **options: P.kwargs) -> T:
        key = (make, arguments, *options.items()) if arguments or options else make
        value: T
        try:
            value, read = node.__dict__["_memoised"][key]
        except KeyError:
            value, read = remembered(node, key, functools.partial(make, node, *arguments, **options))
        if read:
            node.__dict__["_reads"] |= read
        return value

    @functools.wraps(make)
    def get_plain(node: N, /) -> T:  # the same without arguments: most calls, which this makes faster
        value: T
        try:
            value, read = node.__dict__["_memoised"][make]
        except KeyError:
            value, read = remembered(node, make, functools.partial(make, node))
        if read:
            node.__dict__["_reads"] |= read
        return value

    plain = make.__code__.co_argcount == 1
    return get_plain if plain else get  # type: ignore[return-value]


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
