"""Trial edits of one field of a spec, made on the model, to see what they change.

In: a library and a field of it (recording.py). Out: libraries that differ only in that field: another value, or,
if the field is a name, another name wherever it occurs. They may be inconsistent; rendering then fails.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from jinja2 import Environment, TemplateError

from ..emit.output import Output
from ..emit.render import tidy
from ..language import expr
from ..language.library import Library
from ..language.model import Op
from ..language.renaming import rename, rename_axis
from ..language.schema import Assignment, Located
from ..language.source import INCONSISTENT
from ..memo import memoised
from .recording import NAMES, Field
from .recording import _labelled as labelled

Outputs = Callable[[Library], Mapping[str, Output]]
LETTERS = "QZVJYUqzvjyuABCDEFGHIKLMNOPRSTWXabcdefghiklmnoprstwx"
OTHER = {"f32": "f64", "f64": "f32", "bf16": "f16", "f16": "bf16", "s32": "s64", "s64": "s32", "spatial": "any"}
UNRENDERABLE: tuple[type[Exception], ...] = (*INCONSISTENT, TemplateError)
_CONDITION = re.compile(r"[<>]|[=!]=|\b(and|or|not)\b")


class Trial:
    """A line of a file, compared with its state after an edit of a field."""

    def __init__(
        self, library: Library, outputs: Outputs, environment: Environment, path: str, lines: Sequence[str], line: int
    ) -> None:
        self.library, self.outputs, self.environment, self.path, self.lines = library, outputs, environment, path, lines
        self.at = line - 1
        self.text = lines[self.at]
        self.says = re.search(r"\w", self.text) is not None

    def moves(self, field: Field, printed: bool) -> bool | None:
        """Whether an edit of a field changes the line; None if no edit could be rendered.

        If the edit removes the file, the line counts as changed where it `printed` the text of the field.
        """
        changed = [self._changed(edited, printed) for edited in edits(self.library, field)]
        return True if True in changed else False if False in changed else None

    def _changed(self, edited: Library, printed: bool) -> bool | None:
        try:
            output = self.outputs(edited).get(self.path)
            if output is None:
                return printed
            made = tidy(self.path, output.text(self.environment)).splitlines()
        except UNRENDERABLE:  # `why` reports how many edits could not be tried
            return None
        if len(made) == len(self.lines):
            return made[self.at] != self.text
        blocks = difflib.SequenceMatcher(None, self.lines, made, autojunk=False).get_matching_blocks()
        return not any(block.a <= self.at < block.a + block.size for block in blocks)


def edits(library: Library, field: Field) -> Iterator[Library]:
    """The libraries with this field edited."""
    _, name, *inner = field.path.split(".")
    op = next((op for op in library.ops if op.op == name), None)
    if op is None:
        yield _put(library, field.path, _another)
        return
    for made in _of_op(op, ".".join(inner), field):
        yield dataclasses.replace(library, ops=tuple(made if one is op else one for one in library.ops))


def _of_op(op: Op, path: str, field: Field) -> Iterator[Op]:
    parts = path.split(".")
    holder, key = parts[-2] if len(parts) > 1 else "", parts[-1]
    if key in NAMES and isinstance(field.value, str):
        yield rename(op, str(field.value), _unused(op, str(field.value)))
    elif holder in ("dims", "index") and parts[0] in ("inputs", "outputs"):
        yield rename_axis(op, parts[1], key, _unused(op, key))
    elif holder == "ranges" or parts[0] in ("let", "padding", "shape"):
        letter = key if holder == "ranges" else parts[1]
        yield rename(op, letter, _unused(op, letter))
    if key not in NAMES or not isinstance(field.value, str):
        yield _put(op, path, _another)


def _unused(op: Op, name: str) -> str:
    """An unused name of the same length, so that lines wrap in the same places."""
    known = _words(op)
    same = [letter for letter in LETTERS if letter.isupper() == name[-1:].isupper()]
    return next((made for letter in same if (made := name[:-1] + letter) not in known), name + "q")


@memoised
def _words(op: Op) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", repr(op)))


def _another(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, Located):
        text = f"not ({value.text})" if _CONDITION.search(value.text) else f"({value.text}) + 1"
        return dataclasses.replace(value, tree=expr.parse(text), text=text)
    if isinstance(value, Assignment):
        more = expr.Binary("+", value.value, expr.Number(1))
        return dataclasses.replace(value, value=more, text=f"{value.text} + 1")
    if isinstance(value, tuple):
        return value[::-1] if len(value) > 1 else tuple(map(_another, value))
    text = str(value)
    if text.isdecimal():
        return str(int(text) + 1)
    return OTHER.get(text) or re.sub(r"[A-Za-z]", lambda found: "q" if found[0] != "q" else "z", text, count=1)


def _put(value: Any, path: str, make: Callable[[Any], Any]) -> Any:
    """A copy with the value at a path replaced."""
    if not path:
        return make(value)
    for name, inner in _children(value):
        if path == name or path.startswith(f"{name}."):
            return _with(value, name, _put(inner, path[len(name) + 1 :], make))
    raise LookupError(path)


def _children(value: Any) -> Iterable[tuple[str, Any]]:
    if dataclasses.is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    return value.items() if isinstance(value, dict) else labelled(value)


def _with(value: Any, name: str, inner: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{name: inner})
    if isinstance(value, dict):
        return {key: inner if str(key) == name else entry for key, entry in value.items()}
    return tuple(inner if label == name else entry for label, entry in labelled(value))
