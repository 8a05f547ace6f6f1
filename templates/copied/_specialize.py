"""Kernels with sizes as constants: whether a call may have one, and how it gets compiled.

In: what a plan's kernel says of itself (a file of the engine, and the literals that make its loops faster), and what
the caller wants: False, True, or the number of calls after which to compile. Out: the plan to run. Calls whose literals
agree share a library. A number never makes a call wait: a thread of its own compiles, and calls go on with sizes at run
time until it is done. Where it cannot compile they always do.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from itertools import count
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from . import _load
from ._errors import Refusal
from ._numbers import int_scalar
from ._remember import changed
from ._units import Unit
from ._words import quoted

Plan = TypeVar("Plan")

MAX_LIBRARIES = 64  # libraries with constants that a process loads
# The files of c/engine that take literals, and the macros of these: opwright_*_fixed answers with a row's number, 0 for
# none, and the values. Which calls gain, and how much, stands beside what decides it.
FILES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("", ()),
    ("depthwise_channels.c", ("TAPS", "STEP")),
    ("depthwise_columns.c", ("ROWS", "COLUMNS", "STEP")),
    ("depthwise_weights.c", ("W_ROWS", "W_COLUMNS")),
    ("weights_columns.c", ("W_ROWS", "W_COLUMNS")),
)
VALUES = 4  # that it writes at the most
EXPECTED = "False, True or an integer >= 1"
_DIGITS = 18  # of a number in the environment; int64 holds these

Wanted = bool | int
Literals = tuple[tuple[str, int], ...]  # macros and their values


def check(argument: str, value: object) -> Wanted:
    """`value` as False, True or a number of calls. Refusal (rule "specialize") where it is neither."""
    if type(value) is bool:
        return value
    try:
        calls = int_scalar(argument, value)
    except Refusal as refusal:
        raise Refusal("specialize", argument, refusal.got, EXPECTED, refusal.nearest, refusal.wrong_kind) from None
    if calls < 1:
        raise Refusal("specialize", argument, str(calls), EXPECTED, nearest=False)
    return calls


def _from_environment() -> Wanted | str:
    """What OPWRIGHT_SPECIALIZE says: off, on or a number; as it stands where it says something else."""
    text = os.environ.get("OPWRIGHT_SPECIALIZE", "")
    calls = int(text) if text.isdecimal() and len(text) <= _DIGITS else 0
    return {"": False, "off": False, "on": True}.get(text, calls or text)


setting = _from_environment()  # read by every call that does not say; text: refused by the first that asks


def set_specialize(value: object) -> None:
    """What calls do that do not say; wins over OPWRIGHT_SPECIALIZE. Refusal unless False, True or an integer >= 1."""
    global setting
    setting = check("value", value)
    changed()


def get_specialize() -> Wanted:
    """What `set_specialize` chose, else OPWRIGHT_SPECIALIZE, else False. Refusal where that says none of these."""
    if isinstance(setting, str):
        expected = "'off', 'on' or an integer >= 1"
        raise Refusal("specialize", "OPWRIGHT_SPECIALIZE", quoted(setting), expected)
    return setting


class Fixed:
    """A library whose engine was, or may be, compiled with literals."""

    def __init__(self, unit: Unit, literals: Literals) -> None:
        self.unit = unit
        self.literals = literals
        self.library: _load.Library | None = None
        self.failure = ""

    def compile(self) -> None:
        """Compile and load it; what goes wrong is in `failure`."""
        try:
            self.library = _load.load(self.unit)
        except (OSError, RuntimeError) as error:  # BuildError is one; so is what Python says that is shutting down
            self.failure = str(error)


class Special(Generic[Plan]):
    """What specialisation has come to for one plan.

    `literals` says which there are, `fixed` finds the library with them, `plan` makes the same plan with that one.
    """

    def __init__(
        self,
        literals: Callable[[], tuple[str, Literals]],
        fixed: Callable[[], Fixed | None],
        plan: Callable[[_load.Library], Plan],
    ) -> None:
        self.literals = literals
        self.fixed = fixed
        self.make = plan
        self.ready: Plan | None = None
        self.calls = count(1)

    def chosen(self, wanted: Wanted) -> Plan | None:
        """The plan with constants where it is there, after doing what a call that wants it does."""
        if self.ready is not None:
            return self.ready
        if wanted is not True and next(self.calls) < wanted:
            return None
        fixed = self.fixed()
        if fixed is None or fixed.failure:
            return None
        if fixed.library is None and wanted is True:
            fixed.compile()
        elif fixed.library is None:
            _builder.ask(fixed)
        if fixed.library is None:
            return None
        self.ready = self.make(fixed.library)
        return self.ready


_libraries: dict[Any, Fixed] = {}


def literals(fixed: Callable[[Any, Any], int], sizes: Any, ffi: Any) -> tuple[str, Literals]:
    """The file of the engine that is faster with literals, and these; "" where sizes at run time are as fast.

    `fixed` is what a kernel says of them, given `sizes` and room for the values.
    """
    values = ffi.new("int64_t[]", VALUES)
    file, macros = FILES[fixed(sizes, values)]
    return file, tuple((f"OPWRIGHT_FIXED_{macro}", value) for macro, value in zip(macros, values))


def library(key: Any, literals: Literals, unit: Callable[[], Unit]) -> Fixed | None:
    """The library of that key; None where there are too many."""
    found = _libraries.get(key)
    if found is None and len(_libraries) < MAX_LIBRARIES:
        found = _libraries.setdefault(key, Fixed(unit(), literals))
    return found


def explained(special: Special[Any] | None, wanted: Wanted) -> tuple[bool, str]:
    """Whether a call would run with constants, and what would be done about it, in words."""
    if special is None:
        return False, "at run time: this kernel has no specialised version"
    file, found = special.literals()
    if not file:
        return False, "at run time, which is as fast here"
    constants = ", ".join(f"{macro.removeprefix('OPWRIGHT_FIXED_').lower()} {value}" for macro, value in found)
    if wanted is False:
        return False, f"at run time: specialize is off; {file} would be compiled with {constants}"
    fixed = special.fixed()
    if fixed is None:
        return False, f"at run time: {MAX_LIBRARIES} libraries with constants are loaded, and no more will be"
    if fixed.failure:
        return False, f"at run time: {file} with {constants} cannot be compiled: {fixed.failure}"
    if fixed.library:
        return True, f"constants: {file} was compiled with {constants}"
    if wanted is True:
        return True, f"constants: {file} is compiled with {constants} by the first call, if it is not in the cache"
    return False, f"at run time, until {file} was compiled with {constants} in the background, from call {wanted} on"


class _Builder:
    """The thread that compiles for calls that do not wait; it starts with the first of them."""

    def __init__(self) -> None:
        self.asked: set[int] = set()
        self.queue: SimpleQueue[Fixed] = SimpleQueue()
        self.starting = threading.Lock()
        self.thread: threading.Thread | None = None

    def ask(self, fixed: Fixed) -> None:
        if id(fixed) in self.asked:  # they live as long as the process
            return
        with self.starting:
            if id(fixed) in self.asked:
                return
            self.asked.add(id(fixed))
            self.queue.put(fixed)
            if self.thread is None:
                thread = threading.Thread(target=self.serve, name="opwright-specialize", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    fixed.failure = str(error)
                    return
                self.thread = thread

    def serve(self) -> None:
        while True:
            self.queue.get().compile()


_builder = _Builder()


def _forget_builder() -> None:
    """In a forked child, where its thread does not exist."""
    global _builder
    _builder = _Builder()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_builder)
