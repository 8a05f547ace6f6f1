"""The footprint of one output: the fields that were read for it, and what its template took from its view.

In: an output of a recording library (recording.py), or of another library. Out: a Footprint, and for any view the
`Taken`: the values that its template would print, without running the template. Text of the class Prose reaches no
token of code and is left out there; on a page every text counts. Nodes of the class Code stand for what they print. No
other kind of view is known here by name.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from ..emit.nodes import unplaced
from ..emit.output import Output
from ..emit.render import environment, tidy
from ..language.source import Code, Prose
from .recording import plain

Attributes = Mapping[type, frozenset[str]]
IMPORT = re.compile(r'{% import "([^"]+)"')


@dataclass(frozen=True)
class Printed:
    """The text of one file, and the texts of the kernels, or of the declarations, that its template names."""

    text: str
    parts: Mapping[str, str]


class Watching(jinja2.Environment):
    """An environment that records which attributes its templates take of which classes, and the parts they name."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.noted: set[tuple[type, str]] = set()
        self.parts: dict[str, str] = {}

    def getattr(self, obj: Any, attribute: str) -> Any:
        self.noted.add((obj.__class__, attribute))
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(argument, str):  # the lookup of filters such as `map(attribute=)`
            self.noted.add((obj.__class__, argument))
        return super().getitem(obj, argument)

    def compiled(self, names: Iterable[str]) -> None:
        """Compile templates and their imports into the environment."""
        waiting, known = [*names], set[str]()
        while waiting:
            name = waiting.pop()
            if name not in known:
                known.add(name)
                assert self.loader is not None
                waiting += IMPORT.findall(self.loader.get_source(self, name)[0])
                self.get_template(name)

    def part(self, text: str, names: Iterable[str]) -> str:
        """The filter `part`, which collects the texts of each name."""
        for name in names:
            self.parts[name] = self.parts.get(name, "") + text
        return text

    def printed(self, path: str, output: Output) -> Printed:
        """An output's tidy text and its parts."""
        self.parts = {}
        text = output.text(self)
        return Printed(tidy(path, text) if output.rendered else text, self.parts)

    def taken(self) -> Attributes:
        """Per dataclass, the attributes taken since the last call."""
        found: dict[type, set[str]] = {}
        for cls, attribute in self.noted:
            if dataclasses.is_dataclass(cls):
                found.setdefault(plain(cls), set()).add(attribute)
        self.noted.clear()
        return {cls: frozenset(attributes) for cls, attributes in found.items()}


def watching(templates: Path) -> Watching:
    """The environment of a folder of templates, as a Watching one."""
    made = environment(templates, Watching)
    assert isinstance(made, Watching)
    made.filters["part"] = made.part
    return made


@dataclass(frozen=True)
class Footprint:
    """One file, its text, and its sources."""

    path: str
    view: dict[str, Any]
    printed: Printed
    reads: frozenset[str]
    attributes: Attributes


def footprint(path: str, output: Output, reads: set[str], watching: Watching) -> Footprint:
    """Render an output of a recording library; `reads` is the set of its recorded reads."""
    reads.clear()
    watching.taken()
    view = output.view()
    printed = watching.printed(path, dataclasses.replace(output, view=lambda: view))
    return Footprint(path, view, printed, frozenset(reads), watching.taken())


@dataclass(frozen=True)
class Taken:
    """A stand-in for the tokens of a file, and for those of each of its kernels."""

    whole: object
    kernels: Mapping[str, object]


def taken(path: str, view: Mapping[str, Any], attributes: Attributes, kernels: frozenset[str]) -> Taken:
    """What a template that takes these attributes prints of a view.

    A node makes kernels if it has the name of one, or if its attribute `kernels` names several. The stand-in for
    a kernel is its node and the frame: every part of the view whose class does not occur in such a node.
    """
    taker = _Taker(attributes, path.endswith(".md"), kernels)
    whole = taker.of(view)
    frame = _Taker(attributes, taker.page, kernels, frozenset(taker.inner)).of(view) if taker.found else None
    return Taken(whole, {name: (node, frame) for name, node in taker.found.items()})


class _Taker:
    def __init__(
        self, attributes: Attributes, page: bool, kernels: frozenset[str], skipped: frozenset[type] = frozenset()
    ) -> None:
        self.attributes, self.page, self.kernels, self.skipped = attributes, page, kernels, skipped
        self.names: dict[
            type, tuple[str, ...]
        ] = {}  # the attributes of each class; none for classes that are not nodes
        self.found: dict[str, object] = {}
        self.inner: set[type] = set()  # the classes of nodes that make kernels, and of nodes within
        self.within = False

    def of(self, value: Any) -> object:
        cls = type(value)
        if cls is str or cls is int or value is None:
            return value
        if isinstance(value, Code):
            return unplaced(value)
        if cls is Prose:
            return value if self.page else ""
        if isinstance(value, (tuple, list)):
            return [self.of(entry) for entry in value if self.counts(entry)]
        if isinstance(value, dict):
            return [(key, self.of(entry)) for key, entry in value.items()]
        names = self.names.get(cls)
        if names is None:
            names = self.names[cls] = tuple(self.of_class(plain(cls))) if dataclasses.is_dataclass(cls) else ()
        return self.node(value, names) if names else value

    def counts(self, entry: Any) -> bool:
        """Whether an entry of a list counts: in the frame of one kernel, no other kernel does."""
        cls = type(entry)
        return (self.page or cls is not Prose) and not (self.skipped and plain(cls) in self.skipped)

    def node(self, value: Any, names: tuple[str, ...]) -> object:
        cls = plain(type(value))
        if cls in self.skipped:
            return None
        made = () if self.within else self.made(value)
        self.within = self.within or bool(made)
        if self.within:
            self.inner.add(cls)
        result = [cls, *[self.of(getattr(value, name, None)) for name in names]]
        if made:
            self.within = False
            self.found |= dict.fromkeys(made, result)
        return result

    def made(self, value: Any) -> tuple[str, ...]:
        """The kernels that a node makes."""
        name, several = getattr(value, "name", None), getattr(value, "kernels", None)
        named = (name, *several) if isinstance(several, tuple) else (name,)
        return tuple(name for name in named if isinstance(name, str) and name in self.kernels)

    def of_class(self, cls: type) -> Iterator[str]:
        """The attributes of a class that count: all fields if a template took none, or called a method."""
        found = self.attributes.get(cls, frozenset())
        if not found or any(callable(getattr(cls, name, None)) for name in found):
            found |= {field.name for field in dataclasses.fields(cls) if field.compare}
        return (name for name in sorted(found) if not callable(getattr(cls, name, None)))
