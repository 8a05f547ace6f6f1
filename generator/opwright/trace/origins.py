"""Which functions of the generator made a piece of text: recorded while a view is made.

In: a function that makes a view. Out: its result, and a record: the functions that it called, and for
each text the calls that made it, the outermost first. A text is made where a function returns it, alone or in a list,
and where it becomes part of a node of a view. No module of the generator is known by name: everything in its folder
counts.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from ..emit import escape, render
from ..project import GENERATOR

T = TypeVar("T")
_HERE = str(GENERATOR)
# Recording, memoisation and this module do not count as makers.
_NOT_MAKERS = frozenset(
    {str(GENERATOR / "trace" / "recording.py"), str(GENERATOR / "memo.py"), escape.__file__, __file__}
)
# The modules that make views: the functions that they call start a chain.
_VIEWS = frozenset({render.__file__, str(Path(render.__file__).parent / "steps" / "files.py")})


@dataclass(frozen=True)
class Step:
    """A call in the generator: the function, and its current line."""

    module: str
    function: str
    line: int


Chain = tuple[Step, ...]
Names = tuple[tuple[str, str], ...]


@dataclass
class Origins:
    """The record."""

    asked: set[Step] = field(default_factory=set)
    chains: dict[str, dict[Names, Chain]] = field(default_factory=dict)

    def of(self, text: str) -> Chain:
        """The calls shared by all makers of a text; none for a name that is made in many places."""
        makers = self.chains.get(text.strip(), {})
        # A text that a module of views derives itself, such as a comment, it derives from another's text.
        makers = {names: chain for names, chain in makers.items() if names[0][0] not in _VIEWS} or makers
        shared = len(list(itertools.takewhile(lambda steps: len(set(steps)) == 1, zip(*makers))))
        return next(iter(makers.values()), ())[:shared]

    def note(self, value: Any, frame: FrameType) -> None:
        chain: Chain = ()
        names: Names = ()
        for text in _texts(value):
            makers = self.chains.setdefault(text.strip(), {})
            chain = chain or _chain(frame)
            names = names or tuple((step.module, step.function) for step in chain)
            # A function that only passes on a text is not a maker.
            if not any(names == made[: len(names)] for made in makers):
                makers[names] = chain


def traced(make: Callable[[], T], origins: Origins, texts: bool = True) -> T:
    """The result of `make`, with the record in `origins`; without `texts`, which is faster, only the calls."""

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        code, caller = frame.f_code, _named(frame.f_back)
        if event == "call" and caller is not None and _ours(caller):
            if caller.f_code.co_filename in _VIEWS and code.co_filename not in _VIEWS and _ours(frame):
                origins.asked.add(Step(code.co_filename, code.co_name, code.co_firstlineno))
            elif texts and code.co_name == "__init__" and dataclasses.is_dataclass(frame.f_locals.get("self")):
                origins.note([value for name, value in frame.f_locals.items() if name != "self"], caller)
        elif texts and event == "return" and _ours(frame):
            origins.note(argument, frame)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        return make()
    finally:
        sys.setprofile(before)


def _ours(frame: FrameType) -> bool:
    """Whether the frame runs a named function of the generator."""
    code = frame.f_code
    return code.co_filename.startswith(_HERE) and code.co_filename not in _NOT_MAKERS and code.co_name[0] != "<"


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str) and value:
        yield value
    elif isinstance(value, (list, tuple)):
        yield from (text for entry in value for text in _texts(entry))
    elif isinstance(value, dict):
        yield from (text for entry in dict.values(value) for text in _texts(entry))


def _named(frame: FrameType | None) -> FrameType | None:
    """The enclosing function of a frame that runs a lambda, a comprehension or a method of a recorder."""
    while frame is not None and (
        frame.f_code.co_filename in _NOT_MAKERS
        or (frame.f_code.co_name[0] == "<" and frame.f_code.co_filename.startswith(_HERE))
    ):
        frame = frame.f_back
    return frame


def _chain(frame: FrameType | None) -> Chain:
    """The running calls, from the one that the module of the view made, or from that module."""
    found: list[Step] = []
    while frame is not None and frame.f_code.co_filename != __file__:
        if _ours(frame):
            if found and frame.f_code.co_filename in _VIEWS:
                break
            found.append(Step(frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return tuple(found[::-1])
