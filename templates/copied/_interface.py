"""What the package offers beside the operations: settings, shapes, builds, and the names by which all are called.

In: what a caller of the package gave. Out: operations and their arguments, or a SpecError.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _specialize, _steps, _team, _threads
from ._description import API
from ._errors import Refusal
from ._operation import Operation
from ._words import shortened

# What operations of steps run on is imported with the package, so that no first call has to.
RUNTIME = _steps


class Operations(Mapping[str, Operation]):
    """The operations of a package by the names of their functions. Each is imported when it is first asked for.

    `names` maps a function's name to its operation's name in the spec.
    """

    def __init__(self, package: str, names: Mapping[str, str]) -> None:
        self._package = package
        self._names = names

    def __getitem__(self, function: str) -> Operation:
        operation: Operation = self._module(function).OPERATION
        return operation

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, function: object) -> bool:
        return function in self._names

    def function(self, name: str) -> Any:
        """The public function of that name."""
        return getattr(self._module(name), name)

    def named(self, op: str) -> Operation:
        """The operation with that name in the spec, or with that function; ValueError if there is none."""
        for function, name in self._names.items():
            if op in (function, name):
                return self[function]
        raise ValueError(f"there is no operation {shortened(repr(op))}; there are {', '.join(self._names)}")

    def _module(self, function: str) -> Any:
        if function not in self._names:
            raise KeyError(function)
        return importlib.import_module(f"._{function}", self._package)


def bound(operation: Operation, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], list[Any]]:
    """The inputs and attributes of a call that is written as the public function would take it."""
    names = [info.parameter for info in operation.inputs]
    if len(args) > len(names):
        raise TypeError(f"{operation.function} takes {len(names)} inputs but {len(args)} were given")
    given = dict(zip(names, args))
    for name, value in kwargs.items():
        if name in given or name not in (*names, *operation.attributes):
            raise TypeError(f"{operation.function} got an unexpected or repeated argument {shortened(repr(name))}")
        given[name] = value
    missing = [info.parameter for info in operation.inputs if info.parameter not in given and not info.optional]
    missing += [name for name in operation.attributes if name not in given and name not in operation.defaults]
    if missing:
        raise TypeError(f"{operation.function} lacks the arguments {', '.join(missing)}")
    inputs = [given.get(name) for name in names]
    return inputs, [given.get(name, operation.defaults.get(name)) for name in operation.attributes]


def infer_shape(operation: Operation, inputs: Sequence[Any], attributes: Sequence[Any]) -> tuple[int, ...]:
    """The shape of a call's output; the inputs may be arrays or anything with a shape and a dtype."""
    try:
        return operation.resolve(*operation.arrays(inputs), *attributes).shape
    except Refusal as refusal:
        raise operation.refused(refusal) from None


def build(operations: Sequence[Operation], progress: Any = None, into: Any = None) -> list[str]:
    """Compile the kernels of operations; the libraries' paths.

    Those for the instruction sets in use go into the cache; those for all that the platform has, into a folder `into`.
    """
    from . import _build, _ship  # which most processes need not

    if into is not None:
        return [str(path) for path in _ship.ship(operations, Path(into), progress)]
    units = {unit.name: unit for operation in operations for unit in operation.units()}
    return [str(path) for path in _build.build([_team.UNIT, *units.values()], progress)]


def set_num_threads(n: int) -> None:
    """How many threads later calls use, at least 1; `threads=` of a call goes before it. Raises SpecError."""
    try:
        _threads.set_num_threads(n)
    except Refusal as refusal:
        raise refusal.error("set_num_threads", f"{API}#threads") from None


def get_num_threads() -> int:
    """How many threads a call uses that does not say: set_num_threads, OPWRIGHT_NUM_THREADS, or the CPUs at hand."""
    try:
        return _threads.get_num_threads()
    except Refusal as refusal:
        raise refusal.error("get_num_threads", f"{API}#threads") from None


def set_specialize(value: bool | int) -> None:
    """What later calls do that do not say: False, True, or the number of calls after which to compile. SpecError."""
    try:
        _specialize.set_specialize(value)
    except Refusal as refusal:
        raise refusal.error("set_specialize", f"{API}#specialize") from None


def get_specialize() -> bool | int:
    """What a call does that does not say: set_specialize, OPWRIGHT_SPECIALIZE, or False."""
    try:
        return _specialize.get_specialize()
    except Refusal as refusal:
        raise refusal.error("get_specialize", f"{API}#specialize") from None
