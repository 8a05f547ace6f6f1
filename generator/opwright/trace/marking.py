"""Finds the template line that printed a piece of a file: renders the templates again, with marks in their text.

In: an environment of templates and an `Output`. Out: for each line of the tidy file its pieces, each
with the places in templates that printed it, the caller first. It works for any template: the marks enter the token
stream after Jinja's own handling of blanks. If a mark changes the output, as in a macro whose text is
measured, the plain text differs from the marked one; then only the file's own template is named, without a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, pass_environment
from jinja2.ext import Extension
from jinja2.filters import do_indent
from jinja2.lexer import Token, TokenStream

from ..emit import printer
from ..emit.output import Output
from ..emit.render import numbered

# Control characters: the loader refuses them in specs, and no filter breaks lines at them.
_OPEN, _HERE, _CLOSE, _END = "\x01", "\x02", "\x03", "\x04"
_MARK = re.compile(f"([{_OPEN}{_HERE}])([0-9]+){_END}|({_CLOSE})")
_LONE = re.compile(f"(\n)((?:[{_OPEN}{_HERE}][0-9]+{_END}|{_CLOSE})+)(?=\n|$)")


@dataclass(frozen=True)
class Place:
    """A line of a template, and the macro that contains it; line 0 stands for the whole template.

    Without a template it stands for a statement of C: `field` is its source in the operation's spec.
    """

    template: str
    line: int = 0
    macro: str = ""
    field: str = ""


@dataclass(frozen=True)
class Piece:
    """A part of a line; `value` if it is the result of an expression of the template."""

    text: str
    places: tuple[Place, ...]
    value: bool = False


Line = tuple[Piece, ...]


def indent(text: str, *arguments: Any, **options: Any) -> str:
    """Jinja's filter, which skips empty lines: marks alone on a line move to the end of the previous line."""
    return do_indent(_LONE.sub(r"\2\1", text), *arguments, **options)


class Marks(Extension):
    """Puts a mark before every line of a template's text, and around every `{{ }}` and every statement of C."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        environment.extend(places=[])
        environment.filters = {**environment.filters, "indent": indent, "c": self.statement}

    @pass_environment
    def statement(self, environment: Environment, node: Any, level: int = 0) -> str:
        """The filter `c`, which also marks where in the spec a statement comes from."""
        text = printer.c(environment, node, level)
        source: str | None = getattr(node, "source", None)
        return text if source is None else f"{self.mark(_OPEN, Place('', field=source))}{text}{_CLOSE}"

    def mark(self, kind: str, place: Place) -> str:
        places: list[Place] = self.environment.places  # type: ignore[attr-defined]
        places.append(place)
        return f"{kind}{len(places) - 1}{_END}"

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        template, macro = stream.name or "", ""
        for token in stream:
            here = Place(template, token.lineno, macro)
            if token.type == "data":
                lines = enumerate(token.value.splitlines(keepends=True), start=token.lineno)
                marked = (self.mark(_HERE, Place(template, number, macro)) + line for number, line in lines)
                yield Token(token.lineno, "data", "".join(marked))
                continue
            if token.type == "variable_begin":
                yield Token(token.lineno, "data", self.mark(_OPEN, here))
            yield token
            if token.type == "variable_end":
                yield Token(token.lineno, "data", _CLOSE)
            if token.test("name:macro"):
                macro = stream.current.value
            elif token.test("name:endmacro"):
                macro = ""


def marked(environment: Environment, path: str, output: Output, text: str) -> list[Line]:
    """The pieces of every line of a file whose tidy text is `text`."""
    if not output.rendered:
        copied = [(Place(output.template, number),) if output.template else () for number in range(len(text))]
        # The first line of a copied file is added by the generator.
        return [
            (Piece(line, place if number else ()),)
            for number, (line, place) in enumerate(zip(text.splitlines(), copied))
        ]
    overlaid = environment.overlay(extensions=[Marks], bytecode_cache=None)  # which has the code without marks
    made = _lines(output.text(overlaid), overlaid.places)  # type: ignore[attr-defined]
    plain = "\n".join("".join(piece.text for piece in line) for line in made)
    tidy = numbered(path, plain)
    if [line for _, line in tidy] != text.splitlines():
        return [(Piece(line, (Place(output.template),)),) for line in text.splitlines()]
    return [made[number - 1] for number, _ in tidy]


def _lines(text: str, places: list[Place]) -> list[Line]:
    """The pieces of a marked text, line by line."""
    calls: list[Place] = []
    here: Place | None = None
    lines: list[list[Piece]] = [[]]

    def add(piece: str) -> None:
        for number, part in enumerate(piece.split("\n")):
            if number:
                lines.append([])
            if part:
                lines[-1].append(Piece(part, (*calls, *([here] if here else [])), here is None))

    end = 0
    for found in _MARK.finditer(text):
        add(text[end : found.start()])
        end = found.end()
        if found[1] == _HERE:
            here = places[int(found[2])]
        elif found[1] == _OPEN:
            calls.append(places[int(found[2])])
            here = None
        elif calls:
            calls.pop()
            here = None
    add(text[end:])
    return [tuple(line) for line in lines]
