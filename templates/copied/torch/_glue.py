"""Calls of operators like one before, without Python: glue.cpp, and what it is told of calls.

In: operators whose kernels are Python's, and calls of theirs. Out: the same operators, whose later calls go from the
dispatcher of PyTorch to the kernel, and their gradients from operator to operator. It is compiled for the PyTorch at
hand when an operator is first called. Where that cannot be done, and with OPWRIGHT_TORCH_GLUE=0, all calls stay
Python's, and `state` says why.
"""

from __future__ import annotations

import ctypes
import os
import re
import sysconfig
import threading
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import torch

from .. import _load, _remember, _scratch, _specialize
from .._arrays import Array, is_ready
from .._errors import BuildError
from .._operation import Operation
from .._step_kernels import is_walkable
from .._team import thread_count
from .._units import Unit, python_include

_CDEF = """\
void *opwright_torch_new(void);
void *opwright_torch_add(
    void *glue, void *known, const char *space, const char *name, const char *overload, int autograd);
void opwright_torch_remove(void *known);
void *opwright_torch_reader(
    void *known, void *general, void *tensor, void *memory, void *parameter, void *wrap, void *translate);
int64_t opwright_torch_hits(void *known);
int opwright_torch_asked(void *glue);
void opwright_torch_tell(void *glue, const int64_t *words, int64_t count, int64_t number, int poison);
void opwright_torch_moved(void *glue, const int64_t *words, int64_t count);
int opwright_torch_noting(void *glue);
void opwright_torch_note(void *glue, const int64_t *words, int64_t count);
int64_t opwright_torch_dead(void *glue);
void opwright_torch_forget(void *glue, int paused);
"""
_FIXED, _INPUT, _OUTPUT, _EXTRA, _COPY = range(5)  # the kinds of arguments in glue.cpp
_HERE = Path(__file__).parent
# What makes a tensor one of Python, and an exception one of Python, as libtorch_python calls them.
_WRAP = "_Z16THPVariable_WrapRKN2at10TensorBaseE"
_TRANSLATE = "_ZN5torch29translate_exception_to_pythonERKNSt15__exception_ptr13exception_ptrE"


def unit() -> Unit:
    """What is compiled: for one version of PyTorch, whose C++ interface other versions need not have."""
    version = re.sub(r"\W", "_", torch.__version__)
    root = Path(torch.__file__).parent
    headers = [folder for folder in python_include() if (folder / "Python.h").is_file()]
    reader = bool(headers) and not sysconfig.get_config_var("Py_GIL_DISABLED")  # whose objects reader.h does not know
    return Unit(
        f"opwright_torch_{version}",
        _CDEF,
        (_HERE / "glue.cpp",),
        (),
        (
            *("-std=c++20", "-O2", "-fvisibility=hidden", "-DAT_PER_OPERATOR_HEADERS"),
            *(("-DOPWRIGHT_READER",) if reader else ()),
        ),
        system=(root / "include", *headers[:reader]),
        links=("-L", str(root / "lib"), "-ltorch_cpu", "-lc10", "-lstdc++"),
        plain=True,
    )


class Glue:
    """The glue of one package: what its operators share."""

    def __init__(self) -> None:
        self.state = "not compiled yet"
        self.tried, self.starting = False, threading.RLock()
        self.lib: Any = None
        self.ffi: Any = None
        self.handle: Any = None
        self.pending: list[tuple[str, str]] = []  # operators to be added once it is there
        self.operators: dict[tuple[str, str], Any] = {}  # by namespace and name, what the glue knows them by
        self.kept: dict[int, Any] = {}
        self.numbers = count()

    def start(self) -> bool:
        """Compile and load it, the first time that anybody asks; whether it is there."""
        if not self.tried:
            with self.starting:
                if not self.tried:
                    self.load()
                    self.tried = True
        return self.lib is not None

    def load(self) -> None:
        if os.environ.get("OPWRIGHT_TORCH_GLUE") == "0":
            self.state = "Python, as OPWRIGHT_TORCH_GLUE=0 says"
            return
        try:
            library = _load.load(unit())
        except BuildError as error:
            self.state = f"Python: {error}"
            return
        self.ffi, self.lib = library.ffi, library.lib
        self.handle = self.lib.opwright_torch_new()
        self.changed()
        _remember.CHANGED.append(self.changed)
        for space, name in self.pending:
            self.add(space, name, autograd=True)
            self.read(space, name)
        self.state = "compiled"

    def changed(self) -> None:
        """Forget all calls; with sizes as constants, kernels change from call to call."""
        self.lib.opwright_torch_forget(self.handle, _specialize.setting is not False)

    def add(self, space: str, name: str, *, autograd: bool) -> None:
        """Take the places of an operator's kernels, which are Python's; calls that are known from before stay known."""
        stem, _, overload = name.partition(".")
        words = [word.encode() for word in (space, stem, overload)]
        known = self.operators.get((space, name), self.ffi.NULL)
        self.operators[space, name] = self.lib.opwright_torch_add(self.handle, known, *words, autograd)

    def read(self, space: str, name: str) -> None:
        """Have calls of an operator from Python read by the glue; it hands on those that are not plain.

        The functions that `torch.ops` calls are no public part of PyTorch: where they are not as in 2.13, they stay.
        """
        try:
            library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_python.so"))
            functions = [ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value for symbol in (_WRAP, _TRANSLATE)]
            packet, tensor = getattr(getattr(torch.ops, space), name), torch.empty(0)
            callers = {one: one._op for one in (packet, packet.default)}
            register = torch.jit._builtins._register_builtin
        except (OSError, AttributeError):
            return
        for one, general in callers.items():
            known = (id(general), id(tensor), tensor._cdata, id(torch.nn.Parameter), *functions)
            address = self.lib.opwright_torch_reader(
                self.operators[space, name], *[self.ffi.cast("void *", word) for word in known]
            )
            if address:
                one._op = ctypes.cast(int(self.ffi.cast("intptr_t", address)), ctypes.py_object).value
                register(one._op, f"{space}::{name}")  # for TorchScript, which finds operators by these functions

    def remove(self, space: str, name: str) -> None:
        """Give the places back that `add` took."""
        if known := self.operators.get((space, name)):
            self.lib.opwright_torch_remove(known)

    def hits(self, space: str, name: str) -> int:
        """How many calls of an operator Python did not see, since it asked last."""
        known = self.operators.get((space, name))
        return int(self.lib.opwright_torch_hits(known)) if known else 0

    def asked(self) -> bool:
        """Whether the call that runs is one that the glue would remember."""
        return self.lib is not None and bool(self.lib.opwright_torch_asked(self.handle))

    def noting(self) -> bool:
        """Whether the gradients of the call that runs are ones that the glue would note by itself the next time."""
        return self.lib is not None and bool(self.lib.opwright_torch_noting(self.handle))

    def note(self, space: str, words: Sequence[int | str]) -> None:
        """Say how the gradients of a call are computed; operators of the package are given by name."""
        known = [
            int(self.ffi.cast("intptr_t", self.operators[space, word])) if isinstance(word, str) else word
            for word in words
        ]
        self.lib.opwright_torch_note(self.handle, self.ffi.new("int64_t[]", known), len(known))

    def tell(
        self,
        operation: Any,
        inputs: Sequence[Any],
        attributes: Sequence[Any],
        outputs: Sequence[Array | None],
        places: Sequence[int | None],
    ) -> None:
        """Say how a call was computed, of arrays as its kernel took them. `places` are among the operator's arguments.

        Nothing is said of a call that steps copy an array for or that runs several kernels: it stays Python's.
        """
        told = _of_steps if hasattr(operation, "outputs") else _of_one
        found = told(operation, inputs, tuple(attributes), outputs, places)
        if found is None:
            return
        plan, words = found
        with self.starting:
            while (number := self.lib.opwright_torch_dead(self.handle)) >= 0:
                self.kept.pop(number, None)
            number = next(self.numbers)
            self.kept[number] = plan
        poison = -1 if _scratch.POISON is None else _scratch.POISON
        self.lib.opwright_torch_tell(self.handle, self.ffi.new("int64_t[]", words), len(words), number, poison)

    def moved(self, written: torch.Tensor, result: torch.Tensor) -> None:
        """Say that a result of the call that runs is a copy, in another order, of what a kernel wrote."""
        words = [0, written.data_ptr(), result.data_ptr(), written.dim(), *written.shape, *written.stride()]
        self.lib.opwright_torch_moved(self.handle, self.ffi.new("int64_t[]", words), len(words))


Told = tuple[Any, list[int]]
Argument = tuple[int, ...]  # kind, value and address, as glue.cpp has them, and of a copy how its cells lie


def _fixed(plan: Any, pointer: Any) -> Argument:
    return _FIXED, int(plan.ffi.cast("intptr_t", pointer)), 0


def _words(plan: Any, arguments: list[Argument]) -> list[int]:
    return [plan.entry(), len(arguments), *[word for argument in arguments for word in argument]]


def _of_steps(
    operation: Any, inputs: Sequence[Any], attributes: tuple[Any, ...], outputs: Any, places: Sequence[int | None]
) -> Told | None:
    given = operation.arrays(inputs)
    arrays = {info.name: value for info, value in zip(operation.inputs, given) if value is not None}
    written = [one for one in outputs if one is not None]
    if operation.joined or not all(map(is_walkable, [*arrays.values(), *written])):
        return None
    meant = operation.resolved(given, operation.completed(attributes, outputs))
    plan = operation.planned_steps(meant, {**arrays, **operation.written(meant, outputs)})
    arguments: list[Argument] = []
    for value, absent, place in zip(given, plan.absent, places):
        if value is None:
            arguments.append(_fixed(plan, absent))
        elif place is None:
            return None
        else:
            arguments.append((_INPUT, place, value.ctypes.data))
    arguments += [_fixed(plan, one) for one in plan.lists]
    for (_, _, shape, dtype), made in zip(plan.outputs, outputs):
        size = dtype.itemsize
        for extent in shape:
            size *= extent
        arguments.append((_EXTRA, size, 0) if made is None else (_OUTPUT, size, made.ctypes.data))
    team, size = plan.workers(thread_count(plan, None))
    arguments += [_fixed(plan, plan.sizes), (_FIXED, 0, 0), (_FIXED, plan.phases, 0), _fixed(plan, team)]
    arguments.append((_EXTRA, size, 0) if size else (_FIXED, 0, 0))
    return plan, _words(plan, arguments)


def _of_one(
    operation: Operation, inputs: Sequence[Any], attributes: tuple[Any, ...], outputs: Any, places: Sequence[int | None]
) -> Told | None:
    given, plan, _ = operation.prepared(inputs, attributes)
    workers = thread_count(plan, None)
    if plan.scratch is None and workers > 1:  # whose parts Python's threads compute
        return None
    arguments: list[Argument] = []
    for position, _ in plan.inputs:
        value, place = given[position], places[position]
        if value is None:
            arguments.append((_FIXED, 0, 0))
        elif place is None or not is_walkable(value):
            return None
        elif is_ready(value):
            arguments.append((_INPUT, place, value.ctypes.data))
        else:
            strides = [stride // value.itemsize for stride in value.strides]
            arguments.append((_COPY, place, value.ctypes.data, value.ndim, *value.shape, *strides))
    (made,) = outputs
    if not is_ready(made):
        return None
    arguments += [(_OUTPUT, made.nbytes, made.ctypes.data), _fixed(plan, plan.sizes)]
    if plan.scratch is None:
        arguments += [(_FIXED, 0, 0), (_FIXED, 1, 0)]
    else:
        team, size = plan.workers(workers)
        arguments += [_fixed(plan, team), (_EXTRA, size, 0)]
    return plan, _words(plan, arguments)


GLUE = Glue()
